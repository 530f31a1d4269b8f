"""The inverse Gaussian distribution and its kin, and normal variables whose variance has such a distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..special.rules import by_mask
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .implicit import Implicit
from .integrated import Integrated
from .mean_powers import central_moments
from .transforming import SameVariable, Transformed, log_of_rest

__all__ = ["genhyperbolic", "geninvgauss", "invgauss", "norminvgauss", "recipinvgauss", "wald"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)


#: Beyond it SciPy's Bessel functions are nan.
_GREAT = 1e9


def _log_kve(order: Any, x: Any) -> Any:
    """Return the logarithm of special.kve, also of great numbers."""
    return by_mask(
        raw(x) > _GREAT,
        lambda x: 0.5 * np.log(math.pi / (2 * x)) + np.log1p((order * order - 0.25) / (2 * x)),
        lambda x: np.log(special.kve(order, x)),
        (x, _GREAT, 1.0),
    )


@final
class InverseNormal(Implicit):
    """The inverse Gaussian distribution of mean `mu`: of the time at which a drifting path reaches 1."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("mu",)
    _ends: tuple[float, float] = (0.0, np.inf)
    _flat_start = True

    def _point_inside(self, *shapes: Any) -> Any:
        # Far from the mean nothing is left that has a derivative.
        return np.where(raw(shapes[0]) > 0, raw(shapes[0]), 0.5)

    def _logpdf(self, y: Any, mu: Any) -> Any:
        return -_LOG_ROOT - 1.5 * np.log(y) - np.square(y / mu - 1) / (2 * y)

    @staticmethod
    def _parts(y: Any, mu: Any) -> tuple[Any, Any]:
        """Return the normal variable, and the logarithm of the probability of the reflected path."""
        factor = 1 / np.sqrt(y)
        return factor * (y / mu - 1), 2 / mu + special.log_ndtr(-factor * (y / mu + 1))

    def _logcdf(self, y: Any, mu: Any) -> Any:
        z, reflected = self._parts(y, mu)
        direct = special.log_ndtr(z)
        return direct + np.log1p(np.exp(reflected - direct))

    def _logsf(self, y: Any, mu: Any) -> Any:
        z, reflected = self._parts(y, mu)
        direct = special.log_ndtr(-z)
        return direct + log_of_rest(reflected - direct)

    def _cdf(self, y: Any, mu: Any) -> Any:
        return np.exp(self._logcdf(y, mu))

    def _sf(self, y: Any, mu: Any) -> Any:
        return np.exp(self._logsf(y, mu))

    def _mean_and_variance(self, mu: Any) -> tuple[Any, Any]:
        return mu * 1.0, mu**3

    def _skewness_and_kurtosis(self, mu: Any) -> tuple[Any, Any]:
        return 3 * np.sqrt(mu), 15 * mu

    def _entropy(self, mu: Any) -> Any:
        # Tricomi's function is the exponential integral without its exponential factor.
        return 0.5 * (1 + math.log(2 * math.pi) + 3 * np.log(mu)) - 1.5 * special.hyperu(1.0, 1.0, 2 / mu)


invgauss: InverseNormal = InverseNormal("invgauss")


@final
class Wald(SameVariable):
    """Wald's distribution: the inverse Gaussian distribution of mean 1."""

    __slots__ = ()

    base: ContinuousDistribution = invgauss
    _flat_start = True

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return (np.asarray(1.0),)


