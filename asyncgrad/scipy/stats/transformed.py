"""Families of logistic, exponential and normal variables after a monotone function."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import asarray
from ..special.log_densities import log_beta_
from ..special.rules import by_mask
from ..special.zeta_functions import lambertw
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .distances import linear_term
from .gamma_and_beta import beta
from .location_scale import cauchy, expon, uniform
from .normal import norm
from .supports import bounded, bounded_exp, logarithm_over, smooth_size
from .transforming import LINE, Transformed, WithPowers, log_expm1, log_of_rest

__all__ = [
    "exponpow",
    "exponweib",
    "fatiguelife",
    "genexpon",
    "genhalflogistic",
    "genlogistic",
    "gibrat",
    "halflogistic",
    "hypsecant",
    "jf_skew_t",
    "johnsonsu",
    "kappa4",
]


@final
class JohnsonUnbounded(WithPowers):
    """Johnson's distribution on the line: of the hyperbolic sine of a normal variable."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = norm
    _ends: tuple[float, float] = LINE
    _inner = 0.0

    def _valid(self, *shapes: Any) -> Any:
        return shapes[1] > 0

    def _to_base(self, y: Any, a: Any, b: Any) -> Any:
        return a + b * np.arcsinh(y)

    def _from_base(self, z: Any, a: Any, b: Any) -> Any:
        return np.sinh((z - a) / b)

    def _log_slope(self, y: Any, a: Any, b: Any) -> Any:
        return np.log(b) - 0.5 * np.log1p(y * y)

    def _log_slopes(self, q: np.ndarray, a: Any, b: Any) -> tuple[Any, Any]:
        # The logarithm of a hyperbolic cosine, which may overflow.
        return self._of_base_quantiles(
            lambda z: np.log(b) + math.log(2) - np.logaddexp((z - a) / b, (a - z) / b), q, a, b
        )

    def _mean_power(self, order: int, a: Any, b: Any) -> Any:
        # Of exp(k (z - a) / b), whose sums the powers of a hyperbolic sine are.
        value: Any = 0.0
        for step in range(order + 1):
            k = order - 2 * step
            value = value + (-1) ** step * math.comb(order, step) * np.exp(k * k / (2 * b * b) - k * a / b)
        return value / 2**order


@final
class Gibrat(WithPowers):
    """The distribution of the exponential of a standard normal variable."""

    __slots__ = ()

    base: ContinuousDistribution = norm
    _flat_start = True

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return np.log(y)

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return np.exp(z)

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return -np.log(y)

    def _mean_power(self, order: int, *shapes: Any) -> Any:
        return math.exp(order * order / 2)

    def _entropy(self, *shapes: Any) -> Any:
        return 0.5 * math.log(2 * math.pi) + 0.5


@final
class HyperbolicSecant(Transformed):
    """The distribution of the logarithm of the size of a Cauchy variable."""

    __slots__ = ()

    base: ContinuousDistribution = cauchy
    _ends: tuple[float, float] = LINE
    _inner = 0.0

    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        size = smooth_size(y)
        return math.log(2 / math.pi) - size - np.log1p(np.exp(-2 * size))

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return bounded_exp(y)

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return np.log(z)

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return y

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        return 2 / math.pi * np.arctan(bounded_exp(y))

    def _sf(self, y: Any, *shapes: Any) -> Any:
        return 2 / math.pi * np.arctan(bounded_exp(-y))

    def _logcdf(self, y: Any, *shapes: Any) -> Any:
        return ContinuousDistribution._logcdf(self, y, *shapes)

    def _logsf(self, y: Any, *shapes: Any) -> Any:
        return ContinuousDistribution._logsf(self, y, *shapes)

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        return np.log(np.tan(math.pi * q / 2))

    def _isf(self, q: Any, *shapes: Any) -> Any:
        return -np.log(np.tan(math.pi * q / 2))

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, math.pi**2 / 4

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 2.0

    def _entropy(self, *shapes: Any) -> Any:
        return math.log(2 * math.pi)


