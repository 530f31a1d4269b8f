"""Families with power tails: of odds, of powers and exponentials of other variables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import raw
from ..special.log_densities import beta_prime_log_density_, log_beta_
from ..special.rules import by_mask
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .distances import distance_log_, linear_term
from .gamma_and_beta import beta
from .location_scale import expon, laplace, logistic
from .normal import norm
from .supports import Positive, bounded_exp, log1p_power, not_below_numbers
from .transforming import ExponentialOf, Transformed, WithPowers, log_expm1, positive_or_one, where_positive

if TYPE_CHECKING:
    from ...core.arrays.array import Array

__all__ = [
    "alpha",
    "betaprime",
    "burr",
    "burr12",
    "fisk",
    "invweibull",
    "kappa3",
    "loglaplace",
    "lomax",
    "mielke",
]


@final
class BetaPrime(WithPowers):
    """The distribution of x / (1 - x), where x has the beta distribution of shapes `a` and `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = beta
    _has_powers = True

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return shapes

    def _power(self, at_last: bool, distance: Any, a: Any, b: Any) -> tuple[Any, Any] | None:
        return None if at_last else (a - 1, -(a + b) * distance - log_beta_.call(a, b))

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return y / (1 + y)

    def _from_base(self, z: Any, *shapes: Any) -> Array:
        return z / (1 - z)

    def _log_slope(self, y: Any, *shapes: Any) -> Array:
        return -2 * np.log1p(y)

    def _logpdf(self, y: Any, a: Any, b: Any) -> Array:
        return beta_prime_log_density_.call(a, b, y)

    # Great numbers by their inverses, which have the swapped shapes: a share next to 1 has lost its digits.

    def _of_base(self, method: str, other: str, y: Any, shapes: tuple[Any, ...]) -> Array:
        return by_mask(
            raw(y) > 1,
            lambda y: getattr(beta, other)(1 / (1 + y), *shapes[::-1]),
            lambda y: WithPowers._of_base(self, method, other, y, shapes),
            (y, 1.0, 1.0),
        )

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        share = beta._ppf(q, a, b)
        is_great = raw(share) > 0.5
        rest = beta._isf(q, b, a) if np.any(is_great) else 0.5
        return by_mask(
            is_great,
            lambda _, rest: (1 - rest) / rest,
            lambda share, _: self._from_base(share),
            (share, 0.5, 0.5),
            (rest, 0.5, 0.5),
        )

    def _isf(self, q: Any, a: Any, b: Any) -> Array:
        return 1 / self._ppf(q, b, a)

    def _mean_power(self, order: int, a: Any, b: Any) -> Array:
        margin = b - order
        top: Any = 1.0
        for step in range(1, order + 1):
            top = top * (a + step - 1) / positive_or_one(b - step)
        return where_positive(margin, top)


@final
class Burr(WithPowers):
    """The Burr distribution of type III, of shapes `c` and `d`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c", "d")
    base: ContinuousDistribution = expon
    _decreases = True
    _has_powers = True

    def _to_base(self, y: Any, c: Any, d: Any) -> Array:
        return d * log1p_power(y, -c)

    def _power(self, at_last: bool, distance: Any, c: Any, d: Any) -> tuple[Any, Any] | None:
        return None if at_last else (c * d - 1, np.log(c) + np.log(d) - (d + 1) * linear_term(distance, c))

    def _from_base(self, z: Any, c: Any, d: Any) -> Array:
        return np.expm1(z / d) ** (-1 / c)

    def _log_slope(self, y: Any, c: Any, d: Any) -> Array:
        return np.log(c) + np.log(d) - (c + 1) * np.log(y) - log1p_power(y, -c)

    def _log_slopes(self, q: np.ndarray, c: Any, d: Any) -> tuple[Any, Any]:
        return self._of_base_quantiles(
            lambda z: np.log(c) + np.log(d) + (c + 1) / c * log_expm1(z / d) - z / d, q, c, d
        )

    def _mean_power(self, order: int, c: Any, d: Any) -> Array:
        margin = c - order
        share = order / np.where(raw(margin) > 0, c, order + 1.0)
        return where_positive(margin, d * special.beta(1 - share, d + share), np.nan)


@final
class Burr12(WithPowers):
    """The Burr distribution of type XII, of shapes `c` and `d`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c", "d")
    base: ContinuousDistribution = expon
    _has_powers = True

    def _to_base(self, y: Any, c: Any, d: Any) -> Array:
        return d * log1p_power(y, c)

    def _power(self, at_last: bool, distance: Any, c: Any, d: Any) -> tuple[Any, Any] | None:
        return None if at_last else (c - 1, np.log(c) + np.log(d) - (d + 1) * linear_term(distance, c))

    def _from_base(self, z: Any, c: Any, d: Any) -> Array:
        return np.expm1(z / d) ** (1 / c)

    def _log_slope(self, y: Any, c: Any, d: Any) -> Array:
        return np.log(c) + np.log(d) + (c - 1) * np.log(y) - log1p_power(y, c)

    def _log_slopes(self, q: np.ndarray, c: Any, d: Any) -> tuple[Any, Any]:
        return self._of_base_quantiles(
            lambda z: np.log(c) + np.log(d) + (c - 1) / c * log_expm1(z / d) - z / d, q, c, d
        )

    def _mean_power(self, order: int, c: Any, d: Any) -> Array:
        margin = c * d - order
        share = order / c
        safe = np.where(raw(margin) > 0, d, share + 1.0)
        return where_positive(margin, safe * special.beta(1 + share, safe - share), np.nan)


@final
class Fisk(ExponentialOf):
    """The log-logistic distribution of shape `c`."""

    __slots__ = ()

    base: ContinuousDistribution = logistic
    _has_powers = True

    def _power(self, at_last: bool, distance: Any, c: Any) -> tuple[Any, Any] | None:
        return None if at_last else (c - 1, np.log(c) - 2 * linear_term(distance, c))

    def _mean_power(self, order: int, c: Any) -> Array:
        margin = c - order
        angle = order * math.pi / np.where(raw(margin) > 0, c, order + 1.0)
        return where_positive(margin, angle / np.sin(angle), np.nan)

    def _entropy(self, c: Any) -> Array:
        return 2 - np.log(c)


@final
class Lomax(WithPowers):
    """The Pareto distribution of the second kind, of exponent `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = expon

    def _to_base(self, y: Any, c: Any) -> Array:
        return c * np.log1p(y)

    def _from_base(self, z: Any, c: Any) -> Array:
        return np.expm1(z / c)

    def _log_slope(self, y: Any, c: Any) -> Array:
        return np.log(c) - np.log1p(y)

    def _mean_power(self, order: int, c: Any) -> Array:
        value: Any = float(math.factorial(order))
        for step in range(1, order + 1):
            value = value / positive_or_one(c - step)
        return where_positive(c - order, value)

    def _entropy(self, c: Any) -> Array:
        return 1 + 1 / c - np.log(c)


