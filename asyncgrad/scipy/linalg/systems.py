"""Systems of linear equations, and the factors by which they are solved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import linalg

from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw
from ...core.ops.linear_algebra import adjoint, product
from ...core.recording.decomposition import decomposition, joint_derivative
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import asarray
from ...errors import ArgumentError
from ..arguments import bands_of, floating, lapack_numbers, matrices, number_as_matrix
from .lapack import refuse_infinity
from .matrices import toeplitz
from .stacks import over_stacks
from .triangular import solve_triangular

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "mirrored",
    "norm",
    "pinv",
    "pinvh",
    "solve",
    "solve_banded",
    "solve_circulant",
    "solve_toeplitz",
    "solveh_banded",
]


def mirrored(a: Array, lower: bool, is_hermitian: bool) -> Any:
    """Return the matrix of which one triangle is given."""
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    whole = half + (adjoint(half) if is_hermitian else half.mT)
    # LAPACK does not read the imaginary parts of a Hermitian matrix's diagonal.
    diagonal = a.real if is_hermitian and a.dtype.kind == "c" else a
    return np.where(np.eye(a.shape[-1], dtype=bool), diagonal, whole)


#: By SciPy's words for the structure of a matrix, what is done.
_STRUCTURES: dict[Any, str] = {
    **dict.fromkeys((None, "general", "gen", "banded"), "general"),
    **dict.fromkeys(("tridiagonal",), "tridiagonal"),
    **dict.fromkeys(("symmetric", "sym"), "symmetric"),
    **dict.fromkeys(("hermitian", "her"), "hermitian"),
    **dict.fromkeys(("positive definite", "pos"), "positive"),
    **dict.fromkeys(("upper triangular",), "upper"),
    **dict.fromkeys(("lower triangular",), "lower"),
    **dict.fromkeys(("diagonal",), "diagonal"),
}


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Any:
    """Return x with `a @ x == b`.

    Args:
        a: shape (..., n, n).
        b: shape (n,) or (..., n, m).
        lower: which triangle is read of a symmetric or Hermitian matrix.
        overwrite_a: has no effect.
        overwrite_b: has no effect.
        check_finite: whether NaN and infinity are refused.
        assume_a: the structure of `a`: "general", "symmetric", "hermitian", "positive definite", "diagonal",
            "tridiagonal", "banded", "upper triangular" or "lower triangular"; only what that reads has a gradient.
        transposed: whether `a.T @ x == b` is solved.

    Raises:
        ValueError: the shapes do not fit, or there is no such structure.
        LinAlgError: the matrix is singular.

    Source: scipy.linalg.solve.

    Example:
        >>> from asyncgrad.scipy import linalg
        >>> linalg.solve([[2.0, 0.0], [1.0, 4.0]], [2.0, 5.0]).tolist()
        [1.0, 1.0]
    """
    a, b = _of_one_dtype(a, b)
    if a.size == 1 and a.ndim <= 2:
        # As SciPy: of any shape of b.
        if not raw(a).all():
            raise np.linalg.LinAlgError("scipy.linalg.solve takes a matrix that is not singular")
        return b / a.reshape(())
    a = matrices("solve", a)
    if check_finite:
        refuse_infinity("solve", a, b)
    structure = _structure("solve", assume_a)
    if (b.shape[-2:][0] if b.ndim else None) != a.shape[-1]:
        raise ValueError(f"scipy.linalg.solve takes a b with as many rows as a, not shapes {a.shape} and {b.shape}")
    if transposed and "c" in (a.dtype.kind, b.dtype.kind):
        raise ArgumentError("scipy.linalg.solve takes transposed=True for real matrices: write solve(a.mT, b)")
    if structure in ("upper", "lower"):
        return solve_triangular(a, b, int(transposed), structure == "lower", check_finite=False)
    if structure == "diagonal":
        return _diagonal_solution(a, b)
    if structure == "tridiagonal":
        a = np.triu(np.tril(a, 1), -1)
    elif structure != "general":
        a = mirrored(a, lower, structure != "symmetric")
    if structure == "positive":
        # Raises unless it is.
        np.linalg.cholesky(raw(a))
    return np.linalg.solve(a.mT if transposed else a, b)


def _of_one_dtype(a: Any, b: Any) -> tuple[Any, Any]:
    a, b = asarray(a), asarray(b)
    dtype = np.result_type(a.dtype, b.dtype)
    # Whole numbers alone are in double precision.
    dtype = np.dtype(float) if dtype.kind in "biu" else lapack_numbers(np.zeros(0, dtype)).dtype
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)


def _diagonal_solution(a: Any, b: Any) -> Any:
    diagonal = np.diagonal(a, 0, -2, -1)
    if not raw(diagonal).all():
        raise np.linalg.LinAlgError("scipy.linalg.solve takes a matrix that is not singular")
    return b / diagonal if b.ndim == 1 else b / diagonal[..., np.newaxis]


def _structure(name: str, assume_a: Any) -> str:
    if assume_a not in _STRUCTURES:
        raise ValueError(f"scipy.linalg.{name} takes assume_a={', '.join(map(repr, _STRUCTURES))}, not {assume_a!r}")
    return _STRUCTURES[assume_a]


def inv(
    a: Any,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool = False,
) -> Any:
    """Return the inverses of square matrices.

    Args:
        a: shape (..., n, n).
        overwrite_a: has no effect.
        check_finite: whether NaN and infinity are refused.
        assume_a: the structure of `a`, as for `solve`.
        lower: which triangle is read of a symmetric or Hermitian matrix.

    Source: scipy.linalg.inv.
    """
    matrix = matrices("inv", a, is_for_lapack=True)
    if check_finite:
        refuse_infinity("inv", matrix)
    if _structure("inv", assume_a) == "general":
        return np.linalg.inv(matrix)
    eye = np.eye(matrix.shape[-1], dtype=matrix.dtype)
    return solve(matrix, eye, lower, assume_a=assume_a, check_finite=False)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the determinants of square matrices; see `scipy.linalg.det`."""
    matrix = matrices("det", a)
    if check_finite:
        refuse_infinity("det", matrix)
    # In double precision, as SciPy's: a product of many factors leaves the range of single precision.
    return np.linalg.det(matrix.astype(np.result_type(matrix.dtype, np.float64), copy=False))


