"""Factors with orthonormal columns or rows, bases of subspaces, and factors of symmetric matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import linalg

from ...core.arrays.values import raw
from ...core.ops.linear_algebra import adjoint, product
from ...core.recording.decomposition import Decomposition, decomposition, joint_derivative
from ...core.tensor import asarray
from ..arguments import floating, lapack_numbers, matrices, number_as_matrix
from .lapack import refuse_infinity
from .spectral import qr
from .stacks import over_stacks
from .sylvester import solve_sylvester
from .systems import mirrored

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "diagsvd",
    "ldl",
    "null_space",
    "orth",
    "orthogonal_procrustes",
    "polar",
    "qr_multiply",
    "rq",
    "subspace_angles",
]


def _matrix(name: str, value: Any) -> Any:
    matrix = lapack_numbers(value)
    if matrix.ndim != 2:
        raise ValueError(f"scipy.linalg.{name} takes a matrix, not an array of shape {matrix.shape}")
    return matrix


# The polar decomposition.


class PolarResult(NamedTuple):
    """The factors of a polar decomposition."""

    u: Any
    p: Any


@decomposition
def polar_(a: Any) -> Any:
    """Return u with orthonormal columns and p, Hermitian, with `a = u @ p`."""
    return PolarResult(*linalg.polar(a))


@joint_derivative(polar_)
def _(gu: Any, gp: Any, u: Array, p: Any) -> Any:
    # As p is u.H @ a, its gradient flows by u, too.
    whole = 0.0 if gu is None else gu
    if gp is not None:
        whole = whole + product(u, product(p, adjoint(gp)))
    inner = product(adjoint(u), whole)
    turned = solve_sylvester(p, p, inner)
    left = product(u, turned - adjoint(turned))
    if u.shape[0] > u.shape[1]:
        # What leaves the space of the columns; of transposes, since the Hermitian factor is on the right.
        left = left + np.linalg.solve(p.mT, (whole - product(u, inner)).mT).mT
    return left if gp is None else left + product(u, gp)


@over_stacks(2)
def polar(a: Any, side: str = "right") -> tuple[Any, Any]:
    """Return u and p with `a = u @ p`, or `a = p @ u`: a matrix with orthonormal columns or rows, and a Hermitian one.

    Of the longer of both lengths p has no full rank.

    Args:
        a: shape (..., m, n), of full rank.
        side: "right" for `u @ p`, "left" for `p @ u`.

    Raises:
        ValueError: there is no such side.

    Source: scipy.linalg.polar.
    """
    matrix = _matrix("polar", a)
    if side not in ("right", "left"):
        raise ValueError(f"scipy.linalg.polar takes side 'right' or 'left', not {side!r}")
    refuse_infinity("polar", matrix, is_optional=False)
    rows, columns = matrix.shape
    if rows >= columns:
        u, p = polar_(matrix)
        return (u, p) if side == "right" else (u, product(matrix, adjoint(u)) if rows > columns else _left(u, p))
    u, p = polar_(adjoint(matrix))
    u = adjoint(u)
    return (u, p) if side == "left" else (u, product(adjoint(u), matrix))


def _left(u: Any, p: Any) -> Any:
    """Return the Hermitian factor on the left, where both are square."""
    return product(product(u, p), adjoint(u))


@over_stacks(2, 2)
def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """Return the matrix r with orthonormal columns that minimizes `norm(A @ r - B)`, and the sum of singular values.

    Args:
        A: shape (m, n).
        B: shape (m, n); `A.H @ B` is not singular.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.orthogonal_procrustes.
    """
    a, b = _matrix("orthogonal_procrustes", A), _matrix("orthogonal_procrustes", B)
    if a.shape != b.shape:
        raise ValueError(f"scipy.linalg.orthogonal_procrustes takes matrices of one shape, not {a.shape} and {b.shape}")
    if check_finite:
        refuse_infinity("orthogonal_procrustes", a, b)
    u, p = polar_(product(adjoint(a), b))
    # The singular values are the eigenvalues of the Hermitian factor.
    return u, np.trace(p).real


# Of one matrix times its factors.


@over_stacks(2)
def rq(
    a: Any, overwrite_a: bool = False, lwork: int | None = None, mode: str = "full", check_finite: bool = True
) -> Any:
    """Return r and q with `a = r @ q`: an upper triangle, and a matrix with orthonormal rows.

    Args:
        a: shape (..., m, n).
        overwrite_a: has no effect.
        lwork: has no effect.
        mode: "full", "economic", or "r" for r alone.
        check_finite: as SciPy's.

    Source: scipy.linalg.rq.
    """
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"scipy.linalg.rq takes mode 'full', 'economic' or 'r', not {mode!r}")
    matrix = _matrix("rq", a)
    # The transpose of the QR decomposition of the matrix upside down, and so are its factors.
    found = qr(adjoint(np.flip(matrix, 0)), mode="economic")
    q, r = np.flip(adjoint(found[0]), 0), np.flip(adjoint(found[1]))
    signs = _signs_of_scipy(matrix, r)
    q, r = q * signs[:, np.newaxis], r * np.conjugate(signs)
    rest = matrix.shape[1] - q.shape[0]
    if rest and mode != "economic":
        r = np.pad(r, ((0, 0), (rest, 0)))
        if mode == "full":
            q = np.concatenate([_by_reflections(matrix)[:rest], q])
    return r if mode == "r" else (r, q)


def _by_reflections(matrix: Any) -> Any:
    """Return the square q of a matrix with more columns than rows, by the reflections of LAPACK.

    Its rows that add nothing to the matrix are any that are orthogonal to the others; these are SciPy's.
    """
    rows, columns = matrix.shape
    whole = np.concatenate([matrix, np.eye(columns, dtype=matrix.dtype)])
    for row in range(rows - 1, -1, -1):
        last = columns - rows + row
        ahead = np.conjugate(whole[row, : last + 1])
        value = complex(raw(ahead)[last])
        if not raw(ahead)[:last].any() and not value.imag:
            continue
        length = np.linalg.norm(ahead) * (-1.0 if value.real >= 0 else 1.0)
        vector = np.concatenate([ahead[:last] / (ahead[last] - length), np.ones(1, matrix.dtype)])
        factor = (length - ahead[last]) / length
        turned = factor * product(whole[:, : last + 1], vector[:, np.newaxis]) * np.conjugate(vector)
        whole = np.concatenate([whole[:, : last + 1] - turned, whole[:, last + 1 :]], 1)
    return adjoint(whole[rows:])


def _signs_of_scipy(matrix: Any, r: Any) -> Any:
    """Return the signs of the rows of q, one for each column of r, by which it is SciPy's."""
    theirs, ours = linalg.rq(raw(matrix), mode="r"), raw(r)
    count = min(theirs.shape)
    signs = np.ones(r.shape[1], r.dtype)
    if count:
        mine = np.diagonal(ours[ours.shape[0] - count :, ours.shape[1] - count :])
        other = np.diagonal(theirs[theirs.shape[0] - count :, theirs.shape[1] - count :])
        ratios = np.where(mine * other == 0, 1.0, other / np.where(mine == 0, 1.0, mine))
        signs[len(signs) - count :] = np.conjugate(ratios / np.abs(ratios))
    return signs


