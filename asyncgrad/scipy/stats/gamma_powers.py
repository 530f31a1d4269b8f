"""Families of powers and logarithms of a gamma variable, and of a gamma variable that is cut off."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..special.gamma_functions import polygamma
from ..special.rules import by_mask
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .distances import linear_term
from .gamma_and_beta import gamma, gamma_entropy
from .gamma_series import polynomial, product
from .supports import bounded_exp, not_below_numbers
from .transforming import LINE, SameVariable, Transformed, WithPowers, log_of_rest

__all__ = [
    "argus",
    "chi",
    "erlang",
    "gengamma",
    "levy",
    "levy_l",
    "loggamma",
    "maxwell",
    "moyal",
    "nakagami",
]

#: Below it exp(y) has lost digits.
_LEAST = -700.0


@final
class GeneralizedGamma(WithPowers):
    """The distribution of the power 1 / c of a gamma variable of shape `a`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "c")
    base: ContinuousDistribution = gamma
    _has_powers = True

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] > 0) & (shapes[1] != 0)

    def _flat_ends(self, *shapes: Any) -> tuple[bool | np.ndarray, bool | np.ndarray]:
        # A negative power has the gamma variable's exponential tail at 0.
        return raw(shapes[1]) < 0, False

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes[:1]

    def _to_base(self, y: Any, a: Any, c: Any) -> Any:
        return y**c

    def _from_base(self, z: Any, a: Any, c: Any) -> Any:
        return z ** (1 / c)

    def _log_slope(self, y: Any, a: Any, c: Any) -> Any:
        return np.log(np.abs(c)) + (c - 1) * np.log(y)

    def _power(self, at_last: bool, distance: Any, a: Any, c: Any) -> tuple[Any, Any] | None:
        return None if at_last else (a * c - 1, np.log(np.abs(c)) - special.gammaln(a) - linear_term(distance, c))

    # By the logarithm of the gamma variable, for the power may underflow.

    def _logpdf(self, y: Any, a: Any, c: Any) -> Any:
        logarithm = np.log(y)
        return np.log(np.abs(c)) + loggamma._logpdf(c * logarithm, a) - logarithm

    def _by_sign(self, rises: Any, falls: Any, c: Any) -> Any:
        """Return one of two functions, by whether the power increases."""
        return by_mask(raw(c) < 0, falls, rises)

    def _cdf(self, y: Any, a: Any, c: Any) -> Any:
        z = c * np.log(y)
        return self._by_sign(lambda: loggamma._cdf(z, a), lambda: loggamma._sf(z, a), c)

    def _sf(self, y: Any, a: Any, c: Any) -> Any:
        z = c * np.log(y)
        return self._by_sign(lambda: loggamma._sf(z, a), lambda: loggamma._cdf(z, a), c)

    def _logcdf(self, y: Any, a: Any, c: Any) -> Any:
        z = c * np.log(y)
        return self._by_sign(lambda: loggamma._logcdf(z, a), lambda: loggamma._logsf(z, a), c)

    def _logsf(self, y: Any, a: Any, c: Any) -> Any:
        z = c * np.log(y)
        return self._by_sign(lambda: loggamma._logsf(z, a), lambda: loggamma._logcdf(z, a), c)

    def _ppf(self, q: Any, a: Any, c: Any) -> Any:
        return np.exp(self._by_sign(lambda: loggamma._ppf(q, a), lambda: loggamma._isf(q, a), c) / c)

    def _isf(self, q: Any, a: Any, c: Any) -> Any:
        return np.exp(self._by_sign(lambda: loggamma._isf(q, a), lambda: loggamma._ppf(q, a), c) / c)

    def _mean_power(self, order: int, a: Any, c: Any) -> Any:
        return special.poch(a, order / c)

    def _entropy(self, a: Any, c: Any) -> Any:
        return gamma_entropy(a) + (1 / c - 1) * special.digamma(a) - np.log(np.abs(c))


