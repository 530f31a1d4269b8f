"""Convolution and pooling by the GPU's own kernels give what NumPy's formulas give, on batches of many blocks, too."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.core.arrays.device_functions import own_function
from asyncgrad.nn.shared.windows import Window

TOLERANCES = {"f": 1e-4, "d": 1e-11}
CONVOLUTIONS = [
    ((64, 3, 32, 32), (32, 3, 3, 3), {"padding": 1}),
    # More windows than are copied at a time.
    ((48, 32, 40, 40), (16, 32, 3, 3), {"padding": 1}),
    ((1, 4, 33, 31), (6, 4, 3, 2), {"stride": (2, 3), "padding": (2, 1), "dilation": (1, 2)}),
    ((5, 8, 20, 21), (12, 4, 3, 3), {"groups": 2, "stride": 2}),
    ((5, 8, 20, 21), (8, 1, 3, 3), {"groups": 8, "padding": 1}),
]


def drawn(*shape, dtype):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def output_and_grads(function, leaves, device):
    tensors = [ag.tensor(leaf, device=device, requires_grad=True) for leaf in leaves]
    out = function(*tensors)
    g = ag.tensor(drawn(*out.shape, dtype=leaves[0].dtype), device=device)
    return [one.to("cpu").numpy() for one in (out.detach(), *ag.sync.grad(out, tensors, [g]))]


def agree(function, leaves, gpu):
    for ours, right in zip(
        output_and_grads(function, leaves, gpu), output_and_grads(function, leaves, "cpu"), strict=True
    ):
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        tolerance = TOLERANCES[right.dtype.char]
        np.testing.assert_allclose(ours, right, rtol=tolerance, atol=tolerance * np.abs(right).max())


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize(("shape", "filters", "options"), CONVOLUTIONS)
def test_a_convolution_is_that_of_the_host(gpu, shape, filters, options, dtype):
    leaves = [drawn(*shape, dtype=dtype), drawn(*filters, dtype=dtype), drawn(filters[0], dtype=dtype)]

    agree(lambda *given: nn.conv2d(*given, **options), leaves, gpu)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("options", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}])
@pytest.mark.parametrize("function", [nn.max_pool2d, nn.avg_pool2d])
def test_pooling_is_that_of_the_host(gpu, function, options, dtype):
    agree(lambda x: function(x, **options), [drawn(64, 32, 31, 32, dtype=dtype)], gpu)


@pytest.mark.parametrize("dtype", "fd")
def test_there_are_kernels_for_images_of_floating_numbers(cupy, gpu, dtype):
    x, weight = cupy.ones((2, 3, 5, 5), dtype), cupy.ones((4, 3, 3, 3), dtype)
    window = Window.over("test", (5, 5), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))

    out = own_function("conv2d", x)(x, weight, None, window, 1)
    maxima, choice = own_function("find_maxima", x)(x, window)

    assert (out.dtype.char, out.shape) == (dtype, (2, 4, 5, 5))
    assert (out[:, :, 2, 2] == 27).all()
    assert (maxima == 1).all()
    assert int(choice[0, 0, 0, 0]) == 4
    assert not choice[0, 0, 2, 2]
