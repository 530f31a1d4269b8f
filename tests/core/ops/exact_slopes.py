"""The exact derivatives of NumPy's elementwise functions, for test_tails.py, and why some have none here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp, mpf

from tests.support.tails import Reference

__all__ = ["REFERENCES", "WITHOUT"]


def _share(x: Any, y: Any, base: Any = mp.e) -> Any:
    """Return the share of the exponential of x in the sum of those of x and y."""
    # Beyond 2,000 the power is of no matter, and takes long.
    return 1 / (1 + mp.power(base, max(-2_000, min(y - x, 2_000))))


def _sinc_slope(x: Any) -> Any:
    if abs(x) < mpf("1e-15"):
        return -(mp.pi**2) / 3 * x
    return (mp.cospi(x) - mp.sinpi(x) / (mp.pi * x)) / x


def _by_hypot(value: Any, x: Any, y: Any) -> Any:
    return value / mp.sqrt(x * x + y * y) if x or y else mpf(0)


def _over_square(value: Any, x: Any, y: Any) -> Any:
    return value / (x * x + y * y) if x or y else mpf(0)


def _whole(x: Any, y: Any) -> Any:
    return -mp.floor(x / y)


def _truncated(x: Any, y: Any) -> Any:
    return -mp.sign(x) * mp.sign(y) * mp.floor(abs(x) / abs(y))


def _exponent_of(x: Any) -> int:
    return int(np.frexp(float(x))[1])


def _positive(x: float) -> bool:
    return x > 0


def _not_zero(x: float) -> bool:
    return x != 0


def _by_base(x: Any, y: Any) -> Any:
    return y * mp.power(x, y - 1)


def _by_exponent(x: Any, y: Any) -> Any:
    return mp.power(x, y) * mp.log(x)


def _power_amplifies(x: Any, y: Any) -> Any:
    # The exponent is rounded when 1 is taken from it.
    return abs(mp.log(x))


def _differ(x: float, y: float) -> bool:
    return x != y


_powers = [
    Reference(
        function,
        (_by_base, _by_exponent),
        lambda x, y: x > 0 and (y == 0 or abs(y) > 1e-3 or x > 1.2e-38),
        amplifies=_power_amplifies,
    )
    for function in (np.power, np.float_power)
]
_remainders = [
    # A quotient of a few digits is exact.
    Reference(function, (lambda x, y: mpf(1), by_divisor), lambda x, y: y != 0 and abs(x) < 1e15 * abs(y))
    for function, by_divisor in ((np.remainder, _whole), (np.fmod, _truncated))
]

_ALL = [
    # arithmetic
    Reference(np.add, (lambda x, y: mpf(1), lambda x, y: mpf(1))),
    Reference(np.subtract, (lambda x, y: mpf(1), lambda x, y: mpf(-1))),
    Reference(np.multiply, (lambda x, y: y, lambda x, y: x)),
    Reference(np.divide, (lambda x, y: 1 / y, lambda x, y: -x / y**2), lambda x, y: y != 0),
    Reference(np.negative, (lambda x: mpf(-1),)),
    Reference(np.positive, (lambda x: mpf(1),)),
    Reference(np.conjugate, (lambda x: mpf(1),)),
    Reference(np.reciprocal, (lambda x: -1 / x**2,), _not_zero),
    Reference(np.square, (lambda x: 2 * x,)),
    Reference(np.sqrt, (lambda x: 1 / (2 * mp.sqrt(x)),), _positive),
    Reference(np.cbrt, (lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2),), _not_zero),
    *_powers,
    *_remainders,
    Reference(np.copysign, (lambda x, y: mp.sign(x) * mp.sign(y), lambda x, y: mpf(0)), lambda x, y: y != 0),
    Reference(np.nextafter, (lambda x, y: mpf(1), lambda x, y: mpf(0)), _differ),
    Reference(np.frexp, (lambda x: mpf(2) ** -_exponent_of(x),), _not_zero, call=lambda x: np.frexp(x)[0]),
    Reference(np.modf, (lambda x: mpf(1),), call=lambda x: np.modf(x)[0]),
    Reference(np.ldexp, (lambda x: mpf(8),), call=lambda x: np.ldexp(x, 3)),
    Reference(np.heaviside, (lambda x: mpf(0),), _not_zero, call=lambda x: np.heaviside(x, 0.5), is_smooth=False),
    # exponentials and logarithms
    Reference(np.exp, (mp.exp,)),
    Reference(np.exp2, (lambda x: mp.power(2, x) * mp.log(2),)),
    Reference(np.expm1, (mp.exp,)),
    Reference(np.log, (lambda x: 1 / x,), _positive),
    Reference(np.log2, (lambda x: 1 / (x * mp.log(2)),), _positive),
    Reference(np.log10, (lambda x: 1 / (x * mp.log(10)),), _positive),
    Reference(np.log1p, (lambda x: 1 / (1 + x),), lambda x: x > -1),
    # As much as the rounding of the difference of the two changes.
    Reference(np.logaddexp, (_share, lambda x, y: _share(y, x)), amplifies=lambda x, y: min(abs(x - y), 800)),
    Reference(
        np.logaddexp2,
        (lambda x, y: _share(x, y, 2), lambda x, y: _share(y, x, 2)),
        amplifies=lambda x, y: min(abs(x - y), 1100),
    ),
    Reference(np.i0, (lambda x: mp.besseli(1, x),), lambda x: abs(x) < 705, ulps=32, amplifies=abs),
    # trigonometric
    Reference(np.sin, (mp.cos,)),
    Reference(np.cos, (lambda x: -mp.sin(x),)),
    Reference(np.tan, (lambda x: mp.sec(x) ** 2,), lambda x: abs(x) < 1e20, ulps=16),
    Reference(np.arcsin, (lambda x: 1 / mp.sqrt(1 - x * x),), lambda x: abs(x) < 1),
    Reference(np.arccos, (lambda x: -1 / mp.sqrt(1 - x * x),), lambda x: abs(x) < 1),
    Reference(np.arctan, (lambda x: 1 / (1 + x * x),)),
    Reference(np.sinh, (mp.cosh,)),
    Reference(np.cosh, (mp.sinh,)),
    # The slope is computed with the result, as np.tanh's rule says.
    Reference(
        np.tanh, (lambda x: mp.sech(x) ** 2,), amplifies=lambda x: 4 * mp.cosh(min(abs(x), 50)) ** 2, is_smooth=False
    ),
    Reference(np.arcsinh, (lambda x: 1 / mp.sqrt(1 + x * x),)),
    Reference(np.arccosh, (lambda x: 1 / mp.sqrt(x * x - 1),), lambda x: x > 1),
    Reference(np.arctanh, (lambda x: 1 / (1 - x * x),), lambda x: abs(x) < 1),
    Reference(np.arctan2, (lambda y, x: _over_square(x, x, y), lambda y, x: _over_square(-y, x, y))),
    # The smallest of all numbers has no length but its own, in whichever direction.
    Reference(
        np.hypot,
        (lambda x, y: _by_hypot(x, x, y), lambda x, y: _by_hypot(y, x, y)),
        lambda x, y: max(abs(x), abs(y)) not in (5e-324, float(np.float32(1e-45))),
    ),
    *(Reference(function, (lambda x: mp.pi / 180,)) for function in (np.deg2rad, np.radians)),
    *(Reference(function, (lambda x: 180 / mp.pi,)) for function in (np.rad2deg, np.degrees)),
    # The angle pi x is rounded.
    Reference(np.sinc, (_sinc_slope,), lambda x: abs(x) < 1e3, ulps=32, amplifies=lambda x: 64 * abs(x)),
    # signs and choices
    *(Reference(function, (mp.sign,), is_smooth=False) for function in (np.absolute, np.fabs)),
    *(
        Reference(function, (lambda x, y: mpf(x > y), lambda x, y: mpf(y > x)), _differ)
        for function in (np.maximum, np.fmax)
    ),
    *(
        Reference(function, (lambda x, y: mpf(x < y), lambda x, y: mpf(y < x)), _differ)
        for function in (np.minimum, np.fmin)
    ),
    Reference(np.clip, (lambda x: mpf(abs(x) <= 2),), call=lambda x: np.clip(x, -2.0, 2.0), is_smooth=False),
    Reference(np.nan_to_num, (lambda x: mpf(1),)),
]
REFERENCES: dict[Callable[..., Any], Reference] = {one.function: one for one in _ALL}

#: Elementwise functions of which nothing is compared here, and why.
WITHOUT: dict[Callable[..., Any], str] = {
    np.sign: "it is constant for real numbers",
    np.divmod: "its remainder is that of np.remainder",
    np.real: "it is the number itself",
    np.imag: "it is 0 for real numbers",
    np.real_if_close: "it is the number itself",
    np.angle: "it is constant for real numbers",
    np.where: "it chooses, and computes nothing",
}
