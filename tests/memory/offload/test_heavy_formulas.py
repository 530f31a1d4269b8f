"""What a heavy formula needs is read on the loop, and the formula itself is computed by a worker."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import StoreError
from asyncgrad.extend import derivative, primitive
from asyncgrad.graph import save_to_store
from asyncgrad.testing import MemoryStore
from tests.core.engine.heavy import always, on_workers
from tests.memory.offload.scenes import Chain
from tests.support.threads import PATIENCE

LINKS = 5


@primitive()
def seen_(x: Any, seen: Any) -> Any:
    return x * 2.0


@derivative(seen_, "x")
def _(g: Any, x: Any, seen: Any) -> Any:
    seen(x)
    return g * 2.0


def saved_leaf() -> Any:
    return ag.tensor(np.array([1.0, 2.0]), requires_grad=True)


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_formula_whose_tensors_were_waited_for_runs_on_a_worker_where_there_is_one(workers: int):
    store, where = MemoryStore(), []
    x = saved_leaf()

    async with save_to_store(store, min_bytes=1, prefetch=0):
        y = seen_(x * 1.0, lambda x: where.append((on_workers(), x.tolist())))
    assert len(store) == 1
    with always(), ag.workers(workers):
        await y.sum().backward()
    assert where == [(workers > 0, [1.0, 2.0])]
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


async def test_formulas_that_are_light_stay_on_the_loop():
    store, where = MemoryStore(), []
    x = saved_leaf()

    async with save_to_store(store, min_bytes=1, prefetch=0):
        y = seen_(x * 1.0, lambda x: where.append(on_workers()))
    with ag.offload_threshold(1000.0):
        await y.sum().backward()
    assert where == [False]


@pytest.mark.parametrize("prefetch", [0, 3])
async def test_gradients_have_the_same_bits(prefetch: int):
    chain, store = Chain(LINKS), MemoryStore()

    async with save_to_store(store, min_bytes=1, prefetch=prefetch):
        loss = chain.compute()
    with always():
        await loss.backward()
    assert chain.gradients() == chain.expected()


async def test_the_loop_and_the_next_nodes_go_on_while_a_formula_computes_that_was_waited_for():
    store, met = MemoryStore(), threading.Barrier(3, timeout=PATIENCE)
    x, y = saved_leaf(), saved_leaf()

    async with save_to_store(store, min_bytes=1, prefetch=0):
        z = seen_(x * 1.0, lambda x: met.wait()) + seen_(y * 1.0, lambda x: met.wait())
    with always(), ag.workers(2):
        backward = asyncio.create_task(z.sum().backward())
        await asyncio.to_thread(met.wait)
        await backward
    assert x.grad is not None
    assert y.grad is not None


async def test_only_the_gradients_that_are_wanted_are_waited_for_and_computed():
    store = MemoryStore()
    x, w = saved_leaf(), saved_leaf()

    async with save_to_store(store, min_bytes=1, prefetch=0):
        a, b = np.exp(x), np.sin(w)
        y = a * b
    with always():
        (found,) = await ag.grad(y.sum(), [w], retain_graph=True)
    gets = [key for method, key in store.calls if method == "get"]
    # Those of the product that the gradient of b needs, and what the sine has saved is a leaf.
    assert len(gets) == 1
    assert found.numpy().tobytes() == (np.exp(x.numpy()) * np.cos(w.numpy())).tobytes()


async def test_an_error_of_the_store_fails_the_backward_of_a_heavy_formula():
    chain, store = Chain(LINKS), MemoryStore()

    async with save_to_store(store, min_bytes=1):
        loss = chain.compute()
    store.fail("get", OSError(5, "Input/output error"))
    with always(), pytest.raises(StoreError, match="Input/output error"):
        await loss.backward()
    assert all(weight.grad is None for weight in chain.weights)
    store.mend("get")
    with always():
        await loss.backward()
    assert chain.gradients() == chain.expected()


async def test_a_backward_that_is_cancelled_while_a_heavy_formula_waits_begins_nothing_more():
    store, where = MemoryStore(), []
    x = saved_leaf()

    async with save_to_store(store, min_bytes=1):
        y = seen_(x * 1.0, lambda x: where.append(on_workers()))
    store.hold("get")
    with always():
        backward = asyncio.create_task(y.sum().backward())
        await asyncio.to_thread(store.wait_for_begun, "get")
        backward.cancel()
        with pytest.raises(asyncio.CancelledError):
            await backward
    store.let_go("get")
    assert where == []
    assert x.grad is None


@pytest.mark.slow
async def test_what_was_read_for_a_heavy_formula_is_freed_after_it():
    store, arrays = MemoryStore(), []
    x = saved_leaf()

    async def step() -> None:
        async with save_to_store(store, min_bytes=1, prefetch=0):
            y = seen_(x * 1.0, lambda x: arrays.append(weakref.ref(x)))
        with always():
            await y.sum().backward()

    gc.collect()
    gc.disable()
    try:
        await step()
        assert [array() for array in arrays] == [None]
    finally:
        gc.enable()
