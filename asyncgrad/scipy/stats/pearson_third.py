"""Pearson's distribution of type III, by the gamma distribution, and next to the normal one by its expansion.

A gamma variable of shape a is a * (1 + m), with m = skew * y / 2 and a = 4 / skew**2 for the variable y. Its density is
exp(-v**2 / 2) / (1 + m), but for a constant, with v = y * sqrt(2 * h(m)), h(m) = (m - log1p(m)) / m**2, and its
distribution function the normal one of v, less a series. Nothing in these loses digits where the skewness is small.

Source: Temme, The asymptotic expansion of the incomplete gamma functions (1979); DLMF, 8.12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import raw
from ..special.rules import by_mask
from ..ufuncs import special
from .gamma_and_beta import gamma, less_than_normal
from .gamma_series import polynomial
from .implicit import Implicit
from .normal import norm

if TYPE_CHECKING:
    from ...core.arrays.array import Array

__all__ = ["pearson3"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
#: Up to this skewness the expansion has all digits.
_SMALL = 0.05
#: Of the expansion, and of each of its terms by powers of v * skew / 2.
_COUNT, _POWERS = 6, 26


def _terms() -> list[np.ndarray]:
    """Return the coefficients of the powers of v * skew / 2 in those of the powers of 1 / a."""
    length = _POWERS + 2 * _COUNT
    # Of m by v * skew / 2, which follows from the derivative of its square, 2 * (m - log1p(m)).
    m = np.zeros(length + 2)
    m[1] = 1.0
    for n in range(2, length + 2):
        products = sum(m[i] * (n + 1 - i) * m[n + 1 - i] for i in range(2, n))
        m[n] = (m[n - 1] - products) / (n + 1)
    inverse = np.zeros(length + 1)
    inverse[0] = 1.0
    for n in range(1, length + 1):
        inverse[n] = -sum(m[1 + i] * inverse[n - i] for i in range(1, n + 1))
    first = inverse[1:]
    found = [first]
    for _ in range(1, _COUNT):
        before = found[-1]
        count = len(before) - 2
        found.append(np.arange(2, count + 2) * before[2:] - before[1] * first[:count])
    return [one[:_POWERS] for one in found]


_TERMS = _terms()


def _bend(m: Any) -> Any:
    """Return (m - log1p(m)) / m**2, which is 1/2 at 0."""

    def series(m: Any) -> Any:
        value: Any = 0.0
        for n in range(24, -1, -1):
            value = 1 / (n + 2) - value * m
        return value

    return by_mask(np.abs(raw(m)) < 0.2, series, lambda m: (1 - np.log1p(m) / m) / m, (m, 0.0, 1.0))


def _normal_variable(y: Any, skew: Any) -> tuple[Any, Any, Any]:
    """Return m, v, and where there is nothing."""
    m = skew * y / 2
    is_outside = raw(m) <= -1
    m = np.where(is_outside, 0.0, m) if np.any(is_outside) else m
    return m, y * np.sqrt(2 * _bend(m)), is_outside


def _log_density(y: Any, skew: Any) -> Any:
    m, v, is_outside = _normal_variable(y, skew)
    square = skew * skew / 4
    # Stirling's series of the gamma function.
    rest = square * (1 / 12 + square * square * (square * square / 1260 - 1 / 360))
    found = -v * v / 2 - _LOG_ROOT - np.log1p(m) - rest
    return np.where(is_outside, -np.inf, found) if np.any(is_outside) else found


def _log_below(y: Any, skew: Any) -> Any:
    """Return the logarithm of the distribution function."""
    _, v, is_outside = _normal_variable(y, skew)
    # Beyond its range the density underflows.
    place, square = np.clip(v * skew / 2, -1.0, 1.0), skew * skew / 4
    series: Any = 0.0
    for term in reversed(_TERMS):
        series = series * square + polynomial(term, place)
    logarithm = special.log_ndtr(v)
    found = logarithm + np.log1p(-skew / 2 * series * np.exp(norm._logpdf(v) - logarithm))
    return np.where(is_outside, np.where(raw(skew) > 0, -np.inf, 0.0), found) if np.any(is_outside) else found


@final
class PearsonThird(Implicit):
    """Pearson's distribution of type III: a gamma variable, moved and scaled to a mean of 0 and a variance of 1.

    Its `skew` may be negative, or 0: then it is the normal distribution.
    """

    __slots__ = ()

    shapes: tuple[str, ...] = ("skew",)

    def _valid(self, skew: Any) -> Array:
        return np.isfinite(skew)

    @staticmethod
    def _by_skew(near: Callable[..., Any], far: Callable[..., Any], y: tuple[Any, float, float], skew: Any) -> Any:
        """Return a function of a small skewness, or of another one; `y` as `by_mask` takes it."""
        return by_mask(np.abs(raw(skew)) < _SMALL, near, far, y, (skew, 0.0, 1.0))

    @staticmethod
    def _gamma_variable(y: Any, skew: Any) -> tuple[Any, Any, Any]:
        """Return the variable of the gamma distribution, its shape, and where the variable is not positive."""
        shape = 4 / np.square(skew)
        z = 2 * y / skew + shape
        is_outside = raw(z) <= 0
        return np.where(is_outside, shape, z), shape, is_outside

    def _logpdf(self, y: Any, skew: Any) -> Array:
        def far(y: Any, skew: Any) -> Any:
            z, shape, is_outside = self._gamma_variable(y, skew)
            return np.where(is_outside, -np.inf, gamma._logpdf(z, shape) + np.log(2 / np.abs(skew)))

        return self._by_skew(_log_density, far, (y, 0.0, 0.0), skew)

    def _cdf(self, y: Any, skew: Any) -> Array:
        return self._of_gamma(lambda y, skew: np.exp(_log_below(y, skew)), ("_cdf", "_sf"), (0.0, 1.0), y, skew)

    def _sf(self, y: Any, skew: Any) -> Array:
        return self._cdf(-y, -skew)

    def _logcdf(self, y: Any, skew: Any) -> Array:
        return self._of_gamma(_log_below, ("_logcdf", "_logsf"), (-np.inf, 0.0), y, skew)

    def _logsf(self, y: Any, skew: Any) -> Array:
        return self._logcdf(-y, -skew)

    def _of_gamma(
        self, near: Callable[..., Any], methods: tuple[str, str], outside: tuple[float, float], y: Any, skew: Any
    ) -> Any:
        """Return a function of a small skewness, or one of the gamma distribution, and what it is outside; by sign."""

        def far(y: Any, skew: Any) -> Any:
            z, shape, is_outside = self._gamma_variable(y, skew)
            is_right = raw(skew) > 0
            below, above = (getattr(gamma, one) for one in methods)
            found = by_mask(is_right, lambda: below(z, shape), lambda: above(z, shape))
            return np.where(is_outside, np.where(is_right, *outside), found)

        return self._by_skew(near, far, (y, 0.0, 0.0), skew)

    def _ppf(self, q: Any, skew: Any) -> Any:
        def near(q: Any, skew: Any) -> Any:
            z, bare = special.ndtri(raw(q)), raw(skew)
            return self._refined(z + bare * (z * z - 1) / 6, q, self._logcdf, 1, skew)

        def far(q: Any, skew: Any) -> Any:
            shape = 4 / np.square(skew)
            z = by_mask(raw(skew) > 0, lambda: gamma._ppf(q, shape), lambda: gamma._isf(q, shape))
            return (z - shape) * skew / 2

        return self._by_skew(near, far, (q, 0.5, 0.5), skew)

    def _isf(self, q: Any, skew: Any) -> Array:
        return -self._ppf(q, -skew)

    def _mean_and_variance(self, skew: Any) -> tuple[Any, Any]:
        return 0.0 * skew, 0.0 * skew + 1.0

    def _skewness_and_kurtosis(self, skew: Any) -> tuple[Any, Any]:
        return skew * 1.0, 1.5 * skew * skew

    def _entropy(self, skew: Any) -> Array:
        return by_mask(
            np.abs(raw(skew)) < _SMALL,
            lambda skew: norm._entropy() - less_than_normal(skew * skew / 4),
            lambda skew: gamma._entropy(4 / np.square(skew)) + np.log(np.abs(skew) / 2),
            (skew, 0.0, 1.0),
        )


pearson3: PearsonThird = PearsonThird("pearson3")
