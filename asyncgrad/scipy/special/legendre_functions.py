"""Legendre's functions and spherical harmonics."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import Primitive, derivative, primitive
from ...errors import MissingDerivativeError
from ..arguments import floating
from ..ufuncs import special
from .polynomials_by_parameters import jacobi_slope
from .rules import differentiable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...core.arrays.array import Array

    _Floats = NDArray[np.float64]


__all__ = [
    "assoc_legendre_p",
    "assoc_legendre_p_all",
    "legendre_p",
    "legendre_p_all",
    "lpmv",
    "sph_harm_y",
    "sph_harm_y_all",
    "sph_legendre_p",
    "sph_legendre_p_all",
]


# The ufunc of associated functions, of real degree.


def _associated_by_x(m: Any, v: Any, x: Any) -> Any:
    m = np.asarray(raw(m), float)
    if v is not raw(v) or np.any((m < 0) | (np.floor(v) != v)):
        square = 1 - x * x
        return -special.lpmv(m + 1, v, x) / np.sqrt(square) - m * x * special.lpmv(m, v, x) / square
    # The power of 1 - x**2 and the polynomial separately, which have derivatives at both ends. That of the degree
    # -v - 1 is that of v.
    degree = np.where(v < 0, -1 - v, v).astype(np.int64)
    order = m.astype(np.int64)
    square = 1 - x * x
    scale = (1 - 2 * (order % 2)) * special.poch(0.5, m) * 2.0**m
    inner = (2 * m + 1) * special.eval_gegenbauer(degree - order - 1, m + 1.5, x)
    result = square ** (m / 2) * inner
    if np.any(m):
        outer = m * x * special.eval_gegenbauer(degree - order, m + 0.5, x)
        result = result - square ** np.where(m == 0, 0.0, m / 2 - 1) * outer
    return scale * result


def _associated_by_degree(m: Any, v: Any, x: Any, out: Any) -> Any:
    m = raw(m)
    if np.any(m < 0):
        raise MissingDerivativeError("scipy.special.lpmv has no derivative with respect to v for m < 0: pass m >= 0")
    scale = (1 - 2 * (m % 2)) * special.poch(v + 1, m) / 2.0**m
    slope = jacobi_slope(v - m, m, m, x, "n") * scale * (1 - x * x) ** (m / 2)
    return slope + out * (special.psi(v + m + 1) - special.psi(v + 1))


lpmv: Primitive = differentiable(
    special.lpmv,
    "m v x",
    m=lambda g: None,
    v=lambda g, m, v, x, out: g * _associated_by_degree(m, v, x, out),
    x=lambda g, m, v, x: g * _associated_by_x(m, v, x),
)


# Polynomials, with derivatives up to an order that is asked for.


def _order(function: str, diff_n: Any) -> int:
    order = operator.index(diff_n)
    if not 0 <= order <= 2:
        raise ValueError(f"scipy.special.{function} takes diff_n of 0, 1 or 2, not {diff_n!r}")
    return order


def _count(function: str, name: str, number: Any) -> int:
    count = operator.index(number)
    if count < 0:
        raise ValueError(f"scipy.special.{function} takes {name} of at least 0, not {number!r}")
    return count


@primitive()
def legendre_derivative(z: Array, n: Any, order: int) -> Any:
    """Return a derivative of the Legendre polynomial of degree n."""
    if order <= 2 and z.dtype.kind != "c":
        return special.legendre_p(n, z, diff_n=order)[order]
    factor = math.prod(range(1, 2 * order, 2))
    return factor * special.eval_gegenbauer(np.asarray(n) - order, order + 0.5, z)


@derivative(legendre_derivative, "z")
def _(g: Any, z: Array, n: Any, order: int) -> Array:
    return g * legendre_derivative.call(z, n, order + 1)


def legendre_p(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """Return Legendre polynomials with their derivatives up to an order, along a new first axis.

    Args:
        n: degrees, whole numbers of at least 0.
        z: real numbers.
        diff_n: the order: 0, 1 or 2.

    Source: scipy.special.legendre_p.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.legendre_p(2, 0.5, diff_n=1).tolist()
        [-0.125, 1.5]
    """
    z, n = floating(z), np.copy(raw(n))
    return np.stack([legendre_derivative(z, n, order) for order in range(_order("legendre_p", diff_n) + 1)])


def legendre_p_all(n: int, z: Any, *, diff_n: int = 0) -> Any:
    """Return Legendre polynomials up to a degree, with their derivatives up to an order.

    Args:
        n: the greatest degree.
        z: numbers.
        diff_n: the order: 0, 1 or 2.

    Returns:
        Orders along the first axis, degrees along the second.

    Source: scipy.special.legendre_p_all.
    """
    z = floating(z)
    degrees = np.arange(_count("legendre_p_all", "n", n) + 1).reshape(-1, *[1] * z.ndim)
    return np.stack([legendre_derivative(z, degrees, order) for order in range(_order("legendre_p_all", diff_n) + 1)])


@primitive()
def associated_derivative(z: Any, n: Any, m: Any, branch_cut: Any, norm: bool, order: int) -> Any:
    """Return a derivative, of an order of at most 3, of an associated Legendre polynomial."""
    values = special.assoc_legendre_p(n, m, z, branch_cut=branch_cut, norm=norm, diff_n=min(order, 2))
    if order < 3:
        return values[order]
    value, slope, curvature = values
    square, parameter = 1 - z * z, n * (n + 1.0)
    share = m * m / square
    return (4 * z * curvature - (parameter - 2 - share) * slope + 2 * share * z / square * value) / square


@derivative(associated_derivative, "z")
def _(g: Any, z: Array, n: Any, m: Any, branch_cut: Any, norm: bool, order: int) -> Array:
    if order == 3:
        raise MissingDerivativeError("scipy.special.assoc_legendre_p has derivatives up to the third order")
    is_end = np.abs(raw(z)) == 1
    if z.dtype.kind == "c" or not np.any(is_end):
        return g * associated_derivative.call(z, n, m, branch_cut, norm, order + 1)
    # SciPy's derivatives at -1 have the signs of those at 1, those at both do not know of `norm`, and some second ones
    # are of another order.
    slope = associated_derivative.call(np.where(is_end, 0.0, z), n, m, branch_cut, norm, order + 1)
    return g * np.where(is_end, derivative_at_ends.call(z, n, m, norm, order + 1), slope)


@primitive()
def derivative_at_ends(z: Array, n: Any, m: Any, norm: bool, order: int) -> Any:
    """Return a derivative at 1 and -1, and 0 elsewhere, where another formula counts.

    It is that of a power of 1 - z**2 times a derivative of Legendre's polynomial.
    """
    n, m = np.asarray(n), np.asarray(m)
    size, end = np.abs(m), np.where(z < 0, -1.0, 1.0)
    shares = special.poch(n - size + 1.0, 2 * size)
    factor = np.where(m < 0, 1 / np.where(shares > 0, shares, 1.0), 1.0 - 2.0 * (size % 2))
    if norm:
        factor = np.sqrt((n + 0.5) / np.where(shares > 0, shares, 1.0)) * (1.0 - 2.0 * (size % 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        total = sum(
            math.comb(order, first)
            * _power_at_ends(size, end, first, first == order)
            * _polynomial_at_ends(n, size + order - first, end)
            for first in range(order + 1)
        )
    return np.where((size > n) | (np.abs(z) != 1), 0.0, factor * total)


@derivative(derivative_at_ends, "z")
def _(g: Any, z: Array, n: Any, m: Any, norm: bool, order: int) -> Array:
    return g * derivative_at_ends.call(z, n, m, norm, order + 1)


def _power_at_ends(size: NDArray[np.int64], end: _Floats, order: int, is_last: bool) -> _Floats:
    """Return a derivative of (1 - z**2)**(size / 2), which is (h * (2 - h))**(size / 2) with h = 1 - end * z."""
    half, rest = size / 2, order - size / 2
    # Of half numbers it is 0 up to an order, and infinite beyond it, the last of them most.
    of_whole = special.binom(half, rest) * 2.0 ** (half - rest) * np.where(rest % 2 == 1, -1.0, 1.0)
    of_whole = np.where(rest < 0, 0.0, math.factorial(order) * of_whole)
    sign = np.where(special.binom(half, order) < 0, -1.0, 1.0)
    of_half = np.where((rest > 0) & is_last, sign * np.inf, 0.0)
    return (-end) ** order * np.where(size % 2 == 0, of_whole, of_half)


def _polynomial_at_ends(n: NDArray[np.int64], order: NDArray[np.int64], end: _Floats) -> _Floats:
    """Return a derivative of Legendre's polynomial at 1 or -1; the source is its hypergeometric series."""
    found = special.poch(n - order + 1.0, 2 * order) / (2.0**order * special.gamma(order + 1.0))
    return np.where(order > n, 0.0, found) * np.where((n - order) % 2 == 1, end, 1.0)


