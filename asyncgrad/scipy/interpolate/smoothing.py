"""Splines near points, or through them, whose knots FITPACK chooses.

They are differentiable by the data, as long as it chooses the same.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import interpolate as scipy_interpolate

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import double
from .bsplines import BSpline, design_matrix, is_curve, splev
from .fitting import chosen_knots, coefficients_at_points, jumps, told
from .periodic import repeated_coefficients, repeated_knots

__all__ = [
    "InterpolatedUnivariateSpline",
    "LSQUnivariateSpline",
    "UnivariateSpline",
    "splint",
    "splprep",
    "splrep",
    "sproot",
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
        return np.concatenate([chosen_knots(t[: k + 1], x), inner, chosen_knots(t[t.size - k - 1 :], x)])
    return chosen_knots(t, x)


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
    matrix = design_matrix(t, k, x)
    if unfold is not None:
        matrix = matrix @ unfold
    if matrix.shape[0] == matrix.shape[1] and not residual:
        c = np.linalg.solve(matrix, y)
    else:
        weighted = matrix * w[:, np.newaxis], y * w[:, np.newaxis]
        c = coefficients_at_points(*weighted, lambda: jumps(t, k, unfold), residual)
    return c if unfold is None else unfold @ c


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
    within = chosen_knots(period[1:-1], x) if inner is None else double(inner)
    made = repeated_knots(np.concatenate([x[:1], within, x[-1:]]), k)
    # The last point is the first one, a period later.
    return made, _fitted(made, k, x[:-1], y[:-1], w[:-1], residual, repeated_coefficients(period.size - 1, k))


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
    return told(tck, residual, flag, message, full_output)


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
    return told(found, residual, flag, message, full_output)


def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    """Return the integral of a spline, which is 0 beyond its ends, from `a` to `b`.

    Args:
        a: where to begin.
        b: where to end.
        tck: the knots, the coefficients and the degree; or a BSpline. Of a list of coefficients, one of each
            coordinate of a curve, the result is a list.
        full_output: whether to return the integrals of the B-splines, too, with zeros up to the number of knots; not
            for a curve.

    Raises:
        ValueError: a BSpline has several numbers at each point.

    Source: scipy.interpolate.splint.
    """
    t, c, k = getattr(tck, "tck", tck)
    if hasattr(tck, "tck") and np.ndim(c) > 1:
        raise ValueError(
            f"splint takes a BSpline with coefficients of shape (n,), not {np.shape(c)}: write "
            "spline.integrate(a, b, extrapolate=False)"
        )
    if not hasattr(tck, "tck") and is_curve(c):
        return [splint(a, b, (t, one, k)) for one in c]
    area = BSpline(t, c, k).integrate(a, b, extrapolate=False)
    if not full_output:
        return area
    areas = BSpline(t, np.eye(np.size(t) - k - 1), k).integrate(a, b, extrapolate=False)
    return area, np.pad(areas, (0, k + 1))


def sproot(tck: Any, mest: int = 10) -> Any:
    """Return the points at which the value of a cubic spline is 0.

    Args:
        tck: the knots, the coefficients and the degree; or a BSpline. Of a list of coefficients, one of each
            coordinate of a curve, the result is a list.
        mest: how many there may be.

    Raises:
        ValueError: the spline is of another degree.

    Source: scipy.interpolate.sproot.
    """
    t, c, k = getattr(tck, "tck", tck)
    if not hasattr(tck, "tck") and is_curve(c):
        return [sproot((t, one, k), mest) for one in c]
    return _roots(BSpline(t, c, k), mest)


def _roots(spline: BSpline, most: int) -> Tensor:
    if spline.k != 3:
        raise ValueError(f"roots of a spline of degree 3, not {spline.k}: write PPoly's, or a degree of 3")
    padded = np.concatenate([raw(spline.c), np.zeros(4)])
    points: Any = asarray(scipy_interpolate.sproot((raw(spline.t), padded, 3), mest=most))
    for _ in range(2):
        points = points - spline(points) / spline(points, 1)
    return points


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
        return _roots(self._spline, 2 * self._spline.t.size)

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
