"""Piecewise polynomials of one variable, differentiable by their coefficients, their breakpoints and the points."""

from __future__ import annotations

from math import factorial
from typing import Any, Literal, final

import numpy as np
from scipy import interpolate as scipy_interpolate

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ..arguments import double

__all__ = ["PPoly", "PiecewisePolynomial", "check_as_many", "over_periods", "sorted_points"]


def sorted_points(name: str, x: Any) -> Any:
    """Return points as a tensor of shape (n,).

    Raises:
        ValueError: they are fewer than two, or do not increase strictly.
    """
    points = double(x)
    if points.ndim != 1 or points.size < 2:
        raise ValueError(f"{name} takes x of shape (n,), n > 1, not {points.shape}")
    if not (np.diff(raw(points)) > 0).all():
        raise ValueError(f"{name} takes points x that increase strictly")
    return points


def check_as_many(name: str, points: Any, values: Any, axis: int) -> None:
    """Raise unless there are as many values along an axis as there are points."""
    if values.shape[axis] != points.size:
        raise ValueError(
            f"{name} takes as many values along axis {axis} as points, not shapes {points.shape} and {values.shape}"
        )


def _searched(breaks: Any, points: Any, side: Literal["left", "right"]) -> Any:
    """Return where points stand among breakpoints, which may decrease: see `np.searchsorted`."""
    sign = -1 if breaks[-1] < breaks[0] else 1
    return np.searchsorted(sign * breaks, sign * points, side)


def over_periods(antiderivative: Any, a: Any, b: Any, start: Any, end: Any) -> Any:
    """Return the integral from `a` to `b` of a function that is periodic, given its antiderivative in one period."""
    period = end - start
    of_period = antiderivative(end, extrapolate=True) - antiderivative(start, extrapolate=True)

    def until(x: Any) -> Any:
        count = np.floor((raw(x) - raw(start)) / raw(period))
        return count * of_period + antiderivative(x - count * period, extrapolate=True)

    return until(double(b)) - until(double(a))


