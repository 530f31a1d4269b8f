"""Heavy nodes that have something to wait for: it is waited for on the loop of the backward, never on a worker."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import asyncgrad as ag
from tests.core.engine.heavy import always, large, on_workers
from tests.support.functions import Calling, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.threads import PATIENCE


class Returning(Calling):
    """A copy of x whose backward, a plain function, returns what `callback(grad)` does, a coroutine."""

    @staticmethod
    def backward(ctx, grad):
        return ctx.callback(grad)


class Unpacked:
    """Keeps tensors as they are; `seen` tells of each that came back whether a worker has asked for it."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    async def later(self, tensor):
        self.seen.append(on_workers())
        await asyncio.sleep(0)
        return tensor

    def plainly(self, tensor):
        return self.later(tensor)

    def at_once(self, tensor):
        self.seen.append(on_workers())
        return tensor


@on_each_loop
@pytest.mark.parametrize("hook", ["later", "plainly"])
def test_what_a_heavy_node_has_saved_is_awaited_on_the_loop(run, hook):
    unpacked, x, plain = Unpacked(), leaf(0.5, 1.0), leaf(0.5, 1.0)

    async def main():
        with ag.graph.saved_tensors_hooks(lambda tensor: tensor, getattr(unpacked, hook)):
            y = (np.sin(x) * np.cos(x) * calling(x, lambda grad: grad)).sum()
        with always():
            await y.backward()

    run(main())
    ag.sync.backward((np.sin(plain) * np.cos(plain) * calling(plain, lambda grad: grad)).sum())
    assert set(unpacked.seen) == {False}
    assert x.grad.numpy().tolist() == plain.grad.numpy().tolist()


async def test_an_async_function_is_computed_again_where_the_formula_that_needs_it_is_heavy():
    x = leaf(0.5, 1.0)

    async def fn(x):
        await asyncio.sleep(0)
        return np.sin(x)

    with always():
        await (await ag.checkpoint(fn, x, use_reentrant=False)).sum().backward()
    assert x.grad.numpy().tolist() == np.cos([0.5, 1.0]).tolist()


async def test_unpack_hooks_of_heavy_nodes_are_called_one_after_the_other():
    unpacked, running = Unpacked(), threading.Lock()

    def unpack(tensor):
        assert running.acquire(blocking=False)
        try:
            return unpacked.at_once(tensor)
        finally:
            running.release()

    x = large()
    with ag.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = sum(np.sin(x) for _ in range(8)).sum()
    with always(), ag.workers(4):
        await y.backward()
    assert unpacked.seen == [True] * 8


async def test_a_coroutine_that_a_plain_body_returns_is_awaited_on_the_loop():
    seen = []

    async def later(grad):
        seen.append(on_workers())
        await asyncio.sleep(0)
        return grad * 3.0, None

    def body(grad):
        seen.append(on_workers())
        return later(grad)

    x = leaf(1.0, 2.0)
    with always():
        await Returning.apply(x, body).sum().backward()

    assert x.grad.numpy().tolist() == [3.0, 3.0]
    assert seen == [True, False]


@pytest.mark.parametrize("of", ["a body", "a hook"])
async def test_a_coroutine_that_comes_after_a_cancellation_is_closed(of):
    begun, let_go, seen = threading.Event(), threading.Event(), []

    async def later():
        seen.append("awaited")

    def late(_):
        begun.set()
        assert let_go.wait(PATIENCE)
        return later()

    x = leaf(1.0, 2.0)
    with ag.graph.saved_tensors_hooks(lambda tensor: tensor, late):
        y = Returning.apply(x, late) if of == "a body" else np.sin(x)
    with always():
        task = asyncio.create_task(y.sum().backward())
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, PATIENCE)
        task.cancel()
        asyncio.get_running_loop().call_soon(let_go.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    assert x.grad is None
    assert seen == []