def assoc_legendre_p(n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0) -> Any:
    """Return associated Legendre polynomials with their derivatives up to an order, along a new first axis.

    Args:
        n: degrees, whole numbers of at least 0.
        m: orders, whole numbers.
        z: numbers.
        branch_cut: 2 for a cut on the real axis beyond 1 and -1, 3 for one between them.
        norm: whether the integral of their squares from -1 to 1 is to be 1.
        diff_n: the order of the derivatives: 0, 1 or 2.

    Source: scipy.special.assoc_legendre_p.
    """
    z, n, m = floating(z), np.copy(raw(n)), np.copy(raw(m))
    orders = range(_order("assoc_legendre_p", diff_n) + 1)
    return np.stack([associated_derivative(z, n, m, branch_cut, norm, order) for order in orders])


def _grid(n: int, m: int, dimensions: int) -> tuple[Any, Any]:
    """Return all degrees up to n, and the orders 0, 1, ..., m, -m, ..., -1, along axes of their own."""
    orders = np.concatenate([np.arange(m + 1), np.arange(-m, 0)])
    return np.arange(n + 1).reshape(-1, 1, *[1] * dimensions), orders.reshape(-1, *[1] * dimensions)


def assoc_legendre_p_all(n: int, m: int, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0) -> Any:
    """Return associated Legendre polynomials up to a degree and an order, with their derivatives.

    Args:
        n: the greatest degree.
        m: the greatest order.
        z: numbers.
        branch_cut: 2 for a cut on the real axis beyond 1 and -1, 3 for one between them.
        norm: whether the integral of their squares from -1 to 1 is to be 1.
        diff_n: the order of the derivatives: 0, 1 or 2.

    Returns:
        Derivatives along the first axis, degrees along the second, orders along the third: 0, 1, ..., m, -m, ..., -1.

    Source: scipy.special.assoc_legendre_p_all.
    """
    z, name = floating(z), "assoc_legendre_p_all"
    dimensions = max(z.ndim, np.ndim(branch_cut))
    degrees, orders = _grid(_count(name, "n", n), _count(name, "m", m), dimensions)
    return assoc_legendre_p(degrees, orders, z, branch_cut=branch_cut, norm=norm, diff_n=_order(name, diff_n))


