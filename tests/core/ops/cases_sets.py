"""Sets of which the elements can be differentiated, and such at the edge of what there is: data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.ops.cases_elementwise import normal, positive
from tests.core.ops.cases_products import both, distinct
from tests.core.ops.finite_differences import Case
from tests.core.ops.forms import FORMS

__all__ = ["CASES", "DEGENERATE"]

_REPEATED = np.array([[3.0, 1.0, 2.0], [2.0, 2.0, 5.0]])
_OTHERS = np.array([7.0, 2.0, 1.0])

#: Whole numbers, which are not differentiated.
_ELEMENTS = np.array([0, 3, 1, 5, 2, 7])
_POINTS = np.array([[0, 1], [2, 5], [4, 4], [1, 0]])

CASES: dict[Callable[..., Any], list[Case]] = {
    np.unique: [
        Case((distinct(2, 3),)),
        Case((distinct(3, 2),), {"axis": 0}),
        Case((distinct(2, 3), True, True, True), {"axis": 1}),
        Case((_REPEATED,), smooth=False),
    ],
    np.unique_all: [Case((distinct(2, 3),)), Case((_REPEATED,), smooth=False)],
    np.unique_counts: [Case((distinct(2, 3),)), Case((_REPEATED,), smooth=False)],
    np.unique_inverse: [Case((distinct(2, 3),)), Case((_REPEATED,), smooth=False)],
    np.unique_values: [Case((distinct(1),)), Case((distinct(1, 1),))],
    np.union1d: [both(distinct(2, 2), distinct(3) + 10), Case((_REPEATED, _OTHERS), smooth=False)],
    np.intersect1d: [
        Case((_REPEATED, _OTHERS), smooth=False),
        Case((_OTHERS, np.array([1.0, 9.0]), True, True), smooth=False),
        Case((np.arange(3.0), [9.0])),
    ],
    np.setdiff1d: [Case((distinct(2, 3), [99.0])), Case((_REPEATED, _OTHERS), smooth=False)],
    np.setxor1d: [both(distinct(2, 2), distinct(3) + 10), Case((_REPEATED, _OTHERS), smooth=False)],
    np.bincount: [
        Case((np.array([0, 2, 2, 5]), normal(4)), differentiate=(1,)),
        Case((np.array([1, 1]), normal(2), 4), differentiate=(1,)),
    ],
    np.histogram: [
        Case((_ELEMENTS, 3), {"weights": normal(6)}, differentiate=("weights",)),
        # Not of equal widths, with elements at and outside of the edges.
        Case((_ELEMENTS, [0, 1, 5], None, True, positive(6)), differentiate=(4,)),
        Case((np.arange(6).reshape(2, 3), 2, (1, 5)), {"weights": positive(2, 3)}, differentiate=("weights",)),
        *[Case((normal(2, 3), bins, None, density)) for bins in (3, "sqrt") for density in (None, True)],
        Case((normal(6), np.array([-2.0, -0.25, 0.5, 2.0]), None, True), differentiate=(1,)),
        Case((normal(6), 2, np.array([-2.0, 2.0]), True, positive(6)), differentiate=(0, 2, 4)),
    ],
    np.histogram_bin_edges: [
        Case((normal(2, 3),)),
        Case((normal(6), "fd")),
        Case((np.full(3, 2.0), 2), smooth=False),
        Case((_ELEMENTS, 3, np.array([0.0, 2.0])), differentiate=(2,)),
        Case((_ELEMENTS, np.array([0.0, 1.0, 5.0])), differentiate=(1,)),
    ],
    np.histogram2d: [
        Case((_ELEMENTS, _ELEMENTS[::-1].copy(), (2, 3)), {"weights": normal(6)}, differentiate=("weights",)),
        Case((_ELEMENTS, _ELEMENTS, 2, [[0, 4], [1, 5]], True, positive(6)), differentiate=(5,)),
        Case((normal(6), normal(6), (2, 3), None, True), differentiate=(0, 1)),
        Case((normal(6), normal(6), np.array([-2.0, 0.0, 3.0]), None, True), differentiate=(2,)),
    ],
    np.histogramdd: [
        Case((_POINTS, (2, 3)), {"weights": normal(4)}, differentiate=("weights",)),
        Case(([_ELEMENTS, _ELEMENTS], 2, None, True, positive(6)), differentiate=(4,)),
        Case((normal(5, 2), (3, 2), None, True)),
    ],
}


_EACH = [Case((form,)) for form in FORMS]
_PAIRS = [Case((form, other)) for form in FORMS for other in (FORMS[0], FORMS[3], FORMS[4])]
_NUMBERS = np.array([0, 2, 2])

DEGENERATE: dict[Callable[..., Any], list[Case]] = {
    np.unique: [
        *_EACH,
        *[Case((form, True, True, True)) for form in FORMS],
        *[Case((form,), {"axis": 0}) for form in FORMS],
        *[Case((form, True, True, True, -1), {"equal_nan": False}) for form in FORMS],
    ],
    np.unique_all: _EACH,
    np.unique_counts: _EACH,
    np.unique_inverse: _EACH,
    np.unique_values: [Case((FORMS[2],)), Case((FORMS[0],))],
    np.union1d: _PAIRS,
    np.intersect1d: [*_PAIRS, Case((FORMS[3], FORMS[4]), {"return_indices": True})],
    np.setdiff1d: [*_PAIRS, Case((FORMS[3], FORMS[2], True))],
    np.setxor1d: [*_PAIRS, Case((FORMS[3], FORMS[2], True))],
    np.bincount: [
        Case((_NUMBERS,)),
        Case((_NUMBERS,), {"minlength": 5}),
        Case((_NUMBERS[:0],), {"weights": FORMS[0]}, differentiate=("weights",)),
        Case((_NUMBERS, FORMS[3]), differentiate=(1,)),
        Case((_NUMBERS, [1.0, 2.0, 3.0])),
        Case((FORMS[4],)),
    ],
    np.histogram: [
        *_EACH,
        *[Case((form, 3, (0.0, 5.0)), {"density": True}) for form in FORMS],
        *[Case((form, [0.0, 2.0, 4.0])) for form in FORMS],
    ],
    np.histogram_bin_edges: [*_EACH, *[Case((form, 3)) for form in FORMS]],
    np.histogram2d: [Case((FORMS[3], FORMS[3])), Case((FORMS[3], FORMS[3], 2)), Case((FORMS[0], FORMS[0], 2))],
    np.histogramdd: [Case((FORMS[4],), {"bins": 2}), Case((FORMS[6], 2)), Case(([FORMS[3], FORMS[3]], 2))],
}
