"""The normal distribution function, its logarithm, and their inverses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import Primitive
from ..ufuncs import special
from .error_functions import gaussian_
from .rules import differentiable

__all__ = ["log_ndtr", "ndtr", "ndtri", "ndtri_exp"]

_HEIGHT = 1 / math.sqrt(2 * math.pi)

ndtr: Primitive = differentiable(special.ndtr, "x", x=lambda g, x: g * (_HEIGHT * gaussian_.call(x, 0.5)))
ndtri: Primitive = differentiable(special.ndtri, "y", y=lambda g, out: g * (np.exp(0.5 * (out * out)) / _HEIGHT))


def _log_ndtr_slope(x: Any) -> Any:
    """Return the density over the distribution function, which both vanish far below 0."""
    if x.dtype.kind == "c":
        return _HEIGHT * np.exp(-0.5 * (x * x) - special.log_ndtr(x))
    is_below = raw(x) < 0
    below, above = np.where(is_below, x, 0.0), np.where(is_below, 0.0, x)
    tail = math.sqrt(2 / math.pi) / special.erfcx(-below / math.sqrt(2))
    return np.where(is_below, tail, _HEIGHT * gaussian_.call(above, 0.5) / special.ndtr(above))


log_ndtr: Primitive = differentiable(special.log_ndtr, "x", x=lambda g, x: g * _log_ndtr_slope(x))
ndtri_exp: Primitive = differentiable(special.ndtri_exp, "y", y=lambda g, out: g / _log_ndtr_slope(out))
