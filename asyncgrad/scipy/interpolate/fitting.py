"""Coefficients of splines near points, on knots that FITPACK has chosen.

They minimize the sum of squared jumps of the highest derivatives, among those that leave a given sum of squared
residuals. So they solve a linear system with one factor, which is where that sum is what is given.

Source: Dierckx, Curve and Surface Fitting with Splines, 1993.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import factorial
from typing import Any, NamedTuple, final

import numpy as np
from scipy import optimize

from ...core.arrays.values import raw
from ...core.tensor import asarray
from .bsplines import BSpline

__all__ = ["chosen_knots", "coefficients_at_points", "coefficients_on_grid", "jumps", "told"]


def chosen_knots(t: Any, x: Any) -> Any:
    """Return the knots that FITPACK has chosen, which are some of the points, or lie in the middle of two of them.

    Others stay as they are.

    Args:
        t: the knots, an array.
        x: the points, increasing.
    """
    middles = (x[1:] + x[:-1]) / 2
    result: Any = asarray(t)
    for some in (middles, x):
        places = np.clip(np.searchsorted(raw(some), t), 0, raw(some).size - 1)
        is_one = raw(some)[places] == t
        if is_one.any():
            result = np.where(is_one, some[places], result)
    return result


def told(result: Any, residual: float, flag: int, message: str, full_output: int) -> Any:
    """Return a result, with what FITPACK says of it if there is `full_output`; else it warns of a search without end.

    Raises:
        ValueError: FITPACK refuses the data.
    """
    if full_output:
        return result, residual, flag, message
    if flag > 5:
        raise ValueError(f"FITPACK refuses the data: {message}")
    if flag > 0:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return result


def jumps(t: Any, k: int, basis: Any = None) -> Any:
    """Return how the highest derivative of each spline of a basis jumps at the knots within, in FITPACK's scale.

    Args:
        t: the knots.
        k: the degree.
        basis: the coefficients, shape (n, d); None for the B-splines themselves.
    """
    count = t.shape[0] - k - 1
    highest = BSpline(t, np.eye(count) if basis is None else basis, k).derivative(k)
    width = (t[count] - t[k]) / (count - k)
    return np.diff(highest.c, axis=0) * (width**k / factorial(k))


@final
class _PointsFit(NamedTuple):
    """Values at points: the products of `smooth`, and the values of a basis, shape (m, n), at the points."""

    normal: Any
    rough: Any
    moments: Any
    matrix: Any
    right: Any

    def smooth(self, factor: Any) -> Any:
        """Return the coefficients with the least sum of squared residuals and jumps, these times a factor."""
        return np.linalg.solve(self.normal + factor * self.rough, self.moments)

    def slope(self, factor: Any, c: Any) -> Any:
        """Return the derivative by the factor of `smooth`, whose result is `c`."""
        return -np.linalg.solve(self.normal + factor * self.rough, self.rough @ c)

    def values(self, c: Any) -> Any:
        """Return the values of the spline."""
        return self.matrix @ c


@final
class _GridFit(NamedTuple):
    """Values on a grid, which are smoothed along one axis after the other: as of `_PointsFit`, for each axis."""

    normal: Any
    rough: Any
    moments: Any
    matrix: Any
    right: Any
    other_normal: Any
    other_rough: Any
    other_matrix: Any

    def smooth(self, factor: Any) -> Any:
        """Return the coefficients, of shape (m, n), as `_PointsFit` does."""
        first, second = self._systems(factor)
        return np.linalg.solve(second, np.linalg.solve(first, self.moments).T).T

    def _systems(self, factor: Any) -> tuple[Any, Any]:
        return self.normal + factor * self.rough, self.other_normal + factor * self.other_rough

    def slope(self, factor: Any, c: Any) -> Any:
        """Return the derivative by the factor of `smooth`, whose result is `c`."""
        first, second = self._systems(factor)
        along = np.linalg.solve(first, self.rough @ c)
        return -along - np.linalg.solve(second, self.other_rough @ c.T).T

    def values(self, c: Any) -> Any:
        """Return the values of the spline."""
        return self.matrix @ c @ self.other_matrix.T


def coefficients_at_points(
    matrix: Any, right: Any, jumping: Callable[[], Any], residual: float, eps: float = 0.0
) -> Any:
    """Return the coefficients, shape (n, d), of a spline near points.

    Args:
        matrix: the values of each spline of a basis at the points, times their weights, shape (m, n).
        right: the values, times their weights, shape (m, d).
        jumping: returns how the splines of the basis jump, shape (l, n); it is asked where something is smoothed.
        residual: the sum of squared weighted residuals; 0 for the least that there is.
        eps: singular values up to it, relative to the largest, count as 0, and always those that are no more than
            rounding.
    """
    nearest = np.linalg.lstsq(matrix, right, max(eps, np.finfo(float).eps * max(matrix.shape)))[0]
    if _is_met(matrix @ nearest - right, residual):
        return nearest
    rough = jumping()
    return _smoothed(_PointsFit(matrix.T @ matrix, rough.T @ rough, matrix.T @ right, matrix, right), nearest, residual)


def coefficients_on_grid(
    first: Any, second: Any, values: Any, jumping: Callable[[], list[Any]], residual: float
) -> Any:
    """Return the coefficients, shape (m, n), of a spline near values on a grid.

    Args:
        first: the values of the first axis' B-splines at its points.
        second: those of the second axis.
        values: of a shape for both axes.
        jumping: returns how the B-splines of both axes jump.
        residual: the sum of squared residuals.
    """
    nearest = _solved(second, _solved(first, values).T).T
    if _is_met(first @ nearest @ second.T - values, residual):
        return nearest
    rough, other = jumping()
    systems = first.T @ first, rough.T @ rough, first.T @ values @ second
    fit = _GridFit(*systems, first, values, second.T @ second, other.T @ other, second)
    return _smoothed(fit, nearest, residual)


def _solved(matrix: Any, right: Any) -> Any:
    is_square = matrix.shape[0] == matrix.shape[1]
    return np.linalg.solve(matrix, right) if is_square else np.linalg.lstsq(matrix, right, None)[0]


def _is_met(residuals: Any, residual: float) -> bool:
    """Return whether least squares leave a sum of squared residuals."""
    return residual <= float(np.sum(raw(residuals) ** 2)) * (1 + 1e-9) + 1e-300


def _smoothed(fit: _PointsFit | _GridFit, nearest: Any, residual: float) -> Any:
    """Return the smooth coefficients that leave a sum of squared residuals; the nearest ones if there are no jumps."""
    plain = type(fit)(*map(raw, fit))
    scale = float(np.trace(plain.rough)) + (float(np.trace(plain.other_rough)) if isinstance(plain, _GridFit) else 0.0)
    if not scale:
        return nearest
    factor = asarray(_factor(plain, float(np.trace(plain.normal)) / scale, residual))
    # Each step of Newton's doubles the order up to which derivatives are right.
    for _ in range(2):
        c = fit.smooth(factor)
        rest = fit.values(c) - fit.right
        factor = factor - (np.sum(rest**2) - residual) / (2 * np.sum(rest * fit.values(fit.slope(factor, c))))
    return fit.smooth(factor)


def _factor(fit: _PointsFit | _GridFit, scale: float, residual: float) -> float:
    """Return the factor of jumps that leaves a sum of squared residuals, near `scale`, with which both count alike."""

    def excess(log_factor: float) -> float:
        rest = fit.values(fit.smooth(scale * np.exp(log_factor))) - fit.right
        return float(np.log(np.sum(rest**2) / residual))

    # The system is the worse the farther out, so that no end is farther out than it must be.
    low = high = 0.0
    while excess(low) >= 0 and low > -60:
        low -= 6
    while excess(high) <= 0 and high < 60:
        high += 6
    return float(scale * np.exp(optimize.brentq(excess, low, high, xtol=1e-13, rtol=1e-14)))
