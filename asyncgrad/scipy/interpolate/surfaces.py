"""Splines of two variables near values on a grid, or at scattered points, whose knots FITPACK chooses.

They are differentiable by the data, with the knots held. On a grid the knots are points of it. Between scattered points
FITPACK puts them where residuals are large, and how they move with these counts for nothing.

Source: Dierckx, Curve and Surface Fitting with Splines, 1993.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from scipy import interpolate as scipy_interpolate

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import double
from .bsplines import BSpline, design_matrix
from .fitting import chosen_knots, coefficients_at_points, coefficients_on_grid, jumps, told

__all__ = ["LSQBivariateSpline", "RectBivariateSpline", "SmoothBivariateSpline", "bisplev", "bisplrep"]

#: Two knot vectors, or two degrees.
_Pair = Sequence[Any]
#: Coordinates, values and weights of scattered points.
_Data = tuple[Any, Any, Any, Any]
#: A spline, its residual, and a flag and a message of FITPACK.
_Said = tuple[list[Any], float, int, str]


class FittedSurface:
    """Abstract: a spline of two variables; what it is fitted to differs."""

    __slots__ = ("_coefficients", "_degrees", "_knots", "_residual")

    def _set(self, knots: _Pair, degrees: _Pair, coefficients: Any, residual: float | None) -> None:
        self._knots, self._degrees = knots, degrees
        self._coefficients: Any = coefficients
        self._residual = residual

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Tensor:
        """Return the values at the points of a grid, or those of a derivative.

        Args:
            x: the points of the first axis, increasing; of an open grid, too, whose other axes have length 1.
            y: those of the second axis.
            dx: the order of the derivative by the first variable.
            dy: that by the second.
            grid: False for the values at pairs of points, of any shapes that are broadcast.
        """
        x, y = double(x), double(y)
        if grid:
            for one in (x, y):
                if one.size > max(one.shape, default=1) or (np.diff(raw(one).reshape(-1)) < 0).any():
                    raise ValueError(f"{_name(self)} takes x and y of a grid that do not decrease: or grid=False")
            first, second = self._bases(x.reshape((-1,)), y.reshape((-1,)), dx, dy)
            return first @ self._coefficients @ second.T
        x, y = np.broadcast_arrays(x, y)
        first, second = self._bases(x.reshape((-1,)), y.reshape((-1,)), dx, dy)
        return np.sum((first @ self._coefficients) * second, 1).reshape(x.shape)

    def _bases(self, x: Any, y: Any, dx: int, dy: int) -> list[Any]:
        found = []
        for points, order, knots, k in zip((x, y), (dx, dy), self._knots, self._degrees, strict=True):
            if not 0 <= order < k and order:
                raise ValueError(f"{_name(self)} of degree {k} has derivatives of orders below it, not {order}")
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

    def partial_derivative(self, dx: int, dy: int) -> FittedSurface:
        """Return the spline that is the derivative of orders `dx` and `dy`, each below the degree."""
        kx, ky = self._degrees
        if not (0 <= dx < kx and 0 <= dy < ky):
            raise ValueError(
                f"a spline of degrees {kx} and {ky} has derivatives of orders below them, not {dx} and {dy}"
            )
        first, c, _ = BSpline(self._knots[0], self._coefficients, kx).derivative(dx).tck
        second, c, _ = BSpline(self._knots[1], c, ky, axis=1).derivative(dy).tck
        return _Surface((first, second), (kx - dx, ky - dy), c)

    def get_knots(self) -> tuple[Any, Any]:
        """Return the knots of both axes."""
        first, second = self._knots
        return first, second

    def get_coeffs(self) -> Any:
        """Return the coefficients, shape (m * n,)."""
        return self._coefficients.reshape((-1,))

    def get_residual(self) -> float:
        """Return the sum of squared weighted residuals.

        Raises:
            AttributeError: the spline is the derivative of another, and is near to no values.
        """
        if self._residual is None:
            raise AttributeError("a derivative of a spline has no residual: call get_residual of the spline")
        return self._residual


@final
class _Surface(FittedSurface):
    """A spline of given knots and coefficients, these of shape (m, n)."""

    __slots__ = ()

    def __init__(self, knots: _Pair, degrees: _Pair, coefficients: Any) -> None:
        self._set(knots, degrees, coefficients, None)


def _name(surface: FittedSurface) -> str:
    return "a spline of two variables" if type(surface) is _Surface else type(surface).__name__


@final
class RectBivariateSpline(FittedSurface):
    """A spline of two variables through values on a grid, or near them.

    Args:
        x: the points of the first axis, shape (m,), increasing.
        y: those of the second axis, shape (n,).
        z: the values, shape (m, n).
        bbox: the ends of both axes; None for the first and last point.
        kx: the degree by the first variable.
        ky: the degree by the second.
        s: the sum of squared residuals, at most; 0 for a spline through the values.
        maxit: after so many steps the search for a spline with this residual ends.

    Raises:
        ValueError: the shapes do not fit, or no such spline is found.

    Source: scipy.interpolate.RectBivariateSpline.
    """

    __slots__ = ()

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
        axes, values, degrees = (double(x), double(y)), double(z), (kx, ky)
        for one, k in zip(axes, degrees, strict=True):
            if one.ndim != 1 or not (np.diff(raw(one)) > 0).all() or not 1 <= k <= 5 or raw(one).size <= k:
                raise ValueError(
                    "RectBivariateSpline takes x and y that increase strictly, degrees of 1 to 5, and more points along"
                    f" each axis than its degree, not shape {one.shape} and {k}"
                )
        if values.shape != (axes[0].size, axes[1].size):
            raise ValueError(
                f"RectBivariateSpline takes z of shape ({axes[0].size}, {axes[1].size}), not {values.shape}"
            )
        ends = _ends("RectBivariateSpline", bbox)
        made = scipy_interpolate.RectBivariateSpline(*map(raw, axes), raw(values), _plain(ends), kx, ky, s, maxit)
        knots = tuple(
            _with_ends(chosen_knots(t, one), k, given)
            for t, one, k, given in zip(made.get_knots(), axes, degrees, (ends[:2], ends[2:]), strict=True)
        )
        residual = float(made.get_residual()) if s else 0.0
        first, second = (design_matrix(t, k, one) for t, k, one in zip(knots, degrees, axes, strict=True))
        c = coefficients_on_grid(first, second, values, lambda: _jumps(knots, degrees), residual)
        self._set(knots, degrees, c, residual)


class _Scattered(FittedSurface):
    """Abstract: a spline near scattered values; whether its knots are given differs."""

    __slots__ = ()

    def _fit(self, made: Any, data: _Data, ends: list[Any], eps: Any, inner: Any = None) -> None:
        """Take the knots and the residual from SciPy's spline, `made`; `inner` are knots that were given."""
        degrees, residual = made.degrees, float(made.get_residual())
        knots = _knots_between(made.get_knots(), degrees, data[:2], ends, inner or (None, None))
        # Nothing is smoothed between knots that were given.
        c = _scattered_coefficients(knots, degrees, data, 0.0 if inner else residual, eps)
        self._set(knots, degrees, c, residual)


