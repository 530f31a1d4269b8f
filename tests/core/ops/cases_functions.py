"""Functions of functions and covariances at points where they can be differentiated, and at the edge of them: data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.ops.cases_elementwise import normal, positive
from tests.core.ops.cases_products import both
from tests.core.ops.finite_differences import Case
from tests.core.ops.forms import FORMS

__all__ = ["CASES", "DEGENERATE"]

_MASK = np.array([[True, False, True], [True, True, False]])


def _sorted_square(row: Any) -> Any:
    return row * row[::-1]


def _outer(row: Any) -> Any:
    return row[:2, np.newaxis] * row


_NANS = np.array([[4.0, np.nan, -1.0, 7.0], [np.nan, 2.0, 9.0, np.nan], [3.0, 1.0, 5.0, 8.0]])
#: Elements of which no two are equal, with none left out.
_APART = np.array([[4.0, 0.0, -1.0, 7.0], [6.0, 2.0, 9.0, 11.0]])

CASES: dict[Callable[..., Any], list[Case]] = {
    np.nanmedian: [
        Case((_APART,)),
        Case((_APART, 1)),
        Case((_APART[:, :3], -1), {"keepdims": True}),
        Case((_NANS, 1), smooth=False),
        Case((_NANS,), smooth=False),
    ],
    np.nanquantile: [
        Case((_APART, 0.25)),
        Case((_APART, [0.25, 0.875], 1)),
        Case((_APART, 0.5, 0), {"keepdims": True}),
        Case((_NANS, [0.5, 0.25], 1), smooth=False),
    ],
    np.nanpercentile: [Case((_APART, 62.5)), Case((_NANS, [25, 50]), {"axis": 0}, smooth=False)],
    np.sort_complex: [Case((_APART,))],
    np.trim_zeros: [Case((np.array([0.0, 1.0, 0.0, 2.0, 0.0]),), smooth=False), Case((_APART[1],))],
    np.cov: [
        Case((normal(3, 4),)),
        Case((normal(5),)),
        Case((normal(4, 2), None, False, True)),
        both(normal(2, 4), normal(4)),
        both(normal(4, 2), normal(4, 1), rowvar=False, ddof=0),
        Case((normal(2, 4),), {"fweights": np.array([1, 2, 1, 3])}),
        Case((normal(2, 4),), {"aweights": positive(4)}, differentiate=(0, "aweights")),
        Case(
            (normal(2, 3),), {"aweights": positive(3), "fweights": [1, 2, 1], "ddof": 0}, differentiate=(0, "aweights")
        ),
    ],
    np.corrcoef: [
        Case((normal(3, 4),)),
        both(normal(4), normal(4)),
        Case((normal(4, 2),), {"rowvar": False}),
    ],
    np.piecewise: [
        Case((normal(2, 3), [_MASK, ~_MASK], [np.exp, np.sin])),
        Case((normal(2, 3), [_MASK], [np.square, 2.0])),
        Case((normal(3), [[True, False, False]], [lambda x, y, z: x * y + z, lambda x, y, z: x - y], 3.0), {"z": 0.5}),
        Case((normal(), True, [np.square])),
        Case((normal(2, 3), [_MASK, np.zeros((2, 3), bool)], [-1.0, np.exp, np.cos])),
    ],
    np.apply_along_axis: [
        Case((np.sum, 1, normal(2, 3)), differentiate=(2,)),
        Case((_sorted_square, 0, normal(3, 2)), differentiate=(2,)),
        Case((_outer, 1, normal(2, 3, 2)), differentiate=(2,)),
        Case((lambda row, power: row**power, -1, normal(2, 3), 2), differentiate=(2,)),
    ],
    np.apply_over_axes: [
        Case((np.sum, normal(2, 3, 2), [0, -1]), differentiate=(1,)),
        Case((np.cumsum, normal(2, 3), 1), differentiate=(1,)),
    ],
}


_COVARIANCES = [Case((form,), {"rowvar": rowvar}) for form in FORMS for rowvar in (True, False)]

DEGENERATE: dict[Callable[..., Any], list[Case]] = {
    np.nanmedian: [Case((form, axis)) for form in FORMS for axis in (None, 0, -1)],
    np.nanquantile: [
        Case((form, share, axis)) for form in FORMS if form.size for share in (0.5, [0.5]) for axis in (None, 0)
    ],
    np.nanpercentile: [Case((form, 50.0, axis)) for form in FORMS if form.size for axis in (None, 0, -1)],
    np.sort_complex: [Case((form,)) for form in FORMS],
    np.trim_zeros: [
        *[Case((row, trim)) for row in (FORMS[0], FORMS[3], np.zeros(2), np.eye(4)[2]) for trim in ("fb", "F", "b")],
        Case((FORMS[3], "x")),
    ],
    np.cov: [*_COVARIANCES, Case((FORMS[4], FORMS[3])), Case((FORMS[4],), {"dtype": np.float32})],
    np.corrcoef: [*_COVARIANCES, Case((FORMS[4], FORMS[3]))],
    np.piecewise: [
        *[Case((form, [form > 2, form <= 2], [np.square, 2])) for form in FORMS],
        *[Case((form, [form > 2], [np.negative])) for form in FORMS],
        Case((FORMS[3], [], [])),
        Case((FORMS[3], [True, False, True], [7.0])),
        Case((FORMS[3], [FORMS[3] > 1], [1, 2, 3])),
    ],
    np.apply_along_axis: [
        *[Case((np.sum, 0, form), differentiate=(2,)) for form in FORMS],
        *[Case((_sorted_square, -1, form), differentiate=(2,)) for form in FORMS],
        Case((_outer, 1, FORMS[5]), differentiate=(2,)),
    ],
    np.apply_over_axes: [
        *[Case((np.sum, form, axis), differentiate=(1,)) for form in FORMS for axis in (0, -1, [0, 1], [])],
    ],
}
