"""Points at which the functions of whole arrays can be differentiated: data, for test_rules.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.ops import (
    cases_decompositions,
    cases_fourier,
    cases_functions,
    cases_polynomials,
    cases_sequences,
    cases_sets,
)
from tests.core.ops.cases_elementwise import normal, positive
from tests.core.ops.cases_products import NORMS, PRODUCTS, both, distinct, random_whole_numbers
from tests.core.ops.finite_differences import Case


def with_zeros(*places: tuple[int, ...]) -> np.ndarray:
    """Draw a matrix with zeros at places."""
    drawn = normal(2, 3)
    for place in places:
        drawn[place] = 0.0
    return drawn


def over_axes(draw: Callable[..., np.ndarray]) -> list[Case]:
    """Return the cases of a reduction: all axes, one, several, kept and not; no axes; nothing to reduce."""
    return [
        Case((draw(2, 3),)),
        Case((draw(2, 3), 0)),
        Case((draw(2, 3),), {"axis": -1, "keepdims": True}),
        Case((draw(2, 3, 2),), {"axis": (0, -1)}),
        Case((draw(2, 3, 2),), {"axis": (2, 1), "keepdims": True}),
        Case((draw(2, 3),), {"axis": None, "keepdims": True}),
        Case((draw(2, 3),), {"axis": ()}),
        Case((draw(),)),
    ]


def spaced(*shape: int) -> np.ndarray:
    """Draw whole numbers of which no two are equal."""
    return np.asarray(np.rint(10 * distinct(*shape)))


_mask = np.array([[True, False, True], [True, True, False]])
_EMPTY = Case((np.zeros((0, 3)),), {"axis": 0}, smooth=False)
_NANS = np.array([[0.5, np.nan, -1.2], [np.nan, 2.0, 0.7]])

REDUCTIONS: dict[Callable[..., Any], list[Case]] = {
    np.sum: [
        *over_axes(normal),
        _EMPTY,
        Case((random_whole_numbers(2, 3),), {"axis": 1, "initial": 2.5, "where": _mask}),
        Case((normal(2, 3), 0, np.float64)),
    ],
    np.mean: [*over_axes(normal), Case((normal(2, 3),), {"axis": 1, "where": _mask}), Case((normal(2, 3), 0, float))],
    np.prod: [
        *over_axes(normal),
        _EMPTY,
        Case((random_whole_numbers(2, 3),), {"axis": 1, "initial": 2.5, "where": _mask}),
        Case((with_zeros((0, 1)),)),
        Case((with_zeros((0, 1), (1, 1)), 0)),
        Case((with_zeros((0, 1), (1, 1), (1, 2)), -1)),
        Case((with_zeros((0, 0), (0, 1), (0, 2))[np.newaxis],), {"axis": (0, 2), "keepdims": True}),
    ],
    np.var: [
        *over_axes(normal),
        Case((normal(2, 3), 1), {"ddof": 1}),
        Case((normal(2, 3), 1), {"correction": 0.5}),
        Case((normal(2, 3), 1), {"where": _mask, "ddof": 1}),
        Case((normal(2, 3), 1), {"mean": normal(2, 1)}, differentiate=(0, "mean")),
    ],
    np.std: [
        *over_axes(normal)[:-2],
        Case((normal(2, 3), 1), {"ddof": 1, "keepdims": True}),
        Case((normal(2, 4), 1), {"where": np.array([True, True, False, True])}),
    ],
    np.max: [
        *over_axes(distinct),
        Case((distinct(2, 3),), {"axis": 1, "initial": -9.0}),
        Case((distinct(2, 3),), {"axis": 1, "initial": 9.0}, smooth=False),
        Case((distinct(2, 3),), {"axis": 1, "initial": -9.0, "where": _mask}),
        Case((np.zeros((0, 3)),), {"axis": 0, "initial": 1.0}, smooth=False),
    ],
    np.min: [
        *over_axes(distinct),
        Case((distinct(2, 3),), {"axis": 0, "initial": 9.0, "where": _mask}),
    ],
    np.amax: [Case((distinct(2, 3), 1))],
    np.amin: [Case((distinct(2, 3), 1))],
    np.ptp: [Case((distinct(2, 3),)), Case((distinct(2, 3), 1), {"keepdims": True})],
    np.average: [
        Case((normal(2, 3),)),
        Case((normal(2, 3), 1, positive(3)), differentiate=(0, 2)),
        Case((normal(2, 3),), {"weights": positive(2, 3)}, differentiate=(0, "weights")),
        Case((normal(2, 3, 2), (2, 0), positive(2, 2), True), {"keepdims": True}, differentiate=(0, 2)),
        Case((normal(2, 3), 0), {"returned": True}),
    ],
    np.median: [
        *over_axes(distinct)[:-2],
        Case((distinct(2, 4), 1)),
        Case((_NANS, 1), smooth=False),
    ],
    np.quantile: [
        Case((spaced(5), 0.3125)),
        Case((spaced(2, 5), [0.25, 0.875], 1)),
        Case((spaced(3, 2, 3), np.array([[0.5, 1.0]]), (0, -1)), {"keepdims": True}),
        Case((_NANS, [0.5, 0.25], 1), smooth=False),
    ],
    np.percentile: [Case((spaced(5), 62.5)), Case((spaced(2, 3), [25, 50]), {"axis": 0, "keepdims": True})],
    np.nansum: [Case((normal(2, 3), 0)), Case((_NANS,), smooth=False)],
    np.nanprod: [Case((normal(2, 3), 0)), Case((_NANS, 1), smooth=False)],
    np.nanmean: [
        Case((normal(2, 3), 0)),
        Case((_NANS, 1), smooth=False),
        Case((random_whole_numbers(2, 3),), {"where": _mask}),
    ],
    np.nanvar: [Case((normal(2, 3), 0)), Case((_NANS, 1), smooth=False)],
    np.nanstd: [Case((normal(2, 3), 0)), Case((_NANS, 1), {"keepdims": True}, smooth=False)],
    np.nanmax: [Case((distinct(2, 3), 0)), Case((_NANS, 1), {"keepdims": True}, smooth=False)],
    np.nanmin: [Case((distinct(2, 3), 0)), Case((_NANS,), smooth=False)],
    np.cumsum: [Case((normal(2, 3),)), Case((normal(2, 3), 0)), Case((normal(2, 3), -1, float)), Case((normal(),))],
    np.cumprod: [
        Case((normal(2, 3),)),
        Case((normal(2, 3), 0)),
        Case((with_zeros((0, 1)),)),
        Case((with_zeros((0, 0), (0, 2), (1, 2)), 1)),
    ],
    np.diff: [
        Case((normal(4),)),
        Case((normal(2, 4), 2)),
        Case((normal(3, 2),), {"axis": 0, "prepend": normal(1, 2), "append": 2.0}, differentiate=(0, "prepend")),
        Case((normal(2), 0)),
    ],
    np.gradient: [
        Case((12 * random_whole_numbers(4),)),
        Case((12 * random_whole_numbers(3, 4), 2.0)),
        Case((12 * random_whole_numbers(3, 4), 0.5), {"axis": 1, "edge_order": 2}),
        Case(
            (12 * random_whole_numbers(2, 4), np.array([0.0, 1.0, 4.0, 5.0])),
            {"axis": -1, "edge_order": 2},
            differentiate=(0, 1),
        ),
        Case((12 * random_whole_numbers(3, 4), 1, [0.0, 1.0, 4.0, 5.0]), {"axis": (0, 1)}),
    ],
    np.interp: [
        Case(
            (np.array([0.25, 3.5, 9.0, -1.0]), np.array([0.0, 2.0, 6.0]), random_whole_numbers(3)),
            differentiate=(0, 1, 2),
        ),
        Case((np.array(0.25), [0.0, 2.0], [4.0, 5.0])),
        Case(
            (np.array([-1.0, 0.5, 7.0]), np.array([0.0, 2.0]), random_whole_numbers(2), -9.0, 9.0), differentiate=(0, 2)
        ),
        Case((np.array([-1.0, 0.5]), [1.0], random_whole_numbers(1)), differentiate=(2,)),
    ],
    np.trapezoid: [
        Case((normal(4),)),
        both(normal(2, 4), np.array([0.0, 0.4, 1.0, 1.5])),
        both(normal(3, 2), normal(3, 2), axis=0),
        Case((normal(3, 2),), {"dx": 0.5, "axis": 0}),
    ],
}

DIAGONALS: dict[Callable[..., Any], list[Case]] = {
    np.trace: [Case((normal(3, 3),)), Case((normal(3, 2, 3), 1, -1, 0))],
    np.diagonal: [Case((normal(3, 3),)), Case((normal(2, 3, 4), -1, 1, 2)), Case((normal(2, 3), 1))],
    np.lib.stride_tricks.sliding_window_view: [
        Case((normal(4), 2)),
        Case((normal(3, 4), (2, 3))),
        Case((normal(3, 4), 2, 0)),
        Case((normal(3, 4), (2, 2), (1, 1)), {"writeable": True}),
    ],
    np.diag: [Case((normal(3),)), Case((normal(2), -1)), Case((normal(3, 4), 1))],
    np.diagflat: [Case((normal(2, 2), 1))],
    np.tril: [Case((normal(3, 3),)), Case((normal(2, 3, 4), 1)), Case((normal(3),))],
    np.triu: [Case((normal(3, 3),)), Case((normal(2, 3, 4), -1))],
    np.linalg.diagonal: [Case((normal(2, 3, 3),), {"offset": 1})],
    np.linalg.trace: [Case((normal(2, 3, 3),), {"offset": -1})],
}

SHAPES: dict[Callable[..., Any], list[Case]] = {
    np.reshape: [
        Case((normal(2, 3), (3, 2))),
        Case((normal(2, 3), -1), {"order": "F"}),
        # What these give hangs on the memory of the array, which differences are not taken in: see test_shaping.py.
        Case((normal(2, 3).T, (2, -1), "A"), smooth=False),
        Case((normal(), (1, 1))),
    ],
    np.ravel: [
        Case((normal(2, 3),)),
        Case((normal(2, 3), "F")),
        Case((normal(2, 3).T, "K"), smooth=False),
        Case((np.moveaxis(normal(2, 3, 2), 0, 1), "K"), smooth=False),
        Case((normal(2, 3).T, "A"), smooth=False),
    ],
    np.transpose: [Case((normal(2, 3),)), Case((normal(2, 3, 4), (1, -1, 0))), Case((normal(),))],
    np.matrix_transpose: [Case((normal(2, 3, 4),))],
    np.linalg.matrix_transpose: [Case((normal(2, 3, 4),))],
    np.swapaxes: [Case((normal(2, 3, 4), 0, -1))],
    np.moveaxis: [Case((normal(2, 3, 4), 0, -1)), Case((normal(2, 3, 4), (0, 2), (1, 0)))],
    np.rollaxis: [Case((normal(2, 3, 4), 2)), Case((normal(2, 3, 4), 0, 2)), Case((normal(2, 3, 4), 1, -1))],
    np.expand_dims: [Case((normal(2, 3), 1)), Case((normal(3), (0, -1)))],
    np.squeeze: [Case((normal(1, 3, 1),)), Case((normal(1, 3, 1), 0)), Case((normal(1, 3, 1), (0, -1)))],
    np.broadcast_to: [Case((normal(3, 1), (2, 3, 4))), Case((normal(), (2,)))],
    np.broadcast_arrays: [both(normal(3, 1), normal(1, 2))],
    np.atleast_1d: [both(normal(), normal(2, 2))],
    np.atleast_2d: [Case((normal(), normal(2), normal(1, 1, 2)), differentiate=(0, 1, 2))],
    np.atleast_3d: [Case((normal(), normal(2), normal(2, 2)), differentiate=(0, 1, 2)), Case((normal(2),))],
    np.ix_: [
        Case((np.array([0.5, 2.0]),)),
        Case((np.array([0.5, 2.0]), [1, 0, 2], np.array([1.5])), differentiate=(0, 2)),
    ],
    np.meshgrid: [
        both(normal(2), normal(3)),
        both(normal(2), normal(3), indexing="ij", sparse=True, copy=False),
        Case((normal(2), normal(3), normal(2)), differentiate=(0, 1, 2)),
    ],
    np.copy: [Case((normal(2, 3),)), Case((normal(2, 3).T, "C"))],
    np.flip: [Case((normal(2, 3),)), Case((normal(2, 3), -1)), Case((normal(2, 3, 2), (0, 2)))],
    np.flipud: [Case((normal(2, 3),))],
    np.fliplr: [Case((normal(2, 3),))],
    np.rot90: [Case((normal(2, 3), k)) for k in (-1, 0, 1, 2, 3)] + [Case((normal(2, 3, 2), 1, (2, 0)))],
    np.roll: [Case((normal(2, 3), 2)), Case((normal(2, 3), 1, 1)), Case((normal(2, 3), (1, -2), (0, 1)))],
    np.repeat: [
        Case((normal(2, 3), 2)),
        Case((normal(2, 3), 2, -1)),
        Case((normal(3, 2), np.array([0, 3, 1]), 0)),
        Case((normal(), [3])),
    ],
    np.tile: [Case((normal(2, 3), 2)), Case((normal(2), (2, 1, 3))), Case((normal(2, 1, 2), (2, 2)))],
    np.pad: [
        Case((normal(2, 3), 1)),
        Case((normal(2, 3), ((1, 0), (0, 2))), {"constant_values": ((1.0, 2.0), (3.0, 4.0))}),
        Case((normal(2, 3), (1, 2), "edge")),
        Case((normal(3, 4), ((2, 5), (3, 0)), "reflect")),
        Case((normal(2, 3), ((3, 1), (4, 7)), "symmetric")),
        Case((normal(2, 3), ((3, 1), (0, 8)), "wrap")),
        Case((normal(3, 4), ((2, 5), (3, 0)), "reflect"), {"reflect_type": "odd"}),
        Case((normal(2, 3), ((3, 1), (4, 7)), "symmetric"), {"reflect_type": "odd"}),
        Case((normal(1, 3), ((2, 1), (0, 3)), "reflect"), {"reflect_type": "odd"}),
        Case((normal(2, 3), ((1, 2), (0, 3)), "linear_ramp"), {"end_values": ((1.0, 2.0), (3.0, 4.0))}),
        Case((np.asfortranarray(normal(2, 3)), 2, "mean")),
        Case((normal(2, 3), (1, 2), "mean"), {"stat_length": ((1, 2), (3, 9))}),
        Case((normal(3, 3), 1, "median"), {"stat_length": 2}),
        Case((distinct(2, 3), ((0, 2), (1, 1)), "maximum"), {"stat_length": (2, 1)}),
        Case((distinct(2, 3), 1, "minimum")),
    ],
}

_index = np.array([[0, 2], [1, 0]])

PARTS: dict[Callable[..., Any], list[Case]] = {
    np.take: [
        Case((normal(2, 3), _index)),
        Case((normal(3, 2), [2, -1, 2], 0)),
        Case((normal(2, 3), _index, -1)),
        Case((normal(2, 3), 1, 0)),
        Case((normal(3), [-4, 5, 1]), {"mode": "wrap"}),
        Case((normal(3, 2), [-4, 5, 1], 0), {"mode": "clip"}),
    ],
    np.take_along_axis: [
        Case((normal(2, 3), np.array([[0, 0], [2, -1]]), 1)),
        Case((normal(2, 3), np.array([[1, 0, 1]])), {"axis": 0}),
        Case((normal(1, 3), np.array([[1, 0], [2, 2]]), 1)),
        Case((normal(2, 3), np.array([5, 0, 5]), None)),
    ],
    np.compress: [Case(([True, False, True], normal(2, 3), 1), differentiate=(1,))],
    np.extract: [Case((_mask, normal(2, 3)), differentiate=(1,))],
    np.delete: [Case((normal(2, 3), 1)), Case((normal(2, 3), [0, 2], 1)), Case((normal(4), slice(0, 2)))],
    np.select: [
        Case(([_mask, np.array([[True], [False]])], [normal(2, 3), normal(2, 3)], normal(3)), differentiate=(1, 2)),
        Case(([_mask], [normal(2, 3)]), differentiate=(1,)),
    ],
    np.choose: [
        Case((_index, [normal(2, 2), normal(2), normal()]), differentiate=(1,)),
        Case((np.array([0, 5, -1]), [normal(3), normal(3)]), {"mode": "wrap"}, differentiate=(1,)),
    ],
    np.sort: [Case((distinct(2, 3),)), Case((distinct(2, 3), 0)), Case((distinct(2, 3), None))],
    np.partition: [Case((distinct(2, 5), 2)), Case((distinct(2, 3), 1, None))],
}

JOINS: dict[Callable[..., Any], list[Case]] = {
    np.concatenate: [
        Case(([normal(2, 3), normal(1, 3)],)),
        Case(((normal(2, 1), normal(2, 3), normal(2, 0)), -1)),
        Case(([normal(2, 2), normal(3)], None)),
        Case(([normal(2)],), {"dtype": np.float64}),
    ],
    np.stack: [
        Case(([normal(2, 3), normal(2, 3)],)),
        Case(((normal(2), normal(2)), -1)),
        Case(([normal(), normal()],)),
    ],
    np.hstack: [Case(([normal(2, 3), normal(2, 1)],)), Case(([normal(2), normal()],))],
    np.vstack: [Case(([normal(2, 3), normal(3)],))],
    np.dstack: [Case(([normal(2, 3), normal(2, 3, 2)],)), Case(([normal(2), normal(2)],))],
    np.column_stack: [Case(([normal(2), normal(2, 3)],))],
    np.append: [both(normal(2, 3), normal(2)), both(normal(2, 3), normal(1, 3), 0)],
    np.block: [Case(([[normal(2, 2), normal(2, 1)], [normal(3)]],)), Case((normal(2),))],
    np.split: [Case((normal(4, 3), 2)), Case((normal(2, 5), [1, 3], -1)), Case((normal(2, 3), [2, 1, 9], 1))],
    np.array_split: [Case((normal(7), 3)), Case((normal(2, 3), 2, 1))],
    np.hsplit: [Case((normal(2, 4), 2)), Case((normal(4), 2))],
    np.vsplit: [Case((normal(4, 2), 2))],
    np.dsplit: [Case((normal(2, 1, 4), 2))],
}

CASES: dict[Callable[..., Any], list[Case]] = {
    **REDUCTIONS,
    **DIAGONALS,
    **SHAPES,
    **PARTS,
    **JOINS,
    **PRODUCTS,
    **NORMS,
    **cases_fourier.CASES,
    **cases_functions.CASES,
    **cases_polynomials.CASES,
    # Complex results of real numbers.
    **{
        function: [Case((np.array([0.5, 2.0]),)), Case((np.array([0.5, -1.5]),))]
        for function in (np.emath.sqrt, np.emath.log, np.emath.log2, np.emath.log10)
    },
    np.emath.logn: [both(np.array([2.0, 3.0]), np.array([0.5, -1.5]))],
    np.emath.power: [Case((np.array([0.5, -1.5]), 2.5)), both(np.array([0.5, -1.5]), np.array([1.5, -2.0]))],
    **{
        function: [Case((np.array([0.5, -0.5]),)), Case((np.array([0.5, -1.5]),))]
        for function in (np.emath.arccos, np.emath.arcsin, np.emath.arctanh)
    },
    **cases_sequences.CASES,
    **cases_sets.CASES,
}
for _function, _cases in cases_decompositions.CASES.items():
    CASES[_function] = CASES.get(_function, []) + _cases
for _name, _cases in {
    "cumulative_sum": [Case((normal(3),)), Case((normal(2, 3),), {"axis": 1, "include_initial": True})],
    "cumulative_prod": [Case((normal(3),)), Case((with_zeros((0, 1)),), {"axis": 1, "include_initial": True})],
    "astype": [Case((normal(2, 3), np.float64)), Case((normal(2, 3), np.float64), {"copy": False})],
    "unstack": [Case((normal(2, 3),)), Case((normal(2, 3),), {"axis": -1})],
    "matvec": [
        both(np.clip(random_whole_numbers(2, 2, 3), -4, 4), np.clip(random_whole_numbers(2, 3), -4, 4)),
        both(np.clip(random_whole_numbers(2, 3), -4, 4), np.clip(random_whole_numbers(3), -4, 4)),
    ],
    "vecmat": [
        both(np.clip(random_whole_numbers(2, 3), -4, 4), np.clip(random_whole_numbers(2, 3, 2), -4, 4)),
        both(np.clip(random_whole_numbers(3), -4, 4), np.clip(random_whole_numbers(3, 2), -4, 4)),
    ],
}.items():
    if hasattr(np, _name):  # newer than the oldest NumPy that will do
        CASES[getattr(np, _name)] = _cases
