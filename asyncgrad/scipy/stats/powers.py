"""Families whose probabilities are powers: those of Weibull and Pareto, and the power law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .extremes import genextreme
from .supports import one_minus_exp_

__all__ = ["pareto", "powerlaw", "weibull_max", "weibull_min"]

_EULER = float(np.euler_gamma)


class _Weibull(ContinuousDistribution):
    """Abstract: a Weibull distribution, on one side of 0."""

    __slots__ = ()

    _has_powers = True

    shapes: tuple[str, ...] = ("c",)

    def _power(self, at_last: bool, distance: Any, c: Any) -> tuple[Any, Any]:
        return c - 1, np.log(c) - distance * _is_one(c)

    # A power of the variable moves it to a generalized extreme one, whose moments do not cancel for a great `c`.

    def _moments_of_size(self, c: Any) -> tuple[Any, Any]:
        inverse = 1 / c
        _, variance = genextreme._mean_and_variance(inverse)
        return special.gamma(1 + inverse), variance * np.square(inverse)

    def _skewness_and_kurtosis_of_size(self, c: Any) -> tuple[Any, Any]:
        skewness, kurtosis = genextreme._skewness_and_kurtosis(1 / c)
        return -skewness, kurtosis

    def _entropy(self, c: Any) -> Any:
        return _EULER - _EULER / c - np.log(c) + 1


def _weibull_logpdf(y: Any, c: Any) -> Any:
    return np.log(c) + special.xlogy(c - 1, y) - y**c


def _is_one(c: Any) -> Any:
    return np.where(raw(c) == 1, 1.0, 0.0)


@final
class WeibullMinimum(_Weibull):
    """The Weibull distribution of shape `c`: that of the power 1 / c of an exponential number."""

    __slots__ = ()

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, np.inf

    def _logpdf(self, y: Any, c: Any) -> Any:
        return _weibull_logpdf(y, c)

    def _cdf(self, y: Any, c: Any) -> Any:
        return one_minus_exp_.call(y**c)

    def _sf(self, y: Any, c: Any) -> Any:
        return np.exp(-(y**c))

    def _logsf(self, y: Any, c: Any) -> Any:
        return -(y**c)

    def _ppf(self, q: Any, c: Any) -> Any:
        return (-np.log1p(-q)) ** (1 / c)

    def _isf(self, q: Any, c: Any) -> Any:
        return (-np.log(q)) ** (1 / c)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        return self._moments_of_size(c)

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        return self._skewness_and_kurtosis_of_size(c)


@final
class WeibullMaximum(_Weibull):
    """The Weibull distribution of shape `c` on the negative numbers."""

    __slots__ = ()

    _inner = -0.5

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return -np.inf, 0.0

    def _logpdf(self, y: Any, c: Any) -> Any:
        return _weibull_logpdf(-y, c)

    def _cdf(self, y: Any, c: Any) -> Any:
        return np.exp(-((-y) ** c))

    def _logcdf(self, y: Any, c: Any) -> Any:
        return -((-y) ** c)

    def _sf(self, y: Any, c: Any) -> Any:
        return one_minus_exp_.call((-y) ** c)

    def _ppf(self, q: Any, c: Any) -> Any:
        return -((-np.log(q)) ** (1 / c))

    def _isf(self, q: Any, c: Any) -> Any:
        return -((-np.log1p(-q)) ** (1 / c))

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        mean, variance = self._moments_of_size(c)
        return -mean, variance

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        skewness, kurtosis = self._skewness_and_kurtosis_of_size(c)
        return -skewness, kurtosis


@final
class Pareto(ContinuousDistribution):
    """The Pareto distribution of exponent `b`, on the numbers from 1 on."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("b",)
    _inner = 2.0

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 1.0, np.inf

    def _logpdf(self, y: Any, b: Any) -> Any:
        return np.log(b) - (b + 1) * np.log(y)

    def _cdf(self, y: Any, b: Any) -> Any:
        return 1 - y ** (-b)

    def _sf(self, y: Any, b: Any) -> Any:
        return y ** (-b)

    def _logsf(self, y: Any, b: Any) -> Any:
        return -b * np.log(y)

    def _ppf(self, q: Any, b: Any) -> Any:
        return (1 - q) ** (-1 / b)

    def _isf(self, q: Any, b: Any) -> Any:
        return q ** (-1 / b)

    def _mean_and_variance(self, b: Any) -> tuple[Any, Any]:
        bare = raw(b)
        one, two = np.where(bare > 1, b - 1, 1.0), np.where(bare > 2, b - 2, 1.0)
        return np.where(bare > 1, b / one, np.inf), np.where(bare > 2, b / (np.square(one) * two), np.inf)

    def _skewness_and_kurtosis(self, b: Any) -> tuple[Any, Any]:
        bare = raw(b)
        three, four = np.where(bare > 3, b, 4.0), np.where(bare > 4, b, 5.0)
        skewness = 2 * (three + 1) / (three - 3) * np.sqrt((three - 2) / three)
        kurtosis = 6 * (four**3 + four * four - 6 * four - 2) / (four * (four - 3) * (four - 4))
        return np.where(bare > 3, skewness, np.nan), np.where(bare > 4, kurtosis, np.nan)

    def _entropy(self, b: Any) -> Any:
        return 1 + 1 / b - np.log(b)


@final
class PowerLaw(ContinuousDistribution):
    """The power law of exponent `a`, on the numbers from 0 to 1."""

    __slots__ = ()

    _has_powers = True

    shapes: tuple[str, ...] = ("a",)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _logpdf(self, y: Any, a: Any) -> Any:
        return np.log(a) + special.xlogy(a - 1, y)

    def _power(self, at_last: bool, distance: Any, a: Any) -> tuple[Any, Any] | None:
        return None if at_last else (a - 1, np.log(a) + distance * 0)

    def _evaluated(self, method: str, x: Any, y: Any, shapes: Sequence[Any], moves: Sequence[Any]) -> Any:
        is_left_out = (raw(y) == 0) & (raw(shapes[0]) < 1)
        if method not in ("pdf", "logpdf") or not np.any(is_left_out):
            return ContinuousDistribution._evaluated(self, method, x, y, shapes, moves)
        # SciPy's density has no pole: 0 is no number of the support then.
        y = np.where(is_left_out, self._inner, y)
        value = ContinuousDistribution._evaluated(self, method, x, y, shapes, moves)
        return np.where(is_left_out, 0.0 if method == "pdf" else -np.inf, value)

    def _cdf(self, y: Any, a: Any) -> Any:
        return y**a

    def _logcdf(self, y: Any, a: Any) -> Any:
        return a * np.log(y)

    def _sf(self, y: Any, a: Any) -> Any:
        # Next to 1 the difference has no digits.
        return -special.powm1(y, a)

    def _ppf(self, q: Any, a: Any) -> Any:
        return q ** (1 / a)

    def _isf(self, q: Any, a: Any) -> Any:
        return np.exp(np.log1p(-q) / a)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        return a / (a + 1), a / ((a + 2) * np.square(a + 1))

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        skewness = 2 * (1 - a) / (a + 3) * np.sqrt((a + 2) / a)
        return skewness, 6 * (a**3 - a * a - 6 * a + 2) / (a * (a + 3) * (a + 4))

    def _entropy(self, a: Any) -> Any:
        return 1 - 1 / a - np.log(a)


pareto: Pareto = Pareto("pareto")
powerlaw: PowerLaw = PowerLaw("powerlaw")
weibull_max: WeibullMaximum = WeibullMaximum("weibull_max")
weibull_min: WeibullMinimum = WeibullMinimum("weibull_min")
