"""Systems of linear equations, and the factors by which they are solved."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from ...errors import ArgumentError
from ...graph.values import raw
from ...ops.decomposition import decomposition, joint_derivative
from ...ops.linear_algebra import adjoint, product
from ...ops.primitive import derivative, primitive
from ..arguments import floating
from .matrices import toeplitz
from .triangular import solve_triangular

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
    "norm",
    "pinv",
    "pinvh",
    "solve",
    "solve_banded",
    "solve_circulant",
    "solve_toeplitz",
    "solveh_banded",
]


def _matrix(name: str, value: Any, *, is_square: bool = True) -> Any:
    a = floating(value)
    if a.ndim < 2 or (is_square and a.shape[-1] != a.shape[-2]):
        raise ValueError(
            f"scipy.linalg.{name} takes {'square ' if is_square else ''}matrices, not an array of shape {a.shape}"
        )
    return a


def _mirrored(a: Any, lower: bool, is_hermitian: bool) -> Any:
    """Return the matrix of which one triangle is given."""
    if lower:
        half = np.tril(a, -1)
        whole = np.tril(a)
    else:
        half = np.triu(a, 1)
        whole = np.triu(a)
    return whole + (adjoint(half) if is_hermitian else half.mT)


#: By SciPy's words for the structure of a matrix, what is done.
_STRUCTURES: dict[Any, str] = {
    **dict.fromkeys((None, "general", "gen", "banded", "tridiagonal"), "general"),
    **dict.fromkeys(("symmetric", "sym"), "symmetric"),
    **dict.fromkeys(("hermitian", "her", "positive definite", "pos"), "hermitian"),
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
    a, b = _matrix("solve", a), floating(b)
    _check_finite("solve", check_finite, a, b)
    if assume_a not in _STRUCTURES:
        raise ValueError(f"scipy.linalg.solve takes assume_a={', '.join(map(repr, _STRUCTURES))}, not {assume_a!r}")
    rows = b.shape[-2:][0] if b.ndim else None
    if rows != a.shape[-1]:
        raise ValueError(f"scipy.linalg.solve takes a b with as many rows as a, not shapes {a.shape} and {b.shape}")
    structure = _STRUCTURES[assume_a]
    if structure in ("upper", "lower"):
        return solve_triangular(a, b, int(transposed), structure == "lower")
    if structure == "diagonal":
        diagonal = np.diagonal(a, 0, -2, -1)
        return b / diagonal if b.ndim == 1 else b / diagonal[..., np.newaxis]
    if structure != "general":
        a = _mirrored(a, lower, structure == "hermitian")
    return np.linalg.solve(a.mT if transposed else a, b)


def _check_finite(name: str, is_wanted: bool, *arrays: Any) -> None:
    if is_wanted and not all(np.isfinite(raw(array)).all() for array in arrays):
        raise ValueError(f"scipy.linalg.{name} takes neither infinity nor NaN: write check_finite=False if meant")


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the inverses of square matrices; see `scipy.linalg.inv`."""
    return np.linalg.inv(_matrix("inv", a))


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the determinants of square matrices; see `scipy.linalg.det`."""
    return np.linalg.det(_matrix("det", a))


def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """Return norms of matrices or vectors; see `scipy.linalg.norm`."""
    return np.linalg.norm(floating(a), ord, axis, keepdims)


def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    """Return the pseudo-inverse of a matrix.

    Args:
        a: shape (m, n).
        atol: singular values up to it count as 0.
        rtol: and those up to this, relative to the largest; by default the larger length times the precision.
        return_rank: whether to return the rank, too.
        check_finite: as SciPy's.

    Source: scipy.linalg.pinv.
    """
    matrix = _matrix("pinv", a, is_square=False)
    cutoff, values = _cutoff(matrix, np.linalg.svd(raw(matrix), compute_uv=False), atol, rtol)
    result = np.linalg.pinv(matrix, cutoff)
    return (result, int((values > cutoff * values.max(initial=0.0)).sum())) if return_rank else result


def pinvh(
    a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False, check_finite: bool = True
) -> Any:
    """Return the pseudo-inverse of a Hermitian matrix, of which one triangle is read; see `scipy.linalg.pinvh`."""
    matrix = _mirrored(_matrix("pinvh", a), lower, True)
    cutoff, values = _cutoff(matrix, np.abs(np.linalg.eigvalsh(raw(matrix))), atol, rtol)
    result = np.linalg.pinv(matrix, cutoff, hermitian=True)
    return (result, int((values > cutoff * values.max(initial=0.0)).sum())) if return_rank else result


def _cutoff(matrix: Any, values: Any, atol: Any, rtol: Any) -> tuple[float, Any]:
    """Return the cutoff relative to the largest of singular values, and these."""
    largest = values.max(initial=0.0)
    absolute = 0.0 if atol is None else float(atol)
    relative = max(matrix.shape[-2:]) * np.finfo(matrix.dtype).eps if rtol is None else float(rtol)
    if rtol is None and atol is not None:
        relative = 0.0
    return float((absolute + relative * largest) / largest) if largest else relative, values


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
        lapack_driver: has no effect.

    Source: scipy.linalg.lstsq.
    """
    a, b = _matrix("lstsq", a, is_square=False), floating(b)
    found = np.linalg.lstsq(a, b, np.finfo(a.dtype).eps if cond is None else cond)
    residuals = found[1]
    # Of one right-hand side it is one number.
    if b.ndim == 1 and raw(residuals).size:
        residuals = residuals[0]
    return found[0], residuals, int(raw(found[2])), found[3]


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
    matrix = _matrix("cholesky", a)
    _check_finite("cholesky", check_finite, matrix)
    factor = np.linalg.cholesky(_mirrored(matrix, lower, True))
    return factor if lower else adjoint(factor)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """Return what `cho_solve` takes: the triangular factor of a positive definite matrix, and `lower`.

    The other triangle holds zeros. Arguments as for `cholesky`.
    """
    return cholesky(a, lower, overwrite_a, check_finite), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Return x with `a @ x == b`, given the factor that `cho_factor` returns for `a`.

    Args:
        c_and_lower: the factor, of which one triangle is read, and which one.
        b: shape (n,) or (n, m).
        overwrite_b: has no effect.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.cho_solve.
    """
    c, lower = c_and_lower
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
    """Return p, l and u with `a = p @ l @ u`, for a square matrix."""
    return LUResult(*linalg.lu(a))


@joint_derivative(lu_)
def _(gp: Any, gl: Any, gu: Any, p: Any, l: Any, u: Any) -> Any:  # noqa: E741
    inner: Any = 0.0
    if gl is not None:
        inner = inner + np.tril(product(adjoint(l), gl), -1)
    if gu is not None:
        inner = inner + np.triu(product(gu, adjoint(u)))
    left = solve_triangular(l, inner, 2, True, True)
    # Of left @ inv(u.H), by its transpose.
    return product(p, solve_triangular(np.conjugate(u), left.mT).mT)


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> Any:
    """Return p, l and u with `a = p @ l @ u`: a permutation, a lower triangle with ones on its diagonal, and an upper.

    Args:
        a: shape (n, n).
        permute_l: whether to return `p @ l` and u.
        overwrite_a: has no effect.
        check_finite: whether NaN and infinity are refused.
        p_indices: whether p is the indices of rows, with `a = l[p] @ u`.

    Raises:
        ArgumentError: the matrix is not square.

    Source: scipy.linalg.lu.
    """
    matrix = _matrix("lu", a, is_square=False)
    _check_finite("lu", check_finite, matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ArgumentError(f"scipy.linalg.lu has a derivative for a square matrix, not for the shape {matrix.shape}")
    p, l, u = lu_(matrix)  # noqa: E741
    p = p.detach()
    if permute_l:
        return product(p, l), u
    return (np.argmax(raw(p), -1).astype(np.int32), l, u) if p_indices else (p, l, u)


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """Return both triangles in one matrix, and the exchanges of rows; see `scipy.linalg.lu_factor`."""
    matrix = _matrix("lu_factor", a)
    _, l, u = lu(matrix, False, overwrite_a, check_finite)  # noqa: E741
    return np.tril(l, -1) + u, linalg.lu_factor(raw(matrix))[1]


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Return x with `a @ x == b`, given what `lu_factor` returns for `a`.

    Args:
        lu_and_piv: both triangles in one matrix, and the exchanges of rows.
        b: shape (n,) or (n, m).
        trans: 0, or 1 for `a.T @ x == b`, or 2 for `a.conj().T @ x == b`.
        overwrite_b: has no effect.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.lu_solve.
    """
    both, exchanges = floating(lu_and_piv[0]), np.asarray(raw(lu_and_piv[1]))
    b = floating(b)
    order = np.arange(both.shape[0])
    for row, other in enumerate(exchanges):
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


