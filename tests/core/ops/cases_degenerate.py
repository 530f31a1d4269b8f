"""Arguments at the edge of what a function takes: empty arrays, no axes, widths of zero, one repetition, orders.

Data, for test_memory_of_results.py; the values are of no interest, but where results lie in memory is.
"""

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
from tests.core.ops.finite_differences import Case
from tests.core.ops.forms import FORMS, counted


def numbers(*shape: int) -> np.ndarray:
    """Return an array of integers that counts up from 0, and begins again after 3."""
    return np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3)


NOTHING, SCALAR, ONE, ROW, GRID, CUBE, WIDE, TALL = FORMS[:8]
ALL_FORMS = (*FORMS, counted(1, 1))
SQUARE = GRID[:, :2] + 3 * np.eye(2)
MASK = np.array([[True, False, True], [False, True, True]])


def in_each_form(*more: Any, **kwargs: Any) -> list[Case]:
    """Return a call for each form of the first argument."""
    return [Case((form, *more), kwargs) for form in ALL_FORMS]


def calls(*arguments: tuple[Any, ...]) -> list[Case]:
    """Return a call for each tuple of arguments."""
    return [Case(one) for one in arguments]


_ORDERS = ("C", "F", "A", "K")
_REDUCTIONS = [
    *in_each_form(),
    *in_each_form(axis=0),
    *in_each_form(axis=-1, keepdims=True),
    *in_each_form(axis=()),
    Case((CUBE,), {"axis": (0, 2)}),
    Case((CUBE,), {"axis": (2, 0), "keepdims": True}),
    Case((GRID,), {"axis": 1, "where": MASK}),
]
_OVER_ONE_AXIS = [*in_each_form(), *in_each_form(0), *in_each_form(axis=-1), Case((CUBE, 1))]
_ALIKE = [
    Case((NOTHING, NOTHING)),
    Case((SCALAR, SCALAR)),
    Case((SCALAR, ROW)),
    Case((GRID, SCALAR)),
    Case((GRID, ROW)),
    Case((counted(2, 1), ROW)),
    Case((CUBE, CUBE)),
    Case((WIDE, ROW)),
    Case((TALL, counted(2, 1))),
    Case((GRID, 2)),
    Case((2.5, GRID)),
]
_SPLITS = [Case((CUBE, 1)), Case((CUBE, [])), Case((CUBE, [0, 1])), Case((WIDE, 1)), Case((counted(2, 2, 2), 2))]
_STACKS = [Case(([form],)) for form in ALL_FORMS] + [
    Case(([GRID, GRID],)),
    Case((GRID,)),
    Case(((CUBE, CUBE),)),
    Case(([NOTHING, NOTHING],)),
    Case(([SCALAR, SCALAR],)),
    Case(([ROW, ROW],)),
    Case(([numbers(3), ROW],)),
]


def _for_each(functions: tuple[Callable[..., Any], ...], cases: list[Case]) -> dict[Callable[..., Any], list[Case]]:
    """Return the same calls for several functions."""
    return {function: list(cases) for function in functions}


