"""The runner: every peer of a case is measured in every round, and ratios are taken within a round.

Absolute times drift when a machine is busy; the ratio of two times that are measured right after each other does not.
So each round measures every peer once, in a different order, and the median of the rounds' ratios is reported. A peer
is timed only after its gradients have been compared with those of the floor.

A new topic is a file with a list `BENCHMARKS`, named in command.TOPICS. A new variant of a case is a method
`time_<what>` (a new row), or a new name in `params[0]` (a new column).
"""

from __future__ import annotations

import gc
import inspect
import itertools
import math
import statistics
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from time import perf_counter
from typing import Any, ClassVar, final

import numpy as np

import asyncgrad as ag

from .peers import PEERS, Array, Models, Peer, Problem

__all__ = ["Benchmark", "ModelBenchmark", "Result", "StepBenchmark", "relative_difference", "run", "table"]

#: The seconds for which one peer is measured in one round; short calls are repeated.
SAMPLE_SECONDS = 0.05
#: How many calls are made to find the number of calls in a sample, unless one of them is long enough.
WARMING = 8

#: The bytes of a large array.
LARGE = 16 * 2**20


class Benchmark(ABC):
    """Abstract: something to measure with several peers, in the form of asv.

    Every method `time_<what>` is timed for each combination of `params`, after `prepare_<what>` if there is one. An
    awaitable result is awaited; a number is taken as the time.
    """

    #: The values of each parameter; the first parameter is always the peer.
    params: ClassVar[tuple[Sequence[Any], ...]]
    #: The name in the table, with a {} for each parameter after the peer.
    title: ClassVar[str]
    #: The text above the table of its rows; benchmarks with the same text share a table.
    section: ClassVar[str] = ""
    #: Peers of the table that cannot run it, with the reason.
    lacks: ClassVar[dict[str, str]] = {}
    #: How many calls a sample has; None for as many as take SAMPLE_SECONDS.
    calls: ClassVar[int | None] = None

    @abstractmethod
    def setup(self, peer: str, *params: Any) -> Awaitable[None] | None:
        """Create the objects that the timed methods need; if an awaitable is returned, it is awaited."""

    @abstractmethod
    def gradients(self) -> list[Array] | None:
        """Return the last gradients, on which all peers must agree, or None if this peer has none."""

    def close(self) -> Awaitable[None] | None:
        """Close what `setup` has opened; if an awaitable is returned, it is awaited."""
        return None

    @staticmethod
    def start_loop(*params: Any) -> Callable[[Coroutine[Any, Any, Any]], Any]:
        """Return a function that runs a coroutine on a new event loop."""
        return ag.run


class ModelBenchmark(Benchmark):
    """Abstract: the forward and backward of one model, written once for each peer."""

    models: ClassVar[Models]
    peer: Peer

    @staticmethod
    @abstractmethod
    def problem(*params: Any) -> Problem:
        """Return the arrays for the models."""

    def setup(self, peer: str, *params: Any) -> None:
        """Create the peer with its model and arrays."""
        self.peer = PEERS[peer](self.models[peer], self.problem(*params))

    def gradients(self) -> list[Array]:
        """Return the gradients of the peer's last backward."""
        return self.peer.gradients()

    def prepare_backward(self) -> None:
        """Run the forward."""
        self.peer.clear()
        self.peer.forward()

    def time_backward(self) -> Any:
        """Time the backward alone."""
        return self.peer.backward()


class RepeatedBenchmark(ModelBenchmark):
    """Abstract: times also the compiled backward of a model that is run again and again."""

    def prepare_compiled_backward(self) -> None:
        """Run the forward."""
        self.prepare_backward()

    def time_compiled_backward(self) -> Any:
        """Time the backward alone; asyncgrad uses a compiled function."""
        return self.peer.compiled_backward()


class StepBenchmark(ModelBenchmark):
    """Abstract: times the backward alone, and the forward and backward of a training step."""

    def prepare_step(self) -> None:
        """Clear the gradients, as an optimizer does between two steps."""
        self.peer.clear()

    def time_step(self) -> Any:
        """Time forward and backward."""
        self.peer.forward()
        return self.peer.backward()


@final
@dataclass
class Result:
    """The seconds of every peer in every round, for one row of the table."""

    #: The case, a colon, and the phase that is timed.
    name: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    #: The peers in the order in which they were measured, for each round.
    order: list[list[str]] = field(default_factory=list)
    topic: str = ""
    section: str = ""
    lacks: dict[str, str] = field(default_factory=dict)
    #: The day, as year-month-day.
    measured: str = ""

    @property
    def case(self) -> str:
        """Return the name of the row without the phase."""
        return self.name.rpartition(": ")[0] or self.name

    @property
    def what(self) -> str:
        """Return the phase that is timed."""
        return self.name.rpartition(": ")[2]

    def microseconds(self) -> float:
        """Return the median of asyncgrad's times in microseconds."""
        return statistics.median(self.seconds["asyncgrad"]) * 1e6

    def ratio(self, peer: str, of: str = "asyncgrad") -> float | None:
        """Return the median over the rounds of the time of `of` over that of `peer`; None if one was not measured."""
        if peer not in self.seconds or of not in self.seconds:
            return None
        pairs = zip(self.seconds[of], self.seconds[peer], strict=True)
        return statistics.median(one / theirs for one, theirs in pairs)


