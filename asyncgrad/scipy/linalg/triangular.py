"""Systems of triangular matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ops.linear_algebra import product
from ...core.recording.primitive import derivative, primitive
from ..arguments import lapack_numbers
from .lapack import refuse_infinity, solve_triangle

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["solve_triangular"]


@primitive(superlinear=True)
def triangular_solution(a: Any, b: Any, lower: bool, unit_diagonal: bool) -> Any:
    """Return x with `a @ x == b`, for a triangular matrix `a` and a matrix `b`; of one matrix a vector, too."""
    return solve_triangle(a, b, lower, unit_diagonal)


@derivative(triangular_solution, "a")
def _(g: Array, a: Array, out: Array, lower: bool, unit_diagonal: bool) -> Array:
    slope = _solution(a.mT, g, not lower, unit_diagonal)
    whole = -(np.outer(slope, out) if out.ndim == 1 else product(slope, out.mT))
    # Only the triangle that is read has a gradient.
    return np.tril(whole, -int(unit_diagonal)) if lower else np.triu(whole, int(unit_diagonal))


@derivative(triangular_solution, "b")
def _(g: Array, a: Any, lower: bool, unit_diagonal: bool) -> Array:
    return _solution(a.mT, g, not lower, unit_diagonal)


_solution = triangular_solution.call


def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return x with `a @ x == b`, for a triangular matrix; the other triangle is not read.

    Args:
        a: the matrix.
        b: a vector, or a matrix of right-hand sides.
        trans: 0 or "N" for `a`, 1 or "T" for its transpose, 2 or "C" for its conjugate transpose.
        lower: whether the lower triangle is read, rather than the upper one.
        unit_diagonal: whether the diagonal is taken as ones, and not read.
        overwrite_b: has no effect: `b` stays as it is.
        check_finite: whether NaN and infinity are refused.

    Raises:
        ValueError: the shapes do not fit, or `trans` is none of those.
        LinAlgError: the matrix is singular.
    """
    a, b = lapack_numbers(a), lapack_numbers(b)
    kind = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}.get(trans)
    if kind is None:
        raise ValueError(f"scipy.linalg.solve_triangular takes trans 0, 1, 2, 'N', 'T' or 'C', not {trans!r}")
    rows = b.shape[-2:][0] if b.ndim else None
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or a.shape[-1] != rows:
        raise ValueError(
            "scipy.linalg.solve_triangular takes a square matrix and a vector or matrix with as many rows, not shapes "
            f"{a.shape} and {b.shape}"
        )
    if check_finite:
        refuse_infinity("solve_triangular", a, b)
    if kind:
        a, lower = (a if kind == 1 else np.conjugate(a)).mT, not lower
    is_vector_of_stacks = b.ndim == 1 and a.ndim > 2
    columns = np.expand_dims(b, -1) if is_vector_of_stacks else b
    result = _solution(a, columns, bool(lower), bool(unit_diagonal))
    return np.squeeze(result, -1) if is_vector_of_stacks else result
