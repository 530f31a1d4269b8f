"""Families that are another one's variable after a monotone function: powers, logarithms, and the like of it."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..special.gamma_functions import polygamma
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .gamma_and_beta import beta, gamma
from .location_scale import cauchy, expon, laplace, logistic, uniform
from .mean_powers import skewness_and_kurtosis
from .normal import norm
from .supports import bounded_exp

__all__ = [
    "arcsine",
    "betaprime",
    "bradford",
    "burr",
    "burr12",
    "chi",
    "erlang",
    "exponweib",
    "fatiguelife",
    "fisk",
    "gengamma",
    "genlogistic",
    "gibrat",
    "halflogistic",
    "hypsecant",
    "invweibull",
    "johnsonsb",
    "johnsonsu",
    "levy",
    "loggamma",
    "loglaplace",
    "loguniform",
    "lomax",
    "maxwell",
    "mielke",
    "moyal",
    "nakagami",
    "reciprocal",
    "truncexpon",
]

_INFINITE = (-np.inf, np.inf)


class _Transformed(ContinuousDistribution):
    """Abstract: a family whose variable, after a monotone function, has another family's distribution.

    Attributes:
        base: the other family.
    """

    __slots__ = ()

    base: ContinuousDistribution
    #: Whether the function decreases.
    _decreases = False
    _ends: tuple[float, float] = (0.0, np.inf)
    _inner = 0.5

    @abstractmethod
    def _to_base(self, y: Any, *shapes: Any) -> Any:
        """Return the base's variable."""

    @abstractmethod
    def _from_base(self, z: Any, *shapes: Any) -> Any:
        """Return the variable by the base's."""

    @abstractmethod
    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        """Return the logarithm of the size of the slope of `_to_base`."""

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        """Return the base's shape parameters: by default none."""
        return ()

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return self._ends

    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        z = self._to_base(y, *shapes)
        return self.base._logpdf(z, *self._base_shapes(*shapes)) + self._log_slope(y, *shapes)

    def _of_base(self, method: str, other: str, y: Any, shapes: tuple[Any, ...]) -> Any:
        chosen = other if self._decreases else method
        return getattr(self.base, chosen)(self._to_base(y, *shapes), *self._base_shapes(*shapes))

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_cdf", "_sf", y, shapes)

    def _sf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_sf", "_cdf", y, shapes)

    def _logcdf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_logcdf", "_logsf", y, shapes)

    def _logsf(self, y: Any, *shapes: Any) -> Any:
        return self._of_base("_logsf", "_logcdf", y, shapes)

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        quantile = self.base._isf if self._decreases else self.base._ppf
        return self._from_base(quantile(q, *self._base_shapes(*shapes)), *shapes)

    def _isf(self, q: Any, *shapes: Any) -> Any:
        quantile = self.base._ppf if self._decreases else self.base._isf
        return self._from_base(quantile(q, *self._base_shapes(*shapes)), *shapes)


class _WithPowers(_Transformed):
    """Abstract: a transformed family whose mean powers are known."""

    __slots__ = ()

    @abstractmethod
    def _mean_power(self, order: int, *shapes: Any) -> Any:
        """Return the mean of a power of the standard variable; infinite or nan where there is none."""

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        mean = self._mean_power(1, *shapes)
        second = self._mean_power(2, *shapes)
        is_known = np.isfinite(raw(mean)) & np.isfinite(raw(second))
        safe = np.where(is_known, mean, 0.0)
        return mean, np.where(np.isfinite(raw(mean)), second - safe * safe, np.where(is_known, 0.0, np.inf))

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._mean_power(order, *shapes) for order in (1, 2, 3, 4))


def _where_positive(margin: Any, value: Any, otherwise: float = np.inf) -> Any:
    """Return a value where a mean exists."""
    return np.where(raw(margin) > 0, value, otherwise)


def _positive_or_one(margin: Any) -> Any:
    return np.where(raw(margin) > 0, margin, 1.0)


@final
class Arcsine(_WithPowers):
    """The arcsine distribution, of the squared sine of a uniform angle."""

    __slots__ = ()

    base: ContinuousDistribution = uniform
    _ends: tuple[float, float] = (0.0, 1.0)

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return 2 / math.pi * np.arcsin(np.sqrt(y))

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return np.square(np.sin(math.pi / 2 * z))

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return -math.log(math.pi) - 0.5 * (np.log(y) + np.log1p(-y))

    def _mean_power(self, order: int, *shapes: Any) -> Any:
        return (0.5, 0.375, 0.3125, 0.2734375)[order - 1]

    def _entropy(self, *shapes: Any) -> Any:
        return math.log(math.pi / 4)