def run(benchmarks: Sequence[type[Benchmark]], rounds: int, *, collect: bool = False) -> Iterator[Result]:
    """Measure the benchmarks, each case on a new event loop.

    Args:
        benchmarks: the classes.
        rounds: how often each peer of a case is measured.
        collect: leave the garbage collector on while measuring. By default it is off for all peers, and runs just
            before each measurement.
    """
    # After a large array has been freed, glibc no longer requests blocks of a few 100 kB from the system each time. Any
    # program that has loaded data is in that state.
    np.ones(LARGE, np.uint8)
    for benchmark in benchmarks:
        timed = [name.removeprefix("time_") for name in dir(benchmark) if name.startswith("time_")]
        for params, what in itertools.product(itertools.product(*benchmark.params[1:]), timed):
            print(f"measuring {_name(benchmark, what, params)} ...", file=sys.stderr)
            yield benchmark.start_loop(*params)(_measure(benchmark, what, params, rounds, collect))


def _name(benchmark: type[Benchmark], what: str, params: Sequence[Any]) -> str:
    shown = [f"{value:,}" if isinstance(value, int) else value for value in params]
    return f"{benchmark.title.format(*shown)}: {what.replace('_', ' ')}"


async def _measure(benchmark: type[Benchmark], what: str, params: Sequence[Any], rounds: int, collect: bool) -> Result:
    """Return the time of every peer in every round, after a check that their gradients are equal."""
    topic = benchmark.__module__.rpartition(".")[2]
    result = Result(
        _name(benchmark, what, params),
        topic=topic,
        section=benchmark.section,
        lacks=benchmark.lacks,
        measured=date.today().isoformat(),
    )
    measured: dict[str, Benchmark] = {}
    try:
        for peer in benchmark.params[0]:
            one = benchmark()
            await _finished(one.setup(peer, *params))
            measured[peer] = one
            await _once(one, what)
        await _check(result.name, measured, what)
        await _measure_rounds(result, benchmark, measured, what, rounds, collect)
    finally:
        for one in measured.values():
            await _finished(one.close())
    return result


async def _measure_rounds(
    result: Result, benchmark: type[Benchmark], measured: dict[str, Benchmark], what: str, rounds: int, collect: bool
) -> None:
    """Note the time of every peer in every round."""
    # Frozen objects are not visited again by the collections below, which would take longer than the measurements.
    gc.collect()
    gc.freeze()
    calls = {peer: benchmark.calls or await _calls(one, what) for peer, one in measured.items()}
    order = list(measured)
    result.seconds = {peer: [] for peer in order}
    for _ in range(rounds):
        result.order.append(list(order))
        for peer in order:
            gc.collect()
            if not collect:
                gc.disable()
            try:
                await _once(measured[peer], what)  # brings its code and data back into the caches
                total = sum([await _once(measured[peer], what) for _ in range(calls[peer])])
            finally:
                gc.enable()
            result.seconds[peer].append(total / calls[peer])
        order.append(order.pop(0))
    gc.unfreeze()


async def _finished(outcome: Awaitable[None] | None) -> None:
    if outcome is not None:
        await outcome


async def _calls(one: Benchmark, what: str) -> int:
    """Return how many calls make a sample. The first call may take far longer than others, as it may compile."""
    seconds = await _once(one, what)
    for _ in range(WARMING):
        if seconds > SAMPLE_SECONDS:
            break
        seconds = min(seconds, await _once(one, what))
    return max(1, math.ceil(SAMPLE_SECONDS / seconds))


async def _once(one: Benchmark, what: str) -> float:
    """Return the seconds of one call, without its preparation."""
    prepare = getattr(one, f"prepare_{what}", None)
    if prepare is not None:
        prepare()
    timed = getattr(one, f"time_{what}")
    begin = perf_counter()
    outcome = timed()
    if outcome is not None and inspect.isawaitable(outcome):
        outcome = await outcome
    taken = perf_counter() - begin
    return taken if outcome is None else float(outcome)


async def _check(name: str, measured: dict[str, Benchmark], what: str) -> None:
    """Raise unless every peer computes the gradients of the floor, or of the first peer if there is no floor."""
    found = {}
    for peer, one in measured.items():
        await _once(one, "backward" if hasattr(one, "time_backward") else what)
        found[peer] = one.gradients()
    reference = "floor" if found.get("floor") is not None else next(iter(found))
    wanted = found[reference]
    for peer, gradients in found.items():
        if gradients is None or wanted is None:
            continue
        if len(gradients) != len(wanted):
            raise AssertionError(f"{name}: {len(gradients)} gradients of {peer}, {len(wanted)} of {reference}")
        for index, (theirs, right) in enumerate(zip(gradients, wanted, strict=True)):
            difference = relative_difference(theirs, right)
            if not difference <= (1e-9 if right.dtype == np.float64 else 1e-4):
                shown = f"{theirs.dtype}{list(theirs.shape)}"
                raise AssertionError(
                    f"{name}: gradient {index} of {peer}, {shown}, is not that of {reference}, "
                    f"{right.dtype}{list(right.shape)}; they differ by {difference:.1e} of the largest element"
                )


def relative_difference(found: Array, right: Array) -> float:
    """Return the largest difference over the largest element; infinity if shapes or dtypes differ."""
    if found.shape != right.shape or found.dtype != right.dtype:
        return math.inf
    return float(np.max(np.abs(found - right))) / (float(np.max(np.abs(right))) or 1.0)


def table(results: Sequence[Result]) -> str:
    """Return the results as a table that reads well as text and as Markdown."""
    peers = list(dict.fromkeys(peer for result in results for peer in result.seconds if peer != "asyncgrad"))
    rows = [["case", "asyncgrad, µs", *(f"× {peer}" for peer in peers)]]
    for result in results:
        ratios = [result.ratio(peer) for peer in peers]
        cells = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        rows.append([result.name, f"{result.microseconds():,.0f}", *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rows.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
