"""Families of extreme values and of lifetimes: the limits of greatest values, of what exceeds them, and Gompertz's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor, asarray
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .gamma_series import SMALL, gamma_series, polynomial, product
from .supports import bounded_exp, logarithm_over, one_minus_exp_

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["genextreme", "genpareto", "gompertz"]

_ONE, _TWO, _THREE, _FOUR = (gamma_series(factor) for factor in (1, 2, 3, 4))
#: Of the central moments of exp(-c * x) for x of Gumbel's distribution, over powers of c.
_SPREAD = (_TWO - product(_ONE, _ONE))[2:]
_THIRD = (_THREE - 3 * product(_TWO, _ONE) + 2 * product(_ONE, _ONE, _ONE))[3:]
_FOURTH = (_FOUR - 4 * product(_THREE, _ONE) + 6 * product(_TWO, _ONE, _ONE) - 3 * product(_ONE, _ONE, _ONE, _ONE))[4:]


@final
class GeneralizedExtremes(ContinuousDistribution):
    """The limit of the greatest of many: bounded above for `c` > 0, below for `c` < 0, and Gumbel's for 0."""

    __slots__ = ()

    _flat_start = _flat_end = True

    shapes: tuple[str, ...] = ("c",)
    _inner = 0.0

    def _valid(self, c: Any) -> Any:
        return np.isfinite(c)

    def _support(self, c: Any) -> tuple[Any, Any]:
        sign = np.sign(raw(c))
        end = 1 / np.where(sign == 0, 1.0, c)
        return np.where(sign < 0, end, -np.inf), np.where(sign > 0, end, np.inf)

    def _logpdf(self, y: Any, c: Any) -> Any:
        standard = logarithm_over(-c, y)
        return -np.exp(-standard) - (1 - c) * standard

    def _cdf(self, y: Any, c: Any) -> Any:
        return np.exp(-bounded_exp(-logarithm_over(-c, y)))

    def _logcdf(self, y: Any, c: Any) -> Any:
        return -np.exp(-logarithm_over(-c, y))

    def _sf(self, y: Any, c: Any) -> Any:
        return one_minus_exp_.call(bounded_exp(-logarithm_over(-c, y)))

    def _ppf(self, q: Any, c: Any) -> Any:
        standard = -np.log(-np.log(q))
        return standard * special.exprel(-c * standard)

    def _isf(self, q: Any, c: Any) -> Any:
        standard = -np.log(-np.log1p(-q))
        return standard * special.exprel(-c * standard)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        bare = raw(c)
        is_small = np.abs(bare) < SMALL
        small, large = np.where(is_small, c, 0.0), np.where(is_small | (bare <= -0.5), 1.0, c)
        first = special.gamma(1 + large)
        second = special.gamma(1 + 2 * large)
        # Where the first mean square overflows it is beyond the square of the mean.
        is_finite = np.isfinite(raw(second))
        spread = np.where(is_finite, second - np.where(is_finite, first, 0.0) ** 2, np.inf) / np.square(large)
        outside = np.where(is_small | (bare <= -1), 1.0, c)
        mean = (1 - special.gamma(1 + outside)) / outside
        mean = np.where(is_small, -polynomial(_ONE[1:], small), np.where(bare > -1, mean, np.inf))
        variance = np.where(is_small, polynomial(_SPREAD, small), np.where(bare > -0.5, spread, np.inf))
        return mean, variance

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        bare = raw(c)
        small = np.where(np.abs(bare) < SMALL, c, 0.0)
        spread = polynomial(_SPREAD, small)
        skewness = -polynomial(_THIRD, small) / spread**1.5
        kurtosis = polynomial(_FOURTH, small) / np.square(spread) - 3
        is_large = (np.abs(bare) >= SMALL) & np.isfinite(bare)
        if np.any(is_large):
            third, fourth = is_large & (bare > -1 / 3), is_large & (bare > -0.25)
            skewness = np.where(third, self._standard_moment(3, np.where(third, c, 1.0)), skewness)
            kurtosis = np.where(fourth, self._standard_moment(4, np.where(fourth, c, 1.0)) - 3, kurtosis)
        return np.where(bare > -1 / 3, skewness, np.nan), np.where(bare > -0.25, kurtosis, np.nan)

    @staticmethod
    def _standard_moment(order: int, c: Any) -> Any:
        """Return a central moment over a power of the variance, of c that is not small."""
        # Over powers of the root of gamma(1 + 2 * c), which overflows first.
        half = special.gammaln(1 + 2 * c) / 2
        first = np.exp(special.gammaln(1 + c) - half)
        third = np.exp(special.gammaln(1 + 3 * c) - 3 * half)
        square = first * first
        spread = 1 - square
        if order == 3:
            return -np.sign(raw(c)) * (third - first * (3 - 2 * square)) / spread**1.5
        fourth = np.exp(special.gammaln(1 + 4 * c) - 4 * half)
        return (fourth - 4 * third * first + 3 * square * (2 - square)) / np.square(spread)

    def _entropy(self, c: Any) -> Any:
        return np.euler_gamma * (1 - c) + 1