class _RootOfGamma(WithPowers):
    """Abstract: a family of the square root of a gamma variable, times a factor."""

    __slots__ = ()

    base: ContinuousDistribution = gamma
    _has_powers = True

    @abstractmethod
    def _factor(self, *shapes: Any) -> Any:
        """Return what the square is multiplied by."""

    def _power(self, at_last: bool, distance: Any, *shapes: Any) -> tuple[Any, Any] | None:
        (a,) = self._base_shapes(*shapes)
        factor = math.log(2) + a * np.log(self._factor(*shapes)) - special.gammaln(a) + 0.0 * distance
        return None if at_last else (2 * a - 1, factor)

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
        return gamma_entropy(a) - 0.5 * (special.digamma(a) + np.log(self._factor(*shapes))) - math.log(2)


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
        return not_below_numbers(c * y - bounded_exp(y) - special.gammaln(c))

    # exp(y) underflows before its incomplete gamma function is next to 0, where c is small.

    def _cdf(self, y: Any, c: Any) -> Any:
        return self._or_far_below(Transformed._cdf, np.exp, y, c)

    def _sf(self, y: Any, c: Any) -> Any:
        return self._or_far_below(Transformed._sf, lambda logarithm: -np.expm1(logarithm), y, c)

    def _logcdf(self, y: Any, c: Any) -> Any:
        return self._or_far_below(Transformed._logcdf, lambda logarithm: logarithm, y, c)

    def _logsf(self, y: Any, c: Any) -> Any:
        return self._or_far_below(Transformed._logsf, log_of_rest, y, c)

    def _or_far_below(self, method: Callable[..., Any], of_logarithm: Callable[..., Any], y: Any, c: Any) -> Any:
        is_low = raw(y) < _LEAST
        if not np.any(is_low):
            return method(self, y, c)
        # All but the first term of the series vanish.
        logarithm = c * np.where(is_low, y, -1.0) - special.gammaln(c + 1)
        return np.where(is_low, of_logarithm(logarithm), method(self, np.where(is_low, 0.0, y), c))

    def _ppf(self, q: Any, c: Any) -> Any:
        return self._low_or((np.log(q) + special.gammaln(c + 1)) / c, gamma._ppf, q, c)

    def _isf(self, q: Any, c: Any) -> Any:
        return self._low_or((np.log1p(-q) + special.gammaln(c + 1)) / c, gamma._isf, q, c)

    def _low_or(self, low: Any, quantile: Callable[..., Any], q: Any, c: Any) -> Any:
        is_low = raw(low) < _LEAST
        if not np.any(is_low):
            return np.log(quantile(q, c))
        return np.where(is_low, low, np.log(quantile(np.where(is_low, 0.5, q), np.where(is_low, 1.0, c))))

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
        return gamma_entropy(c) - special.digamma(c)


#: Below it twice the inverse of a number may overflow.
_LEAST_INVERTIBLE = 2e-308


def _invertible(y: Any) -> Any:
    """Return positive numbers, and instead of the least ones one whose inverse is a number; there all is constant."""
    return np.maximum(y, _LEAST_INVERTIBLE) if np.any(raw(y) < _LEAST_INVERTIBLE) else y


@final
class Levy(Transformed):
    """Lévy's distribution, of the inverse of the square of a normal variable."""

    __slots__ = ()

    _flat_start = True

    base: ContinuousDistribution = gamma
    _decreases = True

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return (np.asarray(0.5),)

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return 0.5 / _invertible(y)

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return 0.5 / z

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return -math.log(2) - 2 * np.log(_invertible(y))

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
        return not_below_numbers(-0.5 * (y + bounded_exp(-y) + math.log(2 * math.pi)))

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
class Erlang(SameVariable):
    """The gamma distribution of a whole shape `a`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a",)
    base: ContinuousDistribution = gamma
    _has_powers = True

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes

    def _power(self, at_last: bool, distance: Any, a: Any) -> tuple[Any, Any] | None:
        return self.base._power(at_last, distance, a)


@final
class LeftLevy(Transformed):
    """Lévy's distribution on the negative numbers."""

    __slots__ = ()

    _flat_end = True
    base: ContinuousDistribution = gamma
    _ends: tuple[float, float] = (-np.inf, 0.0)
    _inner = -0.5

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return (np.asarray(0.5),)

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return 0.5 / _invertible(-y)

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return -0.5 / z

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return -math.log(2) - 2 * np.log(_invertible(-y))

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return np.inf, np.inf

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _entropy(self, *shapes: Any) -> Any:
        return levy._entropy()


