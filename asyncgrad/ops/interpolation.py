"""Values between values: quantiles, piecewise linear functions, slopes of sampled functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, MissingDerivativeError
from ..graph.values import beside, is_foreign, on_host, raw
from .axes import array_like, axis_tuple, in_rows, kept_shape, laid_like, reduced_axes
from .cumulative import rows
from .dispatch import write
from .foreign import placed
from .indexing import getitem, lines_over, sort, take
from .primitive import RULES
from .shaping import reshape

__all__ = ["gradient", "interp", "percentile", "quantile", "shares_of_percents"]


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
    """Return the quantile of the elements along axes, on the line between the two elements next to it."""
    if method != "linear" or weights is not None:
        given = "weights=" if weights is not None else f"method={method!r}"
        raise MissingDerivativeError(f"numpy.quantile has no derivative rule with {given}, only with method='linear'")
    a = array_like(a)
    if a.dtype.kind == "c":
        raise ArgumentTypeError(f"numpy.quantile and numpy.percentile take real numbers, not {a.dtype}: pass a.real")
    if a.dtype.kind not in "fiu":
        raise ArgumentTypeError(f"a quantile is of real numbers, and this array has dtype {a.dtype}: convert it first")
    a = (
        a
        if a.dtype.kind == "f" and a.dtype.isnative
        else a.astype(a.dtype.newbyteorder("=") if a.dtype.kind == "f" else float)
    )
    # As everywhere, a Python number leaves the dtype to the array.
    shares = np.asarray(q, a.dtype) if isinstance(q, (int, float)) else on_host(raw(q))
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"a quantile is of a share between 0 and 1, not {q}")
    axes = reduced_axes(axis, a.ndim)
    ordered = sort(lines_over(a, axes), 0)
    places = shares * (ordered.shape[0] - 1)
    below = np.floor(places).astype(int)
    above = np.minimum(below + 1, ordered.shape[0] - 1)
    lower = take(ordered, below, 0)
    beyond = (places - below).astype(shares.dtype).reshape(shares.shape + (1,) * (ordered.ndim - 1))
    result = lower + (take(ordered, above, 0) - lower) * beside(beyond, raw(lower))
    absent = np.isnan(raw(ordered)[-1])
    if is_foreign(absent) or np.any(absent):
        result = np.where(absent, np.nan, result)
    result = in_rows(result)
    if keepdims:
        result = reshape(result, shares.shape + kept_shape(a.shape, axes))
    return result if out is None else write(out, result)


RULES[np.quantile] = quantile


def shares_of_percents(q: Any, dtype: Any) -> Any:
    """Return percentages as shares, in the dtype in which NumPy computes them for elements of `dtype`."""
    return np.true_divide(raw(q), dtype.type(100) if dtype.kind == "f" else 100)


def percentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the percentile: the value below which so many of a hundred elements lie."""
    a = array_like(a)
    return quantile(a, shares_of_percents(q, a.dtype), *args, **kwargs)


RULES[np.percentile] = percentile


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Return the values at x of the piecewise linear function through the points (xp, fp)."""
    if period is not None:
        raise MissingDerivativeError("numpy.interp has no derivative rule with period=: reduce x to one period first")
    # NumPy interpolates in float64, whatever it is given; only the values may be complex.
    x, xp, fp = placed(x, xp, fp)
    for name, points in (("x", x), ("xp", xp)):
        if points.dtype.kind == "c":
            raise ArgumentTypeError(f"numpy.interp takes real points, and {name} is of dtype {points.dtype}")
    x, xp = x.astype(float, copy=False), xp.astype(float, copy=False)
    fp = fp.astype(complex if fp.dtype.kind == "c" else float, copy=False)
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(f"interp needs as many points as values, in rows: the shapes are {xp.shape} and {fp.shape}")
    if xp.size == 1:
        result = np.broadcast_to(fp, x.shape) if x.ndim else fp[0]
    else:
        start = np.clip(np.searchsorted(raw(xp), raw(x), "right") - 1, 0, xp.size - 2)
        slope = (getitem(fp, start + 1) - getitem(fp, start)) / (getitem(xp, start + 1) - getitem(xp, start))
        result = slope * (x - getitem(xp, start)) + getitem(fp, start)
    result = np.where(raw(x) < raw(xp)[0], fp[0] if left is None else left, result)
    # The last point itself too, so that it has the value given and not a computed one.
    return np.where(raw(x) >= raw(xp)[-1], _beyond(x, xp, fp, right), result)


def _beyond(x: Any, xp: Any, fp: Any, right: Any) -> Any:
    return fp[-1] if right is None else np.where(raw(x) > raw(xp)[-1], right, fp[-1])


RULES[np.interp] = interp


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return the slopes of a sampled function along axes: central differences inside, one-sided ones at the ends."""
    f = array_like(f)
    if f.dtype.kind == "b" and f.ndim:
        raise TypeError("gradient is of numbers, and this array has dtype bool: convert it first, f.astype(float)")
    f = f if f.dtype.kind in "fc" else f.astype(float)
    axes = reduced_axes(axis, f.ndim) if axis is None or isinstance(axis, tuple) else axis_tuple(axis, f.ndim)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient takes edge_order=1 or 2, not {edge_order}")
    spacings = varargs or (1.0,)
    if len(spacings) == 1 and np.ndim(spacings[0]) == 0:
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise TypeError(f"gradient along {len(axes)} axes takes no spacing, one number, or {len(axes)} spacings")
    results = tuple(_slopes(f, one, spacing, edge_order) for one, spacing in zip(axes, spacings, strict=True))
    return results[0] if len(results) == 1 else results


RULES[np.gradient] = gradient


def _slopes(f: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    """Return the slopes along one axis, by the parabola through each point and its neighbours."""
    length = f.shape[axis]
    if length < edge_order + 1:
        raise ValueError(f"gradient with edge_order={edge_order} needs {edge_order + 1} elements, not {length}")
    if f.dtype.kind != "c" and np.iscomplexobj(spacing):
        raise ArgumentTypeError("numpy.gradient of real values takes real spacings: write np.gradient(f + 0j, ...)")
    first, second = rows(axis, None, -1), rows(axis, 1, None)
    rises = f[second] - f[first]
    if np.ndim(spacing) == 0:
        rises = rises / spacing
        inside = (rises[first] + rises[second]) / 2
        bends = inside - rises[first], rises[second] - inside
    else:
        steps = _steps(spacing, axis, f)
        rises = rises / steps
        before, after = steps[first], steps[second]
        inside = (rises[first] * after + rises[second] * before) / (before + after)
        bend = (rises[second] - rises[first]) / (before + after)
        bends = bend * before, bend * after
    start, end = rises[rows(axis, None, 1)], rises[rows(axis, -1, None)]
    if edge_order == 2:
        start, end = start - bends[0][rows(axis, None, 1)], end + bends[1][rows(axis, -1, None)]
    return laid_like(np.concatenate([start, inside, end], axis, dtype=f.dtype), f)


def _steps(points: Any, axis: int, f: Any) -> Any:
    """Return the distances between coordinates along an axis of `f`."""
    points, _ = placed(points, f)
    if points.shape != (f.shape[axis],):
        raise ValueError(f"gradient needs a coordinate for each of {f.shape[axis]} elements, not {points.shape}")
    return reshape(points[1:] - points[:-1], [-1 if one == axis else 1 for one in range(f.ndim)])
