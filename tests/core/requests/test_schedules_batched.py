"""On any schedule each caller of a batched function gets its own result or the error, and nothing is left behind."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad.testing import explore
from tests.core.engine.schedules import SEEDS, each_order, holds, no_task_is_left, randomness
from tests.core.engine.stepwise import Steps
from tests.core.requests.services import Service, chains
from tests.support.failing import Trouble, raise_trouble
from tests.support.leaves import leaf
from tests.support.turns import turns


def total(item: Any) -> float:
    return float(np.sum(item))


def options(random: Random) -> dict[str, Any]:
    return {
        "max_size": random.choice([None, 1, 2, 5]),
        "max_wait": random.choice([None, 0.0, 1.0]),
        "key": random.choice([None, total]),
    }


def batched(random: Random, service: Service) -> Any:
    """A batched function of any options, and what it asks."""
    chosen = options(random)

    async def ask(items: list[Any]) -> Any:
        results = await service.double(items)
        if chosen["key"] is None:
            return results
        return {total(item): result for item, result in zip(items, results, strict=True)}

    return ag.batched(**chosen)(ask)


def is_at_rest(ask: Any, service: Service) -> bool:
    now = ask.statistics()
    assert now.requests == now.full + now.max_wait + now.idle == len(service.sizes)
    assert now.items == sum(service.sizes)
    return now.waiting == now.running == service.running == 0 and no_task_is_left()


@each_order
def test_each_caller_gets_its_own_result(order):
    async def main():
        random, service = randomness(), Service()
        ask = batched(random, service)

        async def call(number: int) -> None:
            await turns(random.randrange(3))
            assert await ask(number) == 2 * number

        await asyncio.gather(*map(call, range(random.randrange(1, 12))))
        assert max(service.sizes) <= (ask.max_size or 12)
        assert is_at_rest(ask, service)

    holds(main, order)


def test_a_backward_makes_one_request_for_each_layer():
    async def main():
        random, service = randomness(), Service()
        ask, x = ag.batched(service.double), leaf(1.0)
        count, depth = random.randrange(1, 6), random.randrange(1, 5)
        await ag.backward(chains(x, count, depth, ask))
        assert service.sizes == [count] * depth
        assert x.grad.item() == count * 2.0**depth

    # Only where callbacks keep their order, which every loop does: else woken rules end at any time. There is not much
    # besides that may differ.
    assert explore(main, seeds=SEEDS, order="fifo").distinct > 1


@each_order
def test_callers_that_are_cancelled_at_any_moment_leave_the_others_their_results(order):
    async def main():
        random, service = randomness(), Service()
        ask = batched(random, service)
        tasks = [asyncio.ensure_future(ask(number)) for number in range(random.randrange(1, 8))]

        async def cancel(task: asyncio.Future[Any]) -> None:
            await turns(random.randrange(8))
            task.cancel()

        chosen = [task for task in tasks if random.random() < 0.5]
        await asyncio.wait([*tasks, *(asyncio.ensure_future(cancel(task)) for task in chosen)])
        for number, task in enumerate(tasks):
            assert task.cancelled() if task.cancelled() else task.result() == 2 * number
            assert task in chosen or not task.cancelled()
        assert is_at_rest(ask, service)

    holds(main, order)


@each_order
def test_a_backward_that_is_cancelled_at_any_moment_leaves_no_request(order):
    async def main():
        random, service = randomness(), Service()
        ask, leaves = batched(random, service), [leaf(1.0), leaf(1.0)]
        first, second = (asyncio.ensure_future(ag.backward(chains(x, 2, 2, ask))) for x in leaves)

        async def cancel() -> None:
            await turns(random.randrange(12))
            first.cancel()

        await asyncio.wait([first, second, asyncio.ensure_future(cancel())])
        assert second.exception() is None
        assert leaves[1].grad.item() == 8.0
        assert leaves[0].grad is None if first.cancelled() else leaves[0].grad.item() == 8.0
        assert is_at_rest(ask, service)

    holds(main, order)


@each_order
def test_a_fault_of_any_request_ends_those_that_need_it_and_no_other(order):
    async def main():
        random = randomness()
        steps = Steps(random.randrange(6), raise_trouble)
        service = Service(before=lambda items: steps("a request"))
        ask = batched(random, service)
        leaves = [leaf(1.0) for _ in range(3)]
        tasks = [asyncio.ensure_future(ag.backward(chains(x, 2, 2, ask))) for x in leaves]
        await asyncio.wait(tasks)
        for task, x in zip(tasks, leaves, strict=True):
            error = task.exception()
            assert x.grad is None if error is not None else x.grad.item() == 8.0
            assert error is None or (isinstance(error, Trouble) and "in AwaitingBackward" in error.__notes__[0])
        assert steps.has_stopped == any(task.exception() is not None for task in tasks)
        assert is_at_rest(ask, service)

    holds(main, order)


@each_order
def test_a_fault_of_any_call_ends_its_backward_alone(order):
    async def main():
        random, service = randomness(), Service()
        ask = batched(random, service)
        steps = Steps(random.randrange(8), raise_trouble)

        async def rule(grad: Any) -> Any:
            steps("a call")
            result = await ask(grad)
            steps("its result")
            return result

        leaves = [leaf(1.0), leaf(1.0)]
        tasks = [
            asyncio.ensure_future(ag.backward(chains(x, 2, 2, each)))
            for x, each in zip(leaves, (rule, ask), strict=True)
        ]
        await asyncio.wait(tasks)
        assert isinstance(tasks[0].exception(), Trouble) == steps.has_stopped
        assert tasks[1].exception() is None
        assert leaves[1].grad.item() == 8.0
        assert is_at_rest(ask, service)

    holds(main, order)
