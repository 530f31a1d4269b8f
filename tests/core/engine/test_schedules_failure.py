"""On any schedule a backward that fails, is cancelled or runs out of time has not happened, and leaves no task."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.core.engine.schedules import Alone, each_order, holds, no_task_is_left, random_graph, randomness
from tests.core.engine.states import graph_state, state_of
from tests.core.engine.stepwise import Steps
from tests.support.failing import Trouble, raise_trouble
from tests.support.functions import awaiting
from tests.support.graphs import nodes_below
from tests.support.leaves import leaf
from tests.support.turns import turns


class Attempt:
    """A backward over a random graph, and what there was before."""

    def __init__(self, random: Random, steps: Steps | None = None) -> None:
        self.graph = random_graph(random, steps)
        self.nodes = nodes_below(*self.graph.root_tensors)
        self.before = self.state()

    def state(self) -> list[Any]:
        return [state_of(*self.graph.watched.tensors), graph_state(self.nodes)]

    def start(self) -> asyncio.Future[None]:
        return asyncio.ensure_future(self.backward())

    async def backward(self) -> None:
        await ag.backward(self.graph.root_tensors, self.graph.root_grads, retain_graph=True)

    def has_happened(self) -> bool:
        self.graph.expect_backward()
        return self.graph.watched.actual() == self.graph.watched.expected()

    def has_not_happened(self) -> bool:
        return self.state() == self.before and no_task_is_left()


@each_order
def test_a_backward_of_which_any_body_or_hook_fails_has_not_happened(order):
    async def main():
        random = randomness()
        steps = Steps(random.randrange(20), raise_trouble)
        attempt = Attempt(random, steps)
        try:
            await attempt.backward()
        except Trouble:
            assert attempt.has_not_happened()
        else:
            assert not steps.has_stopped
            assert attempt.has_happened()

    holds(main, order)


@each_order
def test_a_backward_that_is_cancelled_at_any_moment_has_not_happened_or_has_in_whole(order):
    async def main():
        random = randomness()
        attempt = Attempt(random)
        task = attempt.start()

        async def cancel() -> None:
            await turns(random.randrange(10))
            task.cancel()

        await asyncio.wait([task, asyncio.ensure_future(cancel())])
        assert attempt.has_not_happened() if task.cancelled() else attempt.has_happened()

    holds(main, order)


@each_order
def test_a_backward_that_fails_while_it_is_being_cancelled_has_not_happened(order):
    async def main():
        random, tasks = randomness(), list[Any]()

        def cancel_and_fail(name: str) -> None:
            asyncio.get_running_loop().call_soon(tasks[0].cancel)
            raise Trouble

        steps = Steps(random.randrange(8), cancel_and_fail)
        attempt = Attempt(random, steps)
        tasks.append(attempt.start())
        await asyncio.wait(tasks)
        if steps.has_stopped:
            assert tasks[0].cancelled() or isinstance(tasks[0].exception(), Trouble)
            assert attempt.has_not_happened()
        else:
            assert attempt.has_happened()

    holds(main, order)


@each_order
def test_bodies_that_clean_up_have_ended_before_the_backward_that_failed_has(order):
    async def main():
        random, bodies = randomness(), [Alone(3) for _ in range(3)]
        x, begun, ended = leaf(1.0), [], []

        def cleaning(body: Alone) -> Any:
            async def call(grad: Any) -> None:
                try:
                    await body(grad)
                except asyncio.CancelledError:
                    begun.append(body)
                    await turns(2)
                    ended.append(body)
                    raise

            return call

        async def fails(grad: Any) -> None:
            await turns(random.randrange(4))
            raise Trouble

        out = awaiting(leaf(1.0), fails)
        for body in bodies:
            out = np.add(out, awaiting(np.multiply(x, 2.0), cleaning(body)))
        with pytest.raises(Trouble):
            await ag.backward(out)
        assert len(ended) == len(begun)
        assert [body.inside for body in bodies] == [0] * 3
        assert x.grad is None
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_a_backward_is_cut_off_just_where_its_longest_path_takes_longer_than_there_is_time(order):
    async def main():
        random, x = randomness(), leaf(1.0)
        longest = 0.0
        out = None
        for _ in range(3):
            # Sums of these are exact, so that the clock shows them as they are.
            pauses = [random.randrange(1, 8) * 0.25 for _ in range(random.randint(1, 2))]
            longest = max(longest, sum(pauses))
            branch = x
            for pause in pauses:
                branch = awaiting(branch, lambda grad, pause=pause: asyncio.sleep(pause))
            out = branch if out is None else np.add(out, branch)
        # Never at the same time as the end.
        limit = random.randrange(16) * 0.25 + 0.125
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit):
                await ag.backward(out)
        except TimeoutError:
            assert limit < longest
            assert loop.time() == limit
            assert x.grad is None
            assert no_task_is_left()
        else:
            assert limit > longest
            assert loop.time() == longest
            assert x.grad.item() == 3.0

    holds(main, order)


#: Their sum depends on the order of addition, so it tells whether a change was taken out and the rest added again.
FACTORS = [0.1, 1e16, -1e16]


@each_order
def test_of_three_backwards_at_once_over_the_same_leaf_just_those_that_succeed_have_happened(order):
    async def main():
        random, x, added = randomness(), leaf(1.0), []

        async def backward(factor: float, fails: bool) -> None:
            async def body(grad: Any) -> None:
                await turns(2)
                if fails:
                    raise Trouble

            await turns(1)
            # The leaf gets its gradient while the body waits.
            await ag.backward(np.add(awaiting(leaf(1.0), body), np.multiply(x, factor)))

        x.register_hook(lambda grad: added.append(grad.item()))

        fates = [random.choice(["succeeds", "fails", "is cancelled"]) for _ in FACTORS]
        tasks = [
            asyncio.ensure_future(backward(factor, fate == "fails"))
            for factor, fate in zip(FACTORS, fates, strict=True)
        ]
        await turns(random.randrange(4))
        for task, fate in zip(tasks, fates, strict=True):
            if fate == "is cancelled":
                task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        expected = None
        for factor in added:
            if ends[FACTORS.index(factor)] is None:
                expected = factor if expected is None else expected + factor
        assert (None if x.grad is None else x.grad.item()) == expected
        for end, fate in zip(ends, fates, strict=True):
            assert (end is None) if fate == "succeeds" else (fate == "is cancelled" or type(end) is Trouble)
        assert no_task_is_left()

    holds(main, order)