@final
class HalfLogistic(Transformed):
    """The distribution of the size of a logistic variable."""

    __slots__ = ()

    base: ContinuousDistribution = expon

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return y + np.log1p(np.exp(-y)) - math.log(2)

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return z + math.log(2) + np.log1p(-0.5 * np.exp(-z))

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return -np.log1p(np.exp(-y))

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        return np.tanh(y / 2)

    def _logcdf(self, y: Any, *shapes: Any) -> Any:
        return ContinuousDistribution._logcdf(self, y, *shapes)

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        return 2 * np.arctanh(q)

    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        return math.log(2) - y - 2 * np.log1p(np.exp(-y))

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return 2 * math.log(2), math.pi**2 / 3 - 4 * math.log(2) ** 2

    def _entropy(self, *shapes: Any) -> Any:
        return 2 - math.log(2)


@final
class GeneralizedLogistic(Transformed):
    """The logistic distribution whose distribution function is raised to the power `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = expon
    _decreases = True
    _ends: tuple[float, float] = LINE
    _inner = 0.0

    def _to_base(self, y: Any, c: Any) -> Any:
        return -c * special.log_expit(y)

    def _from_base(self, z: Any, c: Any) -> Any:
        return -log_expm1(z / c)

    def _log_slope(self, y: Any, c: Any) -> Any:
        return np.log(c) + special.log_expit(-y)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        return np.euler_gamma + special.digamma(c), math.pi**2 / 6 + special.zeta(2.0, c)

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        variance = math.pi**2 / 6 + special.zeta(2.0, c)
        third = -2 * special.zeta(3.0, c) + 2 * float(special.zeta(3.0))
        fourth = math.pi**4 / 15 + 6 * special.zeta(4.0, c)
        return third / variance**1.5, fourth / np.square(variance)

    def _entropy(self, c: Any) -> Any:
        return -np.log(c) + special.digamma(c + 1) + np.euler_gamma + 1


@final
class ExponentiatedWeibull(Transformed):
    """The Weibull distribution of shape `c`, whose distribution function is raised to the power `a`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "c")
    base: ContinuousDistribution = uniform
    _has_powers = True

    def _to_base(self, y: Any, a: Any, c: Any) -> Any:
        return (-np.expm1(-(y**c))) ** a

    def _power(self, at_last: bool, distance: Any, a: Any, c: Any) -> tuple[Any, Any] | None:
        factor = np.log(a) + np.log(c) - (a + 1) / 2 * linear_term(distance, c)
        return None if at_last else (a * c - 1, factor)

    @staticmethod
    def _log_of_weibull(y: Any, c: Any) -> Any:
        """Return the logarithm of Weibull's distribution function, where the power underflows, too."""
        is_small = raw(c) * np.log(raw(y)) < -36
        return by_mask(is_small, lambda y: c * np.log(y), lambda y: log_of_rest(-(y**c)), (y, 1.0, 1.0))

    def _from_base(self, z: Any, a: Any, c: Any) -> Any:
        return (-np.log1p(-(z ** (1 / a)))) ** (1 / c)

    def _log_slope(self, y: Any, a: Any, c: Any) -> Any:
        return np.log(a) + np.log(c) + (a - 1) * self._log_of_weibull(y, c) - y**c + (c - 1) * np.log(y)

    def _log_slopes(self, q: np.ndarray, a: Any, c: Any) -> tuple[Any, Any]:
        def of_log_cdf(logarithm: np.ndarray) -> Any:
            power = -log_of_rest(logarithm / a)
            # Where the power is as small as the probability of the Weibull variable.
            is_small = raw(logarithm / a) < -36
            of_power = np.where(is_small, logarithm / a, np.log(np.where(is_small, 1.0, power)))
            return np.log(a) + np.log(c) + (a - 1) / a * logarithm - power + (c - 1) / c * of_power

        return of_log_cdf(np.log(q)), of_log_cdf(np.log1p(-q))

    def _sf(self, y: Any, a: Any, c: Any) -> Any:
        return -np.expm1(self._logcdf(y, a, c))

    def _logcdf(self, y: Any, a: Any, c: Any) -> Any:
        return a * self._log_of_weibull(y, c)

    def _isf(self, q: Any, a: Any, c: Any) -> Any:
        return (-log_of_rest(np.log1p(-q) / a)) ** (1 / c)

    def _logsf(self, y: Any, a: Any, c: Any) -> Any:
        is_far = raw(y) ** raw(c) > 700
        return by_mask(is_far, lambda y: np.log(a) - y**c, lambda y: log_of_rest(self._logcdf(y, a, c)), (y, 1.0, 1.0))


