"""Distributions of statistics of samples: Kolmogorov's and Smirnov's of one and two sides, and Tukey's lambda."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import constant_copy, raw
from ...core.recording.primitive import derivative, primitive
from ..special.stirling import log_height
from ..special.tails import kolmogorov_slope, smirnov_derivative
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .gamma_series import SMALL, TERMS, beta_series, polynomial
from .implicit import Implicit
from .mean_powers import skewness_and_kurtosis
from .two_sided_statistic import two_sided_cdf_, two_sided_derivative

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["ksone", "kstwo", "kstwobign", "tukeylambda"]

# SciPy's distribution functions keep the digits of small probabilities, which 1 minus the others' do not.


@primitive()
def kolmogorov_complement_(y: Any) -> Array:
    """Return 1 - kolmogorov(y)."""
    return np.asarray(scipy_stats.kstwobign.cdf(y)).astype(np.result_type(y, np.float32), copy=False)


@derivative(kolmogorov_complement_, "y")
def _(g: Any, y: Array) -> Array:
    return -g * kolmogorov_slope(y)


@final
class KolmogorovLimit(Implicit):
    """The limit, for large samples, of the greatest distance of distribution functions, times the root of the size."""

    __slots__ = ()

    _ends: tuple[float, float] = (0.0, np.inf)
    _flat_start = True
    _inner = 1.0

    def _logpdf(self, y: Any) -> Any:
        density = -kolmogorov_slope(y)
        is_nothing = raw(density) <= 0
        return np.where(is_nothing, -np.inf, np.log(np.where(is_nothing, 1.0, density)))

    def _cdf(self, y: Any) -> Any:
        return kolmogorov_complement_.call(y)

    def _sf(self, y: Any) -> Any:
        return special.kolmogorov(y)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        mean = math.sqrt(math.pi / 2) * math.log(2)
        return mean, math.pi**2 / 12 - mean * mean


@primitive()
def smirnov_complement_(y: Any, n: Any) -> Array:
    """Return 1 - smirnov(n, y)."""
    return np.asarray(scipy_stats.ksone.cdf(y, n)).astype(np.result_type(y, np.float32), copy=False)


@derivative(smirnov_complement_, "y")
def _(g: Any, y: Array, n: Any) -> Array:
    return -g * smirnov_derivative.call(y, n, 1)


def _mean_powers_of_one_side(n: Any) -> list[Any]:
    """Return the means of the first four powers of Smirnov's statistic, by sums in closed form.

    All are polynomials of n, and of Ramanujan's Q function of it, 1 + (n - 1) / n + (n - 1) (n - 2) / n**2 + ..., by
    Abel's sums. `test_moments_of_smirnovs_statistic_are_those_of_its_polynomials` guards it.
    """
    n = np.asarray(raw(n), float)
    n = np.where((n >= 1) & (n == np.round(n)), n, np.nan)
    # The sum of the terms of a Poisson distribution below its mean.
    q = special.gammaincc(n, n) * np.exp(-log_height(n)) * n
    return [
        q / 2 / n,
        (n / 2 - q / 6) / n**2,
        n * (3 * q - 1) / 8 / n**3,
        (n * n / 2 - n / 12 - q * (n / 4 - 1 / 30)) / n**4,
    ]


def _mean_powers_of_two_sides(family: Any, n: Any) -> list[Any]:
    """Return the means of the first four powers, by integrals of the survival function over narrow pieces."""
    points, weights = special.roots_legendre(10)
    counts = np.asarray(raw(n))
    found = np.full((4, *counts.shape), np.nan)
    for index in np.ndindex(counts.shape):
        if family._valid(counts[index]):
            count = int(counts[index])
            ends = _edges_of_two_sides(count)
            widths = np.diff(ends)[:, np.newaxis]
            places = ends[:-1, np.newaxis] + (points + 1) / 2 * widths
            terms = np.asarray(scipy_stats.kstwo.sf(places, count)) * weights * (widths / 2)
            start = float(ends[0])
            found[:, *index] = [start**order + np.sum(order * places ** (order - 1) * terms) for order in (1, 2, 3, 4)]
    return list(found)


def _end(count: int) -> float:
    """Return a distance beyond which there is nothing."""
    return min(1.0, 5 / math.sqrt(count))


def _edges_of_two_sides(count: int) -> Any:
    return np.linspace(0.5 / count, _end(count), min(max(2 * count - 1, 1), 24) + 1)


@final
class Smirnov(Implicit):
    """The distribution of the greatest distance above, for a sample of `n`, which has no derivative."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("n",)
    _ends: tuple[float, float] = (0.0, 1.0)
    _inner = 0.5

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] >= 1) & (shapes[0] == np.round(shapes[0]))

    def _logpdf(self, y: Any, n: Any) -> Any:
        return np.log(-smirnov_derivative.call(y, constant_copy(n), 1))

    def _cdf(self, y: Any, n: Any) -> Any:
        return smirnov_complement_.call(y, constant_copy(n))

    def _sf(self, y: Any, n: Any) -> Any:
        return special.smirnov(raw(n), y)

    def _mean_powers(self, n: Any) -> list[Any]:
        return _mean_powers_of_one_side(n)

    def _mean_and_variance(self, n: Any) -> tuple[Any, Any]:
        mean, second, _, _ = self._mean_powers(n)
        return mean, second - mean * mean

    def _skewness_and_kurtosis(self, n: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._mean_powers(n))


