"""On any schedule backward passes nest: over the same graph, over others, and one that fails ends what hung on it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np

import asyncgrad as ag
from tests.core.engine.locking import is_at_rest
from tests.core.engine.schedules import each_order, holds, no_task_is_left, randomness
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import turns


@each_order
def test_backwards_nested_over_the_very_graph_that_they_are_called_in_all_count(order):
    async def main():
        random, x = randomness(), leaf(3.0)
        left = random.randint(1, 3)
        begun = 1

        async def nests(grad: Any) -> None:
            nonlocal left, begun
            await turns(1)
            if left:
                left -= 1
                begun += 1
                await ag.backward(out, retain_graph=True)
            await turns(1)

        middle = np.multiply(x, 2.0)
        middle.register_hook(nests)
        out = np.multiply(np.add(awaiting(middle, nests), middle), 5.0)
        await asyncio.gather(*[ag.backward(out, retain_graph=True) for _ in range(2)])
        assert x.grad.item() == 20.0 * (begun + 1)
        assert left == 0
        assert is_at_rest(out)
        assert no_task_is_left()

    holds(main, order)


class Tree:
    """A graph whose bodies nest backward passes over graphs made meanwhile, all down to one leaf.

    Args:
        random: decides its shape.
        depth: how deep they nest.
    """

    def __init__(self, random: Random, depth: int) -> None:
        self.random = random
        self.x = leaf(1.0)
        #: What the nested passes have added to the gradient of `x`.
        self.total = 0.0
        self.root = self.graph(depth, 1.0)

    def graph(self, depth: int, factor: float) -> Any:
        with ag.enable_grad():
            out = awaiting(np.multiply(self.x, factor), self.body(depth))
            return np.add(out, awaiting(leaf(1.0), self.body(depth))) if self.random.random() < 0.5 else out

    def body(self, depth: int) -> Any:
        async def body(grad: Any) -> None:
            await turns(self.random.randrange(3))
            if depth:
                factor = float(self.random.randint(1, 9))
                await ag.backward(self.graph(depth - 1, factor))
                self.total += factor
            await turns(1)

        return body


@each_order
def test_backwards_nested_over_other_graphs_all_count(order):
    async def main():
        tree = Tree(randomness(), 2)
        await ag.backward(tree.root)
        assert tree.x.grad.item() == tree.total + 1.0
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_an_outer_body_goes_on_where_it_catches_that_an_inner_one_failed_which_has_not_happened(order):
    async def main():
        random, x, w = randomness(), leaf(1.0), leaf(1.0)
        fates = [random.random() < 0.5 for _ in range(3)]
        caught = []

        async def inner(index: int) -> None:
            async def body(grad: Any) -> None:
                await turns(random.randrange(3))
                if fates[index]:
                    raise Trouble

            with ag.enable_grad():
                out = np.add(np.multiply(w, 10.0**index), awaiting(awaiting(leaf(1.0), body), lambda grad: turns(1)))
            await ag.backward(out)

        def nesting(index: int) -> Any:
            async def body(grad: Any) -> None:
                try:
                    await inner(index)
                except Trouble:
                    caught.append(index)
                await turns(1)

            return body

        out = np.multiply(x, 2.0)
        for index in range(3):
            out = np.add(out, awaiting(np.multiply(x, 3.0), nesting(index)))
        await ag.backward(out)
        assert sorted(caught) == [index for index in range(3) if fates[index]]
        assert x.grad.item() == 11.0
        expected = sum(10.0**index for index in range(3) if not fates[index])
        assert (None if w.grad is None else w.grad.item()) == (expected or None)
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_a_failure_that_nobody_catches_or_a_cancellation_ends_all_levels_and_none_has_happened(order):
    async def main():
        random, x, w = randomness(), leaf(1.0), leaf(1.0)
        w.grad = before = ag.tensor([7.0])
        bad = random.choice([None, 0, 1, 2])

        def level(depth: int) -> Any:
            async def body(grad: Any) -> None:
                await turns(random.randrange(2))
                if depth < 2:
                    await ag.backward(level(depth + 1))
                await turns(1)
                if depth == bad:
                    raise Trouble

            with ag.enable_grad():
                return np.add(np.multiply(w, 2.0), awaiting(np.multiply(x, 3.0), body))

        task = asyncio.ensure_future(ag.backward(level(0)))
        await turns(random.randrange(10))
        if bad is None:
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            assert bad is None
            assert (x.grad.item(), w.grad.item()) == (9.0, 13.0)
        else:
            assert task.cancelled() if bad is None else isinstance(task.exception(), Trouble)
            assert x.grad is None
            assert w.grad is before
            assert w.grad.item() == 7.0
        assert no_task_is_left()

    holds(main, order)


def deepening_at_random(levels: int, gate: asyncio.Event, random: Random, ran: list[int], waiting: list[int]) -> Any:
    """At each level a body waits for the same event, and a node below it tells that its driver has gone on."""

    async def waits(grad: Any) -> None:
        await turns(random.randrange(3))
        waiting.append(levels)
        await gate.wait()

    async def nests(grad: Any) -> None:
        await turns(random.randrange(2))
        await ag.backward(deepening_at_random(levels - 1, gate, random, ran, waiting))

    def tells(grad: Any) -> None:
        task = ag.engine.current_graph_task()
        assert task is not None
        ran.append(task.reentrant_depth)

    with ag.enable_grad():
        out = awaiting(calling(leaf(1.0), tells), waits)
        return np.add(out, awaiting(leaf(1.0), nests)) if levels else out


def test_of_nested_backwards_that_are_ready_at_once_the_deepest_runs_first():
    """In fifo order only: shuffled, what one event wakes is not ready at once."""

    async def main():
        random = randomness()
        gate, ran, waiting = asyncio.Event(), list[int](), list[int]()
        levels = random.randint(1, 3)
        task = asyncio.ensure_future(ag.backward(deepening_at_random(levels, gate, random, ran, waiting)))
        while len(waiting) <= levels:
            await turns(1)
        assert ran == []
        gate.set()
        await task
        assert ran == list(reversed(range(levels + 1)))

    holds(main, "fifo")


def test_of_branches_that_nest_to_different_depths_the_deepest_that_is_ready_runs_first():
    async def main():
        random = randomness()
        gate, ran, waiting = asyncio.Event(), list[int](), list[int]()
        depths = [random.randint(0, 2), random.randint(0, 2)]

        def branch(levels: int) -> Any:
            async def nests(grad: Any) -> None:
                await turns(random.randrange(2))
                await ag.backward(deepening_at_random(levels, gate, random, ran, waiting))

            return awaiting(leaf(1.0), nests)

        task = asyncio.ensure_future(ag.backward(np.add(branch(depths[0]), branch(depths[1]))))
        while len(waiting) < sum(depths) + 2:
            await turns(1)
        gate.set()
        await task
        assert ran == sorted(ran, reverse=True)
        assert sorted(ran) == sorted(level + 1 for depth in depths for level in range(depth + 1))

    holds(main, "fifo")
