"""Hypergeometric functions where they can be differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_FIRST = np.array([[-1.25], [0.5], [3.0]])
_REAL = np.array([-20.0, -0.5, 0.0, 0.75, 4.0])
_ALL = (0, 1, 2)

CASES: dict[Callable[..., Any], list[Case]] = {
    special.hyp0f1: [Case((np.array([[0.5], [3.25]]), _REAL), {}, (0, 1))],
    special.hyp1f1: [
        Case((_FIRST, np.array(1.75), _REAL), {}, _ALL),
        Case((np.array(-2.0), np.array([0.75, 2.0]), np.array(1.5)), {}, _ALL),
        Case((np.array([0.5, 2.0]), np.array(2.0), np.array(-700.0)), {}, _ALL),
    ],
    special.hyperu: [Case((_FIRST, np.array([[[-1.5]], [[2.25]]]), np.array([0.25, 3.0])), {}, _ALL)],
    special.hyp2f1: [
        Case((_FIRST, np.array(0.625), np.array(2.5), np.array([-2.0, -0.25, 0.0, 0.5])), {}, (0, 1, 2, 3)),
        Case((np.array(-2.0), np.array(0.5), np.array([0.75, 3.0]), np.array(0.5)), {}, (0, 1, 2, 3)),
        Case((np.array(0.5), np.array(-0.75), np.array([1.5, 3.0]), 1.0), {}, (0, 1, 2)),
    ],
}
