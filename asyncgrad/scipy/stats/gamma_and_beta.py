"""Families whose probabilities are incomplete gamma and beta functions.

The logarithms of the densities that models are made of are one operation each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..special.log_densities import (
    GREAT,
    beta_log_density_,
    chi_squared_log_density_,
    f_log_density_,
    gamma_log_density_,
    log_beta_,
    student_log_density_,
)
from ..special.rules import by_mask
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .log_tails import log_beta_below, log_gamma_above, log_gamma_below
from .supports import OnLine, Positive

__all__ = ["beta", "chi2", "f", "gamma", "gamma_entropy", "invgamma", "less_than_normal", "student_entropy", "t"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
#: From such a shape on the terms of an entropy cancel, and a series has them all.
_MANY = 1e3


def gamma_entropy(a: Any) -> Any:
    """Return the entropy of the gamma distribution, a + gammaln(a) + (1 - a) * psi(a), also where the terms cancel.

    The entropies of other families are sums of it, without any cancellation.
    """
    is_large = raw(a) > _MANY
    if not np.any(is_large):
        return a + special.gammaln(a) + (1 - a) * special.psi(a)
    small, large = np.where(is_large, 1.0, a), np.where(is_large, a, _MANY)
    far = _LOG_ROOT + 0.5 + 0.5 * np.log(large) - less_than_normal(1 / large)
    return np.where(is_large, far, small + special.gammaln(small) + (1 - small) * special.psi(small))


def less_than_normal(inverse: Any) -> Any:
    """Return by how much the entropy of a gamma distribution is less than the normal one's, by 1 over its shape."""
    return inverse * (1 / 3 + inverse * (1 / 12 + inverse * (1 / 90 - inverse / 120)))


def student_entropy(df: Any, count: int = 1) -> Any:
    """Return the entropy of Student's distribution of a number of variables, with the unit matrix as shape."""
    half, whole = df / 2, (df + count) / 2
    low = special.psi(half)
    normal = count / 2 * (1 + 2 * _LOG_ROOT + np.log(half) - low)
    return gamma_entropy(half) - gamma_entropy(whole) + special.psi(whole) - low + normal


