"""Kolmogorov's limiting distribution, and Owen's T function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph.values import raw
from ...ops.primitive import differentiable
from ..ufuncs import special

__all__ = ["kolmogi", "kolmogorov", "owens_t"]


def _kolmogorov_slope(y: Any) -> Any:
    """Return minus the density: of two series, of which each converges fast where the other does not."""
    is_low, is_positive = raw(y) < 1, raw(y) > 0.02
    low, high = np.where(is_low & is_positive, y, 1.0), np.where(is_low, 1.0, y)
    square = np.square(low)
    near: Any = 0.0
    for index in range(1, 5):
        rate = (2 * index - 1) ** 2 * math.pi**2 / 8
        near = near + np.exp(-rate / square) * (2 * rate / square - 1)
    far: Any = 0.0
    for index in range(1, 6):
        far = far + (-1) ** index * index**2 * np.exp(-2 * index**2 * np.square(high))
    return np.where(is_low, np.where(is_positive, -math.sqrt(2 * math.pi) * near / square, 0.0), 8 * high * far)


kolmogorov = differentiable(special.kolmogorov, "y", y=lambda g, y: g * _kolmogorov_slope(y))
kolmogi = differentiable(special.kolmogi, "p", p=lambda g, out: g / _kolmogorov_slope(out))

owens_t = differentiable(
    special.owens_t,
    "h a",
    h=lambda g, h, a: (
        g * (np.exp(-0.5 * np.square(h)) * special.erf(a * h / math.sqrt(2)) / (-2 * math.sqrt(2 * math.pi)))
    ),
    a=lambda g, h, a: g * (np.exp(-0.5 * np.square(h) * (1 + a * a)) / (2 * math.pi * (1 + a * a))),
)
