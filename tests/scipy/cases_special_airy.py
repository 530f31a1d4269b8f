"""Airy's, Kelvin's, Struve's and parabolic cylinder functions, and integrals, also next to 0 and far from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_REAL = np.array([[-2.5, -0.75, 0.0], [0.25, 1.0, 3.0]])
_POSITIVE = np.array([0.375, 1.0, 6.0])
_ORDERS = np.array([[0.0], [1.0], [2.5], [-0.25]])

CASES: dict[Callable[..., Any], list[Case]] = {
    special.airy: [Case((_REAL,))],
    special.airye: [Case((_POSITIVE,)), Case((np.array([90.0, 110.0, 1e6]),))],
    special.itairy: [Case((_REAL,))],
    special.ber: [Case((_REAL,))],
    special.bei: [Case((_REAL,))],
    special.berp: [Case((_REAL,))],
    special.beip: [Case((_REAL,))],
    special.ker: [Case((_POSITIVE,))],
    special.kei: [Case((_POSITIVE,))],
    special.kerp: [Case((_POSITIVE,))],
    special.keip: [Case((_POSITIVE,))],
    special.kelvin: [Case((_POSITIVE,))],
    special.struve: [
        Case((_ORDERS, _POSITIVE), {}, (0, 1)),
        Case((_ORDERS, np.array([2e3]))),
        Case((np.array([[0.0], [3.0]]), np.array([-2.0, -0.5, 0.0])), {}, (1,)),
    ],
    special.modstruve: [
        Case((_ORDERS, _POSITIVE), {}, (1,)),
        Case((np.array([[0.0], [3.0]]), np.array([-2.0, -0.5, 0.0])), {}, (1,)),
    ],
    special.itstruve0: [Case((_POSITIVE,))],
    special.it2struve0: [Case((_POSITIVE,))],
    special.itmodstruve0: [Case((_POSITIVE,))],
    special.itj0y0: [Case((_POSITIVE,))],
    special.iti0k0: [Case((_POSITIVE,))],
    special.it2j0y0: [Case((_POSITIVE,))],
    special.it2i0k0: [Case((_POSITIVE,))],
    special.besselpoly: [Case((_POSITIVE, np.array([[0.5], [2.0]]), np.array([[0.0], [1.5]])))],
}
