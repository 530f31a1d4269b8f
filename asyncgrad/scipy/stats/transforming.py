"""Families that are another one's variable after a monotone function: what they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import asarray
from ..special.rules import by_mask
from .continuous_distribution import ContinuousDistribution
from .mean_powers import skewness_and_kurtosis
from .supports import bounded, not_below_numbers

__all__ = [
    "LINE",
    "ExponentialOf",
    "SameVariable",
    "Transformed",
    "WithPowers",
    "log_expm1",
    "log_of_rest",
    "positive_or_one",
    "where_positive",
]

LINE = (-np.inf, np.inf)


def _points_up_to_half() -> tuple[np.ndarray, np.ndarray]:
    """Return points between 0 and 1/2, and weights of an integral over them, which may be infinite at the ends.

    Source: Takahasi and Mori, Double exponential formulas for numerical integration (1974).
    """
    step = 1 / 16
    steps = np.arange(-4, 3 + step, step)
    shares = 1 / (1 + np.exp(-np.pi * np.sinh(steps)))
    rests = 1 / (1 + np.exp(np.pi * np.sinh(steps)))
    return shares / 2, step * np.pi / 2 * np.cosh(steps) * shares * rests


_PROBABILITIES, _WEIGHTS = _points_up_to_half()


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
        z = bounded(self._to_base(y, *shapes))
        return not_below_numbers(self.base._logpdf(z, *self._base_shapes(*shapes)) + self._log_slope(y, *shapes))

    def _of_base(self, method: str, other: str, y: Any, shapes: tuple[Any, ...]) -> Any:
        chosen = other if self._decreases else method
        return getattr(self.base, chosen)(bounded(self._to_base(y, *shapes)), *self._base_shapes(*shapes))

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_cdf", "_sf", y, shapes)

    def _sf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_sf", "_cdf", y, shapes)

    def _logcdf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_logcdf", "_logsf", y, shapes)

    def _logsf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_logsf", "_logcdf", y, shapes)

    def _entropy(self, *shapes: Any) -> Any:
        # The base's, less the mean of the logarithm of the slope, over quantiles: it does not miss a narrow bulk.
        low, high = self._log_slopes(_PROBABILITIES, *[np.expand_dims(asarray(shape), -1) for shape in shapes])
        return self.base._entropy(*self._base_shapes(*shapes)) - np.sum(_WEIGHTS * (low + high), -1)

    def _mean_over_quantiles(self, function: Callable[[Any], Any], *shapes: Any) -> Any:
        """Return the mean of a function of the variable, which may be infinite at the ends of the support."""
        expanded = [np.expand_dims(asarray(shape), -1) for shape in shapes]
        low, high = (function(quantile(_PROBABILITIES, *expanded)) for quantile in (self._ppf, self._isf))
        return np.sum(_WEIGHTS * (low + high), -1)

    def _log_slopes(self, q: np.ndarray, *shapes: Any) -> tuple[Any, Any]:
        """Return `_log_slope` at two quantiles, of `q` from below and from above, in any order."""
        return self._log_slope(self._ppf(q, *shapes), *shapes), self._log_slope(self._isf(q, *shapes), *shapes)

    def _of_base_quantiles(self, function: Callable[..., Any], q: np.ndarray, *shapes: Any) -> tuple[Any, Any]:
        """Return a function at two quantiles of the base's, for `_log_slopes` where the variable would overflow."""
        base = self._base_shapes(*shapes)
        return function(self.base._ppf(q, *base)), function(self.base._isf(q, *base))

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

    def _powers_up_to(self, order: int, *shapes: Any) -> list[Any]:
        return [self._mean_power(one, *shapes) for one in range(1, order + 1)]

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        mean = self._mean_power(1, *shapes)
        second = self._mean_power(2, *shapes)
        is_known = np.isfinite(raw(mean)) & np.isfinite(raw(second))
        safe = np.where(is_known, mean, 0.0)
        spread = second - safe * safe
        return mean, np.where(np.isfinite(raw(mean)), spread, np.where(is_known, 0.0, np.inf))

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


def log_expm1(t: Any) -> Any:
    """Return log(exp(t) - 1), which does not overflow, where t > 0."""
    return t + np.log(-np.expm1(-t))


def log_of_rest(x: Any) -> Any:
    """Return log(1 - exp(x)) for x < 0 with all its digits."""
    is_near = raw(x) > -0.7
    return by_mask(is_near, lambda x: np.log(-np.expm1(x)), lambda x: np.log1p(-np.exp(x)), (x, -0.5, -1.0))


def where_positive(margin: Any, value: Any, otherwise: float = np.inf) -> Any:
    """Return a value where a mean exists."""
    return np.where(raw(margin) > 0, value, otherwise)


def positive_or_one(margin: Any) -> Any:
    """Return what is positive, and 1 for the rest."""
    return np.where(raw(margin) > 0, margin, 1.0)
