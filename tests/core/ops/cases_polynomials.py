"""Polynomials of which all can be differentiated, and such at the edge of what there is: data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.ops.cases_elementwise import normal, positive
from tests.core.ops.cases_products import both, random_whole_numbers
from tests.core.ops.finite_differences import Case
from tests.core.ops.forms import counted

__all__ = ["CASES", "DEGENERATE"]

_POINTS = np.array([-1.0, 0.5, 1.5, 2.0, 3.5])
#: A polynomial whose roots are real and apart.
_APART = np.array([1.0, -6.5, 11.0, -4.0])

CASES: dict[Callable[..., Any], list[Case]] = {
    np.polyval: [
        both(normal(4), normal(2, 3)),
        both(normal(1), normal()),
        Case((normal(3), 0.5)),
        Case(([1.0, 2.0], normal(3)), differentiate=(1,)),
    ],
    np.vander: [Case((normal(3),)), Case((normal(3), 4), {"increasing": True}), Case((normal(2), 1))],
    np.polyadd: [both(normal(3), normal(3)), both(normal(3), normal(1)), both(normal(), normal(2))],
    np.polysub: [both(normal(3), normal(3)), both(normal(3), normal(1)), both(normal(), normal(2))],
    np.polymul: [both(normal(3), normal(2)), Case((normal(3), [0, 2.0, 1.0]))],
    np.polydiv: [both(normal(4), normal(2)), both(normal(2), normal(2)), both(normal(1), normal(3))],
    np.polyder: [Case((normal(4),)), Case((normal(4), 2)), Case((normal(2), 0))],
    np.polyint: [
        Case((normal(3),)),
        Case((normal(3), 2, normal(2)), differentiate=(0, 2)),
        Case((normal(2), 2, normal()), differentiate=(0, 2)),
    ],
    np.poly: [Case((normal(4),)), Case((np.array([[1.0, 0.5], [0.25, 3.0]]),))],
    np.roots: [Case((_APART,)), Case((np.array([2.0, 3.0, 0.0]),), smooth=False), Case((np.array([2.0, 3.0]),))],
    np.polyfit: [
        both(_POINTS, normal(5), 2),
        Case((_POINTS, normal(5, 2), 1), {"w": positive(5)}, differentiate=(0, 1, "w")),
        both(_POINTS, random_whole_numbers(5), 1, cov=True),
        both(_POINTS, normal(5), 1, cov="unscaled"),
        both(_POINTS, normal(5, 2), 2, full=True),
    ],
}


_NOTHING, _SCALAR, _ONE, _ROW, _GRID = (counted(*shape) for shape in ((0,), (), (1,), (3,), (2, 3)))
_ROWS = (_NOTHING, _ONE, _ROW)
_PAIRS = [Case((a, v)) for a in (_SCALAR, _ONE, _ROW) for v in (_SCALAR, _ONE, _ROW)]

DEGENERATE: dict[Callable[..., Any], list[Case]] = {
    np.polyval: [Case((p, x)) for p in _ROWS for x in (_NOTHING, _SCALAR, _ROW, _GRID, 2, 2.5)],
    np.vander: [Case((x, count)) for x in (*_ROWS, _SCALAR, _GRID) for count in (None, 0, 1, 4)],
    np.polyadd: [*_PAIRS, Case((_NOTHING, _ROW))],
    np.polysub: [*_PAIRS, Case((_NOTHING, _ROW))],
    np.polymul: [*_PAIRS, Case((_NOTHING, _ROW)), Case((np.zeros(2), _ROW))],
    np.polydiv: [*_PAIRS, Case((_ROW, np.array([2.0, 1.0])))],
    np.polyder: [Case((p, order)) for p in (_ONE, _ROW) for order in (0, 1, 2, -1)],
    np.polyint: [Case((p, order)) for p in _ROWS for order in (0, 1, 2, -1)] + [Case((_ROW, 3, [1.0, 2.0]))],
    np.poly: [Case((x,)) for x in (_SCALAR, _ONE, _ROW, _GRID, np.eye(2))],
    np.roots: [Case((p,)) for p in (_ONE, _ROW, _SCALAR, _GRID, np.zeros(2), np.array([0.0, 1.0, -3.0, 0.0]))],
    np.polyfit: [Case((_ROW, y, degree)) for y in (_ROW, _GRID.T, _NOTHING, _SCALAR) for degree in (0, 1, -1)],
}
