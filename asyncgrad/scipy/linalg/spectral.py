"""Eigenvalues and singular values, and factors with orthonormal columns."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import linalg
from scipy.optimize import linear_sum_assignment

from ...core.arrays.values import raw, refuse_complex
from ...core.ops.linear_algebra import adjoint, product
from ...core.settings.context import is_grad_enabled, no_grad
from ...core.tensor import asarray
from ...errors import ArgumentError, MissingDerivativeError
from ..arguments import floating, lapack_numbers, matrices
from .lapack import refuse_infinity
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
    """Return the eigenvalues of a square matrix, and its eigenvectors.

    Args:
        a: shape (..., n, n).
        b: the matrix of a generalised problem, or None.
        left: whether to return the left eigenvectors, too, before the right ones.
        right: whether to return the right eigenvectors, too.
        overwrite_a: has no effect.
        overwrite_b: has no effect.
        check_finite: whether NaN and infinity are refused.
        homogeneous_eigvals: whether eigenvalues are pairs, whose quotients they are; these have no derivative beside
            a matrix `b`.

    Raises:
        MissingDerivativeError: `homogeneous_eigvals` beside a matrix `b`, one of which requires grad.

    Source: scipy.linalg.eig.
    """
    a, b = lapack_numbers(a), None if b is None else lapack_numbers(b)
    if check_finite:
        refuse_infinity("eig", *(one for one in (a, b) if one is not None))
    with no_grad():
        theirs = _eig_of_scipy(raw(a), None if b is None else raw(b), left, right, homogeneous_eigvals)
    parts = tuple(asarray(np.asarray(one)) for one in theirs)
    if is_grad_enabled() and any(one is not None and one.requires_grad for one in (a, b)):
        parts = _eig_with_history(a, b, left, right, homogeneous_eigvals, parts)
    return parts if len(parts) > 1 else parts[0]


def _eig_of_scipy(a: Any, b: Any, *chosen: bool) -> tuple[Any, ...]:
    left, right, homogeneous = chosen
    found = linalg.eig(a, b, left, right, check_finite=False, homogeneous_eigvals=homogeneous)
    # Of stacks of matrices it returns a list.
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def _eig_with_history(
    a: Any, b: Any, left: bool, right: bool, is_homogeneous: bool, theirs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return what SciPy's function does, with its order and phases, of tensors that require grad."""
    if b is not None and is_homogeneous:
        raise MissingDerivativeError(
            "scipy.linalg.eig(a, b, homogeneous_eigvals=True) has no derivative, as the length of a pair is arbitrary: "
            "write homogeneous_eigvals=False, or call it on detached matrices"
        )
    if b is None:
        values, vectors = np.linalg.eig(a)
        inverse = None
    else:
        # Eigenvalues of the pencil that are infinite are 0 of its inverse, from a number that is none of them.
        matrix = raw(a) + 0.5 * raw(b)
        shift = -0.5 if np.all(np.linalg.cond(matrix) < 1e12) else -0.5 - 0.7j
        if not np.all(np.linalg.cond(raw(a) - shift * raw(b)) < 1e12):
            raise np.linalg.LinAlgError(
                "scipy.linalg.eig: a - w * b is singular for each w, so that every number is an eigenvalue, and none "
                "has a derivative: call eig on detached matrices"
            )
        inverse = np.linalg.inv(a - shift * b)
        turned, vectors = np.linalg.eig(product(inverse, b))
        is_infinite = raw(turned) == 0
        values = shift + np.where(is_infinite, np.inf, 1 / np.where(is_infinite, 1.0, turned))
    want, have = raw(theirs[0]), raw(values)
    if is_homogeneous:
        want = want[..., 0, :]
    order = _matched(want, have)
    values = np.take_along_axis(values, order, -1).astype(want.dtype, copy=False)
    found = [np.stack([values, np.ones(values.shape, values.dtype)], -2) if is_homogeneous else values]
    if left:
        rows = np.linalg.inv(vectors) if inverse is None else product(np.linalg.inv(vectors), inverse)
        found.append(_in_phase(adjoint(rows), order, theirs[1]))
    if right:
        found.append(_in_phase(vectors, order, theirs[-1]))
    return tuple(found)


