"""Orthogonal polynomials, by their argument, parameters and degree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_DEGREES = np.array([[0], [1], [2], [5]])
_SIGNED = np.array([[-3], [-1], [0], [4]])
_REAL_DEGREES = np.array([[0.0], [3.25]])
_INSIDE = np.array([0.5])
_BEYOND = np.array([-0.5, 1.0, 1.75])
_HALF = np.array([0.125, 0.5, 1.0])


def _of_one(degrees: Any, whole: Any = _BEYOND, inside: Any = _INSIDE) -> list[Case]:
    return [Case((degrees, whole), {}, (1,)), Case((_REAL_DEGREES, inside), {}, (0, 1))]


CASES: dict[Callable[..., Any], list[Case]] = {
    special.eval_jacobi: [
        Case((_DEGREES, np.array(0.375), np.array(-0.5), _BEYOND), {}, (1, 2, 3)),
        Case((_REAL_DEGREES, np.array(0.375), np.array(1.5), _INSIDE), {}, (0, 1, 2, 3)),
    ],
    special.eval_sh_jacobi: [
        Case((_DEGREES, np.array(2.5), np.array(1.25), _HALF), {}, (1, 2, 3)),
        Case((_REAL_DEGREES, np.array(2.5), np.array(1.25), _HALF[1:2]), {}, (0, 1, 2, 3)),
    ],
    special.eval_gegenbauer: [
        Case((_DEGREES, np.array([[[-0.25]], [[1.5]]]), _BEYOND), {}, (1, 2)),
        Case((_REAL_DEGREES, np.array(0.75), _INSIDE), {}, (0, 1, 2)),
    ],
    special.eval_legendre: _of_one(_SIGNED),
    special.eval_sh_legendre: _of_one(_SIGNED, _HALF, _HALF[1:2]),
    special.eval_chebyt: _of_one(_SIGNED),
    special.eval_chebyu: _of_one(_SIGNED),
    special.eval_chebyc: _of_one(_SIGNED),
    special.eval_chebys: _of_one(_SIGNED),
    special.eval_sh_chebyt: _of_one(_SIGNED, _HALF, _HALF[1:2]),
    special.eval_sh_chebyu: _of_one(_SIGNED, _HALF, _HALF[1:2]),
    special.eval_genlaguerre: [
        Case((_DEGREES, np.array([[[-0.5]], [[1.5]]]), _BEYOND), {}, (1, 2)),
        Case((_REAL_DEGREES, np.array(0.75), _BEYOND), {}, (0, 1, 2)),
    ],
    special.eval_laguerre: _of_one(_DEGREES),
    special.lpmv: [
        Case((np.array([[0], [1], [2], [4]]), np.array([[[3.0]], [[-2.0]]]), np.array([-0.75, 0.5])), {}, (2,)),
        Case((np.array([-1, 2]), 2.5, np.array(0.5)), {}, (2,)),
        Case((np.array([[0], [2]]), np.array([3.0, 4.25]), np.array(0.5)), {}, (1, 2)),
    ],
    special.eval_hermite: [Case((_DEGREES, _BEYOND), {}, (1,))],
    special.eval_hermitenorm: [Case((_DEGREES, _BEYOND), {}, (1,))],
}
