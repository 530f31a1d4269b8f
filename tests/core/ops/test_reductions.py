"""Reductions where derivatives are a matter of agreement (ties, zeros, nans), and what they must not cost."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import InPlaceError


def derivatives(function: Callable[..., Any], x: np.ndarray, g: Any, order: int) -> list[np.ndarray]:
    """Return gradient, gradient of the gradient's sum of squares, and so on up to an order."""
    point = ag.tensor(x, requires_grad=True)
    out = function(point)
    found = []
    (grad,) = sync.grad(out, [point], [np.broadcast_to(g, out.shape)], create_graph=True)
    found.append(grad.numpy())
    for _ in range(order - 1):
        if grad.requires_grad:
            (grad,) = sync.grad((grad * grad).sum(), [point], create_graph=True, materialize_grads=True)
        else:
            grad = grad * 0
        found.append(grad.numpy())
    return found


def torch_derivatives(function: Callable[..., Any], x: np.ndarray, g: Any, order: int) -> list[np.ndarray]:
    """Return what PyTorch finds the same to be."""
    torch = pytest.importorskip("torch")
    point = torch.tensor(x, requires_grad=True)
    out = function(point)
    found = []
    (grad,) = torch.autograd.grad(out, [point], [torch.tensor(g).expand(out.shape)], create_graph=True)
    found.append(grad.detach().numpy())
    for _ in range(order - 1):
        if grad.requires_grad:
            (grad,) = torch.autograd.grad((grad * grad).sum(), [point], create_graph=True, materialize_grads=True)
        else:
            grad = grad * 0
        found.append(grad.detach().numpy())
    return found


def assert_alike(
    ours: Callable[..., Any], torchs: Callable[..., Any], x: np.ndarray, g: Any = 1.0, order: int = 2
) -> None:
    for have, want in zip(derivatives(ours, x, g, order), torch_derivatives(torchs, x, g, order), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12)


TIES = np.array([[1.0, 3.0, 3.0], [3.0, -1.0, 0.0], [3.0, 3.0, 3.0]])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, -1, (0, 1), None])
@pytest.mark.parametrize("name", ["max", "min"])
def test_equal_extremes_share_the_gradient_evenly(name: str, axis: Any, keepdims: bool) -> None:
    x = TIES if name == "max" else -TIES

    (grad,) = derivatives(lambda t: getattr(np, name)(t, axis=axis, keepdims=keepdims), x, 6.0, 1)

    extreme = getattr(np, name)(x, axis=axis, keepdims=True)
    chosen = x == extreme
    np.testing.assert_allclose(grad, 6.0 * chosen / chosen.sum(axis, keepdims=True))


@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_extremes_have_the_derivatives_of_pytorchs_amax(name: str, axis: Any) -> None:
    def torchs(t: Any) -> Any:
        return getattr(t * t, name)(axis)

    assert_alike(lambda t: getattr(np, name)(t * t, axis), torchs, TIES, 2.0)


def test_the_gradient_of_an_extreme_that_is_nan_goes_to_the_nans() -> None:
    x = np.array([[1.0, np.nan, np.nan], [1.0, 2.0, 0.0]])

    (grad,) = derivatives(lambda t: t.max(axis=1), x, 1.0, 1)

    np.testing.assert_array_equal(grad, [[0, 0.5, 0.5], [0, 1, 0]])


ZEROS = {
    "none": np.array([[1.5, -2.0, 0.5, 3.0]]),
    "one": np.array([[1.5, 0.0, 0.5, 3.0]]),
    "two": np.array([[0.0, -2.0, 0.0, 3.0]]),
    "three": np.array([[0.0, 0.0, 0.5, 0.0]]),
    "mixed": np.array([[0.0, 1.0, 2.0, 3.0], [1.0, 0.0, 4.0, 0.0], [1.0, 2.0, -1.0, 0.5]]),
}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("zeros", ZEROS)
def test_a_product_with_zeros_has_derivatives_of_any_order(zeros: str, axis: int, keepdims: Any) -> None:
    def ours(t: Any) -> Any:
        return np.prod(t, axis=axis, keepdims=keepdims)

    assert_alike(ours, lambda t: t.prod(axis, keepdim=keepdims), ZEROS[zeros], 1.5, 3)


