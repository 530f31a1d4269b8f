"""Depthwise convolutions with a stride: the same numbers in planes as by windows over images in another order."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from tests.tracing.running import same


def _gradients(x: Any, weight: Any, g: Any, **options: Any) -> list[np.ndarray]:
    """Return the result, and the gradients of x and the filters."""
    leaves = [ag.tensor(one, requires_grad=True) for one in (x, weight)]
    y = nn.conv2d(*leaves, **options)

    async def backward() -> None:
        await y.backward(ag.tensor(g))

    asyncio.run(backward())
    return [y.numpy(), *[leaf.grad.numpy() for leaf in leaves]]


def _images_last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(1, 2, 3, 0)).transpose(3, 0, 1, 2)


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize(
    ("image", "kernel", "stride", "padding", "dilation"),
    [
        ((8, 6), (3, 3), (2, 2), (1, 1), (1, 1)),
        ((7, 9), (3, 3), (2, 2), (1, 1), (1, 1)),
        ((7, 9), (2, 5), (3, 2), (2, 0), (1, 1)),
        ((9, 8), (3, 3), (1, 2), (4, 4), (2, 1)),
        ((9, 8), (1, 1), (5, 2), (0, 0), (1, 1)),
    ],
)
def test_planes_give_what_windows_give(
    n: int, image: Any, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((n, 5, *image)), rng.standard_normal((5, 1, *kernel))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 5}
    g = rng.standard_normal(nn.conv2d(x, weight, **options).shape)
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    by_hand = np.zeros(g.shape)
    for row, column in np.ndindex(kernel):
        seen = padded[:, :, row * dilation[0] :: stride[0], column * dilation[1] :: stride[1]]
        by_hand += seen[:, :, : g.shape[2], : g.shape[3]] * weight[:, :, row, column][None, :, :, None]
    found = _gradients(x, weight, g, **options)
    np.testing.assert_allclose(found[0], by_hand, atol=1e-12)
    expected = _gradients(_images_last(x), weight, _images_last(g), **options) if n > 1 else found
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    # The form is linear in each: a product with any of the three gradients is the same number.
    np.testing.assert_allclose((found[1] * x).sum(), (found[0] * g).sum(), atol=1e-10)
    np.testing.assert_allclose((found[2] * weight).sum(), (found[0] * g).sum(), atol=1e-10)


@pytest.mark.parametrize("in_place_of_g", [np.ones((1, 1, 1, 1)), np.arange(4.0), np.arange(4.0)[::-1]])
def test_gradients_that_are_spread_out_are_copied(in_place_of_g: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, 3, 8, 8)), rng.standard_normal((3, 1, 3, 3))
    options = {"stride": 2, "padding": 1, "groups": 3}
    g = np.broadcast_to(in_place_of_g, (2, 3, 4, 4))
    for one, other in zip(_gradients(x, weight, g, **options), _gradients(x, weight, g.copy(), **options), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_filter_of_two_channels_has_the_gradients_of_two_filters() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, 6, 8, 8)), rng.standard_normal((3, 2, 3, 3))
    g = rng.standard_normal((2, 3, 4, 4))
    options = {"stride": 2, "padding": 1}
    found = _gradients(x, weight, g, groups=3, **options)
    alone = _gradients(x, weight.reshape(6, 1, 3, 3), g.repeat(2, axis=1), groups=6, **options)
    np.testing.assert_allclose(found[0], alone[0][:, ::2] + alone[0][:, 1::2], atol=1e-12)
    np.testing.assert_allclose(found[1], alone[1], atol=1e-12)
    np.testing.assert_allclose(found[2], alone[2].reshape(3, 2, 3, 3), atol=1e-12)


@pytest.mark.parametrize("what", [0, 1, 2])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_an_infinite_number_reaches_only_what_is_computed_of_it(what: int) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in ((3, 4, 6, 6), (4, 1, 3, 3), (3, 4, 3, 3))]
    arrays[what][0, 0, 0, 0] = np.inf
    x, weight, g = arrays
    options = {"stride": 2, "padding": 1, "groups": 4}
    found = _gradients(x, weight, g, **options)
    for one, other in zip(found, _gradients(_images_last(x), weight, _images_last(g), **options), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_recorded_program_has_the_bits_of_the_function(dtype: Any) -> None:
    def loss(x: Any, weight: Any) -> Any:
        y = nn.conv2d(x, weight, stride=2, padding=1, groups=4)
        return (y * y).sum()

    rng = np.random.default_rng(0)
    leaves = [rng.standard_normal(shape).astype(dtype) for shape in ((2, 4, 6, 6), (4, 1, 3, 3))]
    jitted = ag.jit(loss, verify=0)
    assert all(same(loss, jitted, [leaf + call for leaf in leaves]) for call in range(4))
    assert jitted.counts["replayed"] > 0