@final
class LogLaplace(ExponentialOf):
    """The distribution of the exponential of a Laplace variable over `c`."""

    __slots__ = ()

    base: ContinuousDistribution = laplace
    _has_powers = True

    def _power(self, at_last: bool, distance: Any, c: Any) -> tuple[Any, Any] | None:
        return None if at_last else (c - 1, np.log(c / 2) + 0.0 * distance)

    def _mean_power(self, order: int, c: Any) -> Array:
        margin = c - order
        safe = np.where(raw(margin) > 0, c, order + 1.0)
        return where_positive(margin, safe * safe / (safe * safe - order * order))

    def _entropy(self, c: Any) -> Array:
        return np.log(2 / c) + 1


@final
class InverseWeibull(WithPowers):
    """The distribution of the inverse of a Weibull variable of shape `c`, Fréchet's."""

    __slots__ = ()

    _flat_start = True
    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = expon
    _decreases = True

    def _logpdf(self, y: Any, c: Any) -> Array:
        return not_below_numbers(Transformed._logpdf(self, y, c))

    def _to_base(self, y: Any, c: Any) -> Array:
        exponent = -raw(c) * np.log(raw(y))
        return bounded_exp(-c * np.log(y)) if np.any(exponent > 700) else y ** (-c)

    def _from_base(self, z: Any, c: Any) -> Array:
        return z ** (-1 / c)

    def _log_slope(self, y: Any, c: Any) -> Array:
        return np.log(c) - (c + 1) * np.log(y)

    def _mean_power(self, order: int, c: Any) -> Array:
        margin = c - order
        return where_positive(margin, special.gamma(1 - order / np.where(raw(margin) > 0, c, order + 1.0)))

    def _entropy(self, c: Any) -> Array:
        return 1 + np.euler_gamma + np.euler_gamma / c - np.log(c)