@final
class FatigueLife(Transformed):
    """Birnbaum and Saunders' distribution of shape `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = norm
    _flat_start = True

    def _to_base(self, y: Any, c: Any) -> Any:
        root = np.sqrt(y)
        return (root - 1 / root) / c

    def _from_base(self, z: Any, c: Any) -> Any:
        half = c * z / 2
        return np.square(half + np.sqrt(half * half + 1))

    def _log_slope(self, y: Any, c: Any) -> Any:
        return np.log1p(y) - np.log(2 * c) - 1.5 * np.log(y)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        square = c * c
        return square / 2 + 1, square * (1.25 * square + 1)

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        square = c * c
        size = 5 * square + 4
        return 4 * c * (11 * square + 6) / size**1.5, 6 * square * (93 * square + 40) / np.square(size)


@final
class ExponentialPower(Transformed):
    """The exponential power distribution of shape `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("b",)
    base: ContinuousDistribution = expon
    _has_powers = True

    def _power(self, at_last: bool, distance: Any, b: Any) -> tuple[Any, Any] | None:
        return None if at_last else (b - 1, np.log(b) - 0.5 * linear_term(distance, 2 * b))

    def _to_base(self, y: Any, b: Any) -> Any:
        return np.expm1(np.minimum(y**b, 700.0))

    def _from_base(self, z: Any, b: Any) -> Any:
        return np.log1p(z) ** (1 / b)

    def _log_slope(self, y: Any, b: Any) -> Any:
        return np.log(b) + special.xlogy(b - 1, y) + y**b

    def _log_slopes(self, q: np.ndarray, b: Any) -> tuple[Any, Any]:
        return self._of_base_quantiles(lambda z: np.log(b) + (b - 1) / b * np.log(np.log1p(z)) + np.log1p(z), q, b)


halflogistic: HalfLogistic = HalfLogistic("halflogistic")


def _mean_of_half_logistic(c: Any) -> Any:
    """Return the mean of the half-logistic distribution of shape `c`: log(4) for a shape of 0."""
    return special.digamma(c / 2 + 1) - special.digamma((c + 1) / 2)


@final
class GeneralizedHalfLogistic(Transformed):
    """The half-logistic distribution of shape `c`, up to 1 / c."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = halflogistic
    _has_powers = True

    def _power(self, at_last: bool, distance: Any, *shapes: Any) -> tuple[Any, Any] | None:
        exponent = 1 / shapes[0] - 1
        factor = math.log(2) + exponent * np.log(shapes[0]) - 2 * linear_term(distance, shapes[0])
        return (exponent, factor) if at_last else None

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1 / shapes[0]

    def _point_inside(self, *shapes: Any) -> Any:
        return 0.5 / raw(shapes[0])

    def _to_base(self, y: Any, c: Any) -> Any:
        return -np.log1p(-c * y) / c

    def _from_base(self, z: Any, c: Any) -> Any:
        return -np.expm1(-c * z) / c

    def _log_slope(self, y: Any, c: Any) -> Any:
        return -np.log1p(-c * y)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        mean, double = _mean_of_half_logistic(c), _mean_of_half_logistic(2 * c)
        # The second moment is 2 (mean - double) / c, and where c is small, by the series of that.
        is_small = raw(c) < 0.01
        small = np.where(is_small, c, 0.0)
        series: Any = 0.0
        for order in range(10, 0, -1):
            difference = special.polygamma(order, 1.0) - special.polygamma(order, 0.5)
            series = series * small - difference * (2.0**order - 1) / (2.0**order * math.factorial(order))
        second = 2 * np.where(is_small, series, (mean - double) / np.where(is_small, 1.0, c))
        return mean, second - np.square(mean)

    def _entropy(self, c: Any) -> Any:
        return 2 - (2 * c + 1) * math.log(2)


@final
class GeneralizedExponential(Transformed):
    """The generalized exponential distribution, whose hazard rises from `a` to `a + b` at the rate `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b", "c")
    base: ContinuousDistribution = expon

    def _to_base(self, y: Any, a: Any, b: Any, c: Any) -> Any:
        return (a + b) * y + b * np.expm1(-c * y) / c

    def _from_base(self, z: Any, a: Any, b: Any, c: Any) -> Any:
        total = a + b
        t = (b + c * z) / total
        return (t + lambertw(-b / total * np.exp(-t)).real) / c

    def _log_slope(self, y: Any, a: Any, b: Any, c: Any) -> Any:
        return np.log(a - b * np.expm1(-c * y))


