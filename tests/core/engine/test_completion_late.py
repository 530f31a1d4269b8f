"""The completion future when it is asked for late, and what a backward leaves behind."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.settings.context import CURRENT_GRAPH_TASK
from asyncgrad.engine import current_graph_task, queue_callback
from asyncgrad.errors import GraphError
from tests.support.failing import Trouble
from tests.support.functions import calling
from tests.support.leaves import leaf
from tests.support.turns import settle

# Asked for late.


@pytest.mark.parametrize("fails", [False, True])
async def test_a_completion_future_asked_for_after_the_end_tells_the_end(fails):
    tasks: list[Any] = []
    trouble = Trouble()

    def body(grad):
        tasks.append(current_graph_task())
        if fails:
            raise trouble

    x = leaf(1.0, 2.0)
    with contextlib.suppress(Trouble):
        await ag.grad(calling(x, body), [x], np.ones(2))
    future = tasks[0].future_result
    assert future.done()
    if fails:
        assert future.exception() is trouble
    else:
        assert [grad.tolist() for grad in await future] == [[1.0, 1.0]]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_completion_future_first_asked_for_after_the_end_tells_what_is_still_known(fails):
    tasks: list[Any] = []

    def body(grad):
        # Not by current_graph_task(), which counts as asking.
        tasks.append(CURRENT_GRAPH_TASK.get())
        if fails:
            raise Trouble

    x = leaf(1.0, 2.0)
    with contextlib.suppress(Trouble):
        await ag.grad(calling(x, body), [x], np.ones(2))
    if fails:
        with pytest.raises(GraphError, match="failed before its future was asked for"):
            await tasks[0].future_result
    else:
        assert [grad.tolist() for grad in await tasks[0].future_result] == [[1.0, 1.0]]


# What is left behind.


@pytest.fixture
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def test_where_nobody_asks_no_completion_is_made():
    tasks: list[Any] = []

    await ag.backward(calling(leaf(1.0), lambda grad: tasks.append(CURRENT_GRAPH_TASK.get())))

    assert tasks[0].completion is None


async def test_after_a_success_nothing_is_left_to_the_garbage_collector(no_collection):
    references: list[Any] = []

    def ask(grad):
        task = current_graph_task()
        references.extend([weakref.ref(task), weakref.ref(task.future_result)])
        # The callback refers to the task, and the task to the callback.
        queue_callback(lambda: references.append(weakref.ref(task)))
        ag.engine.warn("look")

    with pytest.warns(UserWarning, match="look"):
        await ag.backward(calling(leaf(1.0), ask))
    # A watcher's wake-up may still be queued.
    await settle()

    assert len(references) == 3
    assert [reference() for reference in references] == [None] * 3


async def test_after_a_success_a_future_that_is_held_holds_neither_task_nor_graph(no_collection):
    futures: list[Any] = []
    references: list[Any] = []

    def ask(grad):
        futures.append(current_graph_task().future_result)
        references.append(weakref.ref(current_graph_task()))

    async def main():
        out = calling(leaf(1.0), ask)
        references.append(weakref.ref(out.grad_fn))
        await ag.backward(out)

    await main()

    assert [reference() for reference in references] == [None, None]
    assert futures[0].result() == []
