"""Quantiles, piecewise linear interpolation, and slopes of sampled functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentTypeError
from ..arrays.axes import (
    array_like,
    axis_tuple,
    in_rows,
    inverse_permutation,
    kept_shape,
    laid_like,
    reduced_axes,
    tensor_like,
)
from ..arrays.device_arrays import placed
from ..arrays.tensor_base import TensorBase
from ..arrays.values import as_like, is_device_array, not_of_dtype, on_host, raw, refuse_complex
from ..recording.primitive import RULES, derivative, primitive
from ..settings.context import GRAD_MODE
from .cumulative import rows
from .dispatch import write
from .indexing import getitem, lines_over, sort, take, take_along_axis
from .nondifferentiable import NonDifferentiable
from .shaping import reshape
from .single_precision import by_single, holds_half

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "PICKING_METHODS",
    "by_precise_shares",
    "fractions_of_percentages",
    "gradient",
    "interp",
    "is_whole",
    "percentile",
    "quantile",
    "quantile_ranks",
    "recorded_fractions",
    "recorded_positions",
    "take_at",
]


#: These give an element, and so the dtype of the array; others are between two elements.
PICKING_METHODS = frozenset({"closest_observation", "higher", "inverted_cdf", "lower", "nearest"})

#: For methods that move along lines between elements: how many more places than elements a share of 1 is.
_EXTRA_PLACES = {
    "linear": -1.0,
    "interpolated_inverted_cdf": 0.0,
    "hazen": 0.0,
    "weibull": 1.0,
    "median_unbiased": 1 / 3,
    "normal_unbiased": 1 / 4,
}


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return the quantile along axes, by linear interpolation between two elements, or as another method has it."""
    a = tensor_like(a, q)
    if holds_half(a):
        options = {"method": method, "keepdims": keepdims, "weights": weights}
        return by_single(by_precise_shares(quantile), np.quantile, a, q, axis, out=out, **options)
    refuse_complex("numpy.quantile, or numpy.percentile,", "a real array", a, "pass a.real")
    if a.dtype.kind in "biu" and (method != "linear" or is_whole(q) or _is_narrow(a, q)):
        # An element as it is, or between two.
        return NonDifferentiable(np.quantile)(a, q, axis, out, overwrite_input, method, keepdims, weights=raw(weights))
    if a.dtype.kind not in "fiu":
        raise ArgumentTypeError(not_of_dtype("numpy.quantile", "a real array", a, "pass a.astype(float)"))
    a = (
        a
        if a.dtype.kind == "f" and a.dtype.isnative
        else a.astype(a.dtype.newbyteorder("=") if a.dtype.kind == "f" else float)
    )
    # A Python number, of which NumPy's own are no kind here, does not change the dtype of the result.
    fractions = np.asarray(q, a.dtype) if type(q) in (int, float) else on_host(raw(q))
    recorded = recorded_fractions(q, method)
    if not ((fractions >= 0) & (fractions <= 1)).all():
        raise ValueError(f"numpy.quantile takes q from 0 to 1 (numpy.percentile from 0 to 100), not the fraction {q}")
    axes = reduced_axes(axis, a.ndim)
    ordered = sort(lines_over(a, axes), 0)
    if weights is not None:
        result = take_at(ordered, quantile_ranks(np.quantile, a, q, axis, method, weights).astype(int))
    else:
        positions = _positions(fractions, ordered.shape[0], method)
        below = np.floor(positions).astype(int)
        result = lower = take(ordered, below, 0)
    if weights is None and method not in PICKING_METHODS:
        above = np.minimum(below + 1, ordered.shape[0] - 1)
        if recorded is not None:
            positions = recorded_positions(positions, recorded, method, ordered.shape[0])
        weight = (positions - below).astype(fractions.dtype).reshape(fractions.shape + (1,) * (ordered.ndim - 1))
        weight = weight if isinstance(weight, TensorBase) else as_like(weight, raw(lower))
        result = lower + (take(ordered, above, 0) - lower) * weight
    has_nan = np.isnan(raw(ordered)[-1])
    if is_device_array(has_nan) or np.any(has_nan):
        result = np.where(has_nan, np.nan, result)
    result = in_rows(result)
    if keepdims:
        result = reshape(result, fractions.shape + kept_shape(a.shape, axes))
    return result if out is None else write(out, result)


RULES[np.quantile] = quantile


def _is_narrow(a: Array, q: Any) -> bool:
    """Tell whether NumPy computes quantiles of whole numbers in single precision, as that of the fractions is."""
    shares = raw(q)
    if a.dtype.kind == "b" or not hasattr(shares, "dtype") or (isinstance(q, TensorBase) and q._requires_grad()):
        return False
    dtype = np.result_type(a.dtype, shares.dtype)
    return dtype.kind == "f" and dtype.itemsize < 8


