"""Families of the size of a variable whose distribution is moved."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..ufuncs import special
from .implicit import Implicit
from .supports import Positive

__all__ = ["foldcauchy", "foldnorm"]

_ROOT = math.sqrt(2)


def _may_be_zero(c: Any) -> Any:
    return c >= 0


@final
class FoldedNormal(Implicit):
    """The distribution of the size of a normal variable of mean `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    _ends: tuple[float, float] = (0.0, np.inf)
    _inner = 0.5

    def _valid(self, *shapes: Any) -> Any:
        return _may_be_zero(*shapes)

    def _logpdf(self, y: Any, c: Any) -> Any:
        return np.log1p(np.exp(-2 * c * y)) - 0.5 * np.square(y - c) - 0.5 * math.log(2 * math.pi)

    def _cdf(self, y: Any, c: Any) -> Any:
        return 0.5 * (special.erf((y - c) / _ROOT) + special.erf((y + c) / _ROOT))

    def _sf(self, y: Any, c: Any) -> Any:
        return special.ndtr(c - y) + special.ndtr(-c - y)

    def _log_above(self, mask: Any, y: Any, c: Any) -> Any:
        size = np.where(mask, y, 1.0)
        near = special.log_ndtr(c - size)
        return near + np.log1p(np.exp(special.log_ndtr(-c - size) - near))

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        mean = math.sqrt(2 / math.pi) * np.exp(-0.5 * c * c) + c * special.erf(c / _ROOT)
        return mean, c * c + 1 - mean * mean

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        mean, variance = self._mean_and_variance(c)
        square, height = c * c, np.exp(-0.5 * c * c) / math.sqrt(2 * math.pi)
        third = 2 * (mean**3 - square * mean - height)
        fourth = square * (square + 6) + 3 + 8 * height * mean + (2 * (square - 3) - 3 * mean**2) * mean**2
        return third / variance**1.5, fourth / np.square(variance) - 3


@final
class FoldedCauchy(Positive):
    """The distribution of the size of a Cauchy variable of location `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)

    def _valid(self, *shapes: Any) -> Any:
        return _may_be_zero(*shapes)

    def _logpdf(self, y: Any, c: Any) -> Any:
        return np.log((1 / (1 + np.square(y - c)) + 1 / (1 + np.square(y + c))) / math.pi)

    def _cdf(self, y: Any, c: Any) -> Any:
        return (np.arctan(y - c) + np.arctan(y + c)) / math.pi

    def _sf(self, y: Any, c: Any) -> Any:
        return (np.arctan2(1.0, y - c) + np.arctan2(1.0, y + c)) / math.pi

    # The tangent of pi times the probability is 2 y / (1 - y**2 + c**2).

    def _ppf(self, q: Any, c: Any) -> Any:
        return self._quantile_of(np.sin(math.pi * q), np.cos(math.pi * q), c)

    def _isf(self, q: Any, c: Any) -> Any:
        return self._quantile_of(np.sin(math.pi * q), -np.cos(math.pi * q), c)

    @staticmethod
    def _quantile_of(sine: Any, cosine: Any, c: Any) -> Any:
        root = np.sqrt(1 + np.square(c * sine))
        # Of two forms that are the same, the one that is no difference.
        is_low = raw(cosine) > 0
        low = sine * (1 + c * c) / (np.where(is_low, cosine, 0.0) + root)
        return np.where(is_low, low, (root - cosine) / sine)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        return np.inf, np.inf

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        return np.nan, np.nan


foldcauchy: FoldedCauchy = FoldedCauchy("foldcauchy")
foldnorm: FoldedNormal = FoldedNormal("foldnorm")