@final
class SkewT(WithPowers):
    """Jones and Faddy's skew t distribution of shapes `a` and `b`: of a beta variable."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = beta
    _ends: tuple[float, float] = LINE
    _inner = 0.0

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes

    def _to_base(self, y: Any, a: Any, b: Any) -> Any:
        # A square may overflow.
        root = np.hypot(np.sqrt(a + b), y)
        # Below 0 the difference of the root and y would lose its digits.
        is_left = raw(y) < 0
        left = (a + b) / (2 * root) / (root - np.where(is_left, y, 0.0))
        return np.where(is_left, left, (1 + y / root) / 2)

    def _from_base(self, z: Any, a: Any, b: Any) -> Any:
        return (2 * z - 1) * np.sqrt((a + b) / (4 * z * (1 - z)))

    def _log_slope(self, y: Any, a: Any, b: Any) -> Any:
        return np.log((a + b) / 2) - 3 * np.log(np.hypot(np.sqrt(a + b), y))

    def _log_share(self, y: Any, a: Any, b: Any) -> Any:
        """Return the logarithm of twice the base's variable, which may underflow."""
        root = np.hypot(np.sqrt(a + b), y)
        is_left = raw(y) < 0
        left = np.log(a + b) - np.log(root) - np.log(root - np.where(is_left, y, 0.0))
        return np.where(is_left, left, np.log1p(np.where(is_left, 0.0, y) / root))

    def _logpdf(self, y: Any, a: Any, b: Any) -> Any:
        powers = (a + 0.5) * self._log_share(y, a, b) + (b + 0.5) * self._log_share(-y, a, b)
        return powers - (a + b - 1) * math.log(2) - log_beta_.call(a, b) - 0.5 * np.log(a + b)

    # Each side by the probability beyond, which has the digits.

    def _cdf(self, y: Any, a: Any, b: Any) -> Any:
        is_right, size, first, last = self._side(y, a, b)
        tail = beta._cdf(self._to_base(-size, first, last), first, last)
        return np.where(is_right, 1 - tail, tail)

    def _logcdf(self, y: Any, a: Any, b: Any) -> Any:
        is_right, size, first, last = self._side(y, a, b)
        tail = beta._logcdf(self._to_base(-size, first, last), first, last)
        return np.where(is_right, log_of_rest(np.where(is_right, tail, -1.0)), tail)

    @staticmethod
    def _side(y: Any, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
        """Return which numbers are positive, the sizes, and the shapes by which the tails fall off."""
        is_right = raw(y) > 0
        return is_right, np.where(is_right, y, -y), *(np.where(is_right, one, other) for one, other in ((b, a), (a, b)))

    def _sf(self, y: Any, a: Any, b: Any) -> Any:
        return self._cdf(-y, b, a)

    def _logsf(self, y: Any, a: Any, b: Any) -> Any:
        return self._logcdf(-y, b, a)

    def _isf(self, q: Any, a: Any, b: Any) -> Any:
        return -self._ppf(q, b, a)

    def _mean_power(self, order: int, a: Any, b: Any) -> Any:
        half = order / 2
        is_there = (raw(a) > half) & (raw(b) > half)
        a, b = np.where(is_there, a, half + 1.0), np.where(is_there, b, half + 1.0)
        value: Any = 0.0
        for step in range(order + 1):
            value = value + (-1) ** step * math.comb(order, step) * special.beta(a + half - step, b - half + step)
        return np.where(is_there, value * (a + b) ** half / (2.0**order * special.beta(a, b)), np.nan)


@final
class Kappa4(Transformed):
    """The kappa distribution of two shapes, `h` and `k`, of either sign or 0."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("h", "k")
    base: ContinuousDistribution = expon
    _decreases = True
    _inner = 0.0
    _has_powers = True

    def _power(self, at_last: bool, distance: Any, *shapes: Any) -> tuple[Any, Any] | None:
        h, k = shapes
        end = k if at_last else h
        if np.any(raw(end) <= 0):
            return None
        exponent = 1 / end - 1
        if at_last:
            return exponent, exponent * np.log(k) - (1 - h) * linear_term(distance, k)
        return exponent, (k - 1 + exponent * k) * np.log(h) - (1 - k) * h**k * (1 / h + 1) / 2 * distance

    def _valid(self, *shapes: Any) -> Any:
        return np.isfinite(shapes[0]) & np.isfinite(shapes[1])

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        h, k = shapes
        is_bounded, is_left, is_right = raw(h) > 0, raw(k) < 0, raw(k) > 0
        start = np.log(np.where(is_bounded, h, 1.0))
        end = 1 / np.where(is_left | is_right, k, 1.0)
        first = np.where(is_bounded, start * special.exprel(-k * start), np.where(is_left, end, -np.inf))
        return first, np.where(is_right, end, np.inf)

    def _point_inside(self, *shapes: Any) -> Any:
        return raw(self._ppf(asarray(0.5), *(asarray(raw(one)) for one in shapes)))

    def _to_base(self, y: Any, h: Any, k: Any) -> Any:
        power = bounded_exp(-logarithm_over(-k, y))
        return logarithm_over(-h, power)

    def _from_base(self, z: Any, h: Any, k: Any) -> Any:
        logarithm = -np.log(z * special.exprel(-h * z))
        return logarithm * special.exprel(-k * logarithm)

    def _log_slope(self, y: Any, h: Any, k: Any) -> Any:
        return (k - 1) * logarithm_over(-k, y) + h * self._to_base(y, h, k)

    def _logpdf(self, y: Any, h: Any, k: Any) -> Any:
        # At an end of the support, where integrals begin, it is no difference of infinities.
        with np.errstate(divide="ignore"):
            return (k - 1) * bounded(logarithm_over(-k, y)) + (h - 1) * bounded(self._to_base(y, h, k))


exponpow: ExponentialPower = ExponentialPower("exponpow")
exponweib: ExponentiatedWeibull = ExponentiatedWeibull("exponweib")
fatiguelife: FatigueLife = FatigueLife("fatiguelife")
genexpon: GeneralizedExponential = GeneralizedExponential("genexpon")
genhalflogistic: GeneralizedHalfLogistic = GeneralizedHalfLogistic("genhalflogistic")
genlogistic: GeneralizedLogistic = GeneralizedLogistic("genlogistic")
gibrat: Gibrat = Gibrat("gibrat")
hypsecant: HyperbolicSecant = HyperbolicSecant("hypsecant")
jf_skew_t: SkewT = SkewT("jf_skew_t")
johnsonsu: JohnsonUnbounded = JohnsonUnbounded("johnsonsu")
kappa4: Kappa4 = Kappa4("kappa4")
