"""Families whose density has two sides or pieces."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .gamma_and_beta import gamma
from .gamma_powers import loggamma
from .mean_powers import skewness_and_kurtosis
from .powers import weibull_min
from .supports import OnLine, Positive, smooth_size

__all__ = [
    "crystalball",
    "dgamma",
    "dweibull",
    "gennorm",
    "halfgennorm",
    "laplace_asymmetric",
    "semicircular",
    "skewcauchy",
    "trapezoid",
    "triang",
]


#: The logarithm of a number whose square is lost beside 1.
_LOG_START = -19.0


class _TwoSided(OnLine):
    """Abstract: a symmetric family on the line, by the distribution of the size."""

    __slots__ = ()

    _inner = 0.5
    #: That of the size.
    size: ContinuousDistribution

    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        return self.size._logpdf(np.abs(y), *shapes) - math.log(2)

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        tail = 0.5 * self.size._sf(smooth_size(y), *shapes)
        return np.where(raw(y) >= 0, 1 - tail, tail)

    def _sf(self, y: Any, *shapes: Any) -> Any:
        return self._cdf(-y, *shapes)

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        is_right = raw(q) > 0.5
        size = self.size._isf(2 * np.where(is_right, 1 - q, q), *shapes)
        return np.where(is_right, size, -size)

    def _isf(self, q: Any, *shapes: Any) -> Any:
        return -self._ppf(q, *shapes)

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        mean, variance = self.size._mean_and_variance(*shapes)
        return 0.0 * shapes[0], variance + mean * mean

    def _entropy(self, *shapes: Any) -> Any:
        return self.size._entropy(*shapes) + math.log(2)


def _exp_or_infinity(x: Any) -> Any:
    """Return exp(x), which does not warn where it is infinite."""
    is_infinite = raw(x) > 709
    return np.where(is_infinite, np.inf, np.exp(np.where(is_infinite, 0.0, x)))


@final
class HalfGeneralizedNormal(Positive):
    """The distribution of the power 1 / beta of a gamma variable of shape 1 / beta."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("beta",)

    def _logpdf(self, y: Any, beta: Any) -> Any:
        return np.log(beta) - special.gammaln(1 / beta) - y**beta

    # Next to 0 by the first terms of a series: there the power underflows, and the derivative of the incomplete gamma
    # function may be infinite.

    def _cdf(self, y: Any, beta: Any) -> Any:
        is_start, start = self._start(y, beta)
        rest = loggamma._cdf(beta * np.log(np.where(is_start, 1.0, y)), 1 / beta)
        return rest if start is None else np.where(is_start, start, rest)

    def _logcdf(self, y: Any, beta: Any) -> Any:
        is_start, start = self._start(y, beta)
        rest = loggamma._logcdf(beta * np.log(np.where(is_start, 1.0, y)), 1 / beta)
        return rest if start is None else np.where(is_start, np.log(np.where(is_start, start, 1.0)), rest)

    def _sf(self, y: Any, beta: Any) -> Any:
        is_start, start = self._start(y, beta)
        rest = loggamma._sf(beta * np.log(np.where(is_start, 1.0, y)), 1 / beta)
        return rest if start is None else np.where(is_start, 1 - start, rest)

    def _logsf(self, y: Any, beta: Any) -> Any:
        is_start, start = self._start(y, beta)
        rest = loggamma._logsf(beta * np.log(np.where(is_start, 1.0, y)), 1 / beta)
        return rest if start is None else np.where(is_start, np.log1p(-start), rest)

    def _start(self, y: Any, beta: Any) -> tuple[Any, Any]:
        """Return where a number is next to 0, and the distribution function there, 0 elsewhere; None if nowhere."""
        bare = raw(y)
        with np.errstate(divide="ignore"):
            is_start = raw(beta) * np.log(bare) < _LOG_START
        if not np.any(is_start):
            return False, None
        near, beta = np.where(is_start, y, 0.0), np.where(is_start, beta, 1.0)
        return is_start, np.exp(np.log(beta) - special.gammaln(1 / beta)) * (near - near ** (1 + beta) / (1 + beta))

    def _ppf(self, q: Any, beta: Any) -> Any:
        log_height = np.log(beta) - special.gammaln(1 / beta)
        is_start = raw(beta) * (np.log(raw(q)) - raw(log_height)) < _LOG_START
        if not np.any(is_start):
            return np.exp(loggamma._ppf(q, 1 / beta) / beta)
        near = np.where(is_start, q, 0.5) / np.exp(np.where(is_start, log_height, 0.0))
        exponent = np.where(is_start, beta, 1.0)
        start = near * (1 + near**exponent / (1 + exponent))
        rest = np.exp(loggamma._ppf(np.where(is_start, 0.5, q), 1 / np.where(is_start, 1.0, beta)) / beta)
        return np.where(is_start, start, rest)

    def _isf(self, q: Any, beta: Any) -> Any:
        return np.exp(loggamma._isf(q, 1 / beta) / beta)

    def _mean_and_variance(self, beta: Any) -> tuple[Any, Any]:
        first, second, third = (special.gammaln(order / beta) for order in (1, 2, 3))
        mean, square = (_exp_or_infinity(one - first) for one in (second, third))
        # Where the mean square overflows it is beyond the square of the mean.
        is_finite = np.isfinite(raw(square))
        return mean, np.where(is_finite, square - np.where(is_finite, mean, 0.0) ** 2, np.inf)

    def _entropy(self, beta: Any) -> Any:
        return 1 / beta - np.log(beta) + special.gammaln(1 / beta)


