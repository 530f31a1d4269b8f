"""Struve's functions, and integrals of Bessel functions and of theirs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import RULES, Primitive, derivative, primitive
from ..missing import no_derivative
from ..ufuncs import special
from .bessel_orders import by_differences, by_order, double
from .gamma_functions import rgamma_slope
from .kelvin_functions import over
from .rules import differentiable

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "besselpoly",
    "it2i0k0",
    "it2j0y0",
    "it2struve0",
    "iti0k0",
    "itj0y0",
    "itmodstruve0",
    "itstruve0",
    "modstruve",
    "struve",
]


def _struve_slope(function: Any, sign: int, v: Any, x: Any, out: Any) -> Any:
    """Return the derivative by x of Struve's function, or of the modified one with `sign` 1."""
    is_near = np.abs(raw(x)) < 1
    far = np.where(is_near, 1.0, x)
    with np.errstate(invalid="ignore"):
        slope = function(v - 1, far) - v / far * np.where(is_near, 0.0, out)
    if not np.any(is_near):
        return slope
    near = np.where(is_near, x, 0.5)
    quarter = sign * np.square(near) / 4
    series: Any = 0.0
    for k in range(10, -1, -1):
        factor = (v + 1 + 2 * k) * special.rgamma(v + k + 1.5) * (0.5 / math.gamma(k + 1.5))
        series = series * quarter + factor
    # At 0 the power has no derivative by x if the order is 0, and no part if it is -1, since the series is 0 there.
    base = np.where(((raw(v) == 0) | (raw(v) == -1)) & (raw(near) == 0), 1.0, near / 2)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(is_near, base**v * series, slope)


def _struve_by_order(v: Any, x: Any) -> Any:
    """Return the derivative by v: by differences, and far from 0 that of Y and of a series in powers of 2 / x."""
    v, x = double(v), double(x)
    is_far = (raw(x) > 1e3) & (raw(x) < np.inf) & (np.square(raw(v)) < 0.1 * raw(x))
    if not np.any(is_far):
        return by_differences(special.struve, v, x)
    orders, half = np.where(is_far, v, 0.0), np.where(is_far, x, 1e4) / 2
    series: Any = 0.0
    for k in range(8, -1, -1):
        shifted = orders + 0.5 - k
        factor = special.rgamma(shifted) * np.log(half) + rgamma_slope(shifted)
        series = series / np.square(half) + math.gamma(k + 0.5) / math.pi * factor
    # The power may overflow where the product does not.
    root = half ** ((orders - 1) / 2)
    far = by_order("yv", orders, 2 * half) + root * series * root
    return np.where(is_far, far, by_differences(special.struve, v, np.where(is_far, 1.0, x)))


struve: Primitive = differentiable(
    special.struve,
    "v x",
    v=lambda g, v, x: g * _struve_by_order(v, x),
    x=lambda g, v, x, out: g * _struve_slope(special.struve, -1, v, x, out),
)
modstruve: Primitive = differentiable(
    special.modstruve,
    "v x",
    v=no_derivative("scipy.special.modstruve", "v", "iv, kv and struve have one by their order"),
    x=lambda g, v, x, out: g * _struve_slope(special.modstruve, 1, v, x, out),
)

# Integrals of order 0.

itstruve0: Primitive = differentiable(special.itstruve0, "x", x=lambda g, x: g * special.struve(0, x))
itmodstruve0: Primitive = differentiable(special.itmodstruve0, "x", x=lambda g, x: g * special.modstruve(0, x))


it2struve0: Primitive = differentiable(
    special.it2struve0, "x", x=lambda g, x: -g * over(special.struve(0, x), x, 2 / math.pi)
)


def _less_one_over(function: Any, sign: int, x: Any) -> Any:
    """Return (I0(x) - 1) / x, or (1 - J0(x)) / x with `sign` -1, also next to 0."""
    is_near = np.abs(raw(x)) < 1
    far = np.where(is_near, 1.0, x)
    slope = sign * (function(far) - 1) / far
    if not np.any(is_near):
        return slope
    near = np.where(is_near, x, 0.0)
    quarter = sign * np.square(near) / 4
    series: Any = 0.0
    for k in range(9, 0, -1):
        series = series * quarter + 1 / math.factorial(k) ** 2
    return np.where(is_near, near / 4 * series, slope)


@primitive()
def integral(x: Any, name: str, index: int) -> Any:
    """Return one of the two results of SciPy's itj0y0, iti0k0, it2j0y0 or it2i0k0."""
    return getattr(special, name)(x)[index]


@derivative(integral, "x")
def _(g: Any, x: Array, name: str, index: int) -> Array:
    return g * _INTEGRANDS[name][index](x)


_INTEGRANDS: dict[str, tuple[Any, Any]] = {
    "itj0y0": (special.j0, special.y0),
    "iti0k0": (special.i0, special.k0),
    "it2j0y0": (lambda x: _less_one_over(special.j0, -1, x), lambda x: -over(special.y0(x), x, -np.inf)),
    "it2i0k0": (lambda x: _less_one_over(special.i0, 1, x), lambda x: -over(special.k0(x), x, np.inf)),
}


def itj0y0(x: Any, /) -> tuple[Any, Any]:
    """Return the integrals of J0(t) and of Y0(t) from 0 to x."""
    return integral(x, "itj0y0", 0), integral(x, "itj0y0", 1)


def iti0k0(x: Any, /) -> tuple[Any, Any]:
    """Return the integrals of I0(t) and of K0(t) from 0 to x."""
    return integral(x, "iti0k0", 0), integral(x, "iti0k0", 1)


def it2j0y0(x: Any, /) -> tuple[Any, Any]:
    """Return the integrals of (1 - J0(t)) / t from 0 to x, and of Y0(t) / t from x to infinity."""
    return integral(x, "it2j0y0", 0), integral(x, "it2j0y0", 1)


def it2i0k0(x: Any, /) -> tuple[Any, Any]:
    """Return the integrals of (I0(t) - 1) / t from 0 to x, and of K0(t) / t from x to infinity."""
    return integral(x, "it2i0k0", 0), integral(x, "it2i0k0", 1)


RULES[special.itj0y0] = itj0y0
RULES[special.iti0k0] = iti0k0
RULES[special.it2j0y0] = it2j0y0
RULES[special.it2i0k0] = it2i0k0

# The integral of x**lmb * Jv(2 * a * x) from 0 to 1.
besselpoly: Primitive = differentiable(
    special.besselpoly,
    "a lmb nu",
    a=lambda g, a, lmb, nu: g * (special.besselpoly(a, lmb + 1, nu - 1) - special.besselpoly(a, lmb + 1, nu + 1)),
    lmb=no_derivative("scipy.special.besselpoly", "lmb", "it has one by a"),
    nu=no_derivative("scipy.special.besselpoly", "nu", "it has one by a"),
)