# Functions of the polar angle. They rise and descend to neighbouring orders with factors that have no singularity at
# the poles, where other formulas divide by the sine.


def _up(n: Any, m: Any) -> Any:
    return np.sqrt(np.maximum((n - m) * (n + m + 1.0), 0.0))


def _side(theta: Any) -> Any:
    """Return the sign of the sine: SciPy's functions are of its absolute value, where it is negative, too."""
    is_behind = np.sin(raw(theta)) < 0
    return np.where(is_behind, -1.0, 1.0) if np.any(is_behind) else 1.0


@primitive()
def polar_part(theta: Any, n: Any, m: Any) -> Any:
    """Return the spherical Legendre polynomial of degree n and order m."""
    return special.sph_legendre_p(n, m, theta)[0]


def _polar_slope(theta: Any, n: Any, m: Any) -> Any:
    above, below = polar_part.call(theta, n, m + 1), polar_part.call(theta, n, m - 1)
    return (_up(n, m) * above - _up(n, -m) * below) * (_side(theta) / 2)


@derivative(polar_part, "theta")
def _(g: Any, theta: Array, n: Any, m: Any) -> Array:
    return g * _polar_slope(theta, n, m)


def _polar_curvature(theta: Any, n: Any, m: Any) -> Any:
    above, below = _polar_slope(theta, n, m + 1), _polar_slope(theta, n, m - 1)
    return (_up(n, m) * above - _up(n, -m) * below) * (_side(theta) / 2)


def sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """Return spherical Legendre polynomials with their derivatives up to an order, along a new first axis.

    Args:
        n: degrees, whole numbers of at least 0.
        m: orders, whole numbers.
        theta: polar angles.
        diff_n: the order of the derivatives: 0, 1 or 2.

    Source: scipy.special.sph_legendre_p.
    """
    theta, n, m = floating(theta), np.copy(raw(n)), np.copy(raw(m))
    functions = (polar_part, _polar_slope, _polar_curvature)[: _order("sph_legendre_p", diff_n) + 1]
    return np.stack([function(theta, n, m) for function in functions])


