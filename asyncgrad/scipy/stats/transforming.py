"""Families that are another one's variable after a monotone function: what they share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from .continuous_distribution import ContinuousDistribution
from .mean_powers import skewness_and_kurtosis

__all__ = ["LINE", "ExponentialOf", "SameVariable", "Transformed", "WithPowers", "positive_or_one", "where_positive"]

LINE = (-np.inf, np.inf)


class Transformed(ContinuousDistribution):
    """Abstract: a family whose variable, after a monotone function, has another family's distribution.

    Attributes:
        base: the other family.
    """

    __slots__ = ()

    base: ContinuousDistribution
    #: Whether the function decreases.
    _decreases = False
    _ends: tuple[float, float] = (0.0, np.inf)
    _inner = 0.5

    @abstractmethod
    def _to_base(self, y: Any, *shapes: Any) -> Any:
        """Return the base's variable."""

    @abstractmethod
    def _from_base(self, z: Any, *shapes: Any) -> Any:
        """Return the variable by the base's."""

    @abstractmethod
    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        """Return the logarithm of the size of the slope of `_to_base`."""

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        """Return the base's shape parameters: by default none."""
        return ()

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return self._ends

    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        z = self._to_base(y, *shapes)
        return self.base._logpdf(z, *self._base_shapes(*shapes)) + self._log_slope(y, *shapes)

    def _of_base(self, method: str, other: str, y: Any, shapes: tuple[Any, ...]) -> Any:
        chosen = other if self._decreases else method
        return getattr(self.base, chosen)(self._to_base(y, *shapes), *self._base_shapes(*shapes))

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_cdf", "_sf", y, shapes)

    def _sf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_sf", "_cdf", y, shapes)

    def _logcdf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_logcdf", "_logsf", y, shapes)

    def _logsf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_logsf", "_logcdf", y, shapes)

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        quantile = self.base._isf if self._decreases else self.base._ppf
        return self._from_base(quantile(q, *self._base_shapes(*shapes)), *shapes)

    def _isf(self, q: Any, *shapes: Any) -> Any:
        quantile = self.base._ppf if self._decreases else self.base._isf
        return self._from_base(quantile(q, *self._base_shapes(*shapes)), *shapes)


class WithPowers(Transformed):
    """Abstract: a transformed family whose mean powers are known."""

    __slots__ = ()

    @abstractmethod
    def _mean_power(self, order: int, *shapes: Any) -> Any:
        """Return the mean of a power of the standard variable; infinite or nan where there is none."""

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        mean = self._mean_power(1, *shapes)
        second = self._mean_power(2, *shapes)
        is_known = np.isfinite(raw(mean)) & np.isfinite(raw(second))
        safe = np.where(is_known, mean, 0.0)
        return mean, np.where(np.isfinite(raw(mean)), second - safe * safe, np.where(is_known, 0.0, np.inf))

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._mean_power(order, *shapes) for order in (1, 2, 3, 4))


class SameVariable(Transformed):
    """Abstract: a family that is another one for some of its parameters, or where its support is narrower."""

    __slots__ = ()

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return y

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return z

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return 0.0

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return self.base._mean_and_variance(*self._base_shapes(*shapes))

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return self.base._skewness_and_kurtosis(*self._base_shapes(*shapes))

    def _entropy(self, *shapes: Any) -> Any:
        return self.base._entropy(*self._base_shapes(*shapes))


class ExponentialOf(WithPowers):
    """Abstract: the family of the exponential of a variable over `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)

    def _to_base(self, y: Any, c: Any) -> Any:
        return c * np.log(y)

    def _from_base(self, z: Any, c: Any) -> Any:
        return np.exp(z / c)

    def _log_slope(self, y: Any, c: Any) -> Any:
        return np.log(c) - np.log(y)


def where_positive(margin: Any, value: Any, otherwise: float = np.inf) -> Any:
    """Return a value where a mean exists."""
    return np.where(raw(margin) > 0, value, otherwise)


def positive_or_one(margin: Any) -> Any:
    """Return what is positive, and 1 for the rest."""
    return np.where(raw(margin) > 0, margin, 1.0)
