"""Families of powers and logarithms of a gamma variable."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..special.gamma_functions import polygamma
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .gamma_and_beta import gamma
from .supports import bounded_exp
from .transforming import LINE, Transformed, WithPowers

__all__ = [
    "chi",
    "erlang",
    "gengamma",
    "levy",
    "loggamma",
    "maxwell",
    "moyal",
    "nakagami",
]


@final
class GeneralizedGamma(WithPowers):
    """The distribution of the power 1 / c of a gamma variable of shape `a`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "c")
    base: ContinuousDistribution = gamma

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] > 0) & (shapes[1] != 0)

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes[:1]

    def _to_base(self, y: Any, a: Any, c: Any) -> Any:
        return y**c

    def _from_base(self, z: Any, a: Any, c: Any) -> Any:
        return z ** (1 / c)

    def _log_slope(self, y: Any, a: Any, c: Any) -> Any:
        return np.log(np.abs(c)) + (c - 1) * np.log(y)

    def _by_sign(self, rises: Any, falls: Any, c: Any) -> Any:
        """Return one of two functions, by whether the power increases."""
        is_falling = raw(c) < 0
        return np.where(is_falling, falls(), rises()) if np.any(is_falling) else rises()

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        base, z = self._base_shapes(*shapes), self._to_base(y, *shapes)
        return self._by_sign(lambda: gamma._cdf(z, *base), lambda: gamma._sf(z, *base), shapes[1])

    def _sf(self, y: Any, *shapes: Any) -> Any:
        base, z = self._base_shapes(*shapes), self._to_base(y, *shapes)
        return self._by_sign(lambda: gamma._sf(z, *base), lambda: gamma._cdf(z, *base), shapes[1])

    def _logcdf(self, y: Any, *shapes: Any) -> Any:
        base, z = self._base_shapes(*shapes), self._to_base(y, *shapes)
        return self._by_sign(lambda: gamma._logcdf(z, *base), lambda: gamma._logsf(z, *base), shapes[1])

    def _logsf(self, y: Any, *shapes: Any) -> Any:
        base, z = self._base_shapes(*shapes), self._to_base(y, *shapes)
        return self._by_sign(lambda: gamma._logsf(z, *base), lambda: gamma._logcdf(z, *base), shapes[1])

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        base = self._base_shapes(*shapes)
        z = self._by_sign(lambda: gamma._ppf(q, *base), lambda: gamma._isf(q, *base), shapes[1])
        return self._from_base(z, *shapes)

    def _isf(self, q: Any, *shapes: Any) -> Any:
        base = self._base_shapes(*shapes)
        z = self._by_sign(lambda: gamma._isf(q, *base), lambda: gamma._ppf(q, *base), shapes[1])
        return self._from_base(z, *shapes)

    def _mean_power(self, order: int, a: Any, c: Any) -> Any:
        return special.poch(a, order / c)

    def _entropy(self, a: Any, c: Any) -> Any:
        return a * (1 - special.digamma(a)) + special.digamma(a) / c + special.gammaln(a) - np.log(np.abs(c))


class _RootOfGamma(WithPowers):
    """Abstract: a family of the square root of a gamma variable, times a factor."""

    __slots__ = ()

    base: ContinuousDistribution = gamma

    @abstractmethod
    def _factor(self, *shapes: Any) -> Any:
        """Return what the square is multiplied by."""

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return self._factor(*shapes) * y * y

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return np.sqrt(z / self._factor(*shapes))

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return np.log(2 * self._factor(*shapes)) + np.log(y)

    def _mean_power(self, order: int, *shapes: Any) -> Any:
        (a,) = self._base_shapes(*shapes)
        return special.poch(a, order / 2) * self._factor(*shapes) ** (-order / 2)

    def _entropy(self, *shapes: Any) -> Any:
        (a,) = self._base_shapes(*shapes)
        start = a - math.log(2) - 0.5 * np.log(self._factor(*shapes))
        return start + special.gammaln(a) - (a - 0.5) * special.digamma(a)


@final
class Chi(_RootOfGamma):
    """The chi distribution of `df` degrees of freedom."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("df",)

    def _factor(self, *shapes: Any) -> Any:
        return 0.5

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return (shapes[0] / 2,)


@final
class Maxwell(_RootOfGamma):
    """Maxwell's distribution, of the length of a vector of three normal numbers."""

    __slots__ = ()

    def _factor(self, *shapes: Any) -> Any:
        return 0.5

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return (np.asarray(1.5),)


@final
class Nakagami(_RootOfGamma):
    """Nakagami's distribution of shape `nu`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("nu",)

    def _factor(self, *shapes: Any) -> Any:
        return shapes[0]

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes


@final
class LogGamma(Transformed):
    """The distribution of the logarithm of a gamma variable of shape `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = gamma
    _ends: tuple[float, float] = LINE
    _inner = 0.0

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes

    def _logpdf(self, y: Any, c: Any) -> Any:
        return c * y - bounded_exp(y) - special.gammaln(c)

    def _to_base(self, y: Any, c: Any) -> Any:
        return bounded_exp(y)

    def _from_base(self, z: Any, c: Any) -> Any:
        return np.log(z)

    def _log_slope(self, y: Any, c: Any) -> Any:
        return y

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        return special.digamma(c), polygamma(1, c)

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        variance = polygamma(1, c)
        return polygamma(2, c) / variance**1.5, polygamma(3, c) / np.square(variance)

    def _entropy(self, c: Any) -> Any:
        return special.gammaln(c) - c * special.digamma(c) + c


@final
class Levy(Transformed):
    """Lévy's distribution, of the inverse of the square of a normal variable."""

    __slots__ = ()

    base: ContinuousDistribution = gamma
    _decreases = True

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return (np.asarray(0.5),)

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return 0.5 / y

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return 0.5 / z

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return -math.log(2) - 2 * np.log(y)

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return np.inf, np.inf

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _entropy(self, *shapes: Any) -> Any:
        return 0.5 * (1 + 3 * np.euler_gamma + math.log(16 * math.pi))


@final
class Moyal(Transformed):
    """Moyal's distribution, of minus the logarithm of the square of a normal variable."""

    __slots__ = ()

    base: ContinuousDistribution = gamma
    _decreases = True
    _ends: tuple[float, float] = LINE
    _inner = 0.0

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return (np.asarray(0.5),)

    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        return -0.5 * (y + bounded_exp(-y) + math.log(2 * math.pi))

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return 0.5 * bounded_exp(-y)

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return -np.log(2 * z)

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return -math.log(2) - y

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return math.log(2) + np.euler_gamma, math.pi**2 / 2

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return 28 * math.sqrt(2) * float(special.zeta(3.0)) / math.pi**3, 4.0


@final
class Erlang(Transformed):
    """The gamma distribution of a whole shape `a`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a",)
    base: ContinuousDistribution = gamma

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return y

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return z

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return 0.0

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return gamma._mean_and_variance(*shapes)

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return gamma._skewness_and_kurtosis(*shapes)

    def _entropy(self, *shapes: Any) -> Any:
        return gamma._entropy(*shapes)


chi: Chi = Chi("chi")
erlang: Erlang = Erlang("erlang")
gengamma: GeneralizedGamma = GeneralizedGamma("gengamma")
levy: Levy = Levy("levy")
loggamma: LogGamma = LogGamma("loggamma")
maxwell: Maxwell = Maxwell("maxwell")
moyal: Moyal = Moyal("moyal")
nakagami: Nakagami = Nakagami("nakagami")
