"""Bessel functions of the first, second and third kind, the modified ones, and all of them scaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import is_device_array, raw
from ...core.recording.primitive import Primitive
from ...core.settings.arguments import whole_index
from ..arguments import floating
from ..ufuncs import special
from .bessel_orders import by_order, i_by_order, k_by_order
from .rules import differentiable

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "h1vp",
    "h2vp",
    "hankel1",
    "hankel1e",
    "hankel2",
    "hankel2e",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "iv",
    "ive",
    "ivp",
    "j0",
    "j1",
    "jv",
    "jve",
    "jvp",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kn",
    "kv",
    "kve",
    "kvp",
    "y0",
    "y1",
    "yn",
    "yv",
    "yve",
    "yvp",
]


def _half_difference(function: Callable[[Any, Any], Any], v: Any, z: Any) -> Any:
    """Return the derivative by z of a Bessel function, J, Y or H, from the orders next to v."""
    with np.errstate(invalid="ignore"):
        return 0.5 * (function(v - 1, z) - function(v + 1, z))


def _half_sum(function: Callable[[Any, Any], Any], v: Any, z: Any) -> Any:
    return 0.5 * (function(v - 1, z) + function(v + 1, z))


def _beside_pole(slope: Callable[[Any], Any], z: Any, out: Any, at_pole: float) -> Any:
    """Return slope(z), and a limit where the result is infinite and the terms of the slope are of either sign."""
    is_pole = np.isinf(raw(out))
    if not np.any(is_pole):
        return slope(z)
    return np.where(is_pole, at_pole, slope(np.where(is_pole, 1.0, z)))


def _y_slope(function: Callable[[Any, Any], Any], v: Any, z: Any, out: Any) -> Any:
    return _beside_pole(lambda z: _half_difference(function, v, z), z, out, np.inf)


# The order of SciPy's jn, the same ufunc as jv, may be any number.

jv: Primitive = differentiable(
    special.jv,
    "v z",
    v=lambda g, v, z: g * by_order("jv", v, z),
    z=lambda g, v, z: g * _half_difference(special.jv, v, z),
)
yv: Primitive = differentiable(
    special.yv,
    "v z",
    v=lambda g, v, z: g * by_order("yv", v, z),
    z=lambda g, v, z, out: g * _y_slope(special.yv, v, z, out),
)
yn: Primitive = differentiable(
    special.yn,
    "n x",
    n=lambda g: None,
    x=lambda g, n, x, out: g * _y_slope(special.yn, np.trunc(raw(n)), x, out),
)
hankel1: Primitive = differentiable(
    special.hankel1,
    "v z",
    v=lambda g, v, z: g * by_order("hankel1", v, z),
    z=lambda g, v, z: g * _half_difference(special.hankel1, v, z),
)
hankel2: Primitive = differentiable(
    special.hankel2,
    "v z",
    v=lambda g, v, z: g * by_order("hankel2", v, z),
    z=lambda g, v, z: g * _half_difference(special.hankel2, v, z),
)
iv: Primitive = differentiable(
    special.iv,
    "v z",
    v=lambda g, v, z: g * i_by_order("iv", v, z),
    z=lambda g, v, z: g * _half_sum(special.iv, v, z),
)
kv: Primitive = differentiable(
    special.kv,
    "v z",
    v=lambda g, v, z, out: g * k_by_order("kv", v, z, out),
    z=lambda g, v, z: -g * _half_sum(special.kv, v, z),
)


def _kn_slope(n: Any, x: Any) -> Any:
    orders = np.trunc(raw(n)).astype(int)
    return -0.5 * (special.kn(np.abs(orders - 1), x) + special.kn(orders + 1, x))


kn: Primitive = differentiable(special.kn, "n x", n=lambda g: None, x=lambda g, n, x: g * _kn_slope(n, x))

# Of orders 0 and 1.


def _second(function: np.ufunc, x: Any, recurrence: Callable[[Any], Any]) -> Any:
    """Return a function of order 2, of which CuPy has orders 0 and 1: there it follows from a recurrence."""
    return recurrence(x) if is_device_array(raw(x)) else function(2, x)


def _series_or(recurrence: Callable[[Any], Any], x: Any, sign: int, scale: Callable[[Any], Any] = np.ones_like) -> Any:
    """Return J_2, for a sign of -1, or I_2: next to 0 by its series, since the recurrence has no right digits there."""
    is_near = np.abs(raw(x)) < 1
    near = np.where(is_near, x, 0.0)
    square = sign * np.square(near) / 4
    total: Any = 1.0
    for k in range(9, 0, -1):
        total = 1 + square / (k * (k + 2)) * total
    return np.where(is_near, sign * square / 2 * total * scale(near), recurrence(np.where(is_near, 1.0, x)))


def _j2(x: Any) -> Any:
    return _second(special.jv, x, lambda x: _series_or(lambda x: 2 / x * special.j1(x) - special.j0(x), x, -1))


def _i2(x: Any) -> Any:
    return _second(special.iv, x, lambda x: _series_or(lambda x: special.i0(x) - 2 / x * special.i1(x), x, 1))


def _k2(x: Any) -> Any:
    return _second(special.kn, x, lambda x: special.k0(x) + 2 / x * special.k1(x))


def _i2e(x: Any) -> Any:
    def recurrence(x: Any) -> Any:
        return special.i0e(x) - 2 / x * special.i1e(x)

    return _second(special.ive, x, lambda x: _series_or(recurrence, x, 1, lambda x: np.exp(-np.abs(x))))


def _k2e(x: Any) -> Any:
    return _second(special.kve, x, lambda x: special.k0e(x) + 2 / x * special.k1e(x))


j0: Primitive = differentiable(special.j0, "x", x=lambda g, x: -g * special.j1(x))
j1: Primitive = differentiable(special.j1, "x", x=lambda g, x: g * (0.5 * (special.j0(x) - _j2(x))))
y0: Primitive = differentiable(special.y0, "x", x=lambda g, x: -g * special.y1(x))
y1: Primitive = differentiable(special.y1, "x", x=lambda g, x, out: g * _y_slope(special.yn, 1, x, out))
i0: Primitive = differentiable(special.i0, "x", x=lambda g, x: g * special.i1(x))
i1: Primitive = differentiable(special.i1, "x", x=lambda g, x: g * (0.5 * (special.i0(x) + _i2(x))))
k0: Primitive = differentiable(special.k0, "x", x=lambda g, x: -g * special.k1(x))
k1: Primitive = differentiable(special.k1, "x", x=lambda g, x: -g * (0.5 * (special.k0(x) + _k2(x))))


# Scaled. Far from 0 they behave like a power, and the terms of the derivative cancel.


def _power_slope(v: Any, z: Any, turn: complex) -> Any:
    """Return the logarithmic derivative of z**-0.5 times the asymptotic series of Bessel functions in turn / z."""
    term: Any = 1.0
    top: Any = 0.5
    bottom: Any = 1.0
    for k in range(1, 9):
        term = term * (4 * v * v - (2 * k - 1) ** 2) / (8 * k) * (turn / z)
        top = top + (k + 0.5) * term
        bottom = bottom + term
    return -top / (bottom * z)


def _or_far(near: Callable[[Any], Any], v: Any, z: Any, out: Any, turn: complex) -> Any:
    """Return `near(z)`, and far from 0 the derivative of the asymptotic series."""
    size = np.abs(raw(z))
    is_far = (size > 1e4) & (np.square(raw(v)) < 0.1 * size)
    if not np.any(is_far):
        return near(z)
    # At infinity the function is 0, and the derivative of the series there no number.
    slope = _power_slope(v, np.where(is_far & (size < np.inf), z, 1e5), turn)
    return np.where(is_far, out * slope, near(np.where(is_far, 1.0, z)))


def _is_complex(z: Array) -> bool:
    return bool(z.dtype.kind == "c")


def _jve_formula(g: Any, v: Any, z: Any, out: Any) -> Any:
    if not _is_complex(z):
        return g * _half_difference(special.jv, v, z)
    # The factor exp(-abs(z.imag)) is no function of z alone.
    return g * _half_difference(special.jve, v, z) + 1j * np.sign(raw(z).imag) * (g * out).real


def _yve_formula(g: Any, v: Any, z: Any, out: Any) -> Any:
    if not _is_complex(z):
        return g * _y_slope(special.yv, v, z, out)
    return g * _half_difference(special.yve, v, z) + 1j * np.sign(raw(z).imag) * (g * out).real


def _ive_formula(g: Any, v: Any, z: Any, out: Any) -> Any:
    if _is_complex(z):
        return g * _half_sum(special.ive, v, z) - np.sign(raw(z).real) * (g * out).real
    return g * _or_far(lambda z: _ive_slope(v, z, out), v, z, out, -np.sign(raw(z)))


def _ive_slope(v: Any, z: Any, out: Any) -> Any:
    """Return the derivative of ive by real z, next to 0 by iv, since SciPy has no ive of negative orders there."""
    sign = np.sign(raw(z))
    is_near = np.abs(raw(z)) < 1e-100
    if not np.any(is_near):
        return special.ive(v + 1, z) + (v / z - sign) * out
    near, far = np.where(is_near, z, 0.0), np.where(is_near, 1.0, z)
    slope = _half_sum(special.iv, v, near) * np.exp(-np.abs(near)) - sign * out
    return np.where(is_near, slope, special.ive(v + 1, far) + (v / far - sign) * out)


def _i0e_slope(x: Any, out: Any) -> Any:
    sign = np.sign(raw(x))
    return _or_far(lambda x: special.i1e(x) - sign * out, 0, x, out, -sign)


def _i1e_slope(x: Any, out: Any) -> Any:
    sign = np.sign(raw(x))
    return _or_far(lambda x: 0.5 * (special.i0e(x) + _i2e(x)) - sign * out, 1, x, out, -sign)


def _kve_slope(v: Any, z: Any, out: Any, below: Callable[[Any], Any], above: Callable[[Any], Any]) -> Any:
    """Return the derivative of kve from the functions of the orders next to v."""
    is_pole = np.isinf(raw(out))
    finite = np.where(is_pole, 0.0, out) if np.any(is_pole) else out

    def near(z: Any) -> Any:
        return _beside_pole(lambda z: finite - 0.5 * (below(z) + above(z)), z, out, -np.inf)

    return _or_far(near, v, z, finite, 1)


jve: Primitive = differentiable(
    special.jve,
    "v z",
    v=lambda g, v, z: g * by_order("jve", v, z),
    z=_jve_formula,
)
yve: Primitive = differentiable(
    special.yve,
    "v z",
    v=lambda g, v, z: g * by_order("yve", v, z),
    z=_yve_formula,
)
hankel1e: Primitive = differentiable(
    special.hankel1e,
    "v z",
    v=lambda g, v, z: g * by_order("hankel1e", v, z),
    z=lambda g, v, z, out: g * _or_far(lambda z: _half_difference(special.hankel1e, v, z) - 1j * out, v, z, out, 1j),
)
hankel2e: Primitive = differentiable(
    special.hankel2e,
    "v z",
    v=lambda g, v, z: g * by_order("hankel2e", v, z),
    z=lambda g, v, z, out: g * _or_far(lambda z: _half_difference(special.hankel2e, v, z) + 1j * out, v, z, out, -1j),
)
ive: Primitive = differentiable(special.ive, "v z", v=lambda g, v, z: g * i_by_order("ive", v, z), z=_ive_formula)
kve: Primitive = differentiable(
    special.kve,
    "v z",
    v=lambda g, v, z, out: g * k_by_order("kve", v, z, out),
    z=lambda g, v, z, out: g * _kve_slope(v, z, out, lambda z: special.kve(v - 1, z), lambda z: special.kve(v + 1, z)),
)
i0e: Primitive = differentiable(special.i0e, "x", x=lambda g, x, out: g * _i0e_slope(x, out))
i1e: Primitive = differentiable(special.i1e, "x", x=lambda g, x, out: g * _i1e_slope(x, out))
k0e: Primitive = differentiable(
    special.k0e, "x", x=lambda g, x, out: g * _kve_slope(0, x, out, special.k1e, special.k1e)
)
k1e: Primitive = differentiable(
    special.k1e,
    "x",
    x=lambda g, x, out: g * _kve_slope(1, x, out, special.k0e, _k2e),
)


# Derivatives of any order as functions of their own.


def _derivative(function: np.ufunc, v: Any, z: Any, n: Any, sign: int) -> Any:
    times = whole_index(n, f"n of scipy.special.{function.__name__}p")
    v, z = floating(v), floating(z)
    factor, total = 1.0, function(v - times, z)
    for index in range(1, times + 1):
        factor *= sign * (times - index + 1) / index
        total = total + factor * function(v - times + 2 * index, z)
    return total / 2.0**times


def jvp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative by z of the Bessel function of the first kind.

    Args:
        v: the order.
        z: real or complex numbers; they are broadcast.
        n: a whole number, at least 0.

    Source: scipy.special.jvp.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.jvp(0, 1.0).item()
        -0.440051
    """
    return _derivative(special.jv, v, z, n, -1)


def yvp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative by z of the Bessel function of the second kind; arguments as of `jvp`."""
    return _derivative(special.yv, v, z, n, -1)


def ivp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative by z of the modified Bessel function of the first kind; arguments as of `jvp`."""
    return _derivative(special.iv, v, z, n, 1)


def kvp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative by z of the modified Bessel function of the second kind; arguments as of `jvp`."""
    return (-1) ** n * _derivative(special.kv, v, z, n, 1)


def h1vp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative by z of the Hankel function of the first kind; arguments as of `jvp`."""
    return _derivative(special.hankel1, v, z, n, -1)


def h2vp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative by z of the Hankel function of the second kind; arguments as of `jvp`."""
    return _derivative(special.hankel2, v, z, n, -1)
