"""Training steps: each library takes its turn in each round, and ratios are computed within a round.

A sample is a number of consecutive steps with one wait for the device at the end, so it measures throughput. The
gradients of all libraries are compared before any library is timed.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from time import perf_counter
from typing import final

import numpy as np

from ..peers import Array
from ..runner import Result
from .cases import CASES, TINY, Case
from .hardware import use_gpu
from .training import LIBRARIES, Training, start_torch, takes_part
from .work import Work, profile_work

__all__ = ["Budget", "Steps", "measure_steps", "measure_work"]

#: The allowed norm of the difference between two libraries' gradients, relative to the norm of one. The libraries add
#: in different orders, and an input of relu near 0 may have another sign, so single elements may differ by more.
TOLERANCE = 5e-3
#: The number of steps before the first sample, which compile kernels and fill pools.
WARMING = 5
#: The number of steps during which the peak of memory is measured.
PEAK_STEPS = 3
#: The libraries whose work on the GPU is recorded.
RECORDED = ("asyncgrad", "asyncgrad, compiled", "torch")
#: The fewest rounds of a case, even if they exceed its budget.
MIN_ROUNDS = 3


@final
@dataclass(frozen=True)
class Budget:
    """How long to measure: the rounds of a case, the seconds of a sample, and the time limit of a case."""

    rounds: int
    sample_seconds: float
    case_seconds: float

    @classmethod
    def of(cls, *, quick: bool) -> Budget:
        """Return the budget of a quick run, which takes less than 3 minutes, or of a full one, which takes about 6."""
        return cls(7, 0.1, 6.0) if quick else cls(11, 0.25, 15.0)


@final
@dataclass
class Steps:
    """The measurements of training steps: the times of all cases, and their memory."""

    results: list[Result] = field(default_factory=list)
    #: By case and library: the peak of the device's memory that a training uses, in bytes.
    memory: dict[str, dict[str, int]] = field(default_factory=dict)


async def measure_steps(device: str, budget: Budget, *, alone: bool, quick: bool, words: Iterable[str] = ()) -> Steps:
    """Measure all cases; on the cpu, where they would take hours, measure tiny ones instead.

    Args:
        device: the name of the device.
        budget: how long to measure.
        alone: leave PyTorch out.
        quick: leave compiled autograd out.
        words: measure only cases whose name has one of these.
    """
    steps = Steps()
    if device != "cpu":
        use_gpu(device)
    if not alone:
        start_torch(device)
    # This run makes each library allocate what it keeps, such as workspaces, so the first case does not include it.
    await _measure(TINY[0], device, Budget(1, 0.0, 0.0), Steps(), alone=alone, quick=quick)
    for case in _select_cases(device, words):
        print(f"measuring {case.name} ...", file=sys.stderr, flush=True)
        await _measure(case, device, budget, steps, alone=alone, quick=quick)
        print(_summary(steps.results[-1]), file=sys.stderr, flush=True)
    return steps


def _summary(result: Result) -> str:
    """Return a line with the median and the extremes of each library, to print while other cases are measured."""
    return "  " + ", ".join(
        f"{name} {statistics.median(times) * 1e3:.3f} ms ({min(times) * 1e3:.3f} to {max(times) * 1e3:.3f})"
        for name, times in result.seconds.items()
    )


def _select_cases(device: str, words: Iterable[str]) -> list[Case]:
    parts = [word.lower() for word in words]
    cases = TINY if device == "cpu" else CASES
    return [case for case in cases if not parts or any(part in case.name.lower() for part in parts)]


async def _measure(case: Case, device: str, budget: Budget, steps: Steps, *, alone: bool, quick: bool) -> None:
    trainings: dict[str, Training] = {}
    expected: list[Array] = []
    problem, memory = case.draw(), steps.memory.setdefault(case.name, {})
    for name, library in LIBRARIES.items():
        if not takes_part(library, case, alone=alone, quick=quick):
            continue
        gc.collect()
        before = 0 if device == "cpu" else library.allocated_bytes()
        training = trainings[name] = library(case, problem, device)
        await training.differentiate()
        expected = expected or training.gradients()
        _check(f"{case.name}, {name}", training.gradients(), expected)
        await _run(training, WARMING)
        if device != "cpu":
            with library.peak_memory() as watched:
                await _run(training, PEAK_STEPS)
            memory[name] = watched.peak - before
    result = Result(case.name, topic="gpu", measured=date.today().isoformat())
    await _time(trainings, budget, result)
    steps.results.append(result)


def _check(name: str, found: list[Array], expected: list[Array]) -> None:
    """Raise AssertionError unless the gradients agree with those of the first library."""
    for index, (ours, right) in enumerate(zip(found, expected, strict=True)):
        difference = _relative_norm(ours, right)
        if not difference <= TOLERANCE:
            raise AssertionError(
                f"{name}: gradient {index}, {ours.dtype}{list(ours.shape)}, differs from that of the first library, "
                f"{right.dtype}{list(right.shape)}, by {difference:.1e} of its norm; at most {TOLERANCE:.1e} is allowed"
            )


def _relative_norm(found: Array, right: Array) -> float:
    """Return the norm of the difference, relative to the norm of `right`; infinity if shapes or dtypes differ."""
    if found.shape != right.shape or found.dtype != right.dtype:
        return math.inf
    return float(np.linalg.norm(found - right) / (np.linalg.norm(right) or 1.0))


async def _run(training: Training, count: int) -> float:
    """Run `count` steps and wait for the device once; return the seconds per step."""
    begin = perf_counter()
    for _ in range(count):
        await training.step()
    await training.synchronize()
    return (perf_counter() - begin) / count


async def _time(trainings: dict[str, Training], budget: Budget, result: Result) -> None:
    """Measure each library in each round, and add the times to `result`."""
    counts = {
        name: max(2, math.ceil(budget.sample_seconds / await _run(training, 2))) for name, training in trainings.items()
    }
    order = list(trainings)
    result.seconds = {name: [] for name in order}
    # The collections below do not visit frozen objects; with them, a collection would take longer than a short sample.
    gc.collect()
    gc.freeze()
    deadline = perf_counter() + budget.case_seconds
    while len(result.order) < budget.rounds and (len(result.order) < MIN_ROUNDS or perf_counter() < deadline):
        result.order.append(list(order))
        for name in order:
            gc.collect()
            gc.disable()
            try:
                await _run(trainings[name], 1)  # loads its code and data into the caches
                result.seconds[name].append(await _run(trainings[name], counts[name]))
            finally:
                gc.enable()
        order.append(order.pop(0))
    gc.unfreeze()


async def measure_work(device: str, words: Iterable[str] = (), *, quick: bool) -> dict[str, dict[str, Work]]:
    """Return the work of the GPU in a step, by case and library.

    Call this after all other measurements: code that has been profiled stays slower.

    Args:
        device: the name of the GPU.
        words: record only cases whose name has one of these.
        quick: leave compiled autograd out.

    Raises:
        NotMeasuredError: PyTorch's profiler cannot record it here; the message says why.
    """
    found: dict[str, dict[str, Work]] = {}
    for case in _select_cases(device, words):
        print(f"recording the kernels of {case.name} ...", file=sys.stderr, flush=True)
        problem = case.draw()
        for name in RECORDED:
            library = LIBRARIES[name]
            if takes_part(library, case, alone=False, quick=quick):
                training = library(case, problem, device)
                await training.differentiate()
                await _run(training, WARMING)
                found.setdefault(case.name, {})[name] = await profile_work(training)
    return found
