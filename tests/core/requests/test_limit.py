"""`ag.limit`: so many requests at a time, so many starts in a time, the deepest backward first, and nothing left."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import re
import threading
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.testing import run_with_seed
from tests.core.requests.services import Service, cancelled, chains
from tests.support.failing import Trouble
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop, one_loop
from tests.support.settings import loop_budget
from tests.support.turns import Held, at_once, one_turn, settle, turns


class Counted:
    """A request that takes some turns of the loop, and counts how many run at a time."""

    def __init__(self, count: int = 3) -> None:
        self.count = count
        self.running = self.most = 0

    async def __call__(self, item: Any = None) -> Any:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await turns(self.count)
        finally:
            self.running -= 1
        return item


@pytest.mark.parametrize("requests", [1, 3])
async def test_no_more_run_at_a_time_than_may_and_as_many_as_may(requests):
    limit, request = ag.limit(requests=requests), Counted()

    async def in_a_block(item: int) -> Any:
        async with limit:
            return await request(item)

    ask = limit(request)
    calls = [(ask if item % 2 else in_a_block)(item) for item in range(10)]
    assert await asyncio.gather(*calls) == list(range(10))
    assert (request.most, limit.statistics().started, limit.statistics().running) == (requests, 10, 0)


async def test_one_limit_is_for_all_functions_and_batches_that_share_it():
    limit, request, service = ag.limit(requests=2), Counted(), Service()

    async def double(items: list[int]) -> list[int]:
        await request()
        return await service.double(items)

    solve = ag.batched(max_size=2)(limit(double))
    await asyncio.gather(*map(solve, range(8)), *map(limit(request), range(3)))
    assert (request.most, limit.statistics().started) == (2, 7)


async def test_a_batched_function_may_be_limited_as_a_whole():
    service = Service()
    ask = ag.limit(requests=3)(ag.batched(service.double))
    assert await asyncio.gather(*map(ask, range(5))) == [0, 2, 4, 6, 8]
    assert service.sizes == [3, 2]


@on_each_loop
def test_one_limit_is_for_all_loops_and_threads(run):
    limit, mutex = ag.limit(requests=2), threading.Lock()
    running, most = 0, 0

    @limit
    async def request() -> None:
        nonlocal running, most
        with mutex:
            running += 1
            most = max(most, running)
        await turns(3)
        with mutex:
            running -= 1

    async def main() -> None:
        await asyncio.gather(*(request() for _ in range(30)))

    threads = [threading.Thread(target=run, args=(main(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (most, running, limit.statistics().started) == (2, 0, 90)
    assert (limit.statistics().running, limit.statistics().waiting) == (0, 0)


def start_times(count: int, taken: float, **options: Any) -> list[float]:
    """Return the virtual times at which so many requests start that are asked for at a time and take so long."""

    async def main() -> list[float]:
        times, limit, loop = list[float](), ag.limit(**options), asyncio.get_running_loop()

        @limit
        async def request() -> None:
            times.append(loop.time())
            await asyncio.sleep(taken)

        await asyncio.gather(*(request() for _ in range(count)))
        assert (limit.statistics().running, limit.statistics().waiting) == (0, 0)
        return times

    return run_with_seed(main, 0).result


def test_no_more_start_in_a_time_than_may():
    assert start_times(7, 0.0, rate=3, per=10.0) == [0.0] * 3 + [10.0] * 3 + [20.0]
    assert start_times(3, 0.0, rate=1, per=0.5) == [0.0, 0.5, 1.0]


def test_a_rate_of_more_starts_than_fit_into_memory_lets_all_start():
    assert start_times(3, 0.0, rate=10**30) == [0.0] * 3


def test_both_bounds_hold():
    assert start_times(5, 4.0, requests=2, rate=2, per=10.0) == [0.0, 0.0, 10.0, 10.0, 20.0]
    assert start_times(5, 40.0, requests=2, rate=2, per=10.0) == [0.0, 0.0, 40.0, 40.0, 80.0]


async def test_a_rate_goes_on_after_a_loop_with_another_clock():
    limit = ag.limit(rate=1, per=3600.0)

    async def main() -> None:
        async with limit:
            pass

    await main()
    await asyncio.to_thread(run_with_seed, main, 0)
    assert limit.statistics().started == 2


@on_each_loop
def test_a_loop_that_is_busy_while_it_waits_for_the_rate_holds_up_no_other(run):
    limit, has_begun = ag.limit(rate=1, per=0.05), threading.Event()

    async def enter() -> None:
        async with limit:
            pass

    async def enter_elsewhere() -> None:
        await enter()
        has_begun.set()

    async def main() -> bool:
        await enter()
        in_line = asyncio.create_task(enter())
        await one_turn()
        thread = threading.Thread(target=lambda: run(enter_elsewhere()))
        thread.start()
        others_go_on = has_begun.wait(10.0)
        await in_line
        thread.join()
        return others_go_on

    assert run(main())


async def in_line(limit: Any, begin: list[Any]) -> list[str]:
    """Return the order in which requests start that begin to wait in the given order, once the first has ended."""
    held, order = Held(), list[str]()
    first = asyncio.create_task(limit(held)(None))
    await held.begun.wait()

    def rule(name: str) -> Any:
        @limit
        async def request(grad: Any) -> None:
            order.append(name)

        return request

    tasks = []
    for one in begin:
        tasks.append(asyncio.create_task(one(rule)))
        await settle()
    assert limit.statistics().waiting == len(begin)
    held.let_go.set()
    await asyncio.gather(first, *tasks)
    return order


async def test_the_deepest_backward_is_next_then_the_oldest_and_others_as_they_come():
    def plain(name: str) -> Any:
        return lambda rule: rule(name)(None)

    def backward(name: str) -> Any:
        async def run(rule: Any) -> None:
            await awaiting(leaf(1.0), rule(name)).backward()

        return run

    def nested(name: str) -> Any:
        async def run(rule: Any) -> None:
            inner = awaiting(leaf(1.0), rule(name))

            async def nests(grad: Any) -> None:
                await inner.backward()

            await awaiting(leaf(1.0), nests).backward()

        return run

    found = await in_line(
        ag.limit(requests=1),
        [plain("before"), backward("older"), plain("between"), backward("newer"), nested("inner")],
    )
    assert found == ["inner", "before", "older", "between", "newer"]


async def test_an_older_backward_that_asks_later_goes_first():
    limit, held, order = ag.limit(requests=1), Held(), list[str]()
    ask = limit(held)
    first = asyncio.create_task(ask(None))
    await held.begun.wait()
    gate = asyncio.Event()

    async def older(grad: Any) -> None:
        await gate.wait()
        async with limit:
            order.append("older")

    async def newer(grad: Any) -> None:
        async with limit:
            order.append("newer")

    tasks = []
    for rule in (older, newer):
        tasks.append(asyncio.create_task(awaiting(leaf(1.0), rule).backward()))
        await settle()
    gate.set()
    await settle()
    held.let_go.set()
    await asyncio.gather(first, *tasks)
    assert order == ["older", "newer"]


async def test_a_request_of_a_batch_is_as_urgent_as_its_most_urgent_caller():
    limit, held, order = ag.limit(requests=1), Held(), list[str]()
    first = asyncio.create_task(limit(held)(None))
    await held.begun.wait()

    @ag.batched
    @limit
    async def solve(items: list[Any]) -> list[Any]:
        order.append("batch")
        return items

    async def other(grad: Any) -> None:
        async with limit:
            order.append("backward")

    inner = awaiting(leaf(1.0), solve)

    async def nests(grad: Any) -> None:
        await inner.backward()

    rules = [other, nests]
    tasks = []
    for rule in rules:
        tasks.append(asyncio.create_task(awaiting(leaf(1.0), rule).backward()))
        await settle()
    held.let_go.set()
    await asyncio.gather(first, *tasks)
    assert order == ["batch", "backward"]


async def test_a_place_is_given_back_by_an_error_and_by_a_cancellation():
    limit = ag.limit(requests=1)

    @limit
    async def fails() -> None:
        raise Trouble

    @limit
    async def hangs() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Trouble):
        await fails()
    task = asyncio.create_task(hangs())
    await settle()
    await cancelled(task)
    with pytest.raises(Trouble):
        async with limit:
            raise Trouble
    now = limit.statistics()
    assert (now.started, now.running, now.waiting) == (3, 0, 0)


def test_the_statistics_of_the_engine_say_for_how_long_requests_wait_and_have_waited():
    async def main() -> Any:
        limit = ag.limit(rate=1, per=10.0, name="a limit of this test")
        request = limit(Counted(1))
        tasks = [asyncio.create_task(request()) for _ in range(3)]
        await asyncio.sleep(12.0)
        (now,) = [one for one in ag.engine.statistics().limits if one.name == "limit 'a limit of this test'"]
        await asyncio.gather(*tasks)
        return now

    now = run_with_seed(main, 0).result
    assert (now.started, now.waiting, now.oldest) == (2, 1, 12.0)
    assert (now.mean_wait, now.longest_wait) == (5.0, 10.0)


async def test_one_that_is_cancelled_while_it_waits_leaves_its_turn_to_the_next():
    limit, held = ag.limit(requests=1), Held()
    request = limit(held)
    tasks = [asyncio.create_task(request(None)) for _ in range(4)]
    await held.begun.wait()
    await settle()
    await cancelled(*tasks[1:3])
    assert limit.statistics().waiting == 1
    held.let_go.set()
    await asyncio.gather(tasks[0], tasks[3])
    assert limit.statistics().started == 2


async def test_one_that_is_cancelled_as_its_turn_comes_is_no_start_for_the_rate():
    limit = ag.limit(requests=1, rate=2, per=3600.0)
    await limit.__aenter__()
    first, second = (asyncio.ensure_future(limit.__aenter__()) for _ in range(2))
    await one_turn()
    await limit.__aexit__(None, None, None)
    first.cancel()
    await second
    assert first.cancelled()
    assert (limit.statistics().started, limit.statistics().running) == (2, 1)


def test_one_that_is_cancelled_while_it_waits_for_the_rate_leaves_no_timer():
    async def main() -> float:
        limit, loop = ag.limit(rate=1, per=100.0), asyncio.get_running_loop()
        async with limit:
            pass
        task = asyncio.create_task(limit(turns)(1))
        await asyncio.sleep(1.0)
        await cancelled(task)
        await asyncio.sleep(1.0)
        assert [timer for timer in loop._scheduled if not timer._cancelled] == []  # type: ignore[attr-defined]
        return loop.time()

    assert run_with_seed(main, 0).result == 2.0


@on_each_loop
def test_a_loop_that_ends_while_requests_wait_leaves_the_limit_to_others(run):
    limit = ag.limit(requests=1, rate=1, per=0.001)

    async def abandon() -> None:
        async with limit:
            task = asyncio.ensure_future(limit(turns)(1))
            await settle()
        task.cancel()
        await asyncio.wait([task])

    for _ in range(3):
        run(abandon())
    run(limit(turns)(1))
    assert (limit.statistics().running, limit.statistics().waiting) == (0, 0)


@pytest.mark.parametrize("waiting", [1, 2])
def test_a_loop_that_is_dropped_gives_its_places_back_also_where_others_of_its_tasks_wait_for_them(waiting):
    limit = ag.limit(requests=1)

    async def hold() -> None:
        async with limit:
            await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    calls = [loop.create_task(hold()) for _ in range(1 + waiting)]
    for task in calls:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    # From those who wait the others are found.
    gathered = asyncio.gather(*calls)
    loop.run_until_complete(turns(5))
    assert (limit.statistics().running, limit.statistics().waiting) == (1, waiting)
    loop.close()
    del calls, gathered, loop, task
    gc.collect()
    assert (limit.statistics().running, limit.statistics().waiting) == (0, 0)


def test_a_loop_that_is_dropped_gives_its_places_back():
    limit = ag.limit(requests=1)
    loop = asyncio.new_event_loop()

    async def hang() -> None:
        async with limit:
            await asyncio.Event().wait()

    tasks = [loop.create_task(hang()) for _ in range(3)]
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.run_until_complete(turns(3))
    assert (limit.statistics().running, limit.statistics().waiting) == (1, 2)
    loop.close()
    del tasks, task, loop
    gc.collect()
    assert (limit.statistics().running, limit.statistics().waiting) == (0, 0)
    ag.run(limit(turns)(1))


@one_loop
async def test_a_limit_is_one_in_all_copies_of_what_has_it_and_another_where_it_is_pickled():
    limit = ag.limit(requests=1, rate=5, per=60.0, name="solver")
    async with limit:
        assert copy.deepcopy({"limit": limit})["limit"] is copy.copy(limit) is limit
        other = pickle.loads(pickle.dumps(limit))
        assert repr(other) == "<limit 'solver': 0 running, 0 waiting>" != repr(limit)
        async with other:
            assert (other.statistics().running, limit.statistics().running) == (1, 1)


async def test_what_waits_for_a_limit_is_described():
    limit, held = ag.limit(requests=1, name="solver"), Held()
    ask = limit(held)
    first = asyncio.create_task(ask(None))
    await held.begun.wait()
    with loop_budget(60.0):
        second = asyncio.create_task(ag.backward(chains(leaf(1.0), 3, 1, ask)))
    await settle()
    (backward,) = ag.engine.describe_running().backwards
    assert [node.waits_for for node in backward.running] == [f"limit 'solver', {count} before it" for count in range(3)]
    assert "waits for limit 'solver', 2 before it" in str(ag.engine.describe_running())
    assert repr(limit) == "<limit 'solver': 1 running, 3 waiting>"
    held.let_go.set()
    await asyncio.gather(first, second)


async def test_a_rule_that_waits_for_a_batch_that_waits_for_a_limit_says_both():
    limit, held = ag.limit(requests=1, name="solver"), Held()
    first = asyncio.create_task(limit(held)(None))
    await held.begun.wait()

    @ag.batched
    @limit
    async def solve(items: list[Any]) -> list[Any]:
        return items

    second = asyncio.create_task(ag.backward(chains(leaf(1.0), 2, 1, solve)))
    await settle()
    (backward,) = ag.engine.describe_running().backwards
    expected = "a request of solve with 2 items, which waits for limit 'solver', 0 before it"
    assert [node.waits_for for node in backward.running] == [expected] * 2
    held.let_go.set()
    await asyncio.gather(first, second)


async def test_what_has_waited_for_a_limit_is_in_a_profile(tmp_path):
    limit = ag.limit(requests=1, name="solver")
    with ag.profile() as prof, loop_budget(60.0):
        await ag.backward(chains(leaf(1.0), 3, 1, limit(one_turn)))
    waited = [event.waited_for for event in prof.events if event.name == "AwaitingBackward"]
    assert waited == [(), ("limit 'solver', 0 before it",), ("limit 'solver', 1 before it",)]
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert '"waited for":"limit \'solver\', 1 before it"' in (tmp_path / "trace.json").read_text()


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ({"requests": 4}, "limit(requests=4)"),
        ({"rate": 10, "per": 60}, "limit(rate=10, per=60)"),
        ({"requests": 1, "rate": 2}, "limit(requests=1, rate=2, per=1)"),
        ({"hedge_after": 0.5}, "limit(hedge_after=0.5)"),
        ({"requests": 10**5000}, "limit(requests=<16610 bits>)"),
    ],
)
def test_without_a_name_its_numbers_are_told(options, title):
    assert repr(ag.limit(**options)) == f"<{title}: 0 running, 0 waiting>"


async def test_a_blocking_backward_that_would_wait_on_a_running_loop_is_refused():
    limit = ag.limit(requests=1)
    x = leaf(1.0)
    sync.backward(chains(x, 3, 1, limit(at_once)))
    assert x.grad.item() == 3.0
    async with limit:
        with pytest.raises(ag.errors.BlockingError, match=re.escape("would have to wait for limit(requests=1)")):
            sync.backward(chains(leaf(1.0), 1, 1, limit(at_once)))
    assert (limit.statistics().running, limit.statistics().waiting) == (0, 0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_all_places():
    limit = ag.limit(requests=1)

    async def main() -> int:
        async with limit:
            # Python warns of forks beside threads, which other tests have started.
            child = os.fork()
            if not child:
                os._exit(limit.statistics().running)
            return child

    assert os.waitpid(ag.run(main()), 0)[1] == 0


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ValueError, r"ag.limit\(\) limits nothing: write ag.limit\(requests=4\)"),
        ({"requests": 0}, ValueError, "requests must be at least 1, not 0: leave it out for any number"),
        ({"rate": 0}, ValueError, "rate must be at least 1, not 0: leave it out for any number"),
        ({"rate": 0.5}, TypeError, "rate must be an int, not float 0.5"),
        ({"rate": 1, "per": 0}, ValueError, "per must be a number of seconds above 0, not float 0.0"),
        ({"rate": 1, "per": -1}, ValueError, "per must be a number of seconds above 0, not float -1.0"),
        ({"requests": 4, "per": 60}, ValueError, r"there is no rate: write ag.limit\(rate=10, per=60\)"),
        ({"requests": True}, TypeError, "requests must be an int, not bool True"),
        ({"requests": 1, "name": 3}, TypeError, "name must be a str, not int 3"),
        ({"requests": 1, "hedge_after": -0.1}, ValueError, "hedge_after must be a finite number of at least 0"),
    ],
)
def test_an_option_that_limits_nothing_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        ag.limit(**options)


def test_what_is_no_async_function_is_refused():
    limit = ag.limit(requests=1)
    with pytest.raises(TypeError, match=r"what ag.limit\(...\) decorates must be an async function.*write async def"):
        limit(lambda: 1)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="not int 3: write @limit above an async def"):
        limit(3)  # type: ignore[arg-type]


@one_loop
async def test_ten_thousand_requests_leave_nothing_behind(no_collector):
    limit, loop = ag.limit(requests=5, rate=100_000, per=0.001), asyncio.get_running_loop()

    @limit
    async def request(number: int) -> None:
        await turns(number % 3)
        if number % 5 == 0:
            raise Trouble

    for start in range(0, 10_000, 100):
        tasks = [asyncio.create_task(request(start + number)) for number in range(100)]
        await asyncio.sleep(0)
        for task in tasks[::4]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    del tasks, task
    now = limit.statistics()
    assert (now.running, now.waiting) == (0, 0)
    assert now.started > 7_000
    assert limit._line._waiting == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert gc.collect() < 100, "cycles were left to the collector"
    if hasattr(loop, "_scheduled"):
        assert [timer for timer in loop._scheduled if not timer._cancelled] == []
