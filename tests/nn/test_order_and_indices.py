"""The largest elements, running extremes, and reductions by indices: ties, NaNs, edges, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, IndexRangeError

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "prod": np.prod,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
}


def grads_of(function: Callable[..., Any], *arrays: Any) -> list[list[float]]:
    leaves = [ag.tensor(array, requires_grad=True) for array in arrays]
    return [grad.tolist() for grad in sync.grad(function(*leaves).sum(), leaves)]


@pytest.mark.parametrize("largest", [True, False])
def test_the_first_of_equal_elements_comes_first(largest: bool) -> None:
    x = np.array([2.0, 1.0, 2.0, 1.0, 2.0, 1.0])

    assert nn.topk(x, 2, largest=largest).indices.tolist() == ([0, 2] if largest else [1, 3])


def test_nan_is_larger_than_any_number() -> None:
    x = np.array([1.0, np.nan, np.inf])

    assert nn.topk(x, 3).indices.tolist() == [1, 2, 0]
    assert nn.topk(x, 3, largest=False).indices.tolist() == [0, 2, 1]
    assert nn.kthvalue(x, 2).values == np.inf


def test_the_sorted_elements_are_those_of_numpy_along_each_axis() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    for axis in (-3, -2, -1, 0, 1, 2):
        order = np.sort(x, axis)

        np.testing.assert_array_equal(nn.topk(x, x.shape[axis], axis).values, np.flip(order, axis))
        np.testing.assert_array_equal(nn.kthvalue(x, 2, axis).values, order.take(1, axis))
        np.testing.assert_array_equal(nn.cummax(x, axis).values, np.maximum.accumulate(x, axis))
        np.testing.assert_array_equal(nn.cummin(x, axis).values, np.minimum.accumulate(x, axis))


def test_the_last_of_equal_running_extremes_and_a_nan_get_the_gradient() -> None:
    assert grads_of(lambda x: nn.cummax(x, 0).values, [2.0, 3.0, 3.0, 1.0]) == [[1.0, 1.0, 2.0, 0.0]]
    assert grads_of(lambda x: nn.cummin(x, 0).values, [2.0, np.nan, 1.0]) == [[1.0, 2.0, 0.0]]


def test_whole_numbers_and_truth_values_have_indices_too() -> None:
    assert nn.topk(np.array([3, 9, 4], np.uint8), 2).values.tolist() == [9, 4]
    assert nn.cummax(np.array([False, True, False]), 0).indices.tolist() == [0, 1, 1]


def test_an_array_without_elements_along_another_axis_has_none() -> None:
    assert nn.topk(np.zeros((0, 3)), 2).indices.shape == (0, 2)
    assert nn.cummax(np.zeros((0, 3)), 1).values.shape == (0, 3)
    assert nn.cummin(np.zeros((3, 0)), 1).values.shape == (3, 0)
    assert nn.topk(np.zeros(3), 0).values.shape == (0,)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_each_element_is_the_reduction_of_what_goes_there(reduce: str, include_self: bool) -> None:
    rng = np.random.default_rng(1)
    target, src = rng.standard_normal((4, 3)), rng.standard_normal((6, 3))
    index = rng.integers(0, 4, (5, 2))
    found = nn.scatter_reduce(target, 0, index, src, reduce, include_self=include_self)
    expected = target.copy()
    for row, column in np.ndindex(4, 2):
        members = src[:5, column][index[:, column] == row]
        if len(members):
            own = [target[row, column]] if include_self else []
            expected[row, column] = REDUCTIONS[reduce]([*own, *members])

    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_product_of_zeros_has_the_derivatives_of_the_product() -> None:
    def product(src: Any) -> Any:
        return nn.scatter_reduce(np.ones(2), 0, np.array([0, 0, 0, 1]), src, "prod")

    assert grads_of(product, [0.0, 2.0, 3.0, 0.0]) == [[6.0, 0.0, 0.0, 1.0]]
    assert grads_of(product, [0.0, 0.0, 3.0, 5.0]) == [[0.0, 0.0, 0.0, 1.0]]
    x = ag.tensor([0.0, 2.0, 3.0, 0.0], requires_grad=True)
    (first,) = sync.grad(product(x).sum(), [x], create_graph=True)
    assert sync.grad(first[1], [x])[0].tolist() == [3.0, 0.0, 0.0, 0.0]


def test_equal_extremes_share_the_gradient_and_one_that_is_replaced_has_none() -> None:
    index = np.array([0, 0])

    def largest(include_self: bool) -> Callable[..., Any]:
        return lambda x, src: nn.scatter_reduce(x, 0, index, src, "amax", include_self=include_self)

    assert grads_of(largest(True), [4.0, 1.0], [4.0, 4.0]) == [[1 / 3, 1.0], [1 / 3, 1 / 3]]
    assert grads_of(largest(False), [4.0, 1.0], [4.0, 4.0]) == [[0.0, 1.0], [0.5, 0.5]]


def test_without_indices_the_input_is_returned() -> None:
    x = np.arange(3.0)

    for reduce in REDUCTIONS:
        none = nn.scatter_reduce(x, 0, np.zeros(0, int), np.zeros(0), reduce, include_self=False)
        assert none.tolist() == [0.0, 1.0, 2.0]


def test_whole_numbers_beside_float32_are_cast_to_it() -> None:
    found = nn.scatter_reduce(np.zeros(2, np.float32), 0, np.array([1, 1]), np.array([1, 2]), "sum")

    assert (found.dtype, found.tolist()) == (np.float32, [0.0, 3.0])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.topk(np.ones(3), 4), IndexRangeError, "3 elements takes a k from 0 to 3, not 4"),
        (lambda: nn.topk(np.ones(3), -1), IndexRangeError, "not -1"),
        (lambda: nn.topk(np.ones(3), 1.5), ArgumentTypeError, "k must be"),
        (lambda: nn.topk(np.ones(3), 1, 1), IndexRangeError, "an axis from -1 to 0, not 1"),
        (lambda: nn.topk(np.ones(3), 1, largest=2), ArgumentTypeError, "largest"),
        (lambda: nn.kthvalue(np.ones(3), 0), IndexRangeError, "from 1 to 3, not 0"),
        (lambda: nn.cummax(np.ones(3) * 1j, 0), ArgumentTypeError, "cummax is a function of real numbers"),
        (lambda: nn.cummin(None, 0), ArgumentTypeError, "not None"),
        (lambda: _scattered(reduce="max"), ArgumentError, "one of sum, prod, mean, amax, amin, not 'max'"),
        (lambda: _scattered(index=[0.0, 1.0]), ArgumentTypeError, "takes integers as index, not float64"),
        (lambda: _scattered(index=[0, 3]), IndexRangeError, "got index 3, but axis 0 of input has 3 elements"),
        (lambda: _scattered(index=[-1, 0]), IndexRangeError, "got index -1"),
        (lambda: _scattered(index=[0, 1, 2]), ArgumentError, r"its shape is \(3,\), that of src \(2,\)"),
        (lambda: _scattered(index=[[0]]), ArgumentError, "as many axes as input"),
        (lambda: _scattered(include_self=None), ArgumentTypeError, "include_self"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def _scattered(index: Any = (0, 1), reduce: str = "sum", **options: Any) -> Any:
    return nn.scatter_reduce(np.zeros(3), 0, np.array(index), np.ones(2), reduce, **options)
