"""The density of the Cramér-von Mises statistic of a sample, of whose distribution function SciPy has the values.

Both are series in Bessel functions, to the first order in the inverse of the sample's size. SciPy ends its series where
a term is below 1e-7; here they go on.

Source: Csörgő and Faraway, The exact and asymptotic distributions of Cramér-von Mises statistics (1996), equations 1.3
and 1.10.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ..ufuncs import special

__all__ = ["cramer_density"]

#: From here on the density is below the rounding errors of probabilities.
_FAR = 8.0
#: Terms are left out from the exponent exp(-100) on.
_DROP = 100.0


def cramer_density(statistic: Any, count: int) -> Any:
    """Return the density of the statistic of `count` numbers; outside of its support, and from 8 on, it is 0."""
    bare = raw(statistic)
    outside = (bare <= 1 / (12 * count)) | (bare >= min(count / 3, _FAR))
    x = np.where(outside, 0.5, statistic)
    density: Any = 0.0
    # The exponent of a term is -(4 * k + 1)**2 / (8 * x).
    length = int(math.sqrt(8 * _DROP * np.fmax.reduce(raw(x), None, initial=0.5)) / 4) + 1
    for factor, multiple, order, power in _terms(count, length):
        # Of x**power * exp(-z) * K(z) with z = multiple**2 / (16 * x).
        z = multiple * multiple / (16 * x)
        below, middle, above = (special.kve(order + step, z) for step in (-1, 0, 1))
        slope = power * middle + z * (middle + (below + above) / 2)
        density = density + factor * (x ** (power - 1) * np.exp(-2 * z) * slope)
    return np.where(outside, 0.0, density)


def _terms(count: int, length: int) -> list[tuple[float, int, float, float]]:
    """Return the terms of the distribution function, up to a length: by factor, multiple, order and power."""
    found: list[tuple[float, int, float, float]] = []
    for k in range(length):
        ratio = math.exp(math.lgamma(k + 0.5) - math.lgamma(k + 1.0))
        limit = ratio * math.sqrt(4 * k + 1) / math.pi**1.5
        found.append((limit * (1 + 1 / (12 * count)), 4 * k + 1, 0.25, -0.5))
        share, odd = -ratio / (math.pi * count), 2 * k + 1
        # Of equation 1.10 the parts with the functions E2 and E3.
        for factor, multiple in ((odd / 9, 4 * k + 3), (7 * odd / 144, 4 * k + 1), (7 * odd / 144, 4 * k + 5)):
            scale = share * factor * (multiple / 4) ** 1.5 / math.sqrt(math.pi)
            found += [(scale, multiple, order, -1.5) for order in (0.25, 0.75)]
        for factor, multiple in ((1 / 72, 4 * k + 1), ((odd + 2) * (k + 0.5) / 6, 4 * k + 5)):
            scale = share * factor * (multiple / 4) ** 2.5 / math.sqrt(math.pi)
            found += [(scale * many, multiple, order, -2.5) for many, order in ((2, 0.25), (3, 0.75), (-1, 1.25))]
    return found
