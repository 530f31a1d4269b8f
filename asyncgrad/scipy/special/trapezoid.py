"""Nodes of the trapezoidal rule, which converges fast where the logarithm of an integrand falls on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["trapezoid_nodes"]

#: The logarithm of what is left out of an integral at each end.
_DROP = 38.0


def trapezoid_nodes(height: Callable[[Any], Any], peak: Any, curvature: Any, widest: float) -> tuple[Any, Any]:
    """Return the nodes of integrals along a new first axis, and the step between two.

    Args:
        height: the logarithm of the integrand.
        peak: where it is greatest.
        curvature: minus its second derivative there.
        widest: the greatest step, which the integrand's poles allow.
    """
    step = np.minimum(widest, 0.6 / np.sqrt(np.maximum(curvature, 1.0)))
    top, ends = height(peak), []
    for sign in (-1.0, 1.0):
        reach = 2 * step
        with np.errstate(over="ignore"):
            while (near := (height(peak + sign * reach) > top - _DROP) & (reach < 1e4)).any():
                reach = np.where(near, reach * 1.25, reach)
        ends.append(peak + sign * reach)
    # Of NaN among the arguments the nodes are NaN, as many as those of others.
    count = int(np.ceil(np.fmax.reduce(((ends[1] - ends[0]) / step).ravel(), initial=1.0))) + 1
    return ends[0] + step * np.arange(count).reshape(-1, *[1] * np.ndim(peak)), step