@pytest.mark.parametrize("function", [np.prod, np.nanprod, np.multiply.reduce])
@pytest.mark.parametrize(
    ("factors", "others"),
    [
        ([1e-200, 3e-200], [3e-200, 1e-200]),
        ([1e-150, 1e-170], [1e-170, 1e-150]),
        ([1e200, -3e200], [-3e200, 1e200]),
        ([np.inf, 2.0, 3.0], [6.0, np.inf, np.inf]),
        ([1e-200j, 3e-200], [3e-200, -1e-200j]),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered")  # the products themselves
def test_a_product_beyond_the_range_of_its_dtype_has_the_product_of_the_others_as_gradient(
    factors: list[Any], others: list[Any], function: Callable[..., Any]
) -> None:
    x = ag.tensor(factors, requires_grad=True)
    result = function(x)
    (grad,) = ag.sync.grad(result, [x], np.ones((), result.dtype))

    assert grad.tolist() == others


@pytest.mark.parametrize("zeros", ZEROS)
def test_a_product_over_several_axes_is_one_over_all_their_elements(zeros: str) -> None:
    x = ZEROS[zeros].reshape(-1, 2, 2)

    assert_alike(lambda t: np.prod(t, axis=(2, 0)), lambda t: t.permute(1, 0, 2).reshape(2, -1).prod(1), x, 1.5, 3)
    assert_alike(np.prod, lambda t: t.prod(), x, 1.5, 3)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("zeros", ZEROS)
def test_a_running_product_with_zeros_has_derivatives_of_any_order(zeros: str, axis: int) -> None:
    assert_alike(lambda t: np.cumprod(t, axis=axis), lambda t: t.cumprod(axis), ZEROS[zeros], 1.5, 3)


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("name", ["var", "std"])
def test_a_spread_of_zero_has_gradient_zero(name: str, ddof: int) -> None:
    x = np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]])

    assert_alike(
        lambda t: getattr(np, name)(t, axis=1, ddof=ddof), lambda t: getattr(t, name)(1, correction=ddof), x, 1.0
    )


@pytest.mark.parametrize(
    "function", [np.nanstd, lambda t: np.std(t, where=[True, False, True]), lambda t: np.std(t, mean=2.0)]
)
def test_a_standard_deviation_of_zero_has_gradient_zero_however_it_is_asked_for(function: Any) -> None:
    x = ag.tensor(np.full((2, 3), 2.0, np.float32), requires_grad=True)

    result = function(x)
    sync.backward(result)

    assert result.item() == 0
    assert (result.dtype, x.grad.dtype, x.grad.tolist()) == (np.float32, np.float32, [[0.0] * 3] * 2)


def test_a_variance_without_degrees_of_freedom_is_nan_and_so_is_its_gradient() -> None:
    x = ag.tensor([[2.0]], requires_grad=True)
    with pytest.warns(RuntimeWarning):
        out = np.var(x, axis=1, ddof=1)
    with pytest.warns(RuntimeWarning):
        (grad,) = sync.grad(out, [x], [np.ones(1)])

    assert np.isnan(grad.item())


# Nothing to reduce.


@pytest.mark.parametrize("function", [np.sum, np.prod, np.cumsum, np.cumprod, np.nansum, np.linalg.norm])
def test_a_reduction_of_nothing_has_a_gradient_of_nothing(function: Any) -> None:
    x = ag.tensor(np.zeros((0,)), requires_grad=True)
    out = function(x)

    (grad,) = sync.grad(out, [x], [np.ones(out.shape)])

    assert grad.shape == (0,)


@pytest.mark.parametrize("function", [np.max, np.min])
def test_an_extreme_of_nothing_raises_as_numpys_does(function: Any) -> None:
    with pytest.raises(ValueError, match="zero-size"):
        function(ag.tensor(np.zeros((0,))))


# Arguments.


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_what_a_reduction_starts_from_gets_a_gradient_too(name: str) -> None:
    x = ag.tensor([1.0, 2.0, 4.0], requires_grad=True)
    start = ag.tensor(3.0 if name != "max" else 5.0, requires_grad=True)

    out = getattr(np, name)(x, initial=start)
    grads = sync.grad(out, [x, start])

    expected = {
        "sum": ([1, 1, 1], 1),
        "prod": ([24, 12, 6], 8),
        "max": ([0, 0, 0], 1),
        "min": ([1, 0, 0], 0),
    }
    assert [grad.tolist() for grad in grads] == list(expected[name])


def test_elements_where_the_mask_does_not_hold_get_no_gradient() -> None:
    x = ag.tensor([[1.0, 2.0, 4.0]], requires_grad=True)
    mask = ag.tensor([True, False, True])

    for name, expected in {"sum": [1, 0, 1], "mean": [0.5, 0, 0.5], "prod": [4, 0, 1]}.items():
        (grad,) = sync.grad(getattr(x, name)(where=mask), [x])

        assert grad.tolist() == [expected]


def test_an_extreme_of_a_selection_needs_something_to_start_from() -> None:
    with pytest.raises(ValueError, match="initial="):
        np.max(ag.tensor([1.0]), where=[True])


@pytest.mark.parametrize("by_position", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "max", "min", "ptp", "median", "cumsum"])
def test_a_reduction_writes_into_out_and_returns_it(name: str, by_position: bool) -> None:
    function = getattr(np, name)
    x = np.array([[1.0, 2.0], [5.0, 3.0]])
    out = ag.tensor(np.zeros(function(x, 0).shape))
    places = {"max": 2, "min": 2, "ptp": 2, "median": 2}

    if by_position:
        result = function(ag.tensor(x), 0, *[None] * (places.get(name, 3) - 2), out)
    else:
        result = function(ag.tensor(x), axis=0, out=out)

    assert result is out
    np.testing.assert_array_equal(out.numpy(), function(x, 0))
    assert out._version == 1


