"""What a body costs, and what it sees: its task, its context, the backward that it is part of."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.settings.context import BLOCKING, CURRENT_GRAPH_TASK, CURRENT_NODE, GRAD_MODE
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.settings import loop_budget
from tests.support.turns import Held, at_once


@pytest.fixture
def no_hurry() -> Iterator[None]:
    """However slow the machine, the time budget is not spent."""
    with loop_budget(math.inf):
        yield


class CountingLoop:
    """Counts the turns that a ticker gets."""

    def __init__(self) -> None:
        self.ticks = 0

    async def tick(self) -> None:
        while True:
            self.ticks += 1
            await asyncio.sleep(0)


async def turns_taken(awaitable: Any) -> int:
    """Return how many turns of the loop others got before `awaitable` ended."""
    counting = CountingLoop()
    ticker = asyncio.ensure_future(counting.tick())
    await asyncio.sleep(0)
    before = counting.ticks
    await awaitable
    taken = counting.ticks - before
    ticker.cancel()
    await asyncio.wait([ticker])
    return taken


def chain_of(count: int, body: Any) -> ag.Tensor:
    out: Any = leaf(1.0)
    for _ in range(count):
        out = awaiting(out, body)
    return out


async def test_async_bodies_that_never_suspend_cost_no_turn_of_the_loop_and_make_no_task(no_hurry):
    tasks: list[set[Any]] = []

    async def look(grad):
        tasks.append(asyncio.all_tasks())

    out = chain_of(5, look)
    assert await turns_taken(out.backward()) == 0
    assert all(len(found) <= 2 for found in tasks)


async def test_a_body_that_waits_one_turn_costs_two(no_hurry):
    """One to end in, and one for the driver to go on in."""

    async def one(grad):
        await asyncio.sleep(0)

    assert await turns_taken(chain_of(10, one).backward()) <= 2 * 10


async def test_a_small_graph_never_suspends(no_hurry):
    """Driven by hand: the coroutine ends at its first step."""

    x = leaf(1.0, 2.0)
    for out in (
        np.multiply(np.multiply(x, x), x),
        calling(np.multiply(x, x), lambda grad: None),
        chain_of(3, at_once),
    ):
        step = out.backward(np.ones(out.shape))
        with pytest.raises(StopIteration):
            step.send(None)


async def test_current_task_inside_a_body_is_a_task_of_its_own():
    seen: list[Any] = []

    async def look(grad):
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())
        assert asyncio.current_task() in asyncio.all_tasks()

    outer = asyncio.current_task()
    out = awaiting(leaf(1.0), look)
    await ag.backward(out)

    assert seen[0] is seen[1]
    assert seen[0] is not outer
    assert seen[0].get_name() == f"AwaitingBackward #{out.grad_fn.sequence_nr}"
    assert asyncio.current_task() is outer


async def test_current_task_inside_a_plain_body_is_a_task_too():
    seen: list[Any] = []
    outer = asyncio.current_task()
    await ag.backward(calling(leaf(1.0), lambda grad: seen.append(asyncio.current_task())))
    assert seen[0] is not None
    assert asyncio.current_task() is outer


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


async def test_context_variables_that_a_body_sets_are_seen_by_no_other():
    seen: list[str] = []

    async def sets(grad):
        seen.append(VARIABLE.get())
        VARIABLE.set("by a body")
        await asyncio.sleep(0)
        assert VARIABLE.get() == "by a body"

    def sets_at_once(grad):
        seen.append(VARIABLE.get())
        VARIABLE.set("by a plain body")

    VARIABLE.set("by the caller")
    out = calling(awaiting(calling(awaiting(leaf(1.0), sets), sets_at_once), sets), sets_at_once)
    out = np.multiply(out, 2.0)
    out.register_hook(sets_at_once)
    await ag.backward(out)
    assert seen == ["by the caller"] * 5
    assert VARIABLE.get() == "by the caller"


async def test_bodies_see_their_graph_task_their_node_and_the_grad_mode():
    seen: list[Any] = []

    async def look(grad):
        await asyncio.sleep(0)
        seen.append((CURRENT_GRAPH_TASK.get(), CURRENT_NODE.get(), GRAD_MODE.get(), BLOCKING.get()))

    x = leaf(2.0)
    first = awaiting(x, look)
    second = awaiting(first, look)
    await ag.backward(second, retain_graph=True)
    with ag.no_grad():
        await ag.grad(second, x, create_graph=True)

    graph_tasks = [graph_task for graph_task, *_ in seen]
    assert [row[1:] for row in seen] == [
        (second.grad_fn, False, False),
        (first.grad_fn, False, False),
        (second.grad_fn, True, False),
        (first.grad_fn, True, False),
    ]
    assert graph_tasks[0] is graph_tasks[1]
    assert graph_tasks[2].id > graph_tasks[0].id
    assert CURRENT_GRAPH_TASK.get() is None
    assert CURRENT_NODE.get() is None
    assert ag.is_grad_enabled()


async def test_a_backward_awaited_inside_a_body_suspends_only_that_body():
    inner_held, other_held = Held(), Held()
    w = leaf(2.0)

    async def nested(grad):
        with ag.enable_grad():
            inner = awaiting(np.multiply(w, 3.0), inner_held)
        await ag.backward(inner)

    backward = asyncio.ensure_future(np.add(awaiting(leaf(1.0), nested), awaiting(leaf(1.0), other_held)).backward())
    await inner_held.begun.wait()
    await other_held.begun.wait()
    inner_held.let_go.set()
    other_held.let_go.set()
    await backward
    assert w.grad.item() == 3.0


@on_each_loop
def test_a_plain_body_may_run_a_blocking_backward_that_does_not_suspend(run):
    w = leaf(2.0)

    def nested(grad):
        with ag.enable_grad():
            inner = calling(np.multiply(w, 3.0), lambda grad: None)
        sync.backward(inner)

    run(ag.backward(calling(leaf(1.0), nested)))

    assert w.grad.item() == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("suspends", [False, True])
async def test_nesting_is_bounded_by_memory_alone(suspends):
    depths: list[int] = []

    async def nested(grad):
        depth = CURRENT_GRAPH_TASK.get().reentrant_depth
        depths.append(depth)
        if suspends:
            await asyncio.sleep(0)
        if depth < 400:
            with ag.enable_grad():
                inner = awaiting(leaf(1.0), nested)
            await ag.backward(inner)

    await ag.backward(awaiting(leaf(1.0), nested))

    assert depths == list(range(401))


async def test_a_backward_may_run_outside_of_any_task(no_hurry):
    """In a callback of the loop there is no current task; bodies that do not suspend need none."""

    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    x = leaf(2.0)

    def callback():
        assert asyncio.current_task() is None
        step = awaiting(np.multiply(x, 3.0), at_once).backward()
        try:
            step.send(None)
        except StopIteration:
            done.set_result(x.grad.item())

    loop.call_soon(callback)
    assert await done == 3.0
