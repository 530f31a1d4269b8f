"""Final callbacks that fail, are cancelled, or wait where nothing may."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine import queue_callback
from asyncgrad.errors import BlockingError
from tests.core.engine.callbacks import GRAPHS, ROUTES, queueing_at_async_body, queueing_at_body
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.turns import Held, one_turn

# Failure.


@on_each_loop
@pytest.mark.parametrize(("drive", "graph"), ROUTES)
def test_a_callback_that_raises_ends_the_backward_with_its_error_and_puts_grad_back(run, drive, graph):
    """PyTorch keeps what has been accumulated; here a backward happens or it does not."""
    seen: list[Any] = []
    x = leaf(1.0)
    x.grad = before = ag.tensor([5.0])
    trouble = Trouble()

    def fail():
        seen.append(x.grad.item())
        raise trouble

    with pytest.raises(Trouble) as caught:
        drive(run, graph(x, fail, lambda: seen.append("not run")))

    assert caught.value is trouble
    assert seen == [11.0]
    assert x.grad is before
    assert x.grad.item() == 5.0


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
async def test_an_async_callback_that_raises_after_a_wait_does_so_too(graph):
    seen: list[Any] = []
    x = leaf(1.0)

    async def fail():
        await one_turn()
        seen.append(x.grad.item())
        raise Trouble

    with pytest.raises(Trouble):
        await ag.backward(graph(x, fail, lambda: seen.append("not run")))

    assert seen == [6.0]
    assert x.grad is None


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
async def test_a_failure_in_a_callback_takes_back_no_other_backwards_gradient(graph):
    """Another backward adds to the same leaf while the callback waits."""
    held = Held()
    x = leaf(1.0)

    async def fail():
        await held(None)
        raise Trouble

    backward = asyncio.ensure_future(ag.backward(graph(x, fail)))
    await held.begun.wait()
    assert x.grad.item() == 6.0
    await ag.backward(np.multiply(x, 10.0))
    assert x.grad.item() == 16.0
    held.let_go.set()
    with pytest.raises(Trouble):
        await backward

    assert x.grad.item() == 10.0


@on_each_loop
@pytest.mark.parametrize(("drive", "graph"), ROUTES)
def test_no_callback_runs_after_a_failure_in_a_node(run, drive, graph):
    seen: list[Any] = []

    def fail(grad):
        raise Trouble

    with pytest.raises(Trouble):
        drive(run, graph(calling(leaf(1.0), fail), lambda: seen.append("run")))

    assert seen == []


async def test_a_callback_of_a_nested_backward_that_raises_fails_that_one_alone_if_the_body_catches_it():
    seen: list[Any] = []
    x, y = leaf(1.0), leaf(2.0)

    def fail():
        raise Trouble

    async def nested(grad):
        queue_callback(lambda: seen.append("outer"))
        with ag.enable_grad():
            inner = queueing_at_body(y, fail)
        with pytest.raises(Trouble):
            await ag.backward(inner)

    await ag.backward(awaiting(x, nested))

    assert seen == ["outer"]
    assert (x.grad.item(), y.grad) == (1.0, None)


@pytest.mark.parametrize("how", ["cancel", "timeout"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
async def test_a_backward_cancelled_while_a_callback_waits_ends_that_and_puts_grad_back(graph, how):
    held = Held()
    seen: list[Any] = []
    x = leaf(1.0)

    limit = asyncio.timeout(None)

    async def wait():
        if how == "timeout":
            limit.reschedule(0)
        await held(None)

    async def limited(out):
        async with limit:
            await ag.backward(out)

    out = graph(x, wait, lambda: seen.append("not run"))
    if how == "timeout":
        with pytest.raises(TimeoutError):
            await limited(out)
    else:
        backward = asyncio.ensure_future(ag.backward(out))
        await held.begun.wait()
        assert x.grad.item() == 6.0
        backward.cancel()
        with pytest.raises(asyncio.CancelledError):
            await backward

    assert held.cancelled
    assert seen == []
    assert x.grad is None


# Blocking.


@pytest.mark.parametrize("callback", ["async def", "lambda", "partial", "object"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_an_async_callback_of_a_blocking_backward_gets_a_loop_where_none_runs(graph, callback):
    seen: list[Any] = []
    x = leaf(1.0)

    async def note(name="async def"):
        await asyncio.sleep(0)
        seen.append((name, x.grad.item()))

    class Noting:
        async def __call__(self):
            await note("object")

    callbacks: dict[str, Any] = {
        "async def": note,
        "lambda": lambda: note("lambda"),
        "partial": functools.partial(note, "partial"),
        "object": Noting(),
    }

    sync.backward(graph(x, lambda: seen.append("first"), callbacks[callback], lambda: seen.append("last")))

    assert seen == ["first", (callback, 6.0), "last"]


@on_each_loop
def test_where_a_loop_runs_an_async_callback_that_does_not_suspend_is_stepped(run):
    seen: list[str] = []

    async def note():
        seen.append("run")

    async def main():
        sync.backward(queueing_at_body(leaf(1.0), note))

    run(main())

    assert seen == ["run"]


@on_each_loop
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_where_a_loop_runs_an_async_callback_that_suspends_raises_and_puts_grad_back(run, graph):
    x = leaf(1.0)

    async def main():
        out = queueing_at_body(x, one_turn) if graph is queueing_at_async_body else graph(x, one_turn)
        with pytest.raises(BlockingError, match=r"a final callback suspended.*await ag\.backward"):
            sync.backward(out)

    run(main())

    assert x.grad is None
