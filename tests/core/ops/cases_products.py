"""Points at which products, contractions and norms can be differentiated: data, for test_rules.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.ops.cases_elementwise import normal
from tests.core.ops.finite_differences import Case


def random_whole_numbers(*shape: int) -> np.ndarray:
    """Draw whole numbers of either sign: sums of their products are the same in any order."""
    return np.asarray(np.rint(4 * normal(*shape)))


def distinct(*shape: int) -> np.ndarray:
    """Draw numbers of either sign of which no two are nearer to each other, or to 0, than 0.1."""
    size = int(np.prod(shape))
    return np.asarray((np.random.default_rng(size).permutation(size).reshape(shape) - size // 2 + 0.4) * 0.3)


def matrix(*shape: int) -> np.ndarray:
    """Draw matrices that are far from singular."""
    return normal(*shape) + 3 * np.eye(shape[-2], shape[-1])


def both(*args: Any, **kwargs: Any) -> Case:
    """Return a case in which the first two arguments are differentiated."""
    return Case(args, kwargs, differentiate=(0, 1))


_MATRIX_PRODUCTS = [
    both(random_whole_numbers(3), random_whole_numbers(3)),
    both(random_whole_numbers(2, 3), random_whole_numbers(3)),
    both(random_whole_numbers(3), random_whole_numbers(3, 2)),
    both(random_whole_numbers(2, 3), random_whole_numbers(3, 4)),
    both(random_whole_numbers(2, 2, 3), random_whole_numbers(3, 4)),
    both(random_whole_numbers(2, 2, 3), random_whole_numbers(3)),
    both(random_whole_numbers(3), random_whole_numbers(2, 3, 2)),
    both(random_whole_numbers(2, 3), random_whole_numbers(2, 3, 2)),
    both(random_whole_numbers(2, 1, 2, 3), random_whole_numbers(2, 3, 2)),
    both([[1.0, 2.0]], random_whole_numbers(2, 3)),
]

PRODUCTS: dict[Callable[..., Any], list[Case]] = {
    np.matmul: _MATRIX_PRODUCTS,
    np.linalg.matmul: _MATRIX_PRODUCTS[3:5],
    np.dot: [
        *_MATRIX_PRODUCTS[:6],
        both(random_whole_numbers(), random_whole_numbers(2)),
        both(random_whole_numbers(2, 3), random_whole_numbers(2, 3, 2)),
        both(random_whole_numbers(3), random_whole_numbers(2, 3, 2)),
        both(random_whole_numbers(2, 2, 3), random_whole_numbers(2, 3, 2)),
    ],
    np.inner: [
        both(random_whole_numbers(3), random_whole_numbers(3)),
        both(random_whole_numbers(2, 3), random_whole_numbers(2, 1, 3)),
        both(random_whole_numbers(2, 3), random_whole_numbers()),
    ],
    np.outer: [both(random_whole_numbers(2, 2), random_whole_numbers(3))],
    np.linalg.outer: [both(random_whole_numbers(2), random_whole_numbers(3))],
    np.vdot: [both(random_whole_numbers(2, 3), random_whole_numbers(3, 2))],
    np.vecdot: [
        both(random_whole_numbers(2, 3), random_whole_numbers(3)),
        both(random_whole_numbers(3, 2), random_whole_numbers(3, 1), axis=0),
    ],
    np.linalg.vecdot: [both(random_whole_numbers(2, 3), random_whole_numbers(3))],
    np.kron: [
        both(random_whole_numbers(2, 2), random_whole_numbers(3)),
        both(random_whole_numbers(2), random_whole_numbers(2, 1, 2)),
    ],
    np.cross: [
        both(random_whole_numbers(2, 3), random_whole_numbers(3)),
        both(random_whole_numbers(3, 2), random_whole_numbers(3, 2), axis=0),
        both(random_whole_numbers(3), random_whole_numbers(3)),
    ],
    np.linalg.cross: [both(random_whole_numbers(3, 2), random_whole_numbers(3, 2), axis=0)],
    np.tensordot: [
        both(random_whole_numbers(2, 3, 2), random_whole_numbers(3, 2, 2)),
        both(random_whole_numbers(2, 3), random_whole_numbers(2), 0),
        both(random_whole_numbers(2, 3, 4), random_whole_numbers(4, 2, 3), ((1, -1), (2, 0))),
        both(random_whole_numbers(2, 3, 4), random_whole_numbers(5, 2), (0, 1)),
        both(random_whole_numbers(2, 3), random_whole_numbers(3, 2), ([0, 1], [1, 0])),
    ],
    np.linalg.tensordot: [both(random_whole_numbers(2, 3), random_whole_numbers(3, 2), axes=1)],
    np.convolve: [both(random_whole_numbers(4), random_whole_numbers(3), *mode) for mode in ((), ("same",), ("valid",))]
    + [both(random_whole_numbers(2), random_whole_numbers(5), mode) for mode in ("same", "valid")],
    np.correlate: [both(random_whole_numbers(4), random_whole_numbers(3), *mode) for mode in ((), ("same",), ("full",))]
    + [both(random_whole_numbers(2), random_whole_numbers(5), mode) for mode in ("same", "valid", "full")],
}


def einsums(*operands: Any, **kwargs: Any) -> Case:
    """Return a case of einsum in which every array is differentiated."""
    places = tuple(index for index, operand in enumerate(operands) if isinstance(operand, np.ndarray))
    return Case(operands, kwargs, differentiate=places)


EINSUMS = [
    einsums("ij->ji", random_whole_numbers(2, 3)),
    einsums("ij->", random_whole_numbers(2, 3)),
    einsums("ii->i", random_whole_numbers(3, 3)),
    einsums("iij->j", random_whole_numbers(2, 2, 3)),
    einsums("ii", random_whole_numbers(3, 3)),
    einsums("ba", random_whole_numbers(2, 3)),
    einsums("...ij->...", random_whole_numbers(2, 2, 3)),
    einsums("ij,jk->ik", random_whole_numbers(2, 3), random_whole_numbers(3, 2)),
    einsums("ij,jk", random_whole_numbers(2, 3), random_whole_numbers(3, 2)),
    einsums("bij,bjk->bik", random_whole_numbers(2, 2, 3), random_whole_numbers(2, 3, 2)),
    einsums("bhqd,bhkd->bhqk", random_whole_numbers(2, 1, 2, 3), random_whole_numbers(2, 1, 3, 3)),
    einsums("...ij,jk->...ki", random_whole_numbers(2, 2, 3), random_whole_numbers(3, 2)),
    einsums("i...,...i->...", random_whole_numbers(3, 2), random_whole_numbers(2, 3)),
    einsums("i,j->ij", random_whole_numbers(2), random_whole_numbers(3)),
    einsums("ij,ij->", random_whole_numbers(2, 3), random_whole_numbers(2, 3)),
    einsums("ij,ij->i", random_whole_numbers(2, 3), random_whole_numbers(2, 3)),
    einsums("ij,k->i", random_whole_numbers(2, 3), random_whole_numbers(2)),
    einsums("ii,ij->j", random_whole_numbers(2, 2), random_whole_numbers(2, 3)),
    einsums("ijj,jk->ik", random_whole_numbers(2, 3, 3), random_whole_numbers(3, 2)),
    einsums("ij,j->", random_whole_numbers(1, 3), random_whole_numbers(1)),
    einsums("ij,jk->ik", random_whole_numbers(2, 1), random_whole_numbers(3, 2)),
    einsums("ij,ij->ij", random_whole_numbers(1, 3), random_whole_numbers(2, 1)),
    einsums("iij,ij->j", np.array([[[2.0, -1.0, 3.0]]]), np.array([[1.0, -3.0, 2.0], [4.0, 1.0, -2.0]])),
    einsums("iij,ij->ij", np.array([[[2.0], [-1.0]], [[3.0], [4.0]]]), np.array([[1.0, -3.0, 2.0]])),
    einsums("ij,jk,kl->il", random_whole_numbers(2, 3), random_whole_numbers(3, 2), random_whole_numbers(2, 2)),
    einsums(
        "i,ij,j,j->",
        random_whole_numbers(2),
        random_whole_numbers(2, 3),
        random_whole_numbers(3),
        random_whole_numbers(3),
        optimize=True,
    ),
    einsums("a,ab,abc->c", random_whole_numbers(2), random_whole_numbers(2, 2), random_whole_numbers(2, 2, 3)),
    einsums(random_whole_numbers(2, 3), [0, 1], random_whole_numbers(3, 2), [1, 2], [2, 0]),
    einsums(random_whole_numbers(2, 3), [Ellipsis, 1], random_whole_numbers(3), [1]),
    einsums(",i->i", random_whole_numbers(), random_whole_numbers(2)),
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
