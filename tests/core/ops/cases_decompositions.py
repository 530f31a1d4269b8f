"""Points at which matrices can be taken apart, and such at the edge of what can be: data, for test_rules.py and others.

Of Hermitian matrices only values are looked at here: a difference in one element alone would leave a matrix that is not
Hermitian. Their derivatives are in cases_complex.py and test_decompositions.py, where they are made of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.ops.cases_products import random_whole_numbers
from tests.core.ops.finite_differences import Case

__all__ = ["CASES", "DEGENERATE", "SQUARE"]

_rng = np.random.default_rng(20250611)


def normal(*shape: int) -> np.ndarray:
    """Draw numbers of either sign."""
    return np.asarray(_rng.normal(size=shape))


def apart(*shape: int) -> np.ndarray:
    """Draw matrices with singular values, and where they are square eigenvalues, that are apart and real."""
    return 0.2 * normal(*shape) + np.eye(shape[-2], shape[-1]) * (1 + np.arange(shape[-1]))


def both(*args: Any, **kwargs: Any) -> Case:
    """Return a case in which the first two arguments are differentiated."""
    return Case(args, kwargs, differentiate=(0, 1))


linalg: Any = np.linalg

#: Of one matrix, of stacks, with more rows than columns, and the other way around.
_ANY = [Case((apart(3, 3),)), Case((apart(2, 3, 2),)), Case((apart(2, 3),)), Case((apart(1, 1),))]
SQUARE = [_ANY[0], Case((apart(2, 2, 2),)), _ANY[3]]

_HERMITIAN = [Case((case.args[0] + case.args[0].mT, uplo), smooth=False) for case in SQUARE for uplo in "LU"]

CASES: dict[Callable[..., Any], list[Case]] = {
    linalg.eig: [case._replace(smooth=False) for case in SQUARE],
    linalg.eigvals: [*SQUARE, Case((np.array([[1.0, 2.0], [-3.0, 0.5]]),))],
    linalg.eigh: _HERMITIAN,
    linalg.eigvalsh: _HERMITIAN,
    linalg.svd: [
        *[case._replace(kwargs={"full_matrices": False}) for case in _ANY],
        *[case._replace(kwargs={"compute_uv": False}) for case in _ANY],
        _ANY[0],
    ],
    linalg.svdvals: _ANY,
    linalg.qr: [*_ANY, *[Case((case.args[0], "r")) for case in _ANY], Case((apart(2, 3), "complete"))],
    linalg.pinv: [*_ANY, Case((apart(3, 4),), {"rcond": 1e-9}), Case((apart(2, 4, 2),), {"rtol": 1e-10})],
    linalg.lstsq: [
        both(apart(4, 2), normal(4)),
        both(apart(4, 2), normal(4, 3), rcond=1e-10),
        both(apart(2, 3), normal(2, 2)),
        both(apart(3, 3), normal(3)),
    ],
    linalg.cond: [*[Case((apart(3, 3), p)) for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc")], *_ANY[1:3]],
    linalg.matrix_power: [
        *[Case((apart(3, 3), n)) for n in (-3, -1, 2, 3, 5, 8)],
        Case((apart(2, 2, 2), 3)),
        Case((apart(2, 2), np.int64(1))),
    ],
    linalg.multi_dot: [
        # So small that random programs take it.
        Case(([random_whole_numbers(2, 3) / 4, random_whole_numbers(3, 2) / 4],)),
        Case(([random_whole_numbers(2, 3), random_whole_numbers(3, 4), random_whole_numbers(4, 2)],)),
        Case(
            (
                [
                    random_whole_numbers(3),
                    random_whole_numbers(3, 2),
                    random_whole_numbers(2, 4),
                    random_whole_numbers(4, 2),
                ],
            )
        ),
        Case(((random_whole_numbers(3), random_whole_numbers(3, 2), random_whole_numbers(2)),)),
        Case(([random_whole_numbers(2, 2), random_whole_numbers(2, 3), random_whole_numbers(3)],)),
    ],
    linalg.tensorinv: [Case((normal(2, 3, 6),)), Case((apart(3, 3), 1))],
    linalg.tensorsolve: [
        both(normal(2, 3, 6), normal(2, 3)),
        both(normal(2, 6, 3), normal(2, 3), (1,)),
        both(apart(3, 3), normal(3)),
    ],
    linalg.norm: [
        *[Case((apart(3, 2), order)) for order in (2, -2, "nuc")],
        *[Case((apart(2, 3, 2), order, (2, 1)), {"keepdims": True}) for order in (2, -2, "nuc")],
    ],
    linalg.matrix_norm: [Case((apart(2, 3, 2),), {"ord": order}) for order in (2, "nuc")],
    linalg.vector_norm: [
        Case((normal(2, 3, 2),), {"axis": (2, 0), "keepdims": True}),
        Case((normal(2, 3),), {"keepdims": True, "ord": 1}),
        Case((normal(2, 3),), {"axis": 1}),
    ],
}


def _counted(*shape: int) -> np.ndarray:
    """Return matrices of full rank."""
    return np.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape) + 3 * np.eye(shape[-2], shape[-1])


_SQUARES = [Case((_counted(*shape),)) for shape in ((2, 2), (1, 1), (0, 0), (0, 2, 2), (2, 0, 0), (2, 3, 3))]
_MATRICES = [
    *_SQUARES,
    *[Case((_counted(*shape),)) for shape in ((3, 2), (2, 3), (2, 3, 2), (2, 0), (0, 3), (0, 2, 3))],
]
_OTHERS = [Case((np.arange(3.0),)), Case((np.array(2.0),))]


def _each(cases: list[Case], *more: Any, **kwargs: Any) -> list[Case]:
    """Return the calls with further arguments."""
    return [Case((*case.args, *more), kwargs) for case in cases]


DEGENERATE: dict[Callable[..., Any], list[Case]] = {
    linalg.eig: [*_MATRICES, *_OTHERS, Case((np.array([[0.0, 1.0], [-1.0, 0.0]]),))],
    linalg.eigvals: [*_MATRICES, *_OTHERS, Case((np.array([[0.0, 1.0], [-1.0, 0.0]]),))],
    linalg.eigh: [*_MATRICES, *_OTHERS, *_each(_SQUARES, "U"), *_each(_SQUARES, "what")],
    linalg.eigvalsh: [*_MATRICES, *_OTHERS, *_each(_SQUARES, "u")],
    linalg.svd: [
        *_MATRICES,
        *_OTHERS,
        *_each(_MATRICES, False),
        *_each(_MATRICES, True, False),
        *_each(_SQUARES, hermitian=True),
        *_each(_SQUARES, hermitian=True, compute_uv=False),
    ],
    linalg.svdvals: [*_MATRICES, *_OTHERS],
    linalg.qr: [
        *_MATRICES,
        *_OTHERS,
        *[case for mode in ("complete", "r", "what") for case in _each(_MATRICES, mode)],
    ],
    linalg.pinv: [*_MATRICES, *_OTHERS, *_each(_SQUARES, hermitian=True), *_each(_MATRICES, 1e-3, rtol=1e-3)],
    linalg.lstsq: [
        Case((_counted(*shape), np.ones((shape[0], *more))))
        for shape in ((3, 2), (2, 3), (2, 2), (1, 1), (3, 0), (0, 2))
        for more in ((), (1,), (2,), (0,))
    ],
    linalg.cond: [*_MATRICES, *_OTHERS, *_each(_MATRICES, 1), *_each([Case((np.ones((2, 2)),))], "fro")],
    linalg.matrix_power: [case for n in (0, 1, 2, 3, 5, -1, 2.5) for case in _each([*_MATRICES, *_OTHERS], n)],
    linalg.multi_dot: [
        Case(([np.ones(shape) for shape in shapes],))
        for shapes in (
            [(2, 3)],
            [(2, 3), (3, 2)],
            [(3,), (3,)],
            [(3,), (3, 2), (2,)],
            [(3,), (3, 2), (2, 1)],
            [(1, 3), (3, 2), (2,)],
            [(2, 0), (0, 3), (3, 1), (1, 2)],
            [(2, 2), (2,), (2, 2)],
            [(2, 3), (3, 4), (4, 2), (2, 5), (5,)],
        )
    ],
    linalg.tensorinv: [
        Case((_counted(2, 1, 2),)),
        *_each(_SQUARES, 1),
        Case((_counted(2, 2), 0)),
        Case((_counted(3, 2),)),
    ],
    linalg.tensorsolve: [
        Case((_counted(2, 2), np.ones(2))),
        Case((_counted(0, 0), np.ones(0))),
        Case((_counted(2, 1, 2), np.ones((2, 1)))),
        Case((_counted(2, 1, 2), np.ones((1, 2)), (0,))),
        Case((_counted(2, 3), np.ones(2))),
    ],
    linalg.matrix_rank: [*_MATRICES, *_OTHERS, *_each(_SQUARES, hermitian=True), *_each(_MATRICES, 0.5)],
}
