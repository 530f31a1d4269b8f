"""Parabolic cylinder, Mathieu and spheroidal wave functions by their argument, and modified Fresnel integrals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_REAL = np.array([-1.5, 0.5])
_BEYOND = np.array([1.75, 2.5])
# Nearer to 1 those of the second kind have few digits.
_FAR = np.array([2.5])
_ORDERS = np.array([[1], [2]])


def _mathieu(x: Any) -> list[Case]:
    return [Case((_ORDERS, 1.5, x), {}, (2,))]


def _spheroidal(x: Any, *constant: float) -> list[Case]:
    # In single precision some of them do not return.
    return [Case((1, 2, np.float64(1.5), *constant, x), {}, (3 + len(constant),))]


_PRO, _OBL = special.pro_cv(1, 2, 1.5), special.obl_cv(1, 2, 1.5)

CASES: dict[Callable[..., Any], list[Case]] = {
    special.pbdv: [Case((np.array([[-1.25], [3.0]]), np.array([-1.5, 0.0, 0.5, 2.5])), {}, (0, 1))],
    special.pbvv: [Case((np.array([[0.75], [3.0]]), _REAL), {}, (1,))],
    special.pbwa: [Case((np.array([[-0.75], [2.0]]), _REAL), {}, (1,))],
    special.mathieu_a: [Case((_ORDERS, np.array([0.75, 4.0])), {}, (1,), smooth=False)],
    special.mathieu_b: [Case((_ORDERS, np.array([0.75, 4.0])), {}, (1,), smooth=False)],
    special.mathieu_cem: _mathieu(30 * _REAL),
    special.mathieu_sem: _mathieu(30 * _REAL),
    special.mathieu_modcem1: _mathieu(_BEYOND),
    special.mathieu_modcem2: _mathieu(_BEYOND),
    special.mathieu_modsem1: _mathieu(_BEYOND),
    special.mathieu_modsem2: _mathieu(_BEYOND),
    special.pro_cv: [Case((1, _ORDERS, np.array([0.75, 4.0])), {}, (2,), smooth=False)],
    special.obl_cv: [Case((1, _ORDERS, np.array([0.75, 4.0])), {}, (2,), smooth=False)],
    special.pro_ang1: _spheroidal(_REAL / 2),
    special.pro_rad1: _spheroidal(_BEYOND),
    special.pro_rad2: _spheroidal(_FAR),
    special.obl_ang1: _spheroidal(_REAL / 2),
    special.obl_rad1: _spheroidal(_BEYOND),
    special.obl_rad2: _spheroidal(_FAR),
    special.pro_ang1_cv: _spheroidal(_REAL / 2, _PRO),
    special.pro_rad1_cv: _spheroidal(_BEYOND, _PRO),
    special.pro_rad2_cv: _spheroidal(_FAR, _PRO),
    special.obl_ang1_cv: _spheroidal(_REAL / 2, _OBL),
    special.obl_rad1_cv: _spheroidal(_BEYOND, _OBL),
    special.obl_rad2_cv: _spheroidal(_FAR, _OBL),
    # Below 0 the imaginary part of the first that SciPy returns is wrong.
    special.modfresnelp: [Case((np.abs(_REAL),))],
    special.modfresnelm: [Case((np.abs(_REAL),))],
}
