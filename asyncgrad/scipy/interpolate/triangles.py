"""Interpolation on the triangles, or their like in more dimensions, between points that lie anywhere."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import spatial

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ..arguments import double, floating
from ..sparse import coo_array
from ..sparse.linalg import spsolve

__all__ = ["CloughTocher2DInterpolator", "LinearNDInterpolator", "asked_points", "checked_data", "points_of"]


def points_of(points: Any) -> Any:
    """Return points as one array, shape (n, d), or (n,)."""
    if isinstance(points, tuple):
        return np.stack(np.broadcast_arrays(*map(double, points)), -1)
    return double(points)


def checked_data(name: str, points: Any, values: Any) -> tuple[Any, Any]:
    """Return points, shape (n, d), and values, of which complex ones stay as narrow as they are.

    Raises:
        ValueError: there are not as many values as points.
    """
    points, values = points_of(points), floating(values)
    values = values if values.dtype.kind == "c" else double(values)
    if points.ndim == 1:
        points = points[:, np.newaxis]
    if points.ndim != 2 or not values.ndim or values.shape[0] != points.shape[0]:
        raise ValueError(
            f"{name} takes points of shape (n, d) and values of shape (n, ...), not {points.shape} and {values.shape}"
        )
    return points, values


def asked_points(points: Any, count: int) -> Any:
    """Return where to interpolate, shape (..., d)."""
    are_coordinates = isinstance(points, tuple) and len(points) > 1
    points = points_of(points if are_coordinates else points[0] if isinstance(points, tuple) else points)
    if points.ndim < 2 and not are_coordinates:
        points = points.reshape((-1, 1) if count == 1 else (1, -1)) if points.ndim else points.reshape((1,))
    if points.shape[-1] != count:
        raise ValueError(f"the points must have {count} coordinates along their last axis, not {points.shape[-1]}")
    return points


def _barycentric(vertices: Any, points: Any) -> Any:
    """Return the shares of each vertex, shape (..., d + 1, d), in a point, shape (..., d)."""
    sides = (vertices[..., :-1, :] - vertices[..., -1:, :]).mT
    shares = np.linalg.solve(sides, (points - vertices[..., -1, :])[..., np.newaxis])[..., 0]
    return np.concatenate([shares, 1 - np.sum(shares, -1, keepdims=True)], -1)


@final
class LinearNDInterpolator:
    """A function that is linear on each of the triangles, or their like, between points.

    Args:
        points: shape (n, d), d > 1.
        values: shape (n, ...).
        fill_value: the value beyond the points.
        rescale: whether coordinates are brought to one unit before triangles are chosen.

    Source: scipy.interpolate.LinearNDInterpolator.
    """

    __slots__ = ("_scale", "_triangles", "fill_value", "points", "values")

    def __init__(self, points: Any, values: Any, fill_value: Any = np.nan, rescale: bool = False) -> None:
        self.points, self.values = checked_data("LinearNDInterpolator", points, values)
        self.fill_value: Any = fill_value
        self._scale: Any = np.ptp(raw(self.points), axis=0) if rescale else np.ones(self.points.shape[1])
        self._triangles: Any = spatial.Delaunay(raw(self.points) / self._scale)

    def __call__(self, *xi: Any) -> Tensor:
        """Return the values at points, shape (..., d), of shape (...)."""
        asked = asked_points(xi, self.points.shape[1])
        flat = asked.reshape((-1, asked.shape[-1]))
        places = self._triangles.find_simplex(raw(flat) / self._scale)
        corners = self._triangles.simplices[np.maximum(places, 0)]
        weights = _barycentric(self.points[corners], flat)
        values = self.values[corners]
        result = np.sum(weights.reshape((*weights.shape, *(1,) * (values.ndim - 2))) * values, 1)
        is_outside = (places < 0).reshape((-1, *(1,) * (values.ndim - 2)))
        if is_outside.any():
            result = np.where(is_outside, self.fill_value, result)
        return result.reshape((*asked.shape[:-1], *self.values.shape[1:]))


@final
class CloughTocher2DInterpolator:
    """A function with continuous slopes that is piecewise cubic on the triangles between points.

    The slopes at the points are those of least curvature along all edges. They are solved for, where SciPy's search
    ends within `tol`.

    Args:
        points: shape (n, 2).
        values: shape (n, ...).
        fill_value: the value beyond the points.
        tol: of no effect.
        maxiter: of no effect.
        rescale: whether coordinates are brought to one unit before triangles are chosen.

    Source: scipy.interpolate.CloughTocher2DInterpolator; Alfeld, A trivariate Clough-Tocher scheme for tetrahedral
    data, 1984; Nielson, A method for interpolating scattered data based upon a minimum norm network, 1983.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
        >>> interpolate.CloughTocher2DInterpolator(corners, [0.0, 2.0, 4.0, 6.0])([[0.25, 0.5]]).round(6).tolist()
        [2.5]
    """

    __slots__ = ("_scale", "_slopes", "_triangles", "fill_value", "points", "values")

    def __init__(
        self,
        points: Any,
        values: Any,
        fill_value: Any = np.nan,
        tol: float = 1e-6,
        maxiter: int = 400,
        rescale: bool = False,
    ) -> None:
        self.points, self.values = checked_data("CloughTocher2DInterpolator", points, values)
        if self.points.shape[1] != 2:
            raise ValueError(f"CloughTocher2DInterpolator takes points of shape (n, 2), not {self.points.shape}")
        self.fill_value: Any = fill_value
        self._scale: Any = np.max(self.points, 0) - np.min(self.points, 0) if rescale else np.ones(2)
        self._triangles: Any = spatial.Delaunay(raw(self.points) / raw(self._scale))
        #: By the coordinates in units of the scale.
        self._slopes: Any = _smoothest_slopes(
            self._triangles, self.points / self._scale, double(self.values.reshape((self.values.shape[0], -1)))
        )

    def __call__(self, *xi: Any) -> Tensor:
        """Return the values at points, shape (..., 2), of shape (...)."""
        asked = asked_points(xi, 2)
        flat, points = asked.reshape((-1, 2)) / self._scale, self.points / self._scale
        places = self._triangles.find_simplex(raw(flat))
        triangles = np.maximum(places, 0)
        corners = self._triangles.simplices[triangles]
        vertices = points[corners]
        beside = self._triangles.neighbors[triangles]
        centers = np.mean(points[self._triangles.simplices[beside]], 2)
        values = self.values.reshape((self.values.shape[0], -1))
        result = _cubic_on_triangles(
            _barycentric(vertices, flat),
            vertices,
            values[corners],
            self._slopes[corners],
            _directions(_barycentric(vertices[:, np.newaxis], centers), beside < 0),
        )
        is_outside = places < 0
        if is_outside.any():
            result = np.where(is_outside[:, np.newaxis], self.fill_value, result)
        return result.reshape((*asked.shape[:-1], *self.values.shape[1:]))


def _smoothest_slopes(triangles: Any, points: Any, values: Any) -> Any:
    """Return the slopes at the points, shape (n, 2, m), for which cubics along the edges bend least.

    Of each edge from i to j, with the vector e, the slopes y and the values f satisfy, summed over the edges of i:
    `e (e @ (2 y[i] + y[j])) / |e|**3 = 3 e (f[j] - f[i]) / |e|**3`.
    """
    starts, ends = triangles.vertex_neighbor_vertices
    count = points.shape[0]
    first = np.repeat(np.arange(count), np.diff(starts))
    edges = points[ends] - points[first]
    weighted = edges / np.sum(edges**2, 1, keepdims=True) ** 1.5
    row, column = 2 * first[:, np.newaxis, np.newaxis] + np.array([[0], [1]]), np.array([0, 1])
    products = weighted[:, :, np.newaxis] * edges[:, np.newaxis]
    places = [np.broadcast_arrays(row, 2 * one[:, np.newaxis, np.newaxis] + column) for one in (first, ends)]
    rows, columns = (np.stack(parts).reshape(-1) for parts in zip(*places, strict=True))
    data = np.stack([2 * products, products]).reshape((-1,))
    matrix = coo_array((data, (rows, columns)), shape=(2 * count, 2 * count)).tocsc()
    steps = (values[ends] - values[first])[:, np.newaxis]
    moments = (3 * weighted[:, :, np.newaxis] * steps).reshape((-1, values.shape[1]))
    which = (2 * first[:, np.newaxis] + np.array([0, 1])).reshape(-1)
    sums = coo_array((np.ones(which.size), (which, np.arange(which.size))), shape=(2 * count, which.size)).tocsr()
    return spsolve(matrix, sums @ moments).reshape((count, 2, values.shape[1]))


def _directions(centers: Any, is_border: Any) -> Any:
    """Return for each side in which direction the slope across it is linear: to the center of the triangle beyond.

    Args:
        centers: those centers, as shares of the vertices, shape (q, 3, 3).
        is_border: where there is no triangle beyond.
    """
    sides = np.arange(3)
    after, before = centers[:, sides, (sides + 1) % 3], centers[:, sides, (sides + 2) % 3]
    divisor = np.where(is_border, 1.0, 2 - 3 * before - 3 * after)
    return np.where(is_border, -0.5, (2 * before + after - 1) / divisor)[..., np.newaxis]


def _cubic_on_triangles(shares: Any, vertices: Any, f: Any, slopes: Any, directions: Any) -> Any:
    """Return the values of cubic polynomials on the three parts of each triangle, which meet at its center.

    Args:
        shares: of the vertices in each point, shape (q, 3).
        vertices: shape (q, 3, 2).
        f: the values at them, shape (q, 3, m).
        slopes: those there, shape (q, 3, 2, m).
        directions: see `_directions`.
    """
    after, before = np.array([1, 2, 0]), np.array([2, 0, 1])
    # Coefficients of Bernstein's polynomials, by vertex: on both edges, towards the center, and by opposite side.
    to_after, to_before = (
        f + np.sum((vertices[:, other] - vertices)[..., np.newaxis] * slopes, 2) / 3 for other in (after, before)
    )
    inner = (f + to_after + to_before) / 3
    start, end, near, far = f[:, after], f[:, before], to_after[:, after], to_before[:, before]
    bend = directions * (end - start + 3 * (near - far))
    sides = (bend - start + 2 * near - far + inner[:, after] + inner[:, before]) / 2
    deep = (np.sum(sides, 1, keepdims=True) - sides + inner) / 3
    least = np.min(shares, 1, keepdims=True)
    b, center = (shares - least)[..., np.newaxis], 3 * least[..., np.newaxis]
    terms = (
        b**2 * (b * f + 3 * (b[:, after] * to_after + b[:, before] * to_before + center * inner))
        + 3 * b * center**2 * deep
        + 6 * b[:, after] * b[:, before] * center * sides
    )
    return np.sum(terms, 1) + center[:, 0] ** 3 * np.mean(deep, 1)
