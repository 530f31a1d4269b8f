"""Interpolation by piecewise cubic polynomials, which differ in how they choose the slopes at the points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import linalg

from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ..arguments import double
from .piecewise import PiecewisePolynomial, check_as_many, sorted_points

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["Akima1DInterpolator", "CubicHermiteSpline", "CubicSpline", "PchipInterpolator", "pchip_interpolate"]


def _given(name: str, x: Any, y: Any, axis: int, *, is_real: bool = False) -> tuple[Any, Any, int]:
    """Return points and values with the axis of the points first, and that axis counted from the front.

    Raises:
        ValueError: values are complex although the slopes depend on signs and sizes, as `is_real` tells.
    """
    points, values = sorted_points(name, x), double(y)
    if is_real and values.dtype.kind == "c":
        raise ValueError(f"{name} takes real values y: interpolate y.real and y.imag")
    axis = axis_index(axis, values.ndim)
    check_as_many(name, points, values, axis)
    return points, np.moveaxis(values, axis, 0), axis


def _steps(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the widths of the intervals, with axes to broadcast with the values, and the slopes between points."""
    widths = (x[1:] - x[:-1]).reshape((-1,) + (1,) * (y.ndim - 1))
    return widths, (y[1:] - y[:-1]) / widths


def _hermite(x: Any, y: Any, slopes: Any) -> Any:
    """Return the coefficients of the cubic polynomials with given values and slopes at the points."""
    widths, chords = _steps(x, y)
    before, after = slopes[:-1], slopes[1:]
    third = (before + after - 2 * chords) / widths
    return np.stack([third / widths, (chords - before) / widths - third, before, y[:-1]])


@final
class CubicHermiteSpline(PiecewisePolynomial):
    """The piecewise cubic polynomial with given values and slopes at points.

    Args:
        x: the points, shape (n,), increasing.
        y: the values, with n elements along `axis`.
        dydx: the slopes, of the shape of `y`.
        axis: of `y`.
        extrapolate: True, False or "periodic"; None for True.

    Source: scipy.interpolate.CubicHermiteSpline.
    """

    __slots__ = ()

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        points, values, front = _given("CubicHermiteSpline", x, y, axis)
        slopes = double(dydx)
        if slopes.ndim != values.ndim or np.moveaxis(slopes, front, 0).shape != values.shape:
            raise ValueError(f"CubicHermiteSpline takes dydx of the shape of y, not {slopes.shape}")
        c = _hermite(points, values, np.moveaxis(slopes, front, 0))
        super().__init__(c, points, True if extrapolate is None else extrapolate, front)


@final
class PchipInterpolator(PiecewisePolynomial):
    """The piecewise cubic polynomial through points that is monotonic where the values are.

    Args:
        x: the points, shape (n,), increasing.
        y: the values, with n elements along `axis`.
        axis: of `y`.
        extrapolate: True or False; None for True.

    Source: scipy.interpolate.PchipInterpolator; Fritsch and Butland, 1984.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> interpolate.PchipInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])(1.5).item()
        1.0
    """

    __slots__ = ()

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        points, values, front = _given("PchipInterpolator", x, y, axis, is_real=True)
        c = _hermite(points, values, _monotonic_slopes(points, values))
        super().__init__(c, points, True if extrapolate is None else extrapolate, front)


def pchip_interpolate(xi: Any, yi: Any, x: Any, der: Any = 0, axis: int = 0) -> Any:
    """Return the values at `x` of the PchipInterpolator through points, or those of its derivatives.

    Args:
        xi: the points, shape (n,), increasing.
        yi: the values, with n elements along `axis`.
        x: where to evaluate.
        der: the order of the derivative, or several.
        axis: of `yi`.

    Source: scipy.interpolate.pchip_interpolate.
    """
    found = PchipInterpolator(xi, yi, axis=axis)
    return found(x, der) if np.ndim(der) == 0 else [found(x, nu) for nu in der]


def _monotonic_slopes(x: Any, y: Any) -> Any:
    widths, chords = _steps(x, y)
    if x.size == 2:
        return np.concatenate([chords, chords])
    before, after = chords[:-1], chords[1:]
    turns = (np.sign(raw(before)) != np.sign(raw(after))) | (raw(before) == 0) | (raw(after) == 0)
    weight1, weight2 = 2 * widths[1:] + widths[:-1], widths[1:] + 2 * widths[:-1]
    harmonic = weight1 / np.where(turns, 1.0, before) + weight2 / np.where(turns, 1.0, after)
    inside = np.where(turns, 0.0, (weight1 + weight2) / np.where(turns, 1.0, harmonic))
    first = _slope_at_end(widths[0], widths[1], chords[0], chords[1])
    last = _slope_at_end(widths[-1], widths[-2], chords[-1], chords[-2])
    return np.concatenate([first[np.newaxis], inside, last[np.newaxis]])


