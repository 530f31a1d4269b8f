"""Interpolation of values at points of a line, and on regular grids of any number of axes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..arguments import double, floating
from .bsplines import make_interp_spline, tensor_product
from .splines import CubicSpline, PchipInterpolator

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["RegularGridInterpolator", "interp1d", "interpn"]

_KINDS = ("linear", "slinear", "nearest", "nearest-up", "previous", "next", "zero", "quadratic", "cubic")


@final
class interp1d:
    """A function through points of a line.

    Args:
        x: the points, shape (n,).
        y: the values, with n elements along `axis`.
        kind: "linear", "nearest", "nearest-up", "previous", "next", "zero", or "quadratic" or
            "cubic", a spline; or the degree of one.
        axis: of `y`.
        copy: nothing is written into the arguments either way.
        bounds_error: whether a point beyond the ends is an error; None for True unless `fill_value` is "extrapolate".
        fill_value: the value there, a pair of values for both sides, or "extrapolate".
        assume_sorted: whether `x` increases; otherwise it is sorted.

    Source: scipy.interpolate.interp1d.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> interpolate.interp1d([0.0, 1.0, 3.0], [0.0, 2.0, 6.0])(2.0).item()
        4.0
    """

    __slots__ = ("_axis", "_below_above", "_bounds_error", "_extrapolates", "_kind", "_spline", "x", "y")

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ) -> None:
        degree = {"quadratic": 2, "cubic": 3}.get(kind, kind)
        kind = {0: "zero", 1: "slinear", 2: "quadratic", 3: "cubic"}.get(kind, kind)
        is_degree = isinstance(kind, int) and kind > 3
        if kind not in _KINDS and not is_degree:
            raise ArgumentError(f"asyncgrad's interp1d has the kinds {', '.join(_KINDS)}, not {kind!r}")
        points, values = floating(x), floating(y)
        self._axis = axis_index(axis, values.ndim)
        if points.ndim != 1 or values.shape[self._axis] != points.size:
            raise ValueError(
                f"interp1d takes x of shape (n,) and n values along axis {self._axis}, not shapes {points.shape} and "
                f"{values.shape}"
            )
        values = np.moveaxis(values, self._axis, 0)
        if not assume_sorted:
            order = np.argsort(raw(points), kind="mergesort")
            points, values = points[order], values[order]
        self._extrapolates = isinstance(fill_value, str) and fill_value == "extrapolate"
        self._bounds_error = not self._extrapolates if bounds_error is None else bounds_error
        self._below_above = fill_value if isinstance(fill_value, tuple) else (fill_value, fill_value)
        self.x: Any = points
        self.y: Any = values
        self._kind = kind
        self._spline: Any = None
        is_spline = kind in ("quadratic", "cubic") or is_degree
        if is_spline and (np.isnan(raw(points)).any() or np.isnan(raw(values)).any()):
            # A spline follows all points: with nan in one it is nan everywhere.
            self._kind = "nan"
        elif kind == "cubic":
            self._spline = CubicSpline(points, values)
        elif kind == "quadratic" or is_degree:
            self._spline = make_interp_spline(points, values, degree)

    def __call__(self, x: Any) -> Tensor:
        """Return the values at points of any shape.

        Raises:
            ValueError: a point lies beyond the ends, and there is no value for it.
        """
        points = floating(x)
        first, last = raw(self.x)[0], raw(self.x)[-1]
        below, above = raw(points) < first, raw(points) > last
        if self._bounds_error and (below.any() or above.any()):
            outside = raw(points)[below | above].reshape(-1)[0]
            raise ValueError(
                f"interp1d: {outside} lies beyond the points, {first} to {last}: write fill_value='extrapolate', or "
                "bounds_error=False, and a fill_value for points there"
            )
        result: Any = self._stepwise(points) if self._spline is None else self._spline(points)
        beyond: Any = self._below_above
        if self._extrapolates:
            # There is no previous point before the first, and no next one after the last.
            beyond = (np.nan if self._kind == "previous" else None, np.nan if self._kind == "next" else None)
        shape = (*points.shape, *(1,) * (self.y.ndim - 1))
        for is_there, value in zip((below, above), beyond, strict=True):
            if value is not None and is_there.any():
                result = np.where(is_there.reshape(shape), value, result)
        axes = tuple(range(points.ndim, points.ndim + self._axis))
        return np.moveaxis(result, axes, tuple(range(self._axis))) if self._axis else result

    def _stepwise(self, points: Any) -> Any:
        """Return values that are linear between the points, or those of one of the two points."""
        where, breaks, last = raw(points), raw(self.x), self.x.size - 1
        if self._kind == "nan":
            return (points.reshape((*points.shape, *(1,) * (self.y.ndim - 1))) + self.y[0]) * np.nan
        if self._kind in ("linear", "slinear"):
            # At a point SciPy's spline of degree 1 is that of the next interval, which tells where a value is nan.
            side: Literal["left", "right"] = "right" if self._kind == "slinear" else "left"
            left = np.clip(np.searchsorted(breaks, where, side) - 1, 0, last - 1)
            shape = (*points.shape, *(1,) * (self.y.ndim - 1))
            start = self.x[left]
            share = ((points - start) / (self.x[left + 1] - start)).reshape(shape)
            found = self.y[left] + share * (self.y[left + 1] - self.y[left])
            if self._kind == "linear" and self.y.ndim == 1 and not self._extrapolates and np.isnan(raw(found)).any():
                # SciPy's is `numpy.interp` here, which is the value itself at a point, beside nan, too.
                place = np.clip(np.searchsorted(breaks, where), 0, last)
                found = np.where(np.isnan(raw(found)) & (breaks[place] == where), self.y[place], found)
            return found
        if self._kind in ("previous", "zero"):
            found = self.y[np.clip(np.searchsorted(breaks, where, "right") - 1, 0, last)]
            is_nan = np.isnan(where)
            if self._kind == "previous" or not is_nan.any():
                return found
            # SciPy's is a spline of degree 0.
            return np.where(is_nan.reshape((*points.shape, *(1,) * (self.y.ndim - 1))), np.nan, found)
        if self._kind == "next":
            return self.y[np.clip(np.searchsorted(breaks, where, "left"), 0, last)]
        middles = breaks[:-1] + np.diff(breaks) / 2
        return self.y[np.searchsorted(middles, where, "left" if self._kind == "nearest" else "right")]


@final
class RegularGridInterpolator:
    """A function through values on a grid with axes of any spacing.

    Args:
        points: the coordinates along each axis, each of shape (n,), strictly increasing or decreasing.
        values: shape (n1, ..., nd, ...).
        method: "linear", "nearest", "slinear", "cubic" or "quintic", a product of splines, or "pchip".
        bounds_error: whether a point beyond the grid is an error.
        fill_value: the value there; None to extrapolate.
        solver: of no effect: systems of splines are solved directly, where SciPy iterates to 1e-6.
        solver_args: of no effect.

    Source: scipy.interpolate.RegularGridInterpolator.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> grid = interpolate.RegularGridInterpolator(([0.0, 1.0], [0.0, 2.0]), [[0.0, 2.0], [1.0, 3.0]])
        >>> grid([[0.5, 1.0]]).tolist()
        [1.5]
    """

    __slots__ = ("bounds_error", "fill_value", "grid", "method", "values")

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
        *,
        solver: Any = None,
        solver_args: Any = None,
    ) -> None:
        _check_method(method)
        self.values: Any = floating(values)
        if len(points) > self.values.ndim:
            raise ValueError(f"there are {len(points)} axes of points, but values has the shape {self.values.shape}")
        grid = []
        for axis, one in enumerate(points):
            coordinates = double(one)
            steps = np.diff(raw(coordinates))
            if coordinates.ndim != 1 or coordinates.size != self.values.shape[axis]:
                raise ValueError(
                    f"there are {self.values.shape[axis]} values along axis {axis}, but points of shape "
                    f"{coordinates.shape}"
                )
            if (steps < 0).all() and steps.size:
                coordinates, self.values = coordinates[::-1], np.flip(self.values, axis)
            elif not (steps > 0).all():
                raise ValueError(f"the points along axis {axis} must increase or decrease strictly")
            grid.append(coordinates)
        if method == "pchip" and self.values.dtype.kind == "c":
            raise ValueError("the method 'pchip' takes real values: interpolate values.real and values.imag")
        self.grid = tuple(grid)
        self.method: str = method
        self.bounds_error: bool = bounds_error
        self.fill_value: Any = fill_value
        self._check_sizes(method)

    def _check_sizes(self, method: str) -> None:
        needed = _SIZES[method]
        for axis, coordinates in enumerate(self.grid):
            if coordinates.size < needed:
                raise ValueError(
                    f"the method {method!r} needs at least {needed} points along each axis, and there are "
                    f"{coordinates.size} along axis {axis}"
                )

    def __call__(self, xi: Any, method: str | None = None, *, nu: Sequence[int] | None = None) -> Tensor:
        """Return the values at points, or those of a derivative.

        Args:
            xi: points, shape (..., d).
            method: another one than the attribute.
            nu: the order of the derivative by each coordinate, for methods by splines.

        Raises:
            ValueError: the points have another number of coordinates, or lie beyond the grid; there is no derivative.
        """
        method = self.method if method is None else method
        _check_method(method)
        self._check_sizes(method)
        count = len(self.grid)
        orders = (0,) * count if nu is None else tuple(map(operator.index, nu))
        if nu is not None and (
            method not in ("slinear", "cubic", "quintic") or len(orders) != count or min(orders) < 0
        ):
            raise ValueError(
                f"nu takes {count} orders of derivatives, with the method 'slinear', 'cubic' or 'quintic', not {nu} "
                f"with {method!r}"
            )
        if isinstance(xi, tuple):
            xi = np.stack(np.broadcast_arrays(*map(double, xi)), -1)
        points = double(xi)
        points = points.reshape((-1, 1) if count == 1 and points.ndim == 1 else (1, -1)) if points.ndim < 2 else points
        if points.shape[-1] != count:
            raise ValueError(f"the points must have {count} coordinates along their last axis, not {points.shape[-1]}")
        outside = np.zeros(points.shape[:-1], bool)
        for axis, coordinates in enumerate(self.grid):
            one = raw(points)[..., axis]
            is_beyond = ~((one >= raw(coordinates)[0]) & (one <= raw(coordinates)[-1]))
            if self.bounds_error and is_beyond.any():
                raise ValueError(f"one of the points lies beyond the grid along axis {axis}: write bounds_error=False")
            outside |= is_beyond
        if method == "nearest":
            result = self._nearest(points)
        elif method in _DEGREES:
            result = tensor_product(self.grid, self.values, _DEGREES[method], points, orders)
        else:
            result = self._monotonic(points) if method == "pchip" else self._linear(points)
        missing = np.isnan(raw(points)).any(-1)
        for is_there, value in ((outside, self.fill_value), (missing, np.nan)):
            if value is not None and is_there.any():
                result = np.where(is_there.reshape(is_there.shape + (1,) * (self.values.ndim - count)), value, result)
        return result

    def _linear(self, points: Any) -> Any:
        trailing = (1,) * (self.values.ndim - len(self.grid))
        lefts, shares = [], []
        for axis, coordinates in enumerate(self.grid):
            one = points[..., axis]
            if coordinates.size == 1:
                # As SciPy: the only value there is.
                lefts.append(np.zeros(one.shape, np.intp))
                shares.append(np.zeros((*one.shape, *trailing)))
                continue
            left = np.clip(np.searchsorted(raw(coordinates), raw(one), "right") - 1, 0, coordinates.size - 2)
            start = coordinates[left]
            shares.append(((one - start) / (coordinates[left + 1] - start)).reshape((*one.shape, *trailing)))
            lefts.append(left)
        result: Any = 0.0
        for corner in itertools.product(*(((0,) if one.size == 1 else (0, 1)) for one in self.grid)):
            weight: Any = 1.0
            for share, side in zip(shares, corner, strict=True):
                weight = weight * (share if side else 1 - share)
            result = result + weight * self.values[tuple(left + side for left, side in zip(lefts, corner, strict=True))]
        return result

    def _monotonic(self, points: Array) -> Any:
        """Return values by piecewise cubic polynomials along one axis after the other, from the last to the first."""
        count = len(self.grid)
        flat = points.reshape((-1, count))
        values: Any = PchipInterpolator(self.grid[-1], self.values, axis=count - 1)(flat[:, -1])
        # Each point has values of its own from here on.
        values = np.moveaxis(values, count - 1, 0)
        for axis in range(count - 2, -1, -1):
            spline = PchipInterpolator(self.grid[axis], values, axis=axis + 1)
            breaks, where = raw(self.grid[axis]), flat[:, axis]
            place = np.clip(np.searchsorted(breaks, raw(where), "right") - 1, 0, breaks.size - 2)
            coefficients = spline.c[:, place, np.arange(place.size)]
            distance = (where - self.grid[axis][place]).reshape((-1, *(1,) * (coefficients.ndim - 2)))
            values = coefficients[0]
            for power in range(1, 4):
                values = values * distance + coefficients[power]
        found = values.reshape((*points.shape[:-1], *self.values.shape[count:]))
        return found.astype(self.values.dtype, copy=False)

    def _nearest(self, points: Any) -> Any:
        places = []
        for axis, coordinates in enumerate(self.grid):
            one, breaks = raw(points)[..., axis], raw(coordinates)
            if breaks.size == 1:
                places.append(np.zeros(one.shape, np.intp))
                continue
            left = np.clip(np.searchsorted(breaks, one, "right") - 1, 0, breaks.size - 2)
            share = (one - breaks[left]) / (breaks[left + 1] - breaks[left])
            places.append(np.where(share <= 0.5, left, left + 1))
        return self.values[tuple(places)]


def interpn(
    points: Sequence[Any],
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Tensor:
    """Return the values at points `xi` of the function through values on a grid.

    Args:
        points: as for RegularGridInterpolator.
        values: as for RegularGridInterpolator.
        xi: shape (..., d).
        method: as for RegularGridInterpolator; or "splinef2d", which is "cubic" with two axes alone.
        bounds_error: as for RegularGridInterpolator.
        fill_value: as for RegularGridInterpolator.

    Source: scipy.interpolate.interpn.
    """
    if method == "splinef2d":
        if len(points) != 2 or floating(values).ndim != 2 or (fill_value is None and not bounds_error):
            raise ValueError("the method 'splinef2d' takes values of shape (n1, n2), and a fill_value beyond them")
        method = "cubic"
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)


#: By method, the degree of the splines.
_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}
_DEGREES |= {f"{method}_legacy": k for method, k in _DEGREES.items()}
#: By method, how many points there must be along an axis.
_SIZES = {"linear": 1, "nearest": 1, "pchip": 4, **{method: k + 1 for method, k in _DEGREES.items()}}


def _check_method(method: str) -> None:
    if method not in _SIZES:
        raise ArgumentError(
            f"interpolation on a regular grid has the methods {', '.join(map(repr, _SIZES))} here, not {method!r}"
        )
