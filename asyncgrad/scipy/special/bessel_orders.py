"""Derivatives of Bessel functions by their order.

Those of I and K, for positive arguments, are integrals without cancellation along paths of steepest descent, by
Gauss's rule. The other functions are entire in the order, and not much larger at one order than their derivative there,
so that differences of SciPy's own function, of twelfth order, keep their digits; so do those of I and K for complex
arguments, once what is even in the order is taken apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import as_array, raw
from ..ufuncs import special

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["by_differences", "by_order", "double", "i_by_order", "k_by_order", "slope_by_differences"]


def double(value: Any) -> Any:
    """Return a tensor or anything else in double precision, which differences and integrals need."""
    if not isinstance(value, TensorBase):
        value = as_array(value)
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)


# Differences.

_HALF = 6
#: The factors of f(v + k * h) - f(v - k * h) for k = 1, 2, ...
_FACTORS = [
    (-1) ** (k + 1) * math.factorial(_HALF) ** 2 / (k * math.factorial(_HALF - k) * math.factorial(_HALF + k))
    for k in range(1, _HALF + 1)
]


def slope_by_differences(function: Callable[[Any], Any], x: Any, step: Any) -> Any:
    """Return the derivative of a function by central differences of twelfth order."""
    slope: Any = 0.0
    with np.errstate(invalid="ignore"):
        for k, factor in enumerate(_FACTORS, 1):
            slope = slope + factor * (function(x + k * step) - function(x - k * step))
        return slope / step


def by_order(name: str, v: Any, z: Any) -> Any:
    """Return the derivative of a Bessel function, J, Y or H, or of a scaled one, by its order.

    Args:
        name: that of the function.
        v: the order.
        z: real or complex numbers.
    """
    v, z = double(v), double(z)
    size = np.abs(raw(z))
    is_far = (size > 1e3) & (size < np.inf) & (raw(z).real >= 0) & (np.square(raw(v)) < 0.1 * size)
    if not np.any(is_far):
        return by_differences(getattr(special, name), v, z)
    far = _FAR[name](np.where(is_far, v, 0.0), np.where(is_far, z, 1e4))
    if np.all(is_far):
        return far
    return np.where(is_far, far, by_differences(getattr(special, name), v, np.where(is_far, 1.0, z)))


def _step(orders: Any, size: Any) -> Any:
    """Return a step in the order for arguments of a size, not 0.

    The logarithmic derivative by the order is at most of the size of `rate`. The step is a power of two, with which the
    orders are exact.
    """
    rate = math.pi + np.log1p((np.minimum(np.abs(orders), 1e150) + 1) * 2 / size)
    return np.exp2(np.floor(np.log2(0.25 / rate)))


def by_differences(function: Callable[[Any, Any], Any], v: Any, z: Any) -> Any:
    """Return the derivative of a function like J, or Y, by its order v."""
    orders, size = raw(v), np.minimum(np.abs(raw(z)), 1e300)
    is_zero = size == 0
    step = _step(orders, np.where(is_zero, 1.0, size))
    slope = slope_by_differences(lambda order: function(order, z), v, step)
    is_end = is_zero | ~np.isfinite(raw(slope))
    if not np.any(is_end):
        return slope
    # The power (z / 2)**v decides, or (z / 2)**-v.
    value = raw(function(orders, raw(z)))
    at_zero = np.where(orders > 0, 0.0, np.where(orders == 0, -np.inf, np.nan))
    at_infinity = np.where(orders < 0, -value, value)
    at_end = np.where(np.isinf(value), at_infinity, np.where(is_zero & np.isfinite(value), at_zero, np.nan))
    return np.where(is_end, at_end, np.where(is_end, 0.0, slope))


# Far from 0 SciPy's functions lose digits of their phase, as they must, and differences would lose more.


def _far_log_slope(v: Any, z: Any, turn: complex) -> Any:
    """Return the derivative by v of the logarithm of a Hankel function, by its asymptotic series in turn / z."""
    term: Any = 1.0
    term_slope: Any = 0.0
    top: Any = 0.0
    bottom: Any = 1.0
    for k in range(1, 9):
        factor = turn / (8 * k * z)
        difference = 4 * v * v - (2 * k - 1) ** 2
        term, term_slope = term * difference * factor, (term_slope * difference + 8 * v * term) * factor
        top = top + term_slope
        bottom = bottom + term
    return top / bottom - turn * (math.pi / 2)


def _far_j_or_y(name: str, other: str, sign: int) -> Callable[[Any, Any], Any]:
    """Return the derivative of J or Y far from 0: they are half the sum and half the difference of Hankel functions."""

    def slope(v: Any, z: Array) -> Any:
        first, second = _far_log_slope(v, z, 1j), _far_log_slope(v, z, -1j)
        mean, difference = (first + second) / 2, 0.5j * (first - second)
        if z.dtype.kind != "c":
            mean, difference = mean.real, difference.real
        return getattr(special, name)(v, z) * mean + sign * getattr(special, other)(v, z) * difference

    return slope


def _far_hankel(name: str, turn: complex) -> Callable[[Any, Any], Any]:
    return lambda v, z: getattr(special, name)(v, z) * _far_log_slope(v, z, turn)


_FAR: dict[str, Callable[[Any, Any], Any]] = {
    "jv": _far_j_or_y("jv", "yv", 1),
    "yv": _far_j_or_y("yv", "jv", -1),
    "jve": _far_j_or_y("jve", "yve", 1),
    "yve": _far_j_or_y("yve", "jve", -1),
    "hankel1": _far_hankel("hankel1", 1j),
    "hankel1e": _far_hankel("hankel1e", 1j),
    "hankel2": _far_hankel("hankel2", -1j),
    "hankel2e": _far_hankel("hankel2e", -1j),
}


# Integrals.

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def _panel(start: Any, stop: Any) -> tuple[Any, Any]:
    """Return the nodes and weights of Gauss's rule between two numbers, along a last axis."""
    half = (stop - start)[..., np.newaxis] / 2
    return start[..., np.newaxis] + half * (1 + _NODES), half * _WEIGHTS


