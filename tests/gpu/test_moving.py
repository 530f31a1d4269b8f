"""Arrays go to the GPU and come back with every bit, whatever their dtype, shape and order in memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
LAYOUTS: dict[str, Any] = {
    "C": lambda array: array,
    "Fortran": np.asfortranarray,
    "transposed": lambda array: array.transpose(2, 0, 1),
    "every second": lambda array: array[:, ::2],
    "backwards": lambda array: array[::-1, :, ::-1],
    "repeated": lambda array: np.broadcast_to(array[:1], array.shape),
    "0-d": lambda array: array[1, 2, 3],
    "empty": lambda array: array[:0],
}
#: Elements of an array that goes through several buffers on its way.
LARGE = 5_000_011


def bits(tensor: ag.Tensor) -> tuple[object, ...]:
    array = np.asarray(tensor.numpy())
    return array.dtype, array.shape, array.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_move_there_and_back_keeps_every_bit(gpu, dtype, layout):
    noise = np.random.default_rng(0).integers(0, 256, 4 * 6 * 5 * np.dtype(dtype).itemsize, np.uint8)
    array = (noise % 2 == 0)[:120] if dtype == "?" else noise.view(dtype)
    here = ag.tensor(LAYOUTS[layout](array.reshape(4, 6, 5)))

    there = here.to(gpu)

    assert there.device is gpu
    assert (there.dtype, there.shape) == (here.dtype, here.shape)
    assert bits(there.to("cpu")) == bits(here)


@pytest.mark.parametrize("layout", ["C", "Fortran", "transposed"])
def test_a_move_keeps_the_order_of_the_elements_in_memory(gpu, layout):
    here = ag.tensor(LAYOUTS[layout](np.arange(120.0).reshape(4, 6, 5)))

    assert here.to(gpu).to("cpu").numpy().strides == here.numpy().strides


def test_an_array_of_many_buffers_keeps_every_bit(gpu):
    here = ag.tensor(np.random.default_rng(0).standard_normal(LARGE))

    assert bits(here.to(gpu).to("cpu")) == bits(here)


async def test_a_move_that_does_not_block_keeps_every_bit(gpu):
    here: Any = ag.tensor(np.random.default_rng(0).standard_normal(LARGE))
    back = here.to(gpu, non_blocking=True).to("cpu", non_blocking=True)
    await gpu.synchronize()

    assert bits(back) == bits(here)


@pytest.mark.parametrize("size", [3, LARGE])
def test_a_write_into_the_source_after_a_move_does_not_change_the_copy(gpu, spin, size):
    array = np.ones(size)
    spin(gpu.default_stream())

    there = ag.asarray(array).to(gpu)
    array[...] = 0

    assert float(there.to("cpu").numpy().min()) == 1.0


def test_a_copy_to_the_host_holds_what_the_work_before_it_has_computed(gpu, spin):
    x = ag.tensor(np.ones(LARGE), device=gpu)
    spin(gpu.default_stream())
    y = x + 1

    assert float(y.to("cpu").numpy().min()) == 2.0


async def test_a_gradient_comes_back_from_the_gpu_to_a_leaf_on_the_host(gpu):
    x = ag.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    y = (x.T.to(gpu) ** 2).to("cpu").sum()
    await y.backward()

    assert x.grad.device is ag.device("cpu")
    assert x.grad.tolist() == (2 * np.arange(6.0).reshape(2, 3)).tolist()


@pytest.mark.parametrize("kind", ["M8[s]", "O", "g"])
def test_a_dtype_that_cuda_lacks_is_refused_with_its_name(cupy, gpu, kind):
    array = np.array(["2030-01-31"], kind) if kind.startswith("M") else np.array([1], kind)

    with pytest.raises(ag.errors.AsyncgradError, match=re.escape(str(array.dtype))):
        ag.tensor(array, device=gpu)
