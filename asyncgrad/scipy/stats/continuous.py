"""Families of continuous distributions, each in its standard form: see `distribution.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from ...graph.values import raw
from ...ops.primitive import derivative, primitive
from ...tensor import Tensor
from ..arguments import floating
from ..ufuncs import special
from .distribution import ContinuousDistribution
from .log_tails import log_beta_below, log_gamma_above, log_gamma_below

__all__ = [
    "beta",
    "bounded_exp",
    "cauchy",
    "chi2",
    "expon",
    "f",
    "gamma",
    "gumbel_l",
    "gumbel_r",
    "halfcauchy",
    "halfnorm",
    "invgamma",
    "laplace",
    "logistic",
    "lognorm",
    "norm",
    "one_minus_exp_",
    "pareto",
    "powerlaw",
    "quotient",
    "rayleigh",
    "t",
    "truncnorm",
    "uniform",
    "weibull_max",
    "weibull_min",
]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_EULER = float(np.euler_gamma)
_GUMBEL_SKEWNESS = 12 * math.sqrt(6) * float(special.zeta(3.0)) / math.pi**3


class _OnLine(ContinuousDistribution):
    """Abstract: a family whose support is the real line."""

    __slots__ = ()

    _inner = 0.0

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return -np.inf, np.inf


class _Positive(ContinuousDistribution):
    """Abstract: a family whose support is the positive numbers."""

    __slots__ = ()

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, np.inf


@primitive()
def one_minus_exp_(x: Any) -> Any:
    """Return 1 - exp(-x); its derivative does not underflow before exp(-x) does, as that of np.expm1 does."""
    return -np.expm1(-x)


@derivative(one_minus_exp_, "x")
def _(g: Any, x: Any) -> Any:
    return g * np.exp(-x)


# The normal distribution. Densities and probabilities are one operation each, since they are what models are made of.


def _normal_standard(x: Any, loc: Any, scale: Any) -> Any:
    return (x - loc) / scale


def _finite(y: Any) -> Any:
    """Return a number for an infinite one, to be multiplied by a density of 0."""
    is_infinite = np.isinf(raw(y))
    return np.where(is_infinite, 0.0, y) if np.any(is_infinite) else y


@primitive()
def normal_logpdf_(x: Any, loc: Any, scale: Any) -> Any:
    """Return the logarithm of the normal density."""
    y = _normal_standard(x, loc, scale)
    return -0.5 * y * y - _LOG_ROOT - np.log(scale)


@derivative(normal_logpdf_, "x")
def _(g: Any, x: Any, loc: Any, scale: Any) -> Any:
    return g * ((loc - x) / (scale * scale))


@derivative(normal_logpdf_, "loc")
def _(g: Any, x: Any, loc: Any, scale: Any) -> Any:
    return g * ((x - loc) / (scale * scale))


@derivative(normal_logpdf_, "scale")
def _(g: Any, x: Any, loc: Any, scale: Any) -> Any:
    y = _normal_standard(x, loc, scale)
    return g * ((y * y - 1) / scale)


@primitive()
def normal_pdf_(x: Any, loc: Any, scale: Any) -> Any:
    """Return the normal density."""
    y = _normal_standard(x, loc, scale)
    return np.exp(-0.5 * y * y) / (math.sqrt(2 * math.pi) * scale)


@derivative(normal_pdf_, "x")
def _(g: Any, x: Any, loc: Any, scale: Any, out: Any) -> Any:
    return g * (-out * _finite(_normal_standard(x, loc, scale)) / scale)


@derivative(normal_pdf_, "loc")
def _(g: Any, x: Any, loc: Any, scale: Any, out: Any) -> Any:
    return g * (out * _finite(_normal_standard(x, loc, scale)) / scale)


@derivative(normal_pdf_, "scale")
def _(g: Any, x: Any, loc: Any, scale: Any, out: Any) -> Any:
    y = _finite(_normal_standard(x, loc, scale))
    return g * (out * (y * y - 1) / scale)


@primitive()
def normal_cdf_(x: Any, loc: Any, scale: Any) -> Any:
    """Return the probability of values up to x."""
    return special.ndtr(_normal_standard(x, loc, scale))


@derivative(normal_cdf_, "x")
def _(g: Any, x: Any, loc: Any, scale: Any) -> Any:
    return g * normal_pdf_.call(x, loc, scale)


@derivative(normal_cdf_, "loc")
def _(g: Any, x: Any, loc: Any, scale: Any) -> Any:
    return -g * normal_pdf_.call(x, loc, scale)


@derivative(normal_cdf_, "scale")
def _(g: Any, x: Any, loc: Any, scale: Any) -> Any:
    return -g * (normal_pdf_.call(x, loc, scale) * _finite(_normal_standard(x, loc, scale)))


@final
class Normal(_OnLine):
    """The normal distribution."""

    __slots__ = ()

    def _direct(self, method: str, function: Any, x: Any, args: Sequence[Any], kwds: Mapping[str, Any]) -> Any:
        _, (loc, scale) = self._split(method, args, kwds)
        positive = np.asarray(raw(scale) > 0)
        if positive.all():
            return function(floating(x), loc, scale)
        result = function(floating(x), loc, np.where(positive, scale, 1.0))
        return np.where(positive, result, np.nan)

    def logpdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of the density at `x`."""
        return self._direct("logpdf", normal_logpdf_.call, x, args, kwds)

    def pdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the density at `x`."""
        return self._direct("pdf", normal_pdf_.call, x, args, kwds)

    def cdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of values up to `x`."""
        return self._direct("cdf", normal_cdf_.call, x, args, kwds)

    def _logpdf(self, y: Any) -> Any:
        return -0.5 * y * y - _LOG_ROOT

    def _cdf(self, y: Any) -> Any:
        return special.ndtr(y)

    def _sf(self, y: Any) -> Any:
        return special.ndtr(-y)

    def _logcdf(self, y: Any) -> Any:
        return special.log_ndtr(y)

    def _logsf(self, y: Any) -> Any:
        return special.log_ndtr(-y)

    def _ppf(self, q: Any) -> Any:
        return special.ndtri(q)

    def _isf(self, q: Any) -> Any:
        return -special.ndtri(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 0.0, 0.0

    def _entropy(self) -> Any:
        return _LOG_ROOT + 0.5


# Other families of a location and a scale.


@final
class Cauchy(_OnLine):
    """The Cauchy distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return -math.log(math.pi) - np.log1p(y * y)

    def _pdf(self, y: Any) -> Any:
        return 1 / (math.pi * (1 + y * y))

    def _cdf(self, y: Any) -> Any:
        return np.arctan2(1.0, -y) / math.pi

    def _sf(self, y: Any) -> Any:
        return np.arctan2(1.0, y) / math.pi

    def _ppf(self, q: Any) -> Any:
        # Each tail by its own probability, which has the digits.
        is_right = raw(q) > 0.5
        tail = np.where(is_right, 1 - q, q)
        value = 1 / np.tan(math.pi * tail)
        return np.where(is_right, value, -value)

    def _isf(self, q: Any) -> Any:
        return -self._ppf(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _entropy(self) -> Any:
        return math.log(4 * math.pi)


@final
class Laplace(_OnLine):
    """The Laplace distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return -math.log(2) - np.abs(y)

    def _cdf(self, y: Any) -> Any:
        tail = 0.5 * np.exp(-np.abs(y))
        return np.where(raw(y) > 0, 1 - tail, tail)

    def _sf(self, y: Any) -> Any:
        return self._cdf(-y)

    def _logcdf(self, y: Any) -> Any:
        is_right = raw(y) > 0
        right = np.where(is_right, y, 1.0)
        return np.where(is_right, np.log1p(-0.5 * np.exp(-right)), y - math.log(2))

    def _logsf(self, y: Any) -> Any:
        return self._logcdf(-y)

    def _ppf(self, q: Any) -> Any:
        is_right = raw(q) > 0.5
        tail = np.where(is_right, 1 - q, q)
        value = np.log(2 * tail)
        return np.where(is_right, -value, value)

    def _isf(self, q: Any) -> Any:
        return -self._ppf(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 0.0, 2.0

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 0.0, 3.0

    def _entropy(self) -> Any:
        return math.log(2) + 1


@final
class Logistic(_OnLine):
    """The logistic distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        size = np.abs(y)
        return -size - 2 * np.log1p(np.exp(-size))

    def _cdf(self, y: Any) -> Any:
        return special.expit(y)

    def _sf(self, y: Any) -> Any:
        return special.expit(-y)

    def _logcdf(self, y: Any) -> Any:
        return special.log_expit(y)

    def _logsf(self, y: Any) -> Any:
        return special.log_expit(-y)

    def _ppf(self, q: Any) -> Any:
        return special.logit(q)

    def _isf(self, q: Any) -> Any:
        return -special.logit(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 0.0, math.pi**2 / 3

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 0.0, 1.2

    def _entropy(self) -> Any:
        return 2.0


def bounded_exp(y: Any) -> Any:
    """Return exp(y), bounded where it would overflow, so that what it underflows to has no gradient of nan."""
    return np.exp(np.minimum(y, 700.0)) if np.any(raw(y) > 700) else np.exp(y)


@final
class GumbelRight(_OnLine):
    """The distribution of the greatest of many: exp(-exp(-y))."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return -y - np.exp(-y)

    def _cdf(self, y: Any) -> Any:
        return np.exp(-bounded_exp(-y))

    def _logcdf(self, y: Any) -> Any:
        return -np.exp(-y)

    def _sf(self, y: Any) -> Any:
        return one_minus_exp_.call(bounded_exp(-y))

    def _ppf(self, q: Any) -> Any:
        return -np.log(-np.log(q))

    def _isf(self, q: Any) -> Any:
        return -np.log(-np.log1p(-q))

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return _EULER, math.pi**2 / 6

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return _GUMBEL_SKEWNESS, 2.4

    def _entropy(self) -> Any:
        return _EULER + 1


@final
class GumbelLeft(_OnLine):
    """The distribution of the least of many: 1 - exp(-exp(y))."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return y - np.exp(y)

    def _cdf(self, y: Any) -> Any:
        return one_minus_exp_.call(bounded_exp(y))

    def _sf(self, y: Any) -> Any:
        return np.exp(-bounded_exp(y))

    def _logsf(self, y: Any) -> Any:
        return -np.exp(y)

    def _ppf(self, q: Any) -> Any:
        return np.log(-np.log1p(-q))

    def _isf(self, q: Any) -> Any:
        return np.log(-np.log(q))

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return -_EULER, math.pi**2 / 6

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return -_GUMBEL_SKEWNESS, 2.4

    def _entropy(self) -> Any:
        return _EULER + 1


@final
class Uniform(ContinuousDistribution):
    """The uniform distribution between loc and loc + scale."""

    __slots__ = ()

    def _support(self) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _logpdf(self, y: Any) -> Any:
        return y * 0.0

    def _cdf(self, y: Any) -> Any:
        return y * 1.0

    def _ppf(self, q: Any) -> Any:
        return q * 1.0

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 0.5, 1 / 12

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 0.0, -1.2

    def _entropy(self) -> Any:
        return 0.0


@final
class Exponential(_Positive):
    """The exponential distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return -y

    def _cdf(self, y: Any) -> Any:
        return one_minus_exp_.call(y)

    def _sf(self, y: Any) -> Any:
        return np.exp(-y)

    def _logsf(self, y: Any) -> Any:
        return -y

    def _ppf(self, q: Any) -> Any:
        return -np.log1p(-q)

    def _isf(self, q: Any) -> Any:
        return -np.log(q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return 1.0, 1.0

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return 2.0, 6.0

    def _entropy(self) -> Any:
        return 1.0


@final
class Rayleigh(_Positive):
    """The Rayleigh distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return np.log(y) - 0.5 * y * y

    def _pdf(self, y: Any) -> Any:
        return y * np.exp(-0.5 * y * y)

    def _cdf(self, y: Any) -> Any:
        return one_minus_exp_.call(0.5 * y * y)

    def _sf(self, y: Any) -> Any:
        return np.exp(-0.5 * y * y)

    def _logsf(self, y: Any) -> Any:
        return -0.5 * y * y

    def _ppf(self, q: Any) -> Any:
        return np.sqrt(-2 * np.log1p(-q))

    def _isf(self, q: Any) -> Any:
        return np.sqrt(-2 * np.log(q))

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return math.sqrt(math.pi / 2), (4 - math.pi) / 2

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        rest = 4 - math.pi
        return 2 * (math.pi - 3) * math.sqrt(math.pi) / rest**1.5, 6 * math.pi / rest - 16 / rest**2

    def _entropy(self) -> Any:
        return _EULER / 2 + 1 - 0.5 * math.log(2)


@final
class HalfNormal(_Positive):
    """The distribution of the size of a normal number."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return 0.5 * math.log(2 / math.pi) - 0.5 * y * y

    def _cdf(self, y: Any) -> Any:
        return special.erf(y / math.sqrt(2))

    def _sf(self, y: Any) -> Any:
        return 2 * special.ndtr(-y)

    def _logsf(self, y: Any) -> Any:
        return math.log(2) + special.log_ndtr(-y)

    def _ppf(self, q: Any) -> Any:
        return special.ndtri((1 + q) / 2)

    def _isf(self, q: Any) -> Any:
        return -special.ndtri(q / 2)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return math.sqrt(2 / math.pi), 1 - 2 / math.pi

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        rest = math.pi - 2
        return math.sqrt(2) * (4 - math.pi) / rest**1.5, 8 * (math.pi - 3) / rest**2

    def _entropy(self) -> Any:
        return 0.5 * math.log(math.pi / 2) + 0.5


@final
class HalfCauchy(_Positive):
    """The distribution of the size of a number with the Cauchy distribution."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return math.log(2 / math.pi) - np.log1p(y * y)

    def _cdf(self, y: Any) -> Any:
        return 2 / math.pi * np.arctan(y)

    def _sf(self, y: Any) -> Any:
        return 2 / math.pi * np.arctan2(1.0, y)

    def _ppf(self, q: Any) -> Any:
        return np.tan(math.pi / 2 * q)

    def _isf(self, q: Any) -> Any:
        return 1 / np.tan(math.pi / 2 * q)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return np.inf, np.inf

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _entropy(self) -> Any:
        return math.log(2 * math.pi)


# Families with shapes. The densities that models are made of are one operation each.


def quotient(count: Any, value: Any) -> Any:
    """Return count / value, and 0 where both are 0: the derivative of xlogy(count, value) by value."""
    both = (raw(value) == 0) & (raw(count) == 0)
    return count / np.where(both, 1.0, value) if np.any(both) else count / value


@primitive()
def student_logpdf_(y: Any, df: Any) -> Any:
    """Return the logarithm of the density of Student's distribution."""
    return -special.xlog1py((df + 1) / 2, y * y / df) - special.betaln(df / 2, 0.5) - 0.5 * np.log(df)


@derivative(student_logpdf_, "y")
def _(g: Any, y: Any, df: Any) -> Any:
    return g * (-(df + 1) * y / (df + y * y))


@derivative(student_logpdf_, "df")
def _(g: Any, y: Any, df: Any) -> Any:
    squares = y * y
    bulk = special.psi((df + 1) / 2) - special.psi(df / 2) - 1 / df
    return g * (0.5 * (bulk - np.log1p(squares / df) + (df + 1) / df * (squares / (df + squares))))


@primitive()
def gamma_logpdf_(y: Any, a: Any) -> Any:
    """Return the logarithm of the density of the gamma distribution."""
    return special.xlogy(a - 1, y) - y - special.gammaln(a)


@derivative(gamma_logpdf_, "y")
def _(g: Any, y: Any, a: Any) -> Any:
    return g * (quotient(a - 1, y) - 1)


@derivative(gamma_logpdf_, "a")
def _(g: Any, y: Any, a: Any) -> Any:
    return g * (np.log(y) - special.psi(a))


@primitive()
def chi_squared_logpdf_(y: Any, df: Any) -> Any:
    """Return the logarithm of the density of the chi-squared distribution."""
    return special.xlogy(df / 2 - 1, y) - y / 2 - special.gammaln(df / 2) - math.log(2) * df / 2


@derivative(chi_squared_logpdf_, "y")
def _(g: Any, y: Any, df: Any) -> Any:
    return g * (quotient(df / 2 - 1, y) - 0.5)


@derivative(chi_squared_logpdf_, "df")
def _(g: Any, y: Any, df: Any) -> Any:
    return g * (0.5 * (np.log(y) - special.psi(df / 2) - math.log(2)))


@primitive()
def beta_logpdf_(y: Any, a: Any, b: Any) -> Any:
    """Return the logarithm of the density of the beta distribution."""
    return special.xlog1py(b - 1, -y) + special.xlogy(a - 1, y) - special.betaln(a, b)


@derivative(beta_logpdf_, "y")
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    return g * (quotient(a - 1, y) - quotient(b - 1, 1 - y))


@derivative(beta_logpdf_, "a")
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    return g * (np.log(y) - special.psi(a) + special.psi(a + b))


@derivative(beta_logpdf_, "b")
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    return g * (np.log1p(-y) - special.psi(b) + special.psi(a + b))


@final
class StudentT(_OnLine):
    """Student's distribution with `df` degrees of freedom."""

    __slots__ = ()

    shapes = ("df",)

    def _logpdf(self, y: Any, df: Any) -> Any:
        return student_logpdf_.call(y, df)

    def _cdf(self, y: Any, df: Any) -> Any:
        return special.stdtr(df, y)

    def _sf(self, y: Any, df: Any) -> Any:
        return special.stdtr(df, -y)

    def _ppf(self, q: Any, df: Any) -> Any:
        return special.stdtrit(df, q)

    def _isf(self, q: Any, df: Any) -> Any:
        return -special.stdtrit(df, q)

    def _log_below(self, mask: Any, y: Any, df: Any) -> Any:
        y = np.where(mask, y, -1.0)
        return log_beta_below(df / 2, 0.5, df / (df + y * y), mask) - math.log(2)

    def _log_above(self, mask: Any, y: Any, df: Any) -> Any:
        return self._log_below(mask, -y, df)

    def _mean_and_variance(self, df: Any) -> tuple[Any, Any]:
        bare = raw(df)
        variance = np.where(bare > 2, df / np.where(bare > 2, df - 2, 1.0), np.where(bare > 1, np.inf, np.nan))
        return np.where(bare > 1, 0.0, np.inf), variance

    def _skewness_and_kurtosis(self, df: Any) -> tuple[Any, Any]:
        bare = raw(df)
        kurtosis = np.where(bare > 4, 6 / np.where(bare > 4, df - 4, 1.0), np.where(bare > 2, np.inf, np.nan))
        return np.where(bare > 3, 0.0, np.nan), kurtosis

    def _entropy(self, df: Any) -> Any:
        half = (df + 1) / 2
        return half * (special.psi(half) - special.psi(df / 2)) + 0.5 * np.log(df) + special.betaln(df / 2, 0.5)


@final
class Gamma(_Positive):
    """The gamma distribution of shape `a`."""

    __slots__ = ()

    _has_poles = True

    shapes = ("a",)

    def _logpdf(self, y: Any, a: Any) -> Any:
        return gamma_logpdf_.call(y, a)

    def _pdf(self, y: Any, a: Any) -> Any:
        return self._pdf_with_end(y, raw(y) == 0, lambda: (y, a - 1, np.exp(-special.gammaln(a))), a)

    def _cdf(self, y: Any, a: Any) -> Any:
        return special.gammainc(a, y)

    def _sf(self, y: Any, a: Any) -> Any:
        return special.gammaincc(a, y)

    def _ppf(self, q: Any, a: Any) -> Any:
        return special.gammaincinv(a, q)

    def _isf(self, q: Any, a: Any) -> Any:
        return special.gammainccinv(a, q)

    def _log_below(self, mask: Any, y: Any, a: Any) -> Any:
        return log_gamma_below(a, y, mask)

    def _log_above(self, mask: Any, y: Any, a: Any) -> Any:
        return log_gamma_above(a, y, mask)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        return a * 1.0, a * 1.0

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        return 2 / np.sqrt(a), 6 / a

    def _entropy(self, a: Any) -> Any:
        return a + special.gammaln(a) + (1 - a) * special.psi(a)


@final
class ChiSquared(_Positive):
    """The distribution of the sum of `df` squares of normal numbers."""

    __slots__ = ()

    _has_poles = True

    shapes = ("df",)

    def _logpdf(self, y: Any, df: Any) -> Any:
        return chi_squared_logpdf_.call(y, df)

    def _pdf(self, y: Any, df: Any) -> Any:
        def power() -> tuple[Any, Any, Any]:
            half = df / 2
            return y, half - 1, np.exp(-special.gammaln(half) - math.log(2) * half)

        return self._pdf_with_end(y, raw(y) == 0, power, df)

    def _cdf(self, y: Any, df: Any) -> Any:
        return special.chdtr(df, y)

    def _sf(self, y: Any, df: Any) -> Any:
        return special.chdtrc(df, y)

    def _ppf(self, q: Any, df: Any) -> Any:
        return 2 * special.gammaincinv(df / 2, q)

    def _isf(self, q: Any, df: Any) -> Any:
        return special.chdtri(df, q)

    def _log_below(self, mask: Any, y: Any, df: Any) -> Any:
        return log_gamma_below(df / 2, y / 2, mask)

    def _log_above(self, mask: Any, y: Any, df: Any) -> Any:
        return log_gamma_above(df / 2, y / 2, mask)

    def _mean_and_variance(self, df: Any) -> tuple[Any, Any]:
        return df * 1.0, 2.0 * df

    def _skewness_and_kurtosis(self, df: Any) -> tuple[Any, Any]:
        return np.sqrt(8 / df), 12 / df

    def _entropy(self, df: Any) -> Any:
        half = df / 2
        return half + math.log(2) + special.gammaln(half) + (1 - half) * special.psi(half)


@final
class InverseGamma(_Positive):
    """The distribution of the reciprocal of a number with the gamma distribution of shape `a`."""

    __slots__ = ()

    _flat_start = True

    shapes = ("a",)

    def _logpdf(self, y: Any, a: Any) -> Any:
        is_zero = raw(y) == 0
        safe = np.where(is_zero, 1.0, y)
        return np.where(is_zero, -np.inf, -(a + 1) * np.log(safe) - special.gammaln(a) - 1 / safe)

    def _cdf(self, y: Any, a: Any) -> Any:
        return special.gammaincc(a, 1 / y)

    def _sf(self, y: Any, a: Any) -> Any:
        return special.gammainc(a, 1 / y)

    def _ppf(self, q: Any, a: Any) -> Any:
        return 1 / special.gammainccinv(a, q)

    def _isf(self, q: Any, a: Any) -> Any:
        return 1 / special.gammaincinv(a, q)

    def _log_below(self, mask: Any, y: Any, a: Any) -> Any:
        is_zero = mask & (raw(y) == 0)
        return np.where(is_zero, -np.inf, log_gamma_above(a, 1 / np.where(mask & ~is_zero, y, 1.0), mask & ~is_zero))

    def _log_above(self, mask: Any, y: Any, a: Any) -> Any:
        return log_gamma_below(a, 1 / np.where(mask, y, 1.0), mask)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        bare = raw(a)
        one, two = np.where(bare > 1, a - 1, 1.0), np.where(bare > 2, a - 2, 1.0)
        return np.where(bare > 1, 1 / one, np.inf), np.where(bare > 2, 1 / (np.square(one) * two), np.inf)

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        bare = raw(a)
        three, four = np.where(bare > 3, a, 4.0), np.where(bare > 4, a, 5.0)
        skewness = 4 * np.sqrt(three - 2) / (three - 3)
        kurtosis = 6 * (5 * four - 11) / ((four - 3) * (four - 4))
        return np.where(bare > 3, skewness, np.nan), np.where(bare > 4, kurtosis, np.nan)

    def _entropy(self, a: Any) -> Any:
        return a - (a + 1) * special.psi(a) + special.gammaln(a)


@final
class Beta(ContinuousDistribution):
    """The beta distribution of shapes `a` and `b`."""

    __slots__ = ()

    _has_poles = True

    shapes = ("a", "b")

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _logpdf(self, y: Any, a: Any, b: Any) -> Any:
        return beta_logpdf_.call(y, a, b)

    def _pdf(self, y: Any, a: Any, b: Any) -> Any:
        def power() -> tuple[Any, Any, Any]:
            is_right = raw(y) > 0.5
            distance, exponent = np.where(is_right, 1 - y, y), np.where(is_right, b, a) - 1
            return distance, exponent, np.exp(-special.betaln(a, b))

        return self._pdf_with_end(y, (raw(y) == 0) | (raw(y) == 1), power, a, b)

    def _cdf(self, y: Any, a: Any, b: Any) -> Any:
        return special.betainc(a, b, y)

    def _sf(self, y: Any, a: Any, b: Any) -> Any:
        return special.betaincc(a, b, y)

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        return special.betaincinv(a, b, q)

    def _isf(self, q: Any, a: Any, b: Any) -> Any:
        return special.betainccinv(a, b, q)

    def _log_below(self, mask: Any, y: Any, a: Any, b: Any) -> Any:
        return log_beta_below(a, b, y, mask)

    def _log_above(self, mask: Any, y: Any, a: Any, b: Any) -> Any:
        return log_beta_below(b, a, 1 - y, mask)

    def _mean_and_variance(self, a: Any, b: Any) -> tuple[Any, Any]:
        total = a + b
        return a / total, a * b / (np.square(total) * (total + 1))

    def _skewness_and_kurtosis(self, a: Any, b: Any) -> tuple[Any, Any]:
        total, product = a + b, a * b
        skewness = 2 * (b - a) * np.sqrt(total + 1) / ((total + 2) * np.sqrt(product))
        kurtosis = np.square(a - b) * (total + 1) - product * (total + 2)
        return skewness, 6 * kurtosis / (product * (total + 2) * (total + 3))

    def _entropy(self, a: Any, b: Any) -> Any:
        total = a + b
        shares = (a - 1) * special.psi(a) + (b - 1) * special.psi(b)
        return special.betaln(a, b) - shares + (total - 2) * special.psi(total)


@final
class FRatio(_Positive):
    """The F distribution with `dfn` and `dfd` degrees of freedom."""

    __slots__ = ()

    _has_poles = True

    shapes = ("dfn", "dfd")

    def _logpdf(self, y: Any, dfn: Any, dfd: Any) -> Any:
        half, other = dfn / 2, dfd / 2
        value = other * np.log(dfd) + half * np.log(dfn) + special.xlogy(half - 1, y)
        return value - (half + other) * np.log(dfd + dfn * y) - special.betaln(half, other)

    def _pdf(self, y: Any, dfn: Any, dfd: Any) -> Any:
        def power() -> tuple[Any, Any, Any]:
            half = dfn / 2
            return y, half - 1, np.exp(half * np.log(dfn / dfd) - special.betaln(half, dfd / 2))

        return self._pdf_with_end(y, raw(y) == 0, power, dfn, dfd)

    def _cdf(self, y: Any, dfn: Any, dfd: Any) -> Any:
        return special.fdtr(dfn, dfd, y)

    def _sf(self, y: Any, dfn: Any, dfd: Any) -> Any:
        return special.fdtrc(dfn, dfd, y)

    def _ppf(self, q: Any, dfn: Any, dfd: Any) -> Any:
        return special.fdtri(dfn, dfd, q)

    def _isf(self, q: Any, dfn: Any, dfd: Any) -> Any:
        share = special.betaincinv(dfd / 2, dfn / 2, q)
        return dfd * (1 - share) / (dfn * share)

    def _log_below(self, mask: Any, y: Any, dfn: Any, dfd: Any) -> Any:
        return log_beta_below(dfn / 2, dfd / 2, dfn * y / (dfd + dfn * y), mask)

    def _log_above(self, mask: Any, y: Any, dfn: Any, dfd: Any) -> Any:
        return log_beta_below(dfd / 2, dfn / 2, dfd / (dfd + dfn * y), mask)

    def _mean_and_variance(self, dfn: Any, dfd: Any) -> tuple[Any, Any]:
        bare = raw(dfd)
        two, four = np.where(bare > 2, dfd - 2, 1.0), np.where(bare > 4, dfd - 4, 1.0)
        variance = 2 * np.square(dfd) * (dfn + two) / (dfn * np.square(two) * four)
        return np.where(bare > 2, dfd / two, np.inf), np.where(bare > 4, variance, np.inf)

    def _skewness_and_kurtosis(self, dfn: Any, dfd: Any) -> tuple[Any, Any]:
        bare = raw(dfd)
        six, eight = np.where(bare > 6, dfd, 7.0), np.where(bare > 8, dfd, 9.0)
        skewness = (2 * dfn + six - 2) * np.sqrt(8 * (six - 4)) / ((six - 6) * np.sqrt(dfn * (dfn + six - 2)))
        both = dfn + eight - 2
        kurtosis = 12 * (dfn * (5 * eight - 22) * both + (eight - 4) * np.square(eight - 2))
        kurtosis = kurtosis / (dfn * (eight - 6) * (eight - 8) * both)
        return np.where(bare > 6, skewness, np.nan), np.where(bare > 8, kurtosis, np.nan)

    def _entropy(self, dfn: Any, dfd: Any) -> Any:
        half, other = dfn / 2, dfd / 2
        value = np.log(dfd) - np.log(dfn) + special.betaln(half, other) + (1 - half) * special.psi(half)
        return value - (1 + other) * special.psi(other) + (half + other) * special.psi(half + other)


@final
class LogNormal(_Positive):
    """The distribution of the exponential of a normal number whose standard deviation is `s`."""

    __slots__ = ()

    _flat_start = True

    shapes = ("s",)

    def _logpdf(self, y: Any, s: Any) -> Any:
        is_zero = raw(y) == 0
        logarithm = np.log(np.where(is_zero, 1.0, y))
        value = -np.square(logarithm) / (2 * np.square(s)) - np.log(s) - logarithm - _LOG_ROOT
        return np.where(is_zero, -np.inf, value)

    def _cdf(self, y: Any, s: Any) -> Any:
        return special.ndtr(np.log(y) / s)

    def _sf(self, y: Any, s: Any) -> Any:
        return special.ndtr(-np.log(y) / s)

    def _logcdf(self, y: Any, s: Any) -> Any:
        return special.log_ndtr(np.log(y) / s)

    def _logsf(self, y: Any, s: Any) -> Any:
        return special.log_ndtr(-np.log(y) / s)

    def _ppf(self, q: Any, s: Any) -> Any:
        return np.exp(s * special.ndtri(q))

    def _isf(self, q: Any, s: Any) -> Any:
        return np.exp(-s * special.ndtri(q))

    def _mean_and_variance(self, s: Any) -> tuple[Any, Any]:
        square = np.square(s)
        return np.exp(square / 2), np.expm1(square) * np.exp(square)

    def _skewness_and_kurtosis(self, s: Any) -> tuple[Any, Any]:
        less = np.expm1(np.square(s))
        more = less + 1
        # more**4 + 2 * more**3 + 3 * more**2 - 6, without its cancellation for small s.
        return (more + 2) * np.sqrt(less), less * (16 + less * (15 + less * (6 + less)))

    def _entropy(self, s: Any) -> Any:
        return 0.5 + _LOG_ROOT + np.log(s)


class _Weibull(ContinuousDistribution):
    """Abstract: a Weibull distribution, on one side of 0."""

    __slots__ = ()

    shapes = ("c",)

    def _moments_of_size(self, c: Any) -> tuple[Any, Any]:
        mean = special.gamma(1 + 1 / c)
        return mean, special.gamma(1 + 2 / c) - np.square(mean)

    def _skewness_and_kurtosis_of_size(self, c: Any) -> tuple[Any, Any]:
        one, two, three, four = (special.gamma(1 + order / c) for order in (1, 2, 3, 4))
        variance = two - one * one
        third = three - one * (3 * two - 2 * one * one)
        fourth = four - one * (4 * three - one * (6 * two - 3 * one * one))
        return third / variance**1.5, fourth / np.square(variance) - 3

    def _entropy(self, c: Any) -> Any:
        return _EULER - _EULER / c - np.log(c) + 1


def _weibull_logpdf(y: Any, c: Any) -> Any:
    return np.log(c) + special.xlogy(c - 1, y) - y**c


@final
class WeibullMinimum(_Weibull):
    """The Weibull distribution of shape `c`: that of the power 1 / c of an exponential number."""

    __slots__ = ()

    _has_poles = True

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, np.inf

    def _logpdf(self, y: Any, c: Any) -> Any:
        return _weibull_logpdf(y, c)

    def _pdf(self, y: Any, c: Any) -> Any:
        return self._pdf_with_end(y, raw(y) == 0, lambda: (y, c - 1, c), c)

    def _cdf(self, y: Any, c: Any) -> Any:
        return one_minus_exp_.call(y**c)

    def _sf(self, y: Any, c: Any) -> Any:
        return np.exp(-(y**c))

    def _logsf(self, y: Any, c: Any) -> Any:
        return -(y**c)

    def _ppf(self, q: Any, c: Any) -> Any:
        return (-np.log1p(-q)) ** (1 / c)

    def _isf(self, q: Any, c: Any) -> Any:
        return (-np.log(q)) ** (1 / c)

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        return self._moments_of_size(c)

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        return self._skewness_and_kurtosis_of_size(c)


@final
class WeibullMaximum(_Weibull):
    """The Weibull distribution of shape `c` on the negative numbers."""

    __slots__ = ()

    _has_poles = True

    _inner = -0.5

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return -np.inf, 0.0

    def _logpdf(self, y: Any, c: Any) -> Any:
        return _weibull_logpdf(-y, c)

    def _pdf(self, y: Any, c: Any) -> Any:
        return self._pdf_with_end(y, raw(y) == 0, lambda: (-y, c - 1, c), c)

    def _cdf(self, y: Any, c: Any) -> Any:
        return np.exp(-((-y) ** c))

    def _logcdf(self, y: Any, c: Any) -> Any:
        return -((-y) ** c)

    def _sf(self, y: Any, c: Any) -> Any:
        return one_minus_exp_.call((-y) ** c)

    def _ppf(self, q: Any, c: Any) -> Any:
        return -((-np.log(q)) ** (1 / c))

    def _isf(self, q: Any, c: Any) -> Any:
        return -((-np.log1p(-q)) ** (1 / c))

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        mean, variance = self._moments_of_size(c)
        return -mean, variance

    def _skewness_and_kurtosis(self, c: Any) -> tuple[Any, Any]:
        skewness, kurtosis = self._skewness_and_kurtosis_of_size(c)
        return -skewness, kurtosis


@final
class Pareto(ContinuousDistribution):
    """The Pareto distribution of exponent `b`, on the numbers from 1 on."""

    __slots__ = ()

    shapes = ("b",)
    _inner = 2.0

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 1.0, np.inf

    def _logpdf(self, y: Any, b: Any) -> Any:
        return np.log(b) - (b + 1) * np.log(y)

    def _cdf(self, y: Any, b: Any) -> Any:
        return 1 - y ** (-b)

    def _sf(self, y: Any, b: Any) -> Any:
        return y ** (-b)

    def _logsf(self, y: Any, b: Any) -> Any:
        return -b * np.log(y)

    def _ppf(self, q: Any, b: Any) -> Any:
        return (1 - q) ** (-1 / b)

    def _isf(self, q: Any, b: Any) -> Any:
        return q ** (-1 / b)

    def _mean_and_variance(self, b: Any) -> tuple[Any, Any]:
        bare = raw(b)
        one, two = np.where(bare > 1, b - 1, 1.0), np.where(bare > 2, b - 2, 1.0)
        return np.where(bare > 1, b / one, np.inf), np.where(bare > 2, b / (np.square(one) * two), np.inf)

    def _skewness_and_kurtosis(self, b: Any) -> tuple[Any, Any]:
        bare = raw(b)
        three, four = np.where(bare > 3, b, 4.0), np.where(bare > 4, b, 5.0)
        skewness = 2 * (three + 1) / (three - 3) * np.sqrt((three - 2) / three)
        kurtosis = 6 * (four**3 + four * four - 6 * four - 2) / (four * (four - 3) * (four - 4))
        return np.where(bare > 3, skewness, np.nan), np.where(bare > 4, kurtosis, np.nan)

    def _entropy(self, b: Any) -> Any:
        return 1 + 1 / b - np.log(b)


@final
class PowerLaw(ContinuousDistribution):
    """The power law of exponent `a`, on the numbers from 0 to 1."""

    __slots__ = ()

    _has_poles = True

    shapes = ("a",)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _logpdf(self, y: Any, a: Any) -> Any:
        return np.log(a) + special.xlogy(a - 1, y)

    def _pdf(self, y: Any, a: Any) -> Any:
        return self._pdf_with_end(y, raw(y) == 0, lambda: (y, a - 1, a), a)

    def _cdf(self, y: Any, a: Any) -> Any:
        return y**a

    def _logcdf(self, y: Any, a: Any) -> Any:
        return a * np.log(y)

    def _sf(self, y: Any, a: Any) -> Any:
        return 1 - y**a

    def _ppf(self, q: Any, a: Any) -> Any:
        return q ** (1 / a)

    def _isf(self, q: Any, a: Any) -> Any:
        return np.exp(np.log1p(-q) / a)

    def _mean_and_variance(self, a: Any) -> tuple[Any, Any]:
        return a / (a + 1), a / ((a + 2) * np.square(a + 1))

    def _skewness_and_kurtosis(self, a: Any) -> tuple[Any, Any]:
        skewness = 2 * (1 - a) / (a + 3) * np.sqrt((a + 2) / a)
        return skewness, 6 * (a**3 - a * a - 6 * a + 2) / (a * (a + 3) * (a + 4))

    def _entropy(self, a: Any) -> Any:
        return 1 - 1 / a - np.log(a)


@final
class TruncatedNormal(ContinuousDistribution):
    """The normal distribution between `a` and `b`, in units of the scale."""

    __slots__ = ()

    shapes = ("a", "b")

    def _valid(self, a: Any, b: Any) -> Any:
        return a < b

    def _support(self, a: Any, b: Any) -> tuple[Any, Any]:
        return a, b

    def _inside(self, method: str, x: Any, args: Sequence[Any], kwds: Mapping[str, Any]) -> Any:
        y, shapes, moves, below, above = super()._inside(method, x, args, kwds)
        first, last = (np.asarray(raw(shape)) for shape in shapes)
        # The inner point of other families may lie outside of this one.
        middle = _middle(first, last)
        return np.where(below | above, middle, y) if (below | above).any() else y, shapes, moves, below, above

    @staticmethod
    def _log_mass(a: Any, b: Any) -> Any:
        """Return the logarithm of the probability between two numbers, also far from 0."""
        a, b = np.broadcast_arrays(_without_infinite(a), _without_infinite(b))
        is_right = raw(a) > 0
        # By symmetry: the tail on the left has the digits.
        low, high = np.where(is_right, -b, a), np.where(is_right, -a, b)
        is_left = raw(high) <= 0
        inner_low, inner_high = np.where(is_left, -1.0, low), np.where(is_left, 1.0, high)
        middle = np.log1p(-special.ndtr(inner_low) - special.ndtr(-inner_high))
        is_narrow = ~is_left & (raw(high) - raw(low) < 0.5)
        if np.any(is_narrow):
            middle = np.where(is_narrow, _log_narrow_mass(low, high, is_narrow), middle)
        tail_low, tail_high = np.where(is_left, low, -2.0), np.where(is_left, high, -1.0)
        larger = special.log_ndtr(tail_high)
        # Below minus infinity there is nothing to be subtracted.
        is_bounded = np.isfinite(raw(tail_low))
        tail_low = np.where(is_bounded, tail_low, 2 * raw(tail_high) - 1)
        rest = np.log(-np.expm1(special.log_ndtr(tail_low) - larger))
        return np.where(is_left, larger + np.where(is_bounded, rest, 0.0), middle)

    def _logpdf(self, y: Any, a: Any, b: Any) -> Any:
        return -0.5 * y * y - _LOG_ROOT - self._log_mass(a, b)

    def _logcdf(self, y: Any, a: Any, b: Any) -> Any:
        return self._log_mass(a, y) - self._log_mass(a, b)

    def _logsf(self, y: Any, a: Any, b: Any) -> Any:
        return self._log_mass(y, b) - self._log_mass(a, b)

    def _cdf(self, y: Any, a: Any, b: Any) -> Any:
        is_end = raw(y) == raw(a)
        inside = np.exp(self._logcdf(np.where(is_end, _middle(raw(a), raw(b)), y), a, b))
        # The area of a rectangle, whose derivatives of first and second order are right where its width is 0.
        return np.where(is_end, self._pdf((y + a) / 2, a, b) * (y - a), inside) if np.any(is_end) else inside

    def _sf(self, y: Any, a: Any, b: Any) -> Any:
        is_end = raw(y) == raw(b)
        inside = np.exp(self._logsf(np.where(is_end, _middle(raw(a), raw(b)), y), a, b))
        return np.where(is_end, self._pdf((y + b) / 2, a, b) * (b - y), inside) if np.any(is_end) else inside

    def _isf(self, q: Any, a: Any, b: Any) -> Any:
        return -self._ppf(q, -b, -a)

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        # On the side where the tail has the digits.
        is_left = np.broadcast_to(raw(a) < 0, np.broadcast_shapes(np.shape(raw(a)), np.shape(raw(b)), np.shape(raw(q))))
        a, b = _without_infinite(a), _without_infinite(b)
        left, right = np.where(is_left, q, 0.5), np.where(is_left, 0.5, q)
        low = special.ndtri_exp(np.logaddexp(special.log_ndtr(a), np.log(left) + self._log_mass(a, b)))
        high = -special.ndtri_exp(np.logaddexp(special.log_ndtr(-b), np.log1p(-right) + self._log_mass(a, b)))
        return np.where(is_left, low, high)

    def _mean_and_variance(self, a: Any, b: Any) -> tuple[Any, Any]:
        mass = self._log_mass(a, b)
        first, last = (np.exp(-0.5 * end * end - _LOG_ROOT - mass) for end in (a, b))
        mean = first - last
        return mean, 1 + _times_end(a, first) - _times_end(b, last) - mean * mean

    def _skewness_and_kurtosis(self, a: Any, b: Any) -> tuple[Any, Any]:
        mass = self._log_mass(a, b)
        first, last = (np.exp(-0.5 * end * end - _LOG_ROOT - mass) for end in (a, b))
        moments = [1.0, first - last]
        for order in (2, 3, 4):
            edges = _times_end(a, first, order - 1) - _times_end(b, last, order - 1)
            moments.append(edges + (order - 1) * moments[order - 2])
        _, one, two, three, four = moments
        variance = two - one * one
        third = three - one * (3 * two - 2 * one * one)
        fourth = four - one * (4 * three - one * (6 * two - 3 * one * one))
        return third / variance**1.5, fourth / np.square(variance) - 3

    def _entropy(self, a: Any, b: Any) -> Any:
        mass = self._log_mass(a, b)
        first, last = (np.exp(-0.5 * end * end - _LOG_ROOT - mass) for end in (a, b))
        return _LOG_ROOT + 0.5 + mass + (_times_end(a, first) - _times_end(b, last)) / 2


#: Of Gauss and Legendre.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def _log_narrow_mass(low: Any, high: Any, mask: Any) -> Any:
    """Return the logarithm of the normal probability between two near numbers where a mask holds, by quadrature."""
    low, high = np.where(mask, low, 0.0), np.where(mask, high, 0.25)
    half = (high - low) / 2
    points = ((low + high) / 2)[..., np.newaxis] + half[..., np.newaxis] * _NODES.astype(half.dtype)
    densities = np.exp(-0.5 * points * points) * _WEIGHTS.astype(half.dtype)
    return np.log(half) + np.log(np.sum(densities, -1)) - _LOG_ROOT


def _middle(first: Any, last: Any) -> Any:
    """Return a number between two, of which any may be infinite."""
    start = np.where(np.isfinite(first), first, np.where(np.isfinite(last), last - 2, -1.0))
    return (start + np.where(np.isfinite(last), last, start + 2)) / 2


def _without_infinite(end: Any) -> Any:
    """Return an end, detached where it is infinite: it has no derivative there."""
    is_finite = np.isfinite(raw(end))
    return end if np.all(is_finite) else np.where(is_finite, end, raw(end))


def _times_end(end: Any, density: Any, power: int = 1) -> Any:
    """Return a power of an end times the density there, which is 0 for an infinite one."""
    return np.where(np.isfinite(raw(end)), end, 0.0) ** power * density


beta = Beta("beta")
cauchy = Cauchy("cauchy")
chi2 = ChiSquared("chi2")
expon = Exponential("expon")
f = FRatio("f")
gamma = Gamma("gamma")
gumbel_l = GumbelLeft("gumbel_l")
gumbel_r = GumbelRight("gumbel_r")
halfcauchy = HalfCauchy("halfcauchy")
halfnorm = HalfNormal("halfnorm")
invgamma = InverseGamma("invgamma")
laplace = Laplace("laplace")
logistic = Logistic("logistic")
lognorm = LogNormal("lognorm")
norm = Normal("norm")
pareto = Pareto("pareto")
powerlaw = PowerLaw("powerlaw")
rayleigh = Rayleigh("rayleigh")
t = StudentT("t")
truncnorm = TruncatedNormal("truncnorm")
uniform = Uniform("uniform")
weibull_max = WeibullMaximum("weibull_max")
weibull_min = WeibullMinimum("weibull_min")
