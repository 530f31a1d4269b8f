"""`ag.batched`: calls made at a time are one request, each gets its own result, and misuse says what to write."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.testing import run_with_seed
from tests.core.requests.services import Service, cancelled
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop, one_loop
from tests.support.turns import Held, settle, turns

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")


async def test_calls_made_at_a_time_are_one_request_and_each_gets_its_own_result():
    service = Service()
    ask = ag.batched(service.double)
    assert await asyncio.gather(*map(ask, range(10))) == [2 * item for item in range(10)]
    assert service.sizes == [10]


async def test_a_call_alone_is_a_request_of_one():
    service = Service()
    ask = ag.batched(service.double)
    assert [await ask(1), await ask(2)] == [2, 4]
    assert service.sizes == [1, 1]


async def test_calls_of_tasks_that_start_a_turn_later_are_waited_for():
    service = Service()
    ask = ag.batched(service.double)

    async def nested(levels: int) -> int:
        return await ask(1) if not levels else await asyncio.create_task(nested(levels - 1))

    await asyncio.gather(*map(nested, (0, 1, 2)))
    assert service.sizes == [3]


async def test_a_full_request_is_sent_and_the_next_begun():
    service = Service()
    ask = ag.batched(max_size=4)(service.double)
    assert await asyncio.gather(*map(ask, range(10))) == [2 * item for item in range(10)]
    assert service.sizes == [4, 4, 2]
    assert (ask.statistics().full, ask.statistics().idle) == (2, 1)


async def test_a_loop_that_is_always_busy_does_not_keep_a_request_from_being_sent():
    service = Service()
    ask = ag.batched(service.double)

    spinning = asyncio.create_task(turns(100_000))
    assert await ask(1) == 2
    await cancelled(spinning)


async def test_calls_in_each_turn_do_not_keep_a_request_from_being_sent():
    service = Service(turns=0)
    ask = ag.batched(service.double)
    tasks = [asyncio.create_task(ask(0))]
    for item in range(1, 300):
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(ask(item)))
        if service.sizes:
            break
    assert service.sizes
    await asyncio.gather(*tasks)


async def test_an_item_that_may_not_wait_goes_with_those_of_the_same_turn():
    service = Service()
    ask = ag.batched(max_wait=0)(service.double)
    await asyncio.gather(ask(1), ask(2))
    assert service.sizes == [2]
    assert ask.statistics().max_wait == 1


def of_a_busy_backward(**options: Any) -> Any:
    """Return at which second a request was sent of a backward that is busy for 20, and the statistics."""

    async def main() -> Any:
        loop: Any = asyncio.get_running_loop()
        sent_at: list[float] = []
        service = Service(before=lambda items: sent_at.append(loop.time()))
        ask = ag.batched(**options)(service.double)

        def work(grad: Any) -> None:
            loop._now += 1.0

        x = leaf(1.0)
        y = calling(x, work)
        for _ in range(19):
            y = calling(y, work)
        # Made last, so that it begins first.
        await ag.backward([y, awaiting(x, ask)])
        return sent_at, ask.statistics()

    # An odd seed, so that the backward yields to the loop after each node.
    return run_with_seed(main, 1).result


def test_a_request_waits_for_the_nodes_of_its_backward_that_are_ready():
    sent_at, statistics = of_a_busy_backward()
    assert sent_at == [20.0]
    assert (statistics.idle, statistics.longest_wait) == (1, 20.0)


def test_no_item_waits_longer_than_it_may():
    sent, statistics = of_a_busy_backward(max_wait=5.0)
    (sent_at,) = sent
    assert 5.0 <= sent_at <= 6.0
    assert (statistics.idle, statistics.max_wait) == (0, 1)
    assert statistics.longest_wait == statistics.mean_wait == sent_at


async def test_results_are_found_by_key_in_any_order():
    async def double(items: list[dict[str, int]]) -> dict[int, int]:
        return {item["id"]: 2 * item["value"] for item in reversed(items)}

    ask = ag.batched(key=lambda item: item["id"])(double)
    assert await asyncio.gather(*(ask({"id": -number, "value": number}) for number in range(5))) == [0, 2, 4, 6, 8]


async def test_items_and_results_are_passed_on_as_they_are():
    given: list[Any] = []

    async def keep(items: list[Any]) -> list[Any]:
        given.extend(items)
        return items

    ask = ag.batched(keep)
    items = [np.zeros(3), leaf(1.0), object()]
    results = await asyncio.gather(*map(ask, items))
    assert [id(one) for one in given] == [id(one) for one in results] == [id(one) for one in items]


async def test_gradients_flow_through_a_request_that_records_and_others_share_none_with_it():
    sizes: list[int] = []

    @ag.batched
    async def double(items: list[Any]) -> list[Any]:
        sizes.append(len(items))
        return list(np.stack(items) * 2.0)

    x, y = leaf(1.0), leaf(2.0)

    async def unrecorded() -> Any:
        with ag.no_grad():
            return await double(x)

    first, second, third = await asyncio.gather(double(x), double(y), unrecorded())
    assert sizes == [2, 1]
    assert not third.requires_grad
    await (first + 3.0 * second).backward()
    assert (x.grad.item(), y.grad.item()) == (2.0, 6.0)


async def test_a_request_runs_in_a_copy_of_the_context_of_its_first_caller_outside_of_any_backward():
    seen: list[Any] = []

    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        seen.append((NAME.get(), ag.engine.current_graph_task(), ag.graph.current_node()))
        NAME.set("changed")
        return items

    async def rule(grad: Any) -> Any:
        token = NAME.set("first")
        assert ag.engine.current_graph_task() is not None
        result = await ask(grad)
        assert NAME.get() == "first"
        NAME.reset(token)
        return result

    await awaiting(leaf(1.0), rule).backward()
    assert seen == [("first", None, None)]
    assert NAME.get() == "nobody"


@on_each_loop
def test_each_loop_has_requests_of_its_own(run):
    service = Service()
    ask = ag.batched(service.double)
    barrier = threading.Barrier(2, timeout=20)
    results: list[Any] = []

    async def main() -> None:
        barrier.wait()
        results.append(await asyncio.gather(*map(ask, range(5))))

    threads = [threading.Thread(target=run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(asyncio.wait_for(ask(1), 20))
    assert results == [[0, 2, 4, 6, 8]] * 2
    assert sorted(service.sizes) == [1, 5, 5]
    assert ask.statistics().items == 11


async def test_an_error_reaches_every_caller():
    error = Trouble("no answer")

    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        raise error

    assert await asyncio.gather(ask(1), ask(2), return_exceptions=True) == [error, error]


async def test_a_request_that_is_cancelled_by_itself_cancels_its_callers():
    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        raise asyncio.CancelledError

    results = await asyncio.gather(ask(1), ask(2), return_exceptions=True)
    assert [type(one) for one in results] == [asyncio.CancelledError] * 2


async def test_a_caller_that_is_cancelled_takes_its_item_back():
    service = Service()
    ask = ag.batched(service.double)
    tasks = [asyncio.create_task(ask(item)) for item in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert (results[0], results[2], tasks[1].cancelled()) == (0, 4, True)
    assert (service.sizes, ask.statistics().dropped) == ([2], 1)


async def test_a_caller_that_is_cancelled_when_the_request_is_full_takes_its_item_back():
    service = Service()
    ask = ag.batched(max_size=3)(service.double)
    tasks = [asyncio.create_task(ask(item)) for item in range(2)]
    await asyncio.sleep(0)
    # Ahead of the request, which the next call puts into the loop.
    asyncio.get_running_loop().call_soon(tasks[1].cancel)
    assert (await ask(2), await tasks[0]) == (4, 0)
    await settle()
    assert tasks[1].cancelled()
    assert (service.sizes, ask.statistics().dropped) == ([2], 1)


async def test_nothing_is_sent_when_all_callers_are_cancelled_before():
    service = Service()
    ask = ag.batched(max_wait=100.0)(service.double)
    tasks = [asyncio.create_task(ask(item)) for item in range(3)]
    await asyncio.sleep(0)
    await cancelled(*tasks)
    await settle()
    assert service.sizes == []
    assert (ask.statistics().requests, ask.statistics().dropped) == (0, 3)


async def test_a_request_goes_on_for_those_who_are_left_and_is_cancelled_with_the_last():
    held = Held()

    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        await held(items)
        return items

    tasks = [asyncio.create_task(ask(item)) for item in range(3)]
    await held.begun.wait()
    await cancelled(*tasks[:2])
    await settle()
    assert not held.cancelled
    await cancelled(tasks[2])
    assert held.cancelled
    assert ask.statistics().running == 0


async def test_the_last_caller_waits_for_the_end_of_the_request_that_it_cancels_and_raises_its_error():
    begun, ended = asyncio.Event(), asyncio.Event()

    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await turns(20)
            ended.set()
            raise Trouble("at the end")
        return items

    task = asyncio.create_task(ask(1))
    await begun.wait()
    task.cancel()
    with pytest.raises(Trouble):
        await task
    assert ended.is_set()


async def test_it_says_what_waits_for_how_long_and_what_runs():
    held = Held()

    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        await held(items)
        return items

    first = asyncio.create_task(ask(1))
    await held.begun.wait()
    second = asyncio.create_task(ask(2))
    await asyncio.sleep(0)
    now = ask.statistics()
    assert (now.requests, now.items, now.running, now.waiting) == (1, 1, 1, 1)
    assert now.oldest >= 0.0
    with pytest.raises(AttributeError):
        now.items = 2  # type: ignore[misc]
    await cancelled(first, second)
    assert ask.statistics().waiting == ask.statistics().running == 0


async def asks(items: list[Any]) -> list[Any]:
    """Return the items."""
    return items


async def test_it_has_the_name_and_the_text_of_the_function():
    ask = ag.batched(asks)
    assert (ask.__name__, ask.__doc__, ask.__wrapped__) == ("asks", "Return the items.", asks)
    assert repr(ask) == "<ag.batched of asks: 0 items in 0 requests>"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_size": 0}, ValueError, "max_size must be at least 1, not 0: leave it out for any number"),
        ({"max_size": 2.5}, TypeError, "max_size must be an int, not float 2.5"),
        ({"max_wait": -1}, ValueError, "max_wait must be a finite number of at least 0, not int -1"),
        ({"max_wait": "soon"}, TypeError, "max_wait must be a number, not str 'soon'"),
        ({"key": "id"}, TypeError, "key must be callable with an item, not str 'id': pass a function"),
    ],
)
def test_an_option_that_says_nothing_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        ag.batched(**options)


def test_what_is_no_async_function_is_refused():
    with pytest.raises(TypeError, match=r"ag.batched takes an async function of a list of items.*write async def"):
        ag.batched(lambda items: items)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match=r"not int 8: write @ag.batched\(max_size=...\) above an async def"):
        ag.batched(8)  # type: ignore[call-overload]


@pytest.mark.parametrize("decorator", [ag.batched, ag.limit(requests=1), ag.limit(hedge_after=1.0)])
def test_a_forgotten_await_is_told_with_the_name_of_the_function(decorator):
    coroutine = decorator(asks)([1])
    with pytest.raises(TypeError, match=r"add got the coroutine asks\(\.\.\.\) .* write await asks\(\.\.\.\)"):
        leaf(1.0) + coroutine

    async def main() -> None:
        coroutine.numpy()

    with pytest.raises(AttributeError) as caught:
        ag.run(main())
    assert "write (await asks(...)).numpy" in caught.value.__notes__[0]
    coroutine.close()


@pytest.mark.parametrize("kind", [classmethod, staticmethod])
def test_a_method_of_the_class_is_told_which_decorator_goes_above(kind):
    with pytest.raises(TypeError, match=r"put @staticmethod above @ag\.batched"):
        ag.batched(kind(asks))
    with pytest.raises(TypeError, match=f"put @{kind.__name__} above @limit"):
        ag.limit(requests=1)(kind(asks))
    Solver = type("Solver", (type("Base", (), {"ask": kind(ag.batched(asks))}),), {})
    if kind is staticmethod:
        assert ag.run(Solver.ask(1)) == 1
        return
    with pytest.raises(TypeError, match="a classmethod is called with its class first, so put @staticmethod above"):
        ag.run(Solver.ask(1))


@one_loop
async def test_two_items_in_one_call_are_told_to_be_two_calls():
    with pytest.raises(TypeError, match=r"asks takes one item, and was given 2 arguments.*gather\(\*map\(asks, items"):
        await ag.batched(asks)(1, 2)


async def _yields(items: list[Any]) -> Any:
    yield items


def test_an_async_generator_is_told_to_return_its_results_or_to_take_a_place_for_each():
    with pytest.raises(TypeError, match="return a list with the result of each item, where it yields"):
        ag.batched(_yields)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="write async with limit: inside of it"):
        ag.limit(requests=1)(_yields)  # type: ignore[arg-type]


@one_loop
async def test_an_error_whose_arguments_cannot_be_compared_reaches_callers_of_several_backward_passes():
    class Refused(Exception):
        def __copy__(self) -> Refused:
            return Refused(self.args[0].copy())

    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        raise Refused(np.arange(3.0))

    x = leaf(1.0)
    passes = [awaiting(x, ask).backward() for _ in range(2)]
    errors = await asyncio.gather(*passes, return_exceptions=True)
    assert [type(error) for error in errors] == [Refused, Refused]


class Scaled:
    """Has a batched function of its own, and a limit."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.limit = ag.limit(requests=2, name="solver")
        self.ask = ag.batched(self._ask, max_size=7)

    async def _ask(self, items: list[Any]) -> list[Any]:
        async with self.limit:
            return [self.factor * item for item in items]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
