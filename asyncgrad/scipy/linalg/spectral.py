"""Eigenvalues and singular values, and factors with orthonormal columns."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import linalg

from ...core.arrays.values import raw, refuse_complex
from ...core.ops.linear_algebra import adjoint, product
from ...errors import ArgumentError
from ..arguments import floating
from .stacks import over_stacks
from .systems import cholesky, mirrored
from .triangular import solve_triangular

__all__ = [
    "eig",
    "eigh",
    "eigh_tridiagonal",
    "eigvals",
    "eigvalsh",
    "eigvalsh_tridiagonal",
    "qr",
    "svd",
    "svdvals",
]


def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Return the eigenvalues of a square matrix, and its right eigenvectors.

    Args:
        a: shape (..., n, n).
        b: the matrix of a generalised problem, not singular; or None.
        left: False alone.
        right: whether to return the eigenvectors, too.
        overwrite_a: has no effect.
        overwrite_b: has no effect.
        check_finite: as SciPy's.
        homogeneous_eigvals: False alone.

    Raises:
        ArgumentError: left eigenvectors are asked for.

    Source: scipy.linalg.eig.
    """
    if left or homogeneous_eigvals:
        raise ArgumentError("scipy.linalg.eig has a derivative with left=False and homogeneous_eigvals=False")
    a = floating(a)
    a = a if b is None else np.linalg.solve(floating(b), a)
    values, vectors = np.linalg.eig(a)
    if a.dtype.kind == "f" and not np.any(raw(values).imag):
        vectors = np.real(vectors)  # since NumPy 2.5 they are complex; SciPy's are not
    values = values.astype(np.result_type(a.dtype, np.complex64), copy=False)
    return (values, vectors) if right else values


def eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Any:
    """Return the eigenvalues of a square matrix; see `eig`."""
    return eig(a, b, False, False, homogeneous_eigvals=homogeneous_eigvals)


def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """Return the eigenvalues of a Hermitian matrix in ascending order, and its eigenvectors.

    Args:
        a: shape (n, n), of which one triangle is read.
        b: the positive definite matrix of a generalised problem, or None.
        lower: whether the lower triangles are read, rather than the upper ones.
        eigvals_only: whether to return the eigenvalues alone.
        overwrite_a: has no effect.
        overwrite_b: has no effect.
        type: of the generalised problem: 1 for `a @ v = w * b @ v`, 2 for `a @ b @ v = w * v`, 3 for
            `b @ a @ v = w * v`.
        check_finite: as SciPy's.
        subset_by_index: the first and the last index of those that are returned.
        subset_by_value: the ends of the interval of those that are returned, of which the first is left out.
        driver: has no effect.

    Source: scipy.linalg.eigh.
    """
    a = floating(a)
    if a.ndim > 2 and subset_by_value is not None:
        chosen = {"lower": lower, "eigvals_only": eigvals_only, "type": type, "subset_by_value": subset_by_value}
        return _eigh_of_each(a, b, **chosen, subset_by_index=subset_by_index)
    factor = None
    if b is not None:
        if type not in (1, 2, 3):
            raise ValueError(f"scipy.linalg.eigh takes type 1, 2 or 3, not {type!r}")
        factor = cholesky(b, True) if lower else adjoint(cholesky(b, False))
        whole = mirrored(a, lower, True)
        if type == 1:
            half = solve_triangular(factor, whole, lower=True)
            a = adjoint(solve_triangular(factor, adjoint(half), lower=True))
        else:
            a = product(adjoint(factor), product(whole, factor))
        lower = True
    if eigvals_only:
        return _chosen(np.linalg.eigvalsh(a, "L" if lower else "U"), None, subset_by_index, subset_by_value)
    values, vectors = np.linalg.eigh(a, "L" if lower else "U")
    if factor is not None:
        vectors = product(factor, vectors) if type == 3 else solve_triangular(factor, vectors, 2, True)
    return _chosen(values, vectors, subset_by_index, subset_by_value)


# How many eigenvalues lie in an interval differs from one matrix to another.
_eigh_of_each = over_stacks(2, 2)(eigh)