@final
class BetaPrime(_WithPowers):
    """The distribution of x / (1 - x), where x has the beta distribution of shapes `a` and `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = beta

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return y / (1 + y)

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return z / (1 - z)

    def _isf(self, q: Any, *shapes: Any) -> Any:
        # The inverse has the swapped shapes, and digits where the quantile is great.
        return 1 / BetaPrime._ppf(self, q, *shapes[::-1])

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return -2 * np.log1p(y)

    def _mean_power(self, order: int, a: Any, b: Any) -> Any:
        margin = b - order
        top: Any = 1.0
        for step in range(1, order + 1):
            top = top * (a + step - 1) / _positive_or_one(b - step)
        return _where_positive(margin, top)


@final
class Burr(_WithPowers):
    """The Burr distribution of type III, of shapes `c` and `d`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c", "d")
    base: ContinuousDistribution = expon
    _decreases = True

    def _to_base(self, y: Any, c: Any, d: Any) -> Any:
        return d * np.log1p(y ** (-c))

    def _from_base(self, z: Any, c: Any, d: Any) -> Any:
        return np.expm1(z / d) ** (-1 / c)

    def _log_slope(self, y: Any, c: Any, d: Any) -> Any:
        return np.log(c) + np.log(d) - (c + 1) * np.log(y) - np.log1p(y ** (-c))

    def _mean_power(self, order: int, c: Any, d: Any) -> Any:
        margin = c - order
        share = order / np.where(raw(margin) > 0, c, order + 1.0)
        return _where_positive(margin, d * special.beta(1 - share, d + share), np.nan)


@final
class Burr12(_WithPowers):
    """The Burr distribution of type XII, of shapes `c` and `d`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c", "d")
    base: ContinuousDistribution = expon

    def _to_base(self, y: Any, c: Any, d: Any) -> Any:
        return d * np.log1p(y**c)

    def _from_base(self, z: Any, c: Any, d: Any) -> Any:
        return np.expm1(z / d) ** (1 / c)

    def _log_slope(self, y: Any, c: Any, d: Any) -> Any:
        return np.log(c) + np.log(d) + (c - 1) * np.log(y) - np.log1p(y**c)

    def _mean_power(self, order: int, c: Any, d: Any) -> Any:
        margin = c * d - order
        share = order / c
        safe = np.where(raw(margin) > 0, d, share + 1.0)
        return _where_positive(margin, safe * special.beta(1 + share, safe - share), np.nan)


class _Exponential(_WithPowers):
    """Abstract: the family of the exponential of a variable over `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)

    def _to_base(self, y: Any, c: Any) -> Any:
        return c * np.log(y)

    def _from_base(self, z: Any, c: Any) -> Any:
        return np.exp(z / c)

    def _log_slope(self, y: Any, c: Any) -> Any:
        return np.log(c) - np.log(y)


@final
class Fisk(_Exponential):
    """The log-logistic distribution of shape `c`."""

    __slots__ = ()

    base: ContinuousDistribution = logistic

    def _mean_power(self, order: int, c: Any) -> Any:
        margin = c - order
        angle = order * math.pi / np.where(raw(margin) > 0, c, order + 1.0)
        return _where_positive(margin, angle / np.sin(angle), np.nan)

    def _entropy(self, c: Any) -> Any:
        return 2 - np.log(c)


@final
class Lomax(_WithPowers):
    """The Pareto distribution of the second kind, of exponent `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = expon

    def _to_base(self, y: Any, c: Any) -> Any:
        return c * np.log1p(y)

    def _from_base(self, z: Any, c: Any) -> Any:
        return np.expm1(z / c)

    def _log_slope(self, y: Any, c: Any) -> Any:
        return np.log(c) - np.log1p(y)

    def _mean_power(self, order: int, c: Any) -> Any:
        value: Any = float(math.factorial(order))
        for step in range(1, order + 1):
            value = value / _positive_or_one(c - step)
        return _where_positive(c - order, value)

    def _entropy(self, c: Any) -> Any:
        return 1 + 1 / c - np.log(c)


