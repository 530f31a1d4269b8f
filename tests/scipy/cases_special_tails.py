"""Kolmogorov's distribution on both sides of the point where its series meet, and Owen's T function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

CASES: dict[Callable[..., Any], list[Case]] = {
    special.kolmogorov: [
        Case((np.array([0.25, 0.75, 0.999, 1.001, 2.5]),)),
        Case((np.array([-1.0, 0.0, 1e-3]),), smooth=False),
    ],
    special.kolmogi: [Case((np.array([0.01, 0.5, 0.9]),))],
    special.owens_t: [Case((np.array([[-2.0], [0.0], [0.75]]), np.array([-1.5, 0.0, 3.0])), {}, (0, 1))],
    special.smirnov: [
        Case((np.array([[3], [10]]), np.array([0.0625, 0.375, 0.75])), {}, (1,)),
        Case((np.array([1, 5]), np.array([0.0, 1.0])), {}, (1,), smooth=False),
    ],
    special.smirnovi: [Case((np.array([[3], [10]]), np.array([0.125, 0.5])), {}, (1,))],
    special.tklmbda: [
        Case((np.array([[-1.5], [0.25], [0.75]]), np.array([-0.5, 0.125, 0.25, 0.625])), {}, (0, 1)),
        Case((np.array([-2.5, 2.5]), np.array(0.5)), {}, (0, 1)),
    ],
}
