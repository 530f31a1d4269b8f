"""An async hook holds up nothing that does not depend on it, unless it asks for that. All order is shown by events."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from asyncgrad import optim
from tests.core.engine.hooking import Branches, as_kind, backward, both_drives, register, waiting
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import Held, settle

SORTS = ["tensor hook", "pre-hook", "post-hook", "post-accumulate hook"]


# Overlap by default.


@pytest.mark.parametrize("where", SORTS)
async def test_an_async_hook_of_a_leaf_holds_up_no_other_node(where):
    held, graph = Held(), Branches(3)
    register(where, graph.leaves[2], waiting(held))
    backward = graph.start()
    await held.begun.wait()
    await settle()
    assert graph.ran == [2, 1, 0]
    # Its own gradient is there where the hook comes after the accumulation.
    own = None if where in ("tensor hook", "pre-hook") else 1.0
    assert graph.grads() == [1.0, 1.0, own]
    assert not backward.done()
    held.let_go.set()
    await backward
    assert graph.grads() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("where", SORTS[:3])
async def test_an_async_hook_holds_up_what_depends_on_it_and_nothing_else(where):
    held, ran = Held(), list[str]()
    x, w = leaf(1.0), leaf(1.0)
    middle = calling(calling(x, lambda grad: ran.append("below")), lambda grad: ran.append("own body"))
    other = calling(w, lambda grad: ran.append("other"))
    register(where, middle, waiting(held))
    backward = asyncio.ensure_future(np.add(other, middle).backward())
    await held.begun.wait()
    await settle()
    assert ran == (["other", "own body"] if where == "post-hook" else ["other"])
    assert (x.grad, w.grad.item()) == (None, 1.0)
    held.let_go.set()
    await backward
    assert ran[-1] == "below"
    assert x.grad.item() == 1.0


@pytest.mark.parametrize("first", SORTS)
@pytest.mark.parametrize("second", SORTS)
async def test_async_hooks_of_two_nodes_overlap(first, second):
    graph, barrier = Branches(2), asyncio.Barrier(2)

    async def meets(*args: Any) -> None:
        await barrier.wait()

    register(first, graph.leaves[0], meets)
    register(second, graph.leaves[1], meets)
    await graph.out.backward()
    assert graph.grads() == [1.0, 1.0]


async def test_a_hook_overlaps_a_body():
    barrier = asyncio.Barrier(2)
    x, w = leaf(1.0), leaf(1.0)

    async def meets(*args: Any) -> None:
        await barrier.wait()

    x.register_post_accumulate_grad_hook(meets)
    await np.add(awaiting(w, meets), np.multiply(x, 2.0)).backward()
    assert (x.grad.item(), w.grad.item()) == (2.0, 1.0)


async def test_async_hooks_of_one_node_run_one_after_the_other():
    helds, x = [Held(), Held()], leaf(1.0)
    for held in helds:
        x.register_post_accumulate_grad_hook(held)
    backward = asyncio.ensure_future(np.multiply(x, 2.0).backward())
    await helds[0].begun.wait()
    await settle()
    assert not helds[1].begun.is_set()
    helds[0].let_go.set()
    await helds[1].begun.wait()
    assert helds[0].ended
    helds[1].let_go.set()
    await backward


async def test_a_backward_waits_for_its_hooks_before_it_returns():
    held, graph = Held(), Branches(1)
    graph.leaves[0].register_post_accumulate_grad_hook(held)
    backward = graph.start()
    await held.begun.wait()
    await settle()
    assert not backward.done()
    held.let_go.set()
    await backward
    assert held.ended


async def test_one_reduction_for_each_leaf_overlaps_the_rest_and_all_end_together():
    """As in data-parallel training: each leaf's gradient is exchanged while older layers still run."""

    graph, began = Branches(20), []
    all_began = asyncio.Event()

    async def reduce(x: Any) -> None:
        began.append(x)
        if len(began) == 20:
            all_began.set()
        await all_began.wait()
        x.grad = x.grad * 0.5

    for x in graph.leaves:
        x.register_post_accumulate_grad_hook(reduce)
    await graph.out.backward()
    assert graph.grads() == [0.5] * 20


# An optimizer in a hook.


@both_drives
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("kind", ["function", "async def", "suspending", "awaitable"])
async def test_an_optimizer_may_step_in_the_hook_of_its_parameter(drive, kind, overlap):
    """Each parameter is updated as soon as its gradient is there, and the gradient goes at once."""
    weights = [leaf(float(each)) for each in (1.0, 2.0, 3.0)]
    expected = [leaf(float(each)) for each in (1.0, 2.0, 3.0)]
    for weight in weights:
        optimizer = optim.SGD([weight], lr=0.25)

        def step(parameter: Any, optimizer: Any = optimizer) -> None:
            optimizer.step()
            optimizer.zero_grad()

        weight.register_post_accumulate_grad_hook(as_kind(kind, step), overlap=overlap)
    together = optim.SGD(expected, lr=0.25)

    def loss(parameters: list[Any]) -> Any:
        first, second, third = parameters
        return np.sum(np.add(np.multiply(first, 3.0), np.multiply(np.multiply(second, second), third)))

    for _ in range(3):
        await backward(drive, loss(weights))
        await backward(drive, loss(expected))
        together.step()
        together.zero_grad()

    assert [weight.grad for weight in weights] == [None] * 3
    assert [weight.item() for weight in weights] == [weight.item() for weight in expected]