@final
class GeneralizedGamma(_WithPowers):
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


class _RootOfGamma(_WithPowers):
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
class LogGamma(_Transformed):
    """The distribution of the logarithm of a gamma variable of shape `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = gamma
    _ends: tuple[float, float] = _INFINITE
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
class InverseWeibull(_WithPowers):
    """The distribution of the inverse of a Weibull variable of shape `c`, Fréchet's."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = expon
    _decreases = True

    def _to_base(self, y: Any, c: Any) -> Any:
        return y ** (-c)

    def _from_base(self, z: Any, c: Any) -> Any:
        return z ** (-1 / c)

    def _log_slope(self, y: Any, c: Any) -> Any:
        return np.log(c) - (c + 1) * np.log(y)

    def _mean_power(self, order: int, c: Any) -> Any:
        margin = c - order
        return _where_positive(margin, special.gamma(1 - order / np.where(raw(margin) > 0, c, order + 1.0)))

    def _entropy(self, c: Any) -> Any:
        return 1 + np.euler_gamma + np.euler_gamma / c - np.log(c)


@final
class JohnsonBounded(_Transformed):
    """Johnson's distribution on the numbers from 0 to 1: of the logit of a normal variable."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = norm
    _ends: tuple[float, float] = (0.0, 1.0)

    def _valid(self, *shapes: Any) -> Any:
        return shapes[1] > 0

    def _to_base(self, y: Any, a: Any, b: Any) -> Any:
        return a + b * special.logit(y)

    def _from_base(self, z: Any, a: Any, b: Any) -> Any:
        return special.expit((z - a) / b)

    def _log_slope(self, y: Any, a: Any, b: Any) -> Any:
        return np.log(b) - np.log(y) - np.log1p(-y)


@final
class JohnsonUnbounded(_WithPowers):
    """Johnson's distribution on the line: of the hyperbolic sine of a normal variable."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = norm
    _ends: tuple[float, float] = _INFINITE
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
class Gibrat(_WithPowers):
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
class LogLaplace(_Exponential):
    """The distribution of the exponential of a Laplace variable over `c`."""

    __slots__ = ()

    base: ContinuousDistribution = laplace

    def _mean_power(self, order: int, c: Any) -> Any:
        margin = c - order
        safe = np.where(raw(margin) > 0, c, order + 1.0)
        return _where_positive(margin, safe * safe / (safe * safe - order * order))

    def _entropy(self, c: Any) -> Any:
        return np.log(2 / c) + 1


@final
class LogUniform(_WithPowers):
    """The distribution of the exponential of a uniform variable, on the numbers from `a` to `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = uniform

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return shapes[0], shapes[1]

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] > 0) & (shapes[1] > shapes[0])

    def _inside(self, method: str, x: Any, args: Any, kwds: Any) -> Any:
        y, shapes, moves, below, above = ContinuousDistribution._inside(self, method, x, args, kwds)
        outside = below | above
        # A point inside of the support, which depends on the shapes.
        return np.where(outside, raw(shapes[0]), y) if np.any(outside) else y, shapes, moves, below, above

    def _to_base(self, y: Any, a: Any, b: Any) -> Any:
        return np.log(y / a) / np.log(b / a)

    def _from_base(self, z: Any, a: Any, b: Any) -> Any:
        return a * np.exp(z * np.log(b / a))

    def _log_slope(self, y: Any, a: Any, b: Any) -> Any:
        return -np.log(y) - np.log(np.log(b / a))

    def _mean_power(self, order: int, a: Any, b: Any) -> Any:
        return (b**order - a**order) / (order * np.log(b / a))

    def _entropy(self, a: Any, b: Any) -> Any:
        return 0.5 * (np.log(a) + np.log(b)) + np.log(np.log(b / a))


@final
class Levy(_Transformed):
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
class Moyal(_Transformed):
    """Moyal's distribution, of minus the logarithm of the square of a normal variable."""

    __slots__ = ()

    base: ContinuousDistribution = gamma
    _decreases = True
    _ends: tuple[float, float] = _INFINITE
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
class HyperbolicSecant(_Transformed):
    """The distribution of the logarithm of the size of a Cauchy variable."""

    __slots__ = ()

    base: ContinuousDistribution = cauchy
    _ends: tuple[float, float] = _INFINITE
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
class HalfLogistic(_Transformed):
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
class GeneralizedLogistic(_Transformed):
    """The logistic distribution whose distribution function is raised to the power `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = expon
    _decreases = True
    _ends: tuple[float, float] = _INFINITE
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
class ExponentiatedWeibull(_Transformed):
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
class FatigueLife(_Transformed):
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


@final
class Bradford(_Transformed):
    """Bradford's distribution of shape `c`, on the numbers from 0 to 1."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = uniform
    _ends: tuple[float, float] = (0.0, 1.0)

    def _to_base(self, y: Any, c: Any) -> Any:
        return np.log1p(c * y) / np.log1p(c)

    def _from_base(self, z: Any, c: Any) -> Any:
        return np.expm1(z * np.log1p(c)) / c

    def _log_slope(self, y: Any, c: Any) -> Any:
        return np.log(c) - np.log1p(c * y) - np.log(np.log1p(c))

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        k = np.log1p(c)
        return (c - k) / (c * k), ((c + 2) * k - 2 * c) / (2 * c * k * k)

    def _entropy(self, c: Any) -> Any:
        k = np.log1p(c)
        return k / 2 - np.log(c / k)


