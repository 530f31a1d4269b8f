"""The error function and its kin, and integrals of exponentials and of waves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import RULES, Primitive, derivative, primitive
from ..ufuncs import special
from .rules import differentiable

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "dawsn",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfi",
    "erfinv",
    "exp1",
    "expi",
    "expn",
    "fresnel",
    "gaussian_",
    "shichi",
    "sici",
    "voigt_profile",
    "wofz",
    "wofz_slope",
]

_SLOPE = 2 / math.sqrt(math.pi)


@primitive()
@np.errstate(over="ignore")  # the square may be infinite: the result is then 0, which is right
def gaussian_(x: Any, rate: float) -> Array:
    """Return exp(-rate * x**2)."""
    return np.exp(-rate * (x * x))


@derivative(gaussian_, "x")
def _(g: Any, x: Any, rate: float, out: Any) -> Array:
    # At infinity it is 0, as are all its derivatives.
    infinite = np.isinf(raw(x))
    return g * (-2.0 * rate * (np.where(infinite, 0.0, x) if np.any(infinite) else x) * out)


erf: Primitive = differentiable(special.erf, "x", x=lambda g, x: g * (_SLOPE * gaussian_.call(x, 1.0)))
erfc: Primitive = differentiable(special.erfc, "x", x=lambda g, x: g * (-_SLOPE * gaussian_.call(x, 1.0)))
erfi: Primitive = differentiable(special.erfi, "x", x=lambda g, x: g * (_SLOPE * np.exp(x * x)))
erfinv: Primitive = differentiable(special.erfinv, "y", y=lambda g, out: g * (np.exp(out * out) / _SLOPE))
erfcinv: Primitive = differentiable(special.erfcinv, "y", y=lambda g, out: g * (-np.exp(out * out) / _SLOPE))


def _by_series(x: Any, near: Any, terms: tuple[float, ...], scale: complex, is_far: Any) -> Any:
    """Return `near`, and far from 0 a series in 1 / x**2, since the terms of `near` would cancel there.

    Args:
        x: where.
        near: a function of x.
        terms: the factors of 1, x**-2, x**-4, ...
        scale: the series is multiplied by it, and divided by x**2.
        is_far: a mask.
    """
    if not np.any(is_far):
        return near(x)
    # The derivative of 1 / x**2 would be 0 times infinity at infinity; that of 1 / x is 0.
    inverse = np.square(1 / np.where(is_far, x, 1e3))
    series: Any = 0.0
    for term in reversed(terms):
        series = series * inverse + term
    return np.where(is_far, scale * inverse * series, near(np.where(is_far, 1.0, x)))


#: (2n + 1)!! / 2**n, with which the asymptotic series of the derivatives go on.
_TERMS = (1.0, 1.5, 3.75, 13.125, 59.0625)


def _erfcx_slope(x: Any) -> Any:
    signs = tuple((-1) ** index * term for index, term in enumerate(_TERMS))
    is_far = raw(x).real > 50 if raw(x).dtype.kind == "f" else np.abs(raw(x)) > np.inf
    return _by_series(x, lambda x: 2 * x * special.erfcx(x) - _SLOPE, signs, -_SLOPE / 2, is_far)


def _dawsn_slope(x: Any) -> Any:
    is_far = np.abs(raw(x)) > 50 if raw(x).dtype.kind == "f" else np.abs(raw(x)) > np.inf
    return _by_series(x, lambda x: 1 - 2 * x * special.dawsn(x), _TERMS, -0.5, is_far)


def wofz_slope(z: Any) -> Any:
    """Return the derivative of wofz."""
    is_far = (np.abs(raw(z)) > 50) & (raw(z).imag >= 0)
    return _by_series(z, lambda z: 1j * _SLOPE - 2 * z * special.wofz(z), _TERMS, -0.5j * _SLOPE, is_far)


erfcx: Primitive = differentiable(special.erfcx, "x", x=lambda g, x: g * _erfcx_slope(x))
dawsn: Primitive = differentiable(special.dawsn, "x", x=lambda g, x: g * _dawsn_slope(x))
wofz: Primitive = differentiable(special.wofz, "z", z=lambda g, z: g * wofz_slope(z))


# The Voigt profile is the real part of w(z) for z = (x + i gamma) / (sigma sqrt(2)), over sigma sqrt(2 pi).


def _voigt_slope(x: Any, sigma: Any, gamma: Any) -> Any:
    """Return z, and the derivative of w there times 1 / (sigma**2 * 2 * sqrt(pi))."""
    z = (x + 1j * gamma) / (sigma * math.sqrt(2))
    return z, wofz_slope(z) / (2 * math.sqrt(math.pi) * sigma * sigma)


def _voigt_is_narrow(x: Any, sigma: Any, gamma: Any) -> Any:
    """Return where the profile is next to that of sigma = 0, the real part of i / (pi (x + i gamma)).

    There it is the real part of i / pi times a series in w = 1 / (x + i gamma), the sum over k of
    (2k - 1)!! * sigma**2k * w**(2k + 1).
    """
    return np.abs(raw(sigma)) < 1e-2 * np.hypot(raw(x), raw(gamma))


#: (2k + 1)!!, of the derivative by x, and 2k * (2k - 1)!!, of that by sigma.
_BY_PLACE = (1, 3, 15, 105, 945, 10395)
_BY_SIGMA = (2, 12, 90, 840, 9450, 124740)


def _voigt_series(terms: tuple[int, ...], sigma: Any, inverse: Any) -> Any:
    square, series = np.square(sigma * inverse), 0.0
    for term in reversed(terms):
        series = series * square + term
    return series


def _voigt_by_place(x: Any, sigma: Any, gamma: Any) -> Any:
    """Return a complex number: its real part is the derivative by x, and its imaginary part minus that by gamma."""
    narrow = _voigt_is_narrow(x, sigma, gamma)
    if not np.any(narrow):
        return _voigt_slope(x, sigma, gamma)[1]
    # The profile solves the heat equation: its derivative by sigma is sigma times the second one by x.
    inverse = 1 / np.where(narrow, x + 1j * gamma, 1.0)
    narrow_sigma = np.where(narrow, sigma, 0.0)
    found = -1j / math.pi * np.square(inverse) * _voigt_series(_BY_PLACE, narrow_sigma, inverse)
    return np.where(narrow, found, _voigt_slope(x, np.where(narrow, 1.0, sigma), gamma)[1])


def _voigt_by_sigma(x: Any, sigma: Any, gamma: Any, out: Any) -> Any:
    narrow = _voigt_is_narrow(x, sigma, gamma)
    is_any = np.any(narrow)
    wide = np.where(narrow, 1.0, sigma) if is_any else sigma
    z, slope = _voigt_slope(x, wide, gamma)
    found = -out / wide - math.sqrt(2) * (z * slope).real
    if not is_any:
        return found
    inverse = 1 / np.where(narrow, x + 1j * gamma, 1.0)
    narrow_sigma = np.where(narrow, sigma, 0.0)
    series = 1j / math.pi * narrow_sigma * inverse**3 * _voigt_series(_BY_SIGMA, narrow_sigma, inverse)
    return np.where(narrow, series.real, found)


voigt_profile: Primitive = differentiable(
    special.voigt_profile,
    "x sigma gamma",
    x=lambda g, x, sigma, gamma: g * _voigt_by_place(x, sigma, gamma).real,
    sigma=lambda g, x, sigma, gamma, out: g * _voigt_by_sigma(x, sigma, gamma, out),
    gamma=lambda g, x, sigma, gamma: g * -_voigt_by_place(x, sigma, gamma).imag,
)


# Integrals of exponentials.

# The exponential as a square: it may be infinite where its quotient is not.
expi: Primitive = differentiable(special.expi, "x", x=lambda g, x: g * (np.exp(0.5 * x) / x * np.exp(0.5 * x)))
exp1: Primitive = differentiable(special.exp1, "x", x=lambda g, x: g * (-np.exp(-x) / x))
expn: Primitive = differentiable(
    special.expn, "n x", n=lambda g: None, x=lambda g, n, x, out: g * _expn_slope(n, x, out)
)


def _expn_slope(n: Any, x: Any, out: Any) -> Any:
    # SciPy takes the whole part of the order.
    orders = np.trunc(raw(n))
    slope = -special.expn(np.maximum(orders, 1) - 1, x)
    return slope if np.all(orders > 0) else np.where(orders > 0, slope, -out * (1 + 1 / x))


# Of two results each is a primitive.


def _ratio(function: Any, x: Any, at_zero: float) -> Any:
    """Return function(x) / x, with its limit at 0."""
    is_zero = raw(x) == 0
    safe = np.where(is_zero, 1.0, x)
    return np.where(is_zero, at_zero, function(safe) / safe)


@primitive()
def hyperbolic_sine_integral(x: Any) -> Any:
    """Return the integral of sinh(t) / t from 0 to x."""
    return special.shichi(x)[0]


@derivative(hyperbolic_sine_integral, "x")
def _(g: Any, x: Array) -> Array:
    return g * _ratio(np.sinh, x, 1.0)


@primitive()
def hyperbolic_cosine_integral(x: Any) -> Any:
    """Return the hyperbolic cosine integral, whose derivative is cosh(x) / x."""
    return special.shichi(x)[1]


@derivative(hyperbolic_cosine_integral, "x")
def _(g: Any, x: Any) -> Array:
    return g * (np.cosh(x) / x)


@primitive()
def sine_integral(x: Any) -> Any:
    """Return the integral of sin(t) / t from 0 to x."""
    return special.sici(x)[0]


@derivative(sine_integral, "x")
def _(g: Any, x: Array) -> Array:
    return g * _ratio(np.sin, x, 1.0)


@primitive()
def cosine_integral(x: Any) -> Any:
    """Return the cosine integral, whose derivative is cos(x) / x."""
    return special.sici(x)[1]


@derivative(cosine_integral, "x")
def _(g: Any, x: Any) -> Array:
    return g * (np.cos(x) / x)


def _half_turns_of_square(z: Any) -> Any:
    """Return pi / 2 * z**2, for real numbers less whole turns: of large angles pi has too few digits."""
    square = z * z
    if raw(square).dtype.kind == "f":
        turns = np.rint(raw(square) / 4)
        square = square - 4 * np.where(np.isfinite(turns), turns, 0.0)
    return math.pi / 2 * square


@primitive()
def fresnel_sine(z: Any) -> Any:
    """Return the integral of sin(pi t**2 / 2) from 0 to z."""
    return special.fresnel(z)[0]


@derivative(fresnel_sine, "z")
def _(g: Any, z: Any) -> Array:
    return g * np.sin(_half_turns_of_square(z))


@primitive()
def fresnel_cosine(z: Any) -> Any:
    """Return the integral of cos(pi t**2 / 2) from 0 to z."""
    return special.fresnel(z)[1]


@derivative(fresnel_cosine, "z")
def _(g: Any, z: Any) -> Array:
    return g * np.cos(_half_turns_of_square(z))


def shichi(x: Any, /) -> tuple[Any, Any]:
    """Return the hyperbolic sine and cosine integrals."""
    return hyperbolic_sine_integral(x), hyperbolic_cosine_integral(x)


def sici(x: Any, /) -> tuple[Any, Any]:
    """Return the sine and cosine integrals."""
    return sine_integral(x), cosine_integral(x)


def fresnel(z: Any, /) -> tuple[Any, Any]:
    """Return the Fresnel integrals, of the sine and of the cosine."""
    return fresnel_sine(z), fresnel_cosine(z)


RULES[special.shichi] = shichi
RULES[special.sici] = sici
RULES[special.fresnel] = fresnel