def test_a_reduction_does_not_write_what_has_a_history() -> None:
    with pytest.raises(InPlaceError, match="into an ndarray"):
        np.sum(ag.tensor([1.0], requires_grad=True), out=np.zeros(()))


@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, 5)])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "max", "median", "nansum"])
def test_an_axis_that_is_not_there_raises_as_numpys_does(name: str, axis: Any) -> None:
    function = getattr(np, name)
    with pytest.raises((ValueError, IndexError)) as expected:
        function(np.ones((2, 3)), axis=axis)
    with pytest.raises(expected.type):
        function(ag.tensor(np.ones((2, 3))), axis=axis)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "max", "median", "cumsum", "nansum", "ptp"])
def test_the_dtype_of_a_reduction_is_numpys(name: str, dtype: Any) -> None:
    function = getattr(np, name)
    x = np.array([[1, 0, 1], [1, 1, 0]], dtype)
    if name == "ptp" and dtype is np.bool_:
        pytest.skip("NumPy has no difference of truth values")

    actual, expected = function(ag.tensor(x), axis=1), function(x, axis=1)

    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual.numpy(), expected)


def test_a_sum_in_another_dtype_gives_the_gradient_in_its_own() -> None:
    x = ag.tensor(np.ones(3, np.float32), requires_grad=True)
    out = x.sum(dtype=np.float64)

    (grad,) = sync.grad(out, [x])

    assert out.dtype == np.float64
    assert grad.dtype == np.float32


# Cost.


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_the_gradient_of_a_sum_is_one_number_seen_many_times(name: str, axis: Any, keepdims: bool) -> None:
    x = ag.tensor(np.ones((300, 400)), requires_grad=True)
    node = getattr(np, name)(x, axis=axis, keepdims=keepdims).grad_fn

    (grad,) = node.apply((np.ones(node.shape),))

    assert grad.shape == (300, 400)
    assert all(grad.strides[one] == 0 for one in ([0, 1] if axis is None else np.atleast_1d(axis)))
    assert not grad.flags.writeable


@pytest.mark.parametrize("name", ["sum", "mean", "cumsum"])
def test_a_sum_does_not_keep_its_argument(name: str) -> None:
    x = ag.tensor(np.ones(3), requires_grad=True)
    doubled = 2 * x
    array = weakref.ref(doubled.numpy().base)
    out = getattr(np, name)(doubled)
    del doubled

    assert out.requires_grad
    assert array() is None


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "ptp", "nansum"])
def test_a_reduction_of_one_number_takes_the_axis_that_numpys_takes(name: str, axis: int) -> None:
    function = getattr(np, name)
    x = ag.tensor(1.5, requires_grad=True)

    result = function(x, axis=axis)
    (gradient,) = sync.grad(result, [x])

    np.testing.assert_array_equal(result.numpy(), function(np.array(1.5), axis=axis))
    assert gradient.numpy() == (0.0 if name == "ptp" else 1.0)


@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
def test_a_variance_gives_nothing_to_the_nans_that_it_leaves_out(name: str) -> None:
    x = np.array([[1.0, np.nan, 4.0], [5.0, 7.0, np.nan]])
    t, kept = (ag.tensor(one, requires_grad=True) for one in (x, x[~np.isnan(x)].reshape(2, 2)))

    sync.backward(getattr(np, name)(t, axis=1, ddof=1).sum())

    sync.backward(getattr(np, name)(kept, axis=1, ddof=1).sum())
    np.testing.assert_allclose(t.grad.numpy()[~np.isnan(x)], kept.grad.numpy().ravel(), rtol=1e-14)
    assert t.grad.numpy()[np.isnan(x)].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("function", [np.nanstd, np.nanvar])
def test_lines_with_too_few_elements_leave_the_gradients_of_others(function: Callable[..., Any]) -> None:
    t = ag.tensor([[1.0, np.nan, 3.0], [2.0, np.nan, np.nan]], requires_grad=True)

    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        found = function(t, axis=1, ddof=1)
    (grad,) = sync.grad(found[0], t)

    assert grad[1].tolist() == [0.0, 0.0, 0.0]
    assert np.isfinite(grad.numpy()).all()
    assert grad[0, 2].item() > 0


def test_a_standard_deviation_is_not_cast_to_whole_numbers() -> None:
    t = ag.tensor(np.arange(6.0).reshape(2, 3))

    with pytest.raises(TypeError, match="same_kind"):
        t.std(out=np.zeros((), int))
    assert t.var(out=np.zeros((), int)).item() == 2
