"""What is in a store is read before the nodes that need it are ready, within bounds."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.graph import save_to_store
from asyncgrad.testing import MemoryStore
from tests.memory.offload.scenes import Chain

LINKS = 8


def begun(store: MemoryStore) -> int:
    return sum(method == "get" for method, _ in store.calls)


async def first_get(store: MemoryStore) -> None:
    """Wait until the backward has come to the store."""
    await asyncio.to_thread(store.wait_for_begun, "get")


@pytest.mark.parametrize(("prefetch", "expected"), [(0, 1), (1, 2), (3, 4), (100, LINKS + 1)])
async def test_as_many_tensors_as_allowed_are_read_while_the_first_is_waited_for(prefetch: int, expected: int):
    chain, store = Chain(LINKS), MemoryStore()

    async with save_to_store(store, min_bytes=1, prefetch=prefetch):
        loss = chain.compute()
    store.hold("get")
    backward = asyncio.create_task(loss.backward())
    await first_get(store)
    store.wait_for_begun("get", expected)
    count = begun(store)
    store.let_go("get")
    await backward

    assert count == expected
    assert chain.gradients() == chain.expected()


async def test_no_more_is_read_ahead_than_may_be_under_way():
    chain, store = Chain(LINKS), MemoryStore()
    size = 8 * 8 * 8

    async with save_to_store(store, min_bytes=1, prefetch=100, max_pending_bytes=3 * size):
        loss = chain.compute()
    store.hold("get")
    backward = asyncio.create_task(loss.backward())
    await first_get(store)
    store.wait_for_begun("get", 3)
    for _ in range(5):
        await asyncio.sleep(0)
    count = begun(store)
    store.let_go("get")
    await backward

    assert count == 3
    assert chain.gradients() == chain.expected()


async def test_each_tensor_is_read_once_although_two_nodes_need_it():
    chain, store = Chain(LINKS), MemoryStore()

    async with save_to_store(store, min_bytes=1):
        loss = chain.compute()
    await loss.backward()
    gets = [key for method, key in store.calls if method == "get"]
    # Each output of tanh is needed by that, and by the product after it; the input by the first product only.
    assert sorted(gets) == sorted({key for method, key in store.calls if method == "put"})


async def test_gets_begin_in_the_order_in_which_nodes_run():
    chain, store = Chain(LINKS), MemoryStore()

    async with save_to_store(store, min_bytes=1):
        loss = chain.compute()
    await loss.backward()
    gets = [int(key.rpartition("-")[2]) for method, key in store.calls if method == "get"]
    assert gets == sorted(gets, reverse=True)


async def test_others_run_while_a_node_waits_for_the_store():
    chain, store = Chain(LINKS), MemoryStore()
    x, other = ag.tensor(2.0, requires_grad=True), ag.tensor(3.0, requires_grad=True)

    y = x * other
    async with save_to_store(store, min_bytes=1):
        loss = chain.compute() + y
    store.hold("get")
    came = asyncio.Event()
    x.register_post_accumulate_grad_hook(lambda x: came.set())
    backward = asyncio.create_task(loss.backward())
    await came.wait()
    store.let_go("get")
    await backward
    assert chain.gradients() == chain.expected()


async def test_a_cancelled_backward_waits_for_no_store():
    chain, store = Chain(LINKS), MemoryStore()

    async with save_to_store(store, min_bytes=1):
        loss = chain.compute()
    store.hold("get")
    backward = asyncio.create_task(loss.backward())
    await first_get(store)
    backward.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backward
    store.let_go("get")
    await loss.backward()
    assert chain.gradients() == chain.expected()


async def test_a_branch_that_gets_no_gradient_is_read_no_further_than_the_bound():
    store = MemoryStore()
    x = ag.tensor(np.full(4, 0.5), requires_grad=True)
    y = ag.tensor(np.full(4, 0.5), requires_grad=True)

    async with save_to_store(store, min_bytes=1, prefetch=2):
        a, b = x, y
        for _ in range(5):
            a, b = np.tanh(a), np.tanh(b)
        loss = (a + b).sum()
    await ag.grad(loss, [x])
    assert begun(store) == 5


# What a backward asks for before it has been written.


class Midway:
    """A backward of a chain that begins while nothing has been written, and stops at its first node."""

    def __init__(self, **options: Any) -> None:
        self.chain, self.store = Chain(LINKS), MemoryStore()
        self.manager = save_to_store(self.store, min_bytes=1, **options)

    def keys(self, method: str) -> list[str]:
        return [key for each, key in self.store.calls if each == method]

    async def run(self, then: Any) -> None:
        """Call `then()` when all has been asked for that may be, with two tensors on their way to the store."""
        self.store.hold("put")
        loss = self.chain.forward(self.manager)
        self.store.wait_for_begun("put", 2)
        # The gradient of the last weight comes once its node has unpacked what it needs.
        handle = self.chain.weights[-1].register_hook(lambda grad: then())
        await loss.backward(retain_graph=True)
        handle.remove()
        self.loss = loss

    def write(self) -> None:
        """Let what is on its way arrive."""
        self.store.let_go("put")
        self.store.wait_for_ended("put", 2)


async def test_what_is_asked_for_before_it_was_written_is_kept_and_not_read_back():
    midway = Midway(prefetch=100)

    await midway.run(midway.write)

    assert midway.keys("get") == []
    assert midway.chain.gradients() == midway.chain.expected()


async def test_what_is_asked_for_before_it_was_written_counts_as_read_ahead():
    size, rooms = 8 * 8 * 8, []
    midway = Midway(prefetch=100, max_pending_bytes=(LINKS + 1) * size)

    def look() -> None:
        rooms.append(midway.manager._offload._read_bytes[0])
        midway.write()

    await midway.run(look)

    # The last two have been used by then.
    assert rooms == [(LINKS + 1 - 1) * size]
    assert midway.manager._offload._read_bytes[0] == 0


async def test_what_is_asked_for_is_written_no_more_unless_somebody_waits_for_that():
    midway = Midway(prefetch=100)

    await midway.run(midway.write)
    assert len(midway.keys("put")) == 2
    async with midway.manager:
        pass
    assert len(midway.store) == LINKS + 1
    await midway.loss.backward()
    assert len(midway.keys("get")) == LINKS + 1


async def test_a_forward_that_needs_the_room_has_it_written():
    size = 8 * 8 * 8
    midway, other = Midway(prefetch=100, max_pending_bytes=(LINKS + 1) * size), Chain(LINKS)

    await midway.run(midway.write)
    # There is room for two.
    loss = other.forward(midway.manager)
    await midway.loss.backward()
    await loss.backward()
    assert other.gradients() == other.expected()
