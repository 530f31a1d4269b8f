"""Nodes and weights of integrals that may have poles at the ends, by the trapezoidal rule after a change of variable.

Source: Takahasi and Mori, Double exponential formulas for numerical integration (1974).
"""

from __future__ import annotations

import math

import numpy as np

from ..ufuncs import special

__all__ = ["half_line", "interval"]


def _places(step: float, first: float, last: float) -> np.ndarray:
    return np.arange(round(first / step), round(last / step) + 1) * step


def half_line(step: float = 0.05, first: float = -3.9, last: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of an integral over the positive numbers.

    Args:
        step: between two nodes, in the variable in which they are evenly spaced.
        first: the first one, in that variable.
        last: the last one.
    """
    places = _places(step, first, last)
    nodes = np.exp(math.pi / 2 * np.sinh(places))
    return nodes, nodes * (math.pi / 2 * step) * np.cosh(places)


def interval(step: float = 0.05, first: float = -5.5, last: float = 3.3) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of an integral from 0 to 1, the nodes next to 0 with their digits.

    Arguments as for `half_line`.
    """
    places = _places(step, first, last)
    nodes = special.expit(math.pi * np.sinh(places))
    return nodes, nodes * special.expit(-math.pi * np.sinh(places)) * (math.pi * step) * np.cosh(places)