def _k_nodes(u: Any, x: Any) -> tuple[Any, Any]:
    """Return nodes and weights in t for integrals of exp(u * t - x * cosh(t)) over t > 0."""
    peak = np.arcsinh(u / x)
    curvature = np.hypot(u, x)
    stop = peak + np.arccosh(1 + 42 / curvature)
    share = 42 / np.maximum(u, 1e-100)
    start = np.maximum(0.0, peak - 0.5 * (share + np.sqrt(share * (share + 8))))
    start = np.maximum(start, peak - np.arccosh(1 + 42 / np.maximum(curvature - u, 1e-290)))
    # Where x is small the integrand ends in a cliff after a plateau.
    second = np.maximum(peak, stop - 20)
    first = np.maximum(start, second - 16)
    panels = [_panel(start, first), _panel(first, second), _panel(second, stop)]
    return np.concatenate([nodes for nodes, _ in panels], -1), np.concatenate([weights for _, weights in panels], -1)


def _k_log_slope(u: Any, x: Any) -> Any:
    """Return the derivative of log(K) by its order u >= 0, for x > 0.

    K is the integral of cosh(u * t) * exp(-x * cosh(t)). Far from 0 its integrand is too narrow, and an asymptotic
    expansion has all digits.
    """
    is_far = raw(x) > _FAR_FROM_ZERO * np.maximum(raw(u), 1.0)
    if not np.any(is_far):
        return _k_log_slope_by_integral(u, x)
    inverse = 1 / np.where(is_far, x, _FAR_FROM_ZERO)
    # Of an expansion for great orders and arguments, whose next term is a share of the inverse square.
    far = np.arcsinh(u * inverse) - 0.5 * u * inverse * inverse
    if np.all(is_far):
        return far
    return np.where(is_far, far, _k_log_slope_by_integral(u, np.where(is_far, 1.0, x)))


_FAR_FROM_ZERO = 1e6


