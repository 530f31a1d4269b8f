"""Zeta functions, Spence's function, those of Lambert, Wright and Gauss: the arithmetic-geometric mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import _ufuncs

from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import arange_like, as_like, is_device_array, raw
from ...core.recording.primitive import RULES, Primitive, derivative, primitive
from ...errors import ArgumentTypeError
from ..arguments import floating
from ..ufuncs import special
from .bessel_orders import double, slope_by_differences
from .rules import differentiable, zeta_

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "agm",
    "lambertw",
    "log_wright_bessel",
    "spence",
    "wright_bessel",
    "wrightomega",
    "zeta",
    "zeta_slope",
    "zetac",
]

# Riemann's zeta function.


def zeta_slope(s: Any) -> Any:
    """Return the derivative of zeta: of its series far to the right, elsewhere of (s - 1) * zeta(s) by differences."""
    s = double(s)
    is_right = raw(s).real > 8
    right = np.where(is_right, s, 20.0)[..., np.newaxis]
    logarithms = as_like(_LOGARITHMS, raw(s))
    series = -np.sum(logarithms * np.exp(-logarithms * right), -1)
    if np.all(is_right):
        return series
    left = np.where(is_right, 0.5, s)
    size = np.minimum(np.abs(raw(left)), 1e300)
    # A multiple of the step is not to lead from a simple number to the pole.
    step = np.exp2(np.floor(np.log2(0.25 / (math.pi + np.log1p(size))))) * (1 - 2**-12)
    slope = slope_by_differences(lambda s: (s - 1) * riemann_zeta(s), left, step)
    return np.where(is_right, series, (slope - riemann_zeta(left)) / (left - 1))


_LOGARITHMS = np.log(np.arange(2, 130))


@primitive()
def riemann_zeta(s: Any) -> Any:
    """Return Riemann's zeta function."""
    # CuPy has a function with two arguments, for s > 1 alone.
    return special.zetac(s) + 1 if is_device_array(s) else special.zeta(s)


@derivative(riemann_zeta, "s")
def _(g: Any, s: Array) -> Array:
    return g * zeta_slope(s)


zetac: Primitive = differentiable(special.zetac, "x", x=lambda g, x: g * zeta_slope(x))

# Hurwitz's.

_TERMS = 24
#: B(2 * k) / (2 * k)!
_BERNOULLI = [float(special.bernoulli(2 * k)[-1]) / math.factorial(2 * k) for k in range(1, 11)]


def _hurwitz_by_order(s: Any, q: Any) -> Any:
    """Return the derivative by s, by the formula of Euler and Maclaurin."""
    s, q = double(s), double(q)
    # One may be a number, beside a tensor of a device.
    if isinstance(s, np.ndarray):
        s = as_like(s, raw(q))
    elif isinstance(q, np.ndarray):
        q = as_like(q, raw(s))
    is_end = raw(s) == np.inf
    is_inside = (raw(q) > 0) & (raw(s).real > 1) & ~is_end
    q, s = np.where(is_inside, q, 1.0), np.where(is_inside, s, 2.0)
    logarithms = np.log(q[..., np.newaxis] + arange_like(raw(q), _TERMS))
    head = np.sum(logarithms * np.exp(-s[..., np.newaxis] * logarithms), -1)
    end = q + _TERMS
    log_end = np.log(end)
    power = np.exp(-s * log_end)
    rest = power * end / (s - 1) * (log_end + 1 / (s - 1)) + 0.5 * log_end * power
    # The factors of power are the products s * (s + 1) * ... , and their derivatives.
    rising, rising_slope = s, 1.0
    term = power / end
    for k, factor in enumerate(_BERNOULLI, 1):
        rest = rest + factor * term * (rising * log_end - rising_slope)
        for shift in (2 * k - 1, 2 * k):
            rising, rising_slope = rising * (s + shift), rising_slope * (s + shift) + rising
        term = term / (end * end)
    return np.where(is_inside, -(head + rest), np.where(is_end, 0.0, np.nan))


@primitive()
def hurwitz_zeta(s: Any, q: Any) -> Any:
    """Return Hurwitz's zeta function."""
    return zeta_(s, q)


@derivative(hurwitz_zeta, "s")
def _(g: Any, s: Array, q: Any) -> Array:
    return g * _hurwitz_by_order(s, q)


@derivative(hurwitz_zeta, "q")
def _(g: Any, s: Any, q: Array) -> Array:
    return -g * (s * hurwitz_zeta(s + 1, q))