def _transposed_bands(ab: Any, low: int, high: int) -> Any:
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
def _(g: Any, ab: Any, low: int, high: int) -> Any:
    return banded_solution_.call(_transposed_bands(ab, low, high), g, high, low)


@derivative(banded_solution_, "ab")
def _(g: Any, ab: Any, out: Any, low: int, high: int) -> Any:
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
        ab: the bands, shape (l + u + 1, n): element (i, j) of the matrix is `ab[u + i - j, j]`.
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
    ab, b = floating(ab), floating(b)
    if ab.ndim != 2 or ab.shape[0] != low + high + 1 or not b.ndim or b.shape[0] != ab.shape[1]:
        raise ValueError(
            f"scipy.linalg.solve_banded takes bands of shape ({low + high + 1}, n) and a b with n rows, not shapes "
            f"{ab.shape} and {b.shape}"
        )
    _check_finite("solve_banded", check_finite, ab, b)
    columns = b[:, np.newaxis] if b.ndim == 1 else b
    result = banded_solution_.call(ab, columns, low, high)
    return result[:, 0] if b.ndim == 1 else result


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

    Source: scipy.linalg.solveh_banded.
    """
    ab = floating(ab)
    if ab.ndim != 2:
        raise ValueError(f"scipy.linalg.solveh_banded takes bands of shape (u + 1, n), not {ab.shape}")
    count, size = ab.shape[0] - 1, ab.shape[1]
    rows = list(ab) if lower else [np.conjugate(_moved(ab[count - index], -index, size)) for index in range(count + 1)]
    above = [np.conjugate(_moved(rows[index], index, size)) for index in range(count, 0, -1)]
    return solve_banded((count, count), np.stack([*above, *rows]), b, check_finite=check_finite)


def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """Return x with `toeplitz(c, r) @ x == b`; see `scipy.linalg.solve_toeplitz`."""
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return solve(toeplitz(c, r), b, check_finite=check_finite)


def solve_circulant(
    c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0
) -> Any:
    """Return x with `circulant(c) @ x == b`, by Fourier transforms.

    Args:
        c: the first column, shape (n,).
        b: shape (n,) or (n, m).
        singular: "raise" alone.
        tol: None alone.
        caxis: -1 or 0.
        baxis: 0 alone.
        outaxis: 0 alone.

    Raises:
        LinAlgError: the matrix is singular.

    Source: scipy.linalg.solve_circulant.
    """
    c, b = floating(c), floating(b)
    if singular != "raise" or tol is not None or c.ndim != 1 or baxis != 0 or outaxis != 0:
        raise ArgumentError(
            "scipy.linalg.solve_circulant has a derivative for a c of shape (n,) and a b of shape (n, ...), with "
            "singular='raise' and the default axes"
        )
    values = np.fft.fft(c)
    sizes = np.abs(raw(values))
    if (sizes <= sizes.max(initial=0.0) * c.size * np.finfo(c.dtype).eps).any():
        raise np.linalg.LinAlgError("scipy.linalg.solve_circulant takes a matrix that is not singular")
    quotient = np.fft.fft(b, axis=0) / values.reshape((-1,) + (1,) * (b.ndim - 1))
    result = np.fft.ifft(quotient, axis=0)
    return result if "c" in (c.dtype.kind, b.dtype.kind) else result.real
