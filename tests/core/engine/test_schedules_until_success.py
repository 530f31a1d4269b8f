"""On any schedule a backward that failed or was cancelled is tried again, and asks only what has not been answered."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ReleasedGraphError
from tests.core.engine.schedules import each_order, holds, no_task_is_left, random_graph, randomness
from tests.core.engine.states import graph_state, state_of
from tests.core.engine.stepwise import Steps
from tests.support.failing import Trouble, raise_trouble
from tests.support.graphs import nodes_below
from tests.support.leaves import leaf
from tests.support.turns import turns

UNTIL: Any = "until_success"


async def cancelled_at_some_time(task: Any, random: Random) -> bool:
    """Cancel a task after some turns; return whether that came in time."""
    await turns(random.randrange(10))
    task.cancel()
    await asyncio.wait([task])
    return bool(task.cancelled())


@each_order
def test_a_backward_that_fails_and_is_cancelled_some_times_happens_once(order):
    async def main():
        random, steps = randomness(), Steps()
        graph = random_graph(random, steps)
        nodes = nodes_below(*graph.root_tensors)

        def state() -> list[Any]:
            return [state_of(*graph.watched.tensors), graph_state(nodes)]

        def backward() -> Any:
            return ag.backward(graph.root_tensors, graph.root_grads, retain_graph=UNTIL)

        before, has_happened = state(), False
        for _ in range(3):
            steps.arm(random.choice([None, random.randrange(20)]), raise_trouble)
            task = asyncio.ensure_future(backward())
            if not await cancelled_at_some_time(task, random) and task.exception() is None:
                has_happened = True
                break
            assert isinstance(None if task.cancelled() else task.exception(), (Trouble, type(None)))
            assert state() == before
        if not has_happened:
            steps.arm(None, raise_trouble)
            await backward()
        graph.expect_backward()
        assert graph.watched.actual() == graph.watched.expected()
        assert no_task_is_left()

    holds(main, order)


class Asked(ag.Function):
    """x * 3, of which the gradient is asked for."""

    is_memoized = True

    @staticmethod
    def forward(ctx, x, service):
        ctx.service = service
        ctx.save_for_backward(x)
        return x.numpy() * 3.0

    @staticmethod
    async def backward(ctx, grad):
        await ctx.service()
        return np.multiply(grad, 3.0), None


class Service:
    """Answers after some turns, or fails."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.asked = 0
        self.has_answered = False
        self.is_reliable = False

    async def __call__(self) -> None:
        assert not self.has_answered
        self.asked += 1
        await turns(self._random.randrange(4))
        if not self.is_reliable and self._random.random() < 0.2:
            raise Trouble
        self.has_answered = True


def six(x: Any, services: list[Any]) -> Any:
    """Six calls, some below others."""
    total = np.multiply(x, 0.1)
    for index, service in enumerate(services):
        total = np.add(np.multiply(total, 0.7), Asked.apply(total if index % 2 else np.multiply(x, x), service))
    return np.multiply(total, total).sum()


async def at_once() -> None:
    """Answer."""


@each_order
def test_what_has_answered_in_any_try_is_never_asked_again(order):
    clean = leaf(0.3, 0.7)
    sync.backward(six(clean, [at_once] * 6))
    assert clean.grad is not None
    expected = clean.grad.numpy().tobytes()

    async def main():
        random, x = randomness(), leaf(0.3, 0.7)
        services = [Service(random) for _ in range(6)]
        loss = six(x, services)
        tries = 0
        while True:
            for service in services:
                service.is_reliable = tries > 3
            task = asyncio.ensure_future(loss.backward(retain_graph=UNTIL))
            tries += 1
            if tries <= 3:
                await cancelled_at_some_time(task, random)
            else:
                await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                break
            assert x.grad is None
        assert all(service.has_answered for service in services)
        assert x.grad.numpy().tobytes() == expected
        assert no_task_is_left()
        with pytest.raises(ReleasedGraphError):
            await loss.backward(retain_graph=UNTIL)

    holds(main, order)


class AskedForRow(ag.Function):
    """x * 3, of which the gradient of each row is asked for by its number."""

    is_memoized = True

    @staticmethod
    def forward(ctx, x, services):
        ctx.services = services
        return x.numpy() * 3.0

    @staticmethod
    async def backward(ctx, grad):
        await ctx.services[int(np.flatnonzero(grad.numpy())[0])]()
        return np.multiply(grad, 3.0), None


class AskedForRowsAtOnce(AskedForRow):
    concurrent = True


def test_a_row_that_a_rule_has_answered_for_in_any_try_is_never_asked_for_again():
    async def main():
        random, x = randomness(), leaf(0.3, 0.7, 0.9)
        services = [[Service(random) for _ in range(3)] for _ in range(2)]
        out = x
        for of_rule in services:
            out = random.choice([AskedForRow, AskedForRowsAtOnce]).apply(out, of_rule)
        options: Any = {"is_grads_batched": True, "concurrency": random.choice([None, 1, 2]), "retain_graph": UNTIL}
        tries = 0
        while True:
            for service in services[0] + services[1]:
                service.is_reliable = tries > 3
            task = asyncio.ensure_future(ag.grad(out, [x], np.eye(3), **options))
            tries += 1
            if tries <= 3:
                await cancelled_at_some_time(task, random)
            else:
                await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                break
        (found,) = task.result()
        assert found.tolist() == (9.0 * np.eye(3)).tolist()
        assert all(service.has_answered for service in services[0] + services[1])
        assert no_task_is_left()

    holds(main, "shuffled")