def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """Return norms of matrices or vectors; see `scipy.linalg.norm`."""
    array = floating(a)
    if check_finite:
        refuse_infinity("norm", array)
    if axis is None and not keepdims and array.size and (ord is None or (ord == 2 and array.ndim == 1)):
        # As SciPy: vectors in double precision, and numbers whose squares leave its range.
        if array.dtype.char in "fF" and array.ndim == 1:
            array = array.astype(np.result_type(array.dtype, np.float64))
        largest = float(np.abs(raw(array)).max())
        if np.isfinite(largest) and not 1e-140 < largest < 1e140 and largest > 0:
            return largest * np.linalg.norm(array / largest, ord)
    return np.linalg.norm(array, ord, axis, keepdims)


def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    """Return the pseudo-inverse of a matrix.

    Args:
        a: shape (m, n).
        atol: singular values up to it count as 0.
        rtol: and those up to this, relative to the largest; by default the larger length times the precision.
        return_rank: whether to return the rank, too.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.pinv.
    """
    matrix = matrices("pinv", a, is_square=False, is_for_lapack=True)
    if check_finite:
        refuse_infinity("pinv", matrix)
    cutoff, values = _cutoff(matrix, np.linalg.svd(raw(matrix), compute_uv=False), atol, rtol)
    result = np.linalg.pinv(matrix, cutoff)
    return (result, _rank(values, cutoff)) if return_rank else result


def pinvh(
    a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False, check_finite: bool = True
) -> Any:
    """Return the pseudo-inverse of a Hermitian matrix, of which one triangle is read; see `scipy.linalg.pinvh`."""
    whole = matrices("pinvh", a, is_for_lapack=True)
    if check_finite:
        refuse_infinity("pinvh", whole)
    matrix = mirrored(whole, lower, True)
    cutoff, values = _cutoff(matrix, np.abs(np.linalg.eigvalsh(raw(matrix))), atol, rtol)
    result = np.linalg.pinv(matrix, cutoff, hermitian=True)
    return (result, _rank(values, cutoff)) if return_rank else result


def _rank(values: Any, cutoff: Any) -> Any:
    """Return how many singular values there are of a matrix, or of each of a stack."""
    largest = values.max(axis=-1, initial=0.0, keepdims=True)
    ranks = (values > np.asarray(cutoff)[..., np.newaxis] * largest).sum(-1)
    return ranks if ranks.ndim else int(ranks)