@final
class ReciprocalInverseNormal(Transformed):
    """The distribution of the inverse of an inverse Gaussian variable of mean `mu`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("mu",)
    base: ContinuousDistribution = invgauss
    _decreases = True
    _flat_start = True

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes

    def _to_base(self, y: Any, mu: Any) -> Any:
        return 1 / y

    def _from_base(self, z: Any, mu: Any) -> Any:
        return 1 / z

    def _log_slope(self, y: Any, mu: Any) -> Any:
        return -2 * np.log(y)

    # The variable is the sum of an inverse Gaussian one over mu**2 and of one with the chi-square distribution.

    def _mean_and_variance(self, mu: Any) -> tuple[Any, Any]:
        return 1 / mu + 1, 1 / mu + 2

    def _skewness_and_kurtosis(self, mu: Any) -> tuple[Any, Any]:
        variance = 1 / mu + 2
        return (3 / mu + 8) / variance**1.5, (15 / mu + 48) / np.square(variance)

    def _entropy(self, mu: Any) -> Any:
        # That of the base, less twice the mean of its logarithm.
        return 0.5 * (1 + math.log(2 * math.pi) - np.log(mu) + special.hyperu(1.0, 1.0, 2 / mu))


@final
class NormalInverseNormal(Integrated):
    """The normal-inverse Gaussian distribution, of tail heaviness `a` and asymmetry `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")

    def _valid(self, *shapes: Any) -> Any:
        a, b = shapes
        return (a > 0) & (np.abs(b) < a)

    @staticmethod
    def _rate(a: Any, b: Any) -> Any:
        return np.sqrt((a - b) * (a + b))

    def _logpdf(self, y: Any, a: Any, b: Any) -> Any:
        size = np.hypot(1.0, y)
        return np.log(a / math.pi * special.k1e(a * size) / size) + b * y - a * size + self._rate(a, b)

    def _edge_at_zero(self, a: Any, b: Any) -> Any:
        return 1 / (a + np.abs(b))

    def _mean_and_variance(self, a: Any, b: Any) -> tuple[Any, Any]:
        rate = self._rate(a, b)
        return b / rate, a * a / rate**3

    def _skewness_and_kurtosis(self, a: Any, b: Any) -> tuple[Any, Any]:
        rate = self._rate(a, b)
        return 3 * b / (a * np.sqrt(rate)), 3 * (1 + 4 * np.square(b / a)) / rate


def _bessel_ratios(p: Any, b: Any) -> list[Any]:
    """Return the means of the first four powers of a generalized inverse Gaussian variable."""
    start = special.kve(p, b)
    return [special.kve(p + order, b) / start for order in (1, 2, 3, 4)]


def _cumulants(means: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    variance, third, fourth = central_moments(means)
    return means[0], variance, third, fourth - 3 * np.square(variance)


@final
class GeneralizedInverseNormal(Integrated):
    """The generalized inverse Gaussian distribution of order `p` and concentration `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("p", "b")
    _ends: tuple[float, float] = (0.0, np.inf)
    _flat_start = True
    _inner = 1.0

    def _valid(self, *shapes: Any) -> Any:
        p, b = shapes
        return np.isfinite(p) & (b > 0)

    def _logpdf(self, y: Any, p: Any, b: Any) -> Any:
        # Without its greatest part, which is the same in the Bessel function.
        return (p - 1) * np.log(y) - b * np.square(y - 1) / (2 * y) - np.log(2 * special.kve(p, b))

    def _mean_and_variance(self, p: Any, b: Any) -> tuple[Any, Any]:
        mean, variance, _, _ = _cumulants(_bessel_ratios(p, b))
        return mean, variance

    def _skewness_and_kurtosis(self, p: Any, b: Any) -> tuple[Any, Any]:
        _, variance, third, fourth = _cumulants(_bessel_ratios(p, b))
        return third / variance**1.5, fourth / np.square(variance)


@final
class GeneralizedHyperbolic(Integrated):
    """The generalized hyperbolic distribution of order `p`, tail heaviness `a` and asymmetry `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("p", "a", "b")

    def _valid(self, *shapes: Any) -> Any:
        p, a, b = shapes
        return np.isfinite(p) & (np.abs(b) < a)

    def _logpdf(self, y: Any, p: Any, a: Any, b: Any) -> Any:
        rate, size = np.sqrt((a - b) * (a + b)), np.hypot(1.0, y)
        order = p - 0.5
        start = p * np.log(rate) - _LOG_ROOT - order * np.log(a) - np.log(special.kve(p, rate)) + rate
        return start + b * y - a * size + _log_kve(order, a * size) + order * np.log(size)

    def _edge_at_zero(self, p: Any, a: Any, b: Any) -> Any:
        return 1 / (a + np.abs(b))

    def _variance_cumulants(self, p: Any, a: Any, b: Any) -> list[Any]:
        """Return the cumulants of the variable's own variance, a generalized inverse Gaussian one."""
        rate = np.sqrt((a - b) * (a + b))
        found = _cumulants(_bessel_ratios(p, rate))
        return [one / rate ** (index + 1) for index, one in enumerate(found)]

    def _mean_and_variance(self, p: Any, a: Any, b: Any) -> tuple[Any, Any]:
        first, second, _, _ = self._variance_cumulants(p, a, b)
        return b * first, first + b * b * second

    def _skewness_and_kurtosis(self, p: Any, a: Any, b: Any) -> tuple[Any, Any]:
        first, second, third, fourth = self._variance_cumulants(p, a, b)
        square = b * b
        variance = first + square * second
        skewness = b * (square * third + 3 * second)
        kurtosis = square * (square * fourth + 6 * third) + 3 * second
        return skewness / variance**1.5, kurtosis / np.square(variance)


genhyperbolic: GeneralizedHyperbolic = GeneralizedHyperbolic("genhyperbolic")
geninvgauss: GeneralizedInverseNormal = GeneralizedInverseNormal("geninvgauss")
norminvgauss: NormalInverseNormal = NormalInverseNormal("norminvgauss")
recipinvgauss: ReciprocalInverseNormal = ReciprocalInverseNormal("recipinvgauss")
wald: Wald = Wald("wald")
