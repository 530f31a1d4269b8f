"""ScheduleLoop keeps what asyncio promises, varies what the world outside decides, and has a clock of its own."""

from __future__ import annotations

import asyncio

import pytest

from asyncgrad.errors import ArgumentError
from asyncgrad.testing import ScheduleLoop, explore, run_with_seed
from tests.support.sampling import cases

both_orders = pytest.mark.parametrize("order", ["fifo", "shuffled"])


def logs(main, seeds, order="fifo"):
    """What `main` returns, once for each seed."""
    return [tuple(run_with_seed(main, seed, order=order).result) for seed in range(seeds)]


# --- what varies, and what does not --------------------------------------------------------------


async def without_waits_outside():
    """Tasks that wait for one another only, and for nothing outside: asyncio runs them in one order."""
    log = []
    queue = asyncio.Queue(maxsize=1)
    event = asyncio.Event()
    lock = asyncio.Lock()

    async def produce():
        for item in range(4):
            await queue.put(item)
            log.append(f"put {item}")
        event.set()

    async def consume(name):
        for _ in range(2):
            item = await queue.get()
            async with lock:
                log.append(f"{name} got {item}")
        await event.wait()
        log.append(f"{name} ended")

    async with asyncio.TaskGroup() as group:
        group.create_task(consume("a"))
        group.create_task(produce())
        group.create_task(consume("b"))
    return log


def test_what_waits_for_nothing_outside_runs_in_asyncios_order_whatever_the_seed():
    assert set(logs(without_waits_outside, 50)) == {tuple(asyncio.run(without_waits_outside()))}


def test_shuffled_not_even_asyncios_order_is_kept():
    assert len(set(logs(without_waits_outside, 50, "shuffled"))) > 5


def test_after_as_many_yields_a_chain_of_callbacks_has_run_as_far_as_asyncio_promises():
    async def main():
        loop = asyncio.get_running_loop()
        reached = 0

        def link(number):
            nonlocal reached
            reached = number
            if number < 5:
                loop.call_soon(link, number + 1)

        loop.call_soon(link, 1)
        for turn in range(1, 6):
            await asyncio.sleep(0)
            assert reached >= turn

    explore(main, seeds=cases(200))


async def yielding_tasks():
    log = []

    async def worker(name):
        for _ in range(3):
            await asyncio.sleep(0)
            log.append(name)

    await asyncio.gather(worker("a"), worker("b"), worker("c"))
    return log


def test_bare_yields_last_differently_long_in_different_schedules():
    seen = set(logs(yielding_tasks, 300))

    assert len(seen) > 100
    assert any(log[:3] == ("c", "c", "c") for log in seen)


@pytest.mark.slow
def test_one_yield_may_outlast_dozens_of_another_task():
    async def main():
        log = []

        async def slow():
            await asyncio.sleep(0)
            log.append("slow")

        async def quick():
            for _ in range(30):
                await asyncio.sleep(0)
                log.append("quick")

        await asyncio.gather(slow(), quick())
        return log

    assert any(log[-1] == "slow" for log in logs(main, 300))
    assert any(log[0] == "slow" for log in logs(main, 300))


def test_one_seed_in_eight_gives_the_order_that_asyncio_itself_gives():
    async def main():
        log = []

        async def worker(name):
            for _ in range(10):
                await asyncio.sleep(0)
                log.append(name)

        await asyncio.gather(*(worker(name) for name in "abcdef"))
        return log

    assert logs(main, 200).count(tuple(asyncio.run(main()))) > 15


def test_a_seed_that_gives_asyncios_order_fires_timers_for_the_same_time_in_one_order_too():
    async def main():
        log = []

        async def worker(name):
            await asyncio.sleep(1)
            log.append(name)

        await asyncio.gather(*(worker(name) for name in range(20)))
        return log

    seen = logs(main, 200)

    assert max(seen.count(log) for log in seen) > 15


def test_tasks_have_the_same_names_in_each_run():
    async def main():
        return [task.get_name() for task in (asyncio.current_task(), asyncio.create_task(asyncio.sleep(0)))]

    assert set(logs(main, 5)) == {("Task-1", "Task-2")}


def test_tasks_start_in_the_order_in_which_they_are_made_unless_shuffled():
    async def main():
        log = []

        async def worker(name):
            log.append(name)

        await asyncio.gather(worker("a"), worker("b"))
        return log

    assert set(logs(main, 50)) == {("a", "b")}
    assert set(logs(main, 50, "shuffled")) == {("a", "b"), ("b", "a")}


