"""The memory of the GPU: what is dropped is free again, and running out of it harms nothing that is there."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim

SIDE = 512
BYTES = SIDE * SIDE * 4


def matrix(gpu, *, requires_grad=False):
    return ag.tensor(np.full((SIDE, SIDE), 1 / SIDE, np.float32), device=gpu, requires_grad=requires_grad)


@pytest.fixture(autouse=True)
def _nothing_is_left(cupy, gpu):
    gc.collect()
    gpu.empty_cache()


async def test_a_dropped_graph_gives_its_memory_back(gpu):
    w = matrix(gpu, requires_grad=True)
    await (w @ w).sum().backward()
    w.grad = None
    await gpu.synchronize()
    before = gpu.memory_allocated()
    y = w
    for _ in range(10):
        y = np.tanh(y @ w)
    during = gpu.memory_allocated()
    del y
    gpu.empty_cache()
    after = gpu.memory_allocated()

    assert during >= before + 10 * BYTES
    assert after == before


async def test_a_backward_frees_what_it_no_longer_needs(gpu):
    w = matrix(gpu, requires_grad=True)
    found = []
    for depth in (1, 1, 20):
        w.grad = None
        y = w
        for _ in range(depth):
            y = np.tanh(y @ w)
        loss = y.sum()
        del y
        await loss.backward()
        await gpu.synchronize()
        gpu.empty_cache()
        found.append((gpu.memory_allocated(), gpu.memory_reserved()))
        del loss
    _, shallow, deep = found

    assert deep == shallow


@pytest.mark.parametrize("where", ["forward", "backward"])
async def test_running_out_of_memory_leaves_tensors_and_gradients_and_the_next_step_works(gpu, small_pool, where):
    w = matrix(gpu, requires_grad=True)
    await (w @ w).sum().backward()
    before = w.grad, w.grad.to("cpu").numpy().copy()

    def loss(depth):
        y = w
        for _ in range(depth):
            y = y @ w
        return y.sum()

    deep = loss(20) if where == "backward" else None
    small_pool(2 * BYTES if where == "forward" else BYTES)
    with pytest.raises(MemoryError, match="Out of memory allocating") as caught:
        await (deep or loss(20)).backward()
    same = w.grad is before[0] and (w.grad.to("cpu").numpy() == before[1]).all()
    del caught, deep
    gc.collect()
    small_pool(20 * BYTES)
    await loss(2).backward()
    after = w.grad.to("cpu").numpy()
    before = before[1]

    assert same
    # Each of the matrices that are multiplied adds a matrix of ones: two in the first backward, three in the second.
    np.testing.assert_allclose(after, 2.5 * before, rtol=1e-4)


async def test_a_backward_that_ran_out_of_memory_can_be_run_again(gpu, small_pool):
    w = matrix(gpu, requires_grad=True)
    loss = (np.tanh(w @ w) @ w).sum()
    small_pool(0)
    with pytest.raises(MemoryError):
        await loss.backward(retain_graph=True)
    assert w.grad is None
    small_pool(20 * BYTES)
    await loss.backward()
    here = ag.tensor(np.full((SIDE, SIDE), 1 / SIDE, np.float32), requires_grad=True)
    await (np.tanh(here @ here) @ here).sum().backward()
    found, right = (w.grad.to("cpu").numpy(), here.grad.numpy())

    np.testing.assert_allclose(found, right, rtol=1e-3)


async def test_an_optimizer_s_steps_use_no_more_memory_each(gpu):
    params = [matrix(gpu, requires_grad=True) for _ in range(3)]
    optimizer = optim.Adam(params)
    counts = []
    for _ in range(6):
        optimizer.zero_grad()
        await (params[0] @ params[1] @ params[2]).sum().backward()
        optimizer.step()
        await gpu.synchronize()
        counts.append((gpu.memory_allocated(), gpu.memory_reserved()))

    assert len(set(counts[2:])) == 1
