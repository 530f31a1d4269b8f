"""Error functions and integrals of exponentials at points where they can be differentiated, and far from 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_REAL = np.array([[-2.5, -0.75, 0.0], [0.25, 1.0, 3.0]])
_POSITIVE = np.array([0.375, 1.0, 6.0])
_SHARES = np.array([0.0625, 0.25, 0.875])

CASES: dict[Callable[..., Any], list[Case]] = {
    special.erf: [Case((_REAL,))],
    special.erfc: [Case((_REAL,))],
    special.erfcx: [Case((_REAL,)), Case((np.array([20.0, 60.0, 1e5]),))],
    special.erfi: [Case((_REAL,))],
    special.erfinv: [Case((_SHARES - 0.5,))],
    special.erfcinv: [Case((_SHARES * 2,))],
    special.dawsn: [Case((_REAL,)), Case((np.array([-60.0, 20.0, 1e5]),))],
    special.wofz: [Case((_REAL,))],
    special.voigt_profile: [
        Case((_REAL, np.array(0.75), np.array([0.25, 1.0, 2.0])), {}, (0, 1, 2)),
    ],
    special.expi: [Case((_REAL + 0.125,))],
    special.exp1: [Case((_POSITIVE,))],
    special.expn: [Case((np.array([[1], [2], [5]]), _POSITIVE), {}, (1,)), Case((0, _POSITIVE), {}, (1,))],
    special.shichi: [Case((_POSITIVE,)), Case((np.array([0.0]),), smooth=False)],
    special.sici: [Case((_POSITIVE,))],
    special.fresnel: [Case((_REAL,))],
}
