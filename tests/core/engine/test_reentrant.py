"""A backward inside of a backward: a GraphTask of its own, on its own terms, wherever it is called."""

from __future__ import annotations

import asyncio
import contextvars
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.testing import explore
from tests.core.engine.locking import is_at_rest
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.sampling import cases
from tests.support.turns import Held, settle

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")


def in_body(work: Callable[[], Any]) -> ag.Tensor:
    return calling(leaf(1.0), lambda grad: work())


def in_async_body(work: Callable[[], Any]) -> ag.Tensor:
    async def body(grad):
        await work()

    return awaiting(leaf(1.0), body)


def in_tensor_hook(work: Callable[[], Any]) -> ag.Tensor:
    out = np.multiply(leaf(1.0), 2.0)
    out.register_hook(lambda grad: work())
    return out


def in_pre_hook(work: Callable[[], Any]) -> ag.Tensor:
    out = np.multiply(leaf(1.0), 2.0)
    out.grad_fn.register_prehook(lambda grads: work())
    return out


def in_post_hook(work: Callable[[], Any]) -> ag.Tensor:
    out = np.multiply(leaf(1.0), 2.0)
    out.grad_fn.register_hook(lambda outputs, grads: work())
    return out


def in_leaf_hook(work: Callable[[], Any]) -> ag.Tensor:
    x = leaf(1.0)
    x.register_hook(lambda grad: work())
    return np.multiply(x, 2.0)


def in_post_accumulate_hook(work: Callable[[], Any]) -> ag.Tensor:
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda tensor: work())
    return np.multiply(x, 2.0)


def in_multi_grad_hook(work: Callable[[], Any]) -> ag.Tensor:
    x, y = leaf(1.0), leaf(2.0)
    ag.graph.register_multi_grad_hook([x, y], lambda grads: work())
    return np.multiply(x, y)


def in_final_callback(work: Callable[[], Any]) -> ag.Tensor:
    return calling(leaf(1.0), lambda grad: ag.engine.queue_callback(work))


PLACES = [
    in_body,
    in_async_body,
    in_tensor_hook,
    in_pre_hook,
    in_post_hook,
    in_leaf_hook,
    in_post_accumulate_hook,
    in_multi_grad_hook,
    in_final_callback,
]
each_place_to_await = pytest.mark.parametrize(
    "place", [place for place in PLACES if place is not in_body], ids=lambda place: place.__name__
)


@each_place_to_await
async def test_a_backward_may_be_awaited_wherever_users_code_runs(place):
    w = leaf(3.0)
    turn, seen = asyncio.Event(), []

    async def waits(grad):
        turn.set()
        await asyncio.sleep(0)
        seen.append(ag.engine.current_graph_task().reentrant_depth)

    async def work():
        with ag.enable_grad():
            inner = awaiting(np.multiply(w, 2.0), waits)
        await ag.backward(inner)

    await ag.backward(place(work))
    assert seen == [1]
    assert w.grad.item() == 2.0


@on_each_loop
@pytest.mark.parametrize("inside_a_loop", [False, True])
@pytest.mark.parametrize("place", [place for place in PLACES if place is not in_async_body])
def test_a_backward_may_block_wherever_users_code_runs(run, place, inside_a_loop):
    w, seen = leaf(3.0), []

    def work():
        with ag.enable_grad():
            inner = calling(np.multiply(w, 2.0), lambda grad: seen.append(ag.engine.current_graph_task()))
        sync.backward(inner)

    if inside_a_loop:
        run(ag.backward(place(work)))
    else:
        sync.backward(place(work))
    assert [task.reentrant_depth for task in seen] == [1]
    assert w.grad.item() == 2.0


@pytest.mark.parametrize("blocks", [False, True])
def test_an_async_body_below_a_blocking_one_runs_on_a_loop_where_there_is_none(blocks):
    w, loops = leaf(3.0), []

    async def deepest(grad):
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    def body(grad):
        with ag.enable_grad():
            inner = awaiting(w, deepest)
        sync.backward(inner)

    sync.backward(calling(calling(leaf(1.0), body) if blocks else np.multiply(leaf(1.0), 2.0), body))
    assert len(loops) == 1 + blocks
    assert w.grad.item() == 1.0 + blocks


