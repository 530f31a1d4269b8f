"""Splines as sums of B-splines, differentiable by their coefficients, their knots, the data and the points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import double
from .periodic import middles_within, repeated_coefficients, repeated_knots
from .piecewise import check_as_many, over_periods, sorted_points

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "BSpline",
    "design_matrix",
    "is_curve",
    "make_interp_spline",
    "make_lsq_spline",
    "splantider",
    "splder",
    "splev",
    "tensor_product",
]


def _local_basis(t: Any, k: int, x: Any) -> tuple[Any, list[Any]]:
    """Return the intervals that points lie in, and the k + 1 B-splines that are not 0 there.

    Beyond the ends the polynomials of the first and last interval go on.

    Args:
        t: the knots, shape (n + k + 1,).
        k: the degree.
        x: the points.
    """
    knots = raw(t)
    place = np.clip(np.searchsorted(knots, raw(x), "right") - 1, k, knots.size - k - 2)
    basis: list[Any] = [x * 0 + 1]
    for degree in range(1, k + 1):
        following: list[Any] = []
        carried: Any = 0.0
        for j in range(degree):
            right, left = t[place + j + 1], t[place + j + 1 - degree]
            share = basis[j] / (right - left)
            following.append(carried + (right - x) * share)
            carried = (x - left) * share
        following.append(carried)
        basis = following
    return place, basis


def design_matrix(t: Array, k: int, x: Any) -> Any:
    """Return the values of all B-splines at points of shape (m,), shape (m, n)."""
    place, basis = _local_basis(t, k, x)
    unit = np.eye(t.shape[0] - k - 1)
    result: Any = 0.0
    for j, value in enumerate(basis):
        result = result + value[:, np.newaxis] * unit[place - k + j]
    return result


def _not_a_knot(x: Any, k: int) -> Any:
    """Return the knots of the spline through points that needs no conditions at its ends."""
    inner = x if k % 2 else (x[1:] + x[:-1]) / 2
    cut = (k + 1) // 2
    inner = inner[cut : inner.shape[0] - cut]
    return np.concatenate([np.broadcast_to(x[0], (k + 1,)), inner, np.broadcast_to(x[-1], (k + 1,))])


def _ends_repeated(x: Any, k: int) -> Any:
    return np.concatenate([np.broadcast_to(x[0], (k,)), x, np.broadcast_to(x[-1], (k,))])


@final
class BSpline:
    """A spline of given knots and coefficients.

    Args:
        t: the knots, shape (n + k + 1,), which do not decrease.
        c: the coefficients, with at least n elements along `axis`.
        k: the degree.
        extrapolate: whether the first and last polynomial go on beyond the base interval `t[k]` to `t[n]`; otherwise
            there is nan; or "periodic".
        axis: of `c`.

    Source: scipy.interpolate.BSpline; de Boor, 1978.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> interpolate.BSpline([0.0, 1.0, 2.0, 3.0], [2.0, 4.0], 1)([1.0, 1.5]).tolist()
        [2.0, 3.0]
    """

    __slots__ = ("axis", "c", "extrapolate", "k", "t")

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        knots, coefficients = double(t), double(c)
        if not isinstance(k, int | np.integer) or k < 0:
            raise ValueError(f"BSpline takes a degree k of at least 0, not {k!r}")
        axis = axis_index(axis, coefficients.ndim)
        count = knots.size - k - 1
        if knots.ndim != 1 or count < k + 1 or coefficients.shape[axis] < count:
            raise ValueError(
                f"BSpline of degree {k} takes knots t of shape (n + {k + 1},), n > {k}, and n coefficients along axis "
                f"{axis}, not shapes {knots.shape} and {coefficients.shape}"
            )
        if not np.isfinite(raw(knots)).all():
            raise ValueError("BSpline takes knots t without infinity and NaN")
        if (np.diff(raw(knots)) < 0).any() or not raw(knots)[count] > raw(knots)[k]:
            raise ValueError("BSpline takes knots t that do not decrease, and a base interval that is not empty")
        self.t: Any = knots
        self.k: int = int(k)
        self.extrapolate: Any = extrapolate
        self.axis: int = axis
        #: With the axis of the knots first.
        self.c: Any = np.moveaxis(coefficients, axis, 0)[:count]

    @property
    def tck(self) -> tuple[Any, Any, int]:
        """The knots, the coefficients and the degree."""
        return self.t, np.moveaxis(self.c, 0, self.axis) if self.axis else self.c, self.k

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Tensor:
        """Return the values at points, or those of a derivative.

        Args:
            x: points of any shape.
            nu: the order of the derivative.
            extrapolate: as the attribute; None for that.
        """
        if nu < 0:
            raise ValueError(
                f"BSpline has derivatives of order 0 on, not {nu}: for integrals, write antiderivative({-nu})"
            )
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        spline, points = self.derivative(nu) if nu else self, double(x)
        start, end = self.t[self.k], self.t[self.c.shape[0]]
        if isinstance(extrapolate, str) and extrapolate == "periodic":
            points = start + (points - start) % (end - start)
        flat = points.reshape((-1,))
        place, basis = _local_basis(spline.t, spline.k, flat)
        trailing = (1,) * (self.c.ndim - 1)
        result: Any = 0.0
        for j, value in enumerate(basis):
            result = result + value.reshape((-1, *trailing)) * spline.c[place - spline.k + j]
        if not extrapolate:
            is_outside = (raw(flat) < raw(start)) | (raw(flat) > raw(end))
            result = np.where(is_outside.reshape((-1, *trailing)), np.nan, result)
        result = result.reshape((*points.shape, *self.c.shape[1:]))
        axes = range(points.ndim, points.ndim + self.axis)
        return np.moveaxis(result, tuple(axes), tuple(range(self.axis))) if self.axis else result

    def _like(self, t: Any, c: Any, k: int, extrapolate: Any) -> BSpline:
        return BSpline(t, np.moveaxis(c, 0, self.axis) if self.axis else c, k, extrapolate, self.axis)

    def derivative(self, nu: int = 1) -> BSpline:
        """Return the spline that is the derivative of order `nu`."""
        spline = self
        for _ in range(nu):
            t, c, k = spline.t, spline.c, spline.k
            if k == 0:
                return spline._like(t, c * 0, 0, self.extrapolate)
            widths = (t[k + 1 : -1] - t[1 : -k - 1]).reshape((-1,) + (1,) * (c.ndim - 1))
            is_empty = raw(widths) == 0
            # Coefficients between knots that coincide count for nothing.
            slopes = k * (c[1:] - c[:-1]) / np.where(is_empty, 1.0, widths)
            slopes = np.where(is_empty, 0.0, slopes) if is_empty.any() else slopes
            spline = spline._like(t[1:-1], slopes, k - 1, self.extrapolate)
        return spline

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return the spline whose derivative of order `nu` is this one, and which is 0 at the first knot.

        That of a periodic one is not periodic: it has no value beyond the ends.
        """
        spline, extrapolate = self, self.extrapolate if self.extrapolate != "periodic" else False
        for _ in range(nu):
            t, c, k = spline.t, spline.c, spline.k
            widths = (t[k + 1 :] - t[: -k - 1]).reshape((-1,) + (1,) * (c.ndim - 1))
            sums = np.cumsum(c * widths, 0) / (k + 1)
            zero = np.zeros((1, *c.shape[1:]), sums.dtype)
            knots = np.concatenate([t[:1], t, t[-1:]])
            spline = spline._like(knots, np.concatenate([zero, sums]), k + 1, extrapolate)
        return spline

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Tensor:
        """Return the integral from `a` to `b`; without extrapolation, of what lies in the base interval."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        start, end = self.t[self.k], self.t[self.c.shape[0]]
        if isinstance(extrapolate, str):
            return over_periods(self.antiderivative(), a, b, start, end)
        a, b = double(a), double(b)
        if not extrapolate:
            a, b = (np.minimum(np.maximum(limit, start), end) for limit in (a, b))
        whole = self.antiderivative()
        return whole(b, extrapolate=True) - whole(a, extrapolate=True)


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True
) -> BSpline:
    """Return the spline of degree `k` through points.

    Args:
        x: the points, shape (n,), increasing.
        y: the values, with n elements along `axis`.
        k: the degree.
        t: the knots, or None for those that the conditions lead to.
        bc_type: None for "not-a-knot"; "periodic", for values whose first and last are the same; "natural", "clamped",
            or a pair for both ends of such names, None, or lists of pairs (order of the derivative, its value).
        axis: of `y`.
        check_finite: whether an infinite number or nan is an error.

    Source: scipy.interpolate.make_interp_spline.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> interpolate.make_interp_spline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])(1.5).item()
        3.375
    """
    name = "make_interp_spline"
    points, values = sorted_points(name, x), double(y)
    axis = axis_index(axis, values.ndim)
    check_as_many(name, points, values, axis)
    values = np.moveaxis(values, axis, 0)
    if check_finite and not (np.isfinite(raw(points)).all() and np.isfinite(raw(values)).all()):
        raise ValueError(f"{name} takes finite numbers: leave out others, or write check_finite=False")
    if isinstance(bc_type, str) and bc_type == "periodic":
        if not np.allclose(raw(values)[0], raw(values)[-1], atol=1e-15):
            raise ValueError(f"{name} with bc_type='periodic' takes values whose first and last are the same")
        if k > 1 and t is not None:
            raise ArgumentError(f"{name} with bc_type='periodic' has knots of its own: write t=None")
        if k > 1:
            return _periodic(points, values, k, axis)
        bc_type = None
    start, end = _conditions(name, bc_type)
    if t is not None:
        knots = double(t)
    elif k == 0:
        knots = np.concatenate([points, points[-1:]])
    elif k == 1 or start or end:
        knots = _ends_repeated(points, k)
    else:
        knots = _not_a_knot(points, k)
    count = knots.shape[0] - k - 1
    if points.size + len(start) + len(end) != count:
        raise ValueError(
            f"{name} of degree {k} with {knots.shape[0]} knots needs {count} points and conditions at the ends, not "
            f"{points.size} and {len(start) + len(end)}"
        )
    if k == 0:
        return BSpline(knots, np.moveaxis(values, 0, axis), k, True, axis)
    c = _solved(knots, k, points, values, (start, end))
    return BSpline(knots, np.moveaxis(c, 0, axis) if axis else c, k, True, axis)


def _periodic(points: Any, values: Array, k: int, axis: int) -> BSpline:
    """Return the periodic spline of degree `k` through points, the last of which is the first, a period later."""
    knots = repeated_knots(points if k % 2 else middles_within(points), k)
    unfold = repeated_coefficients(points.size - 1, k)
    free = np.linalg.solve(design_matrix(knots, k, points[:-1]) @ unfold, values[:-1].reshape((points.size - 1, -1)))
    c = (unfold @ free).reshape((unfold.shape[0], *values.shape[1:]))
    return BSpline(knots, np.moveaxis(c, 0, axis) if axis else c, k, "periodic", axis)


def make_lsq_spline(
    x: Any, y: Any, t: Any, k: int = 3, w: Any = None, axis: int = 0, check_finite: bool = True, *, method: str = "qr"
) -> BSpline:
    """Return the spline of given knots with the least sum of squared weighted residuals.

    Args:
        x: the points, shape (m,), which do not decrease.
        y: the values, with m elements along `axis`.
        t: the knots, shape (n + k + 1,), of which the first and last k + 1 are usually the ends.
        k: the degree.
        w: the weights, shape (m,), or None for ones.
        axis: of `y`.
        check_finite: whether an infinite number or nan is an error.
        method: "qr" or "norm-eq"; both give the same here.

    Raises:
        ValueError: a point lies beyond the knots' ends, or the arguments do not fit each other.

    Source: scipy.interpolate.make_lsq_spline.

    Example:
        >>> from asyncgrad.scipy import interpolate
        >>> interpolate.make_lsq_spline([0.0, 1.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 2.0, 2.0], 1)(1.0).round(6).item()
        1.0
    """
    name = "make_lsq_spline"
    points, values, knots = double(x), double(y), double(t)
    weights = np.ones(points.shape) if w is None else double(w)
    axis = axis_index(axis, values.ndim)
    if points.ndim != 1 or weights.shape != points.shape:
        raise ValueError(f"{name} takes x and w of shape (m,), not {points.shape} and {weights.shape}")
    check_as_many(name, points, values, axis)
    if method not in ("qr", "norm-eq"):
        raise ValueError(f"{name} takes for method 'qr' or 'norm-eq', not {method!r}")
    if check_finite and not all(np.isfinite(raw(one)).all() for one in (points, values, knots, weights)):
        raise ValueError(f"{name} takes finite numbers: leave out others, or write check_finite=False")
    if (np.diff(raw(points)) < 0).any():
        raise ValueError(f"{name} takes points x that do not decrease")
    count = knots.shape[0] - k - 1 if knots.ndim == 1 else 0
    if points.size < k + 1 or count < k + 1:
        raise ValueError(
            f"{name} of degree {k} takes at least {k + 1} points and {2 * k + 2} knots t, not shapes {points.shape} "
            f"and {knots.shape}"
        )
    start, end = raw(knots)[k], raw(knots)[count]
    if (raw(points) < start).any() or (raw(points) > end).any():
        raise ValueError(f"{name} takes points from {start} to {end}, between the knots t[k] and t[-k - 1]")
    values = np.moveaxis(values, axis, 0)
    matrix = design_matrix(knots, k, points) * weights[:, np.newaxis]
    right = values.reshape((points.size, -1)) * weights[:, np.newaxis]
    c = np.linalg.lstsq(matrix, right, None)[0].reshape((count, *values.shape[1:]))
    return BSpline(knots, np.moveaxis(c, 0, axis) if axis else c, k, True, axis)


def _solved(knots: Array, k: int, points: Any, values: Array, conditions: tuple[list[Any], list[Any]]) -> Any:
    """Return the coefficients of the spline through points that meets conditions at both ends."""
    count, trailing = knots.shape[0] - k - 1, values.shape[1:]
    rows, given = [], []
    basis = BSpline(knots, np.eye(count), k)
    for at_end, end_point in zip(conditions, (points[:1], points[-1:]), strict=True):
        rows.append([basis(end_point, order) for order, _ in at_end])
        given.append([np.broadcast_to(double(value), trailing).reshape((1, -1)) for _, value in at_end])
    matrix = np.concatenate([*rows[0], design_matrix(knots, k, points), *rows[1]])
    right = np.concatenate([*given[0], values.reshape((points.size, -1)), *given[1]])
    return np.linalg.solve(matrix, right).reshape((count, *trailing))


def _conditions(name: str, bc_type: Any) -> tuple[list[Any], list[Any]]:
    both = (bc_type, bc_type) if bc_type is None or isinstance(bc_type, str) else tuple(bc_type)
    known: dict[Any, list[Any]] = {None: [], "not-a-knot": [], "natural": [(2, 0.0)], "clamped": [(1, 0.0)]}
    found: list[list[Any]] = []
    for condition in both:
        if condition is None or isinstance(condition, str):
            if condition not in known:
                raise ValueError(
                    f"{name} takes bc_type None, 'not-a-knot', 'natural' or 'clamped', or lists of derivatives, not "
                    f"{condition!r}"
                )
            found.append(known[condition])
        else:
            found.append([tuple(pair) for pair in condition])
    if len(found) != 2:
        raise ValueError(f"{name} takes bc_type with conditions for both ends, not {bc_type!r}")
    return found[0], found[1]


def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """Return the values of a spline, or those of a derivative.

    Args:
        x: points of any shape.
        tck: the knots, the coefficients and the degree; or a BSpline. Of a list of coefficients, one of each
            coordinate of a curve, the result is a list.
        der: the order of the derivative.
        ext: for points beyond the ends: 0 to extrapolate, 1 for 0, 2 for an error, 3 for the value at the end, and for
            derivatives as 0.

    Raises:
        ValueError: `ext` is none of these, or it is 2, and a point lies beyond the ends.

    Source: scipy.interpolate.splev.
    """
    t, c, k = getattr(tck, "tck", tck)
    if ext not in (0, 1, 2, 3):
        raise ValueError(f"splev takes ext 0, 1, 2 or 3, not {ext!r}")
    if hasattr(tck, "tck") or not is_curve(c):
        return _splev(x, BSpline(t, c, k), der, ext)
    # One of each coordinate of a curve.
    return [splev(x, (t, one, k), der, ext) for one in c]


def splder(tck: Any, n: int = 1) -> Any:
    """Return the spline that is the derivative of order `n` of another, in the form in which that is given.

    Args:
        tck: the knots, the coefficients and the degree; or a BSpline.
        n: the order, up to the degree; that of an antiderivative if it is below 0.

    Raises:
        ValueError: the order is above the degree.

    Source: scipy.interpolate.splder.
    """
    if n < 0:
        return splantider(tck, -n)
    if hasattr(tck, "tck"):
        return tck.derivative(n)
    t, c, k = tck
    if n > k:
        raise ValueError(f"splder takes an order n up to the degree, {k}, not {n}")
    if not n:
        return double(t), double(c), k
    t, c, k = BSpline(t, c, k).derivative(n).tck
    return t, np.concatenate([c, np.zeros((k + 1, *c.shape[1:]))]), k


def splantider(tck: Any, n: int = 1) -> Any:
    """Return the spline whose derivative of order `n` another is, as `splder` does; it is 0 at the first knot.

    Source: scipy.interpolate.splantider.
    """
    if n < 0:
        return splder(tck, -n)
    if hasattr(tck, "tck"):
        return tck.antiderivative(n)
    t, c, k = tck
    if not n:
        # What lies beyond the coefficients stays, too.
        return double(t), double(c), k
    t, c, k = BSpline(t, c, k).antiderivative(n).tck
    return t, np.concatenate([c, np.broadcast_to(c[-1], (k + 1, *c.shape[1:]))]), k


def is_curve(c: Any) -> bool:
    """Tell whether coefficients are those of the coordinates of a curve."""
    first = c[0] if isinstance(c, (list, tuple)) else c
    return np.ndim(first) > (0 if isinstance(c, (list, tuple)) else 1)


def _splev(x: Any, spline: BSpline, der: int, ext: int) -> Tensor:
    points, k = double(x), spline.k
    start, end = raw(spline.t)[k], raw(spline.t)[-k - 1]
    is_outside = (raw(points) < start) | (raw(points) > end)
    if not 0 <= der <= k:
        raise ValueError(f"splev takes a derivative from 0 to the degree, {k}, not {der}")
    if ext == 2 and is_outside.any():
        raise ValueError(f"splev: {raw(points)[is_outside][0]} lies beyond the ends, {start} to {end}")
    # Derivatives go on beyond the ends, as SciPy's do.
    if ext == 3 and not der:
        points = np.minimum(np.maximum(points, spline.t[k]), spline.t[spline.c.shape[0]])
    found = spline(points, der)
    return np.where(is_outside, 0.0, found) if ext == 1 else asarray(found)


def tensor_product(grid: Sequence[Any], values: Any, k: int, points: Array, orders: Sequence[int]) -> Any:
    """Return the values at points of the tensor product of splines through values on a grid, or of a derivative.

    Args:
        grid: the coordinates along each axis.
        values: those on the grid.
        k: the degree of the splines.
        points: shape (..., d).
        orders: of the derivative, by each coordinate.
    """
    c, places, bases = double(values), [], []
    for axis, coordinates in enumerate(grid):
        knots = _ends_repeated(coordinates, 1) if k == 1 else _not_a_knot(coordinates, k)
        moved = np.moveaxis(c, axis, 0)
        solved = np.linalg.solve(design_matrix(knots, k, coordinates), moved.reshape((moved.shape[0], -1)))
        spline = BSpline(knots, np.moveaxis(solved.reshape(moved.shape), 0, axis), k, axis=axis)
        knots, c, degree = spline.derivative(orders[axis]).tck
        place, basis = _local_basis(knots, degree, points[..., axis].reshape((-1,)))
        places.append(place[:, np.newaxis] + np.arange(-degree, 1))
        bases.append(np.stack(basis, -1))
    count = len(grid)
    index = tuple(
        place.reshape((-1, *(1,) * axis, place.shape[1], *(1,) * (count - 1 - axis)))
        for axis, place in enumerate(places)
    )
    found = c[index]
    for weights in bases:
        # The first of the remaining axes of neighbours.
        found = np.sum(found * weights.reshape((*weights.shape, *(1,) * (found.ndim - 2))), 1)
    return found.reshape((*points.shape[:-1], *values.shape[count:]))
