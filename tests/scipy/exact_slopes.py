"""The exact derivatives of elementwise functions of scipy.special, for test_special_tails.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.special
from mpmath import mp, mpf

from tests.support.tails import Reference

__all__ = ["REFERENCES", "WITHOUT"]

LARGEST = 1_000


def _bounded(x: Any) -> Any:
    """Return x, or a number beyond which an exponential is of no matter, and takes long."""
    return max(-LARGEST, min(x, LARGEST))


def _expit(x: Any) -> Any:
    return 1 / (1 + mp.exp(-_bounded(x)))


def _gauss(x: Any) -> Any:
    return 2 / mp.sqrt(mp.pi) * mp.exp(-(_bounded(x) ** 2))


def _exprel_slope(x: Any) -> Any:
    if x < -LARGEST:
        return 1 / x**2
    if abs(x) < 1e-9:
        return mpf(1) / 2 + x / 3 + x * x / 8
    return (mp.exp(x) * (x - 1) + 1) / x**2


def _erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def _erfcx_slope(x: Any) -> Any:
    if x > 100:
        terms = ((-1) ** k * mp.fac2(2 * k + 1) / 2**k / x ** (2 * k) for k in range(8))
        return -mp.fsum(terms) / mp.sqrt(mp.pi) / x**2
    return 2 * x * _erfcx(x) - 2 / mp.sqrt(mp.pi)


def _log_ndtr_slope(x: Any) -> Any:
    if x > LARGEST:
        return mpf(0)
    if x < -LARGEST:
        return -x + mpf(-1) / x + 2 / x**3
    return mp.npdf(x) / mp.ncdf(x)


def _dawsn_slope(x: Any) -> Any:
    if abs(x) > 100:
        return -mp.fsum(mp.fac2(2 * k + 1) / 2**k / x ** (2 * k) for k in range(8)) / 2 / x**2
    return 1 - 2 * x * mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _squared(x: Any) -> Any:
    """Tell how much a rounding of the square in an exponential changes it."""
    return 2 * min(x * x, 2000)


def _positive(*numbers: float) -> bool:
    return all(number > 0 for number in numbers)


def _huber(delta: Any, r: Any) -> tuple[Any, Any]:
    size = mp.sqrt(delta**2 + r**2)
    # size - 2 delta + delta**2 / size
    return r**4 / (size * (size + delta) ** 2), r * delta / size


special = scipy.special
_ALL = [
    Reference(special.exp10, (lambda x: mp.power(10, x) * mp.log(10),), lambda x: abs(x) < 350),
    Reference(special.exp2, (lambda x: mp.power(2, x) * mp.log(2),), lambda x: abs(x) < 1100),
    Reference(special.expm1, (lambda x: mp.exp(_bounded(x)),)),
    Reference(special.log1p, (lambda x: 1 / (1 + x),), lambda x: x > -1),
    Reference(special.cbrt, (lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2),), lambda x: x != 0),
    Reference(special.cosm1, (lambda x: -mp.sin(x),), lambda x: abs(x) < 1e20),
    Reference(special.expit, (lambda x: _expit(x) * _expit(-x),)),
    Reference(special.logit, (lambda x: 1 / (x * (1 - x)),), lambda x: 0 < x < 1),
    Reference(special.log_expit, (lambda x: _expit(-x),)),
    Reference(special.xlogy, (lambda x, y: mp.log(y), lambda x, y: x / y), lambda x, y: y > 0),
    Reference(special.xlog1py, (lambda x, y: mp.log1p(y), lambda x, y: x / (1 + y)), lambda x, y: y > -1),
    # The two terms cancel where the derivative is 0.
    Reference(special.entr, (lambda x: -mp.log(x) - 1,), _positive, amplifies=lambda x: 60 if 0.3 < x < 0.5 else 0),
    Reference(
        special.rel_entr,
        (lambda x, y: mp.log(x / y) + 1, lambda x, y: -x / y),
        _positive,
        amplifies=lambda x, y: 4 * (abs(mp.log(x)) + abs(mp.log(y))),
    ),
    Reference(
        special.kl_div,
        (lambda x, y: mp.log(x / y), lambda x, y: 1 - x / y),
        _positive,
        amplifies=lambda x, y: 4 * (abs(mp.log(x)) + abs(mp.log(y))),
    ),
    Reference(special.exprel, (_exprel_slope,), ulps=64),
    Reference(special.pseudo_huber, (lambda d, r: _huber(d, r)[0], lambda d, r: _huber(d, r)[1]), lambda d, r: d > 0),
    Reference(
        special.huber, (lambda d, r: max(mpf(0), abs(r) - d), lambda d, r: max(-d, min(r, d))), lambda d, r: d > 0
    ),
    Reference(special.erf, (_gauss,), amplifies=_squared),
    Reference(special.erfc, (lambda x: -_gauss(x),), amplifies=_squared),
    Reference(special.erfi, (lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(x * x),), amplifies=_squared),
    Reference(special.erfcx, (_erfcx_slope,), lambda x: x > -26, ulps=64, amplifies=lambda x: 4 * min(x, 60) ** 4),
    Reference(special.dawsn, (_dawsn_slope,), ulps=64, amplifies=lambda x: 4 * min(x, 60) ** 4),
    Reference(special.ndtr, (lambda x: mp.npdf(_bounded(x)),), amplifies=_squared),
    Reference(special.log_ndtr, (_log_ndtr_slope,), ulps=32, amplifies=lambda x: _squared(max(x, 0))),
    Reference(special.erfinv, (lambda y: 1 / _gauss(mp.erfinv(y)),), lambda y: abs(y) < 1, ulps=64),
    Reference(special.exp1, (lambda x: -mp.exp(-_bounded(x)) / x,), lambda x: x > 0),
    Reference(special.expi, (lambda x: mp.exp(_bounded(x)) / x,), lambda x: x != 0),
]

REFERENCES: dict[Callable[..., Any], Reference] = {one.function: one for one in _ALL}
#: Elementwise functions of which nothing is compared here, and why.
WITHOUT: dict[Callable[..., Any], str] = {
    special.round: "it has no derivative",
    **dict.fromkeys(
        (special.boxcox, special.boxcox1p, special.inv_boxcox, special.inv_boxcox1p, special.powm1),
        "its derivatives are powers and logarithms, of which test_special_functions.py has the limits",
    ),
    **dict.fromkeys((special.erfcinv, special.ndtri), "it is erfinv of another number"),
    special.ndtri_exp: "its derivative is one over that of log_ndtr",
    **dict.fromkeys((special.expn, special.fresnel, special.shichi, special.sici), "mpmath takes long for it"),
    **dict.fromkeys((special.voigt_profile, special.wofz), "it is a function of complex numbers"),
}
