"""A store that fails: a clear error, and nothing lost."""

from __future__ import annotations

import asyncio
import errno
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import StoreError, StoreWarning
from asyncgrad.graph import save_to_store
from asyncgrad.testing import MemoryStore
from tests.memory.offload.scenes import Chain

LINKS = 5
FULL = "a saved tensor of shape .* and dtype float64 could not be put into <MemoryStore of .*>: .*No space left.*"


def full(store: MemoryStore) -> MemoryStore:
    store.fail("put", OSError(errno.ENOSPC, "No space left on device"))
    return store


async def test_leaving_an_async_block_raises_and_what_was_saved_stays_in_memory():
    chain, store = Chain(LINKS), full(MemoryStore())
    losses: list[Any] = []

    async def block() -> None:
        async with save_to_store(store, min_bytes=1):
            store.hold("put")
            losses.append(chain.compute())
            store.let_go("put")

    with pytest.raises(StoreError, match=FULL) as caught:
        await block()
    assert caught.value.errno == errno.ENOSPC
    assert isinstance(caught.value.__cause__, OSError)
    await losses[0].backward()
    assert chain.gradients() == chain.expected()


def test_the_next_tensor_raises_where_something_could_not_be_put():
    x, store = ag.tensor(np.ones(4), requires_grad=True), full(MemoryStore())

    with save_to_store(store, min_bytes=1):
        y = np.exp(x)
        store.wait_for_ended("put")
        with pytest.raises(StoreError, match=FULL):
            np.exp(x)
    ag.sync.backward(y.sum())

    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), np.exp(np.ones(4)))


def test_leaving_a_block_raises_what_is_known_by_then():
    x, store = ag.tensor(np.ones(4), requires_grad=True), full(MemoryStore())

    block = save_to_store(store, min_bytes=1)
    block.__enter__()
    y = np.exp(x)
    store.wait_for_ended("put")
    with pytest.raises(StoreError, match=FULL):
        block.__exit__(None, None, None)

    ag.sync.backward(y.sum())
    assert x.grad is not None


async def test_what_goes_wrong_after_a_block_is_told_by_a_warning_of_the_backward():
    chain, store = Chain(LINKS), full(MemoryStore())

    store.hold("put")
    loss = chain.forward(save_to_store(store, min_bytes=1))
    store.let_go("put")
    store.wait_for_ended("put", LINKS + 1)
    with pytest.warns(StoreWarning, match=FULL) as warned:
        await loss.backward()
    assert len(warned) == 1
    assert chain.gradients() == chain.expected()


async def test_a_failure_is_raised_once_and_the_next_block_tries_again():
    chain, store = Chain(LINKS), full(MemoryStore())
    manager = save_to_store(store, min_bytes=1)

    with pytest.raises(StoreError):
        async with manager:
            loss = chain.compute()
    store.mend("put")
    async with manager:
        loss = chain.compute()
    assert len(store) == LINKS + 1
    await loss.backward()
    assert chain.gradients() == chain.expected()


async def test_the_error_of_a_block_comes_before_that_of_the_store():
    store = full(MemoryStore())
    x = ag.tensor(np.ones(4), requires_grad=True)

    async def step() -> None:
        async with save_to_store(store, min_bytes=1):
            np.exp(x)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await step()


def test_a_forward_that_waits_for_room_is_told_of_the_failure():
    x, store = ag.tensor(np.ones(100), requires_grad=True), full(MemoryStore())

    with pytest.raises(StoreError, match=FULL), save_to_store(store, min_bytes=1, max_pending_bytes=800):
        _ = [np.exp(x) for _ in range(3)]

    assert len(store) == 0


