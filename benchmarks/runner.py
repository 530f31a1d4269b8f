"""The runner: every peer of a case is measured in every round, and ratios are taken within a round.

Absolute times drift while a machine does other things; the ratio of two times taken one right after the other
does not. So a round measures each peer once, the next round in another order, and what is reported is the
median of the rounds' ratios. No peer is timed before its gradients have been found to be the floor's.

A new topic is a file with a list `BENCHMARKS`, named in command.TOPICS. A new variant of a case is a method
`time_<what>` (a row of its own), or one more name among `params[0]` (a column of its own).
"""

from __future__ import annotations

import gc
import inspect
import itertools
import math
import statistics
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from time import perf_counter
from typing import Any, ClassVar, final

import numpy as np

import asyncgrad as ag

from .peers import PEERS, Array, Models, Peer, Problem

__all__ = ["Benchmark", "ModelBenchmark", "Result", "StepBenchmark", "run", "table"]

#: Seconds that one peer is measured for in one round; short calls are repeated to fill it.
SAMPLE_SECONDS = 0.05
#: How many calls are made before a sample is planned, unless one of them is a sample of its own.
WARMING = 8

#: Bytes that count as a large array.
LARGE = 16 * 2**20


class Benchmark(ABC):
    """Abstract: something that each of several peers can do, in asv's form.

    Every method `time_<what>` is timed, after `prepare_<what>` where there is one. It is called for each
    combination of `params`; what it returns is awaited if it can be, and a number it returns is taken as its time.
    """

    #: For each parameter its values; the first parameter is always the peer.
    params: ClassVar[tuple[Sequence[Any], ...]]
    #: What the table calls it, with a {} for each parameter after the peer.
    title: ClassVar[str]
    #: What stands above the table that its rows are in; all with the same words share a table.
    section: ClassVar[str] = ""
    #: Peers of the table that cannot run it, and why.
    lacks: ClassVar[dict[str, str]] = {}
    #: How often one sample calls what is timed; None for as often as fills SAMPLE_SECONDS.
    calls: ClassVar[int | None] = None

    @abstractmethod
    def setup(self, peer: str, *params: Any) -> None:
        """Make what is to be timed."""

    @abstractmethod
    def gradients(self) -> list[Array] | None:
        """Return the gradients that were computed last; all peers must agree on them, save one that has None."""

    @staticmethod
    def start_loop(*params: Any) -> Callable[[Coroutine[Any, Any, Any]], Any]:
        """Return what runs a coroutine on a new event loop."""
        return ag.run


class ModelBenchmark(Benchmark):
    """Abstract: the forward and backward of one model, written once for each peer."""

    models: ClassVar[Models]
    peer: Peer

    @staticmethod
    @abstractmethod
    def problem(*params: Any) -> Problem:
        """Return the arrays that the models are run on."""

    def setup(self, peer: str, *params: Any) -> None:
        """Make the peer, and the step's arrays."""
        self.peer = PEERS[peer](self.models[peer], self.problem(*params))

    def gradients(self) -> list[Array]:
        """Return what the peer's last backward computed."""
        return self.peer.gradients()

    def prepare_backward(self) -> None:
        """Run the forward that is to be differentiated."""
        self.peer.clear()
        self.peer.forward()

    def time_backward(self) -> Any:
        """Time the backward alone."""
        return self.peer.backward()


class RepeatedBenchmark(ModelBenchmark):
    """Abstract: besides, the backward of a model that is run again and again, compiled."""

    def prepare_compiled_backward(self) -> None:
        """Run the forward that is to be differentiated."""
        self.prepare_backward()

    def time_compiled_backward(self) -> Any:
        """Time the backward alone, asyncgrad's by a compiled function."""
        return self.peer.compiled_backward()


