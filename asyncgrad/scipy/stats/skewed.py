"""Normal distributions that lean to one side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ..ufuncs import special
from .double_exponential import half_line
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


_DISTANCES, _WEIGHTS = half_line()


def _log_tail(y: Any, a: Any) -> Any:
    """Return the logarithm of the distribution function below 0: that of an integral.

    SciPy's, the difference of a normal one and of Owen's T, loses its digits there for a positive `a`.
    """
    bare = raw(a) * raw(y)
    # About how fast the density falls to the left.
    rate = 1 - raw(y) + raw(a) * np.exp(-0.5 * bare * bare - _LOG_ROOT - special.log_ndtr(bare))
    places = y[..., np.newaxis] - _DISTANCES / rate[..., np.newaxis]
    logarithm = special.log_ndtr(a[..., np.newaxis] * places) - 0.5 * places * places
    greatest = np.max(raw(logarithm), -1)
    total = np.sum(_WEIGHTS * np.exp(logarithm - greatest[..., np.newaxis]), -1)
    return np.log(total / rate) + greatest + (math.log(2) - _LOG_ROOT)


@primitive()
def skew_normal_cdf_(y: Any, a: Any) -> Array:
    """Return the distribution function of the skew normal distribution."""
    y, a = np.broadcast_arrays(y, a)
    is_tail = (y < 0) & (a > 0)
    if not np.any(is_tail):
        found = np.asarray(scipy_stats.skewnorm.cdf(y, a))
    else:
        found = np.asarray(scipy_stats.skewnorm.cdf(np.where(is_tail, 0.0, y), a))
        found = np.where(is_tail, np.exp(_log_tail(np.where(is_tail, y, -1.0), np.where(is_tail, a, 1.0))), found)
    return found.astype(np.result_type(y, a), copy=False)


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

    def _log_below(self, mask: Any, y: Any, a: Any) -> Any:
        y, a = np.broadcast_arrays(y, a)
        mask = mask & (raw(y) < 0)
        return _log_tail(np.where(mask, y, -1.0), np.where(mask, a, 1.0))

    def _log_above(self, mask: Any, y: Any, a: Any) -> Any:
        return self._log_below(mask, -y, -a)

    def _start(self, method: str, q: Any, *shapes: Any) -> Any:
        # SciPy's lie far beyond the tail that falls fast, which a normal one bounds.
        found = super()._start(method, q, *shapes)
        bound = np.minimum(special.ndtri(q), 0.0) / np.hypot(1.0, shapes[0])
        if method == "ppf":
            return np.where(shapes[0] > 0, np.maximum(found, bound), found)
        return np.where(shapes[0] < 0, np.minimum(found, -bound), found)

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