@final
class SmoothBivariateSpline(_Scattered):
    """A spline of two variables near values at scattered points.

    Args:
        x: the first coordinates of the points, shape (m,).
        y: the second ones.
        z: the values, shape (m,).
        w: the weights, shape (m,), above 0; None for ones.
        bbox: the ends of both axes; None for the least and greatest coordinate.
        kx: the degree by the first variable.
        ky: the degree by the second.
        s: the sum of squared weighted residuals, at most; None for m.
        eps: singular values up to it, relative to the largest, count as 0.

    Raises:
        ValueError: the shapes do not fit, or there are fewer points than coefficients.

    Source: scipy.interpolate.SmoothBivariateSpline.
    """

    __slots__ = ()

    def __init__(
        self,
        x: Any,
        y: Any,
        z: Any,
        w: Any = None,
        bbox: Any = (None, None, None, None),
        kx: int = 3,
        ky: int = 3,
        s: Any = None,
        eps: Any = 1e-16,
    ) -> None:
        data, ends = _data("SmoothBivariateSpline", x, y, z, w), _ends("SmoothBivariateSpline", bbox)
        options: Any = {"bbox": _plain(ends), "kx": kx, "ky": ky}
        self._fit(scipy_interpolate.SmoothBivariateSpline(*map(raw, data), **options, s=s, eps=eps), data, ends, eps)


