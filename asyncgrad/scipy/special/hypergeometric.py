"""Hypergeometric functions.

Their derivatives by the argument are hypergeometric functions with other parameters. Those by the parameters are sums
of series, brought to an argument of which all terms have one sign where there is one; where the terms cancel, the
backward raises an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import Primitive
from ...errors import MissingDerivativeError
from ..ufuncs import special
from .gamma_functions import rgamma_slope
from .hypergeometric_series import series
from .rules import compute_where, differentiable
from .tricomi import tricomi, tricomi_by_parameter

__all__ = ["confluent_by", "gauss_by", "hyp0f1", "hyp1f1", "hyp2f1", "hyperu"]

hyp0f1: Primitive = differentiable(
    special.hyp0f1,
    "v z",
    v=lambda g, v, z: g * series((), (v,), z, "hyp0f1", 0),
    z=lambda g, v, z: g * (special.hyp0f1(v + 1, z) / v),
)


# By Kummer's transformation hyp1f1(a, b, z) is exp(z) * hyp1f1(b - a, b, -z), whose terms have one sign for z < 0. Far
# from 0, where exp(z) is too small, it is gamma(b) / gamma(b - a) * (-z)**-a times a series in -1 / z.

_FAR = -600.0
#: Or from here on, where no parameter is greater than another number.
_NEARER, _SMALL = -60.0, 4.0
#: The most terms of a polynomial, each of which is recorded.
_MOST_TERMS = 10_000


def _confluent(a: Any, b: Any, z: Any, *by: int) -> Any:
    return series((a,), (b,), z, "hyp1f1", *by)


def _is_left(z: Any) -> Any:
    return raw(z).real < 0


def confluent_by(a: Any, b: Any, z: Any, parameter: int) -> Any:
    """Return the derivative of hyp1f1 by a parameter: 0 is a, 1 is b."""
    is_small = (np.abs(raw(a)) <= _SMALL) & (np.abs(raw(b)) <= _SMALL)
    far = raw(z).real < np.where(is_small, _NEARER, _FAR)
    if np.any(far):
        found = _far_confluent_by(a, b, np.where(far, z, _FAR), parameter)
        return (
            found if np.all(far) else np.where(far, found, _near_confluent_by(a, b, np.where(far, 0.0, z), parameter))
        )
    return _near_confluent_by(a, b, z, parameter)


def _near_confluent_by(a: Any, b: Any, z: Any, parameter: int) -> Any:
    left = _is_left(z)
    if not np.any(left):
        return _confluent(a, b, z, parameter)
    mirrored = np.where(left, z, 0.0)
    slope = _confluent(b - a, b, -mirrored, 0)
    slope = slope + _confluent(b - a, b, -mirrored, 1) if parameter else -slope
    result = np.exp(mirrored) * slope
    return result if np.all(left) else np.where(left, result, _confluent(a, b, np.where(left, 0.0, z), parameter))


def _far_confluent_by(a: Any, b: Any, z: Any, parameter: int) -> Any:
    def inner(*by: int) -> Any:
        return series((a, a - b + 1), (), -1 / z, "hyp1f1", *by)

    reciprocal, change = special.rgamma(b - a), rgamma_slope(b - a)
    if parameter:
        slope = (special.psi(b) * reciprocal + change) * inner() - reciprocal * inner(1)
    else:
        slope = reciprocal * (inner(0) + inner(1)) - (change + np.log(-z) * reciprocal) * inner()
    return special.gamma(b) * (-z) ** -a * slope


def _confluent_slope(a: Any, b: Any, x: Any, out: Any) -> Any:
    """Return the derivative by the argument: of a polynomial where b is a pole and a is none before it."""
    is_pole = (raw(b).real <= 0) & (raw(b) == np.floor(raw(b).real))
    if not np.any(is_pole):
        return a / b * special.hyp1f1(a + 1, b + 1, x)
    is_infinite = ~np.isfinite(raw(out))
    is_polynomial = is_pole & ~is_infinite
    usual = compute_where(~is_pole, lambda a, b, x: a / b * special.hyp1f1(a + 1, b + 1, x), a, b, x)
    a, b, x = (np.where(is_polynomial, one, safe) for one, safe in ((a, 0.0), (b, -1.0), (x, 0.0)))
    slope: Any = 1.0
    degree = int(-np.min(raw(a).real, initial=0.0))
    if degree > _MOST_TERMS:
        raise MissingDerivativeError(
            f"scipy.special.hyp1f1 has derivatives at a pole of b for a of at least {-_MOST_TERMS}, not of {-degree}, "
            "as the polynomial that it is there has as many terms: detach the arguments"
        )
    for k in range(degree - 1, 0, -1):
        # The coefficients of degrees from -a on are 0.
        is_term = raw(a).real < -k
        step = np.where(is_term, a + k, 0.0) / np.where(is_term, b + k, 1.0)
        slope = np.where(is_term, 1 + slope * (x * step / k), 1.0)
    return np.where(is_infinite, np.nan, np.where(is_polynomial, a / b * slope, usual))


hyp1f1: Primitive = differentiable(
    special.hyp1f1,
    "a b x",
    a=lambda g, a, b, x: g * confluent_by(a, b, x, 0),
    b=lambda g, a, b, x: g * confluent_by(a, b, x, 1),
    x=lambda g, a, b, x, out: g * _confluent_slope(a, b, x, out),
)


def _tricomi(a: Any, b: Any, x: Any) -> Any:
    at_zero = raw(x) == 0
    if not np.any(at_zero):
        return tricomi(a, b, x)
    return np.where(at_zero, special.hyperu(a, b, x), tricomi(a, b, np.where(at_zero, 1.0, x)))


def _tricomi_by(a: Any, b: Any, x: Any, *, by_second: bool) -> Any:
    at_zero = (raw(x) == 0) & (raw(b) < 1)
    if not np.any(at_zero):
        return tricomi_by_parameter(a, b, x, by_second=by_second)
    elsewhere = tricomi_by_parameter(a, b, np.where(at_zero, 1.0, x), by_second=by_second)
    # There the function is gamma(1 - b) / gamma(a - b + 1), whose parts may overflow.
    b = np.where(at_zero, b, 0.0)
    is_right = raw(a - b) > -1
    near, moved = np.where(is_right, a, 0.0), np.where(is_right, a, 0.0) - b + 1
    value = special.poch(moved, -near)
    slope = -special.psi(moved) * value
    if not np.all(is_right):
        factor = special.gamma(1 - np.where(is_right, 0.0, b))
        value = np.where(is_right, value, factor * special.rgamma(a - b + 1))
        slope = np.where(is_right, slope, factor * rgamma_slope(a - b + 1))
    if by_second:
        slope = -slope - special.psi(1 - b) * value
    return np.where(at_zero, slope, elsewhere)


hyperu: Primitive = differentiable(
    special.hyperu,
    "a b x",
    a=lambda g, a, b, x: g * _tricomi_by(a, b, x, by_second=False),
    b=lambda g, a, b, x: g * _tricomi_by(a, b, x, by_second=True),
    x=lambda g, a, b, x: -g * (a * _tricomi(a + 1, b + 1, x)),
)


# By Pfaff's transformation hyp2f1(a, b, c, z) is (1 - z)**-a * hyp2f1(a, c - b, c, z / (z - 1)).


def _gauss(a: Any, b: Any, c: Any, z: Any, *by: int) -> Any:
    return series((a, b), (c,), z, "hyp2f1", *by)


def gauss_by(a: Any, b: Any, c: Any, z: Any, parameter: int) -> Any:
    """Return the derivative of hyp2f1 by a parameter: 0 is a, 1 is b, and 2 is c."""
    at_one = raw(z) == 1
    if not np.any(at_one):
        return _gauss_by(a, b, c, z, parameter)
    elsewhere = _gauss_by(a, b, c, np.where(at_one, 0.0, z), parameter)
    return np.where(at_one, _gauss_at_one_by(a, b, c, parameter), elsewhere)


def _gauss_at_one_by(a: Any, b: Any, c: Any, parameter: int) -> Any:
    """Return the derivative of gamma(c) gamma(c - a - b) / (gamma(c - a) gamma(c - b))."""
    rest = c - a - b
    slope = special.psi(rest)
    if parameter == 2:
        slope = slope + special.psi(c)
    for position, moved in enumerate((c - a, c - b)):
        if parameter in (position, 2):
            slope = slope - special.psi(moved)
    slope = slope if parameter == 2 else -slope
    value = special.hyp2f1(a, b, c, 1.0)
    return np.where(raw(rest) > 0, value * slope, np.nan)


def _gauss_by(a: Any, b: Any, c: Any, z: Any, parameter: int) -> Any:
    left = _is_left(z)
    if not np.any(left):
        return _gauss(a, b, c, z, parameter)
    safe = np.where(left, z, 0.0)
    moved, scale = safe / (safe - 1), (1 - safe) ** -a
    if parameter == 0:
        logarithm = np.log1p(-safe) if not np.iscomplexobj(raw(z)) else np.log(1 - safe)
        slope = _gauss(a, c - b, c, moved, 0) - logarithm * _gauss(a, c - b, c, moved)
    elif parameter == 1:
        slope = -_gauss(a, c - b, c, moved, 1)
    else:
        slope = _gauss(a, c - b, c, moved, 1) + _gauss(a, c - b, c, moved, 2)
    result = scale * slope
    if np.all(left):
        return result
    return np.where(left, result, _gauss(a, b, c, np.where(left, 0.0, z), parameter))


def _gauss_by_argument(a: Any, b: Any, c: Any, z: Any) -> Any:
    # Where the function is constant, its slope is 0, also where the other factor is infinite.
    is_constant = (np.asarray(raw(a)) * raw(b) == 0) & (np.asarray(raw(z)) == 1)
    z = np.where(is_constant, 0.0, z) if np.any(is_constant) else z
    return a * b / c * special.hyp2f1(a + 1, b + 1, c + 1, z)


hyp2f1: Primitive = differentiable(
    special.hyp2f1,
    "a b c z",
    a=lambda g, a, b, c, z: g * gauss_by(a, b, c, z, 0),
    b=lambda g, a, b, c, z: g * gauss_by(a, b, c, z, 1),
    c=lambda g, a, b, c, z: g * gauss_by(a, b, c, z, 2),
    z=lambda g, a, b, c, z: g * _gauss_by_argument(a, b, c, z),
)
