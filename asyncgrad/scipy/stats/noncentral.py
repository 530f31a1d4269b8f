"""Noncentral distributions, of squares and quotients of normal variables whose means are not 0, and Skellam's."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ..special.log_densities import log_beta_
from ..special.noncentral import chi_log_density, f_log_density
from ..special.noncentral_t import t_log_density
from ..special.rules import by_mask
from ..ufuncs import special
from .discrete_distribution import DiscreteDistribution
from .implicit import Implicit
from .mean_powers import mean_and_variance, skewness_and_kurtosis
from .nearly_normal import (
    NEARLY_NORMAL,
    chi_squared_of_normal,
    is_nearly_normal,
    log_density_of_great,
    normal_of_chi_squared,
)
from .transforming import positive_or_one

if TYPE_CHECKING:
    from ...core.arrays.array import Array

__all__ = [
    "ncf",
    "nct",
    "ncx2",
    "skellam",
]


def _complement(family: Any, y: Any, shapes: tuple[Any, ...], cdf: Any) -> Any:
    """Return SciPy's survival function, which keeps its digits where it is small, with the derivatives of 1 - cdf."""
    y, bare, *others = np.broadcast_arrays(*map(raw, (y, cdf, *shapes)))
    is_small = bare > 0.5
    found = 1 - bare
    if np.any(is_small):
        # Where it is not small SciPy's may raise.
        with np.errstate(all="ignore"):
            found = np.where(is_small, family.sf(np.where(is_small, y, 1.0), *others), found)
    return found.astype(raw(cdf).dtype, copy=False) - (cdf - raw(cdf))


class _Noncentral(Implicit):
    """Abstract: a noncentral family, of which the means of the powers are known."""

    __slots__ = ()

    _inner = 0.5

    @abstractmethod
    def _mean_power(self, order: int, *shapes: Any) -> Any:
        """Return the mean of a power of the standard variable; nan where there is none."""

    def _powers_up_to(self, order: int, *shapes: Any) -> list[Any]:
        return [self._mean_power(one, *shapes) for one in range(1, order + 1)]

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return mean_and_variance(self._mean_power(order, *shapes) for order in (1, 2))

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._mean_power(order, *shapes) for order in (1, 2, 3, 4))


def _chi_mean_powers(df: Any, nc: Any) -> list[Any]:
    """Return the means of the powers from 0 to 4 of a noncentral chi-square variable, by its cumulants."""
    cumulants = [2 ** (order - 1) * math.factorial(order - 1) * (df + order * nc) for order in (1, 2, 3, 4)]
    means: list[Any] = [1.0]
    for order in range(1, 5):
        parts = [math.comb(order - 1, k) * cumulants[k] * means[order - 1 - k] for k in range(order)]
        means.append(sum(parts[1:], parts[0]))
    return means


@final
class NoncentralChiSquared(_Noncentral):
    """The noncentral chi-square distribution of `df` degrees of freedom and noncentrality `nc`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("df", "nc")
    _ends: tuple[float, float] = (0.0, np.inf)
    _has_powers = True

    def _power(self, at_last: bool, distance: Any, df: Any, nc: Any) -> tuple[Any, Any]:
        half = df / 2
        factor = nc * distance / (4 * half) - (distance + nc) / 2 - half * math.log(2) - special.gammaln(half)
        return half - 1, factor

    def _valid(self, *shapes: Any) -> Array:
        df, nc = shapes
        return (df > 0) & np.isfinite(df) & (nc >= 0)

    def _logpdf(self, y: Any, df: Any, nc: Any) -> Array:
        # At 0 it is a power of the variable.
        mask = is_nearly_normal(nc) & (raw(y) > 0)
        given = (y, NEARLY_NORMAL, 1.0), (df, 1.0, 1.0), (nc, NEARLY_NORMAL, 1.0)
        return by_mask(mask, log_density_of_great, chi_log_density, *given)

    def _cdf(self, y: Any, df: Any, nc: Any) -> Array:
        return self._by_normal(special.ndtr, special.chndtr, y, df, nc)

    def _sf(self, y: Any, df: Any, nc: Any) -> Array:
        def series(y: Any, df: Any, nc: Any) -> Any:
            return _complement(scipy_stats.ncx2, y, (df, nc), special.chndtr(y, df, nc))

        return self._by_normal(lambda z: special.ndtr(-z), series, y, df, nc)

    def _logcdf(self, y: Any, df: Any, nc: Any) -> Array:
        return self._by_normal(special.log_ndtr, super()._logcdf, y, df, nc)

    def _logsf(self, y: Any, df: Any, nc: Any) -> Array:
        return self._by_normal(lambda z: special.log_ndtr(-z), super()._logsf, y, df, nc)

    @staticmethod
    def _by_normal(of_normal: Any, series: Any, y: Any, df: Any, nc: Any) -> Any:
        """Return a function of a normal variable where the noncentrality is great, another one elsewhere."""

        def great(y: Any, df: Any, nc: Any) -> Any:
            return of_normal(normal_of_chi_squared(y, df, nc))

        mask = is_nearly_normal(nc)
        return by_mask(mask, great, series, (y, NEARLY_NORMAL, 1.0), (df, 1.0, 1.0), (nc, NEARLY_NORMAL, 1.0))

    def _ppf(self, q: Any, df: Any, nc: Any) -> Array:
        return self._of_normal(special.ndtri, super()._ppf, q, df, nc)

    def _isf(self, q: Any, df: Any, nc: Any) -> Array:
        return self._of_normal(lambda q: -special.ndtri(q), super()._isf, q, df, nc)

    @staticmethod
    def _of_normal(quantile: Any, search: Any, q: Any, df: Any, nc: Any) -> Any:
        """Return a quantile by that of a normal variable where the noncentrality is great, by a search elsewhere."""

        def great(q: Any, df: Any, nc: Any) -> Any:
            return chi_squared_of_normal(quantile(q), df, nc)

        mask = is_nearly_normal(nc)
        return by_mask(mask, great, search, (q, 0.5, 0.5), (df, 1.0, 1.0), (nc, NEARLY_NORMAL, 1.0))

    def _mean_power(self, order: int, df: Any, nc: Any) -> Array:
        return _chi_mean_powers(df, nc)[order]

    def _mean_and_variance(self, df: Any, nc: Any) -> tuple[Any, Any]:
        return df + nc, 2 * (df + 2 * nc)

    def _skewness_and_kurtosis(self, df: Any, nc: Any) -> tuple[Any, Any]:
        width = df + 2 * nc
        return math.sqrt(8) * (df + 3 * nc) / width**1.5, 12 * (df + 4 * nc) / np.square(width)


ncx2: NoncentralChiSquared = NoncentralChiSquared("ncx2")


@final
class NoncentralF(_Noncentral):
    """The noncentral F distribution of `dfn` and `dfd` degrees of freedom and noncentrality `nc`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("dfn", "dfd", "nc")
    _ends: tuple[float, float] = (0.0, np.inf)
    _has_powers = True

    def _power(self, at_last: bool, distance: Any, dfn: Any, dfd: Any, nc: Any) -> tuple[Any, Any]:
        a, b, rate = dfn / 2, dfd / 2, dfn / dfd
        slope = (a + b) * rate * (nc / (2 * a) - 1)
        return a - 1, slope * distance - nc / 2 + a * np.log(rate) - log_beta_.call(a, b)

    def _valid(self, *shapes: Any) -> Array:
        dfn, dfd, nc = shapes
        return (dfn > 0) & (dfd > 0) & (nc >= 0)

    def _logpdf(self, y: Any, dfn: Any, dfd: Any, nc: Any) -> Array:
        return f_log_density(dfn, dfd, nc, y)

    def _cdf(self, y: Any, *shapes: Any) -> Array:
        return special.ncfdtr(*shapes, y)

    def _sf(self, y: Any, *shapes: Any) -> Array:
        return _complement(scipy_stats.ncf, y, shapes, self._cdf(y, *shapes))

    def _mean_power(self, order: int, dfn: Any, dfd: Any, nc: Any) -> Array:
        value = _chi_mean_powers(dfn, nc)[order] * (dfd / dfn) ** order
        for step in range(1, order + 1):
            value = value / positive_or_one(dfd - 2 * step)
        return np.where(raw(dfd) > 2 * order, value, np.inf if order <= 2 else np.nan)


