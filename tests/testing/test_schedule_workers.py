"""On a ScheduleLoop, functions for worker threads run inside the loop, in a turn that the seed decides."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from asyncgrad.testing import ScheduleLoop, explore, run_with_seed
from tests.support.sampling import cases

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


def results(main, seeds=100):
    return {run_with_seed(main, seed).result for seed in range(seeds)}


def test_functions_for_workers_run_in_any_order_and_return_to_whom_awaits():
    async def main():
        log = []

        def work(number):
            log.append(number)
            return number * 10

        tens = await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(3)))
        assert tens == [0, 10, 20]
        return tuple(log)

    assert len(results(main)) == 6


def test_the_results_of_workers_arrive_in_any_order():
    async def main():
        log = []

        async def ask(number):
            await asyncio.get_running_loop().run_in_executor(None, int)
            log.append(number)

        await asyncio.gather(*(ask(number) for number in range(3)))
        return tuple(log)

    assert len(results(main)) == 6


def test_no_thread_is_made_not_even_by_an_executor_that_is_given():
    async def main():
        with ThreadPoolExecutor() as executor:
            return await asyncio.get_running_loop().run_in_executor(executor, threading.get_ident)

    assert run_with_seed(main, 0).result == threading.get_ident()


def test_an_error_in_a_worker_is_raised_where_it_is_awaited():
    async def main():
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)

    explore(main, seeds=10)


def test_in_a_worker_no_loop_is_running_and_another_may_be_started():
    async def nested():
        await asyncio.sleep(0)
        return "nested"

    def work():
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return asyncio.run(nested())

    async def main():
        loop = asyncio.get_running_loop()
        assert await asyncio.to_thread(work) == "nested"
        assert asyncio.get_running_loop() is loop

    explore(main, seeds=3)


def test_to_thread_takes_the_context_along_and_an_executor_does_not():
    async def main():
        NAME.set("main")
        loop = asyncio.get_running_loop()
        return await asyncio.to_thread(NAME.get), await loop.run_in_executor(None, NAME.get)

    assert run_with_seed(main, 0).result == ("main", "nobody")


def test_a_worker_may_call_back_threadsafely_and_its_result_comes_last():
    async def main():
        log = []
        loop = asyncio.get_running_loop()

        def work():
            loop.call_soon_threadsafe(log.append, 1)
            loop.call_soon_threadsafe(log.append, 2)

        await asyncio.to_thread(work)
        assert log == [1, 2]

    explore(main, seeds=cases(200))


def test_other_tasks_run_between_two_calls_from_a_worker_in_some_schedules():
    async def main():
        log = []
        loop = asyncio.get_running_loop()

        def work():
            loop.call_soon_threadsafe(log.append, "worker")
            loop.call_soon_threadsafe(log.append, "worker")

        async def other():
            for _ in range(5):
                await asyncio.sleep(0)
            log.append("other")

        await asyncio.gather(asyncio.to_thread(work), other())
        return tuple(log)

    assert ("worker", "other", "worker") in results(main, 300)


def test_a_worker_that_touches_the_loop_without_threadsafe_is_refused():
    async def main():
        future = asyncio.get_running_loop().create_future()
        future.add_done_callback(print)
        await asyncio.to_thread(future.set_result, 1)

    with pytest.raises(RuntimeError, match=r"print was given to call_soon from a worker thread.*call_soon_threadsafe"):
        run_with_seed(main, 0)


def test_a_function_is_cancelled_before_its_worker_begins_or_not_at_all():
    async def main():
        log = []
        future = asyncio.get_running_loop().run_in_executor(None, log.append, "ran")
        for _ in range(3):
            await asyncio.sleep(0)
        future.cancel()
        await asyncio.wait([future])
        await asyncio.get_running_loop().shutdown_default_executor()
        return tuple(log)

    assert results(main) == {(), ("ran",)}


def test_functions_that_nobody_awaits_run_before_the_loop_is_closed():
    log = []

    async def main():
        _ = asyncio.get_running_loop().run_in_executor(None, log.append, "ran")

    explore(main, seeds=20)

    assert log == ["ran"] * 20


def test_after_the_shutdown_the_default_executor_takes_no_more():
    async def main():
        await asyncio.get_running_loop().shutdown_default_executor()
        with pytest.raises(RuntimeError, match="shutdown"):
            await asyncio.to_thread(int)

    run_with_seed(main, 0)


def test_a_keyboard_interrupt_in_a_worker_ends_the_run():
    def interrupted():
        raise KeyboardInterrupt

    async def main():
        await asyncio.to_thread(interrupted)

    with pytest.raises(KeyboardInterrupt):
        run_with_seed(main, 0)


def test_a_real_thread_may_call_threadsafely_while_the_loop_has_nothing_else_to_do():
    async def main():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(future.set_result, "from a thread"))
        thread.start()
        result = await future
        thread.join()
        return result

    assert run_with_seed(main, 0).result == "from a thread"


def test_a_loop_with_nothing_to_do_waits_for_a_real_thread(monkeypatch):
    idle = threading.Event()

    def count_threads():
        idle.set()  # the loop asks only when it has nothing left to do
        return 2

    monkeypatch.setattr(threading, "active_count", count_threads)

    async def main():
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def work():
            idle.wait()
            loop.call_soon_threadsafe(future.set_result, "at last")

        thread = threading.Thread(target=work)
        thread.start()
        result = await future
        thread.join()
        return result

    assert run_with_seed(main, 0).result == "at last"


def test_call_soon_from_a_real_thread_is_refused():
    async def main():
        loop = asyncio.get_running_loop()
        errors = []

        def work():
            try:
                loop.call_soon(int)
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return errors

    (error,) = run_with_seed(main, 0).result
    assert "call_soon_threadsafe" in str(error)


def test_a_closed_loop_takes_nothing_more():
    loop = ScheduleLoop(0)
    loop.close()

    for call in (loop.call_soon, loop.call_soon_threadsafe):
        with pytest.raises(RuntimeError, match="closed"):
            call(int)
    with pytest.raises(RuntimeError, match="closed"):
        _ = loop.run_in_executor(None, int)
