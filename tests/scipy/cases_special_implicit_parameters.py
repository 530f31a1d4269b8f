"""Parameters of distributions that follow from values of their distribution functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_SHARES = np.array([[0.25], [0.75]])
_BOTH, _ALL = (0, 1), (0, 1, 2)

CASES: dict[Callable[..., Any], list[Case]] = {
    special.btdtria: [Case((_SHARES, np.array(1.5), np.array([0.25, 0.5])), {}, _ALL)],
    special.btdtrib: [Case((np.array(1.5), _SHARES, np.array([0.25, 0.5])), {}, _ALL)],
    special.bdtrik: [Case((_SHARES, np.array(7.5), np.array([0.375, 0.5])), {}, _ALL)],
    special.bdtrin: [Case((np.array(2.5), _SHARES, np.array([0.375, 0.5])), {}, _ALL)],
    special.nbdtrik: [Case((_SHARES, np.array(7.5), np.array([0.375, 0.5])), {}, _ALL)],
    special.nbdtrin: [Case((np.array(2.5), _SHARES, np.array([0.375, 0.5])), {}, _ALL)],
    special.gdtrib: [Case((np.array(0.75), _SHARES, np.array([1.0, 5.0])), {}, _ALL)],
    special.chdtriv: [Case((_SHARES, np.array([1.0, 5.0])), {}, _BOTH)],
    special.pdtrik: [Case((np.array([[0.5], [0.75]]), np.array([2.0, 5.0])), {}, _BOTH)],
    special.stdtridf: [Case((np.array([0.8, 0.9]), np.array([1.0, 1.5])), {}, _BOTH)],
    special.fdtridfd: [Case((np.array(3.0), np.array([0.5, 0.625]), np.array([0.95, 1.25])), {}, _ALL)],
    special.nrdtrimn: [Case((_SHARES, np.array(1.5), np.array([-1.0, 2.0])), {}, _ALL)],
    special.nrdtrisd: [Case((np.array([[-1.0], [0.5]]), np.array(0.75), np.array([1.0, 2.0])), {}, _ALL)],
}
