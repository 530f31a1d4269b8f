"""Logistic functions, products with logarithms and powers where they can be differentiated, and at their edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_REAL = np.array([[-30.0, -1.5, -0.25], [0.0, 0.75, 30.0]])
_SHARES = np.array([0.0625, 0.25, 0.5, 0.875])
_POSITIVE = np.array([0.125, 1.0, 2.5])
#: Next to 0, where closed forms cancel, and away from it.
_EXPONENTS = np.array([[-1.5], [0.0], [1e-6], [0.75]])
_BOTH = (0, 1)

CASES: dict[Callable[..., Any], list[Case]] = {
    special.expit: [Case((_REAL,))],
    special.log_expit: [Case((_REAL,)), Case((np.array([-800.0, 800.0]),), smooth=False)],
    special.logit: [Case((_SHARES,))],
    special.xlogy: [
        Case((_REAL, _POSITIVE), {}, _BOTH),
        Case((0.0, np.array([0.0, np.inf])), {}, (1,), smooth=False),
    ],
    special.xlog1py: [Case((_REAL, _POSITIVE - 0.5), {}, _BOTH)],
    special.entr: [Case((_POSITIVE,))],
    special.rel_entr: [Case((_POSITIVE, _POSITIVE[::-1] * 2), {}, _BOTH)],
    special.kl_div: [Case((_POSITIVE, _POSITIVE[::-1] * 2), {}, _BOTH)],
    special.exp10: [Case((_POSITIVE,))],
    special.exp2: [Case((_POSITIVE,))],
    special.expm1: [Case((_POSITIVE,))],
    special.log1p: [Case((_POSITIVE,))],
    special.cbrt: [Case((_REAL[:1],))],
    special.cosm1: [Case((_POSITIVE,))],
    special.exprel: [Case((_EXPONENTS,)), Case((np.array([-20.0, 0.499, 0.501]),))],
    special.boxcox: [Case((_POSITIVE, _EXPONENTS), {}, _BOTH)],
    special.boxcox1p: [Case((_POSITIVE, _EXPONENTS), {}, _BOTH)],
    special.inv_boxcox: [Case((np.array([0.125, 0.5]), _EXPONENTS), {}, _BOTH)],
    special.inv_boxcox1p: [Case((np.array([0.125, 0.5]), _EXPONENTS), {}, _BOTH)],
    special.powm1: [Case((_POSITIVE, _EXPONENTS), {}, _BOTH)],
    special.huber: [Case((np.array([0.5, 2.0]), np.array([[-1.0], [0.25], [3.0]])), {}, _BOTH)],
    special.pseudo_huber: [Case((np.array([0.5, 2.0]), np.array([[-1.0], [0.0], [3.0]])), {}, _BOTH)],
}