@final
class KolmogorovSmirnov(Implicit):
    """The distribution of the greatest distance on either side, for a sample of `n`, which has no derivative."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("n",)

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] >= 1) & (shapes[0] == np.round(shapes[0]))

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.5 / raw(shapes[0]), 1.0

    def _point_inside(self, *shapes: Any) -> Any:
        return 0.75 / np.sqrt(raw(shapes[0]))

    def _flat_ends(self, *shapes: Any) -> tuple[bool | np.ndarray, bool | np.ndarray]:
        # The density is a power n - 1 of the distance to either end.
        is_flat = raw(shapes[0]) >= 3
        return is_flat, is_flat

    def _logpdf(self, y: Any, n: Any) -> Any:
        density = two_sided_derivative.call(y, constant_copy(n), 1)
        is_nothing = raw(density) <= 0
        return np.where(is_nothing, -np.inf, np.log(np.where(is_nothing, 1.0, density)))

    def _pdf(self, y: Any, n: Any) -> Any:
        return two_sided_derivative.call(y, constant_copy(n), 1)

    def _cdf(self, y: Any, n: Any) -> Any:
        return two_sided_cdf_.call(y, constant_copy(n), False)

    def _sf(self, y: Any, n: Any) -> Any:
        return two_sided_cdf_.call(y, constant_copy(n), True)

    def _mean_powers(self, n: Any) -> list[Any]:
        return _mean_powers_of_two_sides(self, n)

    def _mean_and_variance(self, n: Any) -> tuple[Any, Any]:
        mean, second, _, _ = self._mean_powers(n)
        return mean, second - mean * mean

    def _skewness_and_kurtosis(self, n: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._mean_powers(n))


_POWERS = np.arange(TERMS + 1)
#: Of the mean square and the mean fourth power of q**lam - (1 - q)**lam, over powers of lam.
_SPREAD = 2 * ((-2.0) ** _POWERS - beta_series(1, 1))[2:]
_FOURTH = (2 * (-4.0) ** _POWERS - 8 * beta_series(3, 1) + 6 * beta_series(2, 2))[4:]


@final
class TukeyLambda(ContinuousDistribution):
    """Tukey's lambda distribution, of the quantile `(q**lam - (1 - q)**lam) / lam`."""

    __slots__ = ()

    _flat_start = _flat_end = True
    shapes: tuple[str, ...] = ("lam",)
    _inner = 0.0

    def _valid(self, *shapes: Any) -> Any:
        return np.isfinite(shapes[0])

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        is_bounded = raw(shapes[0]) > 0
        end = np.where(is_bounded, 1 / np.where(is_bounded, shapes[0], 1.0), np.inf)
        return -end, end

    def _logpdf(self, y: Any, lam: Any) -> Any:
        return -np.log(self._cdf(y, lam) ** (lam - 1) + self._sf(y, lam) ** (lam - 1))

    def _cdf(self, y: Any, lam: Any) -> Any:
        return special.tklmbda(y, lam)

    def _sf(self, y: Any, lam: Any) -> Any:
        return special.tklmbda(-y, lam)

    def _ppf(self, q: Any, lam: Any) -> Any:
        return special.boxcox(q, lam) - special.boxcox1p(-q, lam)

    def _isf(self, q: Any, lam: Any) -> Any:
        return -self._ppf(q, lam)

    def _mean_and_variance(self, lam: Any) -> tuple[Any, Any]:
        bare = raw(lam)
        is_small, is_large = np.abs(bare) < SMALL, bare > -0.5
        spread = polynomial(_SPREAD, np.where(is_small, lam, 0.0))
        if not np.all(is_small):
            large = np.where(is_large & ~is_small, lam, 1.0)
            spread = np.where(is_small, spread, self._spread(large) / large / large)
        return 0.0 * lam, np.where(is_large, spread, np.inf)

    def _skewness_and_kurtosis(self, lam: Any) -> tuple[Any, Any]:
        bare = raw(lam)
        small = np.where(np.abs(bare) < SMALL, lam, 0.0)
        kurtosis = polynomial(_FOURTH, small) / np.square(polynomial(_SPREAD, small)) - 3
        is_large = (np.abs(bare) >= SMALL) & (bare > -0.25) & np.isfinite(bare)
        if np.any(is_large):
            large = np.where(is_large, lam, 1.0)
            fourth = 2 / (1 + 4 * large) - 8 * special.beta(3 * large + 1, large + 1)
            fourth = fourth + 6 * special.beta(2 * large + 1, 2 * large + 1)
            spread = self._spread(large)
            kurtosis = np.where(is_large, fourth / spread / spread - 3, kurtosis)
        skewness = np.where(bare > -1 / 3, 0.0 * lam, np.nan)
        return skewness, np.where(bare > -0.25, kurtosis, np.where(bare == -0.25, np.inf, np.nan))

    @staticmethod
    def _spread(lam: Any) -> Any:
        """Return the variance of q**lam - (1 - q)**lam, for q between 0 and 1."""
        return 2 / (1 + 2 * lam) - 2 * special.beta(lam + 1, lam + 1)

    def _bulk(self, *shapes: Any) -> list[float]:
        # Of integrals over probabilities, too.
        return [-2.0, 0.0, 0.5, 2.0]

    def _entropy(self, lam: Any) -> Any:
        def integrand(q: Any, lam: Any) -> Any:
            return np.log(q ** (lam - 1) + (1 - q) ** (lam - 1))

        return self._integral(integrand, 0.0, 1.0, (lam,))


ksone: Smirnov = Smirnov("ksone")
kstwo: KolmogorovSmirnov = KolmogorovSmirnov("kstwo")
kstwobign: KolmogorovLimit = KolmogorovLimit("kstwobign")
tukeylambda: TukeyLambda = TukeyLambda("tukeylambda")
