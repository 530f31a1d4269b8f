"""Final callbacks: when they run, in which order, where, and what they can do to their backward."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine import current_graph_task, current_graph_task_id, queue_callback
from asyncgrad.errors import GraphError, HookTypeError
from tests.core.engine.callbacks import GRAPHS, ROUTES, queueing, queueing_at_body
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.settings import loop_budget
from tests.support.turns import one_turn, settle

# When and in which order.


@on_each_loop
@pytest.mark.parametrize(("drive", "graph"), ROUTES)
def test_callbacks_run_in_order_when_all_gradients_are_there_and_before_the_caller_goes_on(run, drive, graph):
    seen: list[Any] = []
    x = leaf(1.0)
    out = graph(x, lambda: seen.append((1, x.grad.item())), lambda: seen.append((2, x.grad.item())))

    drive(run, out)

    assert seen == [(1, 6.0), (2, 6.0)]


@on_each_loop
@pytest.mark.parametrize(("drive", "graph"), ROUTES)
def test_a_callback_may_queue_more_and_they_run_last(run, drive, graph):
    seen: list[int] = []

    def first():
        seen.append(1)
        queue_callback(lambda: seen.append(4))

    def second():
        seen.append(2)

    drive(run, graph(leaf(1.0), first, second, lambda: seen.append(3)))

    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
async def test_of_sync_and_async_callbacks_each_ends_before_the_next_begins(graph):
    seen: list[str] = []

    def noting(name: str) -> None:
        seen.append(name)

    async def noting_later(name: str) -> None:
        seen.append(f"{name} begins")
        await settle()
        seen.append(f"{name} ends")

    class Noting:
        async def __call__(self):
            await noting_later("object")

    await ag.backward(
        graph(
            leaf(1.0),
            functools.partial(noting_later, "partial"),
            functools.partial(noting, "plain"),
            Noting(),
            lambda: noting_later("lambda"),
            functools.partial(noting, "last"),
        )
    )

    begin_and_end = [f"{name} {what}" for name in ("partial", "object", "lambda") for what in ("begins", "ends")]
    assert seen == [*begin_and_end[:2], "plain", *begin_and_end[2:], "last"]


async def test_hooks_of_all_kinds_may_queue():
    seen: list[int] = []
    x = leaf(1.0)
    y = np.multiply(x, 2.0)
    y.register_hook(lambda grad: queue_callback(lambda: seen.append(1)))
    y.grad_fn.register_prehook(lambda grads: queue_callback(lambda: seen.append(2)))
    y.grad_fn.register_hook(lambda outputs, grads: queue_callback(lambda: seen.append(3)))
    x.register_hook(lambda grad: queue_callback(lambda: seen.append(4)))
    x.register_post_accumulate_grad_hook(lambda tensor: queue_callback(lambda: seen.append(5)))

    await ag.backward(y)

    assert seen == [1, 2, 3, 4, 5]


async def test_a_task_that_a_body_started_may_queue_while_callbacks_still_run():
    seen: list[int] = []

    async def queue_late():
        # Also where tasks are eager.
        await asyncio.sleep(0)
        queue_callback(lambda: seen.append(2))

    async def start(grad):
        seen_task = asyncio.ensure_future(queue_late())
        queue_callback(lambda: wait_for(seen_task))

    async def wait_for(task):
        await task
        seen.append(1)

    await ag.backward(awaiting(leaf(1.0), start))

    assert seen == [1, 2]


async def test_the_callbacks_queued_so_far_are_shown():
    shown: list[Any] = []
    tasks: list[Any] = []

    def show():
        shown.append(current_graph_task().final_callbacks)

    def body(grad):
        tasks.append(current_graph_task())
        show()
        queue_callback(show)
        queue_callback(one_turn)
        show()

    await ag.backward(calling(leaf(1.0), body))

    assert shown == [(), (show, one_turn), (show, one_turn)]
    assert tasks[0].final_callbacks == ()


async def test_many_callbacks_let_the_loop_breathe_and_can_be_cancelled():
    turns = 0

    def again():
        queue_callback(again)

    with loop_budget(-1):
        backward = asyncio.ensure_future(ag.backward(queueing_at_body(leaf(1.0), again)))
        for _ in range(50):
            await asyncio.sleep(0)
            turns += 1
        assert not backward.done()
        backward.cancel()
        with pytest.raises(asyncio.CancelledError):
            await backward

    assert turns == 50


# Where they run.


@pytest.mark.parametrize("create_graph", [False, True])
async def test_a_callback_runs_in_the_context_of_its_backward_and_of_no_node(create_graph):
    seen: list[Any] = []

    def note():
        task = current_graph_task()
        seen.append(
            (ag.is_grad_enabled(), ag.graph.current_node(), task.id == current_graph_task_id(), task.completed())
        )

    async def note_later():
        await one_turn()
        note()

    x = leaf(1.0)
    await ag.grad(queueing_at_body(x, note, note_later), [x], create_graph=create_graph)

    assert seen == [(create_graph, None, True, True)] * 2


async def test_callbacks_of_a_nested_backward_run_when_that_ends_and_those_of_the_outer_one_later():
    seen: list[Any] = []

    def noting(name: str) -> Any:
        return lambda: seen.append((name, current_graph_task().reentrant_depth))

    async def nested(grad):
        queue_callback(noting("outer"))
        with ag.enable_grad():
            inner = calling(leaf(1.0), queueing(noting("inner")))
        await ag.backward(inner)
        seen.append("inner has ended")

    await ag.backward(awaiting(leaf(1.0), nested))

    assert seen == [("inner", 1), "inner has ended", ("outer", 0)]


@on_each_loop
@pytest.mark.parametrize("blocking", [False, True])
def test_a_callback_may_run_a_backward_and_that_one_its_callbacks(run, blocking):
    seen: list[Any] = []
    x, y = leaf(1.0), leaf(2.0)

    def inner() -> Any:
        with ag.enable_grad():
            return calling(y, queueing(lambda: seen.append(current_graph_task().reentrant_depth)))

    async def awaits():
        await ag.backward(inner())
        seen.append("after")

    def blocks():
        sync.backward(inner())
        seen.append("after")

    run(ag.backward(queueing_at_body(x, blocks if blocking else awaits, lambda: seen.append("next"))))

    assert seen == [1, "after", "next"]
    assert (x.grad.item(), y.grad.item()) == (6.0, 1.0)


async def test_a_callback_may_run_a_backward_over_the_same_graph():
    x = leaf(1.0)
    rounds: list[int] = []

    def body(grad):
        if len(rounds) < 3:
            rounds.append(current_graph_task().reentrant_depth)
            queue_callback(lambda: ag.backward(out, retain_graph=True))

    out = calling(np.multiply(x, 2.0), body)

    await ag.backward(out, retain_graph=True)

    assert rounds == [0, 1, 2]
    assert x.grad.item() == 8.0


# What is refused.


def test_outside_of_a_backward_nothing_can_be_queued():
    with pytest.raises(GraphError, match=r"queue_callback\(\.\.\.\) works inside a body.*no backward runs"):
        queue_callback(print)


@pytest.mark.parametrize("wrong", [None, 3, "print", one_turn])
async def test_what_cannot_be_called_is_refused_where_it_is_queued(wrong):
    def body(grad):
        value = wrong
        if wrong is one_turn:
            value = wrong()
            value.close()
        with pytest.raises(HookTypeError, match=r"must be callable without arguments, not .*pass a function"):
            queue_callback(value)

    await ag.backward(calling(leaf(1.0), body))