def zeta(x: Any, q: Any = None, out: None = None) -> Any:
    """Return Riemann's zeta function of x, or Hurwitz's of x and q.

    Args:
        x: real or complex numbers.
        q: real numbers; they are broadcast. None for Riemann's function.
        out: must be None.

    Raises:
        ArgumentTypeError: `out` is given.

    Source: scipy.special.zeta.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.zeta(2.0).item()
        1.644934
    """
    if out is not None:
        raise ArgumentTypeError("asyncgrad.scipy.special.zeta takes no out: write out[...] = zeta(x, q)")
    if q is None:
        return riemann_zeta(floating(x))
    if isinstance(x, TensorBase) and is_device_array(x._data):
        # A number beside it may stay one, and as a tensor it would be on the host.
        return hurwitz_zeta(floating(x), q)
    return hurwitz_zeta(x if isinstance(q, TensorBase) and is_device_array(q._data) else floating(x), floating(q))


# Spence's.


def _spence_slope(z: Any) -> Any:
    """Return log(z) / (1 - z), also next to 1."""
    w = z - 1
    is_near = np.abs(raw(w)) < 0.1
    series: Any = 0.0
    if np.any(is_near):
        near = np.where(is_near, w, 0.0)
        for k in range(16, -1, -1):
            series = series * -near - 1 / (k + 1)
        if np.all(is_near):
            return series
    is_end = np.isinf(raw(z))
    far = np.where(is_near | is_end, 3.0, z)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(is_near, series, np.where(is_end, 0.0, np.log(far) / (1 - far)))


spence: Primitive = differentiable(special.spence, "z", z=lambda g, z: g * _spence_slope(z))


# Lambert's and Wright's omega function, solutions of w * exp(w) = z and of w + log(w) = z.


@primitive()
def lambertw_(z: Any, k: Any, tol: float) -> Any:
    """Return a branch of Lambert's function."""
    return special.lambertw(z, k, tol)


@derivative(lambertw_, "z")
def _(g: Any, out: Any) -> Array:
    with np.errstate(invalid="ignore"):
        return g * (np.exp(-out) / (1 + out))


def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """Return Lambert's function, the complex number w with w * exp(w) = z.

    Args:
        z: real or complex numbers.
        k: the branch, whole numbers; they are broadcast.
        tol: the tolerance of SciPy's iteration.

    Source: scipy.special.lambertw.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.lambertw(1.0).real.item()
        0.567143
    """
    return lambertw_(floating(z), np.asarray(raw(k)), tol)


# What SciPy's own zeta and lambertw, which are no ufuncs, call.
for _name, _rule in (("_riemann_zeta", riemann_zeta), ("_zeta", hurwitz_zeta), ("_lambertw", lambertw_)):
    if hasattr(_ufuncs, _name):
        RULES[getattr(_ufuncs, _name)] = _rule.call


def _omega_slope(out: Any) -> Any:
    is_end = np.isinf(raw(out))
    return np.where(is_end, 1.0, _omega_slope(np.where(is_end, 1.0, out))) if np.any(is_end) else out / (1 + out)


wrightomega: Primitive = differentiable(special.wrightomega, "z", z=lambda g, out: g * _omega_slope(out))


# Wright's generalized Bessel function, the sum of x**k / (k! * gamma(a * k + b)).


def _wright_by_b(a: Any, b: Any, x: Any, scale: Any) -> Any:
    """Return the derivative by b, divided by exp(scale), which is a constant.

    Next to 0, where b must not fall, it is taken of the sum of b times the function of b + 1 and of a * x times that of
    a + b + 1, which is the same.
    """
    is_low = raw(b) < 0.5
    low, high = np.where(is_low, b, 0.0), np.where(is_low, 1.0, b)
    slope = slope_by_differences(lambda b: _scaled_wright(a, b, x, scale), high, _WRIGHT_STEP)
    if not np.any(is_low):
        return slope
    value = _scaled_wright(a, low + 1, x, scale)
    by_first = slope_by_differences(lambda b: _scaled_wright(a, b, x, scale), low + 1, _WRIGHT_STEP)
    by_second = slope_by_differences(lambda b: _scaled_wright(a, b, x, scale), a + low + 1, _WRIGHT_STEP)
    return np.where(is_low, value + low * by_first + a * x * by_second, slope)


_WRIGHT_STEP = 2.0**-6


def _scaled_wright(a: Any, b: Any, x: Any, scale: Any) -> Any:
    return special.wright_bessel(a, b, x) if scale is None else np.exp(_log_wright(a, b, x) - scale)