def test_where_no_thread_can_be_started_what_is_saved_stays_in_memory(monkeypatch: pytest.MonkeyPatch):
    def start(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    x, store = ag.tensor(np.ones(4), requires_grad=True), MemoryStore()
    monkeypatch.setattr(threading.Thread, "start", start)

    with save_to_store(store, min_bytes=1):
        y = np.exp(x)
        with pytest.raises(StoreError, match="no thread can run it; it stays in memory"):
            np.exp(x)
    ag.sync.backward(y.sum())

    assert x.grad is not None
    assert store.calls == []


async def test_what_cannot_be_got_fails_the_backward_which_can_be_repeated():
    chain, store = Chain(LINKS), MemoryStore()

    async with save_to_store(store, min_bytes=1):
        loss = chain.compute()
    store.fail("get", OSError(errno.EIO, "Input/output error"))
    with pytest.raises(StoreError, match=r"could not be got from <MemoryStore.*Input/output error; the") as caught:
        await loss.backward()
    assert caught.value.errno == errno.EIO
    assert any("in MultiplyBackward" in note for note in caught.value.__notes__)
    assert all(weight.grad is None for weight in chain.weights)
    store.mend("get")
    await loss.backward()
    assert chain.gradients() == chain.expected()


def test_a_blocking_backward_fails_in_the_same_way():
    chain, store = Chain(LINKS), MemoryStore()
    loss = chain.forward(save_to_store(store, min_bytes=1))
    store.wait_for_ended("put", LINKS + 1)
    store.fail("get", ValueError("not these"))
    with pytest.raises(StoreError, match=r"could not be got from .*not these"):
        ag.sync.backward(loss)

    store.mend("get")
    ag.sync.backward(loss)
    assert chain.gradients() == chain.expected()


@pytest.mark.parametrize("wrong", [b"", b"x" * 511, b"x" * 513])
async def test_other_bytes_than_were_put_are_refused(wrong: bytes):
    chain, store = Chain(LINKS), MemoryStore()

    async with save_to_store(store, min_bytes=1):
        loss = chain.compute()
    for key in store.data:
        store.data[key] = wrong
    with pytest.raises(StoreError, match=f"{len(wrong)} bytes came back, but 512 were put"):
        await loss.backward()


async def test_a_failing_delete_harms_nobody(caplog: pytest.LogCaptureFixture):
    chain, store = Chain(LINKS), MemoryStore()
    store.fail("delete", OSError(errno.EIO, "Input/output error"))

    async with save_to_store(store, min_bytes=1):
        loss = chain.compute()
    await loss.backward()
    store.wait_for_ended("delete", LINKS + 1)
    assert chain.gradients() == chain.expected()


@pytest.mark.slow
async def test_a_failure_leaves_no_cycle():
    store = full(MemoryStore())
    seen: list[Any] = []

    async def step() -> None:
        x = ag.tensor(np.ones(4), requires_grad=True)
        try:
            async with save_to_store(store, min_bytes=1):
                y = np.exp(x)
        except StoreError:
            pass
        await y.sum().backward()
        seen.append(weakref.ref(y))

    gc.collect()
    gc.disable()
    try:
        await step()
        assert seen[0]() is None
    finally:
        gc.enable()


async def test_a_cancelled_wait_for_the_end_of_a_block_leaves_the_graph_usable():
    chain, store = Chain(LINKS), MemoryStore()
    losses: list[Any] = []

    computed = asyncio.Event()

    async def block() -> None:
        async with save_to_store(store, min_bytes=1):
            losses.append(chain.compute())
            computed.set()

    store.hold("put")
    task = asyncio.create_task(block())
    await computed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await losses[0].backward()
    store.let_go("put")
    assert chain.gradients() == chain.expected()


EXITS = [SystemExit(3), KeyboardInterrupt()]


@pytest.mark.parametrize("error", EXITS, ids=lambda error: type(error).__name__)
async def test_a_put_that_would_exit_is_a_failure_like_any_other(error: BaseException):
    chain, store = Chain(LINKS), MemoryStore()
    store.fail("put", error)
    losses: list[Any] = []

    def compute() -> None:
        # It fails only once all has been computed: before, the next operation would raise.
        store.hold("put")
        losses.append(chain.compute())
        store.let_go("put")

    with pytest.raises(StoreError, match=f"could not be put into .*: {type(error).__name__}") as caught:
        async with save_to_store(store, min_bytes=1):
            compute()
    assert caught.value.__cause__ is error
    await losses[0].backward()
    store.mend("put")
    async with save_to_store(store, min_bytes=1):
        chain.compute()
    assert chain.gradients() == chain.expected()


@pytest.mark.parametrize("error", EXITS, ids=lambda error: type(error).__name__)
async def test_a_get_that_would_exit_makes_the_backward_fail_and_another_one_reads(error: BaseException):
    chain, store = Chain(LINKS), MemoryStore()

    async with save_to_store(store, min_bytes=1):
        loss = chain.compute()
    store.fail("get", error)
    with pytest.raises(StoreError, match=f"could not be got from .*: {type(error).__name__}"):
        await loss.backward(retain_graph=True)
    store.mend("get")
    await loss.backward()
    assert chain.gradients() == chain.expected()