def _matched(want: Any, have: Any) -> Any:
    """Return for each eigenvalue of some the place of the nearest of others, in the last axis; each has one place."""
    order = np.zeros(want.shape, np.intp)
    for index in np.ndindex(*want.shape[:-1]):
        with np.errstate(invalid="ignore"):
            distances = np.nan_to_num(np.abs(want[index][:, np.newaxis] - have[index]), nan=0.0)
        order[index] = linear_sum_assignment(np.minimum(distances, 1e150))[1]
    return order


def _in_phase(vectors: Any, order: Any, theirs: Any) -> Any:
    """Return columns in an order, of length 1, and with the phases of others."""
    columns = np.take_along_axis(vectors, order[..., np.newaxis, :], -1)
    columns = columns / np.linalg.norm(columns, axis=-2, keepdims=True)
    columns = columns * _phases(raw(columns), raw(theirs))
    return np.real(columns) if raw(theirs).dtype.kind == "f" else columns


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
    a = lapack_numbers(a)
    b = None if b is None else lapack_numbers(b)
    _check_eigh(a, b, type, subset_by_index, subset_by_value, driver)
    if check_finite:
        refuse_infinity("eigh", *(one for one in (a, b) if one is not None))
    if a.ndim > 2 and subset_by_value is not None:
        chosen = {"lower": lower, "eigvals_only": eigvals_only, "type": type, "subset_by_value": subset_by_value}
        return _eigh_of_each(a, b, **chosen, subset_by_index=subset_by_index)
    factor, given = None, {"lower": lower, "type": type, "driver": driver}
    theirs = None if eigvals_only or not a.size else _vectors_of_scipy(a, b, subset_by_index, subset_by_value, given)
    if b is not None:
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
    values, vectors = _chosen(values, vectors, subset_by_index, subset_by_value)
    if theirs is not None and vectors.shape == theirs.shape:
        vectors = vectors * _phases(raw(vectors), theirs)
    return values, vectors


def _vectors_of_scipy(a: Any, b: Any, by_index: Any, by_value: Any, given: dict[str, int | str | None]) -> Any:
    """Return SciPy's eigenvectors: the routine that it chooses for some of them may return other phases."""
    chosen = {
        "subset_by_index": by_index,
        "subset_by_value": None if by_value is None else [float(raw(one)) for one in by_value],
    }
    return linalg.eigh(raw(a), None if b is None else raw(b), check_finite=False, **given, **chosen)[1]


#: SciPy's words for what computes eigenvalues: of one matrix, and of two; the last two alone compute some of them.
_DRIVERS = (("ev", "evd", "evr", "evx"), ("gv", "gvd", "gvx"))


def _check_eigh(a: Any, b: Any, kind: int, by_index: Any, by_value: Any, driver: str | None) -> None:
    name = "scipy.linalg.eigh"
    matrices("eigh", a)
    if b is not None and kind not in (1, 2, 3):
        raise ValueError(f"{name} takes type 1, 2 or 3, not {kind!r}")
    if driver is not None:
        expected = _DRIVERS[b is not None]
        if driver not in expected:
            raise ValueError(f"{name} takes driver {', '.join(map(repr, expected))} here, not {driver!r}")
        if driver in ("ev", "evd", "gv", "gvd") and (by_index is not None or by_value is not None):
            raise ValueError(f"{name} with driver={driver!r} computes all eigenvalues: write driver=None")
    if by_index is not None and by_value is not None:
        raise ValueError(f"{name} takes subset_by_index or subset_by_value, not both")
    if by_index is not None:
        first, last = (int(one) for one in by_index)
        if not 0 <= first <= last < a.shape[-1]:
            raise ValueError(f"{name} takes subset_by_index with 0 <= first <= last < {a.shape[-1]}, not {by_index!r}")
    if by_value is not None:
        low, high = (float(raw(one)) for one in by_value)
        if not (-np.inf <= low < high <= np.inf):
            raise ValueError(f"{name} takes subset_by_value with low < high, not {by_value!r}")


def _phases(ours: Any, theirs: Any) -> Any:
    """Return the numbers of absolute value 1 by which columns are as near to others as can be."""
    overlap = np.sum(np.conjugate(ours) * theirs, axis=-2, keepdims=True)
    size = np.abs(overlap)
    return np.where(size == 0, 1.0, overlap / np.where(size == 0, 1.0, size)).astype(ours.dtype, copy=False)


# How many eigenvalues lie in an interval differs from one matrix to another.
_eigh_of_each = over_stacks(2, 2)(eigh)


