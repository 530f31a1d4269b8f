"""The Landau distribution, whose density is an integral; SciPy has its values, and its derivatives are found here.

With s * log(s) + x * s for the exponent, the density is the integral of the exponential function along a line to the
right of 0, over 2 pi i. A factor s makes the next derivative of it, and 1 / s the distribution function. For x < -1 the
line goes through the saddle, s = exp(-1 - x). For others it is bent around the negative numbers, -t, where it becomes
that of exp(-t * log(t) - x * t) * sin(pi * t) / pi. SciPy's variable is this x, less log(pi / 2), over pi / 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ..ufuncs import special
from .implicit import Implicit
from .transforming import log_of_rest

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["landau"]

#: What a variable of SciPy's is multiplied by.
_FACTOR = math.pi / 2
#: Steps of trapezoidal rules, which are small enough for all digits, and where these end.
_SADDLE_NODES = np.arange(0.0, 5.0, 0.08)
_REAL_NODES = np.arange(-3.8, 4.2, 0.08)
#: Below it the integral along a line is taken, and below the other one SciPy's values are about to underflow.
_TO_SADDLE, _LEAST = -1.0, -2.0


def _saddle(x: Any) -> Any:
    """Return where the saddle is, or a number as great as those next to it, for their derivatives must be finite."""
    return np.exp(np.minimum(-1 - x, 690.0))


def _saddle_integrals(x: Any, orders: tuple[int, ...]) -> list[Any]:
    """Return derivatives of the density over exp(-saddle) * saddle**order, for x < -1; of order -1, its integral."""
    saddle = _saddle(x)
    root = np.sqrt(saddle)
    nodes = _SADDLE_NODES.reshape(-1, *[1] * np.ndim(x))
    # The distance from the saddle in units of it.
    tau = np.sinh(nodes) / root
    growth = 0.5 * np.log1p(tau * tau)
    angle = np.arctan(tau)
    # Far out the two terms of the phase cancel all but a cube.
    is_small = tau < 1e-4
    cube = tau * tau * tau / 6
    phase = np.where(is_small, cube, angle - tau + growth * tau)
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.exp(saddle * (growth - tau * angle)) * np.cosh(nodes)
        turn = np.where(terms > 0, saddle * phase, 0.0)
    terms[0] /= 2
    step = _SADDLE_NODES[1] - _SADDLE_NODES[0]
    return [
        root * step / math.pi * np.sum(terms * np.exp(order * growth) * np.cos(turn + order * angle), 0)
        for order in orders
    ]


def _real_integrals(x: Any, orders: tuple[int, ...]) -> list[Any]:
    """Return derivatives of the density, for x >= -1, over unit**2 * (-unit)**order, where the unit is 1 / (2 + x).

    That of order -1 is the probability of greater values.
    """
    nodes = _REAL_NODES.reshape(-1, *[1] * np.ndim(x))
    # The trapezoidal rule converges fast with an exponential function within another.
    parts = np.exp(nodes - np.exp(-nodes))
    t = parts / (2 + x)
    weights = np.exp(-special.xlogy(t, t) - x * t) * np.sinc(t) * np.square(parts) * (1 + np.exp(-nodes))
    step = _REAL_NODES[1] - _REAL_NODES[0]
    return [step * np.sum(weights * parts**order, 0) for order in orders]


def _by_side(x: Any, low: Any, high: Any) -> Any:
    """Return one function of the x of numbers where it is below -1, and another where it is not."""
    x = _FACTOR * np.asarray(x, float) + math.log(_FACTOR)
    found = np.full(x.shape, np.nan)
    for mask, function in ((x < _TO_SADDLE, low), (x >= _TO_SADDLE, high)):
        if mask.any():
            found[mask] = function(x[mask])
    return found


@primitive()
def landau_ratio_(y: Any, order: int, power: int) -> Array:
    """Return the derivative of the density of order `order + power` over that of `order`.

    That of order -1 is the distribution function where x < -1, and elsewhere minus the probability of greater values.
    """

    def low(x: Any) -> Any:
        above, below = _saddle_integrals(x, (order + power, order))
        return (_FACTOR * _saddle(x)) ** power * (above / below)

    def high(x: Any) -> Any:
        above, below = _real_integrals(x, (order + power, order))
        return (-_FACTOR / (2 + x)) ** power * (above / below)

    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        return np.asarray(_by_side(y, low, high)).astype(np.result_type(y, np.float32), copy=False)


@derivative(landau_ratio_, "y")
def _(g: Any, y: Array, out: Array, order: int, power: int) -> Array:
    return g * (_ratio(y, order, power + 1) - out * _ratio(y, order, 1))


_ratio = landau_ratio_.call


@primitive()
def landau_log_(y: Any, order: int) -> Array:
    """Return the logarithm of the density; for the order -1 that of the probability of the tail where y is."""
    below, above = ("pdf", "pdf") if order == 0 else ("cdf", "sf")

    def known(method: str, x: Any) -> Any:
        return getattr(scipy_stats.landau, method)((x - math.log(_FACTOR)) / _FACTOR)

    def low(x: Any) -> Any:
        is_far = x < _LEAST
        values = np.empty_like(x)
        values[~is_far] = np.log(known(below, x[~is_far]))
        far = x[is_far]
        (integral,) = _saddle_integrals(far, (order,))
        values[is_far] = np.log(integral) - order * (1 + far) - np.exp(-1 - far) + (1 + order) * math.log(_FACTOR)
        return values

    def high(x: Any) -> Any:
        values = known(above, x)
        # Where the square of a great number overflows.
        is_far = values < 1e-290
        logarithm = (1 + order) * math.log(_FACTOR) - (2 + order) * np.log(x)
        return np.where(is_far, logarithm, np.log(np.where(is_far, 1.0, values)))

    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        return np.asarray(_by_side(y, low, high)).astype(np.result_type(y, np.float32), copy=False)


@derivative(landau_log_, "y")
def _(g: Any, y: Array, order: int) -> Array:
    return g * _ratio(y, order, 1)


@primitive()
def landau_pdf_(y: Any) -> Array:
    """Return the density."""
    return np.asarray(scipy_stats.landau.pdf(y)).astype(np.result_type(y, np.float32), copy=False)


@derivative(landau_pdf_, "y")
def _(g: Any, y: Array, out: Array) -> Array:
    is_nothing = raw(out) == 0
    return g * np.where(is_nothing, 0.0, out * _ratio(np.where(is_nothing, 0.0, y), 0, 1))


@primitive()
def landau_cdf_(y: Any, from_above: bool) -> Array:
    """Return the probability of values up to `y`, or `from_above` of greater ones."""
    function = scipy_stats.landau.sf if from_above else scipy_stats.landau.cdf
    return np.asarray(function(y)).astype(np.result_type(y, np.float32), copy=False)


@derivative(landau_cdf_, "y")
def _(g: Any, y: Array, from_above: bool) -> Array:
    density = landau_pdf_.call(y)
    return -g * density if from_above else g * density


@final
class Landau(Implicit):
    """The Landau distribution, of the energy that a particle loses in a thin layer."""

    __slots__ = ()

    def _logpdf(self, y: Any) -> Any:
        return landau_log_.call(y, 0)

    def _pdf(self, y: Any) -> Any:
        return landau_pdf_.call(y)

    def _cdf(self, y: Any) -> Any:
        return landau_cdf_.call(y, False)

    def _sf(self, y: Any) -> Any:
        return landau_cdf_.call(y, True)

    def _logcdf(self, y: Any) -> Any:
        return self._tail(y, is_left=True)

    def _logsf(self, y: Any) -> Any:
        return self._tail(y, is_left=False)

    @staticmethod
    def _tail(y: Any, is_left: bool) -> Any:
        value = landau_log_.call(y, -1)
        is_other = (_FACTOR * raw(y) + math.log(_FACTOR) >= _TO_SADDLE) == is_left
        if not np.any(is_other):
            return value
        return np.where(is_other, log_of_rest(np.where(is_other, value, -1.0)), value)

    def _mean_and_variance(self) -> tuple[Any, Any]:
        return np.nan, np.nan

    def _skewness_and_kurtosis(self) -> tuple[Any, Any]:
        return np.nan, np.nan


landau: Landau = Landau("landau")
