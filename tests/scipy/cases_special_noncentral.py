"""Noncentral distribution functions and their inverses, by every argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.core.ops.finite_differences import Case

__all__ = ["CASES"]

_DF, _NC = np.array([[0.75], [4.5]]), np.array(1.75)
_POSITIVE = np.array([0.5, 6.0])
_SHARES = np.array([0.25, 0.75])
_ALL, _ALL_FOUR = (0, 1, 2), (0, 1, 2, 3)

CASES: dict[Callable[..., Any], list[Case]] = {
    special.chndtr: [
        Case((_POSITIVE, _DF, _NC), {}, _ALL),
        Case((np.array([120.0]), np.array(3.0), np.array(100.0)), {}, _ALL),
        Case((_POSITIVE, _DF, 0.0), {}, (0, 1)),
        Case((np.array([0.0, np.inf, np.nan]), np.array(2.0), _NC), {}, _ALL, smooth=False),
    ],
    special.chndtrix: [Case((_SHARES, _DF + 1, _NC), {}, _ALL)],
    special.chndtridf: [Case((np.array([4.0, 6.0]), np.array(0.5), _NC), {}, _ALL)],
    special.chndtrinc: [Case((np.array([8.0, 12.0]), np.array(3.0), np.array(0.375)), {}, _ALL)],
    special.ncfdtr: [Case((_DF + 1, np.array(5.0), _NC, _POSITIVE), {}, _ALL_FOUR)],
    special.ncfdtri: [Case((_DF + 1, np.array(5.0), _NC, _SHARES), {}, _ALL_FOUR)],
    # What SciPy returns has too few digits for differences.
    special.ncfdtridfd: [Case((np.array(3.0), np.array(0.5), _NC, np.array([1.75])), {}, _ALL_FOUR, smooth=False)],
    special.ncfdtridfn: [Case((np.array(0.5), np.array(5.0), _NC, np.array([1.75])), {}, _ALL_FOUR, smooth=False)],
    special.ncfdtrinc: [
        Case((np.array(3.0), np.array(5.0), np.array(0.5), np.array([3.0])), {}, _ALL_FOUR, smooth=False)
    ],
    special.nctdtr: [Case((_DF + 1, np.array([[[-1.0]], [[1.75]]]), np.array([-1.5, 0.0, 2.0])), {}, _ALL)],
    special.nctdtrit: [Case((_DF + 1, _NC, _SHARES), {}, _ALL)],
    special.nctdtridf: [Case((np.array(0.5), np.array([1.75]), np.array([2.0])), {}, _ALL)],
    special.nctdtrinc: [Case((_DF + 1, np.array(0.5), np.array([2.0])), {}, _ALL)],
}