def is_whole(q: Any) -> bool:
    """Tell whether fractions are whole numbers, 0 and 1, for which quantiles are elements as they are."""
    return np.result_type(raw(q) if hasattr(raw(q), "dtype") else np.asarray(q)).kind in "iu"


def by_precise_shares(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of quantiles that takes a Python number as a share in float64.

    In float32 the place of a quantile among 70,000 elements has two decimals.
    """

    def precise(a: Any, q: Any, *args: Any, **kwargs: Any) -> Any:
        return function(a, np.asarray(q, float) if isinstance(q, (int, float)) else q, *args, **kwargs)

    return precise


def recorded_fractions(q: Any, method: str) -> Any:
    """Return the fractions of quantiles if a gradient is to flow to them, else None: that of many methods is 0."""
    if not isinstance(q, TensorBase) or not GRAD_MODE.get() or not q._requires_grad() or method not in _EXTRA_PLACES:
        return None
    return q


def recorded_positions(positions: Any, fractions: Any, method: str, counts: Any) -> Any:
    """Return positions of quantiles among ordered elements, with the history of the fractions.

    Args:
        positions: their values.
        fractions: with as many axes as the positions have.
        method: of NumPy's.
        counts: how many elements there are.
    """
    slope = counts + _EXTRA_PLACES[method]
    if method != "linear":
        # Before the first element and behind the last one there is no other.
        slope = np.where((positions > 0) & (positions < counts - 1), slope, 0.0)
    return positions + (fractions - raw(fractions)) * slope


def quantile_ranks(
    function: Callable[..., Any], a: Any, q: Any, axis: Any, method: str, weights: Any
) -> np.ndarray[Any, Any]:
    """Return where among the ordered elements of each line the quantiles lie, by NumPy's own choice among the ranks.

    Args:
        function: `np.quantile`, or `np.nanquantile`, which passes over nans.
        a: an array or a tensor.
        q: the fractions.
        axis: the axes of a line.
        method: one of NumPy's.
        weights: of the elements, or None. A quantile is an element, so that it does not vary with them.

    Returns:
        An array of the shape of the quantiles; nan for a line of nans.
    """
    array = on_host(raw(a))
    axes = reduced_axes(axis, array.ndim)
    lines = lines_over(array, axes)
    ranks = np.argsort(np.argsort(lines, 0), 0).astype(float)
    if function is np.nanquantile:
        ranks[np.isnan(lines)] = math.nan
    order = (*axes, *(one for one in range(array.ndim) if one not in axes))
    ranks = ranks.reshape([array.shape[one] for one in order]).transpose(inverse_permutation(order))
    if weights is not None and np.shape(weights) == tuple([array.shape[one] for one in axes]):
        # For each line the same: np.nanquantile fails to spread them over the others.
        sides = [length if one in axes else 1 for one, length in enumerate(array.shape)]
        weights = np.broadcast_to(np.transpose(raw(weights), np.argsort(axes)).reshape(sides), array.shape)
    return np.asarray(function(ranks, raw(q), axis, method=method, weights=raw(weights)))


def take_at(ordered: Any, positions: Array) -> Any:
    """Return the elements of each line, along the first axis, at its own positions; the first for one that is -1."""
    lines = positions.shape[positions.ndim - ordered.ndim + 1 :]
    rows = np.maximum(positions.reshape(-1, *lines), 0)
    return reshape(take_along_axis(ordered, as_like(rows, raw(ordered)), 0), positions.shape)


def fractions_of_percentages(q: Any, dtype: Any, weights: Any = None) -> Any:
    """Return percentages divided by 100, in the dtype that NumPy uses for them with an array of `dtype`."""
    q = q if isinstance(q, TensorBase) and q._requires_grad() else raw(q)
    if weights is not None:
        return np.true_divide(q, 100)
    return np.true_divide(q, dtype.type(100) if dtype.kind == "f" else 100)


def _positions(fractions: Any, length: int, method: str) -> Any:
    """Return where among ordered elements the quantiles lie: the quantiles of the elements' own positions."""
    if method == "linear":
        return fractions * (length - 1)
    return np.quantile(np.arange(float(length)), fractions, method=method)  # type: ignore[call-overload]


def percentile(a: Any, q: Any, *args: Any, weights: Any = None, **kwargs: Any) -> Any:
    """Return the value below which `q` percent of the elements along axes lie."""
    a = tensor_like(a, q)
    if holds_half(a):
        return by_single(by_precise_shares(percentile), np.percentile, a, q, *args, weights=weights, **kwargs)
    return quantile(a, fractions_of_percentages(q, a.dtype, weights), *args, weights=weights, **kwargs)


RULES[np.percentile] = percentile


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Return the values at `x` of the piecewise linear function through the points `(xp, fp)`."""
    # NumPy interpolates in float64 for any dtype; only the values may be complex.
    x, xp, fp = placed(x, xp, fp)
    for name, points in (("x", x), ("xp", xp)):
        refuse_complex("numpy.interp", f"a real {name}", points, f"pass {name}.real")
    x, xp = x.astype(float, copy=False), xp.astype(float, copy=False)
    fp = fp.astype(complex if fp.dtype.kind == "c" else float, copy=False)
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(f"numpy.interp takes xp and fp of one shape (n,), n > 0, not {xp.shape} and {fp.shape}")
    if period is not None:
        (x, xp, fp), left, right = _in_one_period(x, xp, fp, period), None, None
    known = raw(xp)
    beyond = raw(x) >= known[-1]
    if xp.size == 1:
        result = np.broadcast_to(fp, x.shape) if x.ndim else fp[0]
    else:
        start = np.clip(np.searchsorted(known, raw(x), "right") - 1, 0, xp.size - 2)
        # At the last point the line is taken from there, so that the result is fp[-1] exactly and has the slope of the
        # line before it, as at the first point that after it: test_interp_has_the_slope_of_its_lines_at_both_ends.
        anchor = start + (raw(x) == known[-1])
        result = _on_lines(x, xp, fp, start, anchor)
        beyond = beyond & ((raw(x) > known[-1]) | (known[-1] == known[-2]))
    result = np.where(raw(x) < known[0], fp[0] if left is None else left, result)
    return np.where(beyond, _right_of_points(x, xp, fp, right), result)


def _on_lines(x: Any, xp: Any, fp: Any, start: Any, anchor: Any) -> Any:
    """Return the values at `x` on lines that begin at the points `start`, taken from the points `anchor`."""
    rise, width = getitem(fp, start + 1) - getitem(fp, start), getitem(xp, start + 1) - getitem(xp, start)
    result = rise / width * (x - getitem(xp, anchor)) + getitem(fp, anchor)
    is_lost = np.isnan(raw(result)) & ~np.isnan(raw(x))
    if is_device_array(is_lost) or not np.any(is_lost):
        return result
    # Beside a point at infinity, as NumPy: by the other end of the line, or the value of both.
    with np.errstate(invalid="ignore"):
        end = raw(rise) / raw(width) * (raw(x) - raw(xp)[start + 1]) + raw(fp)[start + 1]
    is_end = raw(x) == raw(xp)[start + 1]
    is_start = ~is_end & ((raw(x) == raw(xp)[start]) | (np.isnan(end) & (raw(fp)[start] == raw(fp)[start + 1])))
    other = getitem(fp, np.where(is_start, start, start + 1))
    other = np.where(is_start | is_end, other, np.where(end == raw(other), other, end))
    rise, width = np.where(is_lost, 0.0, rise), np.where(is_lost, 1.0, width)
    offset = np.where(is_lost, 0.0, x - getitem(xp, anchor))
    return np.where(is_lost, other, rise / width * offset + getitem(fp, anchor))


def _in_one_period(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Return all points in one period, in their order, beside the last one before it and the first one after it."""
    if raw(period) == 0:
        raise ValueError("numpy.interp takes a period that is not 0")
    period = np.abs(period)
    x, xp = np.remainder(x, period), np.remainder(xp, period)
    order = np.argsort(raw(xp))
    xp, fp = getitem(xp, order), getitem(fp, order)
    xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, np.concatenate([fp[-1:], fp, fp[:1]])


def _right_of_points(x: Any, xp: Any, fp: Any, right: Any) -> Any:
    return fp[-1] if right is None else np.where(raw(x) > raw(xp)[-1], right, fp[-1])


RULES[np.interp] = interp


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return the slopes of a sampled function along axes: central differences inside, one-sided ones at the ends."""
    f = array_like(f)
    if f.dtype.kind == "b" and f.ndim:
        raise TypeError("numpy.gradient takes an array of numbers, not bool: pass f.astype(float)")
    f = f if f.dtype.kind in "fc" else f.astype(float)
    if varargs and holds_half(f, *varargs):
        return by_single(gradient, np.gradient, f, *varargs, axis=axis, edge_order=edge_order)
    axes = reduced_axes(axis, f.ndim) if axis is None or isinstance(axis, tuple) else axis_tuple(axis, f.ndim)
    if edge_order not in (1, 2):
        raise ValueError(f"numpy.gradient takes edge_order=1 or 2, not {edge_order}")
    spacings = varargs or (1.0,) * len(axes)
    if len(spacings) == 1 and len(axes) != 1 and np.ndim(spacings[0]) == 0:
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise TypeError(
            f"numpy.gradient takes no spacing, one number, or one spacing for each of {len(axes)} axes, "
            f"not {len(spacings)}"
        )
    results = tuple(_slopes(f, one, spacing, edge_order) for one, spacing in zip(axes, spacings, strict=True))
    return results[0] if len(results) == 1 else results


RULES[np.gradient] = gradient


def _slopes(f: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    """Return the slopes along one axis: inside, those of the parabola through each point and its two neighbours."""
    length = f.shape[axis]
    if length < edge_order + 1:
        raise ValueError(
            f"numpy.gradient with edge_order={edge_order} needs {edge_order + 1} elements along an axis, not {length}"
        )
    if f.dtype.kind != "c" and np.iscomplexobj(spacing):
        raise ArgumentTypeError("numpy.gradient of real values takes real spacings: write np.gradient(f + 0j, ...)")
    if isinstance(spacing, (int, float, np.floating)):
        return slopes_(f, axis, float(spacing), edge_order)
    first, second = rows(axis, None, -1), rows(axis, 1, None)
    differences = f[second] - f[first]
    if np.ndim(spacing) == 0:
        differences = differences / spacing
        inside = (differences[first] + differences[second]) / 2
        corrections = inside - differences[first], differences[second] - inside
    else:
        steps = _steps(spacing, axis, f)
        differences = differences / steps
        before, after = steps[first], steps[second]
        inside = (differences[first] * after + differences[second] * before) / (before + after)
        correction = (differences[second] - differences[first]) / (before + after)
        corrections = correction * before, correction * after
    start, end = differences[rows(axis, None, 1)], differences[rows(axis, -1, None)]
    if edge_order == 2:
        start, end = start - corrections[0][rows(axis, None, 1)], end + corrections[1][rows(axis, -1, None)]
    return laid_like(np.concatenate([start, inside, end], axis, dtype=f.dtype), f)


@primitive()
def slopes_(f: Any, axis: int, spacing: float, edge_order: int) -> Array:
    """Return the slopes of evenly sampled values along one axis."""
    result = np.empty_like(f)
    values, slopes = f.swapaxes(axis, 0), result.swapaxes(axis, 0)
    slopes[1:-1] = (values[2:] - values[:-2]) / (2.0 * spacing)
    if edge_order == 1:
        slopes[0], slopes[-1] = (values[1] - values[0]) / spacing, (values[-1] - values[-2]) / spacing
    else:
        outer, middle, inner = 1.5 / spacing, 2.0 / spacing, 0.5 / spacing
        slopes[0] = -outer * values[0] + middle * values[1] - inner * values[2]
        slopes[-1] = inner * values[-3] - middle * values[-2] + outer * values[-1]
    return result


@primitive()
def transposed_slopes_(g: Any, axis: int, spacing: float, edge_order: int) -> Array:
    """Return the product of `g` with the transposed matrix of `slopes_`, which is a linear function."""
    result = np.zeros_like(g)
    rows_of_g, rows_of_result = g.swapaxes(axis, 0) / spacing, result.swapaxes(axis, 0)
    inside = rows_of_g[1:-1] / 2
    rows_of_result[2:] = inside
    rows_of_result[:-2] -= inside
    # The weights of the three values nearest to an end in the slope there.
    for row, weight in enumerate((-1, 1) if edge_order == 1 else (-1.5, 2, -0.5)):
        rows_of_result[row] += weight * rows_of_g[0]
        rows_of_result[-1 - row] -= weight * rows_of_g[-1]
    return result


@derivative(slopes_, "f")
def _(g: Array, axis: int, spacing: float, edge_order: int) -> Array:
    return transposed_slopes_(g, axis, spacing, edge_order)


@derivative(transposed_slopes_, "g")
def _(g: Array, axis: int, spacing: float, edge_order: int) -> Array:
    return slopes_(g, axis, spacing, edge_order)


def _steps(points: Any, axis: int, f: Array) -> Any:
    """Return the distances between coordinates along an axis of `f`, with axes to broadcast with `f`."""
    points, _ = placed(points, f)
    if points.shape != (f.shape[axis],):
        raise ValueError(
            f"numpy.gradient takes one coordinate for each of {f.shape[axis]} elements, not {points.shape}"
        )
    if points.dtype.kind in "biu":
        # A difference of whole numbers may wrap around.
        points = points.astype(np.float64)
    return reshape(points[1:] - points[:-1], [-1 if one == axis else 1 for one in range(f.ndim)])