halfgennorm: HalfGeneralizedNormal = HalfGeneralizedNormal("halfgennorm")


@final
class GeneralizedNormal(_TwoSided):
    """The generalized normal distribution of exponent `beta`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("beta",)
    size: ContinuousDistribution = halfgennorm

    def _ppf(self, q: Any, beta: Any) -> Any:
        is_middle = raw(q) == 0.5
        # At the median the size is 0, where its power has no derivative: there the quantile is a line.
        value = _TwoSided._ppf(self, np.where(is_middle, 0.25, q), beta)
        # It may be as steep as no number is.
        slope = np.exp(np.minimum(special.gammaln(1 / raw(beta)) - np.log(raw(beta)) + math.log(2), 700.0))
        return np.where(is_middle, (np.where(is_middle, q, 0.5) - 0.5) * slope, value)

    def _skewness_and_kurtosis(self, beta: Any) -> tuple[Any, Any]:
        first, third, fifth = (special.gammaln(order / beta) for order in (1, 3, 5))
        return 0.0 * beta, np.exp(fifth + first - 2 * third) - 3


@final
class DoubleGamma(_TwoSided):
    """The distribution of a gamma variable of shape `a` with a sign by chance."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a",)
    size: ContinuousDistribution = gamma

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        return 0.0 * a, (a + 2) * (a + 3) / (a * (a + 1)) - 3


@final
class DoubleWeibull(_TwoSided):
    """The distribution of a Weibull variable of shape `c` with a sign by chance."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    size: ContinuousDistribution = weibull_min

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        return 0.0 * c, special.gamma(1 + 4 / c) / np.square(special.gamma(1 + 2 / c)) - 3


@final
class AsymmetricLaplace(OnLine):
    """The Laplace distribution whose sides fall off by `kappa` and by 1 / kappa."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("kappa",)

    def _logpdf(self, y: Any, kappa: Any) -> Any:
        return -np.abs(y) * self._rate(y, kappa) - np.log(kappa + 1 / kappa)

    def _rate(self, y: Any, kappa: Any) -> Any:
        return np.where(raw(y) >= 0, kappa, 1 / kappa)

    def _cdf(self, y: Any, kappa: Any) -> Any:
        left, right = self._tails(y, kappa)
        return np.where(raw(y) >= 0, 1 - right, left)

    def _sf(self, y: Any, kappa: Any) -> Any:
        left, right = self._tails(y, kappa)
        return np.where(raw(y) >= 0, right, 1 - left)

    def _tails(self, y: Any, kappa: Any) -> tuple[Any, Any]:
        """Return the probabilities beyond y on the left, of negative numbers, and on the right."""
        fall = np.exp(-smooth_size(y) * self._rate(y, kappa))
        square = kappa * kappa
        return fall * square / (1 + square), fall / (1 + square)

    def _ppf(self, q: Any, kappa: Any) -> Any:
        square = kappa * kappa
        is_right = raw(q) >= raw(square / (1 + square))
        right = -np.log(np.where(is_right, 1 - q, 0.5) * (1 + square)) / kappa
        return np.where(is_right, right, np.log(np.where(is_right, 0.5, q) * (1 + square) / square) * kappa)

    def _isf(self, q: Any, kappa: Any) -> Any:
        square = kappa * kappa
        is_right = raw(q) <= raw(1 / (1 + square))
        right = -np.log(np.where(is_right, q, 0.5) * (1 + square)) / kappa
        return np.where(is_right, right, np.log(np.where(is_right, 0.5, 1 - q) * (1 + square) / square) * kappa)

    def _mean_and_variance(self, kappa: Any) -> tuple[Any, Any]:
        return 1 / kappa - kappa, 1 / (kappa * kappa) + kappa * kappa

    def _skewness_and_kurtosis(self, kappa: Any) -> tuple[Any, Any]:
        power = kappa**4
        return 2 * (1 - kappa**6) / (1 + power) ** 1.5, 6 * (1 + kappa**8) / np.square(1 + power)

    def _entropy(self, kappa: Any) -> Any:
        return 1 + np.log(kappa + 1 / kappa)