CASES: dict[Callable[..., Any], list[Case]] = {
    # Complex results of real numbers.
    **{
        function: in_each_form()
        for function in (
            *(np.emath.sqrt, np.emath.log, np.emath.log2, np.emath.log10),
            *(np.emath.arccos, np.emath.arcsin, np.emath.arctanh),
        )
    },
    np.emath.logn: [Case((3.0, form)) for form in ALL_FORMS],
    np.emath.power: in_each_form(2.0) + in_each_form(-1),
    # Elements in other places.
    np.pad: [
        *[Case((form, width)) for form in ALL_FORMS for width in (0, 1, ((0, 0),), [])],
        *[Case((form, 0, mode)) for form in ALL_FORMS for mode in ("edge", "reflect", "symmetric", "wrap")],
        *[Case((form, 2, mode)) for form in ALL_FORMS for mode in ("edge", "reflect", "symmetric", "wrap")],
        *[Case((GRID, ((1, 0), (0, 2)), mode)) for mode in ("constant", "edge", "reflect", "symmetric", "wrap")],
        Case((GRID, {0: 1})),
        Case((GRID, {-1: (1, 0)}, "edge")),
        Case((GRID, 1), {"constant_values": 7}),
        Case((WIDE, ((1, 1), (0, 0)))),
        Case((numbers(2, 2), 1), {"constant_values": 1.5}),
    ],
    np.tile: [
        Case((form, reps)) for form in ALL_FORMS for reps in (1, 0, 2, (), (1,), (1, 1), (2, 1), (1, 2), (1, 1, 1))
    ],
    np.repeat: [
        *[Case((form, count)) for form in ALL_FORMS for count in (0, 1, 2, [1], [2], [])],
        *[Case((form, count, 0)) for form in ALL_FORMS for count in (0, 1, 2, [1], [])],
        Case((ROW, [0, 1, 2])),
        Case((GRID, [2, 0], 0)),
        Case((GRID, [2, 0, 1], -1)),
        Case((TALL, [], 1)),
        Case((TALL, [2, 1], 0)),
        Case((GRID, np.array([[2]]), 0)),
    ],
    np.roll: [
        *in_each_form(0),
        *in_each_form(1),
        *in_each_form(1, 0),
        *in_each_form((1, 2), (0, -1)),
        *in_each_form((), ()),
        Case((GRID, (1, 1), 0)),
    ],
    np.flip: [*in_each_form(), *in_each_form(0), *in_each_form(()), *in_each_form((0, -1))],
    np.flipud: in_each_form(),
    np.fliplr: in_each_form(),
    np.rot90: [case for k in (-1, 0, 1, 2, 3, 4) for case in in_each_form(k)] + [Case((CUBE, 1, (2, 0)))],
    # Shapes.
    np.reshape: [
        *[Case((form, -1, order)) for form in ALL_FORMS for order in "CFA"],
        *[Case((form, form.shape)) for form in ALL_FORMS],
        *[Case((form, form.shape[::-1]), {"copy": copy}) for form in ALL_FORMS for copy in (None, True, False)],
        *[Case((CUBE, (3, 4), order), {"copy": copy}) for order in "CFA" for copy in (None, True, False)],
        *[Case((CUBE, (2, -1), order)) for order in "CFA"],
        Case((SCALAR, ())),
        Case((ONE, ())),
        Case((ONE, (1, 1, 1))),
        Case((WIDE, (0, 5))),
        Case((WIDE, (0,))),
        Case((TALL, (0, -1))),
    ],
    np.ravel: [Case((form, order)) for form in (*ALL_FORMS, np.moveaxis(CUBE, 0, 1), CUBE.T) for order in _ORDERS],
    np.transpose: [
        *in_each_form(),
        *in_each_form(()),
        Case((GRID, (0, 1))),
        Case((CUBE, [2, 0, 1])),
        Case((WIDE, (1, 0))),
    ],
    np.ix_: calls((ROW,), (ROW, counted(2)), (ROW[::2], ROW)),
    np.matrix_transpose: in_each_form(),
    np.linalg.matrix_transpose: in_each_form(),
    np.swapaxes: [*in_each_form(0, 0), *in_each_form(0, -1)],
    np.moveaxis: [*in_each_form(0, -1), *in_each_form((), ()), *in_each_form(0, 0), Case((CUBE, (0, 1), (2, 0)))],
    np.rollaxis: [*in_each_form(0), *in_each_form(-1), Case((CUBE, 2, 1)), Case((CUBE, 0, 3))],
    np.expand_dims: [*in_each_form(0), *in_each_form(-1), *in_each_form(()), *in_each_form((0, 2))],
    np.squeeze: [
        *in_each_form(),
        *in_each_form(0),
        *in_each_form(()),
        *in_each_form(axis=-1),
        Case((counted(1, 3, 1), (0, 2))),
    ],
    np.broadcast_to: [
        *[Case((form, form.shape)) for form in ALL_FORMS],
        *[Case((form, (2, *form.shape))) for form in ALL_FORMS],
        *[Case((form, (0, *form.shape))) for form in ALL_FORMS],
        Case((ONE, 4)),
        Case((SCALAR, ())),
    ],
    np.broadcast_arrays: [*in_each_form(), *_ALIKE, Case((ROW, ROW, SCALAR)), Case((GRID, GRID))],
    np.atleast_1d: [*in_each_form(), *_ALIKE],
    np.atleast_2d: [*in_each_form(), *_ALIKE],
    np.atleast_3d: [*in_each_form(), *_ALIKE],
    np.meshgrid: [
        *[Case((ROW, NOTHING), {"copy": copy, "sparse": sparse}) for copy in (True, False) for sparse in (True, False)],
        *[Case((ROW, ONE), {"copy": copy, "sparse": sparse}) for copy in (True, False) for sparse in (True, False)],
        *[Case((form,), {"copy": copy}) for form in ALL_FORMS for copy in (True, False)],
        Case((ROW, counted(2), counted(2)), {"indexing": "ij", "copy": False}),
        Case((ROW, counted(2), counted(2)), {"indexing": "xy"}),
        Case((SCALAR, ROW)),
    ],
    np.copy: [Case((form, order)) for form in ALL_FORMS for order in _ORDERS] + in_each_form(),
    # Diagonals and windows.
    np.diagonal: [*in_each_form(), *in_each_form(1), *in_each_form(-5), Case((CUBE, 0, 0, 2)), Case((CUBE, 1, 2, 1))],
    np.diag: [*in_each_form(), *in_each_form(1), *in_each_form(-9)],
    np.diagflat: [*in_each_form(), *in_each_form(1)],
    np.trace: [*in_each_form(), *in_each_form(7), Case((CUBE,)), Case((numbers(2, 2),))],
    np.tril: [*in_each_form(), *in_each_form(-7), *in_each_form(7)],
    np.triu: [*in_each_form(), *in_each_form(-7), *in_each_form(7)],
    np.linalg.diagonal: in_each_form(),
    np.linalg.trace: in_each_form(),
    np.lib.stride_tricks.sliding_window_view: [
        *in_each_form(1, 0),
        *[Case((form, form.shape)) for form in ALL_FORMS],
        *[Case((form, ())) for form in ALL_FORMS],
        Case((GRID, (1, 1))),
        Case((GRID, 2, 1), {"writeable": True}),
        Case((GRID, 0, 1)),
    ],
    # Parts.
    np.take: [
        *in_each_form([]),
        *in_each_form(0),
        *in_each_form([0]),
        *in_each_form([], 0),
        *in_each_form(0, 0),
        *in_each_form([[0]], -1),
        *in_each_form(np.zeros((0, 2), int), 0),
        Case((GRID, [5], 0), {"mode": "clip"}),
        Case((GRID, numbers(2, 2), 1)),
        Case((CUBE, [1, 0], 1), {"mode": "wrap"}),
    ],
    np.take_along_axis: [
        Case((GRID, np.array([[0], [1]]), 1)),
        Case((GRID, np.zeros((2, 0), int), 1)),
        Case((WIDE, np.zeros((0, 2), int), 1)),
        Case((SCALAR, np.array([0]), None)),
        Case((GRID, np.array([], int), None)),
        Case((ROW, np.array([0]), 0)),
    ],
    np.compress: [
        Case(([], GRID, 0), differentiate=(1,)),
        Case(([True], GRID, 0), differentiate=(1,)),
        Case(([True, False], GRID, 0), differentiate=(1,)),
        Case(([True, True, False], GRID, 1), differentiate=(1,)),
        Case(([True], SCALAR), differentiate=(1,)),
        Case(([True, True], GRID), differentiate=(1,)),
        Case(([], NOTHING), differentiate=(1,)),
    ],
    np.extract: [
        Case((MASK, GRID), differentiate=(1,)),
        Case((~MASK & MASK, GRID), differentiate=(1,)),
        Case((True, SCALAR), differentiate=(1,)),
        Case(([], NOTHING), differentiate=(1,)),
    ],
    np.delete: [
        *in_each_form([]),
        *in_each_form(0),
        *in_each_form([0], 0),
        *in_each_form([], 0),
        *in_each_form(slice(0, 0)),
        *in_each_form(slice(0, 0), 0),
        *in_each_form(slice(None), 0),
        *in_each_form(slice(None, None, 2), -1),
        Case((GRID, 1, 1)),
        Case((GRID, np.array([True, False, True]), 1)),
        Case((CUBE, [0, 2], 1)),
        Case((CUBE, -1, 1)),
    ],
    np.select: [
        Case(([MASK], [GRID]), differentiate=(1,)),
        Case(([MASK, ~MASK], [GRID, 0.5], 2), differentiate=(1,)),
        Case(([np.array(True)], [SCALAR]), differentiate=(1,)),
        Case(([np.array([], bool)], [NOTHING]), differentiate=(1,)),
        Case(([MASK, MASK[0]], [ROW, GRID]), differentiate=(1,)),
        Case(([np.array(True)], [ROW]), differentiate=(1,)),
    ],
    np.choose: [
        Case((numbers(2, 3), [ROW, 2 * ROW, GRID]), differentiate=(1,)),
        Case((np.array([], int), [NOTHING]), differentiate=(1,)),
        Case((np.array(0), [SCALAR]), differentiate=(1,)),
        Case((0, [ROW]), differentiate=(1,)),
        Case((numbers(3), GRID.repeat(2, 0)), differentiate=(1,)),
    ],
    np.where: [
        Case((MASK, GRID, GRID), differentiate=(1, 2)),
        Case((True, SCALAR, SCALAR), differentiate=(1, 2)),
        Case((True, ROW, 0.0), differentiate=(1,)),
        Case((np.zeros((0, 3), bool), ROW, WIDE), differentiate=(1, 2)),
        Case((MASK, ROW, 1), differentiate=(1,)),
        *[Case((form,)) for form in ALL_FORMS],
    ],
    np.sort: [*_OVER_ONE_AXIS, *in_each_form(None), *in_each_form(kind="stable")],
    np.partition: [
        *in_each_form(0),
        *in_each_form(0, 0),
        *in_each_form(0, None),
        *in_each_form([0, -1]),
        Case((CUBE, 1, 1)),
    ],
    # Joined and cut apart.
    np.concatenate: [
        *_STACKS,
        *[Case(([form, form],), {"axis": None}) for form in ALL_FORMS],
        *[Case(([form, form], -1)) for form in ALL_FORMS],
        Case(([GRID, WIDE],)),
        Case(([GRID, TALL], 1)),
        Case(((CUBE, CUBE), 1)),
        Case(([ROW, ROW],), {"dtype": np.float32}),
    ],
    np.stack: [
        *_STACKS,
        *[Case(([form, form], -1)) for form in ALL_FORMS],
        *[Case(([CUBE, CUBE], axis)) for axis in range(4)],
    ],
    np.hstack: _STACKS,
    np.vstack: _STACKS,
    np.dstack: _STACKS,
    np.column_stack: _STACKS,
    np.block: [
        *[Case((form,)) for form in ALL_FORMS],
        *_STACKS,
        Case(([[GRID, GRID], [GRID, GRID]],)),
        Case(([[SCALAR]],)),
        Case(([[CUBE], [CUBE]],)),
    ],
    np.append: [
        *[Case((form, [])) for form in ALL_FORMS],
        *[Case((form, form)) for form in ALL_FORMS],
        *[Case((form, form, 0)) for form in ALL_FORMS],
        Case((GRID, TALL, 1)),
        Case((CUBE, CUBE, 2)),
    ],
    np.split: [*_SPLITS, Case((GRID, 3, 1)), Case((CUBE, 3, 1)), Case((GRID, [3, 1, 9], -1)), *in_each_form(1)],
    np.array_split: [*_SPLITS, Case((GRID, 5)), Case((CUBE, 2, 1)), Case((GRID, [-1])), *in_each_form(2)],
    np.hsplit: [*_SPLITS, *in_each_form(1)],
    np.vsplit: [*_SPLITS, *in_each_form(1)],
    np.dsplit: [*_SPLITS, *in_each_form(1), Case((counted(2, 3, 4), 2))],
    # Of whole arrays.
    **_for_each((np.sum, np.mean, np.prod, np.nansum, np.nanprod, np.nanmean), _REDUCTIONS),
    **_for_each((np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin), _REDUCTIONS),
    **_for_each((np.var, np.std, np.nanvar, np.nanstd), _REDUCTIONS),
    **_for_each((np.all, np.any), _REDUCTIONS),
    **_for_each((np.ptp, np.median), _REDUCTIONS[:-1]),
    np.average: [*_REDUCTIONS[:-1], Case((GRID, 1, ROW)), Case((GRID, 0), {"returned": True})],
    **_for_each(
        (np.quantile, np.percentile),
        [
            *in_each_form(0.5),
            *in_each_form([0.5]),
            *[Case((form, [])) for form in ALL_FORMS if form.size],
            *in_each_form(0.5, 0),
            *in_each_form([0.25, 0.5], -1),
            *in_each_form([0.25, 0.5], -1, keepdims=True),
            Case((CUBE, np.array([[0.5, 1.0]]), (0, 2))),
        ],
    ),
    **_for_each((np.cumsum, np.cumprod), [*_OVER_ONE_AXIS, Case((GRID, 0, np.float32))]),
    np.diff: [
        *in_each_form(),
        *in_each_form(0),
        *in_each_form(2),
        *in_each_form(1, 0),
        Case((GRID,), {"prepend": 0.0, "append": ONE}),
    ],
    np.gradient: [
        *in_each_form(),
        *in_each_form(2.0),
        Case((counted(4, 3),)),
        Case((counted(4, 3),), {"axis": 0, "edge_order": 2}),
    ],
    np.trapezoid: [*in_each_form(), *in_each_form(axis=0), Case((GRID, ROW)), Case((GRID,), {"dx": 0.5, "axis": 0})],
    np.interp: [Case((form, ROW, 2 * ROW), differentiate=(0, 1, 2)) for form in (*ALL_FORMS, 2.5, [1.5, 2.0])],
    np.sinc: in_each_form(),
    np.nan_to_num: [*in_each_form(), *in_each_form(copy=False), *in_each_form(nan=1.0)],
    np.clip: [
        *in_each_form(1.5, 2.5),
        *in_each_form(None, 2.0),
        *in_each_form(1.5, None),
        *in_each_form(None, None),
        Case((GRID, ROW, 9.0)),
    ],
    np.real: in_each_form(),
    np.imag: in_each_form(),
    # Products.
    **_for_each(
        (np.dot, np.matmul, np.linalg.matmul),
        calls(
            (NOTHING, NOTHING),
            (SCALAR, SCALAR),
            (SCALAR, GRID),
            (ROW, ROW),
            (GRID, ROW),
            (WIDE, ROW),
            (WIDE.T, WIDE),
            (TALL.T, GRID),
            (GRID, GRID.T),
            (CUBE, counted(2, 2)),
            (CUBE, counted(2)),
            (ROW, counted(2, 3, 2)),
            (counted(2, 2, 3), CUBE),
        ),
    ),
    np.inner: calls((NOTHING, NOTHING), (SCALAR, SCALAR), (GRID, ROW), (GRID, GRID), (SCALAR, GRID), (TALL, TALL)),
    **_for_each((np.outer, np.linalg.outer), calls((ROW, NOTHING), (ROW, ONE), (SCALAR, ROW), (GRID, ROW))),
    np.vdot: calls((NOTHING, NOTHING), (SCALAR, SCALAR), (GRID, GRID)),
    **_for_each((np.vecdot, np.linalg.vecdot), calls((NOTHING, NOTHING), (TALL, TALL), (GRID, ROW), (WIDE, WIDE))),
    np.kron: calls((ROW, NOTHING), (SCALAR, SCALAR), (SCALAR, GRID), (GRID, ROW), (GRID, GRID), (CUBE, ROW)),
    **_for_each((np.cross, np.linalg.cross), calls((ROW, ROW), (GRID, ROW), (WIDE, WIDE), (GRID, GRID))),
    **_for_each(
        (np.tensordot, np.linalg.tensordot),
        [
            Case((GRID, GRID), {"axes": 0}),
            Case((GRID, GRID), {"axes": 2}),
            Case((GRID, ROW), {"axes": 1}),
            Case((SCALAR, GRID), {"axes": 0}),
            Case((CUBE, CUBE), {"axes": ((0, 2), (0, 2))}),
            Case((TALL, WIDE), {"axes": 1}),
        ],
    ),
    **_for_each(
        (np.convolve, np.correlate),
        [Case((a, v, mode)) for mode in ("full", "same", "valid") for a, v in ((ROW, ONE), (ONE, ONE), (ONE, ROW))],
    ),
    np.einsum: calls(
        ("ij", GRID),
        ("ij->ji", GRID),
        ("ij->ij", GRID),
        ("ij->", GRID),
        ("ii->i", SQUARE),
        ("ii", SQUARE),
        ("...", GRID),
        ("...->...", SCALAR),
        ("i->i", NOTHING),
        ("i->", NOTHING),
        ("ij,j", WIDE, ROW),
        ("ij,jk->ik", GRID, GRID.T),
        ("ij,jk->ki", GRID, GRID.T),
        ("ij,kj->ik", TALL, TALL),
        ("i,j->ji", ROW, ONE),
        (",->", SCALAR, SCALAR),
        ("ijk->kji", CUBE),
        ("ij,ij->ij", GRID, GRID),
        ("ij,jk,kl->il", GRID, GRID.T, GRID),
        (GRID, [0, 1], [1, 0]),
    ),
    # Linear algebra.
    **_for_each(
        (np.linalg.inv, np.linalg.det, np.linalg.slogdet),
        calls((SQUARE,), (counted(0, 0),), (counted(0, 2, 2),), (counted(1, 1),), (np.stack([SQUARE, SQUARE]),)),
    ),
    np.linalg.cholesky: [
        Case((matrix,), {"upper": upper})
        for upper in (False, True)
        for matrix in (
            SQUARE @ SQUARE.T,
            counted(0, 0),
            counted(1, 1),
            np.stack([SQUARE @ SQUARE.T] * 2),
            counted(0, 2, 2),
        )
    ],
    np.linalg.solve: calls(
        (SQUARE, counted(2)),
        (SQUARE, GRID),
        (SQUARE, TALL),
        (counted(0, 0), NOTHING),
        (np.stack([SQUARE, SQUARE]), GRID),
        (counted(1, 1), ONE),
    ),
    np.linalg.norm: [
        *in_each_form(),
        *in_each_form(keepdims=True),
        *in_each_form(None, 0),
        *in_each_form(1, -1, keepdims=True),
        *[Case((form, order)) for form in (ROW, GRID) for order in (None, 1, -1, 2, -2, np.inf, -np.inf)],
        *[Case((form, "nuc")) for form in (GRID, WIDE, TALL)],
        Case((ROW, 0)),
        Case((GRID, "fro")),
        Case((CUBE, None, (0, 2))),
    ],
    np.linalg.vector_norm: [
        *in_each_form(),
        *in_each_form(keepdims=True),
        *in_each_form(axis=0),
        *in_each_form(axis=()),
    ],
    np.linalg.matrix_norm: [*in_each_form(), *in_each_form(keepdims=True), *in_each_form(ord=1)],
    **cases_fourier.DEGENERATE,
    **cases_decompositions.DEGENERATE,
    **cases_functions.DEGENERATE,
    **cases_polynomials.DEGENERATE,
    **cases_sequences.DEGENERATE,
    **cases_sets.DEGENERATE,
    # Writes, into the first argument.
    np.copyto: [
        *[Case((form, 5.0)) for form in ALL_FORMS],
        *[Case((form, form + 1)) for form in ALL_FORMS],
        Case((GRID, ROW)),
        Case((GRID, 5), {"where": MASK}),
        Case((GRID, counted(1, 2, 3))),
        Case((GRID, 1.5), {"where": MASK[0]}),
    ],
    np.put: [
        *[
            Case((form, index, value))
            for form in ALL_FORMS
            for index in (0, [0], [], [0, 0], [-1, 0])
            for value in (7.0, [7.0, 8.0], [])
        ],
        *[
            Case((form, index, value), {"mode": mode})
            for form in ALL_FORMS
            for index in ([5, -7], [0, 1, 2, 3], 3)
            for value in (7.0, [7.0, 8.0], [[4.0], [5.0], [6.0]])
            for mode in ("raise", "wrap", "clip")
        ],
    ],
    np.place: [
        *[Case((form, np.ones(form.shape, bool), value)) for form in ALL_FORMS for value in (7.0, [7.0, 8.0], [])],
        *[Case((form, np.zeros(form.shape, bool), value)) for form in ALL_FORMS for value in (7.0, [])],
        Case((GRID, MASK, [1.0, 2.0, 3.0])),
        Case((GRID, MASK[:1], 1.0)),
    ],
    np.putmask: [
        *[Case((form, np.ones(form.shape, bool), value)) for form in ALL_FORMS for value in (7.0, [7.0, 8.0], [])],
        *[Case((form, np.zeros(form.shape, bool), value)) for form in ALL_FORMS for value in (7.0, [])],
        Case((GRID, MASK, 10 * GRID)),
        Case((GRID, MASK[:1], 1.0)),
    ],
    np.put_along_axis: [
        *[Case((form, np.array([0]), 7.0, None)) for form in ALL_FORMS],
        *[Case((form, np.zeros((1,) * form.ndim, int), 7.0, 0)) for form in ALL_FORMS],
        Case((GRID, np.array([[0], [2]]), np.array([[7.0], [8.0]]), 1)),
        Case((GRID, np.zeros((2, 0), int), 7.0, 1)),
        Case((GRID, np.array([], int), 7.0, None)),
    ],
    np.fill_diagonal: [
        *in_each_form(7.0),
        *in_each_form([7.0, 8.0]),
        *in_each_form(7.0, True),
        *in_each_form([]),
        Case((counted(2, 2, 2), 7.0)),
        Case((counted(5, 2), [7.0, 8.0, 9.0], True)),
    ],
    # Without a derivative.
    **_for_each((np.around, np.round), [*in_each_form(), *in_each_form(1), *in_each_form(-1)]),
    **_for_each(
        (np.argmax, np.argmin, np.nanargmax, np.nanargmin), [*_OVER_ONE_AXIS, *in_each_form(axis=0, keepdims=True)]
    ),
    np.argsort: [*_OVER_ONE_AXIS, *in_each_form(None)],
    np.argpartition: [*in_each_form(0), *in_each_form(0, None)],
    **_for_each(
        (np.empty_like, np.ones_like, np.zeros_like),
        [*in_each_form(), *in_each_form(order="C"), *in_each_form(shape=(2, 0)), *in_each_form(dtype=int)],
    ),
    np.full_like: [*in_each_form(2.5), *in_each_form(2.5, order="C"), *in_each_form(2.5, dtype=int)],
    np.count_nonzero: [*in_each_form(), *in_each_form(0)],
    np.digitize: in_each_form(ROW),
    np.searchsorted: [Case((ROW, form)) for form in ALL_FORMS],
    np.isin: [*in_each_form(ROW), *in_each_form([])],
    np.lexsort: [Case((form,)) for form in ALL_FORMS],
    np.common_type: in_each_form(),
    np.can_cast: calls((np.float64, np.float32)),
    np.unravel_index: [Case((numbers(*form.shape), (3, 1))) for form in ALL_FORMS],
    np.ravel_multi_index: [Case(((numbers(3), numbers(3)), (3, 3))), Case(((numbers(), numbers()), (3, 3)))],
    **_for_each((np.diag_indices_from, np.tril_indices_from, np.triu_indices_from), calls((SQUARE,), (counted(0, 0),))),
    **_for_each((np.may_share_memory, np.shares_memory), calls((ROW, ROW), (GRID, GRID[0]))),
}
for _name, _cases in {
    "cumulative_sum": [
        *in_each_form(axis=0),
        *in_each_form(axis=-1, include_initial=True),
        Case((ROW,)),
        Case((NOTHING,)),
    ],
    "cumulative_prod": [
        *in_each_form(axis=0),
        *in_each_form(axis=-1, include_initial=True),
        Case((ROW,)),
        Case((NOTHING,)),
    ],
    "astype": [
        *in_each_form(np.float64),
        *in_each_form(np.float32),
        *in_each_form(np.float64, copy=False),
        *in_each_form(np.float32, copy=False),
        *in_each_form(int),
    ],
    "unstack": [*in_each_form(), *in_each_form(axis=-1)],
    "matvec": calls((GRID, ROW), (WIDE, ROW), (TALL, NOTHING), (CUBE, counted(2))),
    "vecmat": calls((counted(2), GRID), (ROW, WIDE.T), (counted(2), TALL), (ROW, CUBE)),
}.items():
    if hasattr(np, _name):  # newer than the oldest NumPy that will do
        CASES[getattr(np, _name)] = _cases


def of_ufunc(ufunc: np.ufunc) -> list[Case]:
    """Return calls of an elementwise function of one or two arrays."""
    return in_each_form() if ufunc.nin == 1 else _ALIKE
