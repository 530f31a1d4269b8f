"""Discrete families beside those of trials: uniform and exponential."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from .discrete_distribution import DiscreteDistribution

__all__ = ["planck", "randint"]


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
        return np.log(-np.expm1(-lambda_)) - lambda_ * k

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


planck: Planck = Planck("planck")
randint: RandomInteger = RandomInteger("randint")
