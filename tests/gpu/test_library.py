"""What a GPU computes by functions of our own, in the place of CuPy's, is what NumPy computes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.core.arrays.device_functions import own_function
from asyncgrad.core.arrays.values import add_into

TOLERANCES = {"f": 1e-4, "d": 1e-11}
SHAPES = [
    (3,),
    (5000,),
    (4, 5),
    (300, 1000),
    (1000, 300),
    (2, 3, 4),
    (33, 65, 17),
    (1, 7, 1),
    (0, 3),
    (3, 0),
    (70000, 3),
]


#: Rows, length and columns of two matrices.
SIZES = [(3, 4, 5), (1, 7, 1), (1, 1, 1), (64, 128, 33), (5, 1, 6), (300, 200, 100), (3, 0, 2)]


def axes_of(shape: tuple[int, ...]) -> list[Any]:
    """Return axes to reduce over: all, each, neighbours, and such that are no neighbours."""
    ndim = len(shape)
    several = itertools.chain.from_iterable(itertools.combinations(range(ndim), count) for count in range(1, ndim + 1))
    return [None, *range(-ndim, ndim), *several]


def drawn(*shape: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def close(found: Any, right: np.ndarray) -> bool:
    array = found.get()
    tolerance = TOLERANCES[right.dtype.char]
    size = float(np.max(np.abs(right), initial=1.0))
    return (array.dtype, array.shape) == (right.dtype, right.shape) and np.allclose(
        array, right, rtol=tolerance, atol=tolerance * size * 10
    )


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_means_over_all_choices_of_axes(cupy, gpu, shape, dtype):
    array = drawn(*shape, dtype=dtype)
    there = cupy.asarray(array)
    for axis, keepdims in itertools.product(axes_of(shape), (False, True)):
        found = own_function(np.sum, there)(there, axis=axis, keepdims=keepdims)
        assert close(found, array.sum(axis=axis, keepdims=keepdims)), ("sum", axis, keepdims)
        if array.size:
            found = own_function(np.mean, there)(there, axis=axis, keepdims=keepdims)
            assert close(found, array.mean(axis=axis, keepdims=keepdims)), ("mean", axis, keepdims)


def laid(cupy: Any, array: np.ndarray, order: str) -> Any:
    """Return an array on the GPU in rows, in columns, or with gaps."""
    there = cupy.asarray(array)
    if order == "columns":
        return cupy.ascontiguousarray(there.T).T
    return cupy.repeat(there, 2, axis=1)[:, ::2] if order == "gaps" else there


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize(
    "sizes", [(3, 4, 5), (1, 7, 1), (1, 1, 1), (64, 128, 33), (5, 1, 6), (300, 200, 100), (3, 0, 2)]
)
def test_products_of_matrices_in_every_order_of_memory(cupy, gpu, sizes, dtype):
    rows, length, columns = sizes
    x, y = drawn(rows, length, dtype=dtype), drawn(length, columns, dtype=dtype)
    for first, second in itertools.product(("rows", "columns", "gaps"), repeat=2):
        there = laid(cupy, x, first)
        found = own_function(np.matmul, there)(there, laid(cupy, y, second))
        assert close(found, x @ y), (first, second)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("transposed", [*itertools.product((False, True), repeat=2)])
def test_products_of_stacks_in_every_order_of_memory(cupy, gpu, transposed, dtype):
    x, y = drawn(2, 3, 70, 33, dtype=dtype), drawn(2, 3, 33, 65, dtype=dtype)
    right = 0.5 * (x @ y)
    x, y = (
        one.swapaxes(-1, -2).copy() if is_turned else one for one, is_turned in zip((x, y), transposed, strict=True)
    )
    for first, second in itertools.product([(0, 1, 2, 3), (0, 2, 1, 3), (1, 2, 0, 3), (0, 1, 3, 2)], repeat=2):
        there = [
            cupy.ascontiguousarray(cupy.asarray(one).transpose(axes)).transpose(np.argsort(axes).tolist())
            for one, axes in ((x, first), (y, second))
        ]
        product = own_function("batched_product", there[0])
        assert product is not None
        assert close(product(*there, 0.5, *transposed), right), (first, second)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("shape", [(40,), (3, 40), (2, 5, 40)])
def test_linear_maps_of_any_number_of_axes_with_gelu_and_their_gradients(gpu, shape, dtype):
    x, weight, bias = drawn(*shape, dtype=dtype), drawn(70, 40, dtype=dtype), drawn(70, dtype=dtype)

    def results(device: Any) -> list[Any]:
        leaves = [ag.tensor(one, device=device, requires_grad=True) for one in (x, weight, bias)]
        y = nn.linear(*leaves)
        out = nn.gelu(y) * nn.gelu(y, approximate="tanh")
        (grad,) = ag.sync.grad(out.sum(), leaves[0], create_graph=True)
        ag.sync.backward((grad * grad).sum())
        return [one.to("cpu").numpy() for one in (out.detach(), grad.detach(), *(leaf.grad for leaf in leaves[:2]))]

    for found, right in zip(results(gpu), results("cpu"), strict=True):
        scale = float(np.max(np.abs(right)))
        np.testing.assert_allclose(found, right, rtol=TOLERANCES[dtype] * 10, atol=TOLERANCES[dtype] * 10 * scale)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("heads", [1, 4])
def test_heads_that_are_unpacked_from_one_array_have_the_gradients_of_the_cpu(gpu, heads, dtype):
    x = drawn(3, 33, 3 * heads * 16, dtype=dtype)

    def results(device: Any, x: Any) -> list[Any]:
        leaf = ag.tensor(x, device=device, requires_grad=True)
        q, k, v = leaf.reshape(3, 33, 3, heads, 16).transpose(2, 0, 3, 1, 4)
        out = nn.scaled_dot_product_attention(q, k, v).transpose(0, 2, 1, 3).reshape(3, 33, heads * 16)
        ag.sync.backward((out * out).sum())
        return [one.to("cpu").numpy() for one in (out.detach(), leaf.grad)]

    # Again with other numbers in arrays that the pool has given before, whose matrices' addresses are kept.
    for factor in (1, 0.5, -1, 2):
        for found, right in zip(results(gpu, factor * x), results("cpu", factor * x), strict=True):
            scale = float(np.max(np.abs(right)))
            np.testing.assert_allclose(found, right, rtol=TOLERANCES[dtype] * 10, atol=TOLERANCES[dtype] * 10 * scale)


def test_a_product_of_matrices_that_do_not_fit_raises_as_that_of_cupy(cupy, gpu):
    x = cupy.ones((2, 3), "f")

    with pytest.raises(ValueError, match="mismatch"):
        own_function(np.matmul, x)(x, x)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("length", [1, 31, 33, 100, 1000, 5000])
@pytest.mark.parametrize(
    "function", [nn.softmax, nn.log_softmax, nn.layer_norm], ids=lambda function: function.__name__
)
def test_functions_of_rows_of_any_length_and_their_gradients(gpu, function, length, dtype):
    x, g = drawn(7, length, dtype=dtype) * 3, drawn(7, length, dtype=dtype)
    weight, bias = drawn(length, dtype=dtype), drawn(length, dtype=dtype) + 1

    def results(device: Any) -> list[Any]:
        leaves = [ag.tensor(one, device=device, requires_grad=True) for one in (x, weight, bias)]
        y = nn.layer_norm(leaves[0], length, *leaves[1:]) if function is nn.layer_norm else function(leaves[0])
        ag.sync.backward(y, ag.tensor(g, device=device))
        return [one.to("cpu").numpy() for one in (y, *(leaf.grad for leaf in leaves if leaf.grad is not None))]

    for found, right in zip(results(gpu), results("cpu"), strict=True):
        scale = float(np.max(np.abs(right)))
        np.testing.assert_allclose(found, right, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * 10 * scale)


def test_softmax_of_a_row_of_minus_infinities_is_nan_and_infinities_do_not_overflow(gpu):
    x = np.array([[-np.inf, -np.inf], [1e30, 1.0], [np.nan, 1.0]], np.float32)
    with np.errstate(invalid="ignore"):
        right = nn.softmax(x)

    np.testing.assert_array_equal(nn.softmax(ag.tensor(x, device=gpu)).to("cpu").numpy(), right)


@pytest.mark.parametrize("dtype", ["?", "e", "f", "d", "D"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_arrays_are_laid_side_by_side_as_by_numpy(cupy, gpu, count, axis, dtype):
    arrays = [np.arange(12).reshape(3, 4).astype(dtype) + nr for nr in range(count)]
    there = [cupy.asarray(one) for one in arrays]

    found = own_function(np.concatenate, there[0])(there, axis)

    np.testing.assert_array_equal(found.get(), np.concatenate(arrays, axis), strict=True)


@pytest.mark.parametrize("dtype", ["i", "f", "d", "D"])
@pytest.mark.parametrize("shape", [(3, 5), (5,), (1, 5), ()])
def test_an_array_is_added_into_another(cupy, gpu, shape, dtype):
    total, value = np.arange(15).reshape(3, 5).astype(dtype), np.full(shape, 3, dtype)
    there = cupy.asarray(total)

    assert add_into(there, cupy.asarray(value)) is there

    np.testing.assert_array_equal(there.get(), total + value, strict=True)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("steps", [1, 5])
def test_a_recurrent_network_has_the_gradients_that_it_has_on_the_cpu(gpu, steps, dtype):
    x, w, bias = drawn(steps, 3, 4, dtype=dtype), drawn(16, 4, dtype=dtype), drawn(16, dtype=dtype)

    def results(device: Any) -> list[Any]:
        sequence, *leaves = (ag.tensor(one, device=device, requires_grad=True) for one in (x, w, bias))
        h = c = ag.tensor(np.zeros((3, 4), dtype), device=device)
        for one in sequence:
            i, f, g, o = np.split(nn.linear(one, *leaves) + nn.linear(h, leaves[0]), 4, axis=1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * nn.tanh(g)
            h = nn.sigmoid(o) * nn.tanh(c)
        ag.sync.backward(h.sum())
        return [one.to("cpu").numpy() for one in (h, *(leaf.grad for leaf in (sequence, *leaves)))]

    for found, right in zip(results(gpu), results("cpu"), strict=True):
        np.testing.assert_allclose(found, right, rtol=TOLERANCES[dtype] * 10, atol=TOLERANCES[dtype])
