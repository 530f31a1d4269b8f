"""Images in every order in memory: the values are the same, and convolutions go through them in parts of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.nn.functional import convolution
from asyncgrad.nn.shared.layouts import images_last, in_order_of, with_spaced_rows
from asyncgrad.nn.shared.windows import Window


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def with_images_last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(1, 2, 3, 0)).transpose(3, 0, 1, 2)


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (5, 1), (3, 4)])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 9, 100])
def test_tiles_hold_each_position_once_and_in_order(size: tuple[int, int], count: int) -> None:
    positions = np.arange(size[0] * size[1]).reshape(size)
    tiles = list(Window((1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), size).tiles(count))

    found = [positions[tile.rows, tile.columns].ravel() for tile in tiles]
    np.testing.assert_array_equal(np.concatenate(found), positions.ravel())
    for one, tile in zip(found, tiles, strict=True):
        assert 0 < one.size <= max(1, count)
        assert one.size == tile.stop - tile.start == tile.size[0] * tile.size[1]
        assert one[0] == tile.start


OPTIONS: list[dict[str, Any]] = [{"padding": 1}, {"stride": (2, 1), "padding": (1, 2)}, {"dilation": 2, "groups": 2}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("chunk", [1, 1_000, 3_000])
def test_a_convolution_in_parts_is_that_of_the_whole(
    options: dict[str, Any], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = numbers(3, 4, 6, 7), numbers(4, 4 // options.get("groups", 1), 3, 2)

    def results() -> list[np.ndarray]:
        first, second = [ag.tensor(one, requires_grad=True) for one in (x, weight)]
        y = nn.conv2d(first, second, **options)
        return [y.numpy(), *(one.numpy() for one in sync.grad((y * y).sum(), [first, second]))]

    whole = results()
    monkeypatch.setattr(convolution, "CHUNK", chunk)
    monkeypatch.setattr(convolution, "COLUMNS", 0)
    for one, other in zip(results(), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [np.copy, with_images_last])
@pytest.mark.parametrize("groups", [1, 2])
def test_pixels_of_images_are_multiplied_one_by_one_as_all_together(
    groups: int, order: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = order(numbers(3, 4, 6, 7)), numbers(6, 4 // groups, 1, 1), numbers(6)

    def results() -> list[np.ndarray]:
        x, weight, bias = leaves = [ag.asarray(one).requires_grad_() for one in arrays]
        y = nn.conv2d(x, weight, bias, groups=groups)
        first = sync.grad((y * y).sum(), leaves, create_graph=True)
        second = sync.grad(sum((one * one).sum() for one in first), leaves)
        return [one.numpy() for one in (y, *first, *second)]

    together = results()
    monkeypatch.setattr(convolution, "PIXELS", 1)
    for one, other in zip(results(), together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


LAYERS: dict[str, Any] = {
    "conv2d": lambda x: nn.conv2d(x, numbers(3, 2, 2, 2), padding=1),
    "conv_transpose2d": lambda x: nn.conv_transpose2d(x, numbers(2, 3, 2, 2), stride=2),
    "max_pool2d": lambda x: nn.max_pool2d(x, 2),
    "max_pool2d, overlapping": lambda x: nn.max_pool2d(x, 3, 1, 1),
    "avg_pool2d": lambda x: nn.avg_pool2d(x, 2, padding=1),
    "relu": nn.relu,
}


@pytest.mark.parametrize("name", LAYERS)
def test_values_and_gradients_do_not_depend_on_the_order_of_images_in_memory(name: str) -> None:
    x = numbers(5, 2, 4, 6)
    plain, last = (ag.asarray(one).requires_grad_() for one in (x, with_images_last(x)))
    given = numbers(*LAYERS[name](plain).shape)

    grads = []
    for tensor in (plain, last):
        for weights in (given, with_images_last(given)):
            y = LAYERS[name](tensor)
            np.testing.assert_array_equal(y.numpy(), LAYERS[name](plain).numpy())
            grads.append(sync.grad(y, [tensor], [ag.asarray(weights)])[0].numpy())
    for grad in grads[1:]:
        np.testing.assert_array_equal(grad, grads[0])


def test_results_of_convolution_and_pooling_lie_with_the_images_last() -> None:
    y = nn.relu(nn.max_pool2d(nn.conv2d(numbers(5, 2, 4, 6), numbers(3, 2, 1, 1)), 2))

    assert y.transpose(1, 2, 3, 0).flags.c_contiguous


@pytest.mark.parametrize("shape", [(3, 2, 4, 5), (13, 2, 4, 5), (1, 3, 2, 2)], ids=str)
def test_a_few_images_are_copied_into_another_order_as_many_are(shape: tuple[int, ...]) -> None:
    x = numbers(*shape)

    np.testing.assert_array_equal(images_last(x), x.transpose(1, 2, 3, 0))
    np.testing.assert_array_equal(in_order_of(x, with_images_last(x)), x)
    assert in_order_of(np.ones(5), np.arange(10.0)[::2]).tolist() == [0, 2, 4, 6, 8]


def test_an_array_is_copied_into_the_order_of_another_only_if_it_has_a_different_one() -> None:
    x = numbers(3, 2, 4, 5)
    last = with_images_last(x)

    assert in_order_of(x, x) is x
    assert in_order_of(last, last) is last
    for other, one in ((x, last), (last, x)):
        found = in_order_of(other, one)
        assert found.strides == other.strides
        np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_rows_that_are_a_power_of_two_apart_are_spaced_before_they_are_transposed(dtype: Any) -> None:
    x = numbers(3, 16, 8, 8).astype(dtype)
    found = with_spaced_rows(x)

    np.testing.assert_array_equal(found, x)
    assert found.strides[0] % 1024
    odd = numbers(3, 5, 7, 7)
    assert with_spaced_rows(odd) is odd


@pytest.mark.parametrize(
    ("filters", "options"),
    [
        ((4, 1, 3, 2), {"groups": 4, "padding": "same", "dilation": (1, 2)}),
        ((2, 2, 2, 3), {"groups": 2, "padding": (1, 0)}),
        ((1, 4, 3, 3), {"padding": 2}),
        ((1, 4, 3, 3), {"padding": 3}),
        ((4, 1, 3, 3), {"groups": 4, "stride": 2}),
    ],
)
def test_gradients_of_images_are_the_same_by_turned_filters_and_by_sums_over_windows(
    monkeypatch: pytest.MonkeyPatch, filters: tuple[int, ...], options: dict[str, Any]
) -> None:
    x, weight = ag.tensor(numbers(3, 4, 6, 5), requires_grad=True), numbers(*filters)
    grads = []
    for turned in (convolution._turned_window, lambda *_: None):
        monkeypatch.setattr(convolution, "_turned_window", turned)
        y = nn.conv2d(x, weight, **options)
        grads.append(sync.grad(y, [x], [ag.tensor(numbers(*y.shape))])[0].numpy())

    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-12, atol=1e-14)
