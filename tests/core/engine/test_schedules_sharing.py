"""On any schedule backward passes that share a graph run each of its nodes alone, and every wait for a node ends."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ReleasedGraphError
from asyncgrad.graph import Edge, GradientEdge, InputMetadata, Node
from tests.core.engine.locking import Watch, is_at_rest, saving
from tests.core.engine.schedules import Alone, each_order, holds, no_task_is_left, randomness
from tests.support.failing import Trouble
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.turns import turns


async def begin(*arguments: Any, **options: Any) -> None:
    """Run a backward that begins when a request comes in."""
    await turns(1)
    await ag.backward(*arguments, **options)


class Releasing(Node):
    """Doubles the gradient by what it saved; its release may not come while its body runs, nor its body after it."""

    def __init__(self, x: ag.Tensor, watch: Watch) -> None:
        super().__init__([Edge(*ag.graph.get_gradient_edge(x))], [InputMetadata(x.shape, x.dtype, x.device)])
        self.watch = watch
        self.saved: float | None = 2.0

    async def apply(self, grads: tuple[Any, ...]) -> Any:
        if self.saved is None:
            raise ReleasedGraphError("released")
        await self.watch.wait(None)
        return (grads[0] * self.saved,)

    def release_variables(self) -> None:
        self.saved = None
        self.watch.released()


class Shared:
    """Four watched ways to double a gradient, in a chain or two of them side by side, and a fifth at the root."""

    factor = 32.0

    def __init__(self, random: Random) -> None:
        self.x = leaf(3.0)
        self.watches = [Watch() for _ in range(5)]
        kinds = [self.function, self.saving, self.hooked, self.post_hooked]
        random.shuffle(kinds)
        first, second, third, fourth = (
            lambda y, kind=kind, watch=watch: kind(y, watch)
            for kind, watch in zip(kinds, self.watches[:4], strict=True)
        )
        middle = first(self.x)
        out = third(second(middle)) if random.random() < 0.5 else np.add(second(middle), third(middle))
        self.root = GradientEdge(Releasing(fourth(out), self.watches[4]), 0)

    def grad(self) -> float:
        return 0.0 if self.x.grad is None else self.x.grad.item()

    def is_alone(self) -> bool:
        return all(watch.overlaps == [] for watch in self.watches)

    @staticmethod
    def function(x: ag.Tensor, watch: Watch) -> Any:
        return np.multiply(awaiting(x, watch.wait), 2.0)

    @staticmethod
    def saving(x: ag.Tensor, watch: Watch) -> Any:
        return saving(x, watch, awaits=True)

    @staticmethod
    def hooked(x: ag.Tensor, watch: Watch) -> Any:
        out = np.multiply(x, 2.0)
        out.register_hook(watch.wait)
        return out

    @staticmethod
    def post_hooked(x: ag.Tensor, watch: Watch) -> Any:
        async def hook(outputs: Any, grads: Any) -> None:
            await watch.wait(None)

        out = np.multiply(x, 2.0)
        out.grad_fn.register_hook(hook)
        return out


# One graph, several backward passes.


@each_order
def test_two_backwards_over_one_graph_that_is_kept_give_whole_sums_and_run_each_node_alone(order):
    async def main():
        graph = Shared(randomness())
        await asyncio.gather(*[begin(graph.root, np.full(1, each), retain_graph=True) for each in (1.0, 10.0)])
        assert graph.grad() == graph.factor * 11.0
        assert graph.is_alone()
        assert [watch.runs for watch in graph.watches] == [2] * 5
        assert is_at_rest(graph.root)

    holds(main, order)


@each_order
def test_of_two_backwards_over_one_graph_that_is_released_at_the_root_one_has_happened(order):
    async def main():
        graph = Shared(randomness())
        factors = [1.0, 10.0]
        ends = await asyncio.gather(*[begin(graph.root, np.full(1, each)) for each in factors], return_exceptions=True)
        assert sorted(type(end).__name__ for end in ends) == ["NoneType", "ReleasedGraphError"]
        assert graph.grad() == graph.factor * factors[ends.index(None)]
        assert graph.is_alone()
        assert is_at_rest(graph.root)
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_of_two_backwards_over_branches_that_are_released_just_those_that_succeed_have_happened(order):
    """Each may have released a branch that the other needs; then neither succeeds."""

    async def main():
        x, watches = leaf(3.0), [Watch(), Watch()]
        left, right = (saving(np.multiply(x, 1.0), watch, awaits=True) for watch in watches)
        out = np.add(left, right)
        factors = [1.0, 10.0]
        ends = await asyncio.gather(*[begin(out, np.full(1, each)) for each in factors], return_exceptions=True)
        assert {type(end) for end in ends} <= {type(None), ReleasedGraphError}
        total = sum(factor for factor, end in zip(factors, ends, strict=True) if end is None)
        assert (0.0 if x.grad is None else x.grad.item()) == 4.0 * total
        assert [watch.overlaps for watch in watches] == [[], []]
        assert is_at_rest(out)
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_a_backward_that_fails_in_a_shared_node_or_is_cancelled_leaves_the_others_whole(order):
    async def main():
        random, x = randomness(), leaf(1.0)
        alone, fails = Alone(1), random.random() < 0.5

        async def body(grad):
            await alone(grad)
            if fails and grad.item() == 1.0:
                raise Trouble

        out = np.multiply(awaiting(awaiting(x, body), Alone(1)), 2.0)
        tasks = [asyncio.ensure_future(begin(out, np.full(1, each), retain_graph=True)) for each in (0.5, 5.0, 50.0)]
        if not fails:
            await turns(random.randrange(8))
            tasks[0].cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert ends[1:] == [None, None]
        assert type(ends[0]) in ({Trouble} if fails else {asyncio.CancelledError, type(None)})
        assert x.grad.item() == 110.0 + (ends[0] is None)
        assert not alone.overlapped
        assert is_at_rest(out)
        assert no_task_is_left()

    holds(main, order)


# Who waits for a node.


@each_order
def test_a_backward_that_is_cancelled_while_it_waits_for_a_node_hands_the_lock_on(order):
    async def main():
        random, x, alone = randomness(), leaf(1.0), Alone(1)
        out = awaiting(x, alone)
        factors = [1.0, 10.0, 100.0, 1000.0]
        tasks = [asyncio.ensure_future(begin(out, np.full(1, each), retain_graph=True)) for each in factors]
        cancelled = random.sample(range(4), 2)
        for index in cancelled:
            await turns(random.randrange(4))
            tasks[index].cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(end is None for index, end in enumerate(ends) if index not in cancelled)
        assert x.grad.item() == sum(factor for factor, end in zip(factors, ends, strict=True) if end is None)
        assert not alone.overlapped
        assert is_at_rest(out)
        assert no_task_is_left()

    holds(main, order)


class RandomRing:
    """Shared nodes, each of whose bodies runs a backward through the next one when the gradient is not 1."""

    def __init__(self, size: int, random: Random, *, meets: bool) -> None:
        self.random = random
        self.leaves = [leaf(1.0) for _ in range(size)]
        #: Where each body waits until all have begun, so that each holds what the one before it needs.
        self.barrier = asyncio.Barrier(size) if meets else None
        self.outs = [awaiting(x, self._body(index)) for index, x in enumerate(self.leaves)]

    def _body(self, index: int) -> Any:
        before, after = self.random.randrange(3), self.random.randrange(2)

        async def body(grad):
            if grad.item() == 1.0:
                await turns(1)
                return
            if self.barrier is not None:
                await self.barrier.wait()
            await turns(before)
            await ag.backward(self.outs[(index + 1) % len(self.outs)], np.ones(1), retain_graph=True)
            await turns(after)

        return body

    def start(self) -> list[asyncio.Future[None]]:
        return [asyncio.ensure_future(begin(out, np.full(1, 100.0), retain_graph=True)) for out in self.outs]

    def grads(self) -> list[float]:
        return [0.0 if x.grad is None else x.grad.item() for x in self.leaves]


@each_order
@pytest.mark.parametrize("size", [2, 3])
def test_bodies_that_each_nest_over_the_node_of_the_next_all_end(order, size):
    async def main():
        random = randomness()
        ring = RandomRing(size, random, meets=random.random() < 0.5)
        await asyncio.gather(*ring.start())
        assert ring.grads() == [101.0] * size
        assert is_at_rest(*ring.outs)

    holds(main, order)


@each_order
def test_a_ring_of_three_backwards_of_which_one_is_cancelled_ends(order):
    async def main():
        random = randomness()
        ring = RandomRing(3, random, meets=False)
        tasks, which = ring.start(), random.randrange(3)
        await turns(random.randrange(6))
        tasks[which].cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(end is None for index, end in enumerate(ends) if index != which)
        expected = [101.0] * 3
        if ends[which] is not None:
            assert type(ends[which]) is asyncio.CancelledError
            expected[which] -= 100.0
            expected[(which + 1) % 3] -= 1.0
        assert ring.grads() == expected
        assert is_at_rest(*ring.outs)
        assert no_task_is_left()

    holds(main, order)