@over_stacks(2, 0)
def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Any, ...]:
    """Return the product of `c` with the q of the QR decomposition of `a`, and its r.

    Args:
        a: shape (m, n).
        c: shape (k, m) or (m,); on the right of q shape (min(m, n), k) or (min(m, n),).
        mode: "right" for `c @ q`, "left" for `q @ c`.
        pivoting: as for `qr`.
        conjugate: whether q is conjugated.
        overwrite_a: has no effect.
        overwrite_c: has no effect.

    Source: scipy.linalg.qr_multiply.
    """
    if mode not in ("right", "left"):
        raise ValueError(f"scipy.linalg.qr_multiply takes mode 'right' or 'left', not {mode!r}")
    matrix, c = _matrix("qr_multiply", a), floating(c)
    q, *others = qr(matrix, mode="economic", pivoting=pivoting)
    inner = (c.shape[-1], q.shape[0]) if mode == "right" else (c.shape[0], q.shape[1])
    if inner[0] != inner[1]:
        raise ValueError(
            f"scipy.linalg.qr_multiply with mode={mode!r} takes a c that fits q, not shapes {c.shape} and {q.shape}"
        )
    q = np.conjugate(q) if conjugate else q
    return (product(c, q) if mode == "right" else product(q, c), *others)


# Bases of subspaces.


def _rank(values: Any, shape: tuple[int, ...], rcond: Any) -> int:
    relative = np.finfo(values.dtype).eps * max(shape) if rcond is None else rcond
    return int(np.sum(values > np.amax(values, initial=0.0) * relative))


@over_stacks(2)
def orth(A: Any, rcond: Any = None) -> Any:
    """Return an orthonormal basis of the space of a matrix's columns: its left singular vectors.

    Args:
        A: shape (m, n).
        rcond: singular values up to it, relative to the largest, count as 0; None for the precision.

    Source: scipy.linalg.orth.
    """
    matrix = _matrix("orth", A)
    refuse_infinity("orth", matrix, is_optional=False)
    u, s, _ = np.linalg.svd(matrix, full_matrices=False)
    return u[:, : _rank(raw(s), matrix.shape, rcond)]


