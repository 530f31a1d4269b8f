"""The completion future: when it resolves, with what, and for whom."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine import current_graph_task, queue_callback
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import Held, settle


def asking(futures: list[Any]) -> Any:
    """A body that asks for the future of its backward."""
    return lambda grad: futures.append(current_graph_task().future_result)


def asking_and_waiting(futures: list[Any], held: Held) -> Any:
    """A body that does so and is then held."""

    async def wait(grad):
        asking(futures)(grad)
        await held(grad)

    return wait


# When.


async def test_the_future_resolves_after_the_callbacks_and_before_the_caller_goes_on():
    states: list[bool] = []
    futures: list[Any] = []

    def ask(grad):
        asking(futures)(grad)
        states.append(futures[0].done())
        queue_callback(lambda: states.append(futures[0].done()))

    await ag.backward(calling(leaf(1.0), ask))
    states.append(futures[0].done())

    assert states == [False, False, True]


async def test_the_future_resolves_after_delayed_warnings_have_been_shown(monkeypatch):
    futures: list[Any] = []
    states: list[bool] = []

    def ask(grad):
        asking(futures)(grad)
        ag.engine.warn("look")

    def shown(*arguments, **options):
        states.append(futures[0].done())

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", shown)
        await ag.backward(calling(leaf(1.0), ask))
        states.append(futures[0].done())

    assert states == [False, True]


async def test_what_a_backward_has_done_is_there_when_its_future_resolves():
    seen: list[Any] = []
    x = leaf(1.0, 2.0)

    def ask(grad):
        current_graph_task().future_result.add_done_callback(lambda future: seen.append(x.grad.tolist()))

    await ag.backward(calling(x, ask), np.ones(2))

    assert seen == [[1.0, 1.0]]


async def test_what_a_failed_backward_has_done_is_undone_when_its_future_resolves():
    seen: list[Any] = []
    x, y = leaf(1.0), leaf(2.0)

    def ask(grad):
        current_graph_task().future_result.add_done_callback(lambda future: seen.append((x.grad, y.grad)))

    def fail(grad):
        assert y.grad is not None
        raise Trouble

    with pytest.raises(Trouble):
        await ag.backward(np.add(calling(x, fail), calling(y, ask)))

    assert seen == [(None, None)]


# With what.


@pytest.mark.parametrize("create_graph", [False, True])
async def test_the_future_holds_what_was_captured_as_tensors(create_graph):
    futures: list[Any] = []
    x = leaf(1.0, 2.0)
    y = calling(x, asking(futures))

    grads = await ag.grad(np.multiply(y, y), [y, x], np.ones(2), create_graph=create_graph)
    held = await futures[0]
    assert all(type(grad) is ag.Tensor for grad in held)
    assert [grad.tolist() for grad in held] == [grad.tolist() for grad in grads] == [[2.0, 4.0]] * 2
    assert [grad.requires_grad for grad in held] == [create_graph] * 2


async def test_the_future_of_a_backward_holds_an_empty_list():
    futures: list[Any] = []

    await ag.backward(calling(leaf(1.0), asking(futures)))

    assert futures[0].result(timeout=0) == []


@pytest.mark.parametrize("waits", [False, True])
async def test_the_future_holds_the_very_exception(waits):
    futures: list[Any] = []
    trouble = Trouble("here")

    async def fail(grad):
        asking(futures)(grad)
        if waits:
            await asyncio.sleep(0)
        raise trouble

    with pytest.raises(Trouble) as caught:
        await ag.backward(awaiting(leaf(1.0), fail))
    assert caught.value is trouble
    with pytest.raises(Trouble) as caught:
        await futures[0]
    assert caught.value is trouble
    with pytest.raises(Trouble):
        futures[0].result(timeout=0)
    assert futures[0].exception(timeout=0) is trouble
    assert len(trouble.__notes__) == 1


async def test_the_future_of_a_cancelled_backward_holds_the_cancellation():
    held = Held()
    futures: list[Any] = []

    wait = asking_and_waiting(futures, held)

    backward = asyncio.ensure_future(ag.backward(awaiting(leaf(1.0), wait)))
    await held.begun.wait()
    backward.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backward
    assert isinstance(futures[0].exception(timeout=0), asyncio.CancelledError)
    with pytest.raises(asyncio.CancelledError):
        await futures[0]

    assert held.cancelled


async def test_each_nested_backward_has_a_future_of_its_own():
    futures: list[Any] = []
    states: list[Any] = []

    async def nested(grad):
        asking(futures)(grad)
        with ag.enable_grad():
            inner = calling(leaf(1.0), asking(futures))
        await ag.backward(inner)
        states.append([future.done() for future in futures])

    await ag.backward(awaiting(leaf(1.0), nested))

    assert states == [[False, True]]
    assert [future.done() for future in futures] == [True, True]


def test_one_backward_has_one_future():
    futures: list[Any] = []
    tasks: list[Any] = []

    def ask(grad):
        asking(futures)(grad)
        tasks.append(current_graph_task())

    sync.backward(calling(calling(leaf(1.0), ask), ask))

    assert futures[0] is futures[1] is tasks[0].future_result
    assert tasks[0] is tasks[1]


# For whom.


async def test_other_tasks_may_await_the_future_many_at_a_time():
    held = Held()
    futures: list[Any] = []
    x = leaf(1.0)

    wait = asking_and_waiting(futures, held)

    async def watch():
        result = await futures[0]
        return result, x.grad.item()

    backward = asyncio.ensure_future(ag.backward(awaiting(x, wait)))
    await held.begun.wait()
    watchers = [asyncio.ensure_future(watch()) for _ in range(3)]
    await settle()
    assert not any(watcher.done() for watcher in watchers)
    held.let_go.set()
    assert await asyncio.gather(*watchers) == [([], 1.0)] * 3
    await backward


async def test_a_watcher_that_is_cancelled_or_times_out_takes_nothing_with_it():
    held = Held()
    futures: list[Any] = []
    x = leaf(1.0)

    wait = asking_and_waiting(futures, held)

    backward = asyncio.ensure_future(ag.backward(awaiting(x, wait)))
    await held.begun.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await futures[0]
    watcher = asyncio.ensure_future(asyncio.wait_for(futures[0], None))
    await settle()
    watcher.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watcher
    assert not futures[0].done()
    held.let_go.set()
    await backward
    assert await futures[0] == []

    assert x.grad.item() == 1.0


async def test_the_completion_future_cannot_be_cancelled():
    held = Held()
    futures: list[Any] = []

    wait = asking_and_waiting(futures, held)

    backward = asyncio.ensure_future(ag.backward(awaiting(leaf(1.0), wait)))
    await held.begun.wait()
    assert futures[0].cancel() is False
    assert not futures[0].cancelled()
    assert futures[0].running()
    held.let_go.set()
    await backward
    assert futures[0].cancel() is False

    assert held.ended


async def test_threads_and_other_loops_may_wait_for_the_completion_future():
    held = Held()
    futures: list[Any] = []

    wait = asking_and_waiting(futures, held)

    async def watch():
        return await futures[0]

    x = leaf(1.0, 2.0)
    gradient = asyncio.ensure_future(ag.grad(awaiting(x, wait), [x], np.ones(2)))
    await held.begun.wait()
    waiting = [
        asyncio.ensure_future(asyncio.to_thread(lambda: futures[0].result())),
        asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(watch()))),
        asyncio.ensure_future(asyncio.to_thread(lambda: concurrent.futures.wait(futures).done.pop().result())),
    ]
    await settle()
    held.let_go.set()
    results = await asyncio.gather(*waiting)
    await gradient
    assert [[grad.tolist() for grad in result] for result in results] == [[[1.0, 1.0]]] * 3


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_blocking_backward_has_a_future_too(asynchronous):
    futures: list[Any] = []
    results: list[Any] = []
    asked = threading.Event()

    def ask(grad):
        asking(futures)(grad)
        asked.set()

    async def ask_later(grad):
        await asyncio.sleep(0)
        ask(grad)

    def watch():
        asked.wait()
        results.append(futures[0].result())

    thread = threading.Thread(target=watch)
    thread.start()
    sync.backward(awaiting(leaf(1.0), ask_later) if asynchronous else calling(leaf(1.0), ask))
    thread.join()

    assert results == [[]]
