"""run_with_seed replays a schedule exactly; explore runs many, finds races, and says how to replay them."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import re
from dataclasses import FrozenInstanceError
from math import inf

import pytest

from asyncgrad.core.settings.scheduling import LOOP_BUDGET
from asyncgrad.errors import ArgumentError, AsyncgradError, BlockingError
from asyncgrad.testing import Exploration, explore, run_with_seed

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME")
both_orders = pytest.mark.parametrize("order", ["fifo", "shuffled"])


def counting_tasks(lock):
    """Two tasks that each read a number, wait, and write it back increased; with a lock, one at a time."""

    async def main():
        count = 0

        async def increment():
            nonlocal count
            await asyncio.sleep(0)
            async with lock():
                seen = count
                await asyncio.sleep(0)
                count = seen + 1

        await asyncio.gather(*(increment() for _ in range(3)))
        assert count == 3, "an update was lost"

    return main


class Unlocked:
    async def __aenter__(self):
        pass

    async def __aexit__(self, *exception):
        pass


@pytest.mark.slow
@both_orders
def test_a_lost_update_is_found_by_most_seeds(order):
    found = 0
    for seed in range(200):
        try:
            run_with_seed(counting_tasks(Unlocked), seed, order=order)
        except AssertionError:
            found += 1

    assert found > 100


@pytest.mark.slow
@both_orders
def test_with_a_lock_no_update_is_lost_on_any_schedule(order):
    def main():
        lock = asyncio.Lock()
        return counting_tasks(lambda: lock)()

    assert explore(main, seeds=1000, order=order).distinct > 50


@pytest.mark.slow
def test_explore_counts_schedules_and_those_that_differ():
    async def main():
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(3)))

    exploration = explore(main, seeds=500)

    assert exploration.schedules == 500
    assert 6 <= exploration.distinct <= 500
    assert explore(main, seeds=500) == exploration


def test_explore_begins_with_the_first_seed_and_takes_each_once():
    seen = []

    async def main():
        seen.append(asyncio.get_running_loop())

    with pytest.raises(ZeroDivisionError, match="no") as caught:
        explore(_failing_when(lambda: len(seen) == 4, main), seeds=10, first_seed=20)

    assert "seed 23;" in caught.value.__notes__[0]


def _failing_when(condition, first):
    async def main():
        await first()
        if condition():
            raise ZeroDivisionError("no")

    return main


@both_orders
def test_the_note_on_a_failure_names_the_call_that_fails_again_in_the_same_way(order):
    main = counting_tasks(Unlocked)
    with pytest.raises(AssertionError) as first:
        explore(main, first_seed=5, order=order)

    (call,) = re.findall(r"replay it with asyncgrad\.testing\.(.*)", first.value.__notes__[0])
    with pytest.raises(AssertionError) as second:
        eval(call, {"main": main, "run_with_seed": run_with_seed})  # noqa: S307 - what the note says to type

    assert second.value.__notes__ == first.value.__notes__
    assert "its last steps: " in first.value.__notes__[0]


# --- replay --------------------------------------------------------------------------------------


async def everything():
    """All that a schedule may have in it: tasks, timers, workers, a failing TaskGroup, generators, futures."""
    loop = asyncio.get_running_loop()
    log = []

    async def worker(number):
        try:
            for step in range(3):
                await asyncio.sleep(step * number % 3)
                log.append((number, await asyncio.to_thread(lambda step=step: step)))
        except asyncio.CancelledError:
            log.append((number, "cancelled"))
            raise

    async def fail():
        await asyncio.sleep(2)
        raise KeyError

    async def generate():
        try:
            for number in range(10):
                yield number
        finally:
            await asyncio.sleep(0)
            log.append("closed")

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(worker(number))
            group.create_task(fail())
    except* KeyError:
        log.append("failed")
    async for number in generate():
        if number == 3:
            break
    loop.call_later(1, log.append, "late")
    await asyncio.wait({asyncio.ensure_future(asyncio.sleep(1, number)) for number in range(5)})
    return tuple(log)


@pytest.mark.slow
@both_orders
def test_the_same_seed_gives_the_same_schedule(order):
    held = []
    for seed in range(100):
        once = run_with_seed(everything, seed, order=order)
        held.append([object() for _ in range(seed)])  # other addresses for what comes

        assert run_with_seed(everything, seed, order=order) == once


def test_debug_mode_changes_nothing():
    for seed in range(5):
        assert run_with_seed(everything, seed, debug=True) == run_with_seed(everything, seed)


def test_a_seed_gives_the_same_schedule_on_every_version_of_python():
    async def step():
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def main():
        await asyncio.gather(step(), step(), step())

    def numbers(seed, order="fifo"):
        return "".join(name[-1] for name in run_with_seed(main, seed, order=order).trace if "step#" in name)

    fifo = ["234342324", "234343422", "234232344", "234234234", "234234234", "234442233"]
    assert [numbers(seed) for seed in range(6)] == fifo
    assert [numbers(seed, "shuffled") for seed in range(3)] == ["244224333", "434233422", "333422442"]


def test_the_trace_names_steps_by_task_and_calls_by_function():
    async def child():
        await asyncio.sleep(1)

    def work():
        pass

    async def main():
        asyncio.get_running_loop().call_soon(work)
        await asyncio.gather(child(), asyncio.to_thread(work))

    trace = run_with_seed(main, 0).trace

    assert trace[:4] == ("main#1", "work", "child#2", "to_thread#3")
    assert trace.index("worker: work") < trace.index("result: work")
    assert "main#1" in trace[-2:]


def test_a_schedule_is_a_frozen_record():
    async def main():
        await asyncio.sleep(2)
        return "done"

    schedule = run_with_seed(main, 4)

    assert (schedule.seed, schedule.order, schedule.result, schedule.elapsed) == (4, "fifo", "done", 2.0)
    with pytest.raises(FrozenInstanceError):
        schedule.seed = 5
    assert Exploration(3, 2) == Exploration(schedules=3, distinct=2)


# --- the manners of asyncio.run ------------------------------------------------------------------


def test_tasks_left_at_the_end_are_cancelled_and_awaited():
    ended = []

    async def main():
        async def left():
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1)
                ended.append(True)

        main.task = asyncio.create_task(left())
        await asyncio.sleep(0)

    explore(main, seeds=20)

    assert len(ended) == 20


def test_async_generators_left_at_the_end_are_closed():
    closed = []

    async def main():
        async def generate():
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(0)
                closed.append(True)

        main.generator = generate()
        await anext(main.generator)

    explore(main, seeds=20)

    assert len(closed) == 20


def test_main_sees_the_callers_context_and_keeps_its_own():
    token = NAME.set("caller")

    async def main():
        assert NAME.get() == "caller"
        NAME.set("main")
        await asyncio.create_task(asyncio.sleep(0))
        assert NAME.get() == "main"

    explore(main, seeds=5)

    assert NAME.get() == "caller"
    NAME.reset(token)


def test_an_error_that_nobody_awaited_is_raised():
    async def main():
        async def fail():
            raise ZeroDivisionError("unseen")

        task = asyncio.create_task(fail())
        await asyncio.wait([task])

    with pytest.raises(ZeroDivisionError, match="unseen") as caught:
        run_with_seed(main, 1)

    assert "never retrieved" in caught.value.__notes__[0]
    assert "run_with_seed(main, 1)" in caught.value.__notes__[1]


def test_an_error_that_nobody_awaited_is_raised_even_out_of_a_cycle():
    async def main():
        async def fail():
            task = asyncio.current_task()  # which holds the error, whose traceback holds this frame
            raise ZeroDivisionError(task.get_name())

        await asyncio.wait([asyncio.create_task(fail())])

    with pytest.raises(ZeroDivisionError, match="Task-2"):
        run_with_seed(main, 1)


def test_an_error_in_a_callback_is_raised():
    async def main():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)

    with pytest.raises(ZeroDivisionError):
        run_with_seed(main, 1)


def test_a_complaint_without_an_error_is_raised_too():
    async def main():
        asyncio.get_running_loop().call_exception_handler({"message": "something is odd"})

    with pytest.raises(AsyncgradError, match="something is odd"):
        explore(main)


def test_the_error_of_main_comes_before_those_that_nobody_awaited():
    async def main():
        asyncio.get_running_loop().call_exception_handler({"message": "something is odd"})
        raise KeyError("first")

    with pytest.raises(KeyError, match="first") as caught:
        run_with_seed(main, 2)

    assert "something is odd" in caught.value.__notes__[1]


def test_what_was_explored_is_not_kept():
    class CopyOnWriteEntry:
        alive = 0

        def __init__(self):
            CopyOnWriteEntry.alive += 1

        def __del__(self):
            CopyOnWriteEntry.alive -= 1

    async def main():
        kept = CopyOnWriteEntry()
        await asyncio.gather(asyncio.sleep(0), asyncio.to_thread(int))
        return kept

    explore(main, seeds=20)
    gc.collect()

    assert CopyOnWriteEntry.alive == 0


def test_a_backward_breathes_after_each_node_or_never_by_the_seed():
    async def main():
        return LOOP_BUDGET.get()

    assert run_with_seed(main, 0).result == inf
    assert run_with_seed(main, 1).result == -inf


# --- bad use -------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [explore, lambda main: run_with_seed(main, 0)], ids=["explore", "run_with_seed"])
def test_a_schedule_inside_of_a_running_loop_is_refused(call):
    async def inner():
        pass

    async def main():
        with pytest.raises(BlockingError, match=r"inner, .*one is running in this thread"):
            call(inner)

    asyncio.run(main())
    run_with_seed(main, 0)


@pytest.mark.parametrize("call", [explore, lambda main: run_with_seed(main, 0)], ids=["explore", "run_with_seed"])
def test_a_coroutine_in_place_of_a_function_is_refused(call):
    async def main():
        pass

    with pytest.raises(TypeError, match="takes a coroutine function"):
        call(main())


def test_a_function_that_is_not_async_is_refused():
    with pytest.raises(TypeError, match=r"int\(\) returned 0, not a coroutine"):
        explore(int)


def test_no_seeds_are_refused():
    with pytest.raises(ArgumentError, match="seeds=0 explores nothing"):
        explore(everything, seeds=0)