@each_place_to_await
async def test_a_nested_backward_has_an_id_a_depth_and_an_owner_of_its_own_and_all_is_as_before_afterwards(place):
    tasks: list[Any] = []

    def note(grad=None):
        task = ag.engine.current_graph_task()
        assert task.id == ag.engine.current_graph_task_id()
        tasks.append((task, ag.graph.current_node()))

    async def work():
        note()
        with ag.enable_grad():
            inner = calling(leaf(1.0), note)
        await ag.backward(inner, retain_graph=True)
        note()

    assert ag.engine.current_graph_task_id() == -1
    await ag.backward(place(work))
    assert ag.engine.current_graph_task_id() == -1
    assert ag.graph.current_node() is None
    (outer, outer_node), (inner, inner_node), after = tasks
    assert after == (outer, outer_node)
    assert (outer_node is None) is (place is in_final_callback)
    assert inner_node.name == "CallingBackward"
    assert inner.id > outer.id
    assert (outer.reentrant_depth, inner.reentrant_depth) == (0, 1)
    assert (outer.owner, inner.owner) == (ag.engine.NO_DEVICE, ag.engine.CPU_DEVICE)
    assert (outer.keep_graph, inner.keep_graph) == (False, True)


@on_each_loop
@pytest.mark.parametrize("outer_creates", [False, True])
@pytest.mark.parametrize("inner_creates", [False, True])
@pytest.mark.parametrize("blocks", [False, True])
def test_each_nested_backward_has_a_grad_mode_of_its_own(run, outer_creates, inner_creates, blocks):
    async def main():
        x, w = leaf(3.0), leaf(2.0)
        modes: list[bool] = []

        def note(grad):
            modes.append(ag.is_grad_enabled())

        def inner():
            with ag.enable_grad():
                return calling(np.multiply(np.multiply(w, w), w), note)

        def body(grad):
            note(grad)
            sync.backward(inner(), create_graph=inner_creates)
            note(grad)

        async def async_body(grad):
            note(grad)
            await ag.backward(inner(), create_graph=inner_creates)
            note(grad)

        out = calling(x, body) if blocks else awaiting(x, async_body)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "backward.. with create_graph=True makes each leaf")
            await ag.backward(np.multiply(out, out), create_graph=outer_creates)
        assert modes == [outer_creates, inner_creates, outer_creates]
        assert w.grad.item() == 12.0
        assert (w.grad.grad_fn is not None) is inner_creates
        assert (x.grad.grad_fn is not None) is outer_creates
        assert ag.is_grad_enabled()

    run(main())


async def test_each_nested_backward_runs_in_a_copy_of_the_context_of_the_line_that_called_it():
    seen: list[str] = []

    def note(grad):
        seen.append(VARIABLE.get())
        VARIABLE.set("set in a body")

    async def body(grad):
        VARIABLE.set("in the outer body")
        with ag.enable_grad():
            inner = calling(calling(leaf(1.0), note), note)
        await ag.backward(inner)
        seen.append(VARIABLE.get())

    VARIABLE.set("at the call")
    await ag.backward(calling(awaiting(calling(leaf(1.0), note), body), note))
    seen.append(VARIABLE.get())
    assert seen == ["at the call", *["in the outer body"] * 3, "at the call", "at the call"]


@on_each_loop
@pytest.mark.parametrize("levels", [1, 2, 5, 40])
@pytest.mark.parametrize("blocks", [False, True])
def test_a_nested_backward_may_run_the_very_graph_that_it_is_called_in(run, levels, blocks):
    async def main():
        x, left = leaf(3.0), [levels]

        def goes_on():
            left[0] -= 1
            return left[0] >= 0

        def body(grad):
            if goes_on():
                sync.backward(out, retain_graph=True)

        async def async_body(grad):
            if goes_on():
                await ag.backward(out, retain_graph=True)

        middle = np.multiply(x, 2.0)
        middle.register_hook(body if blocks else async_body)
        out = np.multiply(middle, 5.0)
        await ag.backward(out, retain_graph=True)
        assert x.grad.item() == 10.0 * (levels + 1)
        assert is_at_rest(out)

    run(main())


