"""Integrals of functions of a standard variable, at fixed points, all of them at once.

`quad` calls a function number by number, and once more for each of its derivatives. With the variable as a double
exponential function of another one the trapezoidal rule has all digits within some hundred points, where the function
has no kink between the limits; its error is less than that with half of the points, which tells where it has
not. The sum is differentiated as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from .double_exponential import half_line, interval

__all__ = ["integral_at_points"]

#: By which half of the points may be wrong, relative to the integral: all of them are much less so.
_HALF_ERROR = 1e-10
#: Terms that are less than this share of the greatest count for nothing, and may have derivatives that are none.
_NOTHING = 1e-22


def _points(low: float, high: float, scale: float, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the points and weights of an integral between limits, of which one may be infinite."""
    if math.isfinite(low) and math.isfinite(high):
        # Those next to the last limit by their distance from there.
        nodes, weights = interval(step, -5.5, 5.5)
        width = high - low
        return np.where(nodes < 0.5, low + width * nodes, high - width * nodes[::-1]), weights * width
    nodes, weights = half_line(step, -4.2, 3.4)
    points = low + scale * nodes if math.isfinite(low) else high - scale * nodes
    return points, weights * scale


def integral_at_points(
    function: Callable[..., Any], low: float, high: float, scale: float, rest: Sequence[Any]
) -> Tensor | None:
    """Return an integral between limits without history, or None where the points do not have its digits.

    Args:
        function: of points and `rest`, element by element.
        low: the first limit.
        high: the last limit; one of both is finite.
        scale: of the function, where a limit is infinite.
        rest: numbers that the integral is differentiated by.
    """
    constants = [asarray(raw(one)) for one in rest]
    for step in (0.1, 0.05, 0.025, 0.0125):
        points, weights = _points(low, high, scale, step)
        is_inside = (points > low) & (points < high)
        points, weights = points[is_inside], weights[is_inside]
        if not points.size:
            # Both limits are neighbours in double precision.
            return None
        with np.errstate(all="ignore"):
            terms = np.asarray(raw(function(asarray(points), *constants))) * weights
        if terms.shape != points.shape or not np.all(np.isfinite(terms)):
            return None
        total, half = np.sum(terms), 2 * np.sum(terms[::2])
        size = np.sum(np.abs(terms))
        if abs(total - half) <= _HALF_ERROR * size:
            counts = np.abs(terms) > _NOTHING * size
            found: Tensor = np.sum(function(asarray(points[counts]), *rest) * weights[counts])
            return found
    return None
