"""Logarithms of densities made of gamma functions, which keep their digits for great parameters.

They are sums of great numbers that cancel: of a shape of 1e8 nothing is left of ten digits. So a density is written as
its height at the mode, by Stirling's series, less the distance from there: a sum of `count * (log1p(u) - u)` over the
counts, where the linear terms, which cancel exactly, are left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...numpy.random.shapes import f_score, logarithm_less
from ..ufuncs import special
from .gamma_functions import psi_difference
from .rules import by_mask, holds_somewhere, quotient
from .stirling import STIRLING, log_height, log_less_digamma

if TYPE_CHECKING:
    from ...core.arrays.array import Array

__all__ = [
    "GREAT",
    "beta_log_density_",
    "beta_prime_log_density_",
    "chi_squared_log_density_",
    "f_log_density_",
    "gamma_log_density_",
    "is_between",
    "log_beta_",
    "log_beta_mass",
    "log_gamma_mass",
    "log_odds_powers",
    "psi_fall",
    "student_log_density_",
    "where_great",
]

#: From such shapes on the terms of a density cancel.
GREAT = 50.0
#: From so many degrees of freedom on the terms of their derivative cancel, and a series has them all.
_MANY = 1e3
#: A number whose square is finite, and beside which degrees of freedom are nothing.
_FAR = 1e150


def log_gamma_mass(a: Any, x: Any) -> Any:
    """Return the logarithm of x**a * exp(-x) / gamma(a), for positive numbers."""
    ratio = (x - a) / a
    is_near = np.abs(ratio) <= 0.5
    near = a * logarithm_less(np.where(is_near, ratio, 0.0))
    return log_height(a) + np.where(is_near, near, a * (np.log(x) - np.log(a)) - x + a)


def log_beta_mass(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return the logarithm of x**a * y**b / beta(a, b), for positive numbers, of which x + y is 1."""
    total = a + b
    excess = x * b - y * a
    by_first, by_second = excess / a, -excess / b
    is_first_near, is_second_near = np.abs(by_first) <= 0.5, np.abs(by_second) <= 0.5
    is_near = is_first_near & is_second_near
    first, second = np.where(is_first_near, by_first, 0.0), np.where(is_second_near, by_second, 0.0)
    near = a * logarithm_less(first) + b * logarithm_less(second)
    # Of two terms of which one is much more than the other no digits are lost.
    far = a * np.where(is_first_near, np.log1p(first), np.log(x) + np.log(total) - np.log(a))
    far = far + b * np.where(is_second_near, np.log1p(second), np.log(y) + np.log(total) - np.log(b))
    return log_height(a) + log_height(b) - log_height(total) + np.where(is_near, near, far)


def where_great(is_great: Any, is_usable: Any, great: Any, usual: Any, *arguments: tuple[Any, float]) -> Any:
    """Return one function's values where parameters are great and it may be used, and another's elsewhere.

    Other than `by_mask` it is for primitives' values alone: the other function is called with all arguments as they
    are, so where its values do not count it may overflow, and a gradient would be NaN there.

    Args:
        is_great: where parameters are great: mostly nowhere, and then this alone is asked for.
        is_usable: a function of the arguments that tells where the first function may be used.
        great: whose values count where both hold.
        usual: whose values count elsewhere.
        *arguments: of both, each with a number that takes its place where values of the first do not count.
    """
    plain = [value for value, _ in arguments]
    if not holds_somewhere(is_great):
        return usual(*plain)
    is_great = is_great & is_usable(*plain)
    found = great(*(np.where(is_great, value, safe) for value, safe in arguments))
    if np.all(is_great):
        return found
    with np.errstate(all="ignore"):
        return np.where(is_great, found, usual(*plain))


def is_between(value: Any, last: float) -> Any:
    """Return where numbers lie between 0 and another one, which they do not reach."""
    return (value > 0) & (value < last)


def psi_fall(a: Any, b: Any) -> Any:
    """Return psi(a) - psi(a + b) of positive numbers: what a logarithm that is rounded, too, is added to."""
    if np.any(raw(a) > STIRLING):
        return psi_difference(a, b)
    return special.psi(a) - special.psi(a + b)


def _gamma_log_density(a: Any, x: Any) -> Any:
    return where_great(
        a > GREAT,
        lambda a, x: (a < np.inf) & is_between(x, np.inf),
        lambda a, x: log_gamma_mass(a, x) - np.log(x),
        lambda a, x: special.xlogy(a - 1, x) - x - special.gammaln(a),
        (a, 100.0),
        (x, 100.0),
    )


