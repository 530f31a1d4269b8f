"""Families of draws from an urn without replacement, beside the hypergeometric one."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ..ufuncs import special
from .discrete_distribution import DiscreteDistribution

__all__ = ["nchypergeom_fisher", "nhypergeom"]


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


@final
class FisherHypergeometric(DiscreteDistribution):
    """Fisher's noncentral hypergeometric distribution, by the odds of drawing a success.

    It is of the successes among `N` draws from `M` things of which `n` are successes. These three are whole numbers,
    which have no derivative; `odds` has.
    """

    __slots__ = ()

    shapes: tuple[str, ...] = ("M", "n", "N", "odds")

    def _valid(self, M: Any, n: Any, N: Any, odds: Any) -> Any:
        is_whole = (np.floor(M) == M) & (np.floor(n) == n) & (np.floor(N) == N)
        return (n >= 0) & (N >= 0) & (n <= M) & (N <= M) & is_whole & (odds > 0)

    def _support(self, M: Any, n: Any, N: Any, odds: Any) -> tuple[Any, Any]:
        M, n, N = map(raw, (M, n, N))
        return np.maximum(0, N - (M - n)), np.minimum(n, N)

    @staticmethod
    def _log_weights(k: Any, M: Any, n: Any, N: Any, odds: Any) -> Any:
        M, n, N = map(raw, (M, n, N))
        ways = special.gammaln(k + 1) + special.gammaln(n - k + 1)
        ways = ways + special.gammaln(N - k + 1) + special.gammaln(M - n - N + k + 1)
        return k * np.log(odds) - ways

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


nchypergeom_fisher: FisherHypergeometric = FisherHypergeometric("nchypergeom_fisher")
nhypergeom: NegativeHypergeometric = NegativeHypergeometric("nhypergeom")
