"""The derivative of parabolic cylinder functions by their order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ..ufuncs import special
from .gamma_functions import rgamma_slope
from .hypergeometric import confluent_by
from .tricomi import tricomi_by_parameter

__all__ = ["cylinder_by_order"]


def cylinder_by_order(v: Any, x: Any, value: Any) -> Any:
    """Return the derivative of Whittaker's function D of the order v, by v.

    Args:
        v: orders.
        x: real numbers.
        value: those of the function.
    """
    # Beyond 1 the two terms of the series would cancel.
    right = raw(x) > 1
    if np.all(right):
        return _on_the_right(v, x, value)
    result = _by_series(v, np.where(right, 0.0, x), np.where(right, 0.0, value))
    return np.where(right, _on_the_right(v, np.where(right, x, 2.0), value), result) if np.any(right) else result


def _on_the_right(v: Any, x: Any, value: Any) -> Any:
    """Return that of 2**(v / 2) * exp(-x**2 / 4) * hyperu(-v / 2, 1 / 2, x**2 / 2), for x > 0."""
    square = x * x / 2
    slope = tricomi_by_parameter(v / -2, 0.5, square, by_second=False)
    return (math.log(2) * value - np.exp(math.log(2) / 2 * v - square / 2) * slope) / 2


def _by_series(v: Any, x: Any, value: Any) -> Any:
    """Return that of sqrt(pi) * 2**(v / 2) * exp(-x**2 / 4) times what two confluent functions add up to."""
    square = x * x / 2
    scale = np.exp(math.log(2) / 2 * v - square / 2) * math.sqrt(math.pi)
    even = special.rgamma((1 - v) / 2) * confluent_by(v / -2, 0.5, square, 0)
    even = even + rgamma_slope((1 - v) / 2) * special.hyp1f1(v / -2, 0.5, square)
    odd = special.rgamma(v / -2) * confluent_by((1 - v) / 2, 1.5, square, 0)
    odd = odd + rgamma_slope(v / -2) * special.hyp1f1((1 - v) / 2, 1.5, square)
    return (math.log(2) * value - scale * (even - math.sqrt(2) * x * odd)) / 2
