"""Branches on streams of their own have the gradients that they have on one stream, however busy the GPU is."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.devices.cuda import all_reduce_hook
from asyncgrad.errors import DeviceError

SIDE = 1024


def branch(x, depth):
    for _ in range(depth):
        x = np.tanh(x @ x / SIDE + x)
    return x


async def two_branches(gpu, first, second, seed):
    """Return the gradients of a matrix that two branches use, on the host, and of one that is made in each."""
    numbers = np.random.default_rng(seed).standard_normal((3, SIDE, SIDE)).astype(np.float32)
    shared = ag.tensor(numbers[0], device=gpu, requires_grad=True)
    leaves, outputs = [shared], []
    for stream, array in ((first, numbers[1]), (second, numbers[2])):
        stream.wait_stream(gpu.current_stream())
        with stream:
            own = ag.tensor(array, device=gpu, requires_grad=True)
            outputs.append(branch(shared * own, 4))
            leaves.append(own)
    for stream in (first, second):
        gpu.current_stream().wait_stream(stream)
    await (outputs[0] * outputs[1]).sum().backward()
    return [leaf.grad.to("cpu").numpy() for leaf in leaves]


@pytest.mark.parametrize("seed", range(10))
async def test_two_streams_give_the_gradients_of_one(gpu, seed):
    default = gpu.default_stream()
    one, two = (
        await two_branches(gpu, default, default, seed),
        await two_branches(gpu, gpu.stream(), gpu.stream(), seed),
    )

    # The same kernels on the same numbers; a product may be split otherwise where other streams are busy.
    for right, found in zip(one, two, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4 * np.abs(right).max())


async def test_a_node_waits_for_a_gradient_that_another_stream_has_not_computed_yet(gpu, spin):
    x = ag.tensor(np.ones(SIDE), device=gpu, requires_grad=True)
    side = gpu.stream()
    side.wait_stream(gpu.default_stream())
    middle = x * 2
    with side:
        side.wait_stream(gpu.default_stream())
        y = middle * 3
        y.register_hook(lambda grad: spin(side))
    gpu.default_stream().wait_stream(side)
    await y.backward(ag.tensor(np.ones(SIDE), device=gpu))

    assert (x.grad.to("cpu").numpy() == 6).all()


async def test_the_caller_s_stream_waits_for_the_leaves(gpu, spin):
    side = gpu.stream()
    with side:
        x: Any = ag.tensor(np.ones(SIDE), device=gpu, requires_grad=True)
        y = x * 2
        y.register_hook(lambda grad: spin(side))
    gpu.default_stream().wait_stream(side)
    await y.backward(ag.tensor(np.ones(SIDE), device=gpu))

    assert ((x.grad + 1).to("cpu").numpy() == 3).all()


async def test_the_memory_of_a_gradient_is_not_reused_while_another_stream_reads_it(gpu, spin):
    side, default = gpu.stream(), gpu.default_stream()
    x = ag.tensor(np.ones(1 << 20), device=gpu, requires_grad=True)
    middle = x * 2
    middle.register_hook(lambda grad: spin(default))
    side.wait_stream(default)
    with side:
        y = middle * 3
    default.wait_stream(side)
    await y.backward(ag.tensor(np.ones(1 << 20), device=gpu))
    with side:
        # The pool of the side stream has the gradient's memory if nothing holds it.
        noise = [ag.tensor(np.zeros(1 << 20), device=gpu) - 9 for _ in range(8)]
    found = x.grad.to("cpu").numpy()
    del noise

    assert (found == 6).all()


def test_the_memory_of_a_tensor_is_not_reused_while_a_stream_reads_it_that_has_recorded_the_use(gpu, spin):
    side, default = gpu.stream(), gpu.default_stream()
    with side:
        x = ag.tensor(np.ones(1 << 20), device=gpu) * 2
    default.wait_stream(side)
    spin(default)
    y = x * 3
    default.record_use(x)
    del x
    with side:
        noise = [ag.tensor(np.zeros(1 << 20), device=gpu) - 9 for _ in range(8)]

    assert (y.to("cpu").numpy() == 6).all()
    del noise


async def test_tasks_of_one_loop_have_streams_of_their_own(gpu):
    async def train(number):
        with gpu.stream():
            x = ag.tensor(np.full((SIDE, SIDE), number, np.float32), device=gpu, requires_grad=True)
            for _ in range(5):
                x.grad = None
                await (x @ x / SIDE).sum().backward()
            return float(x.grad.to("cpu").numpy()[0, 0])

    async def main():
        return await asyncio.gather(*(train(number) for number in range(1, 5)))

    assert await main() == [2.0, 4.0, 6.0, 8.0]


async def test_two_streams_run_at_the_same_time(gpu, spin, cupy):
    """By the GPU's own clock: two kernels that each take a multiprocessor for the same time overlap."""

    streams = [gpu.stream(), gpu.stream()]
    begin, *ends = (cupy.cuda.Event() for _ in range(3))
    await gpu.synchronize()
    begin.record(streams[0].cuda_stream)
    for stream, end in zip(streams, ends, strict=True):
        spin(stream)
        end.record(stream.cuda_stream)
    await gpu.synchronize()
    first, second = [cupy.cuda.get_elapsed_time(begin, end) for end in ends]

    assert second < 1.5 * first


async def test_an_all_reduce_hook_gives_the_gradient_over_all_ranks_of_which_there_is_one(gpu, cupy):
    nccl = pytest.importorskip("cupy.cuda.nccl")
    if not nccl.available:
        pytest.skip("CuPy has no NCCL here")
    communicator = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0)
    x = ag.tensor(np.arange(1000.0), device=gpu, requires_grad=True)
    x.register_post_accumulate_grad_hook(all_reduce_hook(communicator))

    await (x * x).sum().backward()
    await (x * x).sum().backward()

    np.testing.assert_array_equal(x.grad.to("cpu").numpy(), 4 * np.arange(1000.0))


async def test_an_all_reduce_hook_refuses_what_nccl_does_not_add(gpu, cupy):
    x = ag.tensor(np.ones(3, np.complex64), device=gpu, requires_grad=True)
    x.register_post_accumulate_grad_hook(all_reduce_hook(None))

    with pytest.raises(DeviceError, match="complex64 on 'cuda:0'"):
        await ag.backward(np.abs(x).sum())
