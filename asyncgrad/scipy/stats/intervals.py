"""Families on an interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ..special.rules import by_mask
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .gamma_and_beta import beta
from .location_scale import uniform
from .normal import norm
from .powers import pareto
from .transforming import Transformed, WithPowers, log_of_rest

if TYPE_CHECKING:
    from ...core.arrays.array import Array

__all__ = [
    "anglit",
    "arcsine",
    "bradford",
    "johnsonsb",
    "loguniform",
    "rdist",
    "reciprocal",
    "truncexpon",
    "truncpareto",
    "truncweibull_min",
]


@final
class Arcsine(WithPowers):
    """The arcsine distribution, of the squared sine of a uniform angle."""

    __slots__ = ()

    base: ContinuousDistribution = uniform
    _ends: tuple[float, float] = (0.0, 1.0)
    _has_powers = True

    def _to_base(self, y: Any, *shapes: Any) -> Array:
        return 2 / math.pi * np.arcsin(np.sqrt(y))

    def _power(self, at_last: bool, distance: Any, *shapes: Any) -> tuple[Any, Any]:
        return -0.5, distance / 2 - math.log(math.pi)

    def _from_base(self, z: Any, *shapes: Any) -> Array:
        return np.square(np.sin(math.pi / 2 * z))

    def _log_slope(self, y: Any, *shapes: Any) -> Array:
        return -math.log(math.pi) - 0.5 * (np.log(y) + np.log1p(-y))

    def _mean_power(self, order: int, *shapes: Any) -> Array:
        return (0.5, 0.375, 0.3125, 0.2734375)[order - 1]

    def _entropy(self, *shapes: Any) -> Array:
        return math.log(math.pi / 4)


@final
class Bradford(Transformed):
    """Bradford's distribution of shape `c`, on the numbers from 0 to 1."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = uniform
    _ends: tuple[float, float] = (0.0, 1.0)

    def _to_base(self, y: Any, c: Any) -> Array:
        return np.log1p(c * y) / np.log1p(c)

    def _from_base(self, z: Any, c: Any) -> Array:
        return np.expm1(z * np.log1p(c)) / c

    def _log_slope(self, y: Any, c: Any) -> Array:
        return np.log(c) - np.log1p(c * y) - np.log(np.log1p(c))

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        k = np.log1p(c)
        return (c - k) / (c * k), ((c + 2) * k - 2 * c) / (2 * c * k * k)

    def _entropy(self, c: Any) -> Array:
        k = np.log1p(c)
        return k / 2 - np.log(c / k)


