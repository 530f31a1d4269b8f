"""What a GraphTask tells of itself inside of bodies, hooks, callbacks and nested backward passes."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine import current_graph_task, current_graph_task_id, queue_callback
from asyncgrad.extend import derivative, primitive
from tests.core.engine.graph_tasks import told_of_itself
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf

# Where there is one.


def test_there_is_no_graph_task_outside_of_a_backward():
    assert current_graph_task() is None
    assert current_graph_task_id() == -1
    assert ag.graph.current_node() is None


async def test_body_hook_and_callback_of_one_backward_are_told_the_same():
    told: list[dict[str, Any]] = []

    def note(*grads):
        told.append(told_of_itself(current_graph_task()))
        assert current_graph_task_id() == current_graph_task().id

    async def note_later(grad):
        await asyncio.sleep(0)
        note()

    x = leaf(1.0, 2.0)
    y = awaiting(calling(x, note), note_later)
    z = np.multiply(y, 2.0)
    z.register_hook(note)
    z.grad_fn.register_prehook(note)
    z.grad_fn.register_hook(note)
    x.register_post_accumulate_grad_hook(note)
    z.register_hook(lambda grad: queue_callback(note))

    await ag.backward(z, np.ones(2), retain_graph=True)

    assert len(told) == 7
    assert all(one == told[0] for one in told)
    assert told[0] == {
        "id": told[0]["id"],
        "reentrant_depth": 0,
        "owner": ag.engine.NO_DEVICE,
        "keep_graph": True,
        "has_error": False,
        "exit_on_error": False,
        "graph_roots": (z.grad_fn,),
        "nodes_in_graph": {y.grad_fn, y.grad_fn.next_edges[0].node, ag.graph.get_gradient_edge(x).node},
        "exec_info": {},
        "captured_grads": [],
        "leaf_streams": frozenset(),
        "can_checkpoint": True,
    }


def test_the_derivative_of_a_primitive_in_a_graph_that_nobody_watches_is_told_too():
    told: list[Any] = []

    @primitive()
    def watched(x):
        return x * 1.0

    def rule(g):
        task = current_graph_task()
        told.append((told_of_itself(task), task.outstanding_tasks, task.completed(), task.will_execute(y.grad_fn)))
        return g

    derivative(watched, "x")(rule)
    x = leaf(1.0, 2.0)
    y = watched(x)

    sync.backward(np.multiply(y, 3.0).sum())

    [(one, outstanding, completed, runs_itself)] = told
    assert one["graph_roots"][0].name == "SumBackward"
    assert (outstanding, completed, runs_itself) == (1, False, True)


async def test_keep_graph_says_what_was_asked_for():
    kept: list[bool] = []
    x = leaf(1.0)

    y = calling(x, lambda grad: kept.append(current_graph_task().keep_graph))
    await ag.backward(y, retain_graph=True)
    await ag.grad(y, [x], create_graph=True)
    await ag.grad(y, [x], create_graph=True, retain_graph=False)

    assert kept == [True, True, False]


async def test_ids_rise_and_are_never_the_same():
    ids: list[int] = []

    for _ in range(3):
        await ag.backward(calling(leaf(1.0), lambda grad: ids.append(current_graph_task_id())))

    assert ids == sorted(set(ids))
    assert min(ids) >= 0


async def test_graph_roots_are_the_nodes_of_the_roots_in_order_with_repeats():
    roots: list[Any] = []
    x = leaf(1.0)
    y, z = np.multiply(x, 2.0), np.multiply(x, 3.0)
    y.register_hook(lambda grad: roots.append(current_graph_task().graph_roots))

    await ag.backward([y, z, y])

    assert roots == [(y.grad_fn, z.grad_fn, y.grad_fn)]


async def test_a_root_is_in_the_graph_only_where_an_edge_leads_to_it():
    graphs: list[Any] = []
    x = leaf(1.0)
    y = np.multiply(x, 2.0)
    z = np.multiply(y, 3.0)
    z.register_hook(lambda grad: graphs.append(current_graph_task().nodes_in_graph))
    accumulator = ag.graph.get_gradient_edge(x).node

    await ag.backward(z, retain_graph=True)
    await ag.backward([y, z])

    assert graphs == [{y.grad_fn, accumulator}, {z.grad_fn, y.grad_fn, accumulator}]


async def test_nodes_are_outstanding_from_when_they_are_queued_until_they_have_ended():
    counts: list[int] = []

    def note(*grads):
        counts.append(current_graph_task().outstanding_tasks)

    x, y = leaf(1.0), leaf(2.0)
    first, second = calling(x, note), calling(y, note)
    total = np.add(first, second)
    total.register_hook(note)
    total.register_hook(lambda grad: queue_callback(note))

    await ag.backward(total)

    # The sum alone; both bodies; the first, while the second's leaf has run. In a callback none is left.
    assert counts == [1, 2, 1, 0]


async def test_a_backward_is_completed_when_nothing_is_queued_or_running():
    states: list[bool] = []
    tasks: list[Any] = []

    def note(*grads):
        tasks.append(current_graph_task())
        states.append(current_graph_task().completed())

    x = leaf(1.0)
    y = calling(x, note)
    y.register_hook(lambda grad: queue_callback(note))

    await ag.backward(y)

    assert states == [False, True]
    assert tasks[0].completed()


# Nested.


async def test_a_nested_backward_has_its_own_everything():
    told: list[dict[str, Any]] = []
    inner_leaf, outer_leaf = leaf(1.0), leaf(2.0)

    async def nested(grad):
        told.append(told_of_itself(current_graph_task()))
        with ag.enable_grad():
            inner = calling(inner_leaf, lambda grad: told.append(told_of_itself(current_graph_task())))
        await ag.backward(inner, retain_graph=True)
        told.append(told_of_itself(current_graph_task()))

    await ag.backward(awaiting(outer_leaf, nested))

    outer, inner, again = told
    assert outer == again
    assert inner["id"] > outer["id"]
    assert (outer["reentrant_depth"], inner["reentrant_depth"]) == (0, 1)
    assert (outer["owner"], inner["owner"]) == (ag.engine.NO_DEVICE, ag.engine.CPU_DEVICE)
    assert (outer["keep_graph"], inner["keep_graph"]) == (False, True)
    assert inner["nodes_in_graph"] == {ag.graph.get_gradient_edge(inner_leaf).node}


async def test_checkpoints_may_recompute_where_no_inputs_limit_this_backward_or_one_around_it():
    may: list[bool] = []

    def backward_within(tensor, **options):
        async def nested(grad):
            may.append(current_graph_task().can_checkpoint())
            with ag.enable_grad():
                inner = calling(tensor, lambda grad: may.append(current_graph_task().can_checkpoint()))
            await ag.backward(inner, **options)
            may.append(current_graph_task().can_checkpoint())

        return nested

    x, y = leaf(1.0), leaf(2.0)
    await ag.backward(awaiting(x, backward_within(y)))
    await ag.backward(awaiting(x, backward_within(y, inputs=[y])))
    await ag.backward(awaiting(x, backward_within(y)), inputs=[x])
    await ag.grad(awaiting(x, backward_within(y)), [x])

    assert may == [True] * 3 + [True, False, True] + [False] * 3 + [False] * 3


# What is captured.


async def test_captured_gradients_show_as_tensors_as_soon_as_they_are_there():
    seen: list[list[Any]] = []
    tasks: list[Any] = []

    def note(grad):
        tasks.append(current_graph_task())
        seen.append([grad if grad is None else grad.tolist() for grad in current_graph_task().captured_grads])

    x = leaf(1.0, 2.0)
    y = calling(x, note)
    z = calling(y, note)

    grads = await ag.grad(z, [x, y], np.array([3.0, 4.0]))

    assert seen == [[None, None], [None, [3.0, 4.0]]]
    captured = tasks[0].captured_grads
    assert all(type(grad) is ag.Tensor for grad in captured)
    assert [grad.tolist() for grad in captured] == [grad.tolist() for grad in grads]


async def test_a_backward_that_failed_keeps_nothing_that_it_captured():
    tasks: list[Any] = []

    def fail(grad):
        tasks.append(current_graph_task())
        raise Trouble

    x = leaf(1.0)
    y = calling(x, fail)
    z = np.multiply(y, 2.0)
    z.register_hook(lambda grad: None)

    with pytest.raises(Trouble):
        await ag.grad(z, [x, y])

    assert tasks[0].captured_grads == [None, None]
