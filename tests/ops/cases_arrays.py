"""Points at which the functions of whole arrays can be differentiated: data, for test_rules.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.finite_differences import Case

_random = np.random.default_rng(20240608)


def normal(*shape: int) -> np.ndarray:
    """Draw numbers of either sign, none nearer to 0 than 0.1."""
    drawn = _random.normal(size=shape)
    return np.asarray(drawn + np.copysign(0.1, drawn))


def whole(*shape: int) -> np.ndarray:
    """Draw whole numbers of either sign: sums of their products are the same in any order."""
    return np.asarray(np.rint(4 * normal(*shape)))


def positive(*shape: int) -> np.ndarray:
    """Draw numbers between 0.5 and 2.5."""
    return np.asarray(_random.uniform(0.5, 2.5, shape))


def distinct(*shape: int) -> np.ndarray:
    """Draw numbers of either sign of which no two are nearer to each other, or to 0, than 0.1."""
    size = int(np.prod(shape))
    return np.asarray((_random.permutation(size).reshape(shape) - size // 2 + 0.4) * 0.3)


def matrix(*shape: int) -> np.ndarray:
    """Draw matrices that are far from singular."""
    return normal(*shape) + 3 * np.eye(shape[-2], shape[-1])


def with_zeros(*places: tuple[int, ...]) -> np.ndarray:
    """Draw a matrix with zeros at places."""
    drawn = normal(2, 3)
    for place in places:
        drawn[place] = 0.0
    return drawn


def both(*args: Any, **kwargs: Any) -> Case:
    """Return a case in which the first two arguments are differentiated."""
    return Case(args, kwargs, differentiate=(0, 1))


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


_mask = np.array([[True, False, True], [True, True, False]])
_EMPTY = Case((np.zeros((0, 3)),), {"axis": 0}, smooth=False)
_NANS = np.array([[0.5, np.nan, -1.2], [np.nan, 2.0, 0.7]])

REDUCTIONS: dict[Callable[..., Any], list[Case]] = {
    np.sum: [
        *over_axes(normal),
        _EMPTY,
        Case((normal(2, 3),), {"axis": 1, "initial": 2.5, "where": _mask}),
        Case((normal(2, 3), 0, np.float64)),
    ],
    np.mean: [*over_axes(normal), Case((normal(2, 3),), {"axis": 1, "where": _mask}), Case((normal(2, 3), 0, float))],
    np.prod: [
        *over_axes(normal),
        _EMPTY,
        Case((normal(2, 3),), {"axis": 1, "initial": 2.5, "where": _mask}),
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
    np.nansum: [Case((normal(2, 3), 0)), Case((_NANS,), smooth=False)],
    np.nanprod: [Case((normal(2, 3), 0)), Case((_NANS, 1), smooth=False)],
    np.nanmean: [Case((normal(2, 3), 0)), Case((_NANS, 1), smooth=False), Case((whole(2, 3),), {"where": _mask})],
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
        Case((normal(2, 3), (6,)), {"copy": True}),
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
    np.meshgrid: [
        both(normal(2), normal(3)),
        both(normal(2), normal(3), indexing="ij", sparse=True, copy=False),
        Case((normal(2), normal(3), normal(2)), differentiate=(0, 1, 2)),
    ],
    np.astype: [Case((normal(2, 3), np.float64)), Case((normal(2, 3), np.float64), {"copy": False})],
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
        Case(
            ([_mask, np.array([[True], [False]])], [normal(2, 3), normal(2, 3)], normal(3)), differentiate=(1, 2)
        ),
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

_MATRIX_PRODUCTS = [
    both(whole(3), whole(3)),
    both(whole(2, 3), whole(3)),
    both(whole(3), whole(3, 2)),
    both(whole(2, 3), whole(3, 4)),
    both(whole(2, 2, 3), whole(3, 4)),
    both(whole(2, 2, 3), whole(3)),
    both(whole(3), whole(2, 3, 2)),
    both(whole(2, 3), whole(2, 3, 2)),
    both(whole(2, 1, 2, 3), whole(2, 3, 2)),
    both([[1.0, 2.0]], whole(2, 3)),
]

PRODUCTS: dict[Callable[..., Any], list[Case]] = {
    np.matmul: _MATRIX_PRODUCTS,
    np.linalg.matmul: _MATRIX_PRODUCTS[3:5],
    np.dot: [
        *_MATRIX_PRODUCTS[:6],
        both(whole(), whole(2)),
        both(whole(2, 3), whole(2, 3, 2)),
        both(whole(3), whole(2, 3, 2)),
        both(whole(2, 2, 3), whole(2, 3, 2)),
    ],
    np.inner: [both(whole(3), whole(3)), both(whole(2, 3), whole(2, 1, 3)), both(whole(2, 3), whole())],
    np.outer: [both(whole(2, 2), whole(3))],
    np.linalg.outer: [both(whole(2), whole(3))],
    np.vdot: [both(whole(2, 3), whole(3, 2))],
    np.vecdot: [both(whole(2, 3), whole(3)), both(whole(3, 2), whole(3, 1), axis=0)],
    np.linalg.vecdot: [both(whole(2, 3), whole(3))],
    np.kron: [both(whole(2, 2), whole(3)), both(whole(2), whole(2, 1, 2))],
    np.cross: [both(whole(2, 3), whole(3)), both(whole(3, 2), whole(3, 2), axis=0), both(whole(3), whole(3))],
    np.linalg.cross: [both(whole(3, 2), whole(3, 2), axis=0)],
    np.tensordot: [
        both(whole(2, 3, 2), whole(3, 2, 2)),
        both(whole(2, 3), whole(2), 0),
        both(whole(2, 3, 4), whole(4, 2, 3), ((1, -1), (2, 0))),
        both(whole(2, 3, 4), whole(5, 2), (0, 1)),
        both(whole(2, 3), whole(3, 2), ([0, 1], [1, 0])),
    ],
    np.linalg.tensordot: [both(whole(2, 3), whole(3, 2), axes=1)],
    np.convolve: [both(whole(4), whole(3), *mode) for mode in ((), ("same",), ("valid",))]
    + [both(whole(2), whole(5), mode) for mode in ("same", "valid")],
    np.correlate: [both(whole(4), whole(3), *mode) for mode in ((), ("same",), ("full",))]
    + [both(whole(2), whole(5), mode) for mode in ("same", "valid", "full")],
}


def einsums(*operands: Any, **kwargs: Any) -> Case:
    """Return a case of einsum in which every array is differentiated."""
    places = tuple(index for index, operand in enumerate(operands) if isinstance(operand, np.ndarray))
    return Case(operands, kwargs, differentiate=places)


EINSUMS = [
    einsums("ij->ji", whole(2, 3)),
    einsums("ij->", whole(2, 3)),
    einsums("ii->i", whole(3, 3)),
    einsums("iij->j", whole(2, 2, 3)),
    einsums("ii", whole(3, 3)),
    einsums("ba", whole(2, 3)),
    einsums("...ij->...", whole(2, 2, 3)),
    einsums("ij,jk->ik", whole(2, 3), whole(3, 2)),
    einsums("ij,jk", whole(2, 3), whole(3, 2)),
    einsums("bij,bjk->bik", whole(2, 2, 3), whole(2, 3, 2)),
    einsums("bhqd,bhkd->bhqk", whole(2, 1, 2, 3), whole(2, 1, 3, 3)),
    einsums("...ij,jk->...ki", whole(2, 2, 3), whole(3, 2)),
    einsums("i...,...i->...", whole(3, 2), whole(2, 3)),
    einsums("i,j->ij", whole(2), whole(3)),
    einsums("ij,ij->", whole(2, 3), whole(2, 3)),
    einsums("ij,ij->i", whole(2, 3), whole(2, 3)),
    einsums("ij,k->i", whole(2, 3), whole(2)),
    einsums("ii,ij->j", whole(2, 2), whole(2, 3)),
    einsums("ijj,jk->ik", whole(2, 3, 3), whole(3, 2)),
    einsums("ij,j->", whole(1, 3), whole(1)),
    einsums("ij,jk->ik", whole(2, 1), whole(3, 2)),
    einsums("ij,ij->ij", whole(1, 3), whole(2, 1)),
    einsums("ij,jk,kl->il", whole(2, 3), whole(3, 2), whole(2, 2)),
    einsums("i,ij,j,j->", whole(2), whole(2, 3), whole(3), whole(3), optimize=True),
    einsums("a,ab,abc->c", whole(2), whole(2, 2), whole(2, 2, 3)),
    einsums(whole(2, 3), [0, 1], whole(3, 2), [1, 2], [2, 0]),
    einsums(whole(2, 3), [Ellipsis, 1], whole(3), [1]),
    einsums(",i->i", whole(), whole(2)),
]
PRODUCTS[np.einsum] = EINSUMS

NORMS: dict[Callable[..., Any], list[Case]] = {
    np.linalg.norm: [
        Case((normal(2, 3, 2),)),
        Case((normal(3),), {"keepdims": True}),
        *[Case((distinct(4), order)) for order in (2, 1, 3, 0.5, -1, 1.5, np.inf, -np.inf)],
        *[Case((distinct(2, 3), order, axis)) for order in (None, 1, 2.5, np.inf) for axis in (0, -1)],
        *[Case((distinct(2, 3), order)) for order in ("fro", 1, -1, np.inf, -np.inf)],
        Case((distinct(2, 3, 2), None, (0, 2)), {"keepdims": True}),
        Case((distinct(2, 3, 2), 1, (2, 0)), {"keepdims": True}),
        Case((normal(3), 0), smooth=False),
    ],
    np.linalg.vector_norm: [
        Case((normal(2, 3),)),
        Case((normal(2, 3),), {"axis": 0, "ord": 3, "keepdims": True}),
        Case((distinct(2, 3, 2),), {"axis": (0, 1), "ord": np.inf}),
    ],
    np.linalg.matrix_norm: [Case((normal(2, 3, 2),)), Case((distinct(2, 3, 2),), {"ord": 1, "keepdims": True})],
    np.linalg.inv: [Case((matrix(3, 3),)), Case((matrix(2, 2, 2),))],
    np.linalg.det: [Case((matrix(3, 3),)), Case((matrix(2, 2, 2),)), Case((np.outer([1.0, 2.0], [3.0, 1.0]),))],
    np.linalg.slogdet: [Case((matrix(3, 3),)), Case((-matrix(2, 3, 3),))],
    np.linalg.solve: [
        both(matrix(3, 3), normal(3)),
        both(matrix(3, 3), normal(3, 2)),
        both(matrix(2, 3, 3), normal(3, 2)),
    ],
    np.linalg.cholesky: [],
}

CASES: dict[Callable[..., Any], list[Case]] = {
    **REDUCTIONS,
    **DIAGONALS,
    **SHAPES,
    **PARTS,
    **JOINS,
    **PRODUCTS,
    **NORMS,
}
for _name, _cases in {
    "cumulative_sum": [Case((normal(3),)), Case((normal(2, 3),), {"axis": 1, "include_initial": True})],
    "cumulative_prod": [Case((normal(3),)), Case((with_zeros((0, 1)),), {"axis": 1, "include_initial": True})],
    "unstack": [Case((normal(2, 3),)), Case((normal(2, 3),), {"axis": -1})],
    "matvec": [both(whole(2, 2, 3), whole(2, 3)), both(whole(2, 3), whole(3))],
    "vecmat": [both(whole(2, 3), whole(2, 3, 2)), both(whole(3), whole(3, 2))],
}.items():
    if hasattr(np, _name):  # newer than the oldest NumPy that will do
        CASES[getattr(np, _name)] = _cases
