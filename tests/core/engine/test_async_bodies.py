"""Async bodies run together wherever the graph allows, each as an asyncio task of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import Held, settle


async def test_bodies_that_do_not_depend_on_each_other_wait_together():
    helds = [Held() for _ in range(5)]
    x = leaf(1.0)
    out = np.multiply(x, 0.0)
    for held in helds:
        out = np.add(out, awaiting(np.multiply(x, 2.0), held))
    backward = asyncio.ensure_future(out.backward())

    await asyncio.gather(*[held.begun.wait() for held in helds])
    assert not any(held.ended for held in helds)
    for held in helds:
        held.let_go.set()
    await backward
    assert x.grad.item() == 10.0


async def test_a_node_begins_as_soon_as_what_it_needs_has_ended():
    """Two chains side by side: the second link of one runs while the first link of the other waits."""

    first, second, other = Held(), Held(), Held()
    x, y = leaf(1.0), leaf(1.0)
    out = np.add(awaiting(awaiting(x, second), first), awaiting(y, other))
    backward = asyncio.ensure_future(out.backward())
    await first.begun.wait()
    await other.begun.wait()
    assert not second.begun.is_set()

    first.let_go.set()
    await second.begun.wait()
    assert not other.ended
    second.let_go.set()
    await settle()
    # The leaf of the chain that has ended has its gradient already.
    assert x.grad.item() == 1.0
    other.let_go.set()
    await backward


async def test_a_node_waits_for_all_the_bodies_that_lead_to_it():
    helds = [Held(), Held()]
    ran: list[Any] = []
    shared = calling(leaf(1.0), lambda grad: ran.append(grad.item()))
    out = np.add(awaiting(shared, helds[0]), awaiting(np.multiply(shared, 2.0), helds[1]))
    backward = asyncio.ensure_future(out.backward())
    for held in helds:
        await held.begun.wait()
    for held in helds:
        assert ran == []
        held.let_go.set()
        await settle()
    await backward
    assert ran == [3.0]


async def test_plain_nodes_run_on_while_a_body_waits():
    held = Held()
    x, y = leaf(2.0), leaf(3.0)
    backward = asyncio.ensure_future(np.add(awaiting(x, held), np.multiply(y, 5.0)).backward())
    await held.begun.wait()
    await settle()
    assert y.grad.item() == 5.0
    held.let_go.set()
    await backward
    assert x.grad.item() == 1.0


async def test_async_hooks_of_different_nodes_wait_together():
    helds = [Held() for _ in range(3)]
    leaves = [leaf(1.0) for _ in range(3)]
    out = np.multiply(leaves[0], 1.0)
    for tensor in leaves:
        out = np.add(out, np.multiply(tensor, 2.0))
    leaves[0].register_hook(helds[0])
    leaves[1].register_post_accumulate_grad_hook(helds[1])
    leaves[2].register_hook(helds[2])
    backward = asyncio.ensure_future(out.backward())
    await asyncio.gather(*[held.begun.wait() for held in helds])
    for held in helds:
        held.let_go.set()
    await backward
    assert [tensor.grad.item() for tensor in leaves] == [3.0, 2.0, 2.0]


async def test_hooks_of_one_tensor_run_one_after_the_other():
    seen: list[str] = []

    async def slow(grad):
        seen.append("first begins")
        await asyncio.sleep(0)
        seen.append("first ends")
        return np.multiply(grad, 2.0)

    x = leaf(1.0)
    x.register_hook(slow)
    x.register_hook(lambda grad: seen.append(f"second sees {grad.item():g}"))

    await ag.backward(np.multiply(x, 3.0))

    assert seen == ["first begins", "first ends", "second sees 6"]


async def test_two_backwards_at_once_overlap():
    helds = [Held(), Held()]
    leaves = [leaf(1.0), leaf(1.0)]
    tasks = [asyncio.ensure_future(awaiting(x, held).backward()) for x, held in zip(leaves, helds, strict=True)]
    for held in helds:
        await held.begun.wait()
    for held in helds:
        held.let_go.set()
    await asyncio.gather(*tasks)
    assert [x.grad.item() for x in leaves] == [1.0, 1.0]


@pytest.mark.slow
async def test_a_thousand_bodies_wait_at_once():
    gate, all_wait = asyncio.Event(), asyncio.Event()
    waiting = 0

    async def wait(grad):
        nonlocal waiting
        waiting += 1
        if waiting == 1000:
            all_wait.set()
        await gate.wait()

    x = leaf(1.0)

    class Fan(ag.Function):
        @staticmethod
        def forward(ctx, *xs):
            return sum(x.numpy() for x in xs)

        @staticmethod
        def backward(ctx, grad):
            return (grad,) * 1000

    out = Fan.apply(*[awaiting(np.multiply(x, 1.0), wait) for _ in range(1000)])
    backward = asyncio.ensure_future(out.backward())
    await all_wait.wait()
    gate.set()
    await backward
    assert x.grad.item() == 1000.0
