"""Points at which sequences and their like can be differentiated, and such at the edge of what they take: data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.ops.cases_elementwise import normal, positive, two
from tests.core.ops.cases_products import both
from tests.core.ops.finite_differences import Case
from tests.core.ops.forms import FORMS, counted

__all__ = ["CASES", "DEGENERATE"]

_WITH_NAN = np.array([[0.5, np.nan, -1.2], [np.nan, 2.0, 0.7]])

CASES: dict[Callable[..., Any], list[Case]] = {
    np.linspace: [
        both(normal(), normal(), 4),
        both(normal(2, 1), normal(3), 3, endpoint=False, axis=1),
        Case((normal(2), 2.0, 3), {"retstep": True, "axis": -1}),
        Case((0.5, normal(2), 1), differentiate=(1,)),
        Case((normal(2), 2, 3), {"dtype": np.float64}),
    ],
    np.logspace: [
        both(normal(), normal(), 4),
        both(normal(2), normal(), 3, base=2.0, endpoint=False),
        Case((normal(2), 0.5, 3, True, positive(2)), differentiate=(0, 4)),
        Case((normal(), 0.5, 3, True, positive(2), None, -1), differentiate=(0, 4)),
    ],
    np.geomspace: [
        both(positive(), positive(), 4),
        both(positive(2, 1), positive(3), 3, endpoint=False, axis=1),
        both(-positive(2), -positive(2), 3),
        Case((2.0, positive(2), 3), differentiate=(1,)),
    ],
    np.ediff1d: [
        Case((normal(4),)),
        Case((normal(2, 2), normal(2), normal(1, 2)), differentiate=(0, 1, 2)),
        Case((normal(1), normal()), differentiate=(0, 1)),
    ],
    np.unwrap: [
        Case((5 * normal(6),)),
        Case((5 * normal(3, 4), 4.0, 0)),
        Case((5 * normal(4),), {"period": 3.0}),
        Case((np.array([0.2, 3.3, -4.1, 7.0]),), {"period": np.array(3.0)}, differentiate=(0, "period")),
    ],
    np.insert: [
        Case((normal(3), 1, normal()), differentiate=(0, 2)),
        Case((normal(2, 2), [3, 0, 0], normal(3)), differentiate=(0, 2)),
        Case((normal(3, 2), 1, normal(2), 0), differentiate=(0, 2)),
        Case((normal(3, 2), -1, normal(4, 3), 1), differentiate=(0, 2)),
        Case((normal(3, 2), [1], normal(3, 2), 1), differentiate=(0, 2)),
        Case((normal(3, 2), [2, 0], normal(3, 1), 1), differentiate=(0, 2)),
        Case((normal(4), slice(None, None, 2), normal(2)), differentiate=(0, 2)),
    ],
    np.resize: [Case((normal(2, 3), (2, 4))), Case((normal(3), 2)), Case((normal(), (2, 2)))],
    np.nancumsum: [Case((normal(2, 3),)), Case((normal(2, 3), 0)), Case((_WITH_NAN, 1), smooth=False)],
    np.nancumprod: [Case((normal(2, 3),)), Case((normal(2, 3), 0)), Case((_WITH_NAN, 1), smooth=False)],
    np.angle: [Case((normal(2, 3),)), Case((normal(), True))],
    np.real_if_close: [Case((normal(2, 3),))],
    np.i0: [Case((normal(2, 3),)), Case((np.array([0.0, 1e-6, -3.0, 8.0, 20.0]),)), Case((normal(),))],
    np.nextafter: two(normal, normal),
}


def _each(*more: Any, **kwargs: Any) -> list[Case]:
    """Return a call for each form of the first argument."""
    return [Case((form, *more), kwargs) for form in FORMS]


_SPACED = [
    *_each(10, 3),
    *_each(10, 1),
    *_each(10, 0),
    *_each(10, 3, endpoint=False, axis=-1),
    Case((FORMS[4], FORMS[3] + 5, 2), differentiate=(0, 1)),
]
DEGENERATE: dict[Callable[..., Any], list[Case]] = {
    np.linspace: [*_SPACED, *_each(10, 3, retstep=True), *_each(10, 3, dtype=np.float32)],
    np.logspace: [*_SPACED, *_each(3, 2, base=counted(1)), *_each(3, 2, dtype=np.float32)],
    np.geomspace: [*_SPACED, *_each(10, 3, dtype=np.float32)],
    np.ediff1d: [*_each(), *_each(counted(2)), *_each(None, counted()), *_each(counted(0), counted(2))],
    np.unwrap: [*_each(), *_each(None, 0), *_each(1.5, period=2)],
    np.insert: [
        *_each(0, 7.0),
        *_each([], 7.0),
        *_each([0], [7.0]),
        *_each([0, 0], 7.0),
        *_each(0, 7.0, 0),
        *_each(0, counted(2), -1),
        *_each(slice(0, 0), 7.0),
        Case((FORMS[4], np.array([True, False, True]), 7.0, 1)),
        Case((FORMS[3], 9, 7.0)),
    ],
    np.resize: [*_each(4), *_each((2, 0)), *_each(()), *_each((2, 5)), *_each(-1)],
    np.nancumsum: [*_each(), *_each(0), *_each(-1)],
    np.nancumprod: [*_each(), *_each(0), *_each(-1)],
    np.angle: [*_each(), *_each(True)],
    np.real_if_close: [*_each(), *_each(0), Case((np.array([1 + 1e-15j, 2.0]),))],
    np.i0: _each(),
}
