"""The benchmarks of a run: for each workload a step, and a step with Adam, by all sides that take part."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, final

import asyncgrad as ag

from ..peers import Array
from ..runner import Benchmark
from .sides import SIDES, Side
from .trainers import TRAINERS
from .workloads import TINY, WORKLOADS, Workload

__all__ = ["WITH_ADAM", "Compiling", "benchmarks_of", "run_alone", "warm"]

#: By the name of a row: the seconds that each side took to compile.
Compiling = dict[str, dict[str, float]]

Sides = Mapping[str, Callable[[Workload], Side]]

#: What the names of rows end with that are steps of a training.
WITH_ADAM = ", with Adam"

#: What is left out of a quick run: their compilers take minutes.
SLOW = ("torch.compile", "PyTensor")


class StepOfSides(Benchmark):
    """Abstract: a step of one workload, taken by each side."""

    workload: ClassVar[Workload]
    sides: ClassVar[Sides]
    #: Where the seconds of compiling are noted.
    compiling: ClassVar[dict[str, float]]
    side: Side

    async def setup(self, peer: str, *params: Any) -> None:
        """Make the side, and take the steps in which it compiles."""
        self.side = self.sides[peer](self.workload)
        await self.side.compile()
        if self.side.compiling is not None:
            self.compiling[peer] = self.side.compiling

    def gradients(self) -> list[Array]:
        """Return what all sides must agree on."""
        return self.side.results()

    def prepare_step(self) -> None:
        """Clear the gradients."""
        self.side.clear()

    def time_step(self) -> Any:
        """Time the step."""
        return self.side.step()

    @staticmethod
    def start_loop(*params: Any) -> Callable[[Coroutine[Any, Any, Any]], Any]:
        """Return a function that runs a coroutine without workers."""
        return run_alone


def run_alone(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns, run on a new event loop, without workers."""
    with ag.workers(0):
        return ag.run(coroutine)


def benchmarks_of(
    words: Sequence[str], *, quick: bool, compiling: Compiling, workloads: Sequence[Workload] = WORKLOADS
) -> list[type[Benchmark]]:
    """Return the benchmarks whose title has one of the words, in lower case; all if there are no words.

    Args:
        words: parts of titles.
        quick: leave out whose compilers take minutes.
        compiling: where the seconds of compiling are noted.
        workloads: the workloads.
    """
    found: list[type[Benchmark]] = []
    for sides, suffix in ((SIDES, ""), (TRAINERS, WITH_ADAM)):
        for workload in workloads:
            title = workload.title + suffix
            if (suffix and not workload.is_trained) or "asyncgrad" not in sides:
                continue
            if not words or any(word.lower() in title.lower() for word in words):
                found.append(_benchmark(title, workload, sides, quick, compiling.setdefault(title, {})))
    return found


def _benchmark(shown: str, measured: Workload, among: Sides, quick: bool, noted: dict[str, float]) -> type[Benchmark]:
    taking_part = {
        name: side for name, side in among.items() if name not in measured.lacks and not (quick and name in SLOW)
    }

    @final
    class Step(StepOfSides):
        title: ClassVar[str] = shown
        params = (tuple(taking_part),)
        lacks: ClassVar[dict[str, str]] = dict(measured.lacks)
        workload = measured
        sides = taking_part
        compiling = noted

    return Step


async def warm(*, quick: bool, sides: Sides = SIDES) -> None:
    """Take steps of a tiny model by each side, so that what a process needs once is no part of any model's time."""
    for name, side in sides.items():
        if not (quick and name in SLOW):
            await side(TINY).compile()