def _chosen(values: Any, vectors: Any, by_index: Any, by_value: Any) -> Any:
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
        check_finite=check_finite,
        driver=driver,
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
        tol: has no effect on the eigenvalues.
        lapack_driver: has an effect on the signs of eigenvectors alone.

    Source: scipy.linalg.eigh_tridiagonal.
    """
    d, e = floating(d), floating(e)
    if check_finite:
        refuse_infinity("eigh_tridiagonal", d, e)
    for one in (d, e):
        refuse_complex("scipy.linalg.eigh_tridiagonal", "real arrays", one, error=TypeError)
    if d.ndim != 1 or e.shape != (d.size - 1,):
        raise ValueError(f"scipy.linalg.eigh_tridiagonal takes shapes (n,) and (n - 1,), not {d.shape} and {e.shape}")
    subset: dict[str, Any] = {}
    if select in ("i", "index", 2):
        subset = {"subset_by_index": select_range}
    elif select in ("v", "value", 1):
        subset = {"subset_by_value": select_range}
    if subset and (select_range is None or len(select_range) != 2 or select_range[0] > select_range[1]):
        raise ValueError(f"scipy.linalg.eigh_tridiagonal takes select_range=(first, last), not {select_range!r}")
    if lapack_driver not in ("auto", "stemr", "sterf", "stebz", "stev", "stevd"):
        raise ValueError(f"scipy.linalg.eigh_tridiagonal has no lapack_driver {lapack_driver!r}: write 'auto'")
    if (lapack_driver == "sterf" and not eigvals_only) or (lapack_driver in ("sterf", "stev", "stevd") and subset):
        raise ValueError(
            f"scipy.linalg.eigh_tridiagonal cannot compute this with lapack_driver={lapack_driver!r}: write 'auto'"
        )
    if not subset and select not in ("a", "all", 0):
        raise ValueError(f"scipy.linalg.eigh_tridiagonal takes select 'a', 'i' or 'v', not {select!r}")
    found = eigh(np.diag(d) + np.diag(e, -1), eigvals_only=eigvals_only, **subset)
    if eigvals_only:
        return found
    values, vectors = found
    ends = [raw(one) for one in select_range] if subset else None
    theirs = linalg.eigh_tridiagonal(raw(d), raw(e), False, select, ends, False, tol, lapack_driver)[1]
    return values, vectors * _phases(raw(vectors), theirs) if vectors.shape == theirs.shape else vectors


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
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite, tol, lapack_driver)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return u, s and vh with `a = u * s @ vh`, or s alone; see `scipy.linalg.svd`."""
    matrix = matrices("svd", a, is_square=False, is_for_lapack=True)
    if lapack_driver not in ("gesdd", "gesvd"):
        raise ValueError(f"scipy.linalg.svd takes lapack_driver 'gesdd' or 'gesvd', not {lapack_driver!r}")
    if check_finite:
        refuse_infinity("svd", matrix)
    found: Any = np.linalg.svd(matrix, full_matrices, compute_uv)  # type: ignore[call-overload]
    return tuple(found) if compute_uv else found


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the singular values of matrices in descending order; see `scipy.linalg.svdvals`."""
    return svd(a, compute_uv=False, check_finite=check_finite)


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
        mode: "full", "economic", "r" for r alone, or, for a matrix that requires no grad, "raw" for LAPACK's form of q.
        pivoting: whether columns are exchanged, so that the diagonal of r falls; then their order is returned, too.
        check_finite: as SciPy's.

    Raises:
        ArgumentError: there is no such mode, or it is "raw" and the matrix requires grad.

    Source: scipy.linalg.qr.
    """
    modes: dict[str, Literal["complete", "reduced", "r"]] = {"full": "complete", "economic": "reduced", "r": "r"}
    a = lapack_numbers(a)
    if mode not in modes and (mode != "raw" or (a.requires_grad and is_grad_enabled())):
        raise ArgumentError(f"scipy.linalg.qr has a derivative with mode 'full', 'economic' or 'r', not {mode!r}")
    if check_finite:
        refuse_infinity("qr", a)
    if mode == "raw":
        reflections, *rest = linalg.qr(raw(a), mode="raw", pivoting=pivoting)
        return (tuple(map(asarray, reflections)), *map(asarray, rest))
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
