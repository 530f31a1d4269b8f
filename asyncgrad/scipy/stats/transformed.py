"""Families of logistic, exponential and normal variables after a monotone function."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .location_scale import cauchy, expon, uniform
from .normal import norm
from .supports import bounded_exp
from .transforming import LINE, Transformed, WithPowers

__all__ = [
    "exponweib",
    "fatiguelife",
    "genlogistic",
    "gibrat",
    "halflogistic",
    "hypsecant",
    "johnsonsu",
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
        size = np.abs(y)
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
        return -np.log(np.expm1(z / c))

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

    def _to_base(self, y: Any, a: Any, c: Any) -> Any:
        return (-np.expm1(-(y**c))) ** a

    def _from_base(self, z: Any, a: Any, c: Any) -> Any:
        return (-np.log1p(-(z ** (1 / a)))) ** (1 / c)

    def _log_slope(self, y: Any, a: Any, c: Any) -> Any:
        inner = np.log(-np.expm1(-(y**c)))
        return np.log(a) + np.log(c) + (a - 1) * inner - y**c + (c - 1) * np.log(y)

    def _sf(self, y: Any, a: Any, c: Any) -> Any:
        return -np.expm1(a * np.log1p(-np.exp(-(y**c))))

    def _isf(self, q: Any, a: Any, c: Any) -> Any:
        return (-np.log(-np.expm1(np.log1p(-q) / a))) ** (1 / c)

    def _logsf(self, y: Any, a: Any, c: Any) -> Any:
        return np.log(self._sf(y, a, c))


@final
class FatigueLife(Transformed):
    """Birnbaum and Saunders' distribution of shape `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = norm

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


exponweib: ExponentiatedWeibull = ExponentiatedWeibull("exponweib")
fatiguelife: FatigueLife = FatigueLife("fatiguelife")
genlogistic: GeneralizedLogistic = GeneralizedLogistic("genlogistic")
gibrat: Gibrat = Gibrat("gibrat")
halflogistic: HalfLogistic = HalfLogistic("halflogistic")
hypsecant: HyperbolicSecant = HyperbolicSecant("hypsecant")
johnsonsu: JohnsonUnbounded = JohnsonUnbounded("johnsonsu")
