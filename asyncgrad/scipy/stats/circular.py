"""Families of angles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor
from ...numpy.random.shapes import vonmises_slope
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .implicit import Implicit
from .transforming import SameVariable

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "cosine",
    "vonmises",
    "vonmises_line",
    "wrapcauchy",
]

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
    return kappa * special.cosm1(y) - math.log(2 * math.pi) - np.log(special.i0e(kappa))


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
class VonMises(Implicit):
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

    def _skewness_and_kurtosis(self, kappa: Any) -> tuple[Any, Any]:
        _, variance = self._mean_and_variance(kappa)
        fourth = self._integral(lambda y, kappa: 2 * y**4 * self._pdf(y, kappa), 0.0, math.pi, (kappa,))
        return np.zeros_like(fourth), fourth / np.square(variance) - 3

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


vonmises: VonMises = VonMises("vonmises")


@final
class VonMisesOnLine(SameVariable):
    """The von Mises distribution of concentration `kappa` on the numbers from -pi to pi."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("kappa",)
    base: ContinuousDistribution = vonmises
    _ends: tuple[float, float] = (-math.pi, math.pi)
    _inner = 0.0

    def _valid(self, *shapes: Any) -> Any:
        return shapes[0] >= 0

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes


@final
class WrappedCauchy(ContinuousDistribution):
    """The Cauchy distribution wound around a circle, of concentration `c`, on the numbers from 0 to 2 * pi."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    _inner = math.pi

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] > 0) & (shapes[0] < 1)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 2 * math.pi

    def _logpdf(self, y: Any, c: Any) -> Any:
        height = np.square(1 - c) + 4 * c * np.square(np.sin(y / 2))
        return np.log((1 - c) * (1 + c) / (2 * math.pi * height))

    def _cdf(self, y: Any, c: Any) -> Any:
        return np.arctan2((1 + c) / (1 - c) * np.sin(y / 2), np.cos(y / 2)) / math.pi

    def _sf(self, y: Any, c: Any) -> Any:
        return np.arctan2((1 + c) / (1 - c) * np.sin(y / 2), -np.cos(y / 2)) / math.pi

    def _ppf(self, q: Any, c: Any) -> Any:
        return 2 * np.arctan2((1 - c) / (1 + c) * np.sin(math.pi * q), np.cos(math.pi * q))

    def _isf(self, q: Any, c: Any) -> Any:
        return 2 * np.arctan2((1 - c) / (1 + c) * np.sin(math.pi * q), -np.cos(math.pi * q))

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        # By the Fourier series of the density, whose coefficients are powers of c: a dilogarithm.
        return 0.0 * c + math.pi, math.pi**2 / 3 + 4 * special.spence(1 - c)

    def _entropy(self, c: Any) -> Any:
        return np.log(2 * math.pi * (1 - c) * (1 + c))

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwds: Any) -> Tensor:
        """Return draws, SciPy's own, between 0 and 2 * pi, which depend on the parameters as quantiles do.

        Args:
            *args: the parameters.
            size: the shape of the result; None for that of the parameters.
            random_state: a seed or a generator of NumPy's, or None.
            **kwds: the parameters by name.
        """
        draws = ContinuousDistribution.rvs(self, *args, size=size, random_state=random_state, **kwds)
        turns = np.floor(raw(draws) / (2 * math.pi))
        return draws - 2 * math.pi * turns if np.any(turns) else draws


# SciPy's distribution function of the cosine distribution has the digits of a difference that loses them.


@primitive()
def cosine_cdf_(y: Any) -> Array:
    """Return (pi + y + sin(y)) / (2 pi), for y from -pi to pi."""
    return np.asarray(scipy_stats.cosine.cdf(y)).astype(np.result_type(y, np.float32), copy=False)


@derivative(cosine_cdf_, "y")
def _(g: Any, y: Any) -> Array:
    return g * (np.square(np.cos(y / 2)) / math.pi)


@final
class Cosine(Implicit):
    """The cosine distribution: of a density that is 1 + cos(x), but for a factor, on the numbers from -pi to pi."""

    __slots__ = ()

    _flat_start = _flat_end = True
    _ends: tuple[float, float] = (-math.pi, math.pi)

    def _logpdf(self, y: Any) -> Any:
        return 2 * np.log(np.cos(y / 2)) - math.log(math.pi)

    def _cdf(self, y: Any) -> Any:
        return cosine_cdf_.call(y)

    def _sf(self, y: Any) -> Any:
        return cosine_cdf_.call(-y)

    def _isf(self, q: Any) -> Any:
        return -self._ppf(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 0.0, math.pi**2 / 3 - 2

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 0.0, -6 * (math.pi**4 - 90) / (5 * (math.pi**2 - 6) ** 2)

    def _entropy(self) -> Any:
        return math.log(4 * math.pi) - 1


cosine: Cosine = Cosine("cosine")
vonmises_line: VonMisesOnLine = VonMisesOnLine("vonmises_line")
wrapcauchy: WrappedCauchy = WrappedCauchy("wrapcauchy")
