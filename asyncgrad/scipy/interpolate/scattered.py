"""Interpolation between points that lie anywhere: by radial functions, and by the nearest point."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, final

import numpy as np
from scipy import spatial

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ..arguments import double
from ..roots import root_of_squares
from .grids import interp1d
from .triangles import CloughTocher2DInterpolator, LinearNDInterpolator, asked_points, checked_data, points_of

__all__ = ["NearestNDInterpolator", "RBFInterpolator", "griddata"]


def _thin_plate(squares: Any) -> Any:
    is_zero = raw(squares) == 0
    return np.where(is_zero, 0.0, 0.5 * squares * np.log(np.where(is_zero, 1.0, squares)))


#: By name, functions of squared distances, and the least degree of polynomials that they need beside them.
_KERNELS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "linear": (lambda squares: -root_of_squares(squares), 0),
    "thin_plate_spline": (_thin_plate, 1),
    "cubic": (lambda squares: squares * root_of_squares(squares), 1),
    "quintic": (lambda squares: -(squares**2) * root_of_squares(squares), 2),
    "multiquadric": (lambda squares: -np.sqrt(1 + squares), 0),
    "inverse_multiquadric": (lambda squares: 1 / np.sqrt(1 + squares), -1),
    "inverse_quadratic": (lambda squares: 1 / (1 + squares), -1),
    "gaussian": (lambda squares: np.exp(-squares), -1),
}
#: Those which change with epsilon by a factor alone.
_SCALE_INVARIANT = ("linear", "thin_plate_spline", "cubic", "quintic")


@final
class RBFInterpolator:
    """A sum of radial functions about points, and of a polynomial.

    Args:
        y: the points, shape (n, d).
        d: the values there, shape (n, ...).
        neighbors: how many of the nearest points count; None for all.
        smoothing: how much values may differ: a number, or one for each point.
        kernel: "thin_plate_spline", "linear", "cubic", "quintic", "multiquadric", "inverse_multiquadric",
            "inverse_quadratic" or "gaussian".
        epsilon: a factor of distances; needed by the last four.
        degree: of the polynomial; -1 for none, and None for the least that the kernel needs.

    Source: scipy.interpolate.RBFInterpolator; Fasshauer, Meshfree Approximation Methods with MATLAB, 2007.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> interpolate.RBFInterpolator([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0])([[0.5]]).round(6).tolist()
        [1.0]
    """

    __slots__ = ("_powers", "d", "epsilon", "kernel", "neighbors", "smoothing", "y")

    def __init__(
        self,
        y: Any,
        d: Any,
        neighbors: int | None = None,
        smoothing: Any = 0.0,
        kernel: str = "thin_plate_spline",
        epsilon: Any = None,
        degree: int | None = None,
    ) -> None:
        points, values, kernel = double(y), double(d), kernel.lower()
        if points.ndim != 2:
            raise ValueError(f"RBFInterpolator takes points y of shape (n, d), not {points.shape}")
        count, dimensions = points.shape
        if not values.ndim or values.shape[0] != count:
            raise ValueError(f"RBFInterpolator takes {count} values d along the first axis, not {values.shape}")
        if kernel not in _KERNELS:
            raise ValueError(f"RBFInterpolator takes kernel {', '.join(map(repr, _KERNELS))}, not {kernel!r}")
        if epsilon is None and kernel not in _SCALE_INVARIANT:
            raise ValueError(f"RBFInterpolator with kernel={kernel!r} takes an epsilon: pass one, as epsilon=1.0")
        smooth = double(smoothing)
        if smooth.shape not in ((), (count,)):
            raise ValueError(f"RBFInterpolator takes one smoothing, or {count}, not {smooth.shape}")
        degree = max(_KERNELS[kernel][1], 0) if degree is None else int(degree)
        if degree < -1:
            raise ValueError(f"RBFInterpolator takes a degree of at least -1, not {degree}")
        self.y: Any = points
        self.d: Any = values
        self.kernel: str = kernel
        self.epsilon: Any = asarray(1.0) if epsilon is None else double(epsilon)
        self.smoothing: Any = np.broadcast_to(smooth, (count,))
        self.neighbors: int | None = None if neighbors is None else int(min(neighbors, count))
        self._powers: Any = _powers(dimensions, degree)
        self._check_points()

    def _check_points(self) -> None:
        needed = self._powers.shape[0]
        used = self.y.shape[0] if self.neighbors is None else self.neighbors
        if used < needed:
            raise ValueError(f"RBFInterpolator of this degree needs at least {needed} points, and has {used}")
        if self.neighbors is not None or not needed:
            return
        shift, scale = _origin_and_unit(raw(self.y))
        if np.linalg.matrix_rank(_monomials((raw(self.y) - shift) / scale, self._powers)) < needed:
            raise np.linalg.LinAlgError("RBFInterpolator: the points lie on a line or surface: lower the degree")

    def __call__(self, x: Any) -> Tensor:
        """Return the values at points, shape (m, d), of shape (m, ...)."""
        points = double(x)
        if points.ndim != 2 or points.shape[1] != self.y.shape[1]:
            raise ValueError(f"the points must have the shape (m, {self.y.shape[1]}), not {points.shape}")
        flat = self.d.reshape((self.d.shape[0], -1))
        if self.neighbors is None:
            found = self._interpolated(points, self.y, flat, self.smoothing)
        else:
            found = self._by_neighbors(points, flat)
        return found.reshape((points.shape[0], *self.d.shape[1:]))

    def _by_neighbors(self, points: Any, flat: Any) -> Any:
        _, places = spatial.KDTree(raw(self.y)).query(raw(points), np.arange(1, (self.neighbors or 1) + 1))
        sets, which = np.unique(np.sort(places, 1), axis=0, return_inverse=True)
        order, parts = [], []
        for number, chosen in enumerate(sets):
            (here,) = np.nonzero(which.reshape(-1) == number)
            order.append(here)
            parts.append(self._interpolated(points[here], self.y[chosen], flat[chosen], self.smoothing[chosen]))
        if not parts:
            return np.zeros((0, flat.shape[1]))
        return np.concatenate(parts)[np.argsort(np.concatenate(order))]

    def _interpolated(self, x: Any, y: Any, d: Any, smoothing: Any) -> Any:
        # The result does not depend on where polynomials have their origin and unit.
        shift, scale = _origin_and_unit(raw(y))
        count = y.shape[0]
        radial = self._radial(y, y) + np.eye(count) * smoothing
        beside = _monomials((y - shift) / scale, self._powers)
        zeros = np.zeros((self._powers.shape[0],) * 2)
        matrix = np.concatenate([np.concatenate([radial, beside], 1), np.concatenate([beside.T, zeros], 1)])
        right = np.concatenate([d, np.zeros((self._powers.shape[0], d.shape[1]))])
        coefficients = np.linalg.solve(matrix, right)
        terms = np.concatenate([self._radial(x, y), _monomials((x - shift) / scale, self._powers)], 1)
        return terms @ coefficients

    def _radial(self, x: Any, y: Any) -> Any:
        squares = np.sum((x[:, np.newaxis] - y) ** 2, -1) * self.epsilon**2
        return _KERNELS[self.kernel][0](squares)


def _origin_and_unit(points: Any) -> tuple[Any, Any]:
    low, high = points.min(0), points.max(0)
    return (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)


def _powers(dimensions: int, degree: int) -> Any:
    """Return the exponents of all monomials up to a degree, shape (count, dimensions)."""
    found = [one for one in itertools.product(range(degree + 1), repeat=dimensions) if sum(one) <= degree]
    return np.array(found, int).reshape((-1, dimensions))


def _monomials(x: Any, powers: Any) -> Any:
    """Return the values of monomials at points of shape (m, d), shape (m, count)."""
    result: Any = np.ones((x.shape[0], powers.shape[0]))
    for axis in range(powers.shape[1]):
        result = result * x[:, axis, np.newaxis] ** powers[:, axis]
    return result


@final
class NearestNDInterpolator:
    """The value of the nearest point.

    Args:
        x: the points, shape (n, d).
        y: the values, shape (n, ...).
        rescale: whether coordinates are brought to one unit before distances are compared.
        tree_options: as SciPy's.

    Source: scipy.interpolate.NearestNDInterpolator.
    """

    __slots__ = ("_scale", "_tree", "points", "values")

    def __init__(self, x: Any, y: Any, rescale: bool = False, tree_options: dict[str, Any] | None = None) -> None:
        self.points, self.values = checked_data("NearestNDInterpolator", x, y)
        self._scale: Any = np.ptp(raw(self.points), axis=0) if rescale else np.ones(self.points.shape[1])
        self._tree: Any = spatial.cKDTree(raw(self.points) / self._scale, **(tree_options or {}))

    def __call__(self, *args: Any, **query_options: Any) -> Tensor:
        """Return the values at points, shape (..., d), of shape (...)."""
        asked = asked_points(args, self.points.shape[1])
        options = {key: raw(value) for key, value in query_options.items()}
        distances, places = self._tree.query(raw(asked) / self._scale, **options)
        is_none = ~np.isfinite(distances)
        found = self.values[np.where(is_none, 0, places)]
        if is_none.any():
            found = np.where(is_none.reshape((*is_none.shape, *(1,) * (self.values.ndim - 1))), np.nan, found)
        return found


def griddata(
    points: Any, values: Any, xi: Any, method: str = "linear", fill_value: Any = np.nan, rescale: bool = False
) -> Tensor:
    """Return the values at points of a function through values at points that lie anywhere.

    Args:
        points: shape (n, d), or a tuple of d arrays of shape (n,).
        values: shape (n,).
        xi: shape (..., d), or a tuple of d arrays that are broadcast.
        method: "nearest", "linear", or in one or two dimensions "cubic".
        fill_value: the value beyond the points; no effect with "nearest".
        rescale: as for `LinearNDInterpolator`.

    Source: scipy.interpolate.griddata.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> interpolate.griddata([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0.0, 2.0, 4.0], [[0.25, 0.5]]).tolist()
        [2.5]
    """
    known, asked = points_of(points), points_of(xi)
    dimensions = 1 if known.ndim < 2 else known.shape[-1]
    if method not in ("nearest", "linear", "cubic"):
        raise ValueError(f"griddata takes method 'nearest', 'linear' or 'cubic', not {method!r}")
    if dimensions == 1:
        if isinstance(xi, tuple):
            if len(xi) != 1:
                raise ValueError(f"griddata takes points xi of 1 dimension, as its points, not {len(xi)}")
            asked = asked[..., 0]
        beyond = "extrapolate" if method == "nearest" else fill_value
        return interp1d(known.reshape((-1,)), values, method, axis=0, bounds_error=False, fill_value=beyond)(asked)
    if method == "nearest":
        return NearestNDInterpolator(known, values, rescale)(asked)
    if method == "linear":
        return LinearNDInterpolator(known, values, fill_value, rescale)(asked)
    return CloughTocher2DInterpolator(known, values, fill_value, rescale=rescale)(asked)
