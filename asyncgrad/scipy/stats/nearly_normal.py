"""Noncentral chi-square variables of a great noncentrality, by normal ones: there the series take hours.

The root of such a variable is next to the root `b` of the noncentrality. With z = root - b and u = z / b, its
distribution function is that of a normal variable at z + g(u) / b + h(u) / b**3 + ..., whose terms follow from the
expansion of the Bessel function in the density. They keep their digits in both tails.
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

#: From which noncentrality on, of so many degrees of freedom at most, the terms below have all digits.
NEARLY_NORMAL = 1e8
_MOST = 20.0
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def is_nearly_normal(df: Any, nc: Any) -> Any:
    """Return where the noncentrality is great."""
    return (raw(nc) >= NEARLY_NORMAL) & (raw(df) <= _MOST)


def _shift(z: Any, df: Any, b: Any) -> Any:
    """Return by how much the normal variable is more than the distance of the root."""
    a, u = (df - 1) / 2, z / b
    first = -a * logarithm_over(u, 1.0)
    third = a * ((0.25 + a / 24) * u - 1 / 6)
    return (first + third / (b * b)) / b


def normal_of_chi_squared(x: Any, df: Any, nc: Any) -> Any:
    """Return the normal variable of a noncentral chi-square one."""
    b = np.sqrt(nc)
    # By the difference of the squares, which keeps its digits.
    z = (x - nc) / (np.sqrt(x) + b)
    # Far below there is nothing, and the terms mean nothing.
    is_there = raw(z) > -0.5 * raw(b)
    return z + np.where(is_there, _shift(np.where(is_there, z, 0.0), df, b), 0.0)


def chi_squared_of_normal(w: Any, df: Any, nc: Any) -> Any:
    """Return the noncentral chi-square variable of a normal one."""
    b = np.sqrt(nc)
    z = w
    # Each step has eight digits more.
    for _ in range(4):
        z = w - _shift(z, df, b)
    return np.square(b + z)


def log_density_of_great(x: Any, df: Any, nc: Any) -> Any:
    """Return the logarithm of the density."""
    b, root = np.sqrt(nc), np.sqrt(x)
    z = (x - nc) / (root + b)
    is_there = raw(z) > -0.5 * raw(b)
    product = np.where(is_there, root * b, NEARLY_NORMAL)
    # Of Hankel's expansion of the Bessel function of order df / 2 - 1.
    order = np.square(df - 2)
    bessel = np.log1p((1 - order) / (8 * product) * (1 - (order - 9) / (16 * product)))
    return bessel + (df - 1) / 2 * np.log(root / b) - z * z / 2 - _LOG_ROOT - math.log(2) - np.log(root)
