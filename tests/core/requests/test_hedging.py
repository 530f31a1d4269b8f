"""`ag.limit(hedge_after=)`: if a request is late a second one is made, and the first answer wins."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad.testing import run_with_seed
from tests.core.requests.services import cancelled, chains
from tests.support.failing import Trouble
from tests.support.leaves import leaf
from tests.support.loops import one_loop
from tests.support.turns import settle, turns


class Slow:
    """A request that takes the given times, one after the other, in the seconds of its loop.

    Args:
        *times: how long each takes; an error is raised after 1 second.
    """

    def __init__(self, *times: float | BaseException) -> None:
        self.times = list(times)
        self.events: list[tuple[float, str]] = []

    async def __call__(self, item: Any = None) -> str:
        number = 1 + sum(what.endswith("begins") for _, what in self.events)
        self.note(f"{number} begins")
        taken = self.times[number - 1]
        try:
            await asyncio.sleep(1.0 if isinstance(taken, BaseException) else taken)
        except asyncio.CancelledError:
            self.note(f"{number} cancelled")
            raise
        self.note(f"{number} ends")
        if isinstance(taken, BaseException):
            raise taken
        return f"answer {number}"

    def note(self, what: str) -> None:
        self.events.append((asyncio.get_running_loop().time(), what))


def hedged(slow: Slow, **options: Any) -> Any:
    """Return the answer of a hedged call in virtual time, or its error."""

    async def main() -> Any:
        limit = ag.limit(**{"hedge_after": 5.0} | options)
        try:
            return await limit(slow)()
        except Trouble as error:
            return error
        finally:
            assert (limit.statistics().running, limit.statistics().waiting) == (0, 0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return run_with_seed(main, 0).result


def test_a_call_that_answers_in_time_is_made_once():
    slow = Slow(4.0)
    assert hedged(slow) == "answer 1"
    assert slow.events == [(0.0, "1 begins"), (4.0, "1 ends")]


def test_a_late_call_is_made_again_and_the_first_answer_wins():
    slow = Slow(100.0, 2.0)
    assert hedged(slow) == "answer 2"
    assert slow.events == [(0.0, "1 begins"), (5.0, "2 begins"), (7.0, "2 ends"), (7.0, "1 cancelled")]


def test_the_first_request_may_win_after_all():
    slow = Slow(6.0, 100.0)
    assert hedged(slow) == "answer 1"
    assert slow.events == [(0.0, "1 begins"), (5.0, "2 begins"), (6.0, "1 ends"), (6.0, "2 cancelled")]


def test_a_second_request_that_has_no_place_is_not_made():
    slow = Slow(8.0)
    assert hedged(slow, requests=1) == "answer 1"
    assert slow.events == [(0.0, "1 begins"), (8.0, "1 ends")]


def test_a_second_request_is_a_start_of_the_rate():
    slow = Slow(100.0, 2.0)
    assert hedged(slow, rate=1, per=10.0) == "answer 2"
    assert slow.events[1] == (10.0, "2 begins")


def test_a_failure_in_time_is_the_answer():
    error = Trouble()
    slow = Slow(error)
    assert hedged(slow) is error
    assert slow.events == [(0.0, "1 begins"), (1.0, "1 ends")]


def test_a_failure_is_no_answer_while_the_other_request_runs():
    slow = Slow(8.0, Trouble())
    assert hedged(slow) == "answer 1"
    assert slow.events[-1] == (8.0, "1 ends")


def test_if_both_fail_the_first_error_is_raised_with_a_note_on_the_second():
    first, second = Trouble("first"), Trouble("second")

    async def late() -> Any:
        await asyncio.sleep(5.5)
        raise first

    async def main() -> None:
        calls = [late(), Slow(second)()]
        await ag.limit(hedge_after=5.0)(lambda_of(calls))()

    with pytest.raises(Trouble) as caught:
        run_with_seed(main, 0)
    assert caught.value is first
    assert caught.value.__notes__[0].endswith("failed too: Trouble('second')")


def lambda_of(calls: list[Any]) -> Any:
    async def call() -> Any:
        return await calls.pop(0)

    return call


def test_a_caller_that_is_cancelled_cancels_both_and_waits_for_their_end():
    slow = Slow(100.0, 100.0)

    async def main() -> None:
        limit = ag.limit(requests=2, hedge_after=5.0)
        task = asyncio.ensure_future(limit(slow)())
        await asyncio.sleep(6.0)
        await cancelled(task)
        assert limit.statistics().running == 0

    run_with_seed(main, 0)
    assert sorted(slow.events[2:]) == [(6.0, "1 cancelled"), (6.0, "2 cancelled")]


def test_one_that_is_cancelled_in_line_makes_no_request():
    slow = Slow()

    async def main() -> None:
        hedging = ag.limit(requests=1, hedge_after=5.0)
        blocker = asyncio.ensure_future(hedging(asyncio.Event().wait)())
        await settle()
        task = asyncio.ensure_future(hedging(slow)())
        await settle()
        await cancelled(task)
        await cancelled(blocker)
        assert (hedging.statistics().running, hedging.statistics().waiting) == (0, 0)

    run_with_seed(main, 0)
    assert slow.events == []


async def test_a_rule_may_be_hedged():
    calls: list[Any] = []

    @ag.limit(requests=4, hedge_after=0.0)
    async def ask(grad: Any) -> Any:
        calls.append(ag.engine.current_graph_task())
        if len(calls) == 1:
            await asyncio.Event().wait()
        return grad

    x = leaf(1.0)
    await ag.backward(chains(x, 1, 1, ask))
    assert x.grad.item() == 1.0
    assert len(calls) == 2
    assert calls[0] is calls[1] is not None
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_block_cannot_be_hedged():
    with pytest.raises(ValueError, match=r"a block cannot be: decorate a function, as in @limit"):
        async with ag.limit(requests=1, hedge_after=1.0):
            pass


@one_loop
async def test_hedged_calls_leave_no_cycles(no_collector):
    @ag.limit(requests=10, hedge_after=0.0)
    async def ask(number: int) -> int:
        await turns(number % 7)
        if number % 3 == 0:
            raise Trouble
        return number

    for start in range(0, 1000, 50):
        tasks = [asyncio.create_task(ask(start + number)) for number in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::4]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    del tasks, task
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert gc.collect() < 100, "cycles were left to the collector"
