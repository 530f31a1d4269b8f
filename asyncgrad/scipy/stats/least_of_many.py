"""The least of several normal numbers, and its exponential."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import raw
from ..arguments import floating
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .double_exponential import half_line
from .mean_powers import mean_and_variance_of, skewness_and_kurtosis_of
from .normal import log_mills_ratio, norm
from .supports import OnLine
from .transforming import Transformed

if TYPE_CHECKING:
    from ...core.arrays.array import Array

__all__ = ["powerlognorm", "powernorm"]

# Up to where the weights underflow, for the exponential of a value may overflow there.
_HAZARDS, _WEIGHTS = half_line(1 / 32, -4.0, 2.125)
_WEIGHTS = _WEIGHTS * np.exp(-_HAZARDS)


def _least_of_many(c: Any) -> Any:
    """Return values of the least of `c` normal numbers, of which each has one of the weights above as its probability.

    They lie evenly in the cumulative hazard, which is exponential, and so see the bulk for any `c`.
    """
    return -special.ndtri_exp(-_HAZARDS / np.expand_dims(floating(c), -1))


@final
class PowerNormal(OnLine):
    """The distribution of the least of `c` normal numbers."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)

    def _logpdf(self, y: Any, c: Any) -> Array:
        return np.log(c) + norm._logpdf(y) + (c - 1) * special.log_ndtr(-y)

    def _logsf(self, y: Any, c: Any) -> Array:
        return c * special.log_ndtr(-y)

    def _sf(self, y: Any, c: Any) -> Array:
        return np.exp(self._logsf(y, c))

    def _cdf(self, y: Any, c: Any) -> Array:
        return -np.expm1(self._logsf(y, c))

    def _ppf(self, q: Any, c: Any) -> Array:
        return -special.ndtri_exp(np.log1p(-q) / c)

    def _isf(self, q: Any, c: Any) -> Array:
        return -special.ndtri_exp(np.log(q) / c)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        return mean_and_variance_of(_least_of_many(c), _WEIGHTS)

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis_of(_least_of_many(c), _WEIGHTS)

    def _entropy(self, c: Any) -> Array:
        points = _least_of_many(c)
        # The logarithm of the hazard of a single variable: in the right tail both of its parts are large.
        is_right = raw(points) > 0
        right, left = np.where(is_right, points, 0.0), np.where(is_right, 0.0, points)
        hazard = np.where(is_right, -log_mills_ratio(right), norm._logpdf(left) - special.log_ndtr(-left))
        return 1 - np.log(c) - np.sum(_WEIGHTS * hazard, -1)


powernorm: PowerNormal = PowerNormal("powernorm")


@final
class PowerLogNormal(Transformed):
    """The log-normal distribution of shape `s`, whose survival function is raised to the power `c`."""

    __slots__ = ()

    _flat_start = True
    shapes: tuple[str, ...] = ("c", "s")
    base: ContinuousDistribution = powernorm

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes[:1]

    def _to_base(self, y: Any, c: Any, s: Any) -> Array:
        return np.log(y) / s

    def _from_base(self, z: Any, c: Any, s: Any) -> Array:
        return np.exp(s * z)

    def _log_slope(self, y: Any, c: Any, s: Any) -> Array:
        return -np.log(y) - np.log(s)

    def _entropy(self, c: Any, s: Any) -> Array:
        # The mean of the logarithm of the slope is a mean of the base.
        return self.base._entropy(c) + np.log(s) + s * self.base._mean_and_variance(c)[0]

    def _mean_and_variance(self, c: Any, s: Any) -> tuple[Any, Any]:
        return mean_and_variance_of(self._values(c, s), _WEIGHTS)

    def _skewness_and_kurtosis(self, c: Any, s: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis_of(self._values(c, s), _WEIGHTS)

    @staticmethod
    def _values(c: Any, s: Any) -> Any:
        return np.exp(np.expand_dims(s, -1) * _least_of_many(c))


powerlognorm: PowerLogNormal = PowerLogNormal("powerlognorm")
