"""Families of whole numbers whose probabilities are powers of the numbers, or over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ..special.log_densities import log_beta_
from ..special.zeta_functions import zeta_slope
from ..ufuncs import special
from .discrete_distribution import DiscreteDistribution
from .mean_powers import skewness_and_kurtosis
from .transforming import where_positive

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["logser", "yulesimon", "zipf", "zipfian"]


@primitive()
def power_series_above_(k: Any, p: Any) -> Array:
    """Return the sum of p**j / j over all j above k, which has no derivative: an incomplete beta function."""
    # SciPy's own small number in the place of 0.
    least = 1e-100
    value = special.betainc(k + 1, least, p) * special.beta(k + 1, least)
    return np.asarray(value).astype(np.result_type(p, np.float32), copy=False)


@derivative(power_series_above_, "p")
def _(g: Any, k: Any, p: Any) -> Array:
    return g * (p**k / (1 - p))


@final
class LogSeries(DiscreteDistribution):
    """The logarithmic distribution: of probabilities in proportion to p**k / k."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("p",)

    def _valid(self, p: Any) -> Any:
        return (p > 0) & (p < 1)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 1.0, np.inf

    def _logpmf(self, k: Any, p: Any) -> Any:
        return k * np.log(p) - np.log(-k * np.log1p(-p))

    def _cdf(self, k: Any, p: Any) -> Any:
        return 1 - self._sf(k, p)

    def _sf(self, k: Any, p: Any) -> Any:
        return power_series_above_.call(k, p) / -np.log1p(-p)

    def _means(self, p: Any) -> list[Any]:
        """Return the means of the first four powers."""
        rest = 1 - p
        start = -p / np.log1p(-p)
        third = start * (1 + p) / rest**3
        fourth = start * (1 / rest**2 + 6 * p / rest**3 + 6 * p * p / rest**4)
        return [start / rest, start / rest**2, third, fourth]

    def _mean_and_variance(self, p: Any) -> tuple[Any, Any]:
        mean, second, _, _ = self._means(p)
        return mean, second - mean * mean

    def _skewness_and_kurtosis(self, p: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._means(p))


@final
class Zipf(DiscreteDistribution):
    """Zipf's distribution on all positive numbers: of probabilities in proportion to k**-a."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a",)

    def _valid(self, a: Any) -> Any:
        return a > 1

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 1.0, np.inf

    def _logpmf(self, k: Any, a: Any) -> Any:
        return -a * np.log(k) - np.log(special.zeta(a, 1.0))

    def _cdf(self, k: Any, a: Any) -> Any:
        return 1 - self._sf(k, a)

    def _sf(self, k: Any, a: Any) -> Any:
        return special.zeta(a, k + 1) / special.zeta(a, 1.0)

    def _entropy(self, a: Any) -> Any:
        total = special.zeta(a, 1.0)
        return np.log(total) - a * zeta_slope(a) / total

    def _mean_power(self, order: int, a: Any) -> Any:
        margin = a - 1 - order
        safe = np.where(raw(margin) > 0, a, order + 2.0)
        return where_positive(margin, special.zeta(safe - order, 1.0) / special.zeta(safe, 1.0))

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        mean, second = (self._mean_power(order, a) for order in (1, 2))
        is_there = np.isfinite(raw(second))
        return mean, np.where(is_there, second - np.square(np.where(is_there, mean, 0.0)), np.inf)

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        return self._shape_by_means(0, 4, a), self._shape_by_means(1, 5, a)

    def _shape_by_means(self, which: int, least: int, a: Any) -> Any:
        """Return the skewness or the kurtosis, and nan for exponents for which there is none."""
        safe = np.where(raw(a) > least, a, least + 1.0)
        # The skewness does not depend on the mean of the fourth power, which need not be there.
        means = [self._mean_power(min(order, least - 1), safe) for order in (1, 2, 3, 4)]
        return np.where(raw(a) > least, skewness_and_kurtosis(means)[which], np.nan)


#: How many terms of a sum of powers are added one by one, and the coefficients of what Euler's formula adds for others.
_TERMS = 64
_CORRECTIONS = special.bernoulli(12)[2::2] / special.factorial(np.arange(2, 13, 2))


def _sum_of_powers(first: Any, last: Any, a: Any) -> Any:
    """Return the sum of k**-a over the whole numbers from one to another, by Euler's formula beyond 64 of them."""
    terms: Any = 0.0
    for step in range(_TERMS):
        k = first + step
        terms = terms + np.where(k <= last, np.maximum(k, 1.0) ** (-a), 0.0)
        if np.all(k >= last):
            return terms
    is_long = last >= first + _TERMS
    low, high = np.where(is_long, first + _TERMS, 1.0), np.where(is_long, last, 2.0)
    width = np.log(high / low)
    rest = low ** (1 - a) * width * special.exprel((1 - a) * width) + (low ** (-a) + high ** (-a)) / 2
    factor: Any = a
    for index, correction in enumerate(_CORRECTIONS):
        order = 2 * index + 1
        rest = rest + correction * factor * (low ** (-a - order) - high ** (-a - order))
        factor = factor * (a + order) * (a + order + 1)
    return terms + np.where(is_long, rest, 0.0)


