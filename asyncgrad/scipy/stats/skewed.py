"""Normal distributions that lean to one side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ..ufuncs import special
from .implicit import Implicit

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["exponnorm", "skewnorm"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_ROOT = math.sqrt(2)


@final
class ExponentialNormal(Implicit):
    """The distribution of the sum of a normal number and an exponential one of mean `K`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("K",)

    def _logpdf(self, y: Any, K: Any) -> Any:
        is_left = raw(y) < 1 / raw(K)
        left, right = np.where(is_left, y, 0.0), np.where(is_left, 1 / K, y)
        # On the left the exponents cancel, and the scaled error function has what remains.
        near = np.log(special.erfcx((1 / K - left) / _ROOT) / 2) - 0.5 * left * left
        far = (0.5 / K - right) / K + special.log_ndtr(right - 1 / K)
        return np.where(is_left, near, far) - np.log(K)

    def _logcdf(self, y: Any, K: Any) -> Any:
        is_left = raw(y) < np.minimum(0.0, 1 / raw(K))
        left = np.where(is_left, y, -1.0)
        difference = special.erfcx(-left / _ROOT) - special.erfcx((1 / K - left) / _ROOT)
        right = np.where(is_left, 1.0, y)
        return np.where(is_left, np.log(difference / 2) - 0.5 * left * left, np.log1p(-self._sf(right, K)))

    def _cdf(self, y: Any, K: Any) -> Any:
        return np.exp(self._logcdf(y, K))

    def _sf(self, y: Any, K: Any) -> Any:
        return special.ndtr(-y) + K * np.exp(self._logpdf(y, K))

    def _logsf(self, y: Any, K: Any) -> Any:
        is_left = raw(y) < 0
        left, right = np.where(is_left, y, -1.0), np.where(is_left, 1.0, y)
        # The logarithm of a sum of two exponentials, which does not warn of nan as np.logaddexp does.
        other = np.log(K) + self._logpdf(right, K)
        far = other - special.log_expit(other - special.log_ndtr(-right))
        return np.where(is_left, np.log1p(-self._cdf(left, K)), far)

    def _mean_and_variance(self, K: Any) -> tuple[Any, Any]:
        return K * 1.0, 1 + K * K

    def _skewness_and_kurtosis(self, K: Any) -> tuple[Any, Any]:
        variance = 1 + K * K
        return 2 * K**3 / variance**1.5, 6 * K**4 / np.square(variance)


# SciPy's distribution function is accurate in both tails, which the difference of a normal one and Owen's T is not.


@primitive()
def skew_normal_cdf_(y: Any, a: Any) -> Array:
    """Return the distribution function of the skew normal distribution."""
    return np.asarray(scipy_stats.skewnorm.cdf(y, a)).astype(np.result_type(y, a), copy=False)


@derivative(skew_normal_cdf_, "y")
def _(g: Any, y: Any, a: Any) -> Array:
    return g * (2 * np.exp(-0.5 * y * y - _LOG_ROOT) * special.ndtr(a * y))


@derivative(skew_normal_cdf_, "a")
def _(g: Any, y: Any, a: Any) -> Array:
    return -g * (np.exp(-0.5 * y * y * (1 + a * a)) / (math.pi * (1 + a * a)))


@final
class SkewNormal(Implicit):
    """The skew normal distribution, which leans to the side of the sign of `a`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a",)

    def _valid(self, a: Any) -> Any:
        return np.isfinite(a)

    def _logpdf(self, y: Any, a: Any) -> Any:
        return math.log(2) - _LOG_ROOT - 0.5 * y * y + special.log_ndtr(a * y)

    def _cdf(self, y: Any, a: Any) -> Any:
        return skew_normal_cdf_.call(y, a)

    def _sf(self, y: Any, a: Any) -> Any:
        return skew_normal_cdf_.call(-y, -a)

    def _bulk(self, *shapes: Any) -> list[float]:
        # The entropy's derivative is made where the density rises, which is narrow for a great `a`.
        steepness = abs(float(raw(shapes[0])))
        return [*super()._bulk(*shapes), *((-8 / steepness, 8 / steepness) if steepness > 20 else ())]

    @staticmethod
    def _lean(a: Any) -> Any:
        return math.sqrt(2 / math.pi) * a / np.sqrt(1 + a * a)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        mean = self._lean(a)
        return mean, 1 - mean * mean

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        mean = self._lean(a)
        variance = 1 - mean * mean
        return (2 - math.pi / 2) * mean**3 / variance**1.5, 2 * (math.pi - 3) * mean**4 / np.square(variance)


exponnorm: ExponentialNormal = ExponentialNormal("exponnorm")
skewnorm: SkewNormal = SkewNormal("skewnorm")
