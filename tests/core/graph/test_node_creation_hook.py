"""A creation hook sees every node once, when it has all that it saves, in the context that it was set for."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.graph import Node, get_gradient_edge, node_creation_hook
from tests.support.functions import function
from tests.support.leaves import leaf

pytestmark = pytest.mark.usefixtures("recording_is_left_on")


def names(seen: list[Any]) -> list[str]:
    return [node.name for node in seen]


# What is seen.


def test_every_kind_of_node_is_seen_once_when_it_is_made():
    x, seen = leaf(1.0, 2.0), []
    doubling = function(lambda ctx, t: t.numpy() * 2, name="Doubling")
    with node_creation_hook(seen.append):
        y = x * 3
        first, second = np.split(y, 2)
        z = np.concatenate([second, first]) * x
        w = doubling.apply(z)
        own = Node([], ())

    assert names(seen) == [
        "AccumulateGrad",
        "MultiplyBackward",
        "SplitBackward",
        "ConcatenateBackward",
        "MultiplyBackward",
        "DoublingBackward",
        "Node",
    ]
    assert seen == [get_gradient_edge(x).node, y.grad_fn, first.grad_fn, *seen[3:4], z.grad_fn, w.grad_fn, own]


def test_a_node_is_seen_with_its_edges_its_metadata_and_all_that_it_saves():
    x = leaf(3.0)
    seen: list[Any] = []

    def look(node: Any) -> None:
        if node.name == "MultiplyBackward":
            seen.append((node.saved[0] is x, node.next_edges[0] == get_gradient_edge(x), node.input_metadata[0].shape))

    with node_creation_hook(look):
        x * x

    assert seen == [(True, True, (1,))]


def test_a_function_is_seen_when_it_has_saved():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.numpy() * 2

    x, seen = leaf(1.0) * 1, []
    with node_creation_hook(lambda node: seen.append(node.ctx.saved_tensors[0] is x)):
        function(forward).apply(x)

    assert seen == [True]


async def test_an_async_function_is_seen_when_its_forward_has_ended():
    async def forward(ctx: Any, x: Any) -> Any:
        events.append("forward")
        await asyncio.sleep(0)
        events.append("forward ends")
        return x.numpy() * 2

    events: list[str] = []
    made = function(forward, name="Slow")

    async def main() -> None:
        x = leaf(1.0) * 1
        with node_creation_hook(lambda node: events.append(node.name)):
            await made.apply(x)

    await main()

    assert events == ["forward", "forward ends", "SlowBackward"]


def test_what_is_not_recorded_is_not_seen():
    x, seen = leaf(1.0) * 1, []
    with node_creation_hook(seen.append):
        ag.tensor([1.0]) * 2
        x.detach() * 2
        with ag.no_grad():
            x * 2
            function(lambda ctx, t: t.numpy() * 2).apply(leaf(1.0))
            np.concatenate([x, x])
            np.split(x, 1)

    assert seen == []


async def test_nodes_of_a_recorded_backward_are_seen_and_an_ordinary_backward_makes_none():
    x, seen = leaf(2.0), []
    y = x * x * x

    with node_creation_hook(seen.append):
        await ag.grad(y, [x], retain_graph=True)
        ordinary = len(seen)
        (g,) = await ag.grad(y, [x], create_graph=True)
        found = ordinary, g
    ordinary, g = found
    reached, waiting = set(), [g.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in reached:
            reached.add(node)
            waiting += node.next_nodes

    assert ordinary == 0
    assert len(seen) == len(set(seen))
    assert reached - set(seen) == {node for node in reached if node.name == "AccumulateGrad"} | (
        reached & {y.grad_fn, y.grad_fn.next_nodes[0]}
    )


def test_the_fence_of_a_once_differentiable_backward_is_seen():
    class Once(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.numpy() * 2

        @staticmethod
        @ag.once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    x, seen = leaf(1.0), []
    y = Once.apply(x)
    with node_creation_hook(seen.append):
        (g,) = sync.grad(y, [x], create_graph=True)

    assert g.grad_fn in seen


def test_the_engines_own_nodes_are_not_seen():
    x, seen = leaf(1.0), []
    y, z = x * 2, x * 3
    with node_creation_hook(seen.append):
        sync.backward([y, z])
        sync.grad(leaf(1.0) * 1, [leaf(2.0)], allow_unused=True)

    assert names(seen) == ["AccumulateGrad", "MultiplyBackward"]


# Contexts and nesting.


def test_of_nested_hooks_the_outer_one_is_called_first_and_each_ends_with_its_block():
    x, seen = leaf(1.0) * 1, []
    with node_creation_hook(lambda node: seen.append("outer")):
        with node_creation_hook(lambda node: seen.append("inner")):
            x * 2
        seen.append("-")
        x * 3
    x * 4

    assert seen == ["outer", "inner", "-", "outer"]


def test_grad_mode_and_hooks_nest_in_any_order():
    x, seen = leaf(1.0) * 1, []

    def count() -> int:
        before = len(seen)
        x * 2
        return len(seen) - before

    found = {}
    with node_creation_hook(seen.append):
        with ag.no_grad():
            found["off"] = count(), ag.is_grad_enabled()
            with ag.enable_grad():
                found["on again"] = count(), ag.is_grad_enabled()
            with node_creation_hook(seen.append):
                found["off, and another"] = count(), ag.is_grad_enabled()
                with ag.set_grad_enabled(True):
                    found["on, and another"] = count(), ag.is_grad_enabled()
            found["off still"] = count(), ag.is_grad_enabled()
        found["after"] = count(), ag.is_grad_enabled()
    with ag.no_grad():
        with node_creation_hook(seen.append), ag.enable_grad():
            found["on inside"] = count(), ag.is_grad_enabled()
        found["off outside"] = count(), ag.is_grad_enabled()

    assert found == {
        "off": (0, False),
        "on again": (1, True),
        "off, and another": (0, False),
        "on, and another": (2, True),
        "off still": (0, False),
        "after": (1, True),
        "on inside": (1, True),
        "off outside": (0, False),
    }


def test_blocks_that_end_out_of_order_leave_the_modes_of_those_that_remain():
    x, seen = leaf(1.0) * 1, []

    def generated() -> Any:
        with node_creation_hook(seen.append):
            yield

    generator = generated()
    next(generator)
    with ag.no_grad():
        generator.close()
        inside = ag.is_grad_enabled()
        with ag.enable_grad():
            x * 2
    x * 3

    assert (inside, seen) == (False, [])


async def test_tasks_and_threads_do_not_see_each_others_hooks():
    x, seen = leaf(1.0) * 1, []

    async def other(entered: asyncio.Event, done: asyncio.Event) -> None:
        await entered.wait()
        x * 2
        done.set()

    async def main() -> None:
        entered, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(other(entered, done))
        await asyncio.sleep(0)
        with node_creation_hook(seen.append):
            entered.set()
            await done.wait()
            thread = threading.Thread(target=lambda: x * 2)
            thread.start()
            thread.join()
            before = len(seen)
            contextvars.copy_context().run(lambda: x * 2)
            assert (before, len(seen)) == (0, 1)
        await task

    await main()


async def test_a_hook_decorates_functions_of_all_kinds():
    x, seen = leaf(1.0) * 1, []

    @node_creation_hook(seen.append)
    def plain() -> None:
        x * 2

    @node_creation_hook(seen.append)
    async def later() -> None:
        await asyncio.sleep(0)
        x * 2

    @node_creation_hook(seen.append)
    def steps() -> Any:
        x * 2
        yield
        x * 2

    plain()
    await later()
    generator = steps()
    next(generator)
    x * 5
    list(generator)

    assert len(seen) == 4


def test_a_hook_holds_no_node():
    gc.collect()
    gc.disable()
    try:
        freed: list[bool] = []

        class Watched(Node):
            def __del__(self) -> None:
                freed.append(True)

        with node_creation_hook(lambda node: None):
            Watched()
            assert freed == [True]
    finally:
        gc.enable()
