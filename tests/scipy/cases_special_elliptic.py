"""Elliptic integrals and functions where they can be differentiated, and functions of degrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_PARAMETERS = np.array([-2.0, 0.0, 0.25, 0.875])
_AMPLITUDES = np.array([[-2.5], [0.0], [0.75], [np.pi / 2], [8.0]])
_X, _Y, _Z = np.array([[0.25], [3.0]]), np.array([0.5, 3.0, 20.0]), np.array(3.0)
_BOTH, _ALL = (0, 1), (0, 1, 2)
_DEGREES = np.array([-200.0, 0.0, 60.0, 100.0])

CASES: dict[Callable[..., Any], list[Case]] = {
    special.ellipk: [Case((_PARAMETERS,)), Case((np.array([0.5, 1.0]),), smooth=False)],
    special.ellipkm1: [Case((np.array([1e-2, 0.5, 3.0]),))],
    special.ellipe: [Case((_PARAMETERS,)), Case((np.array([0.5, 1.0]),), smooth=False)],
    special.ellipkinc: [Case((_AMPLITUDES, _PARAMETERS), {}, _BOTH), Case((np.array([0.5]), np.array(1.0)))],
    special.ellipeinc: [Case((_AMPLITUDES, _PARAMETERS), {}, _BOTH)],
    special.ellipj: [Case((np.array([[-1.5], [0.0], [0.75], [9.0]]), np.array([0.125, 0.5, 0.875])), {}, _BOTH)],
    special.elliprc: [Case((_X, _Y), {}, _BOTH), Case((_X, np.array([-0.5])), {}, _BOTH)],
    special.elliprd: [Case((_X, _Y, _Z), {}, _ALL), Case((np.array(0.0), _Y, _Z), {}, (1, 2))],
    special.elliprf: [Case((_X, _Y, _Z), {}, _ALL), Case((np.array(0.0), _Y, _Z), {}, (1, 2))],
    special.elliprg: [Case((_X, _Y, _Z), {}, _ALL), Case((np.array(0.0), _Y, _Z), {}, (1, 2))],
    special.elliprj: [
        Case((_X, _Y, _Z, np.array(1.5)), {}, (0, 1, 2, 3)),
        Case((np.array(0.0), _Y, _Z, np.array(1.5)), {}, (1, 2, 3)),
    ],
    special.sindg: [Case((_DEGREES,))],
    special.cosdg: [Case((_DEGREES,))],
    special.tandg: [Case((_DEGREES,))],
    special.cotdg: [Case((_DEGREES[2:],))],
    special.radian: [Case((_DEGREES, np.array([[30.0], [2.0]]), np.array(1.5)), {}, _ALL)],
}