@final
class GeneralizedPareto(ContinuousDistribution):
    """The limit of what exceeds a high level: bounded for `c` < 0, and exponential for 0."""

    __slots__ = ()

    _flat_end = True

    shapes: tuple[str, ...] = ("c",)
    _inner = 0.0

    def _valid(self, c: Any) -> Any:
        return np.isfinite(c)

    def _support(self, c: Any) -> tuple[Any, Any]:
        is_bounded = raw(c) < 0
        return 0.0, np.where(is_bounded, -1 / np.where(is_bounded, c, 1.0), np.inf)

    def logpdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of the density at `x`; -inf outside of the support."""
        return self._with_end(ContinuousDistribution.logpdf(self, x, *args, **kwds), np.log, x, args, kwds)

    def pdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the density at `x`; 0 outside of the support."""
        return self._with_end(ContinuousDistribution.pdf(self, x, *args, **kwds), None, x, args, kwds)

    def _with_end(self, value: Any, function: Any, x: Any, args: Sequence[Any], kwds: Mapping[str, Any]) -> Any:
        """Return densities, with those at the end of a support where they do not fall to 0: for c of at most -1."""
        (c,), moves = self._split("pdf", args, kwds)
        if not np.any(raw(c) <= -1):
            return value
        y = raw(self._standard(x, moves))
        density = np.where(raw(c) == -1, 1.0, np.inf) / raw(asarray(moves[1]))
        is_end = (raw(c) <= -1) & (y == raw(self._support(c)[1]))
        return np.where(is_end, density if function is None else function(density), value)

    def _logpdf(self, y: Any, c: Any) -> Any:
        return -(1 + c) * logarithm_over(c, y)

    def _cdf(self, y: Any, c: Any) -> Any:
        return one_minus_exp_.call(logarithm_over(c, y))

    def _sf(self, y: Any, c: Any) -> Any:
        return np.exp(-logarithm_over(c, y))

    def _logsf(self, y: Any, c: Any) -> Any:
        return -logarithm_over(c, y)

    def _ppf(self, q: Any, c: Any) -> Any:
        standard = -np.log1p(-q)
        return standard * special.exprel(c * standard)

    def _isf(self, q: Any, c: Any) -> Any:
        standard = -np.log(q)
        return standard * special.exprel(c * standard)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        bare = raw(c)
        one, two = np.where(bare < 1, c, 0.0), np.where(bare < 0.5, c, 0.0)
        variance = 1 / (np.square(1 - two) * (1 - 2 * two))
        return np.where(bare < 1, 1 / (1 - one), np.inf), np.where(bare < 0.5, variance, np.inf)

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        bare = raw(c)
        three, four = np.where(bare < 1 / 3, c, 0.0), np.where(bare < 0.25, c, 0.0)
        skewness = 2 * (1 + three) * np.sqrt(1 - 2 * three) / (1 - 3 * three)
        kurtosis = 3 * (1 - 2 * four) * (2 * four * four + four + 3) / ((1 - 3 * four) * (1 - 4 * four)) - 3
        return np.where(bare < 1 / 3, skewness, np.nan), np.where(bare < 0.25, kurtosis, np.nan)

    def _entropy(self, c: Any) -> Any:
        return 1 + c


@primitive()
def scaled_exp1_(c: Any) -> Any:
    """Return exp(c) times the exponential integral of c."""
    return special.hyperu(1.0, 1.0, c)


@derivative(scaled_exp1_, "c")
def _(g: Any, c: Any, out: Any) -> Array:
    return g * (out - 1 / c)


def _bounded_expm1(y: Any) -> Any:
    """Return exp(y) - 1, bounded where it would overflow."""
    return np.expm1(np.minimum(y, 700.0)) if np.any(raw(y) > 700) else np.expm1(y)


@final
class Gompertz(ContinuousDistribution):
    """Gompertz's distribution of lifetimes, whose hazard is c * exp(y)."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, np.inf

    def _logpdf(self, y: Any, c: Any) -> Any:
        return np.log(c) + y - c * np.expm1(y)

    def _cdf(self, y: Any, c: Any) -> Any:
        return one_minus_exp_.call(c * _bounded_expm1(y))

    def _sf(self, y: Any, c: Any) -> Any:
        return np.exp(-c * _bounded_expm1(y))

    def _logsf(self, y: Any, c: Any) -> Any:
        return -c * np.expm1(y)

    def _ppf(self, q: Any, c: Any) -> Any:
        return np.log1p(-np.log1p(-q) / c)

    def _isf(self, q: Any, c: Any) -> Any:
        return np.log1p(-np.log(q) / c)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        mean = scaled_exp1_.call(c)
        # Beyond this no probability is left.
        last = np.log1p(745 / raw(c))
        square = self._integral(lambda y, c: 2 * y * self._sf(y, c), 0.0, last, (c,))
        return mean, square - mean * mean

    def _entropy(self, c: Any) -> Any:
        return 1 - np.log(c) - scaled_exp1_.call(c)


genextreme: GeneralizedExtremes = GeneralizedExtremes("genextreme")
genpareto: GeneralizedPareto = GeneralizedPareto("genpareto")
gompertz: Gompertz = Gompertz("gompertz")