@final
class NoncentralT(_Noncentral):
    """The noncentral t distribution of `df` degrees of freedom and noncentrality `nc`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("df", "nc")

    def _valid(self, *shapes: Any) -> Array:
        df, nc = shapes
        return (df > 0) & np.isfinite(nc)

    def _logpdf(self, y: Any, df: Any, nc: Any) -> Array:
        return t_log_density(df, nc, y)

    def _cdf(self, y: Any, df: Any, nc: Any) -> Array:
        return special.nctdtr(df, nc, y)

    def _sf(self, y: Any, df: Any, nc: Any) -> Array:
        return special.nctdtr(df, -nc, -y)

    def _mean_power(self, order: int, df: Any, nc: Any) -> Array:
        is_there = raw(df) > order
        half = np.where(is_there, df, order + 1.0) / 2
        powers = (0 * nc + 1, nc, nc * nc + 1, nc * (nc * nc + 3), nc * nc * (nc * nc + 6) + 3)
        value = half ** (order / 2) / special.poch(half - order / 2, order / 2) * powers[order]
        # Where there is a mean, the mean square is infinite.
        return np.where(is_there, value, np.where((raw(df) > 1) & (order == 2), np.inf, np.nan))


@final
class Skellam(DiscreteDistribution):
    """The difference of two Poisson variables, of means `mu1` and `mu2`: noncentral chi-square, by its parameters."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("mu1", "mu2")

    def _valid(self, mu1: Any, mu2: Any) -> Array:
        return (mu1 > 0) & (mu2 > 0)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return -np.inf, np.inf

    def _logpmf(self, k: Any, mu1: Any, mu2: Any) -> Array:
        is_left = k < 0
        low, high = np.where(is_left, mu2, mu1), np.where(is_left, mu1, mu2)
        return math.log(2) + chi_log_density(2 * low, 2 * (1 + np.abs(k)), 2 * high)

    def _cdf(self, k: Any, mu1: Any, mu2: Any) -> Array:
        is_left = k < 0
        left = special.chndtr(2 * mu2, np.where(is_left, -2 * k, 2.0), 2 * mu1)
        right = 1 - special.chndtr(2 * mu1, np.where(is_left, 2.0, 2 * (k + 1)), 2 * mu2)
        return np.where(is_left, left, right)

    def _sf(self, k: Any, mu1: Any, mu2: Any) -> Array:
        return self._cdf(-k - 1, mu2, mu1)

    def _mean_and_variance(self, mu1: Any, mu2: Any) -> tuple[Any, Any]:
        return mu1 - mu2, mu1 + mu2

    def _skewness_and_kurtosis(self, mu1: Any, mu2: Any) -> tuple[Any, Any]:
        total = mu1 + mu2
        return (mu1 - mu2) / total**1.5, 1 / total


ncf: NoncentralF = NoncentralF("ncf")
nct: NoncentralT = NoncentralT("nct")
skellam: Skellam = Skellam("skellam")