@final
class TruncatedExponential(_Transformed):
    """The exponential distribution up to `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("b",)
    base: ContinuousDistribution = uniform

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, shapes[0]

    def _to_base(self, y: Any, b: Any) -> Any:
        return np.expm1(-y) / np.expm1(-b)

    def _from_base(self, z: Any, b: Any) -> Any:
        return -np.log1p(z * np.expm1(-b))

    def _log_slope(self, y: Any, b: Any) -> Any:
        return -y - np.log(-np.expm1(-b))

    def _entropy(self, b: Any) -> Any:
        return np.log(np.expm1(b)) + (1 + np.exp(b) * (b - 1)) / -np.expm1(b)


@final
class Mielke(_Transformed):
    """Mielke's beta-kappa distribution of shapes `k` and `s`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("k", "s")
    base: ContinuousDistribution = expon
    _decreases = True

    def _to_base(self, y: Any, k: Any, s: Any) -> Any:
        return k / s * np.log1p(y ** (-s))

    def _from_base(self, z: Any, k: Any, s: Any) -> Any:
        return np.expm1(z * s / k) ** (-1 / s)

    def _log_slope(self, y: Any, k: Any, s: Any) -> Any:
        return np.log(k) - (s + 1) * np.log(y) - np.log1p(y ** (-s))


@final
class Erlang(_Transformed):
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


arcsine: Arcsine = Arcsine("arcsine")
betaprime: BetaPrime = BetaPrime("betaprime")
bradford: Bradford = Bradford("bradford")
burr: Burr = Burr("burr")
burr12: Burr12 = Burr12("burr12")
chi: Chi = Chi("chi")
erlang: Erlang = Erlang("erlang")
exponweib: ExponentiatedWeibull = ExponentiatedWeibull("exponweib")
fatiguelife: FatigueLife = FatigueLife("fatiguelife")
fisk: Fisk = Fisk("fisk")
gengamma: GeneralizedGamma = GeneralizedGamma("gengamma")
genlogistic: GeneralizedLogistic = GeneralizedLogistic("genlogistic")
gibrat: Gibrat = Gibrat("gibrat")
halflogistic: HalfLogistic = HalfLogistic("halflogistic")
hypsecant: HyperbolicSecant = HyperbolicSecant("hypsecant")
invweibull: InverseWeibull = InverseWeibull("invweibull")
johnsonsb: JohnsonBounded = JohnsonBounded("johnsonsb")
johnsonsu: JohnsonUnbounded = JohnsonUnbounded("johnsonsu")
levy: Levy = Levy("levy")
loggamma: LogGamma = LogGamma("loggamma")
loglaplace: LogLaplace = LogLaplace("loglaplace")
loguniform: LogUniform = LogUniform("loguniform")
lomax: Lomax = Lomax("lomax")
maxwell: Maxwell = Maxwell("maxwell")
mielke: Mielke = Mielke("mielke")
moyal: Moyal = Moyal("moyal")
nakagami: Nakagami = Nakagami("nakagami")
reciprocal: LogUniform = LogUniform("reciprocal")
truncexpon: TruncatedExponential = TruncatedExponential("truncexpon")