@final
class StudentT(OnLine):
    """Student's distribution with `df` degrees of freedom; with infinitely many it is the normal one."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("df",)

    def _or_normal(self, df: Any, function: Callable[[Any], Any], normal: Callable[[], Any]) -> Any:
        infinite = np.isinf(raw(df))
        if not np.any(infinite):
            return function(df)
        return np.where(infinite, normal(), function(np.where(infinite, 5.0, df)))

    def _logpdf(self, y: Any, df: Any) -> Any:
        return self._or_normal(df, lambda df: student_log_density_.call(df, y), lambda: -0.5 * y * y - _LOG_ROOT)

    def _cdf(self, y: Any, df: Any) -> Any:
        return special.stdtr(df, y)

    def _sf(self, y: Any, df: Any) -> Any:
        return special.stdtr(df, -y)

    def _ppf(self, q: Any, df: Any) -> Any:
        return special.stdtrit(df, q)

    def _isf(self, q: Any, df: Any) -> Any:
        return -special.stdtrit(df, q)

    def _log_below(self, mask: Any, y: Any, df: Any) -> Any:
        y = np.where(mask, y, -1.0)
        return self._or_normal(
            df,
            lambda df: log_beta_below(df / 2, 0.5, df / (df + y * y), mask) - math.log(2),
            lambda: special.log_ndtr(y),
        )

    def _log_above(self, mask: Any, y: Any, df: Any) -> Any:
        return self._log_below(mask, -y, df)

    def _mean_and_variance(self, df: Any) -> tuple[Any, Any]:
        bare = raw(df)
        finite = self._or_normal(df, lambda df: df / np.where(raw(df) > 2, df - 2, 1.0), lambda: 1.0)
        variance = np.where(bare > 2, finite, np.where(bare > 1, np.inf, np.nan))
        return np.where(bare > 1, 0.0, np.inf), variance

    def _skewness_and_kurtosis(self, df: Any) -> tuple[Any, Any]:
        bare = raw(df)
        kurtosis = np.where(bare > 4, 6 / np.where(bare > 4, df - 4, 1.0), np.where(bare > 2, np.inf, np.nan))
        return np.where(bare > 3, 0.0, np.nan), kurtosis

    def _entropy(self, df: Any) -> Any:
        return self._or_normal(df, student_entropy, lambda: _LOG_ROOT + 0.5)


@final
class Gamma(Positive):
    """The gamma distribution of shape `a`."""

    __slots__ = ()

    _has_powers = True

    shapes: tuple[str, ...] = ("a",)

    def _logpdf(self, y: Any, a: Any) -> Any:
        return gamma_log_density_.call(a, y)

    def _power(self, at_last: bool, distance: Any, a: Any) -> tuple[Any, Any]:
        return a - 1, -distance - special.gammaln(a)

    def _cdf(self, y: Any, a: Any) -> Any:
        return special.gammainc(a, y)

    def _sf(self, y: Any, a: Any) -> Any:
        return special.gammaincc(a, y)

    def _ppf(self, q: Any, a: Any) -> Any:
        return special.gammaincinv(a, q)

    def _isf(self, q: Any, a: Any) -> Any:
        return special.gammainccinv(a, q)

    def _log_below(self, mask: Any, y: Any, a: Any) -> Any:
        return log_gamma_below(a, y, mask)

    def _log_above(self, mask: Any, y: Any, a: Any) -> Any:
        return log_gamma_above(a, y, mask)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        return a * 1.0, a * 1.0

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        return 2 / np.sqrt(a), 6 / a

    def _entropy(self, a: Any) -> Any:
        return gamma_entropy(a)


@final
class ChiSquared(Positive):
    """The distribution of the sum of `df` squares of normal numbers."""

    __slots__ = ()

    _has_powers = True

    shapes: tuple[str, ...] = ("df",)

    def _logpdf(self, y: Any, df: Any) -> Any:
        return chi_squared_log_density_.call(df, y)

    def _power(self, at_last: bool, distance: Any, df: Any) -> tuple[Any, Any]:
        half = df / 2
        return half - 1, -distance / 2 - special.gammaln(half) - math.log(2) * half

    def _cdf(self, y: Any, df: Any) -> Any:
        return special.chdtr(df, y)

    def _sf(self, y: Any, df: Any) -> Any:
        return special.chdtrc(df, y)

    def _ppf(self, q: Any, df: Any) -> Any:
        return 2 * special.gammaincinv(df / 2, q)

    def _isf(self, q: Any, df: Any) -> Any:
        return special.chdtri(df, q)

    def _log_below(self, mask: Any, y: Any, df: Any) -> Any:
        return log_gamma_below(df / 2, y / 2, mask)

    def _log_above(self, mask: Any, y: Any, df: Any) -> Any:
        return log_gamma_above(df / 2, y / 2, mask)

    def _mean_and_variance(self, df: Any) -> tuple[Any, Any]:
        return df * 1.0, 2.0 * df

    def _skewness_and_kurtosis(self, df: Any) -> tuple[Any, Any]:
        return np.sqrt(8 / df), 12 / df

    def _entropy(self, df: Any) -> Any:
        return math.log(2) + gamma_entropy(df / 2)


@final
class InverseGamma(Positive):
    """The distribution of the reciprocal of a number with the gamma distribution of shape `a`."""

    __slots__ = ()

    _flat_start = True

    shapes: tuple[str, ...] = ("a",)

    def _logpdf(self, y: Any, a: Any) -> Any:
        is_zero = raw(y) == 0
        safe = np.where(is_zero, 1.0, y)
        value = by_mask(
            raw(a) > GREAT,
            lambda a, y: gamma_log_density_.call(a, 1 / np.maximum(y, 1e-300)) - 2 * np.log(y),
            lambda a, y: -(a + 1) * np.log(y) - special.gammaln(a) - 1 / y,
            (a, 2 * GREAT, 1.0),
            (safe, 1.0, 1.0),
        )
        return np.where(is_zero, -np.inf, value)

    def _cdf(self, y: Any, a: Any) -> Any:
        return special.gammaincc(a, 1 / y)

    def _sf(self, y: Any, a: Any) -> Any:
        return special.gammainc(a, 1 / y)

    def _ppf(self, q: Any, a: Any) -> Any:
        return 1 / special.gammainccinv(a, q)

    def _isf(self, q: Any, a: Any) -> Any:
        return 1 / special.gammaincinv(a, q)

    def _log_below(self, mask: Any, y: Any, a: Any) -> Any:
        is_zero = mask & (raw(y) == 0)
        return np.where(is_zero, -np.inf, log_gamma_above(a, 1 / np.where(mask & ~is_zero, y, 1.0), mask & ~is_zero))

    def _log_above(self, mask: Any, y: Any, a: Any) -> Any:
        return log_gamma_below(a, 1 / np.where(mask, y, 1.0), mask)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        bare = raw(a)
        one, two = np.where(bare > 1, a - 1, 1.0), np.where(bare > 2, a - 2, 1.0)
        return np.where(bare > 1, 1 / one, np.inf), np.where(bare > 2, 1 / (np.square(one) * two), np.inf)

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        bare = raw(a)
        three, four = np.where(bare > 3, a, 4.0), np.where(bare > 4, a, 5.0)
        skewness = 4 * np.sqrt(three - 2) / (three - 3)
        kurtosis = 6 * (5 * four - 11) / ((four - 3) * (four - 4))
        return np.where(bare > 3, skewness, np.nan), np.where(bare > 4, kurtosis, np.nan)

    def _entropy(self, a: Any) -> Any:
        return gamma_entropy(a) - 2 * special.psi(a)


@final
class Beta(ContinuousDistribution):
    """The beta distribution of shapes `a` and `b`."""

    __slots__ = ()

    _has_powers = True

    shapes: tuple[str, ...] = ("a", "b")

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _logpdf(self, y: Any, a: Any, b: Any) -> Any:
        return beta_log_density_.call(a, b, y)

    def _power(self, at_last: bool, distance: Any, a: Any, b: Any) -> tuple[Any, Any]:
        near, other = (b, a) if at_last else (a, b)
        return near - 1, (1 - other) * distance - log_beta_.call(a, b)

    def _cdf(self, y: Any, a: Any, b: Any) -> Any:
        return special.betainc(a, b, y)

    def _sf(self, y: Any, a: Any, b: Any) -> Any:
        return special.betaincc(a, b, y)

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        return special.betaincinv(a, b, q)

    def _isf(self, q: Any, a: Any, b: Any) -> Any:
        return special.betainccinv(a, b, q)

    def _log_below(self, mask: Any, y: Any, a: Any, b: Any) -> Any:
        return log_beta_below(a, b, y, mask)

    def _log_above(self, mask: Any, y: Any, a: Any, b: Any) -> Any:
        return log_beta_below(b, a, 1 - y, mask)

    def _mean_and_variance(self, a: Any, b: Any) -> tuple[Any, Any]:
        total = a + b
        return a / total, a * b / (np.square(total) * (total + 1))

    def _skewness_and_kurtosis(self, a: Any, b: Any) -> tuple[Any, Any]:
        total, product = a + b, a * b
        skewness = 2 * (b - a) * np.sqrt(total + 1) / ((total + 2) * np.sqrt(product))
        kurtosis = np.square(a - b) * (total + 1) - product * (total + 2)
        return skewness, 6 * kurtosis / (product * (total + 2) * (total + 3))

    def _entropy(self, a: Any, b: Any) -> Any:
        total = a + b
        return gamma_entropy(a) + gamma_entropy(b) - gamma_entropy(total) - special.psi(total)


@final
class FRatio(Positive):
    """The F distribution with `dfn` and `dfd` degrees of freedom."""

    __slots__ = ()

    _has_powers = True

    shapes: tuple[str, ...] = ("dfn", "dfd")

    def _logpdf(self, y: Any, dfn: Any, dfd: Any) -> Any:
        return f_log_density_.call(dfn, dfd, y)

    def _power(self, at_last: bool, distance: Any, dfn: Any, dfd: Any) -> tuple[Any, Any]:
        half = dfn / 2
        rate = (half + dfd / 2) * dfn / dfd
        return half - 1, half * np.log(dfn / dfd) - log_beta_.call(half, dfd / 2) - rate * distance

    def _cdf(self, y: Any, dfn: Any, dfd: Any) -> Any:
        return special.fdtr(dfn, dfd, y)

    def _sf(self, y: Any, dfn: Any, dfd: Any) -> Any:
        return special.fdtrc(dfn, dfd, y)

    def _ppf(self, q: Any, dfn: Any, dfd: Any) -> Any:
        return special.fdtri(dfn, dfd, q)

    def _isf(self, q: Any, dfn: Any, dfd: Any) -> Any:
        share = special.betaincinv(dfd / 2, dfn / 2, q)
        return dfd * (1 - share) / (dfn * share)

    def _log_below(self, mask: Any, y: Any, dfn: Any, dfd: Any) -> Any:
        return log_beta_below(dfn / 2, dfd / 2, dfn * y / (dfd + dfn * y), mask)

    def _log_above(self, mask: Any, y: Any, dfn: Any, dfd: Any) -> Any:
        return log_beta_below(dfd / 2, dfn / 2, dfd / (dfd + dfn * y), mask)

    def _mean_and_variance(self, dfn: Any, dfd: Any) -> tuple[Any, Any]:
        bare = raw(dfd)
        two, four = np.where(bare > 2, dfd - 2, 1.0), np.where(bare > 4, dfd - 4, 1.0)
        variance = 2 * np.square(dfd) * (dfn + two) / (dfn * np.square(two) * four)
        return np.where(bare > 2, dfd / two, np.inf), np.where(bare > 4, variance, np.inf)

    def _skewness_and_kurtosis(self, dfn: Any, dfd: Any) -> tuple[Any, Any]:
        bare = raw(dfd)
        six, eight = np.where(bare > 6, dfd, 7.0), np.where(bare > 8, dfd, 9.0)
        skewness = (2 * dfn + six - 2) * np.sqrt(8 * (six - 4)) / ((six - 6) * np.sqrt(dfn * (dfn + six - 2)))
        both = dfn + eight - 2
        kurtosis = 12 * (dfn * (5 * eight - 22) * both + (eight - 4) * np.square(eight - 2))
        kurtosis = kurtosis / (dfn * (eight - 6) * (eight - 8) * both)
        return np.where(bare > 6, skewness, np.nan), np.where(bare > 8, kurtosis, np.nan)

    def _entropy(self, dfn: Any, dfd: Any) -> Any:
        half, other = dfn / 2, dfd / 2
        total = half + other
        value = np.log(dfd) - np.log(dfn) + gamma_entropy(half) + gamma_entropy(other) - gamma_entropy(total)
        return value - 2 * special.psi(other) + special.psi(total)


beta: Beta = Beta("beta")
chi2: ChiSquared = ChiSquared("chi2")
f: FRatio = FRatio("f")
gamma: Gamma = Gamma("gamma")
invgamma: InverseGamma = InverseGamma("invgamma")
t: StudentT = StudentT("t")
