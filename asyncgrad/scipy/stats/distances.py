"""Powers of the distance to an end of a support, and their logarithms, which may be infinite without a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ..ufuncs import special

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["distance_log_", "distance_power_", "end_", "linear_term"]


@primitive()
def distance_power_(distance: Any, exponent: Any) -> Array:
    """Return a power of a distance, which may be 0; what is infinite then, in the derivatives too, warns of nothing."""
    with np.errstate(divide="ignore"):
        return np.power(distance, exponent)


def _slope(distance: Any, exponent: Any, reduced: Any) -> Any:
    """Return `exponent * distance**reduced`, which is 0 where the exponent is."""
    is_constant = raw(exponent) == 0
    slope = exponent * distance_power_.call(np.where(is_constant, 1.0, distance), reduced)
    return np.where(is_constant, 0.0, slope)


@derivative(distance_power_, "distance")
def _(g: Any, distance: Array, exponent: Any) -> Array:
    return g * _slope(distance, exponent, exponent - 1)


@derivative(distance_power_, "exponent")
def _(g: Any, distance: Any, exponent: Array, out: Array) -> Array:
    is_zero = raw(distance) == 0
    at_zero = np.where(raw(exponent) > 0, 0.0, -np.inf)
    return g * np.where(is_zero, at_zero, np.where(is_zero, 1.0, out) * np.log(np.where(is_zero, 1.0, distance)))


@primitive()
def distance_log_(distance: Any, exponent: Any) -> Any:
    """Return the logarithm of a power of a distance, which may be 0."""
    with np.errstate(divide="ignore"):
        return special.xlogy(exponent, distance)


@derivative(distance_log_, "distance")
def _(g: Any, distance: Array, exponent: Any) -> Array:
    return g * _slope(distance, exponent, -1.0)


@derivative(distance_log_, "exponent")
def _(g: Any, distance: Any) -> Array:
    return g * distance_log_.call(distance, 1.0)


@primitive()
def end_(value: Any, q: Any, slope: Any) -> Array:
    """Return quantiles, of which some are ends of a support: there their derivative by q is `slope`, 0 elsewhere."""
    return value


@derivative(end_, "value")
def _(g: Any) -> Any:
    return g


@derivative(end_, "q")
def _(g: Any, slope: Any) -> Any:
    # What is infinite is multiplied by no 0.
    return g * np.where(g == 0, 0.0, slope)


def linear_term(distance: Any, exponent: Any) -> Any:
    """Return a power of a distance next to 0, to first order: 0 where the exponent is not 1."""
    return np.where(raw(exponent) == 1, 1.0, 0.0) * distance
