"""Families of draws from an urn without replacement, beside the hypergeometric one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ..ufuncs import special
from .discrete_distribution import DiscreteDistribution

__all__ = ["nchypergeom_fisher", "nchypergeom_wallenius", "nhypergeom"]


@final
class NegativeHypergeometric(DiscreteDistribution):
    """The number of successes before `r` failures, of `M` things of which `n` are successes.

    Its parameters are whole numbers, which have no derivative.
    """

    __slots__ = ()

    shapes: tuple[str, ...] = ("M", "n", "r")

    def _valid(self, M: Any, n: Any, r: Any) -> Any:
        is_whole = (np.floor(M) == M) & (np.floor(n) == n) & (np.floor(r) == r)
        return (n >= 0) & (n <= M) & (r >= 0) & (r <= M - n) & is_whole

    def _support(self, M: Any, n: Any, r: Any) -> tuple[Any, Any]:
        return 0.0, np.asarray(raw(n))

    def _logpmf(self, k: Any, M: Any, n: Any, r: Any) -> Any:
        return self._of_arrays("logpmf", k, M, n, r)

    def _cdf(self, k: Any, M: Any, n: Any, r: Any) -> Any:
        return self._of_arrays("cdf", k, M, n, r)

    def _sf(self, k: Any, M: Any, n: Any, r: Any) -> Any:
        return self._of_arrays("sf", k, M, n, r)

    @staticmethod
    def _of_arrays(method: str, k: Any, *shapes: Any) -> Any:
        return np.asarray(getattr(scipy_stats.nhypergeom, method)(k, *map(raw, shapes)))

    def _mean_and_variance(self, M: Any, n: Any, r: Any) -> tuple[Any, Any]:
        M, n, r = map(raw, (M, n, r))
        failures = M - n + 1
        return r * n / failures, r * (M + 1) * n / (failures * (failures + 1)) * (1 - r / failures)

    def _skewness_and_kurtosis(self, M: Any, n: Any, r: Any) -> tuple[Any, Any]:
        skewness, kurtosis = scipy_stats.nhypergeom.stats(*map(raw, (M, n, r)), moments="sk")
        return np.asarray(skewness), np.asarray(kurtosis)


class _Noncentral(DiscreteDistribution):
    """Abstract: a family of the successes among `N` draws from `M` things of which `n` are successes.

    These three are whole numbers, which have no derivative; `odds`, those of drawing a success, have.
    """

    __slots__ = ()

    shapes: tuple[str, ...] = ("M", "n", "N", "odds")

    def _valid(self, M: Any, n: Any, N: Any, odds: Any) -> Any:
        is_whole = (np.floor(M) == M) & (np.floor(n) == n) & (np.floor(N) == N)
        return (n >= 0) & (N >= 0) & (n <= M) & (N <= M) & is_whole & (odds > 0)

    def _support(self, M: Any, n: Any, N: Any, odds: Any) -> tuple[Any, Any]:
        M, n, N = map(raw, (M, n, N))
        return np.maximum(0, N - (M - n)), np.minimum(n, N)

    @abstractmethod
    def _log_weights(self, k: Any, M: Any, n: Any, N: Any, odds: Any) -> Any:
        """Return the logarithms of the probabilities of numbers, but for what all have in common."""

    @staticmethod
    def _log_ways(k: Any, M: Any, n: Any, N: Any) -> Any:
        """Return the logarithms of how many ways lead to numbers, but for what all have in common."""
        ways = special.gammaln(k + 1) + special.gammaln(n - k + 1)
        return -(ways + special.gammaln(N - k + 1) + special.gammaln(M - n - N + k + 1))

    def _logarithms(self, *shapes: Any) -> tuple[Any, Any]:
        """Return all numbers of the support, and the logarithms of their probabilities: -inf beyond it."""
        first, last = (np.nan_to_num(end) for end in self._support(*shapes))
        count = int(np.max(last - first, initial=0)) + 1
        size = np.broadcast_shapes(*(np.shape(raw(one)) for one in shapes))
        numbers = first + np.arange(count).reshape(-1, *[1] * len(size))
        is_there = numbers <= last
        weights = np.where(is_there, self._log_weights(np.minimum(numbers, last), *shapes), -np.inf)
        greatest = np.max(raw(weights), 0)
        total = np.sum(np.where(is_there, np.exp(weights - greatest), 0.0), 0)
        return numbers, weights - (greatest + np.log(total))

    def _sum(self, is_counted: Any, logarithms: Any) -> Any:
        is_counted = is_counted & (raw(logarithms) > -np.inf)
        return np.sum(np.where(is_counted, np.exp(np.where(is_counted, logarithms, 0.0)), 0.0), 0)

    def _logpmf(self, k: Any, *shapes: Any) -> Any:
        _, logarithms = self._logarithms(*shapes)
        first = np.nan_to_num(self._support(*shapes)[0])
        return self._log_weights(k, *shapes) - self._log_weights(first, *shapes) + logarithms[0]

    def _cdf(self, k: Any, *shapes: Any) -> Any:
        numbers, logarithms = self._wide(k, shapes)
        return self._sum(numbers <= k, logarithms)

    def _sf(self, k: Any, *shapes: Any) -> Any:
        numbers, logarithms = self._wide(k, shapes)
        return self._sum(numbers > k, logarithms)

    def _wide(self, k: Any, shapes: Any) -> tuple[Any, Any]:
        """Return the same, with as many axes as are needed beside numbers."""
        numbers, logarithms = self._logarithms(*shapes)
        more = max(np.ndim(k) - (np.ndim(raw(logarithms)) - 1), 0)
        count = raw(logarithms).shape[0]
        return tuple(np.reshape(one, (count, *[1] * more, *np.shape(raw(one))[1:])) for one in (numbers, logarithms))

    def _central(self, *shapes: Any) -> tuple[Any, list[Any]]:
        """Return the mean, and the means of the second, third and fourth powers of the distance to it."""
        numbers, logarithms = self._logarithms(*shapes)
        probabilities = np.exp(logarithms)
        mean = np.sum(numbers * probabilities, 0)
        return mean, [np.sum((numbers - mean) ** order * probabilities, 0) for order in (2, 3, 4)]

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        mean, (variance, _, _) = self._central(*shapes)
        return mean, variance

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        _, (variance, third, fourth) = self._central(*shapes)
        return third / variance**1.5, fourth / np.square(variance) - 3


@final
class FisherHypergeometric(_Noncentral):
    """Fisher's noncentral hypergeometric distribution: of draws that are made at once."""

    __slots__ = ()

    def _log_weights(self, k: Any, M: Any, n: Any, N: Any, odds: Any) -> Any:
        return k * np.log(odds) + self._log_ways(k, *map(raw, (M, n, N)))