class StepBenchmark(ModelBenchmark):
    """Abstract: besides the backward alone, the forward and backward of a training step."""

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
    """Seconds of every peer in every round, for one row of the table."""

    #: The case, a colon, and what of it is timed.
    name: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    #: The peers in the order in which they took their turns, for each round.
    order: list[list[str]] = field(default_factory=list)
    topic: str = ""
    section: str = ""
    lacks: dict[str, str] = field(default_factory=dict)
    #: The day, as year-month-day.
    measured: str = ""

    @property
    def case(self) -> str:
        """Return the row's name without what is timed."""
        return self.name.rpartition(": ")[0] or self.name

    @property
    def what(self) -> str:
        """Return what of the case is timed."""
        return self.name.rpartition(": ")[2]

    def microseconds(self) -> float:
        """Return asyncgrad's median."""
        return statistics.median(self.seconds["asyncgrad"]) * 1e6

    def ratio(self, peer: str, of: str = "asyncgrad") -> float | None:
        """Return the median of one's time over the peer's, round by round; None where either took no part."""
        if peer not in self.seconds or of not in self.seconds:
            return None
        pairs = zip(self.seconds[of], self.seconds[peer], strict=True)
        return statistics.median(one / theirs for one, theirs in pairs)


def run(benchmarks: Sequence[type[Benchmark]], rounds: int, *, collect: bool = False) -> Iterator[Result]:
    """Measure the benchmarks, each case on an event loop of its own.

    Args:
        benchmarks: the classes.
        rounds: how often each peer of a case is measured.
        collect: leave the garbage collector on while measuring. By default it is off, for all peers, and has
            run just before.
    """
    # A process that has freed a large array is given memory in another way by glibc: blocks of a few 100 kB are no
    # longer fetched from the system anew each time. Any program that has loaded data is in that state.
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
    """Return every peer's time in every round, once their gradients have been found equal."""
    topic = benchmark.__module__.rpartition(".")[2]
    result = Result(
        _name(benchmark, what, params),
        topic=topic,
        section=benchmark.section,
        lacks=benchmark.lacks,
        measured=date.today().isoformat(),
    )
    measured = {}
    for peer in benchmark.params[0]:
        one = measured[peer] = benchmark()
        one.setup(peer, *params)
        await _once(one, what)
    await _check(result.name, measured)
    # What is alive by now is not collected again, which would take longer than what is measured.
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
    return result


async def _calls(one: Benchmark, what: str) -> int:
    """Return how many calls make a sample. The first may take far longer than the others: it may compile something."""
    seconds = await _once(one, what)
    for _ in range(WARMING):
        if seconds > SAMPLE_SECONDS:
            break
        seconds = min(seconds, await _once(one, what))
    return max(1, math.ceil(SAMPLE_SECONDS / seconds))


async def _once(one: Benchmark, what: str) -> float:
    """Return the seconds that one call takes, its preparation not counted."""
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


async def _check(name: str, measured: dict[str, Benchmark]) -> None:
    """Raise unless every peer computes the gradients of the floor, or of the first where there is no floor."""
    found = {}
    for peer, one in measured.items():
        await _once(one, "backward")
        found[peer] = one.gradients()
    reference = "floor" if found.get("floor") is not None else next(iter(found))
    wanted = found[reference]
    for peer, gradients in found.items():
        if gradients is None or wanted is None:
            continue
        if len(gradients) != len(wanted):
            raise AssertionError(f"{name}: {len(gradients)} gradients of {peer}, {len(wanted)} of {reference}")
        for index, (theirs, right) in enumerate(zip(gradients, wanted, strict=True)):
            difference = _difference(theirs, right)
            if not difference <= (1e-9 if right.dtype == np.float64 else 1e-4):
                shown = f"{theirs.dtype}{list(theirs.shape)}"
                raise AssertionError(
                    f"{name}: gradient {index} of {peer}, {shown}, is not that of {reference}, "
                    f"{right.dtype}{list(right.shape)}; they differ by {difference:.1e} of the largest element"
                )


def _difference(found: Array, right: Array) -> float:
    """Return by how much of the largest element two arrays differ; infinity if not even of one shape and dtype."""
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