def _log_wright(a: Any, b: Any, x: Any) -> Any:
    """Return the logarithm of the function, by its series where SciPy has none for gamma(b) overflows."""
    value = special.log_wright_bessel(a, b, x)
    is_missing = np.isnan(raw(value)) & (raw(b) > 170) & (raw(x) > 0) & np.isfinite(raw(a) + raw(x))
    if not np.any(is_missing):
        return value
    # Where it is missing, its derivative is nan, and 0 times that is no number.
    known = special.log_wright_bessel(*(np.where(is_missing, 1.0, one) for one in (a, b, x)))
    value = np.where(is_missing, raw(value), known)
    a, b, x = (np.where(is_missing, one, safe)[..., np.newaxis] for one, safe in ((a, 1.0), (b, 200.0), (x, 1.0)))
    k = np.arange(_TERMS)
    terms = k * np.log(x) - special.gammaln(k + 1) - special.gammaln(a * k + b)
    greatest = np.max(raw(terms), -1)
    found = np.log(np.sum(np.exp(terms - greatest[..., np.newaxis]), -1)) + greatest
    # Nowhere else has the series so few terms.
    return np.where(is_missing & (raw(terms)[..., -1] < greatest - 40), found, value)


wright_bessel: Primitive = differentiable(
    special.wright_bessel,
    "a b x",
    a=lambda g, a, b, x: g * (x * _wright_by_b(*_doubles(a, a + b, x), None)),
    b=lambda g, a, b, x: g * _wright_by_b(*_doubles(a, b, x), None),
    x=lambda g, a, b, x: g * special.wright_bessel(a, a + b, x),
)


def _doubles(a: Any, b: Any, x: Any) -> tuple[Any, Any, Any]:
    return double(a), double(b), double(x)


def _where_far(far: Callable[[Any, Any, Any], Any], near: Any, a: Any, b: Any, x: Any, out: Any) -> Any:
    """Return a slope of the logarithm by its asymptotic series where a difference of logarithms has no digits left.

    There it is (1 / 2 - b) * log(z) + (1 + 1 / a) * z - log(2 * pi * (1 + a)) / 2, with z = (a * x)**(1 / (1 + a)), as
    E. M. Wright found in 1935.

    Args:
        far: takes a, b and z, and returns the slope.
        near: the slope elsewhere.
        a: the first argument.
        b: the second argument.
        x: the third argument.
        out: the logarithm.
    """
    is_far = (raw(out) > 1e9) & (raw(a) > 0) & np.isfinite(raw(x))
    if not np.any(is_far):
        return near
    a, b, x = (np.where(is_far, one, 1.0) for one in _doubles(a, b, x))
    z = (a * x) ** (1 / (1 + a))
    is_far = is_far & (raw(z) > 1e6 * np.square(1 + raw(a) + raw(b)))
    return np.where(is_far, far(a, b, z), near)


def _far_by_a(a: Any, b: Any, z: Any) -> Any:
    return ((0.5 - b) * (1 / a - np.log(z)) - 0.5) / (1 + a) - z * np.log(z) / a


# SciPy has it from 1.14 on.
if hasattr(special, "log_wright_bessel"):
    log_wright_bessel = differentiable(
        special.log_wright_bessel,
        "a b x",
        a=lambda g, a, b, x, out: (
            g * _where_far(_far_by_a, x * _wright_by_b(*_doubles(a, a + b, x), out), a, b, x, out)
        ),
        b=lambda g, a, b, x, out: (
            g * _where_far(lambda a, b, z: -np.log(z), _wright_by_b(*_doubles(a, b, x), out), a, b, x, out)
        ),
        x=lambda g, a, b, x, out: (
            g
            * _where_far(
                # For z / (a * x) is z**-a.
                lambda a, b, z: z**-a + (0.5 - b) * a * z ** (-1 - a) / (1 + a),
                np.exp(_log_wright(*_doubles(a, a + b, x)) - out),
                *(a, b, x, out),
            )
        ),
    )


# The arithmetic-geometric mean.


def _agm_slope(a: Any, b: Any) -> Any:
    """Return the derivative by a, carried along with the means; all of its terms are positive."""
    a, b = np.abs(double(a)), np.abs(double(b))
    is_zero = raw(a) == 0
    # The mean with 0 is 0.
    is_constant = (raw(b) == 0) & ~is_zero
    if np.any(is_constant):
        b = np.where(is_constant, 1.0, b)
    scale = np.maximum(raw(a), raw(b))
    scale = np.where((scale > 0) & (scale < np.inf), scale, 1.0)
    a, b = a / scale, b / scale
    a_slope: Any = 1.0
    b_slope: Any = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(16):
            root = np.sqrt(a * b)
            root_slope = (a_slope * b + b_slope * a) / (2 * root)
            a, b, a_slope, b_slope = (a + b) / 2, root, (a_slope + b_slope) / 2, root_slope
    if np.any(is_constant):
        a_slope = np.where(is_constant, 0.0, a_slope)
    return np.where(is_zero, np.inf, a_slope) if np.any(is_zero) else a_slope


agm: Primitive = differentiable(
    special.agm,
    "a b",
    a=lambda g, a, b: g * _agm_slope(a, b),
    b=lambda g, a, b: g * _agm_slope(b, a),
)
