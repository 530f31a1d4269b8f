"""When a recomputation fails or is cancelled, nothing is left half-done, and the backward can be tried again."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.memory.checkpoint.models import maybe_async, recomputed
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop


def reentrant(fn, x):
    return ag.checkpoint(fn, x)


def chained_with_exp(fn, x):
    return ag.checkpoint_chain([fn, np.exp], x, snapshots=1)


each_kind = pytest.mark.parametrize("kind", [reentrant, recomputed])


@on_each_loop
@each_kind
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_an_error_in_a_recomputation_leaves_all_gradients_as_they_were(run, kind, is_async):
    fails = []

    def fn(x):
        if fails and fails.pop():
            raise KeyError("second time")
        return np.exp(np.sin(x) * w)

    async def main():
        x = leaf(1.0)
        y = x
        for _ in range(3):
            y = kind(maybe_async(fn, is_async), y)
            y = await y if is_async else y
        fails[:] = [True, False]
        w.grad = None
        with pytest.raises(KeyError, match="second time") as caught:
            await ag.backward(y.sum(), retain_graph=True)
        assert (x.grad, w.grad) == (None, None)
        assert any("Backward (node #" in note for note in caught.value.__notes__)
        await ag.backward(y.sum())
        return x.grad.item(), w.grad.item()

    w = leaf(0.5)
    x = y = leaf(1.0)
    for _ in range(3):
        y = np.exp(np.sin(y) * w)
    sync.backward(y.sum())
    expected = x.grad.item(), w.grad.item()
    assert run(main()) == expected


@on_each_loop
@pytest.mark.parametrize("kind", [reentrant, recomputed, chained_with_exp])
def test_a_cancellation_in_a_recomputation_leaves_all_gradients_as_they_were(run, kind):
    async def main():
        begun, ended, again = asyncio.Event(), [], []

        async def fn(x):
            if ag.engine.current_graph_task() is not None and not again:
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append(True)
            return np.sin(x)

        x, other = leaf(1.0), leaf(2.0)
        y = await kind(fn, x)
        loss = ((y if kind is chained_with_exp else np.exp(y)) * other).sum()
        task = asyncio.ensure_future(ag.backward(loss, retain_graph=True))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]
        assert (x.grad, other.grad) == (None, None)
        again.append(True)
        await ag.backward(loss)
        return x.grad.item()

    plain = leaf(1.0)
    sync.backward((np.exp(np.sin(plain)) * 2.0).sum())
    assert run(main()) == plain.grad.item()


async def test_where_the_one_that_recomputes_is_cancelled_the_next_that_waits_takes_over():
    calls = []

    gate = asyncio.Event()

    async def fn(x):
        calls.append(1)
        if len(calls) > 1:
            await gate.wait()
        return np.sin(x), np.cos(x)

    x = leaf(1.0)
    first, second = await recomputed(fn, x)

    async def loads(grads):
        tasks = [asyncio.ensure_future(one.grad_fn.saved_tensors[0].load()) for one in (first, second)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(calls) == 2
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        gate.set()
        assert (await tasks[1]).item() == 1.0

    total = first + second
    total.grad_fn.register_prehook(loads)
    await ag.backward(total.sum())

    assert x.grad.item() == np.cos(1.0) - np.sin(1.0)
    # The forward, the one that was cancelled, the one that took over; and its tensor, which has been taken by then.
    assert len(calls) == 4


@each_kind
def test_threads_that_run_backward_at_once_get_the_same_bits(kind):
    x = leaf(0.5, 1.0)
    y = kind(lambda x: np.exp(np.sin(x)) * np.tanh(x), x).sum()
    threads = [threading.Thread(target=sync.backward, args=(y,), kwargs={"retain_graph": True}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    plain = leaf(0.5, 1.0)
    for _ in range(8):
        sync.backward((np.exp(np.sin(plain)) * np.tanh(plain)).sum())
    assert x.grad.tolist() == plain.grad.tolist()