def _k_log_slope_by_integral(u: Any, x: Any) -> Any:
    t, weights = _k_nodes(*np.broadcast_arrays(raw(u), raw(x)))
    u, x = u[..., np.newaxis], x[..., np.newaxis]
    exponent = u * t - x * np.cosh(t)
    density = weights * np.exp(exponent - np.max(raw(exponent), -1, keepdims=True))
    mirrored = np.expm1(-2 * u * t)
    return -np.sum(density * t * mirrored, -1) / np.sum(density * (2 + mirrored), -1)


def _i_log_slope_by_path(u: Any, x: Any) -> Any:
    """Return the derivative of log(I) by its order u >= 0, for x > 0, where u is not small or x is.

    I is the integral of exp(x * cosh(t) - u * t) / (pi * i) over the upper half of a path from infinity - pi * i to
    infinity + pi * i. That of steepest descent has sinh(a) = u / x * b / sin(b) for t = a + b * i.
    """
    orders, points = np.broadcast_arrays(raw(u), raw(x))
    path = np.maximum(orders, _SMALL_ORDER)
    end = np.minimum(math.pi, 11 / np.sqrt(np.hypot(path, points)))
    b, weights = _panel(np.zeros_like(end), end)
    scale = (path / points)[..., np.newaxis]
    sine = scale * b / np.sin(b)
    a_slope = scale * (np.sin(b) - b * np.cos(b)) / np.square(np.sin(b)) / np.hypot(1, sine)
    t = np.arcsinh(sine) + 1j * b
    weights = weights * (a_slope + 1j)
    exponent = x[..., np.newaxis] * np.cosh(t) - u[..., np.newaxis] * t
    density = weights * np.exp(exponent - np.max(raw(exponent).real, -1, keepdims=True))
    return -np.sum(density * t, -1).imag / np.sum(density, -1).imag


_SMALL_ORDER = 2.0


def _i_log_slope_of_small_order(u: Any, x: Any) -> Any:
    """Return the same for small u, where x is not: by Schläfli's integral, which keeps the digits for u near 0."""
    points = raw(x)
    b, b_weights = _panel(np.zeros_like(points), np.minimum(math.pi, 11 / np.sqrt(points)))
    t, t_weights = _panel(np.zeros_like(points), np.arccosh(1 + 42 / points))
    far = np.exp(-2 * x)
    u, x = u[..., np.newaxis], x[..., np.newaxis]
    near = b_weights * np.exp(x * (np.cos(b) - 1))
    tail = t_weights * np.exp(-x * (np.cosh(t) - 1) - u * t)
    turn = math.pi * u[..., 0]
    sine, cosine = np.sin(turn), np.cos(turn)
    tail_sum, tail_mean = np.sum(tail, -1), np.sum(tail * t, -1)
    top = np.sum(near * b * np.sin(u * b), -1) + far * (math.pi * cosine * tail_sum - sine * tail_mean)
    return -top / (np.sum(near * np.cos(u * b), -1) - far * sine * tail_sum)


def _i_log_slope(u: Any, x: Any) -> Any:
    is_small = (raw(u) < _SMALL_ORDER) & (raw(x) > 2)
    if not np.any(is_small):
        return _i_log_slope_by_path(u, x)
    small = _i_log_slope_of_small_order(np.where(is_small, u, 0.0), np.where(is_small, x, 3.0))
    if np.all(is_small):
        return small
    return np.where(is_small, small, _i_log_slope_by_path(np.where(is_small, 3.0, u), np.where(is_small, 1.0, x)))


# Of complex arguments. Next to the order 0 an even function of the order has a derivative that vanishes with it.

_SECOND_FACTORS = [2 * factor / k for k, factor in enumerate(_FACTORS, 1)]