@pytest.mark.slow
def test_nested_backwards_give_the_same_gradients_on_every_schedule():
    async def main():
        x, w = leaf(3.0), leaf(2.0)

        async def nests(grad):
            await asyncio.sleep(0)
            await ag.backward(shared, retain_graph=True)
            await asyncio.sleep(0)
            with ag.enable_grad():
                more = awaiting(np.multiply(w, 7.0), waits)
            await asyncio.gather(ag.backward(more), ag.backward(shared, retain_graph=True))

        async def waits(grad):
            await asyncio.sleep(0)

        shared = awaiting(np.multiply(x, w), waits)
        out = np.add(np.add(awaiting(shared, nests), awaiting(x, nests)), shared)
        await asyncio.gather(ag.backward(out, retain_graph=True), ag.backward(out, retain_graph=True))
        # Two outer ones, of 2 * shared + x each; in each two bodies, which each run `shared` twice and `more` once.
        assert x.grad.item() == 2 * (2 * 2.0 + 1.0) + 8 * 2.0
        assert w.grad.item() == 2 * (2 * 3.0) + 8 * 3.0 + 4 * 7.0
        assert is_at_rest(out)

    explore(main, seeds=cases(1000))


async def test_a_task_that_a_body_starts_and_that_outlives_its_backward_runs_backwards_of_its_own():
    w, gate, tasks, depths = leaf(2.0), asyncio.Event(), [], []

    async def later():
        await gate.wait()
        assert ag.engine.current_graph_task_id() == -1
        with ag.enable_grad():
            inner = calling(w, lambda grad: depths.append(ag.engine.current_graph_task().reentrant_depth))
        await ag.backward(inner)

    async def body(grad):
        tasks.append(asyncio.ensure_future(later()))

    x = leaf(1.0)
    await ag.backward(awaiting(x, body))
    gate.set()
    await tasks[0]
    assert depths == [0]
    assert (x.grad.item(), w.grad.item()) == (1.0, 1.0)


async def test_a_task_that_a_body_starts_and_whose_backward_begins_before_the_outer_one_ends_runs_to_its_end():
    w, held, tasks, x = leaf(2.0), Held(), [], leaf(1.0)

    async def body(grad):
        with ag.enable_grad():
            inner = np.add(awaiting(leaf(1.0), held), np.multiply(w, 3.0))
        tasks.append(asyncio.ensure_future(ag.backward(inner)))
        await held.begun.wait()

    await ag.backward(awaiting(x, body))
    held.let_go.set()
    await tasks[0]
    assert (x.grad.item(), w.grad.item()) == (1.0, 3.0)
    await settle()


async def test_grad_and_captures_work_inside_of_a_body():
    w = leaf(3.0)

    async def body(grad):
        with ag.enable_grad():
            cube = np.multiply(np.multiply(w, w), w)
        (first,) = await ag.grad(cube, [w], create_graph=True)
        (second,) = await ag.grad(first, [w])
        return grad * second

    x = leaf(1.0)
    await ag.backward(awaiting(x, body))
    assert x.grad.item() == 18.0
    assert w.grad is None


async def test_can_checkpoint_is_false_below_a_backward_that_is_limited_to_inputs():
    seen: list[bool] = []

    async def body(grad):
        with ag.enable_grad():
            inner = calling(leaf(1.0), lambda grad: seen.append(ag.engine.current_graph_task().can_checkpoint()))
        await ag.backward(inner)

    x = leaf(1.0)
    await ag.backward(awaiting(x, body))
    await ag.backward(awaiting(x, body), inputs=[x])
    await ag.grad(awaiting(x, body), [x])
    await ag.backward(awaiting(x, body))
    assert seen == [True, False, False, True]
