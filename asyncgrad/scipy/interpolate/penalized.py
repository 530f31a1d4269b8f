"""Smoothing splines: the functions that are near points and bend little.

Source: Wahba, Spline Models for Observational Data, 1990, section 4.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw
from ...core.tensor import asarray
from ..arguments import double
from .bsplines import BSpline, design_matrix
from .piecewise import check_as_many, sorted_points

__all__ = ["make_smoothing_spline"]


def make_smoothing_spline(x: Any, y: Any, w: Any = None, lam: Any = None, *, axis: int = 0) -> BSpline:
    """Return the natural cubic spline with the least `sum(w * (y - f(x))**2) + lam * integral of f''**2`.

    With `lam=None` gradients follow the least error of generalized cross-validation, as it moves with the data, unless
    that lies at an end of SciPy's range, from 0 to n. Memory and time are those of dense systems of n equations.

    Args:
        x: the points, shape (n,), n > 4, increasing.
        y: the values, with n elements along `axis`.
        w: the weights, shape (n,), above 0, or None for ones.
        lam: the weight of the bending, at least 0; None for that of least error in generalized cross-validation, of
            each column of `y` its own.
        axis: of `y`.

    Raises:
        ValueError: the points do not increase, a value is infinite or NaN, a weight is not above 0, `lam` is below 0,
            or shapes do not fit.

    Source: scipy.interpolate.make_smoothing_spline.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> spline = interpolate.make_smoothing_spline([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 1.0, 3.0, 4.0], lam=1e9)
        >>> spline(2.0).round(6).item()
        2.0
    """
    name = "make_smoothing_spline"
    points, values = sorted_points(name, x), double(y)
    axis = axis_index(axis, values.ndim)
    check_as_many(name, points, values, axis)
    count = points.size
    weights = asarray(np.ones(count)) if w is None else double(w)
    if count < 5 or weights.shape != (count,) or not (raw(weights) > 0).all():
        raise ValueError(
            f"{name} takes at least 5 points x, and for each a weight w above 0, not shapes {points.shape} and "
            f"{weights.shape}"
        )
    if lam is not None and (np.ndim(lam) or raw(asarray(lam)) < 0):
        raise ValueError(f"{name} takes for lam None, or a number of at least 0, not {lam!r}")
    if not (np.isfinite(raw(points)).all() and np.isfinite(raw(values)).all()):
        raise ValueError(f"{name} takes finite numbers: leave out points whose value is infinite or NaN")
    values = np.moveaxis(values, axis, 0)
    columns = values.reshape((count, -1))
    knots = np.concatenate([points[:1]] * 3 + [points] + [points[-1:]] * 3)
    natural = _natural_basis(points)
    matrix = design_matrix(knots, 3, points) @ natural
    bending = _jumps(knots, natural) / weights[:, np.newaxis]
    if lam is None:
        each = [columns[:, place] for place in range(columns.shape[1])]
        found = [_least_error(matrix, bending, weights, one) for one in each]
        solved = [np.linalg.solve(matrix + one * bending, column) for one, column in zip(found, each, strict=True)]
        free = np.stack(solved, 1)
    else:
        free = np.linalg.solve(matrix + lam * bending, columns)
    c = (natural @ free).reshape((count + 2, *values.shape[1:]))
    return BSpline(knots, np.moveaxis(c, 0, axis) if axis else c, 3, True, axis)


def _natural_basis(x: Any) -> Any:
    """Return the matrix, shape (n + 2, n), of B-splines' coefficients of natural splines: straight beyond the ends."""
    count = x.size
    first = np.stack([x[2] + x[1] - 2 * x[0], x[2] - x[0]])
    last = np.stack([x[-1] - x[-3], 2 * x[-1] - x[-2] - x[-3]])
    unit = np.eye(count)
    ends = [one[:, np.newaxis] * unit[place] + unit[near] for one, place, near in ((first, 0, 1), (last, -1, -2))]
    return np.concatenate([ends[0], unit[1:-1], ends[1]])


def _jumps(knots: Any, natural: Any) -> Any:
    """Return the jumps at the points, shape (n, n), of the third derivatives of natural splines, which are 0 outside.

    By parts, the integral of `f'' * g''` is the sum of the jumps of `f`'s third derivative times the values of `g`.
    """
    third = BSpline(knots, natural, 3).derivative(3).c
    none = np.zeros((1, third.shape[1]))
    return np.diff(np.concatenate([none, third, none]), axis=0)


def _least_error(matrix: Any, bending: Any, w: Any, y: Any) -> Any:
    """Return the weight of the bending with the least error of generalized cross-validation.

    Args:
        matrix: the values of the natural splines at the points, shape (n, n).
        bending: their jumps over the weights, shape (n, n).
        w: the weights, shape (n,).
        y: the values, shape (n,).
    """
    plain = [np.asarray(raw(one)) for one in (matrix, bending, w, y)]
    found = _searched(*plain)
    for _ in range(3):
        # Without residuals all is 0 or NaN.
        with np.errstate(invalid="ignore", divide="ignore"):
            error, slope = _slopes(found, plain[0], plain[1], plain[3])
        nearer = found - error / slope
        if not (slope > 0 and abs(nearer - found) <= 1e-3 * found):
            # At an end of the range, where it stays.
            return found
        found = nearer
    result: Any = asarray(found)
    # Each step makes derivatives of one more order right.
    for _ in range(2):
        result = result - _slopes(result, matrix, bending, y, with_second=False)[0] / slope
    return result


def _searched(matrix: Any, bending: Any, w: Any, y: Any) -> float:
    """Return what SciPy's search from 0 to n finds: the place of the least error, nearly."""
    count, root = y.size, np.sqrt(w)
    scaled = root[:, np.newaxis] * np.linalg.solve(matrix.T, bending.T).T / root
    stiffness, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    moments = vectors.T @ (root * y)

    def error(lam: float) -> float:
        left = lam * stiffness / (1 + lam * stiffness)
        return float(np.sum((vectors @ (left * moments) / root) ** 2) / np.sum(left) ** 2)

    return float(optimize.minimize_scalar(error, bounds=(0, count), method="bounded").x)


def _slopes(lam: Any, matrix: Any, bending: Any, y: Any, with_second: bool = True) -> tuple[Any, Any]:
    """Return the first and the second derivative of the error's logarithm by `lam`."""
    system = matrix + lam * bending
    c = np.linalg.solve(system, y)
    bent = np.linalg.solve(system, bending @ c)
    rest, moved = lam * (bending @ c), matrix @ bent
    # Of the matrix that makes fitted values of the given ones.
    influence = matrix @ np.linalg.inv(system)
    stiffness = bending @ np.linalg.inv(system)
    square, free = np.sum(rest**2), y.shape[0] - np.trace(influence)
    change = np.sum(influence * stiffness.T)
    first = 2 * np.sum(rest * moved) / square - 2 * change / free
    if not with_second:
        return first, None
    again = -2 * matrix @ np.linalg.solve(system, bending @ bent)
    second = 2 * (np.sum(moved**2) + np.sum(rest * again)) / square - 4 * (np.sum(rest * moved) / square) ** 2
    twice = np.sum((influence @ stiffness) * stiffness.T)
    return first, second + 4 * twice / free + 2 * (change / free) ** 2
