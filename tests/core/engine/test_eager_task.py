"""EagerTask is a task as asyncio knows them: timeouts, groups and cancellation inside a body act on that body."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.engine.eager_task import EagerTask
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.loops import LOOP_KINDS, loop_factory, on_each_loop
from tests.support.turns import Held, settle


def stepped(coroutine: Any, name: str = "body") -> EagerTask:
    loop = asyncio.get_running_loop()
    return EagerTask(coroutine, loop=loop, context=contextvars.copy_context(), name=name)


# In a backward.


async def test_a_timeout_inside_a_body_ends_that_body_only():
    held, timed_out = Held(), []

    async def times_out(grad):
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            timed_out.append(True)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    x = leaf(1.0)
    out = np.add(awaiting(x, times_out), awaiting(leaf(1.0), held))
    backward = asyncio.ensure_future(out.backward())
    await held.begun.wait()
    await settle()
    held.let_go.set()
    await backward
    assert timed_out == [True]
    assert not held.cancelled
    assert x.grad.item() == 1.0


async def test_a_timeout_that_a_body_does_not_catch_fails_its_backward():
    async def times_out(grad):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    x = leaf(1.0)

    with pytest.raises(TimeoutError) as caught:
        await ag.backward(np.add(np.multiply(x, 2.0), awaiting(leaf(1.0), times_out)))

    assert caught.value.__notes__[0].startswith("in AwaitingBackward")
    assert x.grad is None


async def test_a_task_group_inside_a_body_runs_and_cancels_its_own_tasks_only():
    held = Held()
    cancelled: list[str] = []

    async def waits():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("sibling in the group")
            raise

    async def fails():
        await asyncio.sleep(0)
        raise ValueError("in the group")

    async def groups(grad):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(waits())
                group.create_task(fails())
        except* ValueError:
            cancelled.append("caught")

    x = leaf(1.0)
    out = np.add(awaiting(x, groups), awaiting(leaf(1.0), held))
    backward = asyncio.ensure_future(out.backward())
    await held.begun.wait()
    await settle()
    assert cancelled == ["sibling in the group", "caught"]
    held.let_go.set()
    await backward
    assert x.grad.item() == 1.0


async def test_a_task_group_inside_a_body_is_cancelled_with_it():
    begun = asyncio.Event()
    cancelled: list[bool] = []

    async def waits():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async def groups(grad):
        async with asyncio.TaskGroup() as group:
            group.create_task(waits())

    backward = asyncio.ensure_future(awaiting(leaf(1.0), groups).backward())
    await begun.wait()
    backward.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backward
    assert cancelled == [True]


async def test_gather_wait_for_and_shield_work_inside_a_body():
    async def value(number):
        await asyncio.sleep(0)
        return number

    async def body(grad):
        one, two = await asyncio.gather(value(1.0), value(2.0))
        three = await asyncio.wait_for(value(3.0), 10)
        four = await asyncio.shield(asyncio.ensure_future(value(4.0)))
        return np.multiply(grad, one + two + three + four)

    x = leaf(1.0)

    await ag.backward(awaiting(x, body))

    assert x.grad.item() == 10.0


async def test_locks_and_queues_work_between_bodies():
    lock, queue = asyncio.Lock(), asyncio.Queue()
    inside = 0

    async def body(grad):
        nonlocal inside
        async with lock:
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            await queue.put(grad.item())
            inside -= 1

    x = leaf(1.0)
    out = np.multiply(x, 0.0)
    for factor in (1.0, 2.0, 3.0):
        out = np.add(out, np.multiply(awaiting(x, body), factor))
    await ag.backward(out)
    assert sorted(queue.get_nowait() for _ in range(3)) == [1.0, 2.0, 3.0]


async def test_work_in_threads_can_be_awaited_inside_a_body():
    async def body(grad):
        return await asyncio.to_thread(lambda: grad.numpy() * 2.0)

    x = leaf(1.0)

    await ag.backward(awaiting(x, body))

    assert x.grad.item() == 2.0


# By itself.


async def test_a_coroutine_that_does_not_suspend_is_done_when_start_returns():
    async def body():
        return 42

    task = stepped(body())
    assert task.start()
    assert task.result() == 42
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_coroutine_that_suspends_is_a_task_until_it_ends():
    async def body():
        await asyncio.sleep(0)
        return 42

    task = stepped(body(), "a name")
    assert not task.start()
    assert task in asyncio.all_tasks()
    assert "a name" in repr(task)
    assert await task == 42
    assert task not in asyncio.all_tasks()


async def test_awaiting_an_eager_task_gives_its_result_or_its_error():
    async def fails():
        await asyncio.sleep(0)
        raise ValueError("mine")

    task = stepped(fails())
    task.start()
    with pytest.raises(ValueError, match="mine"):
        await task


@pytest.mark.parametrize("suspended_on", ["nothing", "a future", "a task"])
async def test_cancel_is_thrown_into_an_eager_task_at_its_next_step(suspended_on):
    seen: list[Any] = []

    async def body():
        try:
            if suspended_on == "nothing":
                await asyncio.sleep(0)
            elif suspended_on == "a future":
                await asyncio.get_running_loop().create_future()
            else:
                await asyncio.ensure_future(asyncio.Event().wait())
        except asyncio.CancelledError as error:
            seen.append(error.args)
            raise

    task = stepped(body())
    task.start()
    assert task.cancel("enough")
    assert task.cancelling() == 1
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert not task.cancel()
    assert seen == [("enough",)]


async def test_a_cancel_that_is_caught_can_be_withdrawn():
    async def body():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
        await asyncio.sleep(0)
        return "went on"

    task = stepped(body())
    task.start()
    task.cancel()
    assert await task == "went on"
    assert task.cancelling() == 0


async def test_what_cannot_be_awaited_raises_inside_the_body():
    class Odd:
        def __await__(self):
            yield 5

    async def body():
        try:
            await Odd()
        except RuntimeError as error:
            return str(error)

    task = stepped(body(), "a body")
    task.start()
    assert "a body awaited 5, which asyncio cannot wait for" in await task


@on_each_loop
def test_a_future_of_another_loop_raises_inside_the_body(run):
    other = asyncio.new_event_loop()
    foreign = other.create_future()

    async def main():
        async def body():
            try:
                await foreign
            except RuntimeError as error:
                return str(error)

        task = stepped(body(), "a body")
        task.start()
        await settle()
        assert task.done()
        assert "another event loop" in task.result()

    try:
        run(main())
    finally:
        other.close()


async def test_a_body_cannot_await_itself():
    async def body():
        with pytest.raises(RuntimeError):
            await asyncio.current_task()  # type: ignore[misc]
        return "went on"

    task = stepped(body())
    task.start()
    assert await task == "went on"


async def test_an_eager_task_takes_no_result_from_outside():
    task = stepped(asyncio.sleep(0))
    task.start()
    for setter in (task.set_result, task.set_exception):
        with pytest.raises(RuntimeError, match="a task does not support"):
            setter(None)
    await task


async def test_an_eager_task_factory_changes_nothing():
    if not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("asyncio has eager tasks from Python 3.12 on")

    def eager(loop, coroutine, *, eager_start=True, **options):
        # uvloop says `eager_start` to a factory; the one that asyncio had at first does not take it.
        return asyncio.eager_task_factory(loop, coroutine, **options)

    asyncio.get_running_loop().set_task_factory(eager)

    async def body(grad):
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))

    x = leaf(1.0)
    await asyncio.gather(*[np.multiply(awaiting(x, body), 2.0).backward() for _ in range(3)])
    assert x.grad.item() == 6.0


@pytest.mark.parametrize("kind", LOOP_KINDS)
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
def test_an_exit_in_a_task_is_told_once(kind, error):
    """By the loop, which raises it; and not again as an exception that nobody has retrieved."""
    told = []
    exits = type(error)

    async def body():
        await asyncio.sleep(0)
        raise exits

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, problem: told.append(problem))
        EagerTask(body(), loop=loop, context=contextvars.copy_context(), name="exits").start()
        await asyncio.sleep(0)
        await asyncio.Event().wait()

    with pytest.raises(exits), asyncio.Runner(loop_factory=loop_factory(kind)) as runner:
        runner.run(main())
    gc.collect()

    assert told == []
