"""Incomplete gamma and beta functions where they can be differentiated, and at the ends of what they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_SHAPES = np.array([[0.375], [1.0], [6.5]])
_POSITIVE = np.array([0.25, 1.0, 5.0])
_SHARES = np.array([0.125, 0.5, 0.875])
_BOTH, _ALL = (0, 1), (0, 1, 2)
_ENDS = np.array([0.0, np.inf])

CASES: dict[Callable[..., Any], list[Case]] = {
    special.gammainc: [
        Case((_SHAPES, _POSITIVE), {}, _BOTH),
        Case((np.array([2.0, 2.0]), _ENDS), {}, _BOTH, smooth=False),
    ],
    special.gammaincc: [Case((_SHAPES, _POSITIVE), {}, _BOTH)],
    special.gammaincinv: [Case((_SHAPES, _SHARES), {}, _BOTH)],
    special.gammainccinv: [Case((_SHAPES, _SHARES), {}, _BOTH)],
    special.gdtr: [Case((np.array(0.75), _SHAPES, _POSITIVE), {}, _ALL)],
    special.gdtrc: [Case((np.array(0.75), _SHAPES, _POSITIVE), {}, _ALL)],
    special.gdtrix: [Case((np.array(0.75), _SHAPES, _SHARES), {}, _ALL)],
    special.gdtria: [Case((_SHARES, _SHAPES, np.array(0.75)), {}, _ALL)],
    special.chdtr: [Case((_SHAPES, _POSITIVE), {}, _BOTH)],
    special.chdtrc: [Case((_SHAPES, _POSITIVE), {}, _BOTH)],
    special.chdtri: [Case((_SHAPES + 0.5, _SHARES), {}, _BOTH)],
    special.pdtr: [Case((np.array([[0.0], [3.0]]), _POSITIVE), {}, (1,))],
    special.pdtrc: [Case((np.array([[0.0], [3.0]]), _POSITIVE), {}, (1,))],
    special.pdtri: [Case((np.array([[0.0], [3.0]]), _SHARES), {}, (1,))],
    special.betainc: [
        Case((_SHAPES, np.array(1.5), _SHARES), {}, _ALL),
        Case((np.array([2.0, 2.0]), np.array(3.0), np.array([0.0, 1.0])), {}, _ALL, smooth=False),
    ],
    special.betaincc: [Case((_SHAPES, np.array(1.5), _SHARES), {}, _ALL)],
    special.betaincinv: [Case((_SHAPES, np.array(1.5), _SHARES), {}, _ALL)],
    special.betainccinv: [Case((_SHAPES, np.array(1.5), _SHARES), {}, _ALL)],
    special.bdtr: [Case((np.array([[0], [2]]), 5, _SHARES), {}, (2,))],
    special.bdtrc: [Case((np.array([[0], [2]]), 5, _SHARES), {}, (2,))],
    special.bdtri: [Case((np.array([[0], [2]]), 5, _SHARES), {}, (2,))],
    special.nbdtr: [Case((np.array([[0], [2]]), 5, _SHARES), {}, (2,))],
    special.nbdtrc: [Case((np.array([[0], [2]]), 5, _SHARES), {}, (2,))],
    special.nbdtri: [Case((np.array([[0], [2]]), 5, _SHARES), {}, (2,))],
    special.stdtr: [Case((_SHAPES + 1, np.array([-2.0, 0.0, 0.5])), {}, _BOTH)],
    special.stdtrit: [Case((_SHAPES + 1, np.array([0.125, 0.625, 0.875])), {}, _BOTH)],
    special.fdtr: [Case((_SHAPES, np.array(3.5), _POSITIVE), {}, _ALL)],
    special.fdtrc: [Case((_SHAPES, np.array(3.5), _POSITIVE), {}, _ALL)],
    special.fdtri: [Case((_SHAPES + 1, np.array(3.5), _SHARES), {}, _ALL)],
}
