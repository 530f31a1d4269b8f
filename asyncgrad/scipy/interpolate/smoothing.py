"""Splines near points, or through them, whose knots FITPACK chooses.

They are differentiable by the data, as long as it chooses the same.
The coefficients minimize the sum of squared jumps of the highest derivative, among those that leave a given sum of
squared residuals. So they solve a linear system with one factor, which is where that sum is what is given.

Source: Dierckx, Curve and Surface Fitting with Splines, 1993.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import interpolate as scipy_interpolate
from scipy import optimize

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import double
from .bsplines import BSpline, design_matrix, is_curve, not_a_knot, splev
from .periodic import repeated_coefficients, repeated_knots

if TYPE_CHECKING:
    pass


__all__ = [
    "InterpolatedUnivariateSpline",
    "LSQUnivariateSpline",
    "RectBivariateSpline",
    "UnivariateSpline",
    "splint",
    "splprep",
    "splrep",
]


def _knots(t: Any, x: Any, given: Any) -> Any:
    """Return the knots that FITPACK has chosen, which are some of the points, or lie in the middle of two of them.

    Args:
        t: the knots, an array.
        x: the points.
        given: other knots, which stay as they are given; or None.
    """
    k = int(np.sum(t == t[0])) - 1
    if given is not None:
        inner = double(given)
        return np.concatenate([_chosen(t[: k + 1], x), inner, _chosen(t[t.size - k - 1 :], x)])
    return _chosen(t, x)


def _chosen(t: Any, x: Any) -> Any:
    middles = (x[1:] + x[:-1]) / 2
    result: Any = asarray(t)
    for some in (middles, x):
        places = np.clip(np.searchsorted(raw(some), t), 0, raw(some).size - 1)
        is_one = raw(some)[places] == t
        if is_one.any():
            result = np.where(is_one, some[places], result)
    return result


def _fitted(t: Any, k: int, x: Any, y: Any, w: Any, residual: float, unfold: Any = None) -> Any:
    """Return the coefficients, shape (n, d), of the spline of given knots near points.

    Args:
        t: the knots.
        k: the degree.
        x: the points, shape (m,).
        y: the values, shape (m, d).
        w: the weights, shape (m,).
        residual: the sum of squared weighted residuals.
        unfold: the matrix that makes all coefficients of those of one period; None for a spline that is not periodic.
    """
    if unfold is not None:
        return unfold @ _solved(design_matrix(t, k, x) @ unfold, (t, k, unfold), y, w, residual, 1)
    matrix = design_matrix(t, k, x)
    return _solved(matrix, (t, k, np.eye(matrix.shape[1])), y, w, residual, k + 1)


def _solved(matrix: Any, basis: tuple[Any, int, Any], y: Any, w: Any, residual: float, fewest: int) -> Any:
    """Return the coefficients of a fit.

    Args:
        matrix: the values of a basis of splines at the points.
        basis: the knots, the degree and the coefficients of these splines.
        y: as for `_fitted`.
        w: as for `_fitted`.
        residual: as for `_fitted`.
        fewest: with so many coefficients there is nothing to be smoothed.
    """
    rows, columns = matrix.shape
    if rows == columns and not residual:
        return np.linalg.solve(matrix, y)
    matrix, right = matrix * w[:, np.newaxis], y * w[:, np.newaxis]
    nearest = np.linalg.lstsq(matrix, right, None)[0]
    smallest = float(np.sum(raw(matrix @ nearest - right) ** 2))
    if columns <= fewest or residual <= smallest * (1 + 1e-9) + 1e-300:
        return nearest
    t, k, c = basis
    jumps = np.diff(BSpline(t, c, k).derivative(k).c, axis=0)
    normal, rough, moments = matrix.T @ matrix, jumps.T @ jumps, matrix.T @ right
    factor = asarray(_factor([raw(one) for one in (matrix, right, normal, rough, moments)], residual))
    # Each step of Newton's doubles the order up to which derivatives are right.
    for _ in range(2):
        c = np.linalg.solve(normal + factor * rough, moments)
        slope = -np.linalg.solve(normal + factor * rough, rough @ c)
        rest = matrix @ c - right
        factor = factor - (np.sum(rest**2) - residual) / (2 * np.sum(rest * (matrix @ slope)))
    return np.linalg.solve(normal + factor * rough, moments)


def _curve(
    is_periodic: bool, knots: Any, k: int, x: Any, y: Any, w: Any, inner: Any, residual: float
) -> tuple[Any, Any]:
    """Return the knots and the coefficients of what FITPACK has fitted.

    Args:
        is_periodic: whether it repeats itself.
        knots: FITPACK's, an array.
        k: as for `_fitted`.
        x: as for `_fitted`.
        y: as for `_fitted`.
        w: as for `_fitted`.
        inner: the knots within, if they were given; or None.
        residual: as for `_fitted`.
    """
    if not is_periodic:
        made = _knots(knots, x, inner)
        return made, _fitted(made, k, x, y, w, residual)
    period = knots[k : knots.size - k]
    within = _chosen(period[1:-1], x) if inner is None else double(inner)
    made = repeated_knots(np.concatenate([x[:1], within, x[-1:]]), k)
    # The last point is the first one, a period later.
    return made, _fitted(made, k, x[:-1], y[:-1], w[:-1], residual, repeated_coefficients(period.size - 1, k))


def _factor(system: list[Any], residual: float) -> float:
    """Return the weight of jumps with which the sum of squared residuals is as given."""
    matrix, right, normal, rough, moments = system
    scale = np.trace(normal) / max(np.trace(rough), 1e-300)

    def excess(log_factor: float) -> float:
        c = np.linalg.solve(normal + scale * np.exp(log_factor) * rough, moments)
        return float(np.log(np.sum((matrix @ c - right) ** 2) / residual))

    low, high = -30.0, 20.0
    if excess(low) >= 0 or excess(high) <= 0:
        low, high = -60.0, 60.0
    return float(scale * np.exp(optimize.brentq(excess, low, high, xtol=1e-13, rtol=1e-14)))


def _data(name: str, x: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
    x, y = double(x), double(y)
    w = asarray(np.ones(raw(x).size)) if w is None else double(w)
    if x.ndim != 1 or y.shape != x.shape or w.shape != x.shape:
        raise ValueError(f"{name} takes x, y and w of one shape (m,), not {x.shape}, {y.shape} and {w.shape}")
    return x, y, w


def splrep(
    x: Any,
    y: Any,
    w: Any = None,
    xb: Any = None,
    xe: Any = None,
    k: int = 3,
    task: int = 0,
    s: Any = None,
    t: Any = None,
    full_output: int = 0,
    per: int = 0,
    quiet: int = 1,
) -> Any:
    """Return the knots, the coefficients and the degree of a spline near points, for `splev`.

    Args:
        x: the points, shape (m,), increasing.
        y: the values, shape (m,).
        w: the weights, shape (m,), or None for ones.
        xb: where the spline begins; None for the first point.
        xe: where it ends; None for the last point.
        k: the degree, 1 to 5.
        task: 0, or -1 for least squares with the knots `t`.
        s: the sum of squared weighted residuals, at most; None for 0, or with weights for `m - sqrt(2 m)`.
        t: the knots within, for `task=-1`.
        full_output: whether to return the residual, a flag and a message, too.
        per: whether the spline is periodic: the last value counts as the first one.
        quiet: of no effect.

    Raises:
        ValueError: FITPACK refuses the data.

    Source: scipy.interpolate.splrep.
    """
    if task == 1:
        raise ArgumentError("asyncgrad's splrep keeps no knots for task=1: write task=0 with the new s")
    x, y, weights = _data("splrep", x, y, w)
    plain: dict[str, Any] = {"xb": xb, "xe": xe, "t": t}
    plain = {key: None if one is None else raw(asarray(one)) for key, one in plain.items()}
    given = None if w is None else raw(weights)
    options: dict[str, Any] = {"k": k, "task": -1 if t is not None else task, "s": s, "full_output": 1, "quiet": 1}
    found = scipy_interpolate.splrep(raw(x), raw(y), given, **plain, **options, per=per)
    (knots, _, _), residual, flag, message = found
    made, c = _curve(bool(per), knots, k, x, y[:, np.newaxis], weights, t, float(residual))
    c = c[:, 0]
    tck = made, np.concatenate([c, np.zeros(k + 1)]), k
    return (tck, residual, flag, message) if full_output else tck


def splprep(
    x: Any,
    w: Any = None,
    u: Any = None,
    ub: Any = None,
    ue: Any = None,
    k: int = 3,
    task: int = 0,
    s: Any = None,
    t: Any = None,
    full_output: int = 0,
    nest: Any = None,
    per: int = 0,
    quiet: int = 1,
) -> Any:
    """Return a spline near the points of a curve, for `splev`, and the parameters of the points.

    Args:
        x: a list of arrays of shape (m,): the coordinates.
        w: the weights, shape (m,), or None for ones.
        u: the parameters of the points, increasing; None for the lengths of the chords, from 0 to 1.
        ub: the parameter where the curve begins; None for the first.
        ue: the parameter where it ends; None for the last.
        k: as for `splrep`.
        task: as for `splrep`.
        s: as for `splrep`; None for `m - sqrt(2 m)`.
        t: the knots for `task=-1`, both ends k + 1 times.
        full_output: as for `splrep`.
        nest: as SciPy's.
        per: whether the curve is closed: the last point counts as the first one.
        quiet: of no effect.

    Source: scipy.interpolate.splprep.
    """
    if task == 1:
        raise ArgumentError("asyncgrad's splprep keeps no knots for task=1: write task=0 with the new s")
    curve = np.stack([double(one) for one in x], -1)
    if per:
        curve = np.concatenate([curve[:-1], curve[:1]])
    if u is None:
        lengths = np.cumsum(np.sqrt(np.sum(np.diff(curve, axis=0) ** 2, 1)))
        u = np.concatenate([np.zeros(1), lengths / lengths[-1]])
    u = double(u)
    weights = asarray(np.ones(raw(u).size)) if w is None else double(w)
    plain: dict[str, Any] = {"w": w, "ub": ub, "ue": ue, "t": t}
    plain = {key: None if one is None else raw(asarray(one)) for key, one in plain.items()}
    options: dict[str, Any] = {"k": k, "task": -1 if t is not None else task, "s": s, "nest": nest}
    (tck, _), residual, flag, message = scipy_interpolate.splprep(
        list(raw(curve).T), u=raw(u), **plain, **options, full_output=1, per=per, quiet=1
    )
    inner = None if t is None else double(t)[k + 1 : -k - 1]
    made, c = _curve(bool(per), tck[0], k, u, curve, weights, inner, float(residual))
    found = ([made, [c[:, axis] for axis in range(c.shape[1])], k], u)
    return (found, residual, flag, message) if full_output else found


def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    """Return the integral of a spline, which is 0 beyond its ends, from `a` to `b`.

    Args:
        a: where to begin.
        b: where to end.
        tck: the knots, the coefficients and the degree; or a BSpline. Of a list of coefficients, one of each
            coordinate of a curve, the result is a list.
        full_output: 0 alone.

    Source: scipy.interpolate.splint.
    """
    if full_output:
        raise ArgumentError("asyncgrad's splint returns the integral alone: write full_output=0")
    t, c, k = getattr(tck, "tck", tck)
    if not hasattr(tck, "tck") and is_curve(c):
        return [splint(a, b, (t, one, k)) for one in c]
    return BSpline(t, c, k).integrate(a, b, extrapolate=False)


#: By SciPy's words for what is beyond the ends, those of `splev`.
_BEYOND = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}


class FittedSpline:
    """Abstract: a spline near points, or through them; how its knots are chosen differs."""

    __slots__ = ("_residual", "_spline", "ext")

    def _fit(
        self, x: Any, y: Any, w: Any, bbox: Any, k: int, ext: Any, check_finite: bool, s: Any = None, t: Any = None
    ) -> None:
        self.ext: int = _BEYOND.get(ext, ext)
        if self.ext not in (0, 1, 2, 3):
            raise ValueError(f"UnivariateSpline takes ext 0, 1, 2, 3, or {', '.join(map(repr, _BEYOND))}, not {ext!r}")
        x, y, weights = _data("UnivariateSpline", x, y, w)
        ends = [None if one is None else float(raw(asarray(one))) for one in bbox]
        given: Any = {"w": None if w is None else raw(weights), "bbox": ends, "k": k, "check_finite": check_finite}
        if t is None:
            made = scipy_interpolate.UnivariateSpline(raw(x), raw(y), s=s, **given)
        else:
            made = scipy_interpolate.LSQUnivariateSpline(raw(x), raw(y), raw(double(t)), **given)
        self._residual: float = float(made.get_residual())
        knots = _knots(made._eval_args[0], x, t)
        c = _fitted(knots, k, x, y[:, np.newaxis], weights, self._residual)[:, 0]
        self._spline: Any = BSpline(knots, c, k)

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Tensor:
        """Return the values at points of any shape, or those of a derivative.

        Raises:
            ValueError: a point lies beyond the ends, and `ext` says so.
        """
        beyond = self.ext if ext is None else _BEYOND.get(ext, ext)
        return splev(x, self._spline, nu, beyond)

    def get_knots(self) -> Any:
        """Return the knots, without those that are repeated at both ends."""
        k = self._spline.k
        return self._spline.t[k : self._spline.t.size - k]

    def get_coeffs(self) -> Any:
        """Return the coefficients."""
        return self._spline.c

    def get_residual(self) -> float:
        """Return the sum of squared weighted residuals."""
        return self._residual

    def integral(self, a: Any, b: Any) -> Tensor:
        """Return the integral from `a` to `b`; the spline is 0 beyond its ends."""
        return splint(a, b, self._spline)

    def derivatives(self, x: Any) -> Any:
        """Return the value at a point, and all derivatives."""
        return np.stack([self(x, order) for order in range(self._spline.k + 1)])

    def roots(self) -> Tensor:
        """Return the points at which the value of a cubic spline is 0.

        Raises:
            ValueError: the spline is of another degree.
        """
        spline = self._spline
        if spline.k != 3:
            raise ValueError(f"roots of a spline of degree 3, not {spline.k}: write PPoly's, or a degree of 3")
        padded = np.concatenate([raw(spline.c), np.zeros(4)])
        points: Any = asarray(scipy_interpolate.sproot((raw(spline.t), padded, 3), mest=2 * spline.t.size))
        for _ in range(2):
            points = points - spline(points) / spline(points, 1)
        return points

    def derivative(self, n: int = 1) -> UnivariateSpline:
        """Return the spline that is the derivative of order `n`."""
        if not 0 <= n <= self._spline.k:
            raise ValueError(f"a spline of degree {self._spline.k} has derivatives up to that order, not {n}")
        # Beyond the ends, constant values have no slope.
        return self._of(self._spline.derivative(n), 1 if self.ext == 3 and n else self.ext)

    def antiderivative(self, n: int = 1) -> UnivariateSpline:
        """Return the spline whose derivative of order `n` is this one, and which is 0 at the first knot."""
        return self._of(self._spline.antiderivative(n), self.ext)

    def _of(self, spline: BSpline, ext: int) -> UnivariateSpline:
        made = UnivariateSpline.__new__(UnivariateSpline)
        made._spline, made.ext, made._residual, made._data = spline, ext, 0.0, None
        return made


@final
class UnivariateSpline(FittedSpline):
    """A spline near points, with as few knots as that takes.

    Args:
        x: the points, shape (m,), increasing.
        y: the values, shape (m,).
        w: the weights, shape (m,), or None for ones.
        bbox: both ends; None for the first and last point.
        k: the degree, 1 to 5.
        s: the sum of squared weighted residuals, at most; None for m.
        ext: for points beyond the ends: 0 or "extrapolate", 1 or "zeros", 2 or "raise", 3 or "const".
        check_finite: whether infinite numbers and NaN are refused.

    Source: scipy.interpolate.UnivariateSpline.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.scipy import interpolate
        >>> interpolate.UnivariateSpline(np.arange(5.0), np.arange(5.0) ** 2, s=0.0)(1.5).round(6).item()
        2.25
    """

    __slots__ = ("_data",)

    def __init__(
        self,
        x: Any,
        y: Any,
        w: Any = None,
        bbox: Any = (None, None),
        k: int = 3,
        s: Any = None,
        ext: Any = 0,
        check_finite: bool = False,
    ) -> None:
        self._data: Any = (x, y, w, bbox, k, check_finite)
        self._fit(x, y, w, bbox, k, ext, check_finite, s)

    def set_smoothing_factor(self, s: Any) -> None:
        """Fit the spline again, with another sum of squared residuals."""
        x, y, w, bbox, k, check_finite = self._data
        self._fit(x, y, w, bbox, k, self.ext, check_finite, s)


@final
class InterpolatedUnivariateSpline(FittedSpline):
    """A spline through points: a UnivariateSpline without residuals.

    Source: scipy.interpolate.InterpolatedUnivariateSpline.
    """

    __slots__ = ()

    def __init__(
        self,
        x: Any,
        y: Any,
        w: Any = None,
        bbox: Any = (None, None),
        k: int = 3,
        ext: Any = 0,
        check_finite: bool = False,
    ) -> None:
        if not (np.diff(raw(double(x))) > 0).all():
            raise ValueError("InterpolatedUnivariateSpline takes points x that increase strictly")
        self._fit(x, y, w, bbox, k, ext, check_finite, 0.0)


@final
class LSQUnivariateSpline(FittedSpline):
    """The spline of given knots with the least sum of squared weighted residuals.

    Args:
        x: the points, shape (m,), increasing.
        y: the values, shape (m,).
        t: the knots within.
        w: as for `UnivariateSpline`.
        bbox: as for `UnivariateSpline`.
        k: as for `UnivariateSpline`.
        ext: as for `UnivariateSpline`.
        check_finite: as for `UnivariateSpline`.

    Source: scipy.interpolate.LSQUnivariateSpline.
    """

    __slots__ = ()

    def __init__(
        self,
        x: Any,
        y: Any,
        t: Any,
        w: Any = None,
        bbox: Any = (None, None),
        k: int = 3,
        ext: Any = 0,
        check_finite: bool = False,
    ) -> None:
        self._fit(x, y, w, bbox, k, ext, check_finite, t=t)


@final
class RectBivariateSpline:
    """A spline of two variables through values on a grid.

    Args:
        x: the points of the first axis, shape (m,), increasing.
        y: those of the second axis, shape (n,).
        z: the values, shape (m, n).
        bbox: the ends of both axes; None for the first and last point.
        kx: the degree by the first variable.
        ky: the degree by the second.
        s: 0 alone: the spline goes through the values.
        maxit: of no effect.

    Raises:
        ArgumentError: `s` is not 0.

    Source: scipy.interpolate.RectBivariateSpline.
    """

    __slots__ = ("_coefficients", "_degrees", "_knots")

    def __init__(
        self,
        x: Any,
        y: Any,
        z: Any,
        bbox: Any = (None, None, None, None),
        kx: int = 3,
        ky: int = 3,
        s: Any = 0,
        maxit: int = 20,
    ) -> None:
        if s:
            raise ArgumentError(f"asyncgrad's RectBivariateSpline goes through the values: write s=0, not {s!r}")
        axes, values = (double(x), double(y)), double(z)
        for one, k in zip(axes, (kx, ky), strict=True):
            if one.ndim != 1 or not (np.diff(raw(one)) > 0).all() or not 1 <= k <= 5 or raw(one).size <= k:
                raise ValueError(
                    "RectBivariateSpline takes x and y that increase strictly, degrees of 1 to 5, and more points along"
                    f" each axis than its degree, not shape {one.shape} and {k}"
                )
        if values.shape != (axes[0].size, axes[1].size):
            raise ValueError(
                f"RectBivariateSpline takes z of shape ({axes[0].size}, {axes[1].size}), not {values.shape}"
            )
        if len(bbox) != 4:
            raise ValueError(f"RectBivariateSpline takes a bbox of four ends, not {len(bbox)}")
        self._degrees: tuple[int, int] = (kx, ky)
        self._knots: Any = tuple(
            _with_ends(not_a_knot(one, k), k, ends)
            for one, k, ends in zip(axes, (kx, ky), (bbox[:2], bbox[2:]), strict=True)
        )
        matrices = [design_matrix(knots, k, one) for knots, k, one in zip(self._knots, (kx, ky), axes, strict=True)]
        self._coefficients: Any = np.linalg.solve(matrices[1], np.linalg.solve(matrices[0], values).T).T

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Tensor:
        """Return the values at the points of a grid, or those of a derivative.

        Args:
            x: the points of the first axis, increasing.
            y: those of the second axis.
            dx: the order of the derivative by the first variable.
            dy: that by the second.
            grid: False for the values at pairs of points, of any shapes that are broadcast.
        """
        x, y = double(x), double(y)
        if grid:
            for one in (x, y):
                if one.ndim > 1 or (np.diff(raw(np.atleast_1d(one))) < 0).any():
                    raise ValueError("RectBivariateSpline takes x and y of a grid that do not decrease: or grid=False")
            first, second = self._bases(np.atleast_1d(x), np.atleast_1d(y), dx, dy)
            return first @ self._coefficients @ second.T
        x, y = np.broadcast_arrays(x, y)
        first, second = self._bases(x.reshape((-1,)), y.reshape((-1,)), dx, dy)
        return np.sum((first @ self._coefficients) * second, 1).reshape(x.shape)

    def _bases(self, x: Any, y: Any, dx: int, dy: int) -> list[Any]:
        found = []
        for points, order, knots, k in zip((x, y), (dx, dy), self._knots, self._degrees, strict=True):
            if not 0 <= order < k and order:
                raise ValueError(f"RectBivariateSpline of degree {k} has derivatives of orders below it, not {order}")
            # As SciPy: beyond the ends, the value there.
            inside = np.minimum(np.maximum(points, knots[0]), knots[-1])
            found.append(BSpline(knots, np.eye(knots.shape[0] - k - 1), k)(inside, order))
        return found

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Tensor:
        """Return the values at pairs of points, or those of a derivative."""
        return self(xi, yi, dx, dy, grid=False)

    def integral(self, xa: Any, xb: Any, ya: Any, yb: Any) -> Tensor:
        """Return the integral over a rectangle."""
        first, second = (
            BSpline(knots, np.eye(knots.shape[0] - k - 1), k).integrate(a, b, extrapolate=False)
            for knots, k, a, b in zip(self._knots, self._degrees, (xa, ya), (xb, yb), strict=True)
        )
        return first @ self._coefficients @ second

    def partial_derivative(self, dx: int, dy: int) -> RectBivariateSpline:
        """Return the spline that is the derivative of orders `dx` and `dy`, each below the degree."""
        kx, ky = self._degrees
        if not (0 <= dx < kx and 0 <= dy < ky):
            raise ValueError(
                f"a spline of degrees {kx} and {ky} has derivatives of orders below them, not {dx} and {dy}"
            )
        first, c, _ = BSpline(self._knots[0], self._coefficients, kx).derivative(dx).tck
        second, c, _ = BSpline(self._knots[1], c, ky, axis=1).derivative(dy).tck
        derived = object.__new__(RectBivariateSpline)
        derived._knots, derived._coefficients, derived._degrees = (first, second), c, (kx - dx, ky - dy)
        return derived

    def get_knots(self) -> tuple[Any, Any]:
        """Return the knots of both axes."""
        first, second = self._knots
        return first, second

    def get_coeffs(self) -> Any:
        """Return the coefficients, shape (m * n,)."""
        return self._coefficients.reshape((-1,))

    def get_residual(self) -> float:
        """Return the sum of squared residuals: there are none."""
        return 0.0


def _with_ends(knots: Any, k: int, ends: Any) -> Any:
    parts = [knots[k + 1 : knots.shape[0] - k - 1]]
    for end, given, at in zip(ends, (knots[0], knots[-1]), (0, 1), strict=True):
        one = np.broadcast_to(given if end is None else double(end), (k + 1,))
        parts = [*parts, one] if at else [one, *parts]
    return np.concatenate(parts)