def sph_legendre_p_all(n: int, m: int, theta: Any, *, diff_n: int = 0) -> Any:
    """Return spherical Legendre polynomials up to a degree and an order, with their derivatives.

    Args:
        n: the greatest degree.
        m: the greatest order.
        theta: polar angles.
        diff_n: the order of the derivatives: 0, 1 or 2.

    Returns:
        Derivatives along the first axis, degrees along the second, orders along the third: 0, 1, ..., m, -m, ..., -1.

    Source: scipy.special.sph_legendre_p_all.
    """
    theta, name = floating(theta), "sph_legendre_p_all"
    degrees, orders = _grid(_count(name, "n", n), _count(name, "m", abs(m)), theta.ndim)
    return sph_legendre_p(degrees, orders, theta, diff_n=_order(name, diff_n))


@primitive()
def harmonic(theta: Any, phi: Any, n: Any, m: Any) -> Any:
    """Return the spherical harmonic of degree n and order m."""
    return special.sph_harm_y(n, m, theta, phi)


def _harmonic_slope(theta: Any, phi: Any, n: Any, m: Any) -> Any:
    """Return the derivative by the polar angle."""
    turn = np.exp(-1j * phi)
    above, below = harmonic.call(theta, phi, n, m + 1), harmonic.call(theta, phi, n, m - 1)
    return (_up(n, m) * turn * above - _up(n, -m) * np.conjugate(turn) * below) * (_side(theta) / 2)


def _harmonic_curvature(theta: Any, phi: Any, n: Any, m: Any) -> Any:
    turn = np.exp(-1j * phi)
    above, below = _harmonic_slope(theta, phi, n, m + 1), _harmonic_slope(theta, phi, n, m - 1)
    return (_up(n, m) * turn * above - _up(n, -m) * np.conjugate(turn) * below) * (_side(theta) / 2)


@derivative(harmonic, "theta")
def _(g: Any, theta: Array, phi: Any, n: Any, m: Any) -> Array:
    return np.real(g * _harmonic_slope(theta, phi, n, m))


@derivative(harmonic, "phi")
def _(g: Any, m: Any, out: Any) -> Array:
    return np.real(g * (1j * m * out))


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """Return spherical harmonics, with their derivatives up to an order.

    Args:
        n: degrees, whole numbers of at least 0.
        m: orders, whole numbers.
        theta: polar angles.
        phi: azimuthal angles.
        diff_n: the order of the derivatives: 0, 1 or 2.

    Returns:
        For `diff_n` of 0 the values. Otherwise a tuple of the values, the derivatives by both angles along a new last
        axis, and for 2 the matrices of second derivatives along two new last axes.

    Source: scipy.special.sph_harm_y.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.sph_harm_y(1, 0, 0.0, 0.0).real.item()
        0.488603
    """
    theta, phi = floating(theta), floating(phi)
    n, m = np.copy(raw(n)), np.copy(raw(m))
    order, value = _order("sph_harm_y", diff_n), harmonic(theta, phi, n, m)
    if not order:
        return value
    slope = _harmonic_slope(theta, phi, n, m)
    gradient = np.stack([slope, 1j * m * value], -1)
    if order == 1:
        return value, gradient
    mixed = 1j * m * slope
    rows = [_harmonic_curvature(theta, phi, n, m), mixed, mixed, -m * m * value]
    return value, gradient, np.stack([np.stack(rows[:2], -1), np.stack(rows[2:], -1)], -2)


def sph_harm_y_all(n: int, m: int, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """Return spherical harmonics up to a degree and an order, with their derivatives.

    Args:
        n: the greatest degree.
        m: the greatest order.
        theta: polar angles.
        phi: azimuthal angles.
        diff_n: the order of the derivatives: 0, 1 or 2.

    Returns:
        What `sph_harm_y` does, with degrees along the first axis and orders along the second: 0, 1, ..., m, -m, ...,
        -1.

    Source: scipy.special.sph_harm_y_all.
    """
    theta, phi, name = floating(theta), floating(phi), "sph_harm_y_all"
    degrees, orders = _grid(_count(name, "n", n), _count(name, "m", abs(m)), max(theta.ndim, phi.ndim))
    return sph_harm_y(degrees, orders, theta, phi, diff_n=_order(name, diff_n))