@final
class JohnsonBounded(Transformed):
    """Johnson's distribution on the numbers from 0 to 1: of the logit of a normal variable."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = norm
    _ends: tuple[float, float] = (0.0, 1.0)
    _flat_start = _flat_end = True

    def _valid(self, *shapes: Any) -> Array:
        return shapes[1] > 0

    def _to_base(self, y: Any, a: Any, b: Any) -> Array:
        return a + b * special.logit(y)

    def _from_base(self, z: Any, a: Any, b: Any) -> Array:
        return special.expit((z - a) / b)

    def _log_slope(self, y: Any, a: Any, b: Any) -> Array:
        return np.log(b) - np.log(y) - np.log1p(-y)

    def _log_slopes(self, q: np.ndarray, a: Any, b: Any) -> tuple[Any, Any]:
        return self._of_base_quantiles(
            lambda z: np.log(b) - special.log_expit((z - a) / b) - special.log_expit((a - z) / b), q, a, b
        )


@final
class LogUniform(WithPowers):
    """The distribution of the exponential of a uniform variable, on the numbers from `a` to `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = uniform

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return shapes[0], shapes[1]

    def _valid(self, *shapes: Any) -> Array:
        return (shapes[0] > 0) & (shapes[1] > shapes[0])

    def _point_inside(self, *shapes: Any) -> Array:
        return raw(shapes[0])

    def _to_base(self, y: Any, a: Any, b: Any) -> Array:
        return np.log(y / a) / np.log(b / a)

    def _from_base(self, z: Any, a: Any, b: Any) -> Array:
        return a * np.exp(z * np.log(b / a))

    def _log_slope(self, y: Any, a: Any, b: Any) -> Array:
        return -np.log(y) - np.log(np.log(b / a))

    def _mean_power(self, order: int, a: Any, b: Any) -> Array:
        return (b**order - a**order) / (order * np.log(b / a))

    def _entropy(self, a: Any, b: Any) -> Array:
        return 0.5 * (np.log(a) + np.log(b)) + np.log(np.log(b / a))


# An exponential variable of scale 1 up to a positive width.


def _below(y: Any, width: Any) -> Tensor:
    """Return the probability of smaller numbers."""
    return np.expm1(-y) / np.expm1(-width)


def _above(y: Any, width: Any) -> Tensor:
    """Return the probability of greater numbers."""
    return np.exp(-y) * np.expm1(y - width) / np.expm1(-width)


def _log_below(y: Any, width: Any) -> Tensor:
    """Return the logarithm of the probability of smaller numbers."""
    return log_of_rest(-y) - log_of_rest(-width)


def _log_above(y: Any, width: Any) -> Tensor:
    """Return the logarithm of the probability of greater numbers, which may underflow."""
    return log_of_rest(y - width) - log_of_rest(-width) - y


def _of_below(q: Any, width: Any) -> Tensor:
    """Return where the probability below is `q`."""
    return -np.log1p(q * np.expm1(-width))


def _of_above(q: Any, width: Any) -> Tensor:
    """Return where the probability above is `q`."""

    def low(q: Any) -> Any:
        return by_mask(
            raw(width) > 1,
            lambda width: -np.log(np.exp(-width) - q * np.expm1(-width)),
            lambda width: width - np.log1p(q * np.expm1(width)),
            (width, 2.0, 1.0),
        )

    return by_mask(raw(q) > 0.5, lambda q: _of_below(1 - q, width), low, (q, 1.0, 0.5))


def _over_expm1(t: Any) -> Tensor:
    """Return t / (exp(t) - 1), of which no part overflows."""
    is_positive = raw(t) > 0
    right, left = np.where(is_positive, t, 0.0), np.where(is_positive, 0.0, t)
    return np.where(is_positive, np.exp(-right) / special.exprel(-right), 1 / special.exprel(left))


@final
class TruncatedExponential(WithPowers):
    """The exponential distribution up to `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("b",)
    base: ContinuousDistribution = uniform

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, shapes[0]

    def _to_base(self, y: Any, b: Any) -> Tensor:
        return _below(y, b)

    def _from_base(self, z: Any, b: Any) -> Tensor:
        return _of_below(z, b)

    def _log_slope(self, y: Any, b: Any) -> Tensor:
        return -y - log_of_rest(-b)

    def _sf(self, y: Any, b: Any) -> Tensor:
        return _above(y, b)

    def _logsf(self, y: Any, b: Any) -> Tensor:
        return _log_above(y, b)

    def _isf(self, q: Any, b: Any) -> Tensor:
        return _of_above(q, b)

    def _mean_power(self, order: int, b: Any) -> Tensor:
        return math.factorial(order) * special.gammainc(order + 1.0, b) / -np.expm1(-b)

    def _entropy(self, b: Any) -> Tensor:
        return self._mean_power(1, b) + log_of_rest(-b)


@final
class Anglit(Transformed):
    """The distribution of the angle, less a quarter of pi, whose squared sine is uniform."""

    __slots__ = ()

    base: ContinuousDistribution = uniform
    _ends: tuple[float, float] = (-math.pi / 4, math.pi / 4)
    _inner = 0.0

    def _to_base(self, y: Any, *shapes: Any) -> Array:
        return np.square(np.sin(y + math.pi / 4))

    def _from_base(self, z: Any, *shapes: Any) -> Array:
        return np.arcsin(np.sqrt(z)) - math.pi / 4

    def _log_slope(self, y: Any, *shapes: Any) -> Array:
        return np.log(np.cos(2 * y))

    def _sf(self, y: Any, *shapes: Any) -> Array:
        return self._cdf(-y)

    def _logsf(self, y: Any, *shapes: Any) -> Array:
        return self._logcdf(-y)

    def _isf(self, q: Any, *shapes: Any) -> Array:
        return -self._ppf(q)

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, math.pi**2 / 16 - 0.5

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, -2 * (math.pi**4 - 96) / (math.pi**2 - 8) ** 2

    def _entropy(self, *shapes: Any) -> Array:
        return 1 - math.log(2)