@final
class LSQBivariateSpline(_Scattered):
    """The spline of two variables of given knots with the least sum of squared weighted residuals.

    Args:
        x: as for `SmoothBivariateSpline`.
        y: as for `SmoothBivariateSpline`.
        z: as for `SmoothBivariateSpline`.
        tx: the knots within of the first axis, increasing.
        ty: those of the second axis.
        w: as for `SmoothBivariateSpline`.
        bbox: as for `SmoothBivariateSpline`.
        kx: as for `SmoothBivariateSpline`.
        ky: as for `SmoothBivariateSpline`.
        eps: as for `SmoothBivariateSpline`.

    Source: scipy.interpolate.LSQBivariateSpline.
    """

    __slots__ = ()

    def __init__(
        self,
        x: Any,
        y: Any,
        z: Any,
        tx: Any,
        ty: Any,
        w: Any = None,
        bbox: Any = (None, None, None, None),
        kx: int = 3,
        ky: int = 3,
        eps: Any = None,
    ) -> None:
        data, ends = _data("LSQBivariateSpline", x, y, z, w), _ends("LSQBivariateSpline", bbox)
        inner = double(tx), double(ty)
        px, py, pz, pw = map(raw, data)
        made = scipy_interpolate.LSQBivariateSpline(px, py, pz, *map(raw, inner), pw, _plain(ends), kx, ky, eps)
        self._fit(made, data, ends, eps, inner)


def _data(name: str, x: Any, y: Any, z: Any, w: Any) -> _Data:
    x, y, z = (double(one).reshape((-1,)) for one in (x, y, z))
    w = asarray(np.ones(raw(x).size)) if w is None else double(w).reshape((-1,))
    if not x.shape == y.shape == z.shape == w.shape:
        raise ValueError(
            f"{name} takes x, y, z and w of one shape (m,), not {x.shape}, {y.shape}, {z.shape} and {w.shape}"
        )
    return x, y, z, w


def _ends(name: str, bbox: Any) -> list[Any]:
    if len(bbox) != 4:
        raise ValueError(f"{name} takes a bbox of four ends, not {len(bbox)}")
    return [_numbers(one) for one in bbox]


def _plain(ends: list[Any]) -> list[float | None]:
    return [None if one is None else float(raw(one)) for one in ends]


def _with_ends(knots: Any, k: int, ends: Any, inner: Any = None) -> Any:
    """Return knots with the ends that are not None, and those within, if they are given."""
    first, last = (own if given is None else given for own, given in zip((knots[0], knots[-1]), ends, strict=True))
    inner = knots[k + 1 : knots.shape[0] - k - 1] if inner is None else inner
    return np.concatenate([np.broadcast_to(first, (k + 1,)), inner, np.broadcast_to(last, (k + 1,))])


def _knots_between(knots: _Pair, degrees: _Pair, points: _Pair, ends: list[Any], inner: _Pair) -> _Pair:
    """Return FITPACK's knots between scattered points, whose ends move with the outermost points if they are these."""
    found = []
    for t, k, x, given, within in zip(knots, degrees, points, (ends[:2], ends[2:]), inner, strict=True):
        outermost = (np.min(x), np.max(x))
        own = [far if raw(far) == one else None for far, one in zip(outermost, (t[0], t[-1]), strict=True)]
        moving = [one if one is not None else far for one, far in zip(given, own, strict=True)]
        found.append(_with_ends(asarray(t), k, moving, within))
    return found


def _scattered_coefficients(knots: _Pair, degrees: _Pair, data: _Data, residual: float, eps: Any) -> Any:
    """Return the coefficients, of a shape for both axes, of a spline near scattered values."""
    x, y, z, w = data
    first, second = (design_matrix(t, k, one) for t, k, one in zip(knots, degrees, (x, y), strict=True))
    shape = first.shape[1], second.shape[1]

    def jumping() -> Any:
        along, across = _jumps(knots, degrees)
        return np.concatenate([np.kron(along, np.eye(shape[1])), np.kron(np.eye(shape[0]), across)])

    matrix = (first[:, :, np.newaxis] * second[:, np.newaxis]).reshape((x.shape[0], -1))
    weighted = matrix * w[:, np.newaxis], (z * w)[:, np.newaxis]
    return coefficients_at_points(*weighted, jumping, residual, eps or 0.0).reshape(shape)


def _jumps(knots: _Pair, degrees: _Pair) -> list[Any]:
    return [jumps(t, k) for t, k in zip(knots, degrees, strict=True)]


