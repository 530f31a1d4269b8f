"""What a GraphTask tells after its end, after a failure, to other threads, and under exit_on_error."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine import current_graph_task, current_graph_task_id, queue_callback
from tests.core.engine.graph_tasks import told_of_itself
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.turns import Held, settle

# After the end.


async def test_after_the_end_a_task_still_tells_what_it_was():
    tasks: list[Any] = []
    told: list[dict[str, Any]] = []

    def note(grad):
        tasks.append(current_graph_task())
        told.append(told_of_itself(tasks[0]))
        queue_callback(lambda: None)

    x = leaf(1.0)
    y = calling(x, note)
    await ag.backward(y)
    task = tasks[0]

    assert told_of_itself(task) == told[0]
    assert (task.outstanding_tasks, task.completed(), task.final_callbacks) == (0, True, ())
    assert task.will_execute(y.grad_fn)
    assert [node.name for node in task.execution_order()] == [y.grad_fn.name, "AccumulateGrad"]
    assert current_graph_task() is None


@on_each_loop
@pytest.mark.parametrize("inner", [None, "await", "sync"])
def test_after_a_failure_a_task_says_so(run, inner):
    tasks: list[Any] = []

    def fail(grad):
        tasks.append(current_graph_task())
        raise Trouble

    async def nested(grad):
        tasks.append(current_graph_task())
        with ag.enable_grad():
            failing = calling(leaf(1.0), fail)
        if inner == "sync":
            sync.backward(failing)
        else:
            await ag.backward(failing)

    async def main():
        x = leaf(1.0)
        with pytest.raises(Trouble):
            await ag.backward(calling(x, fail) if inner is None else awaiting(x, nested))
        assert x.grad is None

    run(main())

    assert len(tasks) == (1 if inner is None else 2)
    assert all(task.has_error and task.completed() and not task.outstanding_tasks for task in tasks)


async def test_an_inner_failure_that_the_outer_body_catches_is_the_inner_ones_alone():
    tasks: list[Any] = []

    def fail(grad):
        tasks.append(current_graph_task())
        raise Trouble

    async def nested(grad):
        tasks.append(current_graph_task())
        with ag.enable_grad():
            failing = calling(leaf(1.0), fail)
        with pytest.raises(Trouble):
            await ag.backward(failing)
        assert tasks[1].has_error
        assert not tasks[0].has_error

    await ag.backward(awaiting(leaf(1.0), nested))

    assert [task.has_error for task in tasks] == [False, True]


async def test_a_task_that_a_body_started_and_that_outlives_its_backward_is_outside_of_it():
    seen: list[Any] = []

    gone = asyncio.Event()
    started: list[Any] = []

    async def outlive():
        await gone.wait()
        seen.append((current_graph_task(), current_graph_task_id()))
        with pytest.raises(ag.errors.GraphError, match="no backward runs here"):
            queue_callback(print)
        with ag.enable_grad():
            later = calling(leaf(1.0), lambda grad: seen.append(current_graph_task().reentrant_depth))
        await ag.backward(later)

    await ag.backward(calling(leaf(1.0), lambda grad: started.append(asyncio.ensure_future(outlive())) and None))
    gone.set()
    await started[0]

    assert seen == [(None, -1), 0]


# From another thread.


async def test_another_thread_may_read_all_of_it_while_a_body_waits():
    held = Held()
    tasks: list[Any] = []

    async def wait(grad):
        tasks.append(current_graph_task())
        await held(grad)

    x, y = leaf(1.0), leaf(2.0)
    other = Held()
    total = np.add(awaiting(x, wait), awaiting(y, other))
    backward = asyncio.ensure_future(ag.backward(total))
    await held.begun.wait()
    await other.begun.wait()
    task = tasks[0]
    here = (told_of_itself(task), task.outstanding_tasks, task.completed(), task.final_callbacks)
    there = await asyncio.to_thread(
        lambda: (told_of_itself(task), task.outstanding_tasks, task.completed(), task.final_callbacks)
    )
    assert there == here
    assert (here[1], here[2]) == (2, False)
    held.let_go.set()
    other.let_go.set()
    await backward


async def test_a_thread_is_in_no_backward_unless_its_context_is_that_of_a_body():
    seen: list[int] = []
    ids: list[int] = []

    async def body(grad):
        ids.append(current_graph_task_id())
        thread = threading.Thread(target=lambda: seen.append(current_graph_task_id()))
        thread.start()
        thread.join()
        seen.append(await asyncio.to_thread(current_graph_task_id))

    await ag.backward(awaiting(leaf(1.0), body))

    assert seen == [-1, ids[0]]


# exit_on_error.


async def execute(out: ag.Tensor, exit_on_error: bool) -> Any:
    edge = ag.graph.get_gradient_edge(out)
    return await ag.engine.Engine.execute(
        [ag.graph.Edge(*edge)],
        [np.ones(out.shape)],
        keep_graph=False,
        create_graph=False,
        accumulate=True,
        exit_on_error=exit_on_error,
    )


@pytest.mark.parametrize("exit_on_error", [False, True])
async def test_the_future_tells_an_error_before_the_end_of_other_bodies_only_under_exit_on_error(exit_on_error):
    seen: list[Any] = []
    trouble = Trouble("first")

    fail_now, cleaning_up, cleaned_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
    tasks: list[Any] = []

    async def fail(grad):
        tasks.append(current_graph_task())
        await fail_now.wait()
        raise trouble

    async def clean_up_slowly(grad):
        try:
            await asyncio.Event().wait()
        finally:
            cleaning_up.set()
            await cleaned_up.wait()

    x, y = leaf(1.0), leaf(2.0)
    total = np.add(awaiting(x, clean_up_slowly), awaiting(y, fail))
    total = np.add(total, awaiting(x, Held()))
    backward = asyncio.ensure_future(execute(total, exit_on_error))
    await settle()
    task = tasks[0]
    assert task.exit_on_error is exit_on_error
    assert not task.completed()
    fail_now.set()
    await cleaning_up.wait()
    seen.append((task.completed(), task.future_result.done(), task.outstanding_tasks, backward.done()))
    cleaned_up.set()
    with pytest.raises(Trouble) as caught:
        await backward
    assert caught.value is trouble
    assert task.future_result.exception() is trouble
    assert task.completed()
    assert x.grad is None
    assert y.grad is None

    assert seen == [(exit_on_error, exit_on_error, 1, False)]


@pytest.mark.parametrize("exit_on_error", [False, True])
async def test_a_backward_that_succeeds_is_the_same_under_exit_on_error(exit_on_error):
    x = leaf(1.0, 2.0)

    assert await execute(calling(x, lambda grad: None), exit_on_error) == []
    assert x.grad.tolist() == [1.0, 1.0]
