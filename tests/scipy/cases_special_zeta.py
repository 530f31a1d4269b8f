"""Functions of the zeta family at points where they can be differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_REAL = np.array([[-2.5, -0.75, 0.0], [0.25, 1.5, 3.0]])
_POSITIVE = np.array([0.375, 1.0, 6.0])

CASES: dict[Callable[..., Any], list[Case]] = {
    special.zetac: [Case((np.array([-2.5, 0.5, 1.25, 3.0, 7.9, 12.0]),))],
    special.spence: [Case((_POSITIVE,)), Case((np.array([0.92, 0.999, 1.05, 3.0]),))],
    special.wrightomega: [Case((_REAL,))],
    special.wright_bessel: [Case((np.array([[0.5], [1.0]]), np.array([0.25, 0.75, 1.5]), _POSITIVE), {}, (0, 1, 2))],
    special.agm: [Case((_POSITIVE, _POSITIVE[:, np.newaxis]), {}, (0, 1)), Case((-_POSITIVE, np.array(-2.0)))],
}
if hasattr(special, "log_wright_bessel"):
    CASES[special.log_wright_bessel] = [
        Case((np.array([[0.5], [1.0]]), np.array([0.25, 0.75, 1.5]), _POSITIVE), {}, (0, 1, 2))
    ]
