"""The gamma function, its logarithm and reciprocal, its logarithmic derivatives, and the beta function."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.axes import array_like
from ...core.arrays.values import arange_like, is_device_array, raw, refuse_complex
from ...core.ops.nondifferentiable import NonDifferentiable
from ...core.recording.primitive import RULES, Primitive, derivative, primitive
from ..arguments import floating
from ..ufuncs import special
from .rules import compute_where, differentiable, zeta_
from .stirling import STIRLING, log_less_digamma

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "beta",
    "betaln",
    "gamma",
    "gammaln",
    "gammasgn",
    "loggamma",
    "multigammaln",
    "polygamma",
    "psi",
    "psi_difference",
    "rgamma",
    "rgamma_slope",
]

gamma: Primitive = differentiable(special.gamma, "x", x=lambda g, x, out: g * (out * special.psi(x)))
gammaln: Primitive = differentiable(special.gammaln, "x", x=lambda g, x: g * special.psi(x))
loggamma: Primitive = differentiable(special.loggamma, "x", x=lambda g, x: g * special.psi(x))
gammasgn = RULES[special.gammasgn] = NonDifferentiable(special.gammasgn)


@primitive()
def polygamma_(x: Any, n: Any) -> Any:
    """Return the n-th derivative of the digamma function, for n > 0."""
    # As SciPy's, which also computes the digamma function, for elements with n = 0.
    size = special.gamma(n + 1.0)
    # SciPy's zeta adds terms one by one up to 0: from -1e10 that would take minutes.
    is_low = False if is_device_array(x) else x < _LOW
    if not np.any(is_low):
        return (-1.0) ** (n + 1) * size * zeta_(n + 1, x)
    result = (-1.0) ** (n + 1) * size * zeta_(n + 1, np.where(is_low, 1.0, x))
    mirrored = size * zeta_(n + 1, np.where(is_low, 1.0 - x, 1.0))
    return np.where(is_low, _cotangent_slope(np.where(is_low, x, 0.5), n) - mirrored, result)


#: Below it the polygamma functions are computed by those of 1 - x.
_LOW = -20.0


def _cotangent_slope(x: Any, n: Any) -> Any:
    """Return the n-th derivative of -pi / tan(pi x), for real x; infinite at whole numbers, as SciPy has it."""
    rest = x - np.rint(x)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        cotangent = np.where(np.abs(rest) == 0.5, 0.0, np.cos(np.pi * rest) / np.sin(np.pi * rest))
        if np.ndim(n) == 0:
            value = -((math.pi + 0.0 * cotangent) ** (n + 1)) * _cotangent_polynomial(int(n))(cotangent)
        else:
            x, n = np.broadcast_arrays(cotangent, n)
            value = np.empty_like(x)
            for order in np.unique(n):
                part = n == order
                value[part] = -(math.pi ** (order + 1.0)) * _cotangent_polynomial(int(order))(x[part])
    return np.where(rest == 0, np.inf, value)


@functools.cache
def _cotangent_polynomial(n: int) -> np.polynomial.Polynomial:
    """Return the polynomial in the cotangent that is its n-th derivative; its terms do not cancel."""
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    return polynomial


@derivative(polygamma_, "x")
def _(g: Any, x: Array, n: Any) -> Array:
    return g * polygamma_.call(x, n + 1)


@primitive()
def complex_polygamma(z: Any, n: Any) -> Any:
    """Return the n-th derivative of the digamma function of complex numbers, for n > 0."""
    left = z.real < 0.5
    mirrored = np.where(left, 1 - z, z)
    result = _polygamma_on_the_right(mirrored, n)
    if not np.any(left):
        return result
    # psi(1 - z) is psi(z) + pi / tan(pi z); the derivatives of the cotangent are polynomials in it.
    cotangent = np.where(left, _cotangent(np.where(left, z, 0.25)), 0.0)
    slope = math.pi ** (n + 1) * _cotangent_polynomial(n)(cotangent)
    return np.where(left, (-1) ** n * result - slope, result)


def _cotangent(z: Any) -> Any:
    """Return cos(pi z) / sin(pi z), without an overflow far from the real axis."""
    upper = z.imag >= 0
    turn = np.exp(2j * math.pi * np.where(upper, z, -z))
    return np.where(upper, -1j, 1j) * (1 + turn) / (1 - turn)


def _polygamma_on_the_right(z: Any, n: int) -> Any:
    """Return the n-th derivative of the digamma function where the real part is at least 1 / 2.

    The asymptotic series is summed beyond 14 + n, and the recurrence leads back.
    """
    count = 14 + n
    near = np.abs(z) < count
    total, high = np.zeros(z.shape, complex), np.where(near, z + count, z)
    if near.any():
        safe = np.where(near, z, 1.0)
        for step in range(count):
            total = total + math.factorial(n) / (safe + step) ** (n + 1)
    # Powers of the inverse underflow where those of the number would overflow.
    inverse = 1 / high
    series = math.factorial(n - 1) * inverse**n + math.factorial(n) / 2 * inverse ** (n + 1)
    for index, number in enumerate(special.bernoulli(24)[2::2], 1):
        factor = number * math.factorial(2 * index + n - 1) / math.factorial(2 * index)
        series = series + factor * inverse ** (2 * index + n)
    return -((-1) ** n) * (series + np.where(near, total, 0.0))


@derivative(complex_polygamma, "z")
def _(g: Any, z: Array, n: Any) -> Array:
    return g * complex_polygamma.call(z, n + 1)


def _trigamma(x: Array) -> Any:
    return complex_polygamma.call(x, 1) if x.dtype.kind == "c" else polygamma_.call(x, 1)


# SciPy's digamma is the same ufunc.
psi: Primitive = differentiable(special.psi, "x", x=lambda g, x: g * _trigamma(x))


def polygamma(n: Any, x: Any) -> Any:
    """Return the n-th derivative of the digamma function.

    Args:
        n: whole numbers, at least 0.
        x: real numbers; they are broadcast.

    Source: scipy.special.polygamma.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.polygamma(1, 1.0).item()
        1.644934
    """
    x = floating(x)
    refuse_complex("scipy.special.polygamma", "real numbers", x)
    if type(n) is int and n > 0:
        return polygamma_.call(x, np.int64(n))
    orders = np.asarray(raw(array_like(n)))
    if not orders.any():
        return special.psi(x)
    result = polygamma_.call(x, np.maximum(orders, 1))
    if np.any(orders < 0):
        result = np.where(orders < 0, np.nan, result)
    return result if orders.all() else np.where(orders == 0, special.psi(x), result)


def rgamma_slope(x: Any) -> Any:
    """Return the derivative of 1 / gamma, which has derivatives of every order at the poles of gamma, too."""
    return compute_where(~np.isposinf(raw(x).real), _finite_rgamma_slope, x)


def _finite_rgamma_slope(x: Any) -> Any:
    # Far from the real axis there is no pole near, and the sine would overflow.
    is_low = (raw(x).real < 0.5) & (np.abs(raw(x).imag) < 1)
    high = np.where(is_low, 1.0, x)
    regular = -special.psi(high) * special.rgamma(high)
    if not np.any(is_low):
        return regular
    # 1 / gamma(x) is gamma(1 - x) * sin(pi * x) / pi.
    low = np.where(is_low, x, 0.0)
    whole = np.rint(raw(low).real)
    angle, sign = np.pi * (low - whole), 1 - 2 * (whole % 2)
    slope = np.cos(angle) - np.sin(angle) / np.pi * special.psi(1 - low)
    return np.where(is_low, sign * special.gamma(1 - low) * slope, regular)


rgamma: Primitive = differentiable(special.rgamma, "x", x=lambda g, x: g * rgamma_slope(x))

beta: Primitive = differentiable(
    special.beta,
    "a b",
    a=lambda g, a, b, out: g * _beta_by(a, b, out),
    b=lambda g, a, b, out: g * _beta_by(b, a, out),
)
betaln: Primitive = differentiable(
    special.betaln,
    "a b",
    a=lambda g, a, b: g * psi_difference(a, b),
    b=lambda g, a, b: g * psi_difference(b, a),
)


def _beta_by(a: Any, b: Any, out: Any) -> Any:
    """Return the derivative of the beta function by `a`; where it is 0 at infinity so is that."""
    is_zero = (np.isposinf(raw(a)) | np.isposinf(raw(b))) & (raw(out) == 0)
    is_pole = _is_pole(raw(a) + raw(b)) & (raw(out) == 0)
    slope = compute_where(~is_zero & ~is_pole, lambda a, b, out: out * psi_difference(a, b), a, b, out)
    if not np.any(is_pole):
        return slope
    # There the logarithmic derivative has a pole, and the function is 0.
    return np.where(is_pole, compute_where(is_pole, _beta_by_at_pole, a, b, out), slope)


def _beta_by_at_pole(a: Any, b: Any, out: Any) -> Any:
    return out * special.psi(a) + special.gamma(a) * special.gamma(b) * rgamma_slope(a + b)


def _is_pole(x: Any) -> Any:
    """Return where the gamma function of an array without history has a pole."""
    return (x <= 0) & (x == np.rint(x)) & np.isfinite(x)


def psi_difference(a: Any, b: Any) -> Any:
    """Return psi(a) - psi(a + b).

    It has its digits where b is small beside a, too, and its limit where both are poles at a distance that stays.
    """
    is_pole = _is_pole(raw(a))
    if np.any(is_pole) and np.any(is_pole := is_pole & _is_pole(raw(a) + raw(b))):
        # Both cotangents of the reflections are the same.
        mirrored = -psi_difference(np.where(is_pole, 1 - a - b, 1.0), np.where(is_pole, b, 1.0))
        return np.where(is_pole, mirrored, psi_difference(np.where(is_pole, 1.0, a), np.where(is_pole, 1.0, b)))
    is_small = np.abs(raw(b)) < 1e-4 * np.abs(raw(a))
    if not np.any(is_small):
        return _far_psi_difference(a, b)
    middle = a + b / 2
    near = np.where(is_small, middle, 1.0)
    small = np.where(is_small, b, 0.0)
    series = -small * (polygamma_.call(near, 1) + small * small * polygamma_.call(near, 3) / 24)
    far = np.where(is_small, 1.0, a), np.where(is_small, 1.0, b)
    return np.where(is_small, series, _far_psi_difference(*far))


def _far_psi_difference(a: Any, b: Any) -> Any:
    is_great = (raw(a) > STIRLING) & (raw(a) + raw(b) > STIRLING)
    if not np.any(is_great):
        return special.psi(a) - special.psi(a + b)
    great, more = np.where(is_great, a, 100.0), np.where(is_great, b, 100.0)
    found = log_less_digamma(great + more) - log_less_digamma(great) - np.log1p(more / great)
    if np.all(is_great):
        return found
    a, b = np.where(is_great, 1.0, a), np.where(is_great, 1.0, b)
    return np.where(is_great, found, special.psi(a) - special.psi(a + b))


def multigammaln(a: Any, d: int) -> Any:
    """Return the logarithm of the multivariate gamma function.

    Args:
        a: real numbers greater than (d - 1) / 2.
        d: the number of dimensions, a whole number of at least 1.

    Raises:
        ValueError: `d` is no such number, or an element of `a` is too small.

    Source: scipy.special.multigammaln.
    """
    if np.ndim(d) or np.floor(d) != d or d < 1:
        raise ValueError(f"scipy.special.multigammaln takes a whole number d of at least 1, not {d!r}")
    a = floating(a)
    if np.any(raw(a) <= 0.5 * (d - 1)):
        raise ValueError(f"scipy.special.multigammaln takes a greater than (d - 1) / 2, which is {0.5 * (d - 1)}")
    terms = special.gammaln(a[..., np.newaxis] - arange_like(raw(a), int(d)) / 2)
    return d * (d - 1) * 0.25 * np.log(np.pi) + np.sum(terms, -1)
