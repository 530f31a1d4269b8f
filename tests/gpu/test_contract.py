"""A GPU is a device: what every device must do, it does."""

from __future__ import annotations

import pytest

import asyncgrad as ag
from asyncgrad.errors import DeviceError
from asyncgrad.testing import DEVICE_CHECKS
from tests.support.gpus import GPU


@pytest.mark.parametrize("check", DEVICE_CHECKS, ids=lambda check: check.__name__)
async def test_a_gpu_holds_the_law_of_every_device(gpu, check):
    await check(gpu)


def test_a_gpu_is_found_by_its_name(gpu):
    assert ag.device(GPU) is gpu
    assert gpu.name == GPU


def test_a_number_that_no_gpu_has_is_refused_with_those_that_there_are(cupy):
    count = cupy.cuda.runtime.getDeviceCount()

    with pytest.raises(DeviceError, match=rf"'cuda:{count}'.*\b{count}\b.*'cuda:0'"):
        ag.device(f"cuda:{count}")


def test_cuda_without_a_number_is_the_first_gpu(cupy):
    assert ag.device("cuda") is ag.device("cuda:0")


async def test_tensors_are_made_on_a_gpu_by_default_in_its_block(gpu):
    with ag.default_device(GPU):
        x = ag.tensor([1.0, 2.0], requires_grad=True)
        await (x * x).sum().backward()

    assert x.device is x.grad.device is gpu
    assert x.grad.to("cpu").tolist() == [2.0, 4.0]


def test_arrays_keep_every_bit_between_two_gpus(cupy):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    x = ag.tensor([1.0, -0.0, 5e-324], device="cuda:0", requires_grad=True)

    y = x.to("cuda:1")
    ag.sync.backward((y * y).sum())

    assert y.device is ag.device("cuda:1")
    assert y.to("cpu").numpy().tobytes() == x.to("cpu").numpy().tobytes()
    assert x.grad.to("cpu").tolist() == [2.0, -0.0, 1e-323]