@final
class Zipfian(DiscreteDistribution):
    """Zipf's distribution on the numbers from 1 to `n`, which has no derivative: in proportion to k**-a."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "n")

    def _valid(self, a: Any, n: Any) -> Any:
        return (a >= 0) & (n >= 1) & (np.floor(n) == n)

    def _support(self, a: Any, n: Any) -> tuple[Any, Any]:
        return 1.0, np.floor(raw(n))

    def _total(self, a: Any, n: Any, power: int = 0) -> Any:
        return _sum_of_powers(np.asarray(1.0), np.nan_to_num(raw(n)), a - power)

    def _logpmf(self, k: Any, a: Any, n: Any) -> Any:
        return -a * np.log(k) - np.log(self._total(a, n))

    def _cdf(self, k: Any, a: Any, n: Any) -> Any:
        return _sum_of_powers(np.asarray(1.0), k, a) / self._total(a, n)

    def _sf(self, k: Any, a: Any, n: Any) -> Any:
        return _sum_of_powers(k + 1, np.nan_to_num(raw(n)), a) / self._total(a, n)

    def _means(self, a: Any, n: Any) -> list[Any]:
        total = self._total(a, n)
        return [self._total(a, n, power) / total for power in (1, 2, 3, 4)]

    def _mean_and_variance(self, a: Any, n: Any) -> tuple[Any, Any]:
        mean, second, _, _ = self._means(a, n)
        return mean, second - mean * mean

    def _skewness_and_kurtosis(self, a: Any, n: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._means(a, n))


@final
class YuleSimon(DiscreteDistribution):
    """The Yule-Simon distribution of shape `alpha`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("alpha",)

    def _valid(self, alpha: Any) -> Any:
        return alpha > 0

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 1.0, np.inf

    def _logpmf(self, k: Any, alpha: Any) -> Any:
        return np.log(alpha) + log_beta_.call(k, alpha + 1)

    def _cdf(self, k: Any, alpha: Any) -> Any:
        return 1 - self._sf(k, alpha)

    def _sf(self, k: Any, alpha: Any) -> Any:
        return k * special.beta(k, alpha + 1)

    def _log_above(self, mask: Any, k: Any, alpha: Any) -> Any:
        return np.log(k) + log_beta_.call(k, alpha + 1)

    def _mean_and_variance(self, alpha: Any) -> tuple[Any, Any]:
        first, second = (np.where(raw(alpha) > order, alpha, order + 1.0) for order in (1, 2))
        variance = second**2 / ((second - 2) * (second - 1) ** 2)
        outside = np.where(raw(alpha) > 1, np.inf, np.nan)
        mean = where_positive(alpha - 1, first / (first - 1))
        return mean, np.where(raw(alpha) > 2, variance, outside)

    def _skewness_and_kurtosis(self, alpha: Any) -> tuple[Any, Any]:
        outside = np.where(raw(alpha) > 2, np.inf, np.nan)
        third, fourth = (np.where(raw(alpha) > order, alpha, order + 1.0) for order in (3, 4))
        skewness = np.sqrt(third - 2) * (third + 1) ** 2 / (third * (third - 3))
        kurtosis = fourth + 3 + (11 * fourth**3 - 49 * fourth - 22) / (fourth * (fourth - 4) * (fourth - 3))
        return np.where(raw(alpha) > 3, skewness, outside), np.where(raw(alpha) > 4, kurtosis, outside)


logser: LogSeries = LogSeries("logser")
yulesimon: YuleSimon = YuleSimon("yulesimon")
zipf: Zipf = Zipf("zipf")
zipfian: Zipfian = Zipfian("zipfian")
