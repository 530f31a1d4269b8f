"""Logistic functions, products with logarithms, as entropies have them, powers, and Huber's losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.ops.nondifferentiable import NonDifferentiable
from ...core.recording.primitive import RULES, Primitive
from ..ufuncs import special
from .rules import compute_where, differentiable

__all__ = [
    "boxcox",
    "boxcox1p",
    "cbrt",
    "cosm1",
    "entr",
    "exp10",
    "exp2",
    "expit",
    "expm1",
    "exprel",
    "exprel_slope",
    "huber",
    "inv_boxcox",
    "inv_boxcox1p",
    "kl_div",
    "log1p",
    "log_expit",
    "logit",
    "powm1",
    "pseudo_huber",
    "rel_entr",
    "round_",
    "xlog1py",
    "xlogy",
]

# SciPy's own ufuncs of functions that NumPy has, too.

exp10: Primitive = differentiable(special.exp10, "x", x=lambda g, out: g * (math.log(10) * out))
exp2: Primitive = differentiable(special.exp2, "x", x=lambda g, out: g * (math.log(2) * out))
expm1: Primitive = differentiable(special.expm1, "x", x=lambda g, x: g * np.exp(x))
log1p: Primitive = differentiable(special.log1p, "x", x=lambda g, x: g / (1 + x))
cbrt: Primitive = differentiable(special.cbrt, "x", x=lambda g, out: g / (3 * np.square(out)))
cosm1: Primitive = differentiable(special.cosm1, "x", x=lambda g, x: -g * np.sin(x))
round_ = RULES[special.round] = NonDifferentiable(special.round)

# Not 1 - out, which is 0 from 37 on.
expit: Primitive = differentiable(special.expit, "x", x=lambda g, x, out: g * (out * special.expit(-x)))
logit: Primitive = differentiable(special.logit, "x", x=lambda g, x: g / (x * (1 - x)))
log_expit: Primitive = differentiable(special.log_expit, "x", x=lambda g, x: g * special.expit(-x))


# Products with logarithms.


def _one_where_both_are_zero(x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y == 0), 1, y)


def _log_of_ratio(x: Any, y: Any) -> Any:
    """Return log(x / y), with all digits where both are nearly equal, and infinity where both are 0, as beside y=0."""
    both = (raw(x) == 0) & (raw(y) == 0)
    if np.any(both):
        return np.where(both, np.inf, _log_of_ratio(np.where(both, 1.0, x), np.where(both, 1.0, y)))
    is_near = np.abs(raw(x) - raw(y)) < 0.5 * raw(y)
    if not np.any(is_near):
        return np.log(x) - np.log(y)
    near_x, near_y = np.where(is_near, x, 1.0), np.where(is_near, y, 1.0)
    near = np.log1p((near_x - near_y) / near_y)
    if np.all(is_near):
        return near
    return np.where(is_near, near, np.log(np.where(is_near, 1.0, x)) - np.log(np.where(is_near, 1.0, y)))


# Where both are 0 the product is 0, and constant in y.
xlogy: Primitive = differentiable(
    special.xlogy, "x y", x=lambda g, y: g * np.log(y), y=lambda g, x, y: g * (x / _one_where_both_are_zero(x, y))
)
xlog1py: Primitive = differentiable(
    special.xlog1py,
    "x y",
    x=lambda g, y: g * np.log1p(y),
    y=lambda g, x, y: g * (x / _one_where_both_are_zero(x, 1 + y)),
)

# At x=0 the derivatives by x are their limits: infinity for entr, minus infinity for the others unless y is 0, too.
entr: Primitive = differentiable(special.entr, "x", x=lambda g, x: -g * (np.log(x) + 1))
rel_entr: Primitive = differentiable(
    special.rel_entr,
    "x y",
    x=lambda g, x, y: g * (_log_of_ratio(x, y) + 1),
    y=lambda g, x, y: -g * (x / _one_where_both_are_zero(x, y)),
)
kl_div: Primitive = differentiable(
    special.kl_div,
    "x y",
    x=lambda g, x, y: g * _log_of_ratio(x, y),
    y=lambda g, x, y: g * np.where((raw(x) == 0) & (raw(y) == 0), 1.0, (y - x) / _one_where_both_are_zero(x, y)),
)


# Powers less 1, over the exponent.


def exprel_slope(t: Any) -> Any:
    """Return (exp(t) * (t - 1) + 1) / t**2, the derivative of (exp(t) - 1) / t, also next to 0."""
    is_small = np.abs(raw(t)) < 0.5
    small = np.where(is_small, t, 0.0)
    series: Any = 0.0
    for power in range(17, -1, -1):
        series = series * small + 1 / (math.factorial(power) * (power + 2))
    is_infinite = raw(t) == -np.inf
    large = np.where(is_small | is_infinite, 1.0, t)
    # The exponential as a square: it may be infinite where its quotient is not.
    root = np.exp(0.5 * large)
    slope = root * ((large - 1) / large) * (root / large) + 1 / large / large
    return np.where(is_small, series, np.where(is_infinite, 0.0, slope))


exprel: Primitive = differentiable(special.exprel, "x", x=lambda g, x: g * exprel_slope(x))


def _boxcox_by_lambda(logarithm: Any, lmbda: Any) -> Any:
    return np.square(logarithm) * exprel_slope(lmbda * logarithm)


def _boxcox_at(x: Any, start: float, lmbda: Any, logarithm: Any) -> Any:
    """Return the derivative by lmbda, also where the logarithm is that of 0, and the result -1 / lmbda."""
    at_start = (raw(x) == start) & (raw(lmbda) > 0)
    if not np.any(at_start):
        return _boxcox_by_lambda(logarithm(x), lmbda)
    slope = _boxcox_by_lambda(logarithm(np.where(at_start, 1.0, x)), lmbda)
    return np.where(at_start, np.where(at_start, lmbda, 1.0) ** -2.0, slope)


boxcox: Primitive = differentiable(
    special.boxcox,
    "x lmbda",
    x=lambda g, x, lmbda: g * x ** (lmbda - 1),
    lmbda=lambda g, x, lmbda: g * _boxcox_at(x, 0.0, lmbda, np.log),
)
boxcox1p: Primitive = differentiable(
    special.boxcox1p,
    "x lmbda",
    x=lambda g, x, lmbda: g * (1 + x) ** (lmbda - 1),
    lmbda=lambda g, x, lmbda: g * _boxcox_at(x, -1.0, lmbda, np.log1p),
)


def _log1p_less_share(s: Any) -> Any:
    """Return (s / (1 + s) - log1p(s)) / s**2, also next to 0."""
    is_small = np.abs(raw(s)) < 0.05
    small = np.where(is_small, s, 0.0)
    series: Any = 0.0
    for power in range(13, -1, -1):
        series = series * -small - (power + 1) / (power + 2)
    large = np.where(is_small, 1.0, s)
    return np.where(is_small, series, (large / (1 + large) - np.log1p(large)) / np.square(large))


def _unless_zero(lmbda: Any, y: Any) -> Any:
    """Return the product, which is 0 at `lmbda` = 0 of an infinite `y`, too."""
    return compute_where((raw(lmbda) != 0) | np.isfinite(raw(y)), lambda lmbda, y: lmbda * y, lmbda, y)


inv_boxcox: Primitive = differentiable(
    special.inv_boxcox,
    "y lmbda",
    y=lambda g, y, lmbda, out: g * (out / (1 + _unless_zero(lmbda, y))),
    lmbda=lambda g, y, lmbda, out: g * (out * np.square(y) * _log1p_less_share(lmbda * y)),
)
inv_boxcox1p: Primitive = differentiable(
    special.inv_boxcox1p,
    "y lmbda",
    y=lambda g, y, lmbda, out: g * ((out + 1) / (1 + _unless_zero(lmbda, y))),
    lmbda=lambda g, y, lmbda, out: g * ((out + 1) * np.square(y) * _log1p_less_share(lmbda * y)),
)


def _powm1_by_exponent(x: Any, y: Any, out: Any) -> Any:
    at_zero = (raw(x) == 0) & (raw(y) >= 0)
    return compute_where(~at_zero, lambda x, out: (out + 1) * np.log(x), x, out)


def _powm1_by_base(x: Any, y: Any) -> Any:
    return compute_where((raw(x) != 0) | (raw(y) != 0), lambda x, y: y * x ** (y - 1), x, y)


powm1: Primitive = differentiable(
    special.powm1,
    "x y",
    x=lambda g, x, y: g * _powm1_by_base(x, y),
    y=lambda g, x, y, out: g * _powm1_by_exponent(x, y, out),
)


# Losses of residuals.


def _huber_by_residual(delta: Any, r: Any) -> Any:
    return np.where(np.abs(r) <= delta, r, delta * np.sign(raw(r)))


huber: Primitive = differentiable(
    special.huber,
    "delta r",
    delta=lambda g, delta, r: g * np.where(np.abs(r) <= delta, 0.0, np.abs(r) - delta),
    r=lambda g, delta, r: g * _huber_by_residual(delta, r),
)


def _where_any(formula: Any, delta: Any, r: Any) -> Any:
    """Return a derivative, which is 0 where both arguments are."""
    return compute_where((raw(delta) != 0) | (raw(r) != 0), formula, delta, r)


def _pseudo_huber_by_delta(delta: Any, r: Any) -> Any:
    size = np.hypot(delta, r)
    # This is size - 2 * delta + delta**2 / size, whose terms cancel. No number on the way over- or underflows alone.
    ratio = r / size
    share = ratio / (1 + delta / size)
    return (r * share) * (share * ratio)


def _pseudo_huber_by_residual(delta: Any, r: Any) -> Any:
    size = np.hypot(delta, r)
    return np.where(np.abs(r) < delta, r * (delta / size), delta * (r / size))


pseudo_huber: Primitive = differentiable(
    special.pseudo_huber,
    "delta r",
    delta=lambda g, delta, r: g * _where_any(_pseudo_huber_by_delta, delta, r),
    r=lambda g, delta, r: g * _where_any(_pseudo_huber_by_residual, delta, r),
)
