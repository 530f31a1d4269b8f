"""Logistic functions and products with logarithms at points where they can be differentiated, and at their edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.ops.finite_differences import Case

__all__ = ["CASES"]

_REAL = np.array([[-30.0, -1.5, -0.25], [0.0, 0.75, 30.0]])
_SHARES = np.array([0.0625, 0.25, 0.5, 0.875])
_POSITIVE = np.array([0.125, 1.0, 2.5])

CASES: dict[Callable[..., Any], list[Case]] = {
    special.expit: [Case((_REAL,))],
    special.log_expit: [Case((_REAL,)), Case((np.array([-800.0, 800.0]),), smooth=False)],
    special.logit: [Case((_SHARES,))],
    special.xlogy: [
        Case((_REAL, _POSITIVE), differentiate=(0, 1)),
        Case((0.0, np.array([0.0, np.inf])), differentiate=(1,), smooth=False),
    ],
    special.xlog1py: [Case((_REAL, _POSITIVE - 0.5), differentiate=(0, 1))],
}
