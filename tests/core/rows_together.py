"""Rules that wait, for tests of rows that run together; each notices how many of its runs overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import asyncgrad as ag
from tests.support.failing import Trouble
from tests.support.turns import turns

__all__ = ["Alone", "Answered", "Log", "Together", "row_of"]


def row_of(grad: Any) -> int:
    """Which row a gradient is of, that is zero but in one place."""
    return int(np.flatnonzero(grad.numpy())[0])


class Log:
    """What rules do.

    Args:
        pause: for how many turns a run waits.
        failing: the rows that fail, each at the rule of that number.
    """

    def __init__(self, pause: Callable[[], int] = lambda: 1, failing: dict[int, int] | None = None) -> None:
        self.pause = pause
        self.failing = failing or {}
        #: For each rule, how many of its runs overlap now, and at most.
        self.inside: Counter[int] = Counter()
        self.most: Counter[int] = Counter()
        #: For each rule, how many rows each call of its `backward_batch` had.
        self.batches: dict[int, list[int]] = {}

    async def run(self, number: int, row: int | None) -> None:
        """Wait, as the rule of that number."""
        self.inside[number] += 1
        self.most[number] = max(self.most[number], self.inside[number])
        try:
            await turns(self.pause())
            if row is not None and self.failing.get(row) == number:
                raise Trouble(f"row {row}")
        finally:
            self.inside[number] -= 1


class Alone(ag.Function):
    """x * x * 0.7, with a derivative that waits; one row at a time."""

    @staticmethod
    def forward(ctx, x, number, log):
        ctx.number, ctx.log = number, log
        ctx.save_for_backward(x)
        return x.numpy() * x.numpy() * 0.7

    @staticmethod
    async def backward(ctx, grad):
        await ctx.log.run(ctx.number, row_of(grad))
        (x,) = ctx.saved_tensors
        return grad * x * 1.4, None, None


class Together(Alone):
    """The same, for several rows at once."""

    concurrent = True


class Answered(Alone):
    """The same, for all rows that are ready in one call."""

    @staticmethod
    async def backward_batch(ctx, grads):
        ctx.log.batches.setdefault(ctx.number, []).append(len(grads.numpy()))
        await ctx.log.run(ctx.number, None)
        (x,) = ctx.saved_tensors
        return grads * x * 1.4, None, None