@final
class Argus(ContinuousDistribution):
    """The ARGUS distribution of shape `chi`: of sqrt(1 - 2 z / chi**2), for a gamma variable z up to chi**2 / 2."""

    __slots__ = ()

    _flat_start = _flat_end = True
    shapes: tuple[str, ...] = ("chi",)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _variable(self, y: Any, chi: Any) -> Any:
        return chi * chi / 2 * (1 - y) * (1 + y)

    def _logpdf(self, y: Any, chi: Any) -> Any:
        start = 3 * np.log(chi) + 0.5 * math.log(2 / math.pi) - np.log(gamma._cdf(chi * chi / 2, np.asarray(1.5)))
        return start + np.log(y) + 0.5 * (np.log1p(-y) + np.log1p(y)) - self._variable(y, chi)

    def _cdf(self, y: Any, chi: Any) -> Any:
        return 1 - self._sf(y, chi)

    def _sf(self, y: Any, chi: Any) -> Any:
        shape = np.asarray(1.5)
        return gamma._cdf(self._variable(y, chi), shape) / gamma._cdf(chi * chi / 2, shape)

    def _ppf(self, q: Any, chi: Any) -> Any:
        return self._isf(1 - q, chi)

    def _isf(self, q: Any, chi: Any) -> Any:
        shape = np.asarray(1.5)
        z = gamma._ppf(q * gamma._cdf(chi * chi / 2, shape), shape)
        return np.sqrt(1 - 2 * z / (chi * chi))

    def _mean_and_variance(self, chi: Any) -> tuple[Any, Any]:
        half = gamma._cdf(chi * chi / 2, np.asarray(1.5)) / 2
        mean = math.sqrt(math.pi / 8) * chi * special.i1e(chi * chi / 4) / half
        is_small = raw(chi) < 0.1
        large = np.where(is_small, 1.0, chi)
        density = np.exp(-large * large / 2) / math.sqrt(2 * math.pi)
        second = 1 - 3 / (large * large) + large * density / np.where(is_small, 1.0, half)
        if np.any(is_small):
            # The means of the powers of z, whose differences lose their digits, by their series.
            t = np.square(np.where(is_small, chi, 0.0)) / 2
            second = np.where(is_small, 1 - 0.6 * special.hyp1f1(2.5, 3.5, -t) / special.hyp1f1(1.5, 2.5, -t), second)
        return mean, self._where_many_sigmas(chi, second - mean * mean)

    @staticmethod
    def _where_many_sigmas(chi: Any, variance: Any) -> Any:
        """Return the variance, by its powers of 1 / chi**2 where the mean and the mean square are both next to 1."""
        return by_mask(
            raw(chi) > 20,
            lambda chi, _: polynomial(_SPREAD, 1 / np.square(chi)),
            lambda _, variance: variance,
            (chi, 20.0, 1.0),
            (variance, 1.0, 1.0),
        )


def _spread_of_argus() -> np.ndarray:
    """Return the coefficients of the powers of 1 / chi**2 in the variance, up to which the tail is nothing."""
    orders = np.arange(17)
    means = special.binom(0.5, orders) * (-2.0) ** orders * special.poch(1.5, orders)
    spread = -product(means, means)[:17]
    # The mean square is 1 - 3 / chi**2.
    spread[:2] = 0.0
    return spread


_SPREAD = _spread_of_argus()
argus: Argus = Argus("argus")
chi: Chi = Chi("chi")
erlang: Erlang = Erlang("erlang")
gengamma: GeneralizedGamma = GeneralizedGamma("gengamma")
levy: Levy = Levy("levy")
levy_l: LeftLevy = LeftLevy("levy_l")
loggamma: LogGamma = LogGamma("loggamma")
maxwell: Maxwell = Maxwell("maxwell")
moyal: Moyal = Moyal("moyal")
nakagami: Nakagami = Nakagami("nakagami")
