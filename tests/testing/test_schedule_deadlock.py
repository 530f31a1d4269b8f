"""A ScheduleLoop reports a deadlock at once, with what each task waits for."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from math import inf

import pytest

from asyncgrad.errors import AsyncgradError, DeadlockError
from asyncgrad.testing import ScheduleLoop, explore, run_with_seed

both_orders = pytest.mark.parametrize("order", ["fifo", "shuffled"])


async def two_locks():
    first, second = asyncio.Lock(), asyncio.Lock()

    async def left():
        async with first:
            await asyncio.sleep(0)
            async with second:
                pass

    async def right():
        async with second:
            await asyncio.sleep(0)
            async with first:
                pass

    await asyncio.gather(left(), asyncio.create_task(right(), name="on the right"))


@pytest.mark.slow
@both_orders
def test_a_deadlock_is_reported_with_what_each_task_waits_for(order):
    with pytest.raises(DeadlockError) as caught:
        explore(two_locks, seeds=50, order=order)

    report = str(caught.value)
    assert isinstance(caught.value, (AsyncgradError, RuntimeError))
    assert "3 tasks wait" in report
    assert "two_locks#1" in report
    assert "`async with second:`, in asyncio's Lock.acquire" in report
    assert "`async with first:`, in asyncio's Lock.acquire" in report
    assert "(on the right)" in report
    assert "for right#2, left#3" in report or "for left#3, right#2" in report


@pytest.mark.slow
def test_a_wait_for_an_infinite_time_is_a_deadlock():
    async def main():
        await asyncio.sleep(inf)

    with pytest.raises(DeadlockError, match=r"main#1.*sleep\(inf\)"):
        run_with_seed(main, 0)


@pytest.mark.slow
def test_a_future_that_nobody_resolves_is_a_deadlock():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError, match=r"1 task waits:\n  main#1.*for a Future\n"):
        run_with_seed(main, 0)


async def ignores_cancellation():
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@pytest.mark.slow
def test_a_task_that_ignores_its_cancellation_is_reported():
    with pytest.raises(DeadlockError, match="cancelled, and has not ended"):
        run_with_seed(ignores_cancellation, 0)


@pytest.mark.slow
def test_what_a_deadlock_has_told_is_not_told_again(caplog):
    with (
        pytest.raises(DeadlockError),
        asyncio.Runner(loop_factory=lambda: ScheduleLoop(0)) as runner,
    ):
        runner.run(ignores_cancellation())
    gc.collect()

    assert caplog.messages == []


def test_a_loop_that_never_ends_is_reported():
    async def main():
        while True:  # noqa: ASYNC110 - what is tested
            await asyncio.sleep(1)

    with (
        asyncio.Runner(loop_factory=lambda: ScheduleLoop(0, max_turns=1000)) as runner,
        pytest.raises(DeadlockError, match=r"no end after 1001 turns.*\n.*main#1"),
    ):
        runner.run(main())
