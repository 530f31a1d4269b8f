"""asyncio's own tools keep their laws on every schedule: cancellation, timeouts, groups, queues, locks."""

from __future__ import annotations

import asyncio
import contextvars
import sys

import pytest

from asyncgrad.testing import explore, run_with_seed
from tests.support.sampling import cases

orders = pytest.mark.parametrize("order", ["fifo", "shuffled"])


async def cancelled_task():
    log = []

    async def waits():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            log.append("cleaned up")
            raise

    task = asyncio.create_task(waits())
    await asyncio.sleep(1)
    assert task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["cleaned up"]
    assert asyncio.get_running_loop().time() == 1.0


async def task_cancelled_at_any_step():
    async def waits():
        for _ in range(5):
            await asyncio.sleep(0)

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    was_pending = task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() == was_pending


async def timeout_that_expires():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await asyncio.Event().wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(5), 1)
    assert asyncio.get_running_loop().time() == 3.0


async def timeout_that_does_not():
    async with asyncio.timeout(2):
        await asyncio.sleep(1)
        await asyncio.to_thread(int)
    assert await asyncio.wait_for(asyncio.sleep(1, "result"), 2) == "result"
    assert asyncio.get_running_loop().time() == 2.0


async def group_that_fails():
    ended = []

    async def child(number):
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(number)
            if number == 2:
                raise KeyError(number)
        finally:
            ended.append(number)

    async def all_children():
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(child(number))

    with pytest.raises(ExceptionGroup) as caught:
        await all_children()
    assert [type(error) for error in caught.value.exceptions] == [KeyError]
    assert sorted(ended) == [0, 1, 2, 3, 4]
    assert asyncio.get_running_loop().time() == 2.0


async def gather_in_order():
    async def slow(number):
        for _ in range(number % 3):
            await asyncio.sleep(0)
        return number

    assert await asyncio.gather(*(slow(number) for number in range(6))) == [0, 1, 2, 3, 4, 5]
    results = await asyncio.gather(slow(1), asyncio.wait_for(asyncio.Event().wait(), 1), return_exceptions=True)
    assert results[0] == 1
    assert isinstance(results[1], TimeoutError)


async def queue_in_order():
    queue = asyncio.Queue(maxsize=2)
    got = []

    async def produce():
        for item in range(6):
            await queue.put(item)
            await asyncio.sleep(0)

    async def consume():
        while True:
            got.append(await queue.get())
            await asyncio.sleep(0)
            queue.task_done()

    async with asyncio.TaskGroup() as group:
        consumer = group.create_task(consume())
        await produce()
        await queue.join()
        consumer.cancel()
    assert got == list(range(6))


async def event_wakes_all():
    event = asyncio.Event()
    woken = set()

    async def waits(number):
        await asyncio.sleep(0)
        await event.wait()
        woken.add(number)

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(waits(number))
        await asyncio.sleep(0)
        event.set()
    assert woken == {0, 1, 2, 3}


async def locks_exclude():
    inside = 0

    async def enter(guard, most):
        nonlocal inside
        await asyncio.sleep(0)
        async with guard:
            inside += 1
            assert inside <= most
            await asyncio.sleep(0)
            inside -= 1

    for guard, most in ((asyncio.Lock(), 1), (asyncio.Semaphore(2), 2), (asyncio.Condition(), 1)):
        await asyncio.gather(*(enter(guard, most) for _ in range(4)))


async def shielded_work_goes_on():
    done = asyncio.Event()

    async def work():
        await asyncio.sleep(2)
        done.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await asyncio.shield(work())
    await done.wait()
    assert asyncio.get_running_loop().time() == 2.0


async def barrier_waits_for_all():
    barrier = asyncio.Barrier(3)
    arrived = 0

    async def arrive():
        nonlocal arrived
        await asyncio.sleep(0)
        arrived += 1
        await barrier.wait()
        assert arrived == 3

    await asyncio.gather(*(arrive() for _ in range(3)))


LAWS = [
    cancelled_task,
    task_cancelled_at_any_step,
    timeout_that_expires,
    timeout_that_does_not,
    group_that_fails,
    gather_in_order,
    queue_in_order,
    event_wakes_all,
    locks_exclude,
    shielded_work_goes_on,
    barrier_waits_for_all,
]


@pytest.mark.slow
@orders
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_asyncios_tools_keep_their_laws(law, order):
    explore(law, seeds=cases(200), order=order)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_run_and_replay():
    async def child(number):
        await asyncio.sleep(0)
        return number

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        tasks = [asyncio.create_task(child(number)) for number in range(3)]
        assert await asyncio.gather(*tasks) == [0, 1, 2]

    explore(main, seeds=cases(100))
    assert run_with_seed(main, 7) == run_with_seed(main, 7)


def test_context_variables_are_each_tasks_own():
    name = contextvars.ContextVar("name")

    async def child(own):
        name.set(own)
        for _ in range(3):
            await asyncio.sleep(0)
            assert name.get() == own

    async def main():
        await asyncio.gather(*(child(number) for number in range(4)))

    explore(main, seeds=cases(100))