def _gamma_score(a: Any, x: Any) -> Any:
    """Return the slope of that logarithm by the shape, log(x) - psi(a)."""
    is_great = raw(a) > GREAT
    if not np.any(is_great):
        return np.log(x) - special.psi(a)
    small, great = np.where(is_great, 1.0, a), np.where(is_great, a, 100.0)
    far = np.log(x / great) + log_less_digamma(great)
    return np.where(is_great, far, np.log(x) - special.psi(small))


@primitive()
def gamma_log_density_(a: Any, x: Any) -> Any:
    """Return the logarithm of the density of the gamma distribution of shape `a`."""
    return _gamma_log_density(a, x)


@derivative(gamma_log_density_, "a")
def _(g: Any, a: Any, x: Any) -> Array:
    return g * _gamma_score(a, x)


@derivative(gamma_log_density_, "x")
def _(g: Any, a: Any, x: Any) -> Array:
    return g * (quotient(a - 1, x) - 1)


@primitive()
def chi_squared_log_density_(df: Any, x: Any) -> Any:
    """Return the logarithm of the density of the chi-squared distribution, of twice a gamma variable."""
    return _gamma_log_density(df / 2, x / 2) - math.log(2)


@derivative(chi_squared_log_density_, "df")
def _(g: Any, df: Any, x: Any) -> Array:
    return g * (0.5 * _gamma_score(df / 2, x / 2))


@derivative(chi_squared_log_density_, "x")
def _(g: Any, df: Any, x: Any) -> Array:
    return g * (quotient(df / 2 - 1, x) - 0.5)


@primitive()
def beta_log_density_(a: Any, b: Any, x: Any) -> Any:
    """Return the logarithm of the density of the beta distribution of shapes `a` and `b`."""
    total = a + b
    return where_great(
        total > GREAT,
        lambda a, b, x: (total < np.inf) & (a > 0) & (b > 0) & is_between(x, 1.0),
        lambda a, b, x: log_beta_mass(a, b, x, 1 - x) - np.log(x) - np.log1p(-x),
        lambda a, b, x: special.xlog1py(b - 1, -x) + special.xlogy(a - 1, x) - special.betaln(a, b),
        (a, 100.0),
        (b, 100.0),
        (x, 0.5),
    )


@derivative(beta_log_density_, "a")
def _(g: Any, a: Any, b: Any, x: Any) -> Array:
    return g * (np.log(x) - psi_fall(a, b))


@derivative(beta_log_density_, "b")
def _(g: Any, a: Any, b: Any, x: Any) -> Array:
    return g * (np.log1p(-x) - psi_fall(b, a))


@derivative(beta_log_density_, "x")
def _(g: Any, a: Any, b: Any, x: Any) -> Array:
    return g * (quotient(a - 1, x) - quotient(b - 1, 1 - x))


def _log_odds_density(a: Any, b: Any, odds: Any) -> Any:
    total = a + b
    return where_great(
        total > GREAT,
        lambda a, b, odds: (total < np.inf) & (a > 0) & (b > 0) & is_between(odds, np.inf),
        lambda a, b, odds: log_beta_mass(a, b, odds / (1 + odds), 1 / (1 + odds)) - np.log(odds),
        lambda a, b, odds: log_odds_powers(a, b, odds) - special.betaln(a, b),
        (a, 100.0),
        (b, 100.0),
        (odds, 1.0),
    )


def log_odds_powers(a: Any, b: Any, odds: Any) -> Any:
    """Return the logarithm of odds ** (a - 1) / (1 + odds) ** (a + b), of two powers that do not cancel."""
    is_great = raw(odds) > 1
    low, high = np.where(is_great, 0.5, odds), np.where(is_great, odds, 1.0)
    small = special.xlogy(a - 1, low) - special.xlog1py(a + b, low)
    return np.where(is_great, -special.xlog1py(a - 1, 1 / high) - special.xlog1py(b + 1, high), small)


def _odds_slope(a: Any, b: Any, odds: Any) -> Any:
    return (quotient(a - 1, odds) - (b + 1)) / (1 + odds)


@primitive()
def beta_prime_log_density_(a: Any, b: Any, odds: Any) -> Any:
    """Return the logarithm of the density of the odds of a number with the beta distribution."""
    return _log_odds_density(a, b, odds)


@derivative(beta_prime_log_density_, "a")
def _(g: Any, a: Any, b: Any, odds: Any) -> Array:
    is_great = raw(odds) > 1
    low, high = np.where(is_great, 1.0, odds), np.where(is_great, odds, 1.0)
    share = np.where(is_great, -np.log1p(1 / high), np.log(low) - np.log1p(low))
    return g * (share - psi_fall(a, b))


@derivative(beta_prime_log_density_, "b")
def _(g: Any, a: Any, b: Any, odds: Any) -> Array:
    return g * (-np.log1p(odds) - psi_fall(b, a))


@derivative(beta_prime_log_density_, "odds")
def _(g: Any, a: Any, b: Any, odds: Any) -> Array:
    return g * _odds_slope(a, b, odds)


