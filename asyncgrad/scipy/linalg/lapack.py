"""LAPACK's routines for one matrix, without the searches and copies of SciPy's functions around them.

They take arrays of equal dtypes, of one of the four kinds that LAPACK has, and do not write into them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from ...core.arrays.values import raw

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["refuse_infinity", "solve_by_schur_forms", "solve_triangle"]

#: The kinds of numbers that LAPACK has.
_KINDS = frozenset("fdFD")


def refuse_infinity(name: str, *arrays: Any, is_optional: bool = True) -> None:
    """Raise for a function of SciPy's unless all elements of its arguments are finite numbers.

    Args:
        name: the function.
        arrays: its arguments.
        is_optional: whether it takes `check_finite`.

    Raises:
        ValueError: one is infinite or NaN; the message names the function.
    """
    for array in arrays:
        if not np.isfinite(raw(array)).all():
            hint = ": write check_finite=False if meant" if is_optional else ""
            raise ValueError(f"scipy.linalg.{name} takes neither infinity nor NaN{hint}")


@functools.lru_cache(maxsize=64)
def _routine(name: str, dtype: np.dtype[Any]) -> Any:
    return linalg.get_lapack_funcs(name, dtype=dtype)


@functools.lru_cache(maxsize=256)
def _workspace_of_gees(dtype: np.dtype[Any], size: int) -> int:
    """Return the size of the array that gees computes best with; SciPy asks for it in each call."""
    found = _routine("gees", dtype)(_no_order, np.zeros((size, size), dtype), lwork=-1)
    return int(found[-2][0].real)


def _no_order(*eigenvalue: Any) -> None:
    """Stand for the function that orders eigenvalues: none does."""


def _schur_form(a: Array) -> tuple[Any, Any]:
    """Return t and z with `a = z @ t @ z.conj().T`, as `scipy.linalg.schur` does.

    Raises:
        ValueError: an element is no finite number.
        LinAlgError: the iteration does not end.
    """
    if not np.isfinite(a).all():
        raise ValueError("a matrix that holds infinity or NaN has no Schur form")
    t, *_, z, _, info = _routine("gees", a.dtype)(_no_order, a, lwork=_workspace_of_gees(a.dtype, len(a)))
    if info:
        raise linalg.LinAlgError("Schur form not found. Possibly ill-conditioned.")
    return t, z


def solve_by_schur_forms(a: Any, b: Any, q: Any) -> Any:
    """Return x with `a @ x + x @ b == q`, as `scipy.linalg.solve_sylvester` does.

    All three are converted to one dtype: SciPy gives a wrong solution where one of `a` and `b` is real and the other
    complex, since a real matrix's form is no triangle.
    """
    dtype = np.result_type(a, b, q)
    if dtype.char not in _KINDS or not q.size:
        return linalg.solve_sylvester(a, b, q)
    a, b, q = (one if one.dtype == dtype else one.astype(dtype) for one in (a, b, q))
    is_complex = dtype.kind == "c"
    r, u = _schur_form(a)
    s, v = _schur_form(b.conj().T if is_complex else b.T)
    left, right = (u.conj().T, v.conj().T) if is_complex else (u.T, v.T)
    y, scale, info = _routine("trsyl", dtype)(r, s, left.dot(q).dot(v), tranb="C")
    if info < 0:
        raise linalg.LinAlgError(f"Illegal value encountered in the {-info} term")
    return u.dot(scale * y).dot(right)


def solve_triangle(a: Array, b: Array, lower: bool, unit_diagonal: bool) -> Any:
    """Return x with `a @ x == b`, for a triangular matrix and a vector or matrix, as `scipy.linalg.solve_triangular`.

    Infinity and NaN are allowed.
    """
    dtype = np.result_type(a, b)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if 0 in stack:
        # SciPy has no stacks of no matrices.
        return np.zeros((*stack, *b.shape[-2:]), dtype)
    if dtype.char not in _KINDS or not b.size or a.ndim != 2 or b.ndim > 2:
        return linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal, check_finite=False)
    # LAPACK reads columns first: an array of rows is the transpose to it.
    is_transposed = not a.flags.f_contiguous
    x, info = _routine("trtrs", dtype)(
        a.T if is_transposed else a,
        b,
        lower=is_transposed is not lower,
        trans=is_transposed,
        unitdiag=unit_diagonal,
    )
    if info > 0:
        raise linalg.LinAlgError(f"singular matrix: resolution failed at diagonal {info - 1}")
    return x