def bisplrep(
    x: Any,
    y: Any,
    z: Any,
    w: Any = None,
    xb: Any = None,
    xe: Any = None,
    yb: Any = None,
    ye: Any = None,
    kx: int = 3,
    ky: int = 3,
    task: int = 0,
    s: Any = None,
    eps: Any = 1e-16,
    tx: Any = None,
    ty: Any = None,
    full_output: int = 0,
    nxest: Any = None,
    nyest: Any = None,
    quiet: int = 1,
) -> Any:
    """Return the knots, the coefficients and the degrees of a spline near scattered values, for `bisplev`.

    Args:
        x: as for `SmoothBivariateSpline`.
        y: as for `SmoothBivariateSpline`.
        z: as for `SmoothBivariateSpline`.
        w: as for `SmoothBivariateSpline`.
        xb: where the first axis begins; None for the least coordinate.
        xe: where it ends; None for the greatest.
        yb: where the second axis begins.
        ye: where it ends.
        kx: as for `SmoothBivariateSpline`.
        ky: as for `SmoothBivariateSpline`.
        task: 0, or -1 for least squares with the knots `tx` and `ty`.
        s: the sum of squared weighted residuals, at most; None for `m - sqrt(2 m)`.
        eps: as for `SmoothBivariateSpline`.
        tx: the knots of the first axis for `task=-1`, with kx + 1 at each end, which count for nothing.
        ty: those of the second axis.
        full_output: whether to return the residual, a flag and a message, too.
        nxest: how many knots there may be on the first axis; None for SciPy's number.
        nyest: how many on the second.
        quiet: as SciPy's.

    Source: scipy.interpolate.bisplrep.
    """
    if task == 1:
        raise ArgumentError("asyncgrad's bisplrep keeps no knots for task=1: write task=0 with the new s")
    data, degrees, given = _data("bisplrep", x, y, z, w), (kx, ky), [_numbers(tx), _numbers(ty)]
    options: Any = {"task": task, "s": s, "eps": eps, "nxest": nxest, "nyest": nyest, "quiet": quiet}
    ends = [_numbers(one) for one in (xb, xe, yb, ye)]
    return told(*_represented(data, degrees, ends, given, options), full_output)


def _numbers(value: Any) -> Any:
    return None if value is None else double(value)


def _represented(data: _Data, degrees: _Pair, ends: list[Any], given: list[Any], options: dict[str, Any]) -> _Said:
    """Return what `bisplrep` does, of knots that are given if its `task` says so, and what FITPACK says."""
    kx, ky = degrees
    plain = [None if one is None else raw(one) for one in (*ends, *given)]
    found = scipy_interpolate.bisplrep(
        *map(raw, data), *plain[:4], kx=kx, ky=ky, tx=plain[4], ty=plain[5], **options, full_output=1
    )
    (first, second, *_), residual, flag, message = found
    is_given = options["task"] == -1
    inner = [one[k + 1 : one.shape[0] - k - 1] if is_given else None for one, k in zip(given, degrees, strict=True)]
    knots = _knots_between((first, second), degrees, data[:2], ends, inner)
    c = _scattered_coefficients(knots, degrees, data, 0.0 if is_given else float(residual), options["eps"])
    return [*knots, c.reshape((-1,)), kx, ky], residual, flag, message


def bisplev(x: Any, y: Any, tck: Any, dx: int = 0, dy: int = 0) -> Any:
    """Return the values of a spline at the points of a grid, or those of a derivative.

    Args:
        x: the points of the first axis, which do not decrease; or a number.
        y: those of the second axis.
        tck: what `bisplrep` returns: the knots of both axes, the coefficients and the degrees.
        dx: the order of the derivative by the first variable, below its degree.
        dy: that by the second.

    Returns:
        A Tensor of shape (m, n); without axes of one point.

    Source: scipy.interpolate.bisplev.
    """
    tx, ty, c, kx, ky = tck
    for name, order, k in (("dx", dx, kx), ("dy", dy, ky)):
        if not 0 <= order < k:
            raise ValueError(f"bisplev takes an order {name} below the degree, {k}, not {order}")
    tx, ty = double(tx), double(ty)
    shape = tx.shape[0] - kx - 1, ty.shape[0] - ky - 1
    values = _Surface((tx, ty), (kx, ky), double(c).reshape(shape))(x, y, dx, dy)
    if values.shape[0] > 1:
        return values
    return values[0] if values.shape[1] > 1 else values[0, 0]
