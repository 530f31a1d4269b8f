"""The normal distribution and those that are made of it.

The density, its logarithm and the probability of the normal distribution are one operation each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor
from ..arguments import floating
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .mean_powers import skewness_and_kurtosis
from .supports import OnLine, Positive
from .transforming import log_of_rest

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["halfnorm", "log_mills_ratio", "lognorm", "norm", "truncnorm"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def log_mills_ratio(x: Any) -> Any:
    """Return the logarithm of the probability above x over the density there, of a normal variable, for x above 0."""
    return np.log(special.erfcx(x / math.sqrt(2))) + 0.5 * math.log(math.pi / 2)


def _normal_standard(x: Any, loc: Any, scale: Any) -> Any:
    return (x - loc) / scale


def _bounded_standard(x: Any, loc: Any, scale: Any) -> Any:
    """Return the standard variable, to be multiplied by a density; 0 where that is 0, at infinity and next to it."""
    y = _normal_standard(x, loc, scale)
    is_far = np.abs(raw(y)) > 1e100
    return _normal_standard(np.where(is_far, loc, x), loc, scale) if np.any(is_far) else y


@primitive()
def normal_logpdf_(x: Any, loc: Any, scale: Any) -> Array:
    """Return the logarithm of the normal density."""
    y = _normal_standard(x, loc, scale)
    # The logarithm of a plain number is one, too: NumPy's would widen narrow numbers.
    return -0.5 * y * y - _LOG_ROOT - (math.log(scale) if isinstance(scale, int | float) else np.log(scale))


@derivative(normal_logpdf_, "x")
def _(g: Any, x: Any, loc: Any, scale: Any) -> Array:
    return g * ((loc - x) / (scale * scale))


@derivative(normal_logpdf_, "loc")
def _(g: Any, x: Any, loc: Any, scale: Any) -> Array:
    return g * ((x - loc) / (scale * scale))


@derivative(normal_logpdf_, "scale")
def _(g: Any, x: Any, loc: Any, scale: Any) -> Array:
    y = _normal_standard(x, loc, scale)
    return g * ((y * y - 1) / scale)


@primitive()
def normal_pdf_(x: Any, loc: Any, scale: Any) -> Array:
    """Return the normal density."""
    y = _normal_standard(x, loc, scale)
    return np.exp(-0.5 * y * y) / (math.sqrt(2 * math.pi) * scale)


@derivative(normal_pdf_, "x")
def _(g: Any, x: Array, loc: Any, scale: Any, out: Any) -> Array:
    return g * (-out * _bounded_standard(x, loc, scale) / scale)


@derivative(normal_pdf_, "loc")
def _(g: Any, x: Any, loc: Array, scale: Any, out: Any) -> Array:
    return g * (out * _bounded_standard(x, loc, scale) / scale)


@derivative(normal_pdf_, "scale")
def _(g: Any, x: Any, loc: Any, scale: Any, out: Any) -> Array:
    y = _bounded_standard(x, loc, scale)
    return g * (out * (y * y - 1) / scale)


@primitive()
def normal_cdf_(x: Any, loc: Any, scale: Any) -> Any:
    """Return the probability of values up to x."""
    return special.ndtr(_normal_standard(x, loc, scale))


@derivative(normal_cdf_, "x")
def _(g: Any, x: Array, loc: Any, scale: Any) -> Array:
    return g * normal_pdf_.call(x, loc, scale)


@derivative(normal_cdf_, "loc")
def _(g: Any, x: Any, loc: Array, scale: Any) -> Array:
    return -g * normal_pdf_.call(x, loc, scale)


@derivative(normal_cdf_, "scale")
def _(g: Any, x: Any, loc: Any, scale: Array) -> Array:
    return -g * (normal_pdf_.call(x, loc, scale) * _bounded_standard(x, loc, scale))


@final
class Normal(OnLine):
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


@final
class HalfNormal(Positive):
    """The distribution of the size of a normal number."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return 0.5 * math.log(2 / math.pi) - 0.5 * y * y

    def _cdf(self, y: Any) -> Any:
        return special.erf(y / math.sqrt(2))

    def _sf(self, y: Any) -> Any:
        return 2 * special.ndtr(-y)

    def _logsf(self, y: Any) -> Any:
        is_near = raw(y) < 1
        far = math.log(2) + special.log_ndtr(-y)
        if not np.any(is_near):
            return far
        # The terms would cancel next to 0.
        return np.where(is_near, np.log1p(-special.erf(np.where(is_near, y, 0.0) / math.sqrt(2))), far)

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
class LogNormal(Positive):
    """The distribution of the exponential of a normal number whose standard deviation is `s`."""

    __slots__ = ()

    _flat_start = True

    shapes: tuple[str, ...] = ("s",)

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


@final
class TruncatedNormal(ContinuousDistribution):
    """The normal distribution between `a` and `b`, in units of the scale."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")

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
        rest = log_of_rest(special.log_ndtr(tail_low) - larger)
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
        return skewness_and_kurtosis(moments[1:])

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


halfnorm: HalfNormal = HalfNormal("halfnorm")
lognorm: LogNormal = LogNormal("lognorm")
norm: Normal = Normal("norm")
truncnorm: TruncatedNormal = TruncatedNormal("truncnorm")
