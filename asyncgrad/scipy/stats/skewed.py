"""Normal distributions that lean to one side, and the normal distribution of a circle: their quantiles are implicit."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor, asarray
from ...numpy.random.shapes import vonmises_slope
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .supports import OnLine

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["exponnorm", "skewnorm", "vonmises"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_ROOT = math.sqrt(2)


class _Implicit(OnLine):
    """Abstract: a family on the real line whose quantiles are found by SciPy, and follow the distribution function."""

    __slots__ = ()

    @abstractmethod
    def _sf(self, y: Any, *shapes: Any) -> Any:
        """Return the probability of greater values."""

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        found = getattr(scipy_stats, self.name).ppf(raw(q), *map(raw, shapes))
        return self._refined(found, q, self._logcdf, 1, *shapes)

    def _isf(self, q: Any, *shapes: Any) -> Any:
        found = getattr(scipy_stats, self.name).isf(raw(q), *map(raw, shapes))
        return self._refined(found, q, self._logsf, -1, *shapes)

    def _refined(self, y: Any, q: Any, function: Any, sign: int, *shapes: Any) -> Any:
        """Return a quantile after steps of Newton's.

        They are for the logarithm of the probability, which is next to linear far out, where SciPy's quantiles may be
        wrong. Each doubles the order up to which derivatives are right: the last two are recorded.
        """
        y = np.asarray(y).astype(np.result_type(*map(raw, (q, *shapes))), copy=False)
        bare = [asarray(raw(one)) for one in shapes]
        for _ in range(2):
            y = raw(self._step(asarray(y), asarray(raw(q)), function, sign, *bare))
        return self._step(self._step(asarray(y), q, function, sign, *shapes), q, function, sign, *shapes)

    def _step(self, y: Any, q: Any, function: Any, sign: int, *shapes: Any) -> Any:
        logarithm = function(y, *shapes)
        scale = np.exp(logarithm - self._logpdf(y, *shapes))
        is_there = np.isfinite(raw(scale)) & np.isfinite(raw(logarithm))
        step = (logarithm - np.log(q)) * scale
        return y - sign * (step if np.all(is_there) else np.where(is_there, step, 0.0))


@final
class ExponentialNormal(_Implicit):
    """The distribution of the sum of a normal number and an exponential one of mean `K`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("K",)

    def _logpdf(self, y: Any, K: Any) -> Any:
        is_left = raw(y) < 1 / raw(K)
        left, right = np.where(is_left, y, 0.0), np.where(is_left, 1 / K, y)
        # On the left the exponents cancel, and the scaled error function has what remains.
        near = np.log(special.erfcx((1 / K - left) / _ROOT) / 2) - 0.5 * left * left
        far = (0.5 / K - right) / K + special.log_ndtr(right - 1 / K)
        return np.where(is_left, near, far) - np.log(K)

    def _logcdf(self, y: Any, K: Any) -> Any:
        is_left = raw(y) < np.minimum(0.0, 1 / raw(K))
        left = np.where(is_left, y, -1.0)
        difference = special.erfcx(-left / _ROOT) - special.erfcx((1 / K - left) / _ROOT)
        right = np.where(is_left, 1.0, y)
        return np.where(is_left, np.log(difference / 2) - 0.5 * left * left, np.log1p(-self._sf(right, K)))

    def _cdf(self, y: Any, K: Any) -> Any:
        return np.exp(self._logcdf(y, K))

    def _sf(self, y: Any, K: Any) -> Any:
        return special.ndtr(-y) + K * np.exp(self._logpdf(y, K))

    def _logsf(self, y: Any, K: Any) -> Any:
        is_left = raw(y) < 0
        left, right = np.where(is_left, y, -1.0), np.where(is_left, 1.0, y)
        # The logarithm of a sum of two exponentials, which does not warn of nan as np.logaddexp does.
        other = np.log(K) + self._logpdf(right, K)
        far = other - special.log_expit(other - special.log_ndtr(-right))
        return np.where(is_left, np.log1p(-self._cdf(left, K)), far)

    def _mean_and_variance(self, K: Any) -> tuple[Any, Any]:
        return K * 1.0, 1 + K * K

    def _skewness_and_kurtosis(self, K: Any) -> tuple[Any, Any]:
        variance = 1 + K * K
        return 2 * K**3 / variance**1.5, 6 * K**4 / np.square(variance)


# SciPy's distribution function is accurate in both tails, which the difference of a normal one and Owen's T is not.


@primitive()
def skew_normal_cdf_(y: Any, a: Any) -> Array:
    """Return the distribution function of the skew normal distribution."""
    return np.asarray(scipy_stats.skewnorm.cdf(y, a)).astype(np.result_type(y, a), copy=False)


@derivative(skew_normal_cdf_, "y")
def _(g: Any, y: Any, a: Any) -> Array:
    return g * (2 * np.exp(-0.5 * y * y - _LOG_ROOT) * special.ndtr(a * y))


@derivative(skew_normal_cdf_, "a")
def _(g: Any, y: Any, a: Any) -> Array:
    return -g * (np.exp(-0.5 * y * y * (1 + a * a)) / (math.pi * (1 + a * a)))