@final
class Semicircular(ContinuousDistribution):
    """Wigner's semicircle distribution, on the numbers from -1 to 1."""

    __slots__ = ()

    _inner = 0.25

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return -1.0, 1.0

    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        return math.log(2 / math.pi) + 0.5 * (np.log1p(-y) + np.log1p(y))

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        # By its symmetry, so that a small one keeps its digits: half of the beta distribution's of shapes 3 / 2.
        return special.betainc(1.5, 1.5, (1 + y) / 2)

    def _sf(self, y: Any, *shapes: Any) -> Any:
        return self._cdf(-y)

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        return 2 * special.betaincinv(1.5, 1.5, q) - 1

    def _isf(self, q: Any, *shapes: Any) -> Any:
        return -self._ppf(q)

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 0.25

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, -1.0

    def _entropy(self, *shapes: Any) -> Any:
        return math.log(math.pi) - 0.5


@final
class Triangular(ContinuousDistribution):
    """The triangular distribution on the numbers from 0 to 1, with its peak at `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] >= 0) & (shapes[0] <= 1)

    def _sides(self, y: Any, c: Any) -> tuple[Any, Any, Any]:
        """Return where a number is left of the peak, the share of the way up to it, and that of the way down."""
        is_left = (raw(y) < raw(c)) | (raw(c) >= 1)
        up = np.where(is_left, y, 0.0) / np.where(raw(c) > 0, c, 1.0)
        down = np.where(is_left, 0.0, 1 - y) / np.where(raw(c) < 1, 1 - c, 1.0)
        return is_left, up, down

    def _pdf(self, y: Any, c: Any) -> Any:
        is_left, up, down = self._sides(y, c)
        return 2 * np.where(is_left, up, down)

    def _logpdf(self, y: Any, c: Any) -> Any:
        return np.log(self._pdf(y, c))

    def _cdf(self, y: Any, c: Any) -> Any:
        is_left, up, down = self._sides(y, c)
        return np.where(is_left, up * up * c, 1 - down * down * (1 - c))

    def _sf(self, y: Any, c: Any) -> Any:
        is_left, up, down = self._sides(y, c)
        return np.where(is_left, 1 - up * up * c, down * down * (1 - c))

    def _ppf(self, q: Any, c: Any) -> Any:
        is_left = raw(q) < raw(c)
        left = np.sqrt(np.where(is_left, q, 1.0) * np.where(raw(c) > 0, c, 1.0))
        return np.where(is_left, left, 1 - np.sqrt(np.where(is_left, 1.0, 1 - q) * np.where(raw(c) < 1, 1 - c, 1.0)))

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        return (c + 1) / 3, (1 - c + c * c) / 18

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        size = 1 - c + c * c
        return math.sqrt(2) * (2 * c - 1) * (c + 1) * (c - 2) / (5 * size**1.5), 0.0 * c - 0.6

    def _entropy(self, c: Any) -> Any:
        return 0.5 - math.log(2) + 0.0 * c


@final
class Trapezoidal(ContinuousDistribution):
    """The trapezoidal distribution on the numbers from 0 to 1, level between `c` and `d`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c", "d")

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _valid(self, *shapes: Any) -> Any:
        c, d = shapes
        return (c >= 0) & (d >= c) & (d <= 1)

    def _sides(self, y: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
        """Return where a number is on either slope, the share of the way up the first, and that down the last."""
        is_left, is_right = raw(y) < raw(c), raw(y) > raw(d)
        up = np.where(is_left, y, 0.0) / np.where(raw(c) > 0, c, 1.0)
        down = np.where(is_right, 1 - y, 0.0) / np.where(raw(d) < 1, 1 - d, 1.0)
        return is_left, is_right, up, down

    def _pdf(self, y: Any, c: Any, d: Any) -> Any:
        is_left, is_right, up, down = self._sides(y, c, d)
        return np.where(is_left, up, np.where(is_right, down, 1.0 + 0.0 * y)) * (2 / (d - c + 1))

    def _logpdf(self, y: Any, c: Any, d: Any) -> Any:
        return np.log(self._pdf(y, c, d))

    def _cdf(self, y: Any, c: Any, d: Any) -> Any:
        is_left, is_right, up, down = self._sides(y, c, d)
        width = d - c + 1
        level = np.where(is_left, up * up * c, 2 * y - c) / width
        return np.where(is_right, 1 - down * down * (1 - d) / width, level)

    def _sf(self, y: Any, c: Any, d: Any) -> Any:
        # The mirrored trapezoid.
        return self._cdf(1 - y, 1 - d, 1 - c)

    def _ppf(self, q: Any, c: Any, d: Any) -> Any:
        width = d - c + 1
        is_left, is_right = raw(q) * raw(width) < raw(c), (1 - raw(q)) * raw(width) < 1 - raw(d)
        left = np.sqrt(np.where(is_left, q * c * width, 1.0))
        right = 1 - np.sqrt(np.where(is_right, (1 - q) * (1 - d) * width, 1.0))
        return np.where(is_left, left, np.where(is_right, right, (q * width + c) / 2))

    def _isf(self, q: Any, c: Any, d: Any) -> Any:
        return 1 - self._ppf(q, 1 - d, 1 - c)

    def _mean_power(self, order: int, c: Any, d: Any) -> Any:
        # (1 - d**(order + 2)) / (1 - d) is a sum of powers.
        total: Any = 1.0
        for _ in range(order + 1):
            total = total * d + 1
        return 2 * (total - c ** (order + 1)) / ((1 + d - c) * (order + 1) * (order + 2))

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        mean = self._mean_power(1, *shapes)
        return mean, self._mean_power(2, *shapes) - mean * mean

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._mean_power(order, *shapes) for order in (1, 2, 3, 4))

    def _entropy(self, c: Any, d: Any) -> Any:
        return 0.5 * (1 - d + c) / (1 + d - c) + np.log(0.5 * (1 + d - c))


