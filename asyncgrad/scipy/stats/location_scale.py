"""Families without shapes, but for the normal ones."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .supports import OnLine, Positive, bounded_exp, one_minus_exp_, smooth_size

__all__ = ["cauchy", "expon", "gumbel_l", "gumbel_r", "halfcauchy", "laplace", "logistic", "rayleigh", "uniform"]

_EULER = float(np.euler_gamma)
_GUMBEL_SKEWNESS = 12 * math.sqrt(6) * float(special.zeta(3.0)) / math.pi**3


def _log_one_plus_square(y: Any) -> Any:
    """Return log(1 + y**2), also where the square overflows."""
    is_far = np.abs(raw(y)) > 1e150
    if not np.any(is_far):
        return np.log1p(y * y)
    near = np.where(is_far, 1.0, y)
    return np.where(is_far, 2 * np.log(np.abs(np.where(is_far, y, 1.0))), np.log1p(near * near))


@final
class Cauchy(OnLine):
    """The Cauchy distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return -math.log(math.pi) - _log_one_plus_square(y)

    def _pdf(self, y: Any) -> Any:
        return 1 / (math.pi * (1 + y * y))

    def _cdf(self, y: Any) -> Any:
        return np.arctan2(1.0, -y) / math.pi

    def _sf(self, y: Any) -> Any:
        return np.arctan2(1.0, y) / math.pi

    def _ppf(self, q: Any) -> Any:
        # Each tail by its own probability, which has the digits.
        is_right = raw(q) > 0.5
        tail = np.where(is_right, 1 - q, q)
        # In the middle by the distance to it, which is 0 there.
        is_middle = np.abs(raw(q) - 0.5) < 0.25
        near = np.tan(math.pi * (np.where(is_middle, q, 0.5) - 0.5))
        value = 1 / np.tan(math.pi * np.where(is_middle, 0.25, tail))
        return np.where(is_middle, near, np.where(is_right, value, -value))

    def _isf(self, q: Any) -> Any:
        return -self._ppf(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _entropy(self) -> Any:
        return math.log(4 * math.pi)


@final
class Laplace(OnLine):
    """The Laplace distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return -math.log(2) - np.abs(y)

    def _cdf(self, y: Any) -> Any:
        tail = 0.5 * np.exp(-smooth_size(y))
        return np.where(raw(y) >= 0, 1 - tail, tail)

    def _sf(self, y: Any) -> Any:
        return self._cdf(-y)

    def _logcdf(self, y: Any) -> Any:
        is_right = raw(y) > 0
        right = np.where(is_right, y, 1.0)
        return np.where(is_right, np.log1p(-0.5 * np.exp(-right)), y - math.log(2))

    def _logsf(self, y: Any) -> Any:
        return self._logcdf(-y)

    def _ppf(self, q: Any) -> Any:
        is_right = raw(q) > 0.5
        tail = np.where(is_right, 1 - q, q)
        value = np.log(2 * tail)
        return np.where(is_right, -value, value)

    def _isf(self, q: Any) -> Any:
        return -self._ppf(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 0.0, 2.0

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 0.0, 3.0

    def _entropy(self) -> Any:
        return math.log(2) + 1


@final
class Logistic(OnLine):
    """The logistic distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        size = smooth_size(y)
        return -size - 2 * np.log1p(np.exp(-size))

    def _cdf(self, y: Any) -> Any:
        return special.expit(y)

    def _sf(self, y: Any) -> Any:
        return special.expit(-y)

    def _logcdf(self, y: Any) -> Any:
        return special.log_expit(y)

    def _logsf(self, y: Any) -> Any:
        return special.log_expit(-y)

    def _ppf(self, q: Any) -> Any:
        return special.logit(q)

    def _isf(self, q: Any) -> Any:
        return -special.logit(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 0.0, math.pi**2 / 3

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 0.0, 1.2

    def _entropy(self) -> Any:
        return 2.0


@final
class GumbelRight(OnLine):
    """The distribution of the greatest of many: exp(-exp(-y))."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return -y - np.exp(-y)

    def _cdf(self, y: Any) -> Any:
        return np.exp(-bounded_exp(-y))

    def _logcdf(self, y: Any) -> Any:
        return -np.exp(-y)

    def _sf(self, y: Any) -> Any:
        return one_minus_exp_.call(bounded_exp(-y))

    def _ppf(self, q: Any) -> Any:
        return -np.log(-np.log(q))

    def _isf(self, q: Any) -> Any:
        return -np.log(-np.log1p(-q))

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return _EULER, math.pi**2 / 6

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return _GUMBEL_SKEWNESS, 2.4

    def _entropy(self) -> Any:
        return _EULER + 1


@final
class GumbelLeft(OnLine):
    """The distribution of the least of many: 1 - exp(-exp(y))."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return y - np.exp(y)

    def _cdf(self, y: Any) -> Any:
        return one_minus_exp_.call(bounded_exp(y))

    def _sf(self, y: Any) -> Any:
        return np.exp(-bounded_exp(y))

    def _logsf(self, y: Any) -> Any:
        return -np.exp(y)

    def _ppf(self, q: Any) -> Any:
        return np.log(-np.log1p(-q))

    def _isf(self, q: Any) -> Any:
        return np.log(-np.log(q))

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return -_EULER, math.pi**2 / 6

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return -_GUMBEL_SKEWNESS, 2.4

    def _entropy(self) -> Any:
        return _EULER + 1


@final
class Uniform(ContinuousDistribution):
    """The uniform distribution between loc and loc + scale."""

    __slots__ = ()

    def _support(self) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _logpdf(self, y: Any) -> Any:
        return y * 0.0

    def _cdf(self, y: Any) -> Any:
        return y * 1.0

    def _ppf(self, q: Any) -> Any:
        return q * 1.0

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 0.5, 1 / 12

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 0.0, -1.2

    def _entropy(self) -> Any:
        return 0.0


@final
class Exponential(Positive):
    """The exponential distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return -y

    def _cdf(self, y: Any) -> Any:
        return one_minus_exp_.call(y)

    def _sf(self, y: Any) -> Any:
        return np.exp(-y)

    def _logsf(self, y: Any) -> Any:
        return -y

    def _ppf(self, q: Any) -> Any:
        return -np.log1p(-q)

    def _isf(self, q: Any) -> Any:
        return -np.log(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 1.0, 1.0

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 2.0, 6.0

    def _entropy(self) -> Any:
        return 1.0


@final
class Rayleigh(Positive):
    """The Rayleigh distribution."""

    __slots__ = ()

    _has_powers = True

    def _power(self, at_last: bool, distance: Any) -> tuple[Any, Any]:
        return 1.0, distance * 0

    def _logpdf(self, y: Any) -> Any:
        return np.log(y) - 0.5 * y * y

    def _pdf(self, y: Any) -> Any:
        return y * np.exp(-0.5 * y * y)

    def _cdf(self, y: Any) -> Any:
        return one_minus_exp_.call(0.5 * y * y)

    def _sf(self, y: Any) -> Any:
        return np.exp(-0.5 * y * y)

    def _logsf(self, y: Any) -> Any:
        return -0.5 * y * y

    def _ppf(self, q: Any) -> Any:
        return np.sqrt(-2 * np.log1p(-q))

    def _isf(self, q: Any) -> Any:
        return np.sqrt(-2 * np.log(q))

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return math.sqrt(math.pi / 2), (4 - math.pi) / 2

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        rest = 4 - math.pi
        return 2 * (math.pi - 3) * math.sqrt(math.pi) / rest**1.5, 6 * math.pi / rest - 16 / rest**2

    def _entropy(self) -> Any:
        return _EULER / 2 + 1 - 0.5 * math.log(2)


@final
class HalfCauchy(Positive):
    """The distribution of the size of a number with the Cauchy distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return math.log(2 / math.pi) - _log_one_plus_square(y)

    def _cdf(self, y: Any) -> Any:
        return 2 / math.pi * np.arctan(y)

    def _sf(self, y: Any) -> Any:
        return 2 / math.pi * np.arctan2(1.0, y)

    def _ppf(self, q: Any) -> Any:
        return np.tan(math.pi / 2 * q)

    def _isf(self, q: Any) -> Any:
        return 1 / np.tan(math.pi / 2 * q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return np.inf, np.inf

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _entropy(self) -> Any:
        return math.log(2 * math.pi)


cauchy: Cauchy = Cauchy("cauchy")
expon: Exponential = Exponential("expon")
gumbel_l: GumbelLeft = GumbelLeft("gumbel_l")
gumbel_r: GumbelRight = GumbelRight("gumbel_r")
halfcauchy: HalfCauchy = HalfCauchy("halfcauchy")
laplace: Laplace = Laplace("laplace")
logistic: Logistic = Logistic("logistic")
rayleigh: Rayleigh = Rayleigh("rayleigh")
uniform: Uniform = Uniform("uniform")
