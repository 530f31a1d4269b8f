"""How many schedules each law of concurrency is held to, and what such tests draw and wait with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from asyncgrad.testing import explore
from tests.core.engine.stepwise import StepGraph, Steps
from tests.support.sampling import cases
from tests.support.turns import turns

__all__ = ["Alone", "SEEDS", "each_order", "holds", "no_task_is_left", "random_graph", "randomness"]

#: `make schedules` asks for a hundred times as many.
SEEDS = cases(1000)

each_order = pytest.mark.parametrize("order", ["fifo", "shuffled"])


def holds(main: Callable[[], Coroutine[Any, Any, Any]], order: Any) -> None:
    """Run a law on all the schedules; they are to differ, or else it says little."""
    assert explore(main, seeds=SEEDS, order=order).distinct > SEEDS // 20


def randomness() -> Random:
    """What the schedule's seed decides besides the schedule, and independently of it."""
    loop: Any = asyncio.get_running_loop()
    return Random(f"drawn in the test: {loop.seed}")


def random_graph(random: Random, steps: Steps | None = None) -> StepGraph:
    """A small random graph: shared sub-graphs, several roots, bodies and hooks of which most are async."""
    return StepGraph(random.getrandbits(32), Steps() if steps is None else steps, suspends=True, size=4)


def no_task_is_left() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


class Alone:
    """A body or a hook that yields several times, and notices when it overlaps itself."""

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.inside = 0
        self.runs = 0
        self.overlapped = False

    async def __call__(self, *arguments: Any) -> None:
        self.runs += 1
        self.inside += 1
        self.overlapped |= self.inside > 1
        try:
            await turns(self.count)
        finally:
            self.inside -= 1
