"""Gamma and beta functions at points where they can be differentiated, and at their edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_REAL = np.array([[-2.5, -0.75, 0.25], [1.0, 2.5, 8.0]])
_POSITIVE = np.array([0.375, 1.0, 6.0])
_BOTH = (0, 1)

CASES: dict[Callable[..., Any], list[Case]] = {
    special.gamma: [Case((_REAL,))],
    special.gammaln: [Case((_REAL,)), Case((np.array(2.5),))],
    special.loggamma: [Case((_POSITIVE,))],
    # The derivative is finite at the poles of gamma.
    special.rgamma: [Case((_REAL,)), Case((np.array([0.0, -1.0, -3.0]),), smooth=False)],
    special.psi: [Case((_REAL,))],
    special.beta: [
        Case((_POSITIVE, _POSITIVE[:, np.newaxis]), {}, _BOTH),
        Case((np.array(1e5), np.array(0.5))),
        # It is 0 where a pole of the gamma function divides.
        Case((np.array([-0.5, -2.5, -1.25]), np.array([-0.5, 0.5, 0.25])), {}, _BOTH),
    ],
    special.betaln: [
        Case((_POSITIVE, _POSITIVE[:, np.newaxis]), {}, _BOTH),
        Case((np.array([2e4, 0.5]), np.array([0.5, 2e4])), {}, _BOTH),
    ],
}
