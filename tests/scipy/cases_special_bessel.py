"""Bessel functions at points where they can be differentiated, and at 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_REAL = np.array([[-2.5, -0.75, 0.25], [1.0, 4.0, 12.0]])
_POSITIVE = np.array([0.375, 1.0, 6.0])
_ORDERS = np.array([[0.0], [0.5], [-1.75], [4.0]])
_WHOLE = np.array([[0], [1], [4]])
_BOTH = (0, 1)
_ZERO = Case((np.array([0.0, 1.0, 2.5]), np.array(0.0)), {}, (1,), smooth=False)
_LARGE = Case((np.array([[0.5], [9.0], [30.0]]), np.array([2e3])))
_FAR = Case((np.array([[0.0], [1.5]]), np.array([3e4, 1e8])), {}, (1,))

CASES: dict[Callable[..., Any], list[Case]] = {
    special.jv: [Case((_ORDERS, _POSITIVE), {}, _BOTH), Case((2, _REAL), {}, (1,)), _ZERO, _LARGE],
    special.jve: [Case((_ORDERS, _POSITIVE), {}, _BOTH)],
    special.yv: [Case((_ORDERS, _POSITIVE), {}, _BOTH), _LARGE],
    special.yve: [Case((_ORDERS, _POSITIVE), {}, _BOTH)],
    special.yn: [Case((_WHOLE, _POSITIVE), {}, (1,))],
    special.hankel1: [Case((_ORDERS, _POSITIVE), {}, _BOTH), _LARGE],
    special.hankel2: [Case((_ORDERS, _POSITIVE), {}, _BOTH), _LARGE],
    special.hankel1e: [Case((_ORDERS, _POSITIVE), {}, _BOTH), _FAR],
    special.hankel2e: [Case((_ORDERS, _POSITIVE), {}, _BOTH), _FAR],
    special.iv: [Case((_ORDERS, _POSITIVE), {}, _BOTH), Case((2, _REAL), {}, (1,)), _ZERO],
    special.ive: [Case((_ORDERS, _POSITIVE), {}, _BOTH), Case((2, _REAL), {}, (1,)), _FAR],
    special.kv: [Case((_ORDERS, _POSITIVE), {}, _BOTH)],
    special.kve: [Case((_ORDERS, _POSITIVE), {}, _BOTH), _FAR],
    special.kn: [Case((_WHOLE, _POSITIVE), {}, (1,))],
    special.j0: [Case((_REAL,)), Case((np.array(0.0),))],
    special.j1: [Case((_REAL,)), Case((np.array(0.0),))],
    special.y0: [Case((_POSITIVE,))],
    special.y1: [Case((_POSITIVE,))],
    special.i0: [Case((_REAL,)), Case((np.array(0.0),))],
    special.i1: [Case((_REAL,)), Case((np.array(0.0),))],
    special.i0e: [Case((_REAL,)), Case((np.array([-1e5, 1e8]),))],
    special.i1e: [Case((_REAL,)), Case((np.array([-1e5, 1e8]),))],
    special.k0: [Case((_POSITIVE,))],
    special.k1: [Case((_POSITIVE,))],
    special.k0e: [Case((_POSITIVE,)), Case((np.array([1e5, 1e8]),))],
    special.k1e: [Case((_POSITIVE,)), Case((np.array([1e5, 1e8]),))],
}
