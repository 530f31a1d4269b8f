"""What follows from the mean powers of a random number, and from its values with their probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core.arrays.values import raw

__all__ = [
    "central_moments",
    "mean_and_variance",
    "mean_and_variance_of",
    "skewness_and_kurtosis",
    "skewness_and_kurtosis_of",
]


def mean_and_variance(means: Iterable[Any]) -> tuple[Any, Any]:
    """Return the mean and the variance, given the means of the first two powers."""
    one, two = means
    return one, two - np.where(np.isfinite(raw(one)), one * one, 0.0)


def central_moments(means: Iterable[Any]) -> tuple[Any, Any, Any]:
    """Return the variance and the third and fourth central moments, given the means of the first four powers."""
    one, two, three, four = means
    third = three - one * (3 * two - 2 * one * one)
    fourth = four - one * (4 * three - one * (6 * two - 3 * one * one))
    return two - one * one, third, fourth


def skewness_and_kurtosis(means: Iterable[Any]) -> tuple[Any, Any]:
    """Return the skewness and the excess kurtosis, given the means of the first four powers."""
    variance, third, fourth = central_moments(means)
    return third / variance**1.5, fourth / np.square(variance) - 3


def mean_and_variance_of(values: Any, weights: np.ndarray) -> tuple[Any, Any]:
    """Return the mean and the variance of values along the last axis, of which each has a weight as its probability."""
    mean = np.sum(weights * values, -1)
    return mean, np.sum(weights * np.square(values - mean[..., np.newaxis]), -1)


def skewness_and_kurtosis_of(values: Any, weights: np.ndarray) -> tuple[Any, Any]:
    """Return the skewness and the excess kurtosis of the same."""
    mean, variance = mean_and_variance_of(values, weights)
    away = values - mean[..., np.newaxis]
    third, fourth = (np.sum(weights * away**order, -1) for order in (3, 4))
    return third / variance**1.5, fourth / np.square(variance) - 3