class PiecewisePolynomial:
    """Abstract: a polynomial on each of the intervals between breakpoints.

    Attributes:
        c: the coefficients, shape (k, m, ...): those of interval i are `c[:, i]`, of powers of `x - x[i]`, the highest
            first.
        x: the breakpoints, shape (m + 1,), increasing; or, of a PPoly, decreasing.
        extrapolate: whether the first and last polynomial go on beyond the ends; otherwise there is nan; or "periodic".
    """

    __slots__ = ("axis", "c", "extrapolate", "x")

    def __init__(self, c: Any, x: Any, extrapolate: Any, axis: int = 0) -> None:
        self.c: Any = c
        self.x: Any = x
        self.extrapolate: Any = extrapolate
        self.axis: int = axis

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Tensor:
        """Return the values at points, or those of a derivative.

        Args:
            x: points of any shape.
            nu: the order of the derivative.
            extrapolate: as the attribute; None for that.
        """
        if nu < 0:
            raise ValueError(
                f"a spline has derivatives of order 0 on, not {nu}: for integrals, write antiderivative({-nu})"
            )
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        points = double(x)
        breaks = self.x
        if extrapolate == "periodic":
            points = breaks[0] + (points - breaks[0]) % (breaks[-1] - breaks[0])
        places = np.clip(_searched(raw(breaks), raw(points), "right") - 1, 0, breaks.size - 2)
        trailing = self.c.ndim - 2
        distance = (points - breaks[places]).reshape((*points.shape, *(1,) * trailing))
        coefficients = self._differentiated(nu)
        result = coefficients[0][places]
        for power in range(1, coefficients.shape[0]):
            result = result * distance + coefficients[power][places]
        if not extrapolate:
            low, high = sorted((raw(breaks)[0], raw(breaks)[-1]))
            is_outside = (raw(points) < low) | (raw(points) > high)
            result = np.where(is_outside.reshape(distance.shape), np.nan, result)
        axes = range(points.ndim, points.ndim + self.axis)
        return np.moveaxis(result, tuple(axes), tuple(range(self.axis))) if self.axis else result

    def _differentiated(self, nu: int) -> Any:
        """Return the coefficients of a derivative, or for negative `nu` of an antiderivative that is 0 at the start."""
        if nu < 0:
            return self._integrated(-nu)
        c = self.c
        count = c.shape[0]
        if nu >= count:
            return c[:1] * 0
        powers = range(count - 1, nu - 1, -1)
        factors = np.array([factorial(power) / factorial(power - nu) for power in powers])
        return c[: count - nu] * factors.reshape((-1,) + (1,) * (c.ndim - 1)) if nu else c

    def _integrated(self, nu: int) -> Any:
        c = self.c
        widths = (self.x[1:] - self.x[:-1]).reshape((-1,) + (1,) * (c.ndim - 2))
        for _ in range(nu):
            count = c.shape[0]
            c = c / np.arange(count, 0, -1.0).reshape((-1,) + (1,) * (c.ndim - 1))
            areas = c[0]
            for power in range(1, count):
                areas = areas * widths + c[power]
            ends = np.cumsum(areas * widths, 0)
            starts = np.concatenate([np.zeros_like(raw(ends)[:1]), ends[:-1]])
            c = np.concatenate([c, starts[np.newaxis]])
        return c

    def derivative(self, nu: int = 1) -> PPoly:
        """Return the piecewise polynomial that is the derivative of order `nu`."""
        return PPoly._of(self._differentiated(nu), self)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Return the piecewise polynomial whose derivative of order `nu` is this one, and which is 0 at the start.

        That of a periodic one is not periodic: it has no value beyond the ends.
        """
        found = PPoly._of(self._differentiated(-nu), self)
        if found.extrapolate == "periodic" and nu > 0:
            found.extrapolate = False
        return found

    def solve(self, y: Any = 0.0, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """Return the points at which the value is `y`, differentiable by it and by what the polynomial is made of.

        Where the polynomial has several values at a point, it is an array of such tensors, one of each.

        Args:
            y: a number.
            discontinuity: whether a jump across `y` counts; such a point moves with its breakpoint.
            extrapolate: as the attribute; None for that.
        """
        if self.c.ndim != 2:
            found = np.empty(self.c.shape[2:], object)
            for index in np.ndindex(*found.shape):
                one = PPoly._of(self.c[(slice(None), slice(None), *index)], self)
                found[index] = one.solve(y, discontinuity, extrapolate)
            return found
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        plain = scipy_interpolate.PPoly(raw(self.c), raw(self.x))
        x = np.asarray(plain.solve(float(raw(asarray(y))), discontinuity, extrapolate))
        distance = np.abs(plain(x) - raw(asarray(y)))
        # An interval on which the value is y throughout has the points x and nan in SciPy's list.
        has_slope = (plain(x, 1) != 0) & (distance <= 1e-6 * max(1.0, float(np.abs(raw(self.c)[-1]).max())))
        points: Any = asarray(x)
        breaks = raw(self.x)
        places = np.clip(_searched(breaks, x, "left"), 0, breaks.size - 1)
        is_break = ~has_slope & (breaks[places] == x)
        if is_break.any():
            points = np.where(is_break, self.x[places], points)
        # Each step of Newton's doubles the order up to which derivatives are right.
        for _ in range(2):
            slope = np.where(has_slope, self(points, 1, extrapolate=True), 1.0)
            points = points - np.where(has_slope, (self(points, extrapolate=True) - y) / slope, 0.0)
        return points

    def roots(self, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """Return the points at which the value is 0: see `solve`."""
        return self.solve(0.0, discontinuity, extrapolate)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Tensor:
        """Return the integral from `a` to `b`."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole = self.antiderivative()
        if isinstance(extrapolate, str):
            return over_periods(whole, a, b, self.x[0], self.x[-1])
        return whole(b, extrapolate=extrapolate) - whole(a, extrapolate=extrapolate)


@final
class PPoly(PiecewisePolynomial):
    """A piecewise polynomial of given coefficients.

    Args:
        c: shape (k, m, ...): those of interval i are `c[:, i]`, the highest power first.
        x: the breakpoints, shape (m + 1,), increasing or decreasing.
        extrapolate: True, False or "periodic"; None for True.
        axis: 0 alone.

    Source: scipy.interpolate.PPoly.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> interpolate.PPoly([[1.0, 2.0], [0.0, 1.0]], [0.0, 1.0, 2.0])([0.5, 1.5]).tolist()
        [0.5, 2.0]
    """

    __slots__ = ()

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        if axis:
            raise ValueError(
                f"PPoly takes coefficients whose first axes are powers and intervals: write axis=0, not {axis}"
            )
        coefficients, points = double(c), double(x)
        steps = np.diff(raw(points).reshape(-1))
        if points.ndim != 1 or not steps.size or not ((steps >= 0).all() or (steps <= 0).all()):
            raise ValueError(f"PPoly takes x of shape (n,), n > 1, that increases or decreases, not {points.shape}")
        if coefficients.ndim < 2 or coefficients.shape[1] != points.size - 1:
            raise ValueError(
                f"PPoly takes c of shape (k, {points.size - 1}, ...) for {points.size} breakpoints, not "
                f"{coefficients.shape}"
            )
        super().__init__(coefficients, points, True if extrapolate is None else extrapolate)

    @classmethod
    def _of(cls, c: Any, like: PiecewisePolynomial) -> PPoly:
        made = cls.__new__(cls)
        PiecewisePolynomial.__init__(made, asarray(c), like.x, like.extrapolate, like.axis)
        return made
