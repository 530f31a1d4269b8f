"""Nothing waits for the garbage collector: what is dropped is gone at once."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine.compiled.cache import MAX_PROGRAMS
from asyncgrad.core.engine.compiled.codegen import MAX_OPS_PER_SEGMENT
from asyncgrad.core.engine.eager_task import EagerTask
from asyncgrad.core.settings.context import CURRENT_GRAPH_TASK
from asyncgrad.engine import queue_callback
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.graphs import nodes_below
from tests.support.leaves import leaf
from tests.support.references import alive
from tests.support.settings import compiled_after
from tests.support.turns import one_turn, settle

pytestmark = pytest.mark.usefixtures("only_the_loop_keeps")


class SavesAll(ag.Function):
    """Saves an input, an output, and something between; its output is saved without a cycle."""

    @staticmethod
    def forward(ctx, x):
        between = x.numpy() + 1.0
        out = ag.tensor(between * 2.0)
        ctx.save_for_backward(x, ag.asarray(between), out)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, between, out = ctx.saved_tensors
        return np.add(grad, np.multiply(np.multiply(x, between), np.multiply(out, 0.0)))


class SavesAllAndAwaits(SavesAll):
    @staticmethod
    async def backward(ctx, grad):
        await asyncio.sleep(0)
        return SavesAll.backward(ctx, grad)


def cubic_graph(x):
    return np.multiply(np.multiply(x, x), x)


def cubic_graph_with_hook(x):
    middle = cubic_graph(x)
    middle.register_hook(lambda grad: None)
    middle.retain_grad()
    return np.add(middle, x)


GRAPHS: dict[str, Callable[[ag.Tensor], Any]] = {
    "plain": cubic_graph,
    "saving its output": lambda x: np.exp(np.multiply(cubic_graph(x), 0.01)),
    "hooked": cubic_graph_with_hook,
    "a body": lambda x: calling(cubic_graph(x), lambda grad: None),
    "an async body": lambda x: np.add(awaiting(cubic_graph(x), one_turn), awaiting(x, one_turn)),
    "a Function that saves": lambda x: SavesAll.apply(cubic_graph(x)),
    "an async Function that saves": lambda x: SavesAllAndAwaits.apply(cubic_graph(x)),
}
each_graph = pytest.mark.parametrize("graph", GRAPHS)


def weak_nodes_of(out: ag.Tensor) -> list[Any]:
    """Return weak references to all nodes of a graph."""
    return [weakref.ref(node) for node in nodes_below(out)]


def memory_of(out: ag.Tensor) -> weakref.ref[Any]:
    return weakref.ref(out.numpy().base)


@each_graph
def test_a_graph_that_never_ran_is_freed_with_its_output(graph):
    x = leaf(1.0, 2.0)
    out = GRAPHS[graph](x)
    nodes, memory = weak_nodes_of(out), memory_of(out)

    del out

    assert alive(nodes) == []
    assert memory() is None


@each_graph
async def test_a_graph_that_ran_is_freed_with_its_output(graph):
    x = leaf(1.0, 2.0)
    out = GRAPHS[graph](x)
    nodes, memory = weak_nodes_of(out), memory_of(out)

    await ag.backward(out, np.ones(2))
    del out

    assert alive(nodes) == []
    assert memory() is None


@each_graph
def test_a_graph_that_ran_without_a_loop_of_the_caller_is_freed_with_its_output(graph):
    x = leaf(1.0, 2.0)
    out = GRAPHS[graph](x)
    nodes = weak_nodes_of(out)

    sync.backward(out, np.ones(2), retain_graph=True)
    sync.grad(out, x, np.ones(2))
    del out

    assert alive(nodes) == []


@each_graph
async def test_arrays_on_the_way_are_freed_while_the_loop_runs_on(graph):
    x = leaf(1.0, 2.0)
    seen: list[weakref.ref[Any]] = []
    watched = np.multiply(x, 2.0)
    watched.register_hook(lambda grad: seen.append(weakref.ref(grad.numpy().base)))
    out = GRAPHS[graph](np.multiply(watched, 3.0))
    await ag.backward(out, np.ones(2))
    assert len(seen) == 1
    assert alive(seen) == []


@each_graph
async def test_a_graph_task_is_freed_with_its_backward(graph):
    tasks: list[weakref.ref[Any]] = []

    x = leaf(1.0, 2.0)
    x.register_hook(lambda grad: tasks.append(weakref.ref(CURRENT_GRAPH_TASK.get())))
    await ag.backward(GRAPHS[graph](x), np.ones(2))
    assert len(tasks) == 1
    assert alive(tasks) == []


async def fail(grad):
    raise Trouble("failed")


async def fail_later(grad):
    await asyncio.sleep(0)
    raise Trouble("failed")


def fail_at_once(grad):
    raise Trouble("failed")


def failing_hook(x):
    middle = np.multiply(x, 1.0)
    middle.register_hook(fail_later)
    return middle


FAILING: dict[str, Callable[[ag.Tensor], Any]] = {
    "body": lambda x: calling(x, fail_at_once),
    "async body": lambda x: awaiting(x, fail),
    "async body after a wait": lambda x: awaiting(x, fail_later),
    "hook": failing_hook,
    "beside one that waits": lambda x: np.add(awaiting(x, fail_later), awaiting(x, wait_for_ever)),
}


async def one_turn_later(grad):
    await one_turn()
    return grad


async def wait_for_ever(grad):
    await asyncio.Event().wait()


@pytest.mark.parametrize("failing", FAILING)
async def test_a_graph_that_failed_is_freed_with_its_output_and_its_error(failing):
    references: list[Any] = []

    async def attempt():
        x = leaf(1.0, 2.0)
        arrays: list[Any] = []
        out = FAILING[failing](cubic_graph(x))
        out.register_hook(lambda grad: arrays.append(weakref.ref(grad.numpy().base)))
        references.extend(weak_nodes_of(out))
        try:
            await ag.backward(out, np.ones(2))
        except Trouble as error:
            references.append(weakref.ref(error))
        references.extend(arrays)

    await attempt()
    await settle()
    assert len(references) > 3
    assert alive(references) == []


@pytest.mark.parametrize("failing", [name for name in FAILING if name != "beside one that waits"])
def test_a_graph_that_failed_in_a_blocking_backward_is_freed(failing):
    references: list[Any] = []

    def attempt():
        out = FAILING[failing](cubic_graph(leaf(1.0, 2.0)))
        references.extend(weak_nodes_of(out))
        try:
            sync.backward(out, np.ones(2))
        except Trouble as error:
            references.append(weakref.ref(error))

    attempt()

    assert alive(references) == []


async def test_a_graph_that_was_cancelled_is_freed():
    references: list[Any] = []

    async def attempt():
        out = np.add(awaiting(cubic_graph(leaf(1.0)), wait_for_ever), awaiting(leaf(1.0), wait_for_ever))
        references.extend(weak_nodes_of(out))
        task = asyncio.ensure_future(ag.backward(out))
        await settle()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    await attempt()
    await settle()
    assert alive(references) == []


@pytest.mark.parametrize("failing", [awaiting, lambda x, body: awaiting(awaiting(x, fail_later), body)])
async def test_rows_that_commit_together_are_freed(failing):
    references: list[Any] = []

    async def attempt():
        x = leaf(1.0, 2.0)
        out = failing(cubic_graph(x), one_turn_later)
        out.register_hook(lambda grad: queue_callback(lambda: None, on_failure=lambda: None))
        out.register_hook(lambda grad: references.append(weakref.ref(CURRENT_GRAPH_TASK.get())))
        try:
            await ag.grad([out], [x], [np.eye(2)], is_grads_batched=True)
        except Trouble as error:
            references.append(weakref.ref(error))

    await attempt()
    await settle()
    assert len(references) > 1
    assert alive(references) == []


async def test_second_derivatives_by_grad_leave_nothing_behind():
    references: list[Any] = []

    async def main():
        x = leaf(1.0, 2.0)
        out = SavesAll.apply(cubic_graph(x))
        (first,) = await ag.grad(out, x, np.ones(2), create_graph=True)
        references.extend(weak_nodes_of(out) + weak_nodes_of(first))
        await ag.grad(first, x, np.ones(2), allow_unused=True)

    await main()

    assert alive(references) == []


async def test_a_tensor_is_freed_with_its_gradient():
    x = leaf(1.0, 2.0)
    for _ in range(2):
        await ag.backward(calling(cubic_graph(x), lambda grad: None), np.ones(2))
    references = [weakref.ref(x), weakref.ref(x.grad)]

    del x

    assert alive(references) == []


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, 2 * MAX_OPS_PER_SEGMENT], ids=["one function", "a function per segment"])
def test_a_compiled_function_that_is_dropped_leaves_nothing_to_the_garbage_collector(cache, length):
    def run_one_of(width: int) -> None:
        y = leaf(*np.ones(width))
        for _ in range(length):
            y = np.multiply(y, 2.0)
        sync.backward(y.sum())

    with compiled_after(0):
        run_one_of(1)
        dropped = [weakref.ref(part) for program in cache._programs for part in (program, program.run)]
        for width in range(2, MAX_PROGRAMS + 1):
            run_one_of(width)
        assert len(alive(dropped)) == 2

        run_one_of(MAX_PROGRAMS + 1)

    assert alive(dropped) == []


async def test_an_error_is_freed_that_a_task_would_have_heard_of_after_it_was_closed():
    async def waits(future: asyncio.Future[None]) -> None:
        await future

    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    future = loop.create_future()
    task = EagerTask(waits(future), loop=loop, context=context, name="a body")
    task.start()
    error = Trouble()
    freed = weakref.ref(error)
    # Its next step is scheduled, which finds it closed.
    future.set_exception(error)
    task.close()
    del future, task, error, context
    await settle()
    assert freed() is None