@final
class SkewNormal(_Implicit):
    """The skew normal distribution, which leans to the side of the sign of `a`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a",)

    def _valid(self, a: Any) -> Any:
        return np.isfinite(a)

    def _logpdf(self, y: Any, a: Any) -> Any:
        return math.log(2) - _LOG_ROOT - 0.5 * y * y + special.log_ndtr(a * y)

    def _cdf(self, y: Any, a: Any) -> Any:
        return skew_normal_cdf_.call(y, a)

    def _sf(self, y: Any, a: Any) -> Any:
        return skew_normal_cdf_.call(-y, -a)

    @staticmethod
    def _lean(a: Any) -> Any:
        return math.sqrt(2 / math.pi) * a / np.sqrt(1 + a * a)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        mean = self._lean(a)
        return mean, 1 - mean * mean

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        mean = self._lean(a)
        variance = 1 - mean * mean
        return (2 - math.pi / 2) * mean**3 / variance**1.5, 2 * (math.pi - 3) * mean**4 / np.square(variance)


# The von Mises distribution.

#: The coefficients of the powers of 1 / kappa in the mean of the cosine, for large kappa.
_FAR = (1.0, -1 / 2, -1 / 8, -1 / 8, -25 / 128, -13 / 32, -1073 / 1024)


@primitive()
def mean_cosine_(kappa: Any) -> Any:
    """Return I1(kappa) / I0(kappa), the mean of the cosine of an angle with the von Mises distribution."""
    return special.i1e(kappa) / special.i0e(kappa)


@derivative(mean_cosine_, "kappa")
def _(g: Any, kappa: Array) -> Array:
    return g * _variance_of_cosine(kappa)


def _variance_of_cosine(kappa: Any) -> Any:
    """Return 1 - m**2 - m / kappa, of the mean cosine m."""
    is_far, is_near = raw(kappa) > 300, raw(kappa) < 0.02
    far, middle = np.where(is_far, kappa, 300.0), np.where(is_far | is_near, 1.0, kappa)
    near = np.square(np.where(is_near, kappa, 0.0))
    series: Any = 0.0
    for order in range(len(_FAR) - 1, 0, -1):
        series = (series - order * _FAR[order]) / far
    mean = mean_cosine_.call(middle)
    value = np.where(is_far, series / far, 1 - mean * mean - mean / middle)
    return np.where(is_near, 0.5 - near * (3 / 16 - near * (5 / 96)), value)


@primitive()
def vonmises_logpdf_(y: Any, kappa: Any) -> Array:
    """Return the logarithm of the density of the von Mises distribution."""
    return kappa * special.cosm1(y) - 2 * _LOG_ROOT - np.log(special.i0e(kappa))


@derivative(vonmises_logpdf_, "y")
def _(g: Any, y: Array, kappa: Any) -> Array:
    return g * (-kappa * np.sin(y))


@derivative(vonmises_logpdf_, "kappa")
def _(g: Any, y: Any, kappa: Array) -> Array:
    return g * (np.cos(y) - mean_cosine_.call(kappa))


@primitive()
def vonmises_cdf_(y: Any, kappa: Any) -> Array:
    """Return the distribution function of the von Mises distribution, which goes on beyond one turn."""
    return np.asarray(scipy_stats.vonmises.cdf(y, kappa)).astype(np.result_type(y, kappa), copy=False)


@derivative(vonmises_cdf_, "y")
def _(g: Any, y: Array, kappa: Any) -> Array:
    return g * np.exp(vonmises_logpdf_.call(y, kappa))


@derivative(vonmises_cdf_, "kappa")
def _(g: Any, y: Any, kappa: Array) -> Array:
    angle = y - 2 * math.pi * np.round(raw(y) / (2 * math.pi))
    return -g * (np.exp(vonmises_logpdf_.call(y, kappa)) * vonmises_slope(kappa, angle))


@final
class VonMises(_Implicit):
    """The von Mises distribution of angles, of concentration `kappa`; values a turn apart have the same density."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("kappa",)

    def _valid(self, kappa: Any) -> Any:
        return kappa >= 0

    def _logpdf(self, y: Any, kappa: Any) -> Any:
        return vonmises_logpdf_.call(y, kappa)

    def _cdf(self, y: Any, kappa: Any) -> Any:
        return vonmises_cdf_.call(y, kappa)

    def _sf(self, y: Any, kappa: Any) -> Any:
        return vonmises_cdf_.call(-y, kappa)

    def _isf(self, q: Any, kappa: Any) -> Any:
        return -self._ppf(q, kappa)

    def _mean_and_variance(self, kappa: Any) -> tuple[Any, Any]:
        square = self._integral(lambda y, kappa: 2 * y * y * self._pdf(y, kappa), 0.0, math.pi, (kappa,))
        return np.zeros_like(square), square

    def _expected_between(self, *shapes: Any) -> tuple[Any, Any]:
        # As in SciPy, one turn: its density goes on beyond.
        return -math.pi, math.pi

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwds: Any) -> Tensor:
        """Return draws, SciPy's own, between -pi and pi, which depend on the parameters as quantiles do.

        Args:
            *args: the parameters.
            size: the shape of the result; None for that of the parameters.
            random_state: a seed or a generator of NumPy's, or None.
            **kwds: the parameters by name.
        """
        draws = ContinuousDistribution.rvs(self, *args, size=size, random_state=random_state, **kwds)
        turns = np.floor((raw(draws) + math.pi) / (2 * math.pi))
        return draws - 2 * math.pi * turns if np.any(turns) else draws

    def _entropy(self, kappa: Any) -> Any:
        return -vonmises_logpdf_.call(0.0, kappa) + kappa * (1 - mean_cosine_.call(kappa))


exponnorm: ExponentialNormal = ExponentialNormal("exponnorm")
skewnorm: SkewNormal = SkewNormal("skewnorm")
vonmises: VonMises = VonMises("vonmises")
