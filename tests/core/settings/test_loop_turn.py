"""The turn of a loop: it ends when the budget is spent, the loop is left alone then, and who waits goes on in order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from asyncgrad.core.settings.loop_turn import HERE, LoopTurn, keep_pace
from tests.support.clocks import TickingClock, hand_in
from tests.support.loops import one_loop
from tests.support.settings import loop_budget
from tests.support.turns import settle, turns_given

BUDGET = 10.0


@pytest.fixture(autouse=True)
def clock() -> Iterator[TickingClock]:
    """A clock that stands still unless a test moves it."""
    made = TickingClock(0.0)
    with hand_in(made), loop_budget(BUDGET):
        yield made


async def spend(clock: TickingClock, ticks: float = 2 * BUDGET) -> None:
    """Work for so long, in a turn that has begun, or that begins here."""
    await keep_pace()
    clock.now += ticks


async def spend_and_wait(clock: TickingClock) -> None:
    await spend(clock)
    await keep_pace()


async def test_work_within_the_budget_never_suspends(clock):
    for _ in range(10):
        step = spend(clock, 1.0)
        with pytest.raises(StopIteration):
            step.send(None)


async def test_a_spent_budget_leaves_the_loop_alone_for_three_iterations(clock):
    for _ in range(3):
        assert await turns_given(spend_and_wait(clock)) == 3


async def test_a_turn_of_the_loop_gives_a_new_budget(clock):
    await spend(clock)
    await asyncio.sleep(0)
    assert await turns_given(keep_pace()) == 0


@pytest.mark.parametrize("ticks", [BUDGET / 8, 2 * BUDGET])
async def test_those_who_wait_go_on_first_in_first_out(clock, ticks):
    went_on = []

    async def wait(number: int) -> None:
        await keep_pace()
        clock.now += ticks
        went_on.append(number)

    async def main() -> None:
        await spend(clock)
        await asyncio.gather(*[wait(number) for number in range(100)])
        assert went_on == list(range(100))

    await main()


async def test_long_work_of_many_tasks_takes_turns(clock):
    went_on = []

    async def work(name: str) -> None:
        for _ in range(5):
            await spend(clock)
            went_on.append(name)

    async def main() -> None:
        await asyncio.gather(*[work(name) for name in "abc"])
        # The first one waits ahead of those that have not begun.
        assert "".join(went_on) == "a" + 4 * "abc" + "bc"

    await main()


async def test_no_more_work_runs_in_an_iteration_of_the_loop_than_fits_into_the_budget(clock):
    work_in = [0.0]

    async def work() -> None:
        await keep_pace()
        clock.now += BUDGET / 4
        work_in[-1] += BUDGET / 4

    async def count_iterations() -> None:
        while True:
            work_in.append(0.0)
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_iterations())
    await asyncio.gather(*[work() for _ in range(200)])
    counting.cancel()
    await asyncio.wait([counting])
    # The budget, and the piece of work in which it ends.
    assert max(work_in) <= BUDGET + BUDGET / 4
    assert sum(work_in) == 200 * BUDGET / 4


async def test_those_who_come_while_the_loop_is_left_alone_do_not_keep_others_waiting(clock):
    went_on = False

    async def first() -> None:
        nonlocal went_on
        await keep_pace()
        went_on = True

    await spend(clock)
    tasks = [asyncio.ensure_future(first())]
    for _ in range(5):
        tasks.append(asyncio.ensure_future(spend(clock, 0.0)))
        await asyncio.sleep(0)
    assert went_on
    await asyncio.gather(*tasks)


async def test_one_that_is_cancelled_while_it_waits_holds_nobody_up(clock):
    spending = asyncio.ensure_future(spend(clock))
    tasks = [asyncio.ensure_future(spend(clock)) for _ in range(9)]
    await spending
    for task in tasks[::2]:
        task.cancel()
    await settle()
    assert [task.cancelled() for task in tasks] == [True, False] * 4 + [True]
    assert all(task.done() for task in tasks)


async def test_the_turn_of_a_loop_that_has_ended_delays_no_work_on_the_next(clock):
    await spend(clock)

    assert await turns_given(keep_pace()) == 0


def test_loops_in_two_threads_have_turns_of_their_own(clock):
    async def main() -> int:
        await spend(clock)
        barrier.wait(60)
        # Both callbacks run at once.
        given = [await turns_given(spend_and_wait(clock)) for _ in range(5)]
        return sum(given)

    barrier = threading.Barrier(2)
    found: list[int] = []

    def in_thread() -> None:
        with hand_in(clock), loop_budget(BUDGET):
            found.append(asyncio.run(main()))

    threads = [threading.Thread(target=in_thread) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert found == [15, 15]


def test_without_an_event_loop_nothing_waits(clock):
    for _ in range(2):
        with pytest.raises(StopIteration):
            spend(clock).send(None)


@one_loop
async def test_a_turn_puts_one_callback_into_the_loop_however_much_work_there_is(monkeypatch):
    loop, calls = asyncio.get_running_loop(), []
    call_soon = loop.call_soon

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return call_soon(*args, **kwargs)

    monkeypatch.setattr(loop, "call_soon", counted)
    for _ in range(1000):
        await keep_pace()
    assert len(calls) == 1


@one_loop
async def test_a_loop_whose_turns_are_spent_without_end_has_few_callbacks(clock, monkeypatch):
    calls = [0]

    async def work() -> None:
        for _ in range(50):
            await spend(clock)

    loop = asyncio.get_running_loop()
    call_soon = loop.call_soon

    def counted(callback: Any, *args: Any, **kwargs: Any) -> Any:
        calls[-1] += isinstance(getattr(callback, "__self__", None), LoopTurn)
        return call_soon(callback, *args, **kwargs)

    async def count_iterations() -> None:
        while True:
            calls.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(loop, "call_soon", counted)
    counting = asyncio.ensure_future(count_iterations())
    await asyncio.gather(*[work() for _ in range(10)])
    counting.cancel()
    # The two of the iteration, and one for a turn that is spent in it and one for who is woken too late.
    assert max(calls) <= 4


async def test_the_callback_of_a_turn_keeps_no_value_alive(clock):
    await keep_pace()
    assert not len(HERE.turn._context)


@pytest.mark.parametrize("number", range(1, 12))
def test_an_interrupted_loop_that_goes_on_wakes_those_who_wait(clock, monkeypatch, number):
    """A KeyboardInterrupt ends the run of a loop in the callback of a turn, and the same loop runs again."""
    note_iteration = LoopTurn._note_iteration
    left = number

    def interrupted(*args: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        note_iteration(*args)

    monkeypatch.setattr(LoopTurn, "_note_iteration", interrupted)

    async def main() -> list[bool]:
        nonlocal tasks
        tasks = tasks or [asyncio.ensure_future(spend(clock)) for _ in range(4)]
        await settle()
        later = [asyncio.ensure_future(spend(clock)) for _ in range(4)]
        await settle()
        return [task.done() for task in tasks + later]

    tasks: list[asyncio.Future[None]] = []
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        first = loop.create_task(main())
        with contextlib.suppress(KeyboardInterrupt):
            loop.run_until_complete(first)
        loop.run_until_complete(first)
        done = loop.run_until_complete(main())

    assert done == [True] * 8
    assert left <= 0