def _slope_at_end(width: Any, next_width: Any, chord: Any, next_chord: Any) -> Any:
    """Return the slope at an end: that of a parabola, unless the polynomial would turn there or overshoot."""
    slope = ((2 * width + next_width) * chord - width * next_chord) / (width + next_width)
    turns = np.sign(raw(slope)) != np.sign(raw(chord))
    overshoots = (np.sign(raw(chord)) != np.sign(raw(next_chord))) & (np.abs(raw(slope)) > 3 * np.abs(raw(chord)))
    return np.where(turns, 0.0, np.where(overshoots, 3 * chord, slope))


@final
class Akima1DInterpolator(PiecewisePolynomial):
    """The piecewise cubic polynomial through points whose slopes follow the nearest points, with little overshoot.

    Args:
        x: the points, shape (n,), increasing.
        y: the values, with n elements along `axis`.
        axis: of `y`.
        method: "akima" or "makima".
        extrapolate: True or False; None for False.

    Source: scipy.interpolate.Akima1DInterpolator; Akima, 1970.
    """

    __slots__ = ()

    def __init__(self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None) -> None:
        if method not in ("akima", "makima"):
            raise ValueError(f"Akima1DInterpolator takes method 'akima' or 'makima', not {method!r}")
        points, values, front = _given("Akima1DInterpolator", x, y, axis, is_real=True)
        c = _hermite(points, values, _akima_slopes(points, values, method == "makima"))
        super().__init__(c, points, False if extrapolate is None else extrapolate, front)


def _akima_slopes(x: Any, y: Any, is_modified: bool) -> Any:
    _, chords = _steps(x, y)
    if x.size == 2:
        return np.concatenate([chords, chords])
    # Two chords beyond each end continue a parabola.
    before = 2 * chords[0] - chords[1]
    after = 2 * chords[-1] - chords[-2]
    beyond = [2 * before - chords[0], before], [after, 2 * after - chords[-1]]
    m = np.concatenate([np.stack(beyond[0]), chords, np.stack(beyond[1])])
    differences = np.abs(m[1:] - m[:-1])
    if is_modified:
        differences = differences + 0.5 * np.abs(m[1:] + m[:-1])
    later, earlier = differences[2:], differences[:-2]
    sums = later + earlier
    # Where both are next to nothing, the weights are equal.
    threshold = 1e-9 * np.max(raw(sums)) if raw(sums).size else 0.0
    is_flat = ~(raw(sums) > threshold)
    # Of slopes whose squares leave the range, too.
    weighted = m[1:-2] + earlier / np.where(is_flat, 1.0, sums) * (m[2:-1] - m[1:-2])
    return np.where(is_flat, 0.0 if is_modified else 0.5 * (m[3:] + m[:-3]), weighted)


# Cubic splines, whose second derivatives are continuous.


@primitive()
def solve_tridiagonal_(lower: Any, middle: Array, upper: Any, b: Any) -> Any:
    """Return the solution of a tridiagonal system, for right-hand sides b of shape (n, m)."""
    bands = np.zeros((3, middle.shape[0]), np.result_type(lower, middle, upper))
    bands[0, 1:], bands[1], bands[2, :-1] = upper, middle, lower
    return linalg.solve_banded((1, 1), bands, b)


@derivative(solve_tridiagonal_, "b")
def _(g: Array, lower: Any, middle: Any, upper: Any) -> Array:
    return solve_tridiagonal_.call(upper, middle, lower, g)


@derivative(solve_tridiagonal_, "lower")
def _(g: Array, lower: Array, middle: Any, upper: Any, out: Any) -> Array:
    return -np.sum(solve_tridiagonal_.call(upper, middle, lower, g)[1:] * out[:-1], 1)


@derivative(solve_tridiagonal_, "middle")
def _(g: Array, lower: Any, middle: Array, upper: Any, out: Any) -> Array:
    return -np.sum(solve_tridiagonal_.call(upper, middle, lower, g) * out, 1)


@derivative(solve_tridiagonal_, "upper")
def _(g: Array, lower: Any, middle: Any, upper: Array, out: Any) -> Array:
    return -np.sum(solve_tridiagonal_.call(upper, middle, lower, g)[:-1] * out[1:], 1)


#: Boundary conditions by name: the order of the derivative that is given, and its value.
_CONDITIONS = {"clamped": (1, 0.0), "natural": (2, 0.0)}


@final
class CubicSpline(PiecewisePolynomial):
    """The piecewise cubic polynomial through points whose first and second derivatives are continuous.

    Args:
        x: the points, shape (n,), increasing.
        y: the values, with n elements along `axis`.
        axis: of `y`.
        bc_type: "not-a-knot", "periodic", "clamped", "natural", or a pair for both ends of such names or of pairs
            (order of the derivative, 1 or 2; its value).
        extrapolate: True, False or "periodic"; None for "periodic" with that condition, else True.

    Source: scipy.interpolate.CubicSpline.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> spline = interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])
        >>> spline(1.5).item(), spline(1.5, 1).item()
        (3.375, 6.75)
    """

    __slots__ = ()

    def __init__(self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None) -> None:
        points, values, front = _given("CubicSpline", x, y, axis)
        is_periodic = isinstance(bc_type, str) and bc_type == "periodic"
        if is_periodic:
            slopes = _periodic_slopes(points, values)
        else:
            slopes = _spline_slopes(points, values, *_conditions(bc_type, values))
        c = _hermite(points, values, slopes)
        super().__init__(
            c, points, ("periodic" if is_periodic else True) if extrapolate is None else extrapolate, front
        )


