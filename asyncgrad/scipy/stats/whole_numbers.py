"""Discrete families beside those of trials: uniform and exponential."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from .discrete_distribution import DiscreteDistribution
from .transforming import log_of_rest

__all__ = [
    "boltzmann",
    "dlaplace",
    "planck",
    "randint",
]


@final
class RandomInteger(DiscreteDistribution):
    """The uniform distribution on the whole numbers from `low` on and below `high`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("low", "high")

    def _valid(self, low: Any, high: Any) -> Any:
        return (high > low) & (np.floor(low) == low) & (np.floor(high) == high)

    def _support(self, low: Any, high: Any) -> tuple[Any, Any]:
        return np.asarray(raw(low)), np.asarray(raw(high)) - 1

    def _logpmf(self, k: Any, low: Any, high: Any) -> Any:
        return 0.0 * k - np.log(raw(high) - raw(low))

    def _cdf(self, k: Any, low: Any, high: Any) -> Any:
        return (k - raw(low) + 1) / (raw(high) - raw(low))

    def _sf(self, k: Any, low: Any, high: Any) -> Any:
        return (raw(high) - 1 - k) / (raw(high) - raw(low))

    def _mean_and_variance(self, low: Any, high: Any) -> tuple[Any, Any]:
        width = raw(high) - raw(low)
        return (raw(high) + raw(low) - 1) / 2, (width * width - 1) / 12

    def _skewness_and_kurtosis(self, low: Any, high: Any) -> tuple[Any, Any]:
        square = np.square(raw(high) - raw(low))
        return 0.0 * square, -1.2 * (square + 1) / (square - 1)

    def _entropy(self, low: Any, high: Any) -> Any:
        return np.log(raw(high) - raw(low))


@final
class Planck(DiscreteDistribution):
    """The discrete exponential distribution of rate `lambda_`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("lambda_",)

    def _valid(self, *shapes: Any) -> Any:
        return shapes[0] > 0

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, np.inf

    def _logpmf(self, k: Any, lambda_: Any) -> Any:
        return log_of_rest(-lambda_) - lambda_ * k

    def _cdf(self, k: Any, lambda_: Any) -> Any:
        return -np.expm1(-lambda_ * (k + 1))

    def _sf(self, k: Any, lambda_: Any) -> Any:
        return np.exp(-lambda_ * (k + 1))

    def _log_above(self, mask: Any, k: Any, lambda_: Any) -> Any:
        return -lambda_ * (k + 1)

    def _mean_and_variance(self, lambda_: Any) -> tuple[Any, Any]:
        share = -np.expm1(-lambda_)
        return 1 / np.expm1(lambda_), np.exp(-lambda_) / (share * share)

    def _skewness_and_kurtosis(self, lambda_: Any) -> tuple[Any, Any]:
        return 2 * np.cosh(lambda_ / 2), 4 + 2 * np.cosh(lambda_)

    def _entropy(self, lambda_: Any) -> Any:
        share = -np.expm1(-lambda_)
        return lambda_ * np.exp(-lambda_) / share - np.log(share)


@final
class Boltzmann(DiscreteDistribution):
    """The discrete exponential distribution of rate `lambda_` below `N`, which has no derivative."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("lambda_", "N")

    def _valid(self, lambda_: Any, N: Any) -> Any:
        return (lambda_ > 0) & (N > 0) & (np.floor(N) == N)

    def _support(self, lambda_: Any, N: Any) -> tuple[Any, Any]:
        return 0.0, np.asarray(raw(N)) - 1

    def _logpmf(self, k: Any, lambda_: Any, N: Any) -> Any:
        return np.log(np.expm1(-lambda_) / np.expm1(-lambda_ * raw(N))) - lambda_ * k

    def _cdf(self, k: Any, lambda_: Any, N: Any) -> Any:
        return np.expm1(-lambda_ * (k + 1)) / np.expm1(-lambda_ * raw(N))

    def _sf(self, k: Any, lambda_: Any, N: Any) -> Any:
        start = np.exp(-lambda_ * (k + 1))
        return start * np.expm1(-lambda_ * (raw(N) - 1 - k)) / np.expm1(-lambda_ * raw(N))

    # The cumulants are those of the exponential distribution less those of one that begins at N.

    def _mean_and_variance(self, lambda_: Any, N: Any) -> tuple[Any, Any]:
        (first, second, _, _), (far, beyond, _, _) = self._cumulants(lambda_), self._cumulants(lambda_ * raw(N))
        return first - raw(N) * far, second - np.square(raw(N)) * beyond

    def _skewness_and_kurtosis(self, lambda_: Any, N: Any) -> tuple[Any, Any]:
        near, far = self._cumulants(lambda_), self._cumulants(lambda_ * raw(N))
        second, third, fourth = (near[order - 1] - raw(N) ** order * far[order - 1] for order in (2, 3, 4))
        return third / second**1.5, fourth / np.square(second)

    @staticmethod
    def _cumulants(rate: Any) -> tuple[Any, Any, Any, Any]:
        z = np.exp(-rate)
        rest = -np.expm1(-rate)
        return z / rest, z / rest**2, z * (1 + z) / rest**3, z * (1 + z * (4 + z)) / rest**4


@final
class DiscreteLaplace(DiscreteDistribution):
    """The discrete Laplace distribution of rate `a`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a",)

    def _valid(self, a: Any) -> Any:
        return a > 0

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return -np.inf, np.inf

    def _logpmf(self, k: Any, a: Any) -> Any:
        return np.log(np.tanh(a / 2)) - a * np.abs(k)

    def _cdf(self, k: Any, a: Any) -> Any:
        tail = np.exp(-a * np.where(k < 0, -k, k + 1)) / (1 + np.exp(-a))
        return np.where(k < 0, tail, 1 - tail)

    def _sf(self, k: Any, a: Any) -> Any:
        return self._cdf(-k - 1, a)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        return 0.0 * a, 0.5 / np.square(np.sinh(a / 2))

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        return 0.0 * a, np.cosh(a) + 2

    def _entropy(self, a: Any) -> Any:
        return a / np.sinh(a) - np.log(np.tanh(a / 2))


boltzmann: Boltzmann = Boltzmann("boltzmann")
dlaplace: DiscreteLaplace = DiscreteLaplace("dlaplace")
planck: Planck = Planck("planck")
randint: RandomInteger = RandomInteger("randint")