@over_stacks(2)
def null_space(
    A: Any,
    rcond: Any = None,
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return an orthonormal basis of the vectors that a matrix maps to 0; its rank must not change with its elements.

    The basis is SciPy's at `A`, and turns no more than the space itself does: derivatives of what does not depend on
    the choice of a basis, such as the projector on the space, are the only ones that SciPy's basis has, too.

    Args:
        A: shape (m, n).
        rcond: as for `orth`.
        overwrite_a: has no effect.
        check_finite: NaN and infinity are refused anyway.
        lapack_driver: "gesdd" or "gesvd", by which SciPy chooses the basis.

    Source: scipy.linalg.null_space.
    """
    matrix = _matrix("null_space", A)
    basis = linalg.null_space(raw(matrix), rcond, lapack_driver=lapack_driver)
    if not basis.size:
        return asarray(basis)
    values = np.linalg.svd(raw(matrix), compute_uv=False)
    relative = np.finfo(values.dtype).eps * max(matrix.shape) if rcond is None else rcond
    inside = product(np.linalg.pinv(matrix, relative), product(matrix, basis))
    return polar_(basis - inside).u


def _column_space(matrix: Any) -> Any:
    """Return an orthonormal basis of the space of columns, which turns no more than that does."""
    basis = linalg.orth(raw(matrix))
    inverse = np.linalg.pinv(matrix, np.finfo(matrix.dtype).eps * max(matrix.shape))
    return polar_(product(matrix, product(inverse, basis))).u if basis.size else asarray(basis)


@over_stacks(2, 2)
def subspace_angles(A: Any, B: Any) -> Any:
    """Return the angles between the spaces of the columns of two matrices, the largest first.

    Args:
        A: shape (m, n).
        B: shape (m, k).

    Source: scipy.linalg.subspace_angles; Knyazev and Argentati, 2002.
    """
    a, b = _matrix("subspace_angles", A), _matrix("subspace_angles", B)
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"scipy.linalg.subspace_angles takes matrices with as many rows, not {a.shape} and {b.shape}")
    first, second = _column_space(a), _column_space(b)
    if first.shape[1] < second.shape[1]:
        first, second = second, first
    shared = product(adjoint(first), second)
    cosines = np.flip(np.linalg.svdvals(shared))
    sines = np.linalg.svdvals(second - product(first, shared))
    # Of small angles the sine tells more, of large ones the cosine.
    is_small = raw(cosines) ** 2 >= 0.5
    small = np.arcsin(np.where(is_small, np.clip(sines, -1.0, 1.0), 0.0))
    return np.where(is_small, small, np.arccos(np.where(is_small, 0.0, np.clip(cosines, -1.0, 1.0))))


@over_stacks(1)
def diagsvd(s: Any, M: int, N: int) -> Any:
    """Return the (M, N) matrix with singular values on its diagonal.

    Args:
        s: shape (M,) or (N,).
        M: the number of rows.
        N: the number of columns.

    Source: scipy.linalg.diagsvd.
    """
    values: Any = asarray(s)
    if values.ndim != 1 or values.size not in (M, N) or values.size > min(M, N):
        raise ValueError(
            f"scipy.linalg.diagsvd takes {min(M, N)} singular values for {M} rows and {N} columns, not an array of "
            f"shape {values.shape}"
        )
    return np.pad(np.diag(values), ((0, M - values.size), (0, N - values.size)))


# Symmetric matrices.


class LDLResult(NamedTuple):
    """The factors of a Hermitian matrix."""

    lu: Any
    d: Any
    perm: Any


def _factor_symmetric(lower: bool, hermitian: bool) -> Decomposition:
    """Return the decomposition by lower, or upper, triangles, of Hermitian or of symmetric matrices."""

    @decomposition
    def ldl_(a: Any) -> Any:
        """Return lu, d and the permutation of rows, with `a = lu @ d @ lu.H`."""
        return LDLResult(*linalg.ldl(a, lower, hermitian))

    @joint_derivative(ldl_)
    def _(glu: Any, gd: Any, gperm: Any, lu: Any, d: Any, perm: Any) -> Any:
        # Pairs of rows whose block of d is no diagonal have a block of the identity in the triangle.
        in_blocks = (raw(d) != 0) | np.eye(d.shape[0], dtype=bool)
        ones = np.ones(d.shape, bool)
        outside = (np.tril(ones) if lower else np.triu(ones)) & ~in_blocks
        inner: Any = 0.0
        if glu is not None:
            inner = np.where(outside, product(product(adjoint(lu), glu), adjoint(np.linalg.inv(d))), 0.0)
        if gd is not None:
            inner = inner + np.where(in_blocks, gd, 0.0)
        inverse = np.linalg.inv(lu)
        return product(adjoint(inverse), product(inner, inverse if hermitian else np.conjugate(inverse)))

    return ldl_


#: By whether triangles are lower ones, and matrices Hermitian.
_ldl = {
    (lower, hermitian): _factor_symmetric(lower, hermitian) for lower in (True, False) for hermitian in (True, False)
}


@over_stacks(2)
def ldl(
    A: Any, lower: bool = True, hermitian: bool = True, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Any, Any]:
    """Return lu, d and perm with `A = lu @ d @ lu.H`: d has blocks of one or two rows, `lu[perm]` is a triangle.

    Args:
        A: shape (..., n, n), Hermitian, of which one triangle is read.
        lower: which one, and which triangle is returned.
        hermitian: whether `A` is Hermitian, rather than symmetric with `A = lu @ d @ lu.T`.
        overwrite_a: has no effect.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.ldl.
    """
    matrix = matrices("ldl", _matrix("ldl", number_as_matrix(A)))
    if check_finite:
        refuse_infinity("ldl", matrix)
    hermitian = bool(hermitian) or matrix.dtype.kind == "f"
    lu, d, perm = _ldl[bool(lower), hermitian](mirrored(matrix, lower, hermitian))
    return lu, d, np.asarray(raw(perm))
