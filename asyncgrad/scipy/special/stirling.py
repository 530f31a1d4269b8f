"""The gamma function of great numbers by Stirling's series, without the great terms that cancel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ..ufuncs import special

__all__ = ["STIRLING", "log_height", "log_less_digamma"]

#: Beyond it the series is exact to all digits.
STIRLING = 16.0


def log_height(a: Any) -> Any:
    """Return a * log(a) - a - gammaln(a), the logarithm of a density at its mode, with all digits of a great `a`."""
    is_great = raw(a) > STIRLING
    great, small = np.where(is_great, a, 100.0), np.where(is_great, 1.0, a)
    square = great**-2
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / great
    exact = special.xlogy(small, small) - small - special.gammaln(small)
    return np.where(is_great, np.log(great / (2 * math.pi)) / 2 - series, exact)


def log_less_digamma(a: Any) -> Any:
    """Return log(a) - psi(a), the derivative of `log_height`."""
    is_great = raw(a) > STIRLING
    great, small = np.where(is_great, a, 100.0), np.where(is_great, 1.0, a)
    square = great**-2
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    return np.where(is_great, 1 / (2 * great) + series, np.log(small) - special.psi(small))