def test_a_copy_of_an_object_has_a_batched_function_of_its_own(again):
    one = Scaled(2.0)
    for number, other in enumerate((again(one), again(one.ask).function.__self__), 1):
        other.factor = 3.0
        assert (other.ask.function.__self__, other.ask.max_size) == (other, 7)
        assert (ag.run(one.ask(1)), ag.run(other.ask(1))) == (2.0, 3.0)
        assert (one.ask.statistics().requests, other.ask.statistics().requests) == (number, 1)


@ag.batched
async def doubled(items: list[float]) -> list[float]:
    """Return the items times two."""
    return [2 * item for item in items]


def test_a_batched_function_of_a_module_is_one_in_all_copies():
    for again in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        assert again({"solve": doubled})["solve"] is doubled


def test_a_method_is_refused_with_what_to_write():
    # Before Python 3.12 the error is the cause of a RuntimeError.
    with pytest.raises((TypeError, RuntimeError)) as caught:
        type("Model", (), {"solve": ag.batched(asks)})
    error = caught.value if isinstance(caught.value, TypeError) else caught.value.__cause__
    assert "write self.solve = ag.batched(self._solve) in __init__" in str(error)


@pytest.mark.parametrize(
    ("returned", "options", "error", "words"),
    [
        ([1], {}, ValueError, "was given 2 items and returned 1 result: return one for each item"),
        ([1, 2, 3], {}, ValueError, "was given 2 items and returned 3 results"),
        (np.zeros(2), {}, TypeError, "must be a list, not ndarray of shape .* return list"),
        ((one for one in [1, 2]), {}, TypeError, "must be a list, not generator .* return list"),
        ({1, 2}, {}, TypeError, "must be a list, not set {1, 2}: return a result for each item"),
        (None, {}, TypeError, "must be a list, not NoneType None: return a result for each item"),
        ({1: 1, 2: 2}, {}, TypeError, r"must be a list, not dict .* write @ag.batched\(key=...\) for a dict"),
        ({1: 1}, {"key": int}, ValueError, "no result for the key 2: return a dict with one for each key"),
        ([1, 2], {"key": int}, TypeError, r"must be a dict of results by key, not list .* return {key\(item\)"),
    ],
)
@one_loop
async def test_a_function_that_returns_no_result_for_each_item_is_told_to_every_caller(returned, options, error, words):
    @ag.batched(**options)
    async def ask(items: list[Any]) -> Any:
        return returned

    results = await asyncio.gather(ask(1), ask(2), return_exceptions=True)
    for one in results:
        with pytest.raises(error, match=words):
            raise one


