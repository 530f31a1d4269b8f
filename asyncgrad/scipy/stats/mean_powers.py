"""What follows from the mean powers of a random number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["skewness_and_kurtosis"]


def skewness_and_kurtosis(means: Iterable[Any]) -> tuple[Any, Any]:
    """Return the skewness and the excess kurtosis, given the means of the first four powers."""
    one, two, three, four = means
    variance = two - one * one
    third = three - one * (3 * two - 2 * one * one)
    fourth = four - one * (4 * three - one * (6 * two - 3 * one * one))
    return third / variance**1.5, fourth / np.square(variance) - 3
