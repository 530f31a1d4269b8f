"""The normal distribution function at points where it can be differentiated, and far out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_REAL = np.array([[-2.5, -0.75, 0.0], [0.25, 1.0, 3.0]])

CASES: dict[Callable[..., Any], list[Case]] = {
    special.ndtr: [Case((_REAL,))],
    special.log_ndtr: [Case((_REAL + 0.125,)), Case((np.array([-1e3, -30.0, 8.0]),))],
    special.ndtri: [Case((np.array([0.0625, 0.25, 0.875]),))],
    special.ndtri_exp: [Case((np.array([-800.0, -3.0, -0.5]),))],
}