def _chosen(values: Any, vectors: Any, by_index: Any, by_value: Any) -> Any:
    if by_index is not None and by_value is not None:
        raise ValueError("scipy.linalg.eigh takes subset_by_index or subset_by_value, not both")
    chosen: Any = slice(None)
    if by_index is not None:
        chosen = slice(int(by_index[0]), int(by_index[1]) + 1)
    elif by_value is not None:
        first, last = (float(raw(one)) for one in by_value)
        chosen = np.flatnonzero((raw(values) > first) & (raw(values) <= last))
    return values[..., chosen] if vectors is None else (values[..., chosen], vectors[..., chosen])


def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """Return the eigenvalues of a Hermitian matrix in ascending order; see `eigh`."""
    return eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        type=type,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )


@over_stacks(1, 1)
def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """Return the eigenvalues of a real symmetric tridiagonal matrix, and its eigenvectors.

    Args:
        d: the diagonal, shape (n,).
        e: the elements beside it, shape (n - 1,).
        eigvals_only: whether to return the eigenvalues alone.
        select: "a" for all, "i" for indices, "v" for an interval of values.
        select_range: the first and the last.
        check_finite: as SciPy's.
        tol: has no effect.
        lapack_driver: has no effect.

    Source: scipy.linalg.eigh_tridiagonal.
    """
    d, e = floating(d), floating(e)
    for one in (d, e):
        refuse_complex("scipy.linalg.eigh_tridiagonal", "real arrays", one, error=TypeError)
    if d.ndim != 1 or e.shape != (d.size - 1,):
        raise ValueError(f"scipy.linalg.eigh_tridiagonal takes shapes (n,) and (n - 1,), not {d.shape} and {e.shape}")
    subset: dict[str, Any] = {}
    if select in ("i", "index", 2):
        subset = {"subset_by_index": select_range}
    elif select in ("v", "value", 1):
        subset = {"subset_by_value": select_range}
    elif select not in ("a", "all", 0):
        raise ValueError(f"scipy.linalg.eigh_tridiagonal takes select 'a', 'i' or 'v', not {select!r}")
    return eigh(np.diag(d) + np.diag(e, -1), eigvals_only=eigvals_only, **subset)


def eigvalsh_tridiagonal(
    d: Any,
    e: Any,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """Return the eigenvalues of a real symmetric tridiagonal matrix; see `eigh_tridiagonal`."""
    return eigh_tridiagonal(d, e, True, select, select_range)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return u, s and vh with `a = u * s @ vh`, or s alone; see `scipy.linalg.svd`."""
    found: Any = np.linalg.svd(floating(a), full_matrices, compute_uv)  # type: ignore[call-overload]
    return tuple(found) if compute_uv else found


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the singular values of matrices in descending order; see `scipy.linalg.svdvals`."""
    return np.linalg.svdvals(floating(a))


@over_stacks(2)
def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return q and r with `a = q @ r`: a matrix with orthonormal columns, and an upper triangle.

    Args:
        a: shape (m, n).
        overwrite_a: has no effect.
        lwork: has no effect.
        mode: "full", "economic", or "r" for r alone.
        pivoting: whether columns are exchanged, so that the diagonal of r falls; then their order is returned, too.
        check_finite: as SciPy's.

    Raises:
        ArgumentError: the mode is "raw".

    Source: scipy.linalg.qr.
    """
    modes: dict[str, Literal["complete", "reduced", "r"]] = {"full": "complete", "economic": "reduced", "r": "r"}
    if mode not in modes:
        raise ArgumentError(f"scipy.linalg.qr has a derivative with mode 'full', 'economic' or 'r', not {mode!r}")
    a = floating(a)
    order = None
    if pivoting:
        order = linalg.qr(raw(a), mode="r", pivoting=True)[-1]
        a = a[:, order]
    if mode == "r":
        # SciPy's r has as many rows as the matrix.
        r: Any = np.linalg.qr(a, "r")
        parts: tuple[Any, ...] = (np.pad(r, ((0, a.shape[0] - r.shape[0]), (0, 0))),)
    else:
        parts = tuple(np.linalg.qr(a, modes[mode]))
    return (*parts, order) if pivoting else parts