@final
class Correlation(Transformed):
    """The distribution of the correlation of samples of two independent normal variables, of shape `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = beta
    _ends: tuple[float, float] = (-1.0, 1.0)
    _inner = 0.0
    _has_powers = True

    def _power(self, at_last: bool, distance: Any, c: Any) -> tuple[Any, Any] | None:
        half = c / 2
        exponent, factor = beta._power(at_last, distance / 2, half, half)
        return exponent, factor - half * math.log(2)

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes[0] / 2, shapes[0] / 2

    def _to_base(self, y: Any, c: Any) -> Array:
        return (y + 1) / 2

    def _from_base(self, z: Any, c: Any) -> Array:
        return 2 * z - 1

    def _log_slope(self, y: Any, c: Any) -> Array:
        return -math.log(2)

    def _isf(self, q: Any, c: Any) -> Array:
        return -self._ppf(q, c)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        return 0.0 * c, 1 / (c + 1)

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        return 0.0 * c, -6 / (c + 3)

    def _entropy(self, c: Any) -> Array:
        return beta._entropy(c / 2, c / 2) + math.log(2)


def _log_integral(b: Any, width: Any) -> Tensor:
    """Return the logarithm of the integral of exp(-b * t) for t from 0 to a width."""
    product = b * width
    rise = np.where(raw(b) < 0, -product, 0.0)
    return np.log(width * special.exprel(np.where(raw(b) < 0, product, -product))) + rise


@final
class TruncatedPareto(WithPowers):
    """The Pareto distribution of exponent `b` up to `c`; the exponent may be negative."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("b", "c")
    base: ContinuousDistribution = uniform

    def _valid(self, *shapes: Any) -> Array:
        return (shapes[0] != 0) & (shapes[1] > 1)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 1.0, shapes[1]

    def _point_inside(self, *shapes: Any) -> Array:
        return np.sqrt(raw(shapes[1]))

    # Its logarithm, times the exponent, is an exponential variable up to a width; a negative exponent turns it over.

    def _turned(self, function: Callable[..., Any], turned: Callable[..., Any], y: Any, b: Any, c: Any) -> Array:
        """Return a function of the exponential variable, or another where the exponent turns it over."""
        size = np.abs(b)
        width = size * np.log(c)
        return by_mask(
            raw(b) > 0, lambda: function(size * np.log(y), width), lambda: turned(size * np.log(c / y), width)
        )

    def _turned_back(self, function: Callable[..., Any], turned: Callable[..., Any], q: Any, b: Any, c: Any) -> Array:
        """Return the number by a quantile of the exponential variable, or another where the exponent turns it over."""
        size = np.abs(b)
        width = size * np.log(c)
        return by_mask(
            raw(b) > 0, lambda: np.exp(function(q, width) / size), lambda: c * np.exp(-turned(q, width) / size)
        )

    def _to_base(self, y: Any, b: Any, c: Any) -> Array:
        return self._turned(_below, _above, y, b, c)

    def _from_base(self, z: Any, b: Any, c: Any) -> Array:
        return self._turned_back(_of_below, _of_above, z, b, c)

    def _log_slope(self, y: Any, b: Any, c: Any) -> Array:
        return -_log_integral(b, np.log(c)) - (b + 1) * np.log(y)

    def _sf(self, y: Any, b: Any, c: Any) -> Tensor:
        return self._turned(_above, _below, y, b, c)

    def _logcdf(self, y: Any, b: Any, c: Any) -> Tensor:
        return self._turned(_log_below, _log_above, y, b, c)

    def _logsf(self, y: Any, b: Any, c: Any) -> Tensor:
        return self._turned(_log_above, _log_below, y, b, c)

    def _isf(self, q: Any, b: Any, c: Any) -> Tensor:
        return self._turned_back(_of_above, _of_below, q, b, c)

    def _mean_power(self, order: int, b: Any, c: Any) -> Tensor:
        width = np.log(c)
        falls = raw(b) > 0
        down, up = np.where(falls, b, 1.0), np.where(falls, -1.0, b)
        falling = special.exprel((order - down) * width) / special.exprel(-down * width)
        return np.where(falls, falling, c**order * special.exprel((up - order) * width) / special.exprel(up * width))

    def _mean_and_variance(self, b: Any, c: Any) -> tuple[Any, Any]:
        return self._where_near(WithPowers._mean_and_variance, pareto._mean_and_variance, b, c)

    def _skewness_and_kurtosis(self, b: Any, c: Any) -> tuple[Any, Any]:
        return self._where_near(WithPowers._skewness_and_kurtosis, pareto._skewness_and_kurtosis, b, c)

    def _where_near(self, near: Callable[..., Any], far: Callable[..., Any], b: Any, c: Any) -> tuple[Any, Any]:
        """Return moments; where the end is so far that it does not matter they are those of Pareto's."""
        is_far = (raw(b) - 4) * np.log(raw(c)) > 60
        found = near(self, np.where(is_far, 1.0, b), np.where(is_far, 2.0, c))
        if not np.any(is_far):
            return found[0], found[1]
        others = far(np.where(is_far, b, 5.0))
        return np.where(is_far, others[0], found[0]), np.where(is_far, others[1], found[1])

    def _entropy(self, b: Any, c: Any) -> Tensor:
        width = np.log(c)
        product = b * width
        is_small = np.abs(raw(product)) < 1e-4
        # The mean of the logarithm, by a series where the exponent is nothing.
        size = np.where(is_small, 1.0, product)
        mean = np.where(is_small, 0.5 - product / 12, (1 - _over_expm1(size)) / size) * width
        return _log_integral(b, width) + (b + 1) * mean