def _even_by_order(function: Callable[[Any, Any], Any], v: Any, z: Any) -> Any:
    """Return the derivative by its order v of an even function of it, from the second one where v is small."""
    step = _step(raw(v), np.clip(np.abs(raw(z)), 1e-300, 1e300))
    is_small = np.abs(raw(v)) < step / 4
    if not np.any(is_small):
        return by_differences(function, v, z)
    small = np.where(is_small, v, 0.0)
    total: Any = 0.0
    # Gauss's rule with two nodes, from 0 to v.
    for node in (0.5 - math.sqrt(1 / 12), 0.5 + math.sqrt(1 / 12)):
        at = small * node
        for k, factor in enumerate(_SECOND_FACTORS, 1):
            total = total + factor * (function(at + k * step, z) + function(at - k * step, z) - 2 * function(at, z))
    slope = small * total / (2 * step * step)
    return slope if np.all(is_small) else np.where(is_small, slope, by_differences(function, v, z))


def _complex_i_by_order(name: str, v: Any, z: Any) -> Any:
    """Return the derivative of iv or ive: I is an even function of the order less sin(pi * v) / pi times K."""
    i = getattr(special, name)
    is_small = (np.abs(raw(v)) < 0.5) & (np.abs(raw(z)) > 2) & (raw(z).real > 0)
    if not np.any(is_small):
        return by_differences(i, v, z)
    small, far = np.where(is_small, v, 0.0), np.where(is_small, z, 3.0)
    # The scale of ive is constant in the order.
    scale = np.exp(-far - far.real) if name == "ive" else np.exp(-far)
    k, k_slope = special.kve(small, far), _even_by_order(special.kve, small, far)
    turn = math.pi * small
    odd = scale * (np.cos(turn) * k + np.sin(turn) / math.pi * k_slope)
    even = _even_by_order(lambda v, z: 0.5 * (i(v, z) + i(-v, z)), small, far)
    return np.where(is_small, even - odd, by_differences(i, v, np.where(is_small, 1.0, z)))


def _checked(v: Any, z: Any) -> tuple[Any, Any, Any, Any]:
    """Return the absolute value of the order and its sign, the argument, and which are no positive numbers."""
    sign = np.where(raw(v) < 0, -1.0, 1.0)
    is_outside = ~((raw(z) > 0) & (raw(z) < np.inf) & np.isfinite(raw(v)))
    return np.where(is_outside, 1.0, v * sign), sign, np.where(is_outside, 1.0, z), is_outside


def k_by_order(name: str, v: Any, z: Any, out: Any) -> Any:
    """Return the derivative of kv or kve by the order."""
    v, z = double(v), double(z)
    if z.dtype.kind == "c":
        return _even_by_order(getattr(special, name), v, z)
    u, sign, x, is_outside = _checked(v, z)
    slope = sign * _k_log_slope(u, x)
    if not np.any(is_outside):
        return out * slope
    # It rises to both sides of the order 0 at z = 0, and vanishes at infinity.
    orders = raw(v)
    at_zero = np.where(orders == 0, 0.0, np.copysign(np.inf, orders))
    at_end = np.where(raw(z) == 0, at_zero, np.where(raw(z) == np.inf, 0.0, np.nan))
    return np.where(is_outside, at_end, np.where(is_outside, 0.0, out) * slope)


def i_by_order(name: str, v: Any, z: Any) -> Any:
    """Return the derivative of iv or ive by the order."""
    v, z = double(v), double(z)
    if z.dtype.kind == "c":
        return _complex_i_by_order(name, v, z)
    u, sign, x, is_outside = _checked(v, z)
    if name == "iv":
        i, k = special.iv, special.kv
    else:
        i, k = special.ive, _k_scaled_as_i
    slope = i(u, x) * _i_log_slope(u, x)
    if np.any(sign < 0):
        # I of order -u is I + 2 / pi * sin(pi * u) * K of order u.
        turn = math.pi * u
        second = k(u, x) * (2 * np.cos(turn) + 2 / math.pi * np.sin(turn) * _k_log_slope(u, x))
        slope = np.where(sign < 0, -slope - second, slope)
    if not np.any(is_outside):
        return slope
    orders = raw(v)
    at_end = np.where((raw(z) == 0) & (orders >= 0), np.where(orders == 0, -np.inf, 0.0), np.nan)
    return np.where(is_outside, at_end, slope)


def _k_scaled_as_i(u: Any, x: Any) -> Any:
    return special.kve(u, x) * np.exp(-2 * x)