# --- time ----------------------------------------------------------------------------------------


@both_orders
def test_a_sleep_of_a_year_takes_no_time(order):
    year = 365 * 86400.0

    async def main():
        await asyncio.sleep(year)
        return asyncio.get_running_loop().time()

    assert run_with_seed(main, 1, order=order).result == year


@both_orders
def test_timers_fire_in_the_order_of_their_times(order):
    async def main():
        log = []

        async def sleeper(seconds):
            await asyncio.sleep(seconds)
            log.append((seconds, asyncio.get_running_loop().time()))

        await asyncio.gather(*(sleeper(seconds) for seconds in (3, 0.5, 2, 0.25)))
        assert log == [(0.25, 0.25), (0.5, 0.5), (2, 2.0), (3, 3.0)]

    explore(main, seeds=cases(100), order=order)


def test_timers_for_the_very_same_time_fire_in_either_order():
    async def main():
        log = []

        async def sleeper(name):
            await asyncio.sleep(1)
            log.append(name)

        await asyncio.gather(sleeper("a"), sleeper("b"))
        return log

    assert set(logs(main, 50)) == {("a", "b"), ("b", "a")}


def test_the_clock_stands_still_while_anything_can_run():
    async def main():
        loop = asyncio.get_running_loop()
        timer = loop.call_later(1e-9, lambda: None)
        for _ in range(100):
            await asyncio.sleep(0)
        assert loop.time() == 0.0
        timer.cancel()

    explore(main, seeds=20)


def test_a_task_that_spins_on_a_flag_sees_the_timer_that_sets_it():
    async def main():
        flag = []
        asyncio.get_running_loop().call_later(5, flag.append, True)
        while not flag:  # noqa: ASYNC110 - what is tested
            await asyncio.sleep(0)

    assert run_with_seed(main, 0).elapsed == 5.0


def test_a_cancelled_timer_does_not_move_the_clock():
    async def main():
        loop = asyncio.get_running_loop()
        loop.call_later(10, lambda: None).cancel()
        await asyncio.sleep(1)
        async with asyncio.timeout(100):
            await asyncio.sleep(1)
        await asyncio.sleep(1)

    assert run_with_seed(main, 0).elapsed == 3.0


# --- what it is not ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "need"),
    [
        ("create_connection", "network"),
        ("create_server", "network"),
        ("getaddrinfo", "network"),
        ("sock_recv", "sockets"),
        ("add_reader", "file descriptors"),
        ("connect_read_pipe", "pipes"),
        ("subprocess_exec", "subprocesses"),
        ("add_signal_handler", "signals"),
    ],
)
def test_network_subprocesses_and_signals_are_refused_by_name(name, need):
    async def main():
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError, match=f"ScheduleLoop.{name}: this loop has no {need}"):
            getattr(loop, name)()

    run_with_seed(main, 0)


def test_asyncios_own_way_to_a_subprocess_is_refused_too():
    async def main():
        await asyncio.create_subprocess_exec("true")

    with pytest.raises(NotImplementedError, match="no subprocesses"):
        run_with_seed(main, 0)


def test_a_loop_inside_of_the_loop_is_refused():
    async def main():
        other = ScheduleLoop(0)
        with pytest.raises(RuntimeError, match="while another loop is running"):
            other.run_forever()
        other.close()

    run_with_seed(main, 0)


def test_a_coroutine_given_as_a_callback_is_refused():
    async def main():
        async def callback():
            pass

        asyncio.get_running_loop().call_soon(callback)

    with pytest.raises(TypeError, match="coroutines cannot be used with call_soon"):
        run_with_seed(main, 0)


def test_the_loop_tells_its_seed_so_that_a_test_may_draw_from_it_too():
    async def main():
        return asyncio.get_running_loop().seed

    assert [run_with_seed(main, seed).result for seed in (0, 17)] == [0, 17]


def test_a_seed_is_a_whole_number_and_not_negative():
    with pytest.raises(ArgumentError, match="0 or more, not -1"):
        ScheduleLoop(-1)
    with pytest.raises(TypeError):
        ScheduleLoop(0.5)
    with pytest.raises(ArgumentError, match="'random'"):
        ScheduleLoop(0, order="random")


def test_a_runner_runs_it_in_debug_mode():
    async def main():
        await asyncio.gather(asyncio.sleep(1), asyncio.to_thread(int))
        return asyncio.get_running_loop().get_debug()

    with asyncio.Runner(debug=True, loop_factory=lambda: ScheduleLoop(3)) as runner:
        assert runner.run(main())
        assert runner.run(main())
