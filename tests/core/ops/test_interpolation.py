"""Quantiles, piecewise linear functions and slopes: in every shape NumPy's, and refused where there is no rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.core.ops.finite_differences import Case, check_derivatives
from tests.support.versions import needs_numpy

#: NumPy without its type hints, which know of no Tensor.
numpy: Any = np


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (2, 0)])
@pytest.mark.parametrize("share", [0, 0.3, 1.0, [0.2], [[0.0, 0.5], [0.75, 1.0]]])
def test_a_quantile_is_numpys_in_every_shape(share: Any, axis: Any, keepdims: bool) -> None:
    x = np.random.default_rng(1).normal(size=(3, 4, 2))

    actual = np.quantile(ag.tensor(x), share, axis, keepdims=keepdims)

    expected = np.quantile(x, share, axis, keepdims=keepdims)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-14)


METHODS = (
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull"),
    *("linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest"),
)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("length", [1, 2, 5, 6])
def test_a_quantile_by_any_method_has_numpys_value_and_the_derivative_of_differences(length: int, method: Any) -> None:
    x = np.random.default_rng(length).normal(size=(length, 2))
    shares = np.array([0.0, 0.1, 0.25, 0.5, 0.7, 1.0])

    found = np.quantile(ag.tensor(x), shares, 0, method=method)

    np.testing.assert_allclose(found.numpy(), np.quantile(x, shares, 0, method=method), rtol=1e-13)
    assert np.nanpercentile(ag.tensor(x), 30.0, method=method).shape == ()
    check_derivatives(lambda x: np.quantile(x, shares, 0, method=method), Case((x,)))


def test_a_quantile_of_whole_numbers_has_numpys_dtype() -> None:
    x = np.array([3, 1, 2])
    for method in METHODS:
        found, expected = (numpy.quantile(each, 0.4, method=method) for each in (ag.tensor(x), x))
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())
    with pytest.raises(ValueError, match="what"):
        numpy.quantile(ag.tensor([1.0]), 0.5, method="what")


@pytest.mark.parametrize("right", [None, 9.0])
def test_interp_has_the_slope_of_its_lines_at_both_ends(right: float | None) -> None:
    x = ag.tensor([-1.0, 0.0, 1.0, 3.0, 4.0], requires_grad=True)
    xp = ag.tensor([0.0, 1.0, 3.0], requires_grad=True)
    fp = ag.tensor([1.0, 3.0, 0.3], requires_grad=True)

    result: Any = np.interp(x, xp, fp, right=right)
    by_x, by_xp, by_fp = sync.grad(result[3:4].sum() + result[1:2].sum(), [x, xp, fp])

    np.testing.assert_array_equal(result.numpy(), np.interp(x.numpy(), xp.numpy(), fp.numpy(), right=right))
    np.testing.assert_allclose(by_x.numpy(), [0, 2, 0, -1.35, 0], rtol=1e-15)
    np.testing.assert_allclose(by_xp.numpy(), [-2, 0, 1.35], rtol=1e-15)
    np.testing.assert_allclose(by_fp.numpy(), [1, 0, 1], atol=1e-15)


def test_interp_at_a_last_point_that_is_there_twice_is_the_last_value() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)

    with np.errstate(all="ignore"):
        result = np.interp(x, [0.0, 2.0, 2.0], [0.0, 1.0, 5.0])

    assert result.tolist() == [0.5, 5.0]


@pytest.mark.parametrize("period", [4.0, -4.0, 1.7])
def test_interpolation_with_a_period_is_numpys(period: float) -> None:
    x, xp, fp = np.array([-3.1, 0.3, 5.2, 7.9]), np.array([3.3, 0.2, 2.6]), np.array([1.0, -2.0, 5.0])

    found = np.interp(ag.tensor(x), xp, fp, period=period)

    np.testing.assert_allclose(found.numpy(), np.interp(x, xp, fp, period=period), rtol=1e-13)
    check_derivatives(
        lambda x, xp, fp: np.interp(x, xp, fp, left=3.0, period=period), Case((x, xp, fp), differentiate=(0, 1, 2))
    )
    with pytest.raises(ValueError, match="a period that is not 0"):
        np.interp(ag.tensor(x), xp, fp, period=0)


_ORDERED = needs_numpy("2.4", "whose weights are those of the axes in the order that is given")
WEIGHTED = {
    "all": (None, (3, 4)),
    "each line": (0, (3, 4)),
    "one line": (1, (4,)),
    "last axis": (-1, (4,)),
    "both axes": pytest.param((1, 0), (4, 3), marks=_ORDERED),
}


@pytest.mark.slow
@pytest.mark.parametrize(("axis", "shape"), WEIGHTED.values(), ids=WEIGHTED)
@pytest.mark.parametrize("function", [np.quantile, np.percentile, np.nanquantile, np.nanpercentile])
def test_a_weighted_quantile_is_an_element_and_has_its_derivative(function: Any, axis: Any, shape: Any) -> None:
    generator = np.random.default_rng(5)
    x, weights = generator.normal(size=(3, 4)), generator.integers(1, 5, shape) + 0.5
    shares = np.array([0.0, 0.3, 0.7]) * (100 if "percentile" in function.__name__ else 1)

    # NumPy's own nanquantile fails to spread weights over lines.
    plain = np.percentile if "percentile" in function.__name__ else np.quantile

    def weighted(x: Any, **more: Any) -> Any:
        called = function if isinstance(x, ag.Tensor) else plain
        return called(x, shares, axis, weights=weights, method="inverted_cdf", **more)

    expected = plain(x, shares, axis, weights=weights, method="inverted_cdf")
    np.testing.assert_array_equal(weighted(ag.tensor(x)).numpy(), expected)
    kept = plain(x, shares, axis, weights=weights, method="inverted_cdf", keepdims=True)
    assert weighted(ag.tensor(x), keepdims=True).shape == kept.shape
    check_derivatives(weighted, Case((x,)))


def test_weights_of_a_quantile_follow_nans_and_are_checked_as_by_numpy() -> None:
    x = np.array([[1.0, np.nan, 3.0, 2.0], [np.nan, 5.0, 4.0, 6.0]])
    weights = np.array([1.0, 2.0, 4.0, 1.0])
    options = {"axis": 1, "weights": weights, "method": "inverted_cdf"}

    for function in (numpy.quantile, numpy.nanquantile):
        found = function(ag.tensor(x), [0.2, 0.6], **options)
        spread = {**options, "weights": np.broadcast_to(weights, x.shape)}
        np.testing.assert_array_equal(found.numpy(), function(x, [0.2, 0.6], **spread))
    t = ag.tensor(x, requires_grad=True)
    sync.backward(numpy.nanquantile(t, 0.6, **options).sum())
    assert t.grad.tolist() == [[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    for wrong, error, message in (
        ({"method": "linear"}, ValueError, "Only method 'inverted_cdf' supports weights"),
        ({"weights": -weights}, ValueError, "non-negative"),
        ({"weights": weights[:2]}, ValueError, "Shape of weights must be consistent"),
        ({"weights": weights[:2], "axis": None}, TypeError, "Axis must be specified"),
    ):
        for numbers in (x, ag.tensor(x)):
            with pytest.raises(error, match=message):
                numpy.quantile(numbers, 0.5, **{**options, **wrong})


@pytest.mark.parametrize("method", ["lower", "higher", "nearest", "closest_observation", "hazen", "midpoint"])
def test_a_quantile_by_any_method_passes_over_nans_as_numpys(method: Any) -> None:
    x = np.array([[1.0, np.nan, 3.5, 2.0, 0.0], [np.nan, 5.0, 4.0, 7.0, 6.5]], np.float32)

    found = np.nanquantile(ag.tensor(x), [0.2, 0.6], 1, method=method)

    expected = np.nanquantile(x, [0.2, 0.6], 1, method=method)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert found.dtype == expected.dtype
    line = np.array([1.0, 3.5, 2.0, 0.0])
    check_derivatives(lambda x: np.nanquantile(np.append(x, np.nan), 0.55, method=method), Case((line,)))


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.quantile(t, 1.5),
        lambda t: np.percentile(t, -1),
        lambda t: np.interp(t, [], []),
        lambda t: np.interp(t, [1.0, 2.0], [1.0]),
        lambda t: numpy.gradient(t, edge_order=3),
        lambda t: np.gradient(t, [1.0, 2.0]),
        lambda t: np.gradient(t[:1]),
        lambda t: np.gradient(t[:2], edge_order=2),
        lambda t: np.diff(t, -1),
        lambda t: np.diff(t[0]),
        lambda t: np.convolve(t, []),
        lambda t: numpy.convolve(t, t, "half"),
        lambda t: np.correlate(t, t[:0]),
    ],
)
def test_what_numpy_refuses_is_refused(call: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        call(np.arange(3.0))
    with pytest.raises(ValueError, match=r".+"):
        call(ag.tensor(np.arange(3.0)))


def test_slopes_along_several_axes_come_one_by_one() -> None:
    x = np.arange(12.0).reshape(3, 4) ** 2
    tensor = ag.tensor(x, requires_grad=True)

    slopes = np.gradient(tensor, 0.5, [0.0, 1.0, 3.0, 4.0])

    for have, want in zip(slopes, np.gradient(x, 0.5, [0.0, 1.0, 3.0, 4.0]), strict=True):
        assert isinstance(have, ag.Tensor)
        np.testing.assert_allclose(have.detach(), want, rtol=1e-14)
    with pytest.raises(TypeError, match="2 axes"):
        np.gradient(tensor, 1.0, 2.0, 3.0)


def test_a_point_of_interpolation_gets_the_slope_and_a_value_its_weight() -> None:
    x = ag.tensor([0.5, 3.0], requires_grad=True)
    values = ag.tensor([0.0, 4.0, 2.0], requires_grad=True)

    grads = sync.grad(np.interp(x, [0.0, 2.0, 4.0], values).sum(), [x, values])

    assert [grad.tolist() for grad in grads] == [[2, -1], [0.75, 0.75, 0.5]]


@pytest.mark.parametrize(
    ("function", "method"),
    [
        (np.quantile, "linear"),
        (np.nanquantile, "linear"),
        (np.percentile, "hazen"),
        (np.nanpercentile, "weibull"),
        (np.quantile, "interpolated_inverted_cdf"),
        (np.quantile, "median_unbiased"),
        (np.nanquantile, "normal_unbiased"),
    ],
)
def test_a_quantile_has_a_derivative_by_its_share(function: Any, method: str) -> None:
    x = np.array([[0.3, 1.2, -0.7, 2.1], [1.0, 5.0, 2.0, 2.5]])
    shares = np.array([[0.1, 0.45], [0.72, 0.55]]) * (100 if "percentile" in function.__name__ else 1)

    check_derivatives(lambda x, q: function(x, q, 1, method=method), Case((x, shares), differentiate=(0, 1)))
    check_derivatives(lambda q: function(x, q, method=method), Case((shares,)))


@pytest.mark.parametrize("method", ["lower", "midpoint", "averaged_inverted_cdf"])
def test_a_quantile_that_is_constant_beside_a_share_has_no_history(method: str) -> None:
    quantile = np.quantile(np.arange(5.0), ag.tensor([0.3, 0.6], requires_grad=True), method=method)

    assert isinstance(quantile, ag.Tensor)
    assert not quantile.requires_grad


@pytest.mark.parametrize("share", [np.float32(0.5), 1, np.array([0.25], np.float32)])
@pytest.mark.parametrize("dtype", ["?", "int8", "int64"])
def test_quantiles_of_whole_numbers_have_the_dtype_of_numpys(dtype: str, share: Any) -> None:
    array = np.arange(5).astype(dtype)
    if dtype == "?" and not isinstance(share, int):
        with pytest.raises(TypeError, match="takes a real array"):
            np.quantile(ag.tensor(array), share)
        return

    found, expected = np.quantile(ag.tensor(array), share), np.quantile(array, share)

    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


def test_numbers_of_numpys_own_decide_about_dtypes_and_whole_coordinates_do_not_wrap_around() -> None:
    narrow, far = np.arange(5, dtype=np.float32), np.array([100, -100], np.int8)
    for share in (0.5, np.float64(0.5)):
        assert np.quantile(ag.tensor(narrow), share).dtype == np.quantile(narrow, share).dtype
    assert numpy.gradient(ag.tensor([1.0, 2.0]), far).tolist() == np.gradient([1.0, 2.0], far).tolist()


def test_bounds_and_modes_are_taken_in_numpys_forms() -> None:
    a, whole = ag.tensor([0.0, 1.0, 4.0]), np.convolve([0.0, 1.0, 4.0], [1.0, 2.0])
    assert numpy.convolve(a, [1.0, 2.0], 2).tolist() == whole.tolist()
    assert numpy.clip(a, max=2.0).tolist() == [0.0, 1.0, 2.0]
    assert numpy.vecdot(a, a, axis=0, keepdims=False).item() == 17.0
    for call in (lambda: numpy.clip(a, 2.0), lambda: numpy.clip(a, a_max=2.0), lambda: numpy.convolve(a, a, None)):
        with pytest.raises(TypeError):
            call()
