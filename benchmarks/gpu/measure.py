"""Training steps: every library takes its turn in every round, and ratios are taken within a round.

A sample is a number of steps, one after the other, with one wait for the device at its end: what is measured is how
many steps a library trains in a second. The gradients of all libraries are compared before any is timed.
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

from ..peers import Array, torch
from ..runner import Result
from .cases import CASES, TINY, Case
from .hardware import use_gpu
from .training import LIBRARIES, Training, start_torch, takes_part

__all__ = ["Budget", "Steps", "count_kernels", "measure_steps"]

#: The norm of the difference between two libraries' gradients, over that of one. They add in different orders, and an
#: input of relu that is next to 0 may have another sign, so that single elements differ by more.
TOLERANCE = 5e-3
#: The steps before the first sample, in which kernels are compiled and pools are filled.
WARMING = 5
#: The steps over which the peak of memory is taken.
PEAK_STEPS = 3
#: The libraries whose kernels are counted.
COUNTED = ("asyncgrad", "asyncgrad, compiled", "torch")
#: The fewest rounds of a case, however long it takes.
FEWEST_ROUNDS = 3


@final
@dataclass(frozen=True)
class Budget:
    """How long to measure: rounds and samples, and the seconds after which a case ends with the rounds that it has."""

    rounds: int
    sample_seconds: float
    case_seconds: float

    @classmethod
    def of(cls, *, quick: bool) -> Budget:
        """Return the budget of a run of 3 minutes, or of 8."""
        return cls(5, 0.1, 7.0) if quick else cls(11, 0.25, 25.0)


@final
@dataclass
class Steps:
    """The measurements of training steps: the seconds of each case, and its bytes by its name."""

    results: list[Result] = field(default_factory=list)
    #: By case and library, the most of the device's memory that its steps use.
    memory: dict[str, dict[str, int]] = field(default_factory=dict)


async def measure_steps(device: str, budget: Budget, *, alone: bool, quick: bool, words: Iterable[str] = ()) -> Steps:
    """Measure all cases; on the cpu, where they would take hours, tiny ones.

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
    # What a library makes once, such as workspaces, is made here, and is no part of the memory of the first case.
    await _measure(TINY[0], device, Budget(1, 0.0, 0.0), Steps(), alone=alone, quick=quick)
    for case in _chosen(device, words):
        print(f"measuring {case.name} ...", file=sys.stderr, flush=True)
        await _measure(case, device, budget, steps, alone=alone, quick=quick)
        print(_in_words(steps.results[-1]), file=sys.stderr, flush=True)
    return steps


def _in_words(result: Result) -> str:
    """Return a result in one line, for who waits for the rest."""
    medians = {name: statistics.median(times) * 1e3 for name, times in result.seconds.items()}
    return "  " + ", ".join(f"{name} {milliseconds:.3f} ms" for name, milliseconds in medians.items())


def _chosen(device: str, words: Iterable[str]) -> list[Case]:
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
    """Raise unless the gradients are those of the first library."""
    for index, (ours, right) in enumerate(zip(found, expected, strict=True)):
        difference = _relative_norm(ours, right)
        if not difference <= TOLERANCE:
            raise AssertionError(
                f"{name}: gradient {index}, {ours.dtype}{list(ours.shape)}, is not that of the first library, "
                f"{right.dtype}{list(right.shape)}; they differ by {difference:.1e} of its norm"
            )


def _relative_norm(found: Array, right: Array) -> float:
    """Return the norm of the difference over that of `right`; infinity if shapes or dtypes differ."""
    if found.shape != right.shape or found.dtype != right.dtype:
        return math.inf
    return float(np.linalg.norm(found - right) / (np.linalg.norm(right) or 1.0))


async def _run(training: Training, count: int) -> float:
    """Return the seconds of one of `count` steps, with one wait for the device after the last."""
    begin = perf_counter()
    for _ in range(count):
        await training.step()
    await training.synchronize()
    return (perf_counter() - begin) / count


async def _time(trainings: dict[str, Training], budget: Budget, result: Result) -> None:
    """Fill in the seconds of every library in every round."""
    counts = {
        name: max(2, math.ceil(budget.sample_seconds / await _run(training, 2))) for name, training in trainings.items()
    }
    order = list(trainings)
    result.seconds = {name: [] for name in order}
    # Frozen objects are not visited again by the collections below, which would take longer than short samples.
    gc.collect()
    gc.freeze()
    deadline = perf_counter() + budget.case_seconds
    while len(result.order) < budget.rounds and (len(result.order) < FEWEST_ROUNDS or perf_counter() < deadline):
        result.order.append(list(order))
        for name in order:
            gc.collect()
            gc.disable()
            try:
                await _run(trainings[name], 1)  # brings its code and data back into the caches
                result.seconds[name].append(await _run(trainings[name], counts[name]))
            finally:
                gc.enable()
        order.append(order.pop(0))
    gc.unfreeze()


async def count_kernels(device: str, words: Iterable[str] = ()) -> dict[str, dict[str, int]]:
    """Return how many kernels a step launches, by case and library, as PyTorch's profiler sees them.

    It sees those of all libraries. Call it after all else has been measured: what has been profiled once is slower.
    """
    found: dict[str, dict[str, int]] = {}
    for case in _chosen(device, words):
        print(f"counting the kernels of {case.name} ...", file=sys.stderr, flush=True)
        problem = case.draw()
        for name in COUNTED:
            library = LIBRARIES[name]
            if takes_part(library, case, alone=False, quick=False):
                training = library(case, problem, device)
                await training.differentiate()
                await _run(training, WARMING)
                found.setdefault(case.name, {})[name] = await _kernels(training)
    return found


async def _kernels(training: Training) -> int:
    profiler = torch.profiler
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        await training.step()
        await training.synchronize()
    on_gpu = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(not name.startswith(("Memcpy", "Memset")) for name in on_gpu)
