"""Noncentral chi-square variables of a great noncentrality, by normal ones: there the series take hours.

With x = nc * y**2 + df * y the saddlepoint is (1 - 1 / y) / 2, and in d = y - 1 no terms of its expansion cancel. The
normal variable is that of Barndorff-Nielsen, r + log(v / r) / r. Its error is about 1 / nc**1.5, and the relative error
of the density 1 / nc**2, in both tails.

Source: Lugannani and Rice, 1980; Barndorff-Nielsen, 1990; Daniels, Saddlepoint Approximations in Statistics, 1954.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from .supports import logarithm_over

__all__ = [
    "NEARLY_NORMAL",
    "chi_squared_of_normal",
    "is_nearly_normal",
    "log_density_of_great",
    "normal_of_chi_squared",
]

#: From which noncentrality on these have all digits.
NEARLY_NORMAL = 1e8


def is_nearly_normal(nc: Any) -> Any:
    """Return where the noncentrality is great."""
    return raw(nc) >= NEARLY_NORMAL


def _saddlepoint(x: Any, df: Any, nc: Any) -> Any:
    """Return d of a variable."""
    y = 2 * x / (df + np.sqrt(np.square(df) + 4 * nc * x))
    # By the distance from the mean, which keeps its digits.
    return (x - nc - df) / (nc * (y + 1) + df)


def _bend(d: Any) -> Any:
    """Return (log(1 + d) - d + d**2 / 2) / d**3, about 1 / 3."""
    is_small = np.abs(raw(d)) < 0.2
    near, far = np.where(is_small, d, 0.0), np.where(is_small, 1.0, d)
    series: Any = 0.0
    for power in range(26, 2, -1):
        series = series * -near + 1 / power
    return np.where(is_small, series, (np.log1p(far) - far + np.square(far) / 2) / far**3)


def _normal_of(d: Any, df: Any, nc: Any) -> tuple[Any, Any]:
    """Return the normal variable at a saddlepoint, and its derivative but for less than 1 / nc of it."""
    # Far below there is nothing, and the terms mean nothing.
    safe = np.where(raw(d) > -0.5, d, -0.5)
    bend = _bend(safe)
    square = nc + df * (0.5 - safe * bend)
    root = np.sqrt(square)
    # Of v / r the square is 1 + d * growth.
    growth = (nc + df * bend) / square
    return d * root + logarithm_over(safe, growth) / (2 * root), (nc + df / (2 * (1 + safe))) / root


def normal_of_chi_squared(x: Any, df: Any, nc: Any) -> Any:
    """Return the normal variable of a noncentral chi-square one."""
    return _normal_of(_saddlepoint(x, df, nc), df, nc)[0]


def chi_squared_of_normal(w: Any, df: Any, nc: Any) -> Any:
    """Return the noncentral chi-square variable of a normal one."""
    d: Any = 0.0 * (w + df + nc)
    # Newton's steps: each has at least twice the digits.
    for _ in range(6):
        found, slope = _normal_of(d, df, nc)
        d = d + (w - found) / slope
    return nc + df + d * (nc * (d + 2) + df)


def log_density_of_great(x: Any, df: Any, nc: Any) -> Any:
    """Return the logarithm of the density."""
    d = _saddlepoint(x, df, nc)
    safe = np.where(raw(d) > -0.5, d, -0.5)
    y = 1 + safe
    second, third, fourth = (
        factor * y**order * (order * nc * y + df) for order, factor in ((2, 2.0), (3, 8.0), (4, 48.0))
    )
    more = fourth / np.square(second) / 8 - 5 * np.square(third) / (24 * second**3)
    return (
        np.log1p(more) - 0.5 * np.log(2 * math.pi * second) - np.square(d) * (nc + df * (0.5 - safe * _bend(safe))) / 2
    )