@final
class WalleniusHypergeometric(_Noncentral):
    """Wallenius' noncentral hypergeometric distribution: of draws that are made one after the other."""

    __slots__ = ()

    def _log_weights(self, k: Any, M: Any, n: Any, N: Any, odds: Any) -> Any:
        M, n, N = map(raw, (M, n, N))
        return self._log_ways(k, M, n, N) + self._log_integral(k, N - k, n - k, M - n - N + k, odds)

    @staticmethod
    def _log_integral(k: Any, failures: Any, left: Any, left_failures: Any, odds: Any) -> Any:
        """Return the logarithm of the integral of Wallenius, of which the chance of an order of draws is a sum.

        It is over u from 0 to 1, of the derivative of u**d by u times (1 - u**odds)**k (1 - u)**failures, where d is
        the weight of what is left. With the logit of u as variable the logarithm of what is integrated is concave. So
        the trapezoidal rule, around the greatest value, has all digits.
        """

        def logarithm(logit: Any, odds: Any) -> Any:
            below = special.log_expit(logit)
            weight = odds * left + left_failures
            drawn = special.xlogy(k, -np.expm1(odds * below))
            return weight * below + drawn + (failures + 1) * special.log_expit(-logit)

        bare = raw(odds)
        middle, width = _peak(
            lambda logit: logarithm(logit, bare), np.broadcast_arrays(k, failures, left, bare)[0].shape
        )
        places = np.arange(-60, 61).reshape(-1, *[1] * middle.ndim) * 0.1
        values = logarithm(middle + width * np.sinh(places), odds) + np.log(width * np.cosh(places) * 0.1)
        greatest = np.max(raw(values), 0)
        weight = odds * left + left_failures
        is_rest = raw(weight) > 0
        found = greatest + np.log(np.sum(np.exp(values - greatest), 0))
        # Where nothing is left all orders of draws end alike.
        return np.where(is_rest, found + np.log(np.where(is_rest, weight, 1.0)), 0.0)


def _peak(function: Callable[[Any], Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return where a concave function of arrays is greatest, to some digits, and the width of its peak there."""
    low, high = np.full(shape, -700.0), np.full(shape, 40.0)
    step = 1e-4
    with np.errstate(all="ignore"):
        for _ in range(50):
            middle = (low + high) / 2
            rises = function(middle + step) > function(middle - step)
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        curvature = -(function(middle + 0.01) - 2 * function(middle) + function(middle - 0.01)) / 1e-4
        width = 1 / np.sqrt(curvature)
    return middle, np.where(np.isfinite(width) & (width < 100.0), width, 1.0)


nchypergeom_fisher: FisherHypergeometric = FisherHypergeometric("nchypergeom_fisher")
nchypergeom_wallenius: WalleniusHypergeometric = WalleniusHypergeometric("nchypergeom_wallenius")
nhypergeom: NegativeHypergeometric = NegativeHypergeometric("nhypergeom")