@final
class Mielke(Transformed):
    """Mielke's beta-kappa distribution of shapes `k` and `s`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("k", "s")
    base: ContinuousDistribution = expon
    _decreases = True
    _has_powers = True

    def _to_base(self, y: Any, k: Any, s: Any) -> Array:
        return k / s * log1p_power(y, -s)

    def _power(self, at_last: bool, distance: Any, k: Any, s: Any) -> tuple[Any, Any] | None:
        return None if at_last else (k - 1, np.log(k) - (1 + k / s) * linear_term(distance, s))

    def _from_base(self, z: Any, k: Any, s: Any) -> Array:
        return np.expm1(z * s / k) ** (-1 / s)

    def _log_slope(self, y: Any, k: Any, s: Any) -> Array:
        return np.log(k) - (s + 1) * np.log(y) - log1p_power(y, -s)

    def _log_slopes(self, q: np.ndarray, k: Any, s: Any) -> tuple[Any, Any]:
        return self._of_base_quantiles(lambda z: np.log(k) + (s + 1) / s * log_expm1(z * s / k) - z * s / k, q, k, s)


@final
class InverseOfNormal(Positive):
    """The alpha distribution: of the inverse of a normal variable of mean `a` that is positive."""

    __slots__ = ()

    _flat_start = True
    shapes: tuple[str, ...] = ("a",)

    def _logpdf(self, y: Any, a: Any) -> Array:
        return norm._logpdf(a - 1 / y) - 2 * np.log(y) - special.log_ndtr(a)

    def _cdf(self, y: Any, a: Any) -> Array:
        return np.exp(self._logcdf(y, a))

    def _sf(self, y: Any, a: Any) -> Array:
        return -np.expm1(self._logcdf(y, a))

    def _logcdf(self, y: Any, a: Any) -> Array:
        return special.log_ndtr(a - 1 / y) - special.log_ndtr(a)

    def _logsf(self, y: Any, a: Any) -> Array:
        return np.log(self._sf(y, a))

    def _ppf(self, q: Any, a: Any) -> Array:
        return 1 / (a - special.ndtri(q * special.ndtr(a)))

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        return np.inf, np.inf

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        return np.nan, np.nan


@final
class Kappa3(WithPowers):
    """The kappa distribution of one shape, `a`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a",)
    base: ContinuousDistribution = expon
    _decreases = True

    def _to_base(self, y: Any, a: Any) -> Any:
        return np.log1p(a * y ** (-a)) / a

    def _from_base(self, z: Any, a: Any) -> Array:
        return (a / np.expm1(a * z)) ** (1 / a)

    def _log_slope(self, y: Any, a: Any) -> Array:
        return np.log(a) - (a + 1) * np.log(y) - np.log1p(a * y ** (-a))

    def _log_slopes(self, q: np.ndarray, a: Any) -> tuple[Any, Any]:
        return self._of_base_quantiles(lambda z: np.log(a) - (a + 1) / a * (np.log(a) - log_expm1(a * z)) - a * z, q, a)

    # By other forms where the variable is small, for it may be 0.

    def _logpdf(self, y: Any, a: Any) -> Array:
        return np.log(a) - (1 / a + 1) * np.log(a + y**a)

    def _cdf(self, y: Any, a: Any) -> Any:
        return y * (a + y**a) ** (-1 / a)

    def _sf(self, y: Any, a: Any) -> Array:
        is_low = raw(y) < 1
        return np.where(is_low, 1 - self._cdf(y, a), -np.expm1(-self._to_base(np.where(is_low, 1.0, y), a)))

    def _logcdf(self, y: Any, a: Any) -> Array:
        is_low = raw(y) < 1
        low = np.where(is_low, y, 1.0)
        return np.where(
            is_low, distance_log_.call(low, 1.0) - np.log(a + low**a) / a, -self._to_base(np.where(is_low, 1.0, y), a)
        )

    def _logsf(self, y: Any, a: Any) -> Array:
        return np.log(self._sf(y, a))

    def _mean_power(self, order: int, a: Any) -> Array:
        margin = a - order
        safe = np.where(raw(margin) > 0, a, order + 1.0)
        value = safe ** (order / safe - 1) * special.beta(1 - order / safe, (order + 1) / safe)
        return where_positive(margin, value, np.nan)


alpha: InverseOfNormal = InverseOfNormal("alpha")
betaprime: BetaPrime = BetaPrime("betaprime")
burr12: Burr12 = Burr12("burr12")
burr: Burr = Burr("burr")
fisk: Fisk = Fisk("fisk")
invweibull: InverseWeibull = InverseWeibull("invweibull")
kappa3: Kappa3 = Kappa3("kappa3")
loglaplace: LogLaplace = LogLaplace("loglaplace")
lomax: Lomax = Lomax("lomax")
mielke: Mielke = Mielke("mielke")