@primitive()
def f_log_density_(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the logarithm of the density of the F distribution."""
    rate = dfn / dfd
    return _log_odds_density(dfn / 2, dfd / 2, rate * x) + np.log(rate)


@derivative(f_log_density_, "dfn")
def _(g: Any, dfn: Any, dfd: Any, x: Any) -> Array:
    # The inverse of the number has the degrees of freedom the other way round.
    is_zero = raw(x) == 0
    odds = dfn * (np.where(is_zero, 1.0, x) if np.any(is_zero) else x) / dfd
    slope = f_score(dfd / 2, dfn / 2, 1 / odds)
    return g * (np.where(is_zero, -np.inf, slope) if np.any(is_zero) else slope)


@derivative(f_log_density_, "dfd")
def _(g: Any, dfn: Any, dfd: Any, x: Any) -> Array:
    return g * f_score(dfn / 2, dfd / 2, dfn * x / dfd)


@derivative(f_log_density_, "x")
def _(g: Any, dfn: Any, dfd: Any, x: Any) -> Array:
    rate = dfn / dfd
    return g * (rate * _odds_slope(dfn / 2, dfd / 2, rate * x))


@primitive()
def log_beta_(a: Any, b: Any) -> Any:
    """Return the logarithm of the beta function of positive numbers; SciPy's has lost digits of a great argument."""
    least, most = np.minimum(a, b), np.maximum(a, b)
    return where_great(
        most > GREAT,
        lambda least, most: (most < np.inf) & (least > 0),
        _log_beta_of_great,
        special.betaln,
        (least, 1.0),
        (most, 100.0),
    )


def _log_beta_of_great(least: Any, most: Any) -> Any:
    total = least + most
    ratio = np.log1p(least / most)
    # Both are sums of terms of one sign, but for the first of them where it is small.
    one = special.gammaln(least) - (most - 0.5) * ratio - least * np.log(total) + least
    one = one + _stirling_rest(most) - _stirling_rest(total)
    mean = log_height(total) - log_height(least) - log_height(most)
    both = mean - most * ratio - least * np.log1p(most / least)
    return np.where(least < STIRLING, one, both)


def _stirling_rest(a: Any) -> Any:
    """Return gammaln(a) less the terms of Stirling's formula, for a great `a`."""
    return np.log(a / (2 * math.pi)) / 2 - log_height(a)


@derivative(log_beta_, "a")
def _(g: Any, a: Any, b: Any) -> Array:
    return g * psi_fall(a, b)


@derivative(log_beta_, "b")
def _(g: Any, a: Any, b: Any) -> Array:
    return g * psi_fall(b, a)


@primitive()
def student_log_density_(df: Any, t: Any) -> Any:
    """Return the logarithm of the density of Student's distribution, with finite degrees of freedom."""
    return -special.xlog1py((df + 1) / 2, t * t / df) - log_beta_.call(df / 2, 0.5) - 0.5 * np.log(df)


@derivative(student_log_density_, "df")
def _(g: Any, df: Any, t: Any) -> Array:
    # Far out, where the square overflows, only its logarithm changes.
    is_far = np.abs(raw(t)) > _FAR
    squares = np.square(np.where(is_far, _FAR, t))
    bend = _bend_of_log1p(squares / df)
    if np.any(is_far):
        bend = np.where(is_far, 2 * np.log(np.abs(np.where(is_far, t, 1.0))) - np.log(df) - 1.0, bend)
    return g * (0.5 * (_student_bulk(df) - bend + squares / (df * (df + squares))))


@derivative(student_log_density_, "t")
def _(g: Any, df: Any, t: Any) -> Array:
    return g * (-(df + 1) * t / (df + t * t))


def _bend_of_log1p(x: Any) -> Any:
    """Return log1p(x) - x / (1 + x), also next to 0, where the terms cancel."""

    def series(x: Any) -> Any:
        value: Any = 0.0
        for order in range(18, 1, -1):
            value = (order - 1) / order - value * x
        return value * x * x

    return by_mask(raw(x) < 0.1, series, lambda x: np.log1p(x) - x / (1 + x), (x, 0.0, 1.0))


def _student_bulk(df: Any) -> Any:
    """Return psi((df + 1) / 2) - psi(df / 2) - 1 / df, whose terms cancel for many degrees of freedom."""

    def series(df: Any) -> Any:
        inverse = np.square(1 / df)
        return inverse * (0.5 + inverse * (inverse / 2 - 0.25))

    def of_few(df: Any) -> Any:
        return special.psi((df + 1) / 2) - special.psi(df / 2) - 1 / df

    return by_mask(raw(df) > _MANY, series, of_few, (df, _MANY, 1.0))
