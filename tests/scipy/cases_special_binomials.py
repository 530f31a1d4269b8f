"""Binomial coefficients and rising factorials of real numbers, and at the poles of the gamma functions in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_BOTH = (0, 1)

CASES: dict[Callable[..., Any], list[Case]] = {
    special.binom: [
        Case((np.array([[5.0], [6.5], [0.25]]), np.array([2.0, 2.75])), {}, _BOTH),
        # Fewer than none, and more than all.
        Case((np.array([3.0, 2.0, -0.5]), np.array([-2.0, 4.0, 1.25])), {}, _BOTH),
    ],
    special.poch: [
        Case((np.array([[0.75], [3.5]]), np.array([1.0, 2.5])), {}, _BOTH),
        Case((np.array([0.0, -1.0, -5.0, -5.25, -1.5]), np.array([1.0, 3.0, 3.0, 3.0, 0.25]))),
        Case((np.array([-5.25, -1.5]), np.array([3.0, 0.25])), {}, _BOTH),
    ],
}