@one_loop
async def test_a_key_is_taken_at_the_call_and_its_error_is_that_of_one_caller():
    @ag.batched(key=lambda item: item["id"])
    async def ask(items: list[Any]) -> Any:
        return {item.pop("id"): 1 for item in items}

    results = await asyncio.gather(*map(ask, ({"id": 5}, {}, {"id": []})), return_exceptions=True)
    assert results[0] == 1
    assert isinstance(results[1], KeyError)
    assert "what the key of ask returns must be hashable, not list []" in str(results[2])
    assert ask.statistics().items == 1


async def test_a_key_that_cannot_be_had_leaves_no_request():
    ask = ag.batched(key=lambda item: item["id"], max_wait=0.0)(asks)
    for item in ({}, {"id": []}):
        with pytest.raises((KeyError, TypeError)):
            await ask(item)
    await settle()
    assert ask.statistics() == ag.batched(asks).statistics()


async def _backward_that_asks(ask: Any) -> None:
    x = leaf(1.0)
    await (awaiting(x, ask) + awaiting(x, ask)).backward()


@pytest.mark.parametrize("begin", [lambda ask: ask(1), _backward_that_asks], ids=["alone", "in a backward"])
@pytest.mark.parametrize("hedged", [{}, {"hedge_after": 0.0}], ids=["once", "hedged"])
def test_a_loop_that_is_dropped_in_mid_request_gives_its_places_back(begin, hedged, capfd):
    limit = ag.limit(requests=2, **hedged)

    @ag.batched
    @limit
    async def ask(items: list[Any]) -> list[Any]:
        await asyncio.Event().wait()
        return items

    loop = asyncio.new_event_loop()
    task = loop.create_task(begin(ask))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.run_until_complete(turns(20))
    assert ask.statistics().running == 1 <= limit.statistics().running
    loop.close()
    del task, loop
    gc.collect()
    assert (ask.statistics().running, limit.statistics().running, limit.statistics().waiting) == (0, 0, 0)
    assert capfd.readouterr().err == ""


def test_without_a_loop_it_says_what_to_do():
    coroutine = ag.batched(asks)(1)
    with pytest.raises(ag.errors.GraphError, match="none is running in this thread"):
        coroutine.send(None)