@final
class TruncatedWeibull(WithPowers):
    """The Weibull distribution of shape `c`, from `a` on and up to `b`, which may be infinite."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c", "a", "b")
    base: ContinuousDistribution = uniform

    def _valid(self, *shapes: Any) -> Array:
        c, a, b = shapes
        return (c > 0) & (a >= 0) & (b > a)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return shapes[1], shapes[2]

    def _point_inside(self, *shapes: Any) -> Array:
        _, a, b = map(raw, shapes)
        return a + np.minimum(0.5, (b - a) / 2)

    def _powers(self, c: Any, a: Any, b: Any) -> tuple[Any, Any]:
        """Return the powers of both ends, of which infinity has no derivative."""
        with np.errstate(over="ignore", invalid="ignore"):
            # So far out there is nothing.
            is_infinite = np.isinf(raw(b)) | (raw(b) ** raw(c) - raw(a) ** raw(c) > 1000)
        return a**c, np.where(is_infinite, np.inf, np.where(is_infinite, 1.0, b) ** c)

    def _within(self, y: Any, c: Any, a: Any, b: Any) -> Tensor:
        """Return numbers that rounding has not moved beyond the support."""
        is_below, is_above = raw(y) < raw(a), raw(y) > raw(b)
        if not np.any(is_below | is_above):
            return y
        return np.where(is_below, a, np.where(is_above, b, y))

    def _to_base(self, y: Any, *shapes: Any) -> Array:
        first, last = self._powers(*shapes)
        return _below(y ** shapes[0] - first, last - first)

    def _from_base(self, z: Any, *shapes: Any) -> Array:
        first, last = self._powers(*shapes)
        return self._within((first + _of_below(z, last - first)) ** (1 / shapes[0]), *shapes)

    def _log_slope(self, y: Any, *shapes: Any) -> Array:
        first, last = self._powers(*shapes)
        c = shapes[0]
        return np.log(c) + special.xlogy(c - 1, y) + first - y**c - log_of_rest(first - last)

    def _sf(self, y: Any, *shapes: Any) -> Array:
        first, last = self._powers(*shapes)
        return _above(y ** shapes[0] - first, last - first)

    def _logsf(self, y: Any, *shapes: Any) -> Array:
        first, last = self._powers(*shapes)
        return _log_above(y ** shapes[0] - first, last - first)

    def _isf(self, q: Any, *shapes: Any) -> Array:
        first, last = self._powers(*shapes)
        return self._within((first + _of_above(q, last - first)) ** (1 / shapes[0]), *shapes)

    def _mean_power(self, order: int, *shapes: Any) -> Array:
        c, a, b = shapes
        # The gamma function of an exponent as great overflows.
        is_flat = (raw(c) < order / 150) & np.isfinite(raw(b))
        if not np.any(is_flat):
            return self._mean_power_by_gamma(order, *shapes)
        flat = (np.where(is_flat, one, other) for one, other in ((c, 1.0), (a, 0.0), (b, 1.0)))
        found = self._mean_over_quantiles(lambda y: y**order, *flat)
        if np.all(is_flat):
            return found
        return np.where(is_flat, found, self._mean_power_by_gamma(order, np.where(is_flat, 1.0, c), a, b))

    def _mean_power_by_gamma(self, order: int, *shapes: Any) -> Array:
        first, last = self._powers(*shapes)
        a = order / shapes[0] + 1
        share = special.gammainc(a, last) - special.gammainc(a, first)
        return special.gamma(a) * share * np.exp(first) / -np.expm1(first - last)


anglit: Anglit = Anglit("anglit")
arcsine: Arcsine = Arcsine("arcsine")
bradford: Bradford = Bradford("bradford")
johnsonsb: JohnsonBounded = JohnsonBounded("johnsonsb")
loguniform: LogUniform = LogUniform("loguniform")
rdist: Correlation = Correlation("rdist")
reciprocal: LogUniform = LogUniform("reciprocal")
truncexpon: TruncatedExponential = TruncatedExponential("truncexpon")
truncpareto: TruncatedPareto = TruncatedPareto("truncpareto")
truncweibull_min: TruncatedWeibull = TruncatedWeibull("truncweibull_min")