def _conditions(bc_type: Any, y: Array) -> tuple[Any, Any]:
    """Return the condition at each end: None for not-a-knot, or the order and the value of a derivative."""
    both = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    if len(both) != 2:
        raise ValueError(f"CubicSpline takes bc_type with a condition for each end, not {bc_type!r}")
    found: list[Any] = []
    for condition in both:
        if isinstance(condition, str):
            if condition != "not-a-knot" and condition not in _CONDITIONS:
                raise ValueError(
                    f"CubicSpline takes bc_type 'not-a-knot', 'clamped', 'natural' or 'periodic', not {condition!r}"
                )
            found.append(None if condition == "not-a-knot" else _CONDITIONS[condition])
            continue
        order, value = condition
        if order not in (1, 2):
            raise ValueError(f"CubicSpline takes the first or second derivative at an end, not order {order}")
        if np.shape(value) not in ((), y.shape[1:]):
            raise ValueError(f"CubicSpline takes a derivative of shape {y.shape[1:]} at an end, not {np.shape(value)}")
        found.append((order, value))
    return found[0], found[1]


def _spline_slopes(x: Any, y: Array, start: Any, end: Any) -> Any:
    """Return the slopes at the points that make the second derivative continuous."""
    widths, chords = _steps(x, y)
    count = x.size
    if count == 2:
        start, end = start or (1, chords[0]), end or (1, chords[0])
    elif count == 3 and start is None and end is None:
        # Both conditions are the same: a parabola.
        slope = (widths[1] * chords[0] + widths[0] * chords[1]) / (widths[0] + widths[1])
        return np.stack([2 * chords[0] - slope, slope, 2 * chords[1] - slope])
    first = _row_at_end(start, widths, chords, 1)
    last = _row_at_end(end, widths[::-1], chords[::-1], -1)
    flat = widths.reshape(-1)
    lower = np.concatenate([flat[1:], last[1].reshape(1)])
    middle = np.concatenate([first[0].reshape(1), 2 * (flat[:-1] + flat[1:]), last[0].reshape(1)])
    upper = np.concatenate([first[1].reshape(1), flat[:-1]])
    inside = 3 * (widths[1:] * chords[:-1] + widths[:-1] * chords[1:])
    ends = [np.broadcast_to(row[2], y.shape[1:])[np.newaxis] for row in (first, last)]
    b = np.concatenate([ends[0], inside, ends[1]])
    return solve_tridiagonal_.call(lower, middle, upper, b.reshape((count, -1))).reshape(b.shape)


def _row_at_end(condition: Any, widths: Any, chords: Any, sign: int) -> tuple[Any, Any, Any]:
    """Return the equation at an end: the coefficients of its slope and of the next one, and the right-hand side.

    Args:
        condition: see `_conditions`.
        widths: of the intervals, beginning at that end.
        chords: the slopes between points, likewise.
        sign: 1 at the start, -1 at the end.
    """
    width = widths[0]
    if condition is None:
        both = width + widths[1]
        value = ((width + 2 * both) * widths[1] * chords[0] + width * width * chords[1]) / both
        return widths[1].reshape(-1)[0], both.reshape(-1)[0], value
    order, given = condition
    one = width.reshape(-1)[0]
    if order == 1:
        return one * 0 + 1, one * 0, given
    return 2 * one, one, 3 * chords[0] * width - sign * 0.5 * given * width * width


def _periodic_slopes(x: Any, y: Any) -> Any:
    """Return the slopes of the spline whose derivatives at both ends are the same."""
    if not np.allclose(raw(y)[0], raw(y)[-1], rtol=1e-15, atol=1e-15):
        raise ValueError("CubicSpline with bc_type='periodic' takes values whose first and last are the same")
    widths, chords = _steps(x, y)
    count = x.size - 1
    if count == 1:
        return np.concatenate([chords, chords]) * 0
    if count == 2:
        slope = np.sum(chords / widths, 0, keepdims=True) / np.sum(1 / widths, 0, keepdims=True)
        return np.broadcast_to(slope, y.shape)
    before, flat = np.roll(widths, 1, 0), widths.reshape(-1)
    # Row i: widths[i] * s[i - 1] + 2 * (widths[i - 1] + widths[i]) * s[i] + widths[i - 1] * s[i + 1].
    cycle = np.roll(np.eye(count), 1, 1)
    matrix = np.eye(count) * (2 * (flat + np.roll(flat, 1)))[:, np.newaxis]
    matrix = matrix + cycle * np.roll(flat, 1)[:, np.newaxis] + cycle.T * flat[:, np.newaxis]
    b = 3 * (widths * np.roll(chords, 1, 0) + before * chords)
    slopes = np.linalg.solve(matrix, b.reshape((count, -1))).reshape(b.shape)
    return np.concatenate([slopes, slopes[:1]])
