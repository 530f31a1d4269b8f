"""On any schedule a limit holds, whoever is cancelled or fails gives back what it had, and nobody is forgotten."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import asyncgrad as ag
from tests.core.engine.schedules import each_order, holds, no_task_is_left, randomness
from tests.core.engine.stepwise import Steps
from tests.core.requests.services import chains
from tests.support.failing import Trouble, raise_trouble
from tests.support.leaves import leaf
from tests.support.turns import turns


class Held:
    """What a limit has promised, held to what happens."""

    def __init__(self, random: Random, *, may_hedge: bool = False) -> None:
        self.requests = random.choice([None, 1, 2, 3])
        self.rate = random.choice([None, 1, 2]) if self.requests else random.choice([1, 2])
        self.per = 10.0
        hedge_after = random.choice([None, 0.0, 3.0]) if may_hedge else None
        rate: dict[str, Any] = {} if self.rate is None else {"rate": self.rate, "per": self.per}
        self.limit = ag.limit(requests=self.requests, hedge_after=hedge_after, **rate)
        self.running = 0
        self.starts: list[float] = []
        self.most_turns = random.randrange(4)
        self.random = random

    async def request(self, item: Any = None) -> Any:
        self.running += 1
        self.starts.append(asyncio.get_running_loop().time())
        assert self.requests is None or self.running <= self.requests
        if self.rate is not None and len(self.starts) > self.rate:
            assert self.starts[-1] - self.starts[-1 - self.rate] >= self.per
        try:
            await turns(self.random.randrange(self.most_turns + 1))
            if self.random.random() < 0.2:
                await asyncio.sleep(5.0)
        finally:
            self.running -= 1
        return item

    def is_at_rest(self) -> bool:
        now = self.limit.statistics()
        loop: Any = asyncio.get_running_loop()
        timers = [timer for timer in loop._scheduled if not timer._cancelled]
        return now.running == now.waiting == self.running == len(timers) == 0 and no_task_is_left()


@each_order
def test_the_limit_holds_and_everybody_has_a_turn(order):
    async def main():
        random = randomness()
        held = Held(random, may_hedge=True)
        ask, count = held.limit(held.request), random.randrange(1, 8)
        assert await asyncio.gather(*map(ask, range(count))) == list(range(count))
        assert len(held.starts) >= count
        assert held.is_at_rest()

    holds(main, order)


@each_order
def test_it_holds_whoever_is_cancelled_at_any_moment(order):
    async def main():
        random = randomness()
        held = Held(random, may_hedge=True)
        ask = held.limit(held.request)
        tasks = [asyncio.ensure_future(ask(number)) for number in range(6)]

        async def cancel(task: asyncio.Future[Any]) -> None:
            await turns(random.randrange(6))
            if random.random() < 0.3:
                await asyncio.sleep(random.choice([5.0, 10.0, 20.0]))
            task.cancel()

        chosen = [task for task in tasks if random.random() < 0.5]
        await asyncio.wait([*tasks, *(asyncio.ensure_future(cancel(task)) for task in chosen)])
        for number, task in enumerate(tasks):
            assert task in chosen if task.cancelled() else task.result() == number
        assert held.is_at_rest()

    holds(main, order)


@each_order
def test_a_fault_of_any_request_ends_its_caller_alone(order):
    async def main():
        random = randomness()
        held, steps = Held(random), Steps(random.randrange(6), raise_trouble)

        @held.limit
        async def ask(item: int) -> int:
            steps("begins")
            await held.request()
            steps("ends")
            return item

        results = await asyncio.gather(*map(ask, range(4)), return_exceptions=True)
        assert [isinstance(one, Trouble) for one in results].count(True) == steps.has_stopped
        assert held.is_at_rest()

    holds(main, order)


@each_order
def test_backward_passes_whose_rules_share_a_limit_end_and_one_that_is_cancelled_gives_back_its_places(order):
    async def main():
        random = randomness()
        held = Held(random, may_hedge=True)
        ask, leaves = held.limit(held.request), [leaf(1.0), leaf(1.0)]
        first, second = (asyncio.ensure_future(ag.backward(chains(x, 3, 2, ask))) for x in leaves)

        async def cancel() -> None:
            await turns(random.randrange(10))
            first.cancel()

        await asyncio.wait([first, second, asyncio.ensure_future(cancel())])
        assert second.exception() is None
        assert leaves[1].grad.item() == 3.0
        assert leaves[0].grad is None if first.cancelled() else leaves[0].grad.item() == 3.0
        assert held.is_at_rest()

    holds(main, order)


def test_of_those_who_wait_the_oldest_backward_is_next():
    async def main():
        random, order = randomness(), list[int]()
        limit = ag.limit(requests=1)
        begun = asyncio.Event()

        def rule(number: int) -> Any:
            async def ask(grad: Any) -> None:
                await begun.wait()
                await turns(random.randrange(5))
                async with limit:
                    # All the others wait by now.
                    await asyncio.sleep(1.0)
                    order.append(number)

            return ask

        tasks = [asyncio.ensure_future(ag.backward(chains(leaf(1.0), 1, 1, rule(number)))) for number in range(4)]
        await asyncio.sleep(1.0)
        begun.set()
        await asyncio.gather(*tasks)
        # Whoever came first found it free.
        assert order[1:] == sorted(order[1:])

    holds(main, "fifo")