def _cutoff(matrix: Array, values: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Return the cutoffs relative to the largest of the singular values of each matrix, and these."""
    largest = values.max(axis=-1, initial=0.0)
    absolute = 0.0 if atol is None else float(atol)
    relative = max(matrix.shape[-2:]) * np.finfo(matrix.dtype).eps if rtol is None else float(rtol)
    if rtol is None and atol is not None:
        relative = 0.0
    return np.where(largest > 0, absolute / np.where(largest > 0, largest, 1.0), 0.0) + relative, values


@over_stacks(2, 0)
def lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Return the x of least norm that minimizes `norm(a @ x - b)`, the residuals, the rank and the singular values.

    Args:
        a: shape (m, n).
        b: shape (m,) or (m, k).
        cond: singular values up to it, relative to the largest, count as 0; None for the precision.
        overwrite_a: has no effect.
        overwrite_b: has no effect.
        check_finite: as SciPy's.
        lapack_driver: "gelsd", "gelss", or "gelsy", which finds the rank by a QR decomposition, and returns neither
            residuals nor singular values; None for the first.

    Raises:
        ValueError: the shapes do not fit.

    Source: scipy.linalg.lstsq.
    """
    if lapack_driver not in (None, "gelsd", "gelss", "gelsy"):
        raise ValueError(f"scipy.linalg.lstsq takes lapack_driver 'gelsd', 'gelss' or 'gelsy', not {lapack_driver!r}")
    a, b = matrices("lstsq", a, is_square=False, is_for_lapack=True), lapack_numbers(b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise ValueError(
            f"scipy.linalg.lstsq takes a matrix and a vector or matrix of as many rows, not shapes {a.shape} and "
            f"{b.shape}"
        )
    if check_finite:
        refuse_infinity("lstsq", a, b)
    if lapack_driver == "gelsy" and a.size:
        return _by_pivots(a, b, cond)
    if cond is None:
        cond = np.finfo(a.dtype).eps
    elif not 0 < cond < 1:
        # LAPACK takes its precision instead, which is that of `a`; NumPy computes in double precision.
        cond = np.finfo(a.dtype).epsneg
    found = np.linalg.lstsq(a, b, cond)
    residuals = found[1]
    # Of one right-hand side it is one number; where there are none, of the dtype of the solution.
    if not a.shape[1]:
        residuals = np.sum(np.real(np.conjugate(b) * b), 0)
    elif b.ndim == 1 and raw(residuals).size:
        residuals = residuals[0]
    if not a.size:
        # Of an empty system SciPy makes what is empty itself.
        return found[0], residuals if raw(residuals).size else asarray(np.empty(0)), 0, asarray(np.empty(0))
    if not raw(residuals).size:
        residuals = residuals.astype(found[0].dtype, copy=False)
    return found[0], residuals, int(raw(found[2])), found[3]


def _by_pivots(a: Any, b: Any, cond: Any) -> tuple[Any, Any, Any, Any]:
    """Return what `lstsq` does by a QR decomposition that exchanges columns, which has rows as many as the rank."""
    rank = int(linalg.lstsq(raw(a), raw(b), cond, lapack_driver="gelsy")[2])
    order = linalg.qr(raw(a), mode="r", pivoting=True)[-1]
    q, r = np.linalg.qr(a[:, order])
    # Of the solutions the shortest one.
    x = np.linalg.lstsq(r[:rank], product(adjoint(q[:, :rank]), b), np.finfo(a.dtype).eps)[0]
    return x[np.argsort(order)], asarray(np.zeros(0, raw(x).dtype)), rank, None


# Cholesky's factors.


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the triangular factors of positive definite matrices, of which one triangle is read.

    Args:
        a: shape (..., n, n).
        lower: whether `a = c @ c.H`, rather than `c.H @ c`.
        overwrite_a: has no effect.
        check_finite: whether NaN and infinity are refused.

    Raises:
        LinAlgError: a matrix is not positive definite.

    Source: scipy.linalg.cholesky.
    """
    matrix = matrices("cholesky", number_as_matrix(a), is_for_lapack=True)
    if check_finite:
        refuse_infinity("cholesky", matrix)
    factor = np.linalg.cholesky(mirrored(matrix, lower, True))
    return factor if lower else adjoint(factor)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """Return what `cho_solve` takes: the triangular factor of a positive definite matrix, and `lower`.

    The other triangle is that of `a`. Of a stack, `lower` is an array with an element for each matrix. Arguments as for
    `cholesky`.
    """
    a = number_as_matrix(a)
    factor = cholesky(a, lower, overwrite_a, check_finite)
    below = np.tri(factor.shape[-1], k=0 if lower else -1, dtype=bool)
    both = np.where(below == lower, factor, lapack_numbers(a))
    return both, lower if factor.ndim == 2 else np.full(factor.shape[:-2], lower)


def cho_solve(c_and_lower: tuple[Any, Any], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Return x with `a @ x == b`, given the factor that `cho_factor` returns for `a`.

    Args:
        c_and_lower: the factor, of which one triangle is read, and which one.
        b: shape (n,) or (n, m).
        overwrite_b: has no effect.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.cho_solve.
    """
    c, lower = c_and_lower
    lower = bool(np.all(raw(lower)))
    first, second = (0, 2) if lower else (2, 0)
    half = solve_triangular(c, b, first, lower, check_finite=check_finite)
    return solve_triangular(c, half, second, lower, check_finite=check_finite)


# Lower and upper triangles.


class LUResult(NamedTuple):
    """What `lu` returns."""

    p: Any
    l: Any  # noqa: E741
    u: Any


@decomposition
def lu_(a: Any) -> Any:
    """Return p, l and u with `a = p @ l @ u`."""
    return LUResult(*linalg.lu(a))


@joint_derivative(lu_)
def _(gp: Any, gl: Any, gu: Any, p: Any, l: Array, u: Array) -> Any:  # noqa: E741
    # The first rows and columns are a square; the rows below it are those of l, and the columns beside it those of u,
    # that solve a triangular system.
    size = l.shape[-1]
    if not p.size:
        # SciPy's p has no rows where there are no columns, or no matrices.
        return np.zeros((*l.shape[:-1], u.shape[-1]), l.dtype)
    square_l, square_u = l[..., :size, :], u[..., :, :size]
    below = beside = None
    lower: Any = 0.0
    upper: Any = 0.0
    if gl is not None:
        lower = product(adjoint(square_l), gl[..., :size, :])
        if l.shape[-2] > size:
            upper = -product(adjoint(l[..., size:, :]), gl[..., size:, :])
            below = solve_triangular(np.conjugate(square_u), gl[..., size:, :].mT).mT
    if gu is not None:
        upper = upper + product(gu[..., :, :size], adjoint(square_u))
        if u.shape[-1] > size:
            lower = lower - product(gu[..., :, size:], adjoint(u[..., :, size:]))
            beside = solve_triangular(square_l, gu[..., :, size:], 2, True, True)
    inner = (np.tril(lower, -1) if np.ndim(lower) else 0.0) + (np.triu(upper) if np.ndim(upper) else 0.0)
    left = solve_triangular(square_l, inner, 2, True, True)
    # Of left @ inv(u.H), by its transpose.
    whole = solve_triangular(np.conjugate(square_u), left.mT).mT
    if l.shape[-2] > size:
        rest = np.zeros((*l.shape[:-2], l.shape[-2] - size, size), l.dtype) if below is None else below
        whole = np.concatenate([whole, rest], -2)
    if u.shape[-1] > size:
        rest = np.zeros((*u.shape[:-1], u.shape[-1] - size), u.dtype) if beside is None else beside
        whole = np.concatenate([whole, rest], -1)
    return product(p, whole)


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> Any:
    """Return p, l and u with `a = p @ l @ u`: a permutation, a lower triangle with ones on its diagonal, and an upper.

    Args:
        a: shape (..., m, n).
        permute_l: whether to return `p @ l` and u.
        overwrite_a: has no effect.
        check_finite: whether NaN and infinity are refused.
        p_indices: whether p is the indices of rows, with `a = l[p] @ u`.

    Source: scipy.linalg.lu.
    """
    matrix = matrices("lu", a, is_square=False, is_for_lapack=True)
    if check_finite:
        refuse_infinity("lu", matrix)
    p, l, u = lu_(matrix)  # noqa: E741
    p = p.detach()
    if permute_l:
        return (product(p, l) if l.size else l), u
    if p_indices:
        rows = raw(p)
        # Of one number they are of another dtype.
        dtype = np.int64 if matrix.shape[-2:] == (1, 1) else np.int32
        return (np.argmax(rows, -1) if rows.size else np.zeros(rows.shape[:-1])).astype(dtype), l, u
    return p, l, u


@over_stacks(2)
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """Return both triangles in one matrix, and the exchanges of rows; see `scipy.linalg.lu_factor`."""
    matrix = matrices("lu_factor", a, is_square=False, is_for_lapack=True)
    _, l, u = lu(matrix, False, overwrite_a, check_finite)  # noqa: E741
    rows, columns = matrix.shape
    lower = np.pad(np.tril(l, -1), ((0, 0), (0, columns - l.shape[1])))
    return lower + np.pad(u, ((0, rows - u.shape[0]), (0, 0))), linalg.lu_factor(raw(matrix))[1]


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Return x with `a @ x == b`, given what `lu_factor` returns for `a`.

    Args:
        lu_and_piv: both triangles in one matrix, and the exchanges of rows.
        b: shape (n,) or (..., n, m).
        trans: 0, or 1 for `a.T @ x == b`, or 2 for `a.conj().T @ x == b`.
        overwrite_b: has no effect.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.lu_solve.
    """
    return _lu_solution(lu_and_piv[0], lu_and_piv[1], b, trans, check_finite)


@over_stacks(2, 1, 0, name="lu_solve")
def _lu_solution(lu: Any, piv: Any, b: Any, trans: int, check_finite: bool) -> Any:
    both, exchanges, b = floating(lu), np.asarray(raw(piv)), floating(b)
    order = np.arange(both.shape[0])
    for row, other in enumerate(exchanges[: both.shape[0]]):
        order[[row, other]] = order[[other, row]]
    if trans == 0:
        half = solve_triangular(both, b[order], 0, True, True, check_finite=check_finite)
        return solve_triangular(both, half, 0, False, check_finite=check_finite)
    half = solve_triangular(both, b, trans, False, check_finite=check_finite)
    return solve_triangular(both, half, trans, True, True, check_finite=check_finite)[np.argsort(order)]


# Bands, and matrices that are constant along their diagonals.


@primitive()
def banded_solution_(ab: Any, b: Any, low: int, high: int) -> Any:
    """Return x with `a @ x == b`, for a matrix `a` with its bands in the rows of `ab`, and a matrix `b`."""
    return linalg.solve_banded((low, high), ab, b)


def _transposed_bands(ab: Array, low: int, high: int) -> Any:
    """Return the bands of the transposed matrix."""
    size = ab.shape[1]
    # Each is the band on the other side, moved so that its elements lie in the columns that were their rows.
    return np.stack([_moved(ab[low + high - row], low - row, size) for row in range(low + high + 1)])


def _moved(row: Any, offset: int, size: int) -> Any:
    if offset == 0:
        return row
    zeros = np.zeros(min(abs(offset), size), raw(row).dtype)
    return np.concatenate([zeros, row[: size - offset]]) if offset > 0 else np.concatenate([row[-offset:], zeros])


@derivative(banded_solution_, "b")
def _(g: Array, ab: Any, low: int, high: int) -> Array:
    return banded_solution_.call(_transposed_bands(ab, low, high), g, high, low)


@derivative(banded_solution_, "ab")
def _(g: Array, ab: Array, out: Any, low: int, high: int) -> Array:
    weights = banded_solution_.call(_transposed_bands(ab, low, high), g, high, low)
    size = ab.shape[1]
    rows = []
    for row in range(low + high + 1):
        # Element (i, j) of the matrix, with i - j = row - high, lies in column j.
        offset = row - high
        start, stop = max(0, -offset), min(size, size - offset)
        products = -np.sum(weights[start + offset : stop + offset] * out[start:stop], 1)
        rows.append(np.pad(products, (start, size - stop)))
    return np.stack(rows)


def solve_banded(
    l_and_u: tuple[int, int],
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return x with `a @ x == b`, for a banded matrix.

    Args:
        l_and_u: the numbers of bands below and above the diagonal.
        ab: the bands, shape (..., l + u + 1, n): element (i, j) of the matrix is `ab[u + i - j, j]`.
        b: shape (n,) or (n, m).
        overwrite_ab: has no effect.
        overwrite_b: has no effect.
        check_finite: whether NaN and infinity are refused.

    Raises:
        ValueError: the shapes do not fit.
        LinAlgError: the matrix is singular.

    Source: scipy.linalg.solve_banded.
    """
    low, high = (int(one) for one in l_and_u)
    return _banded_solution(ab, b, low, high, check_finite)


@over_stacks(2, 0, name="solve_banded")
def _banded_solution(ab: Any, b: Any, low: int, high: int, check_finite: bool) -> Any:
    ab, b = floating(ab), floating(b)
    if ab.ndim != 2 or ab.shape[0] != low + high + 1 or not b.ndim or b.shape[0] != ab.shape[1]:
        raise ValueError(
            f"scipy.linalg.solve_banded takes bands of shape ({low + high + 1}, n) and a b with n rows, not shapes "
            f"{ab.shape} and {b.shape}"
        )
    if check_finite:
        refuse_infinity("solve_banded", ab, b)
    columns = b[:, np.newaxis] if b.ndim == 1 else b
    result = banded_solution_.call(ab, columns, low, high)
    return result[:, 0] if b.ndim == 1 else result


@over_stacks(2, 0)
def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return x with `a @ x == b`, for a positive definite banded matrix, of which one side is given.

    Args:
        ab: the diagonal and the bands on one side, shape (u + 1, n), laid out as for `solve_banded`.
        b: shape (n,) or (n, m).
        overwrite_ab: has no effect.
        overwrite_b: has no effect.
        lower: whether the bands below the diagonal are given, rather than those above.
        check_finite: whether NaN and infinity are refused.

    Raises:
        LinAlgError: the matrix is not positive definite.

    Source: scipy.linalg.solveh_banded.
    """
    ab = bands_of("solveh_banded", ab, may_be_none=True)
    if not ab.size:
        b = floating(b)
        return b.astype(np.result_type(ab.dtype, b.dtype), copy=False)
    # Raises unless the matrix is positive definite.
    linalg.cholesky_banded(raw(ab), lower=lower, check_finite=check_finite)
    count, size = ab.shape[0] - 1, ab.shape[1]
    rows = list(ab) if lower else [np.conjugate(_moved(ab[count - index], -index, size)) for index in range(count + 1)]
    if ab.dtype.kind == "c":
        # As the matrix is Hermitian, its diagonal is real.
        rows[0] = rows[0].real.astype(ab.dtype)
    above = [np.conjugate(_moved(rows[index], index, size)) for index in range(count, 0, -1)]
    return solve_banded((count, count), np.stack([*above, *rows]), b, check_finite=check_finite)


def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """Return x with `toeplitz(c, r) @ x == b`; see `scipy.linalg.solve_toeplitz`."""
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    matrix, right = (
        one.astype(np.result_type(one.dtype, np.float64), copy=False) for one in (floating(toeplitz(c, r)), floating(b))
    )
    # By its recursion SciPy cannot solve where a matrix of first rows and columns is singular, and raises.
    if matrix.size and matrix.ndim == 2 and right.ndim and right.shape[0] == matrix.shape[0]:
        linalg.solve_toeplitz((raw(matrix)[:, 0], raw(matrix)[0]), raw(right), check_finite)
    return solve(matrix, right, check_finite=check_finite)


def solve_circulant(
    c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0
) -> Any:
    """Return x with `circulant(c) @ x == b`, by Fourier transforms.

    Args:
        c: the first columns, with n elements along `caxis`.
        b: with n elements along `baxis`.
        singular: "raise", or "lstsq" for the solution of least squares.
        tol: how near to 0 eigenvalues count as 0; None for the precision.
        caxis: of `c`.
        baxis: of `b`.
        outaxis: of the result.

    Raises:
        LinAlgError: the matrix is singular.

    Source: scipy.linalg.solve_circulant.
    """
    c, b = np.atleast_1d(asarray(c)), np.atleast_1d(asarray(b))
    c, b = np.moveaxis(c, axis_index(caxis, c.ndim), -1), np.moveaxis(b, axis_index(baxis, b.ndim), -1)
    if c.shape[-1] != b.shape[-1]:
        raise ValueError(f"scipy.linalg.solve_circulant takes as many elements of c and b, not {c.shape} and {b.shape}")
    is_complex = "c" in (c.dtype.kind, b.dtype.kind)
    if not b.size:
        return b.astype(np.result_type(floating(b).dtype, floating(c).dtype))
    values = np.fft.fft(c)
    sizes = np.abs(raw(values))
    if tol is None:
        tol = sizes.max(axis=-1, keepdims=True) * c.shape[-1] * np.finfo(np.float64).eps
    is_zero = sizes <= tol
    if is_zero.any():
        if singular == "raise":
            raise np.linalg.LinAlgError("scipy.linalg.solve_circulant takes a matrix that is not singular")
        values = np.where(is_zero, 1.0, values)
    quotient = np.fft.fft(b) / values
    if is_zero.any():
        quotient = np.where(is_zero, 0.0, quotient)
    result = np.fft.ifft(quotient)
    return np.moveaxis(result if is_complex else result.real, -1, outaxis)