@final
class SkewCauchy(OnLine):
    """The skewed Cauchy distribution, whose scale is 1 + `a` on the right and 1 - `a` on the left."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a",)

    def _valid(self, *shapes: Any) -> Any:
        return np.abs(shapes[0]) < 1

    @staticmethod
    def _width(y: Any, a: Any) -> Any:
        return np.where(raw(y) >= 0, 1 + a, 1 - a)

    def _logpdf(self, y: Any, a: Any) -> Any:
        return -math.log(math.pi) - np.log1p(np.square(y / self._width(y, a)))

    def _cdf(self, y: Any, a: Any) -> Any:
        width = self._width(y, a)
        tail = width / math.pi * np.arctan2(width, smooth_size(y))
        return np.where(raw(y) >= 0, 1 - tail, tail)

    def _sf(self, y: Any, a: Any) -> Any:
        return self._cdf(-y, -a)

    def _ppf(self, q: Any, a: Any) -> Any:
        is_right = 2 * raw(q) > 1 - raw(a)
        width = np.where(is_right, 1 + a, 1 - a)
        size = width / np.tan(math.pi * np.where(is_right, 1 - q, q) / width)
        return np.where(is_right, size, -size)

    def _isf(self, q: Any, a: Any) -> Any:
        return -self._ppf(q, -a)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        return np.nan, np.nan


@final
class CrystalBall(OnLine):
    """The Crystal Ball distribution: normal above -`beta`, and a power of exponent `m` below."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("beta", "m")

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] > 0) & (shapes[1] > 1)

    @staticmethod
    def _weights(beta: Any, m: Any) -> tuple[Any, Any]:
        """Return the integrals of the power, and of both, of heights that are 1 for the normal density at 0."""
        tail = m / (beta * (m - 1)) * np.exp(-0.5 * beta * beta)
        return tail, tail + math.sqrt(2 * math.pi) * special.ndtr(beta)

    def _sides(self, y: Any, beta: Any, m: Any) -> tuple[Any, Any, Any]:
        """Return where a number is below -beta, the base of the power there, and the number above."""
        is_left = raw(y) <= -raw(beta)
        base = 1 - beta / m * (np.where(is_left, y, -raw(beta)) + np.where(is_left, beta, raw(beta)))
        return is_left, base, np.where(is_left, 0.0, y)

    def _logpdf(self, y: Any, beta: Any, m: Any) -> Any:
        is_left, base, right = self._sides(y, beta, m)
        _, total = self._weights(beta, m)
        return np.where(is_left, -0.5 * beta * beta - m * np.log(base), -0.5 * right * right) - np.log(total)

    def _cdf(self, y: Any, beta: Any, m: Any) -> Any:
        is_left, base, right = self._sides(y, beta, m)
        tail, total = self._weights(beta, m)
        return np.where(is_left, tail / total * base ** (1 - m), 1 - self._normal_tail(right, total))

    def _sf(self, y: Any, beta: Any, m: Any) -> Any:
        is_left, base, right = self._sides(y, beta, m)
        tail, total = self._weights(beta, m)
        return np.where(is_left, 1 - tail / total * base ** (1 - m), self._normal_tail(right, total))

    @staticmethod
    def _normal_tail(y: Any, total: Any) -> Any:
        return math.sqrt(2 * math.pi) * special.ndtr(-y) / total

    def _ppf(self, q: Any, beta: Any, m: Any) -> Any:
        return self._quantile_of(q, 1 - q, beta, m)

    def _isf(self, q: Any, beta: Any, m: Any) -> Any:
        return self._quantile_of(1 - q, q, beta, m)

    def _quantile_of(self, below: Any, above: Any, beta: Any, m: Any) -> Any:
        tail, total = self._weights(beta, m)
        is_left = raw(below) * raw(total) < raw(tail)
        base = np.where(is_left, below * total / tail, 1.0) ** (1 / (1 - m))
        right = -special.ndtri(np.where(is_left, 0.5, above * total / math.sqrt(2 * math.pi)))
        return np.where(is_left, -beta + (1 - base) * m / beta, right)

    def _mean_power(self, order: int, beta: Any, m: Any) -> Any:
        _, total = self._weights(beta, m)
        is_there = raw(m) > order + 1
        m = np.where(is_there, m, order + 2.0)
        half = (order + 1) / 2
        share = special.gammainc(half, 0.5 * beta * beta)
        right = 2 ** (half - 1) * math.gamma(half) * (1 + (-1) ** order * share)
        start, left = m / beta, 0.0 * m
        for k in range(order + 1):
            power = math.comb(order, k) * (-1) ** k * (start - beta) ** (order - k) * start ** (k + 1)
            left = left + power / (m - k - 1)
        return np.where(is_there, (np.exp(-0.5 * beta * beta) * left + right) / total, np.inf)

    def _powers_up_to(self, order: int, *shapes: Any) -> list[Any]:
        return [self._mean_power(one, *shapes) for one in range(1, order + 1)]

    def _mean_and_variance(self, beta: Any, m: Any) -> tuple[Any, Any]:
        mean, second = (self._mean_power(order, beta, m) for order in (1, 2))
        is_there = np.isfinite(raw(second))
        return mean, np.where(is_there, second - np.square(np.where(is_there, mean, 0.0)), np.inf)

    def _skewness_and_kurtosis(self, beta: Any, m: Any) -> tuple[Any, Any]:
        found = skewness_and_kurtosis(
            self._mean_power(order, beta, np.where(raw(m) > 5, m, 6.0)) for order in (1, 2, 3, 4)
        )
        skewness, kurtosis = (np.where(raw(m) > 5, one, np.nan) for one in found)
        return skewness, kurtosis


crystalball: CrystalBall = CrystalBall("crystalball")
dgamma: DoubleGamma = DoubleGamma("dgamma")
dweibull: DoubleWeibull = DoubleWeibull("dweibull")
gennorm: GeneralizedNormal = GeneralizedNormal("gennorm")
laplace_asymmetric: AsymmetricLaplace = AsymmetricLaplace("laplace_asymmetric")
semicircular: Semicircular = Semicircular("semicircular")
skewcauchy: SkewCauchy = SkewCauchy("skewcauchy")
trapezoid: Trapezoidal = Trapezoidal("trapezoid")
triang: Triangular = Triangular("triang")
