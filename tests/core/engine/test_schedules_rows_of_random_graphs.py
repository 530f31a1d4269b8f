"""Rows of random graphs of rules of every kind: together, on any schedule, they have the bits of rows one by one."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np

import asyncgrad as ag
from tests.core.engine.locking import is_at_rest
from tests.core.engine.schedules import each_order, holds, no_task_is_left, randomness
from tests.core.rows_together import Alone, Answered, Log, Together
from tests.support.leaves import leaf
from tests.support.transforms import batched
from tests.support.turns import turns

ROWS = np.eye(4)


class Computed(Alone):
    """A rule that waits for nothing."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 1.4, None, None


class AnsweredAtOnce(Computed):
    """The same, for several rows in one call."""

    @staticmethod
    def backward_batch(ctx, grads):
        return Computed.backward(ctx, grads)


class AnsweredOften(Answered):
    """A rule for several rows, of which several calls may overlap."""

    concurrent = True


class Pair(ag.Function):
    """Two outputs, of which a row may use one."""

    @staticmethod
    def forward(ctx, x, number, log):
        ctx.number, ctx.log = number, log
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.numpy() * 2.0, np.sin(x.numpy())

    @staticmethod
    async def backward(ctx, first, second):
        await ctx.log.run(ctx.number, None)
        (x,) = ctx.saved_tensors
        found = [grad * by for grad, by in ((first, 2.0), (second, np.cos(x))) if grad is not None]
        return sum(found[1:], found[0]) if found else None, None, None

    @staticmethod
    async def backward_batch(ctx, first, second):
        return await Pair.backward(ctx, first, second)


KINDS: list[Any] = [Alone, Together, Answered, AnsweredOften, Computed, AnsweredAtOnce]


class Drawn:
    """A random graph of rules, NumPy's functions, views, checkpoints and hooks.

    Args:
        seed: decides the graph.
        log: what its rules and hooks wait by.
    """

    def __init__(self, seed: int, log: Log) -> None:
        self.random, self.log = Random(seed), log
        self.x: Any = leaf(0.3, 0.5, 0.7, 0.9)
        values = [self.x]
        for number in range(self.random.randrange(3, 8)):
            values.append(self.hooked(self.step(values, number)))
        self.out = values[-1] + 0.3 * values[-2]

    def step(self, values: list[Any], number: int) -> Any:
        random, log = self.random, self.log
        one, other, kind = random.choice(values), random.choice(values), random.choice(KINDS)
        steps = [
            lambda: one * other,
            lambda: np.sin(one) + other[::-1],
            lambda: Pair.apply(one, number, log)[random.randrange(2)],
            lambda: np.add(*Pair.apply(one, number, log)),
            lambda: ag.checkpoint(lambda x: 0.5 * kind.apply(np.sin(x), number, log), one, use_reentrant=False),
        ]
        return random.choice([*steps, *[lambda: kind.apply(one, number, log)] * 4])()

    def hooked(self, value: Any) -> Any:
        async def later(grad: Any) -> Any:
            await turns(self.log.pause())
            return grad * 0.5

        for hook in (lambda grad: grad * 2.0, later):
            if self.random.random() < 0.15:
                value.register_hook(hook)
        return value

    async def rows(self, **options: Any) -> bytes:
        (found,) = await batched([self.out], [self.x], [ROWS], allow_unused=True, **options)
        return b"" if found is None else found.numpy().tobytes()


@each_order
def test_rows_of_any_graph_have_the_bits_of_rows_one_by_one_also_after_a_cancellation(order):
    async def main():
        random = randomness()
        seed = random.randrange(30_000)
        expected = await Drawn(seed, Log(lambda: 0)).rows(concurrency=1)
        drawn, concurrency = Drawn(seed, Log(lambda: random.randrange(4))), random.choice([None, 2, 3])
        task = asyncio.ensure_future(drawn.rows(concurrency=concurrency, retain_graph=True))
        await turns(random.randrange(60))
        task.cancel()
        await asyncio.wait([task])
        assert is_at_rest(drawn.out)
        assert no_task_is_left()
        assert await drawn.rows(concurrency=concurrency) == expected
        assert is_at_rest(drawn.out)
        assert no_task_is_left()

    holds(main, order)
