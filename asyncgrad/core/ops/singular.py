"""Singular values and vectors, pseudo-inverses and least squares."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentError, GraphError
from ..arrays.axes import array_like, arrays_together
from ..arrays.device_arrays import named
from ..arrays.values import as_array, is_device_array, raw
from ..recording.decomposition import decomposition, joint_derivative
from ..recording.primitive import RULES, derivative, primitive
from .linear_algebra import adjoint, product
from .shaping import expand_dims, squeeze
from .spectral import are_distinct, check_distinct, check_phases, divide_by_gaps, eigh, gaps, scale_columns

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["lstsq", "pinv", "svd", "svdvals"]

_NO_VALUE: Any = np._NoValue
#: The class of the results of np.linalg.svd, which NumPy does not export.
_SVDResult = type(np.linalg.svd(np.ones((1, 1))))


# Values alone.


@primitive(superlinear=True)
def singular_values_(a: Any, precomputed: Any) -> Any:
    """Return the singular values of matrices in descending order: `precomputed` unless that is None."""
    return np.linalg.svd(a, compute_uv=False) if precomputed is None else precomputed


@derivative(singular_values_, "a")
def _(g: Array, a: Array) -> Array:
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return product(scale_columns(u, g), vh)


def svdvals(x: Any, /) -> Any:
    """Return the singular values of matrices in descending order."""
    return singular_values_(array_like(x), None)


RULES[np.linalg.svdvals] = svdvals


# Values and vectors.


@decomposition
def svd_(a: Any, full_matrices: bool) -> Any:
    """Return u, s and vh with `a = u * s @ vh`."""
    return named(np.linalg.svd(a, full_matrices), _SVDResult)


@joint_derivative(svd_)
def _(gu: Any, gs: Any, gvh: Any, u: Any, s: Array, vh: Any) -> Any:
    u, gu = _leading_columns(u, gu, s.shape[-1])
    v, gv = _leading_columns(adjoint(vh), None if gvh is None else adjoint(gvh), s.shape[-1])
    gradient = None if gs is None else scale_columns(u, gs)
    if gu is not None or gv is not None:
        gradient = _add_defined(gradient, _gradient_of_vectors(gu, gv, u, s, v))
    gradient = product(gradient, adjoint(v))
    # The part of the gradient orthogonal to the space that the vectors span.
    if gv is not None and v.shape[-2] > v.shape[-1]:
        residual = gv - product(v, product(adjoint(v), gv))
        gradient = gradient + product(u, adjoint(_divide_columns(residual, s)))
    return gradient


def _gradient_of_vectors(gu: Any, gv: Any, u: Array, s: Any, v: Any) -> Any:
    """Return the part of the gradient that lies in the span of `v`, multiplied by `v` from the right."""
    distinct = are_distinct(s)
    check_distinct("numpy.linalg.svd", "singular values", distinct, gu, gv)
    differences = gaps(s) * (s[..., np.newaxis, :] + s[..., np.newaxis])
    projected_u = None if gu is None else product(adjoint(u), gu)
    projected_v = None if gv is None else product(adjoint(v), gv)
    check_phases("numpy.linalg.svd", _add_defined(projected_u, projected_v))
    inner = None
    if projected_u is not None:
        inner = scale_columns(divide_by_gaps(projected_u - adjoint(projected_u), differences, distinct), s)
    if projected_v is not None:
        skew = divide_by_gaps(projected_v - adjoint(projected_v), differences, distinct)
        inner = _add_defined(inner, s[..., np.newaxis] * skew)
    gradient = product(u, inner)
    if projected_u is not None and u.dtype.kind == "c":
        # Only the product of both phases of a singular value is determined: attribute the change of phase to `u`.
        phases = 1j * np.imag(np.diagonal(projected_u, 0, -2, -1))
        gradient = gradient + _divide_columns(scale_columns(u, phases), s)
    if gu is not None and u.shape[-2] > u.shape[-1]:
        gradient = gradient + _divide_columns(gu - product(u, projected_u), s)
    return gradient


def _add_defined(first: Any, second: Any) -> Any:
    """Return the sum of two arrays, or one of them if the other is None."""
    return first if second is None else second if first is None else first + second


def _divide_columns(vectors: Any, s: Any) -> Any:
    """Return each column divided by its singular value; 0 for a column of zeros with the singular value 0.

    Raises:
        GraphError: a column that is not 0 has the singular value 0.
    """
    absent = raw(s) == 0
    if absent.any() and (raw(vectors) != 0).any(-2)[absent].any():
        raise GraphError(
            "numpy.linalg.svd: the loss depends on singular vectors of the singular value 0, which have no derivative. "
            "Compute the loss from the vectors of the others, or from the matrix itself"
        )
    return vectors / np.where(absent, 1, s)[..., np.newaxis, :]


def _leading_columns(vectors: Array, g: Any, count: int) -> tuple[Any, Any]:
    """Return the first `count` columns, which belong to singular values, and their gradient.

    Raises:
        GraphError: the gradient of another column is not 0. These columns are an arbitrary orthonormal complement.
    """
    if vectors.shape[-1] == count:
        return vectors, g
    if g is None:
        return vectors[..., :count], None
    if (raw(g)[..., count:] != 0).any():
        raise GraphError(
            f"numpy.linalg.svd: the loss depends on vectors beyond the first {count}. They belong to no singular value "
            "and have no derivative, since they are an arbitrary orthonormal complement. Write "
            "np.linalg.svd(a, full_matrices=False)"
        )
    return vectors[..., :count], g[..., :count]


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return the singular values of matrices and their singular vectors, or the values alone."""
    a = array_like(a)
    if hermitian:
        return _svd_of_hermitian(a, compute_uv)
    return svd_(a, full_matrices) if compute_uv else singular_values_(a, None)


RULES[np.linalg.svd] = svd


def _svd_of_hermitian(a: Any, compute_uv: bool) -> Any:
    """Return the result of `svd` for Hermitian matrices, computed from their eigenvalues and eigenvectors."""
    if not compute_uv:
        return np.sort(np.abs(np.linalg.eigvalsh(a)))[..., ::-1]
    s, u = eigh(a)
    signs = np.copysign(1.0, raw(s))
    s = np.abs(s)
    order = np.argsort(raw(s))[..., ::-1]
    signs = np.take_along_axis(signs, order, -1)
    s = np.take_along_axis(s, order, -1)
    u = np.take_along_axis(u, order[..., np.newaxis, :], -1)
    return _SVDResult(u, s, scale_columns(u, signs).mT.conjugate())


# Pseudo-inverses.


@primitive(superlinear=True)
def pinv_(a: Any, rcond: Any, hermitian: bool, rtol: Any) -> Any:
    """Return the pseudo-inverses of matrices."""
    if a.__class__ is not np.ndarray and is_device_array(a):
        return _pseudo_inverse(a, rcond, hermitian, rtol)
    return np.linalg.pinv(a, rcond, hermitian, rtol=rtol)


def _pseudo_inverse(a: Any, rcond: Any, hermitian: bool, rtol: Any) -> Any:
    """Return the pseudo-inverses of matrices of another library, which knows neither `hermitian` nor `rtol`."""
    if rcond is None:
        rcond = 1e-15 if rtol is _NO_VALUE else rtol
        if rcond is None:
            rcond = max(a.shape[-2:]) * np.finfo(a.dtype).eps
    elif rtol is not _NO_VALUE:
        raise ArgumentError("pinv takes rtol or rcond, which are two names of one argument, not both")
    if hermitian:
        # As in NumPy, the lower triangle is read.
        a = np.tril(a) + adjoint(np.tril(a, -1))
    return np.linalg.pinv(a, rcond)


@derivative(pinv_, "a")
def _(g: Array, a: Array, out: Array) -> Array:
    gradient = _pinv_gradient(g.mT, a, out)
    return np.conjugate(gradient) if gradient.dtype.kind == "c" else gradient


def _pinv_gradient(g: Any, a: Array, inverse: Any) -> Any:
    """Return the gradient of matrices; `g` is the conjugate transpose of the gradient of their pseudo-inverses.

    The formula holds where the rank is locally constant.

    Source: pinv_backward of PyTorch.
    """
    rows = adjoint(inverse)
    if a.shape[-2] <= a.shape[-1]:
        k = product(g, inverse)
        outer = product(k, rows)
        residual = product(product(rows, inverse), g - product(k, a))
        return outer - adjoint(product(inverse, k)) - product(product(a, inverse), outer) + residual
    k = product(inverse, g)
    outer = product(rows, k)
    residual = product(product(g - product(a, k), inverse), rows)
    return outer - adjoint(product(k, inverse)) - product(product(outer, inverse), a) + residual


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _NO_VALUE) -> Any:
    """Return the pseudo-inverses of matrices.

    The derivative assumes that the rank is locally constant. At a matrix where it is not, none exists.
    """
    a = array_like(a)
    if hermitian and a.size:
        # As in NumPy, the lower triangle is read, and an empty matrix keeps its order of bytes.
        below = np.tril(a, -1)
        diagonal = np.real(a) if a.dtype.kind == "c" else a
        a = np.where(np.eye(a.shape[-1], dtype=bool), diagonal, below + adjoint(below))
    cutoff = raw(rtol if rcond is None else rcond)
    if cutoff is not _NO_VALUE and cutoff is not None and getattr(a, "requires_grad", False):
        values = np.linalg.svd(raw(a), compute_uv=False)
        largest = values[..., :1]
        is_dropped = values <= (as_array(cutoff)[..., np.newaxis] if np.ndim(cutoff) else cutoff) * largest
        if (is_dropped & (values > max(a.shape[-2:]) * np.finfo(values.dtype).eps * largest)).any():
            return _without_small(a, is_dropped)
    return pinv_(a, raw(rcond), hermitian, raw(rtol))


def _without_small(a: Array, is_dropped: Any) -> Any:
    """Return the pseudo-inverses of what is left of matrices without some of their singular values."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    inverse = np.where(is_dropped, 0.0, 1 / np.where(is_dropped, 1.0, s))
    return product(scale_columns(adjoint(vh), inverse), adjoint(u))


RULES[np.linalg.pinv] = pinv


# Least squares.


@primitive(superlinear=True)
def least_squares_(a: Any, b: Any, precomputed: Any, cutoff: float) -> Any:
    """Return the x of least norm that minimizes `norm(a @ x - b)`: `precomputed`."""
    return precomputed


@derivative(least_squares_, "a")
def _(g: Array, a: Array, b: Any, cutoff: float) -> Array:
    gradient = _pinv_gradient(product(b, g.mT), a, np.linalg.pinv(a, cutoff))
    return np.conjugate(gradient) if gradient.dtype.kind == "c" else gradient


@derivative(least_squares_, "b")
def _(g: Array, a: Any, cutoff: float) -> Array:
    return product(np.linalg.pinv(a, cutoff).mT, g)


@primitive(superlinear=True)
def squared_residuals_(a: Any, b: Any, precomputed: Any, cutoff: float) -> Any:
    """Return the sums of squares of `a @ x - b` at the least-squares solution: `precomputed`."""
    return precomputed


@derivative(squared_residuals_, "a")
def _(g: Any, a: Array, b: Any, cutoff: float) -> Array:
    x = np.linalg.lstsq(a, b, cutoff)[0]
    return product(scale_columns(product(a, x) - b, 2 * g), adjoint(x))


@derivative(squared_residuals_, "b")
def _(g: Any, a: Any, b: Any, cutoff: float) -> Array:
    x = np.linalg.lstsq(a, b, cutoff)[0]
    return scale_columns(b - product(a, x), 2 * g)


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Return the least-squares solutions, the sums of squared residuals, the rank and the singular values of `a`."""
    a, b = arrays_together([a, b])
    solutions, residuals, rank, values = np.linalg.lstsq(raw(a), raw(b), raw(rcond))
    cutoff = _cutoff_of_device(a, raw(rcond)) if is_device_array(values) else _cutoff_of_rank(values, int(rank))
    is_vector = b.ndim == 1
    if is_vector:
        b, solutions = expand_dims(b, -1), solutions[:, np.newaxis]
    if getattr(a, "requires_grad", False) and not is_device_array(values) and _drops_much(a.shape, values, int(rank)):
        x = product(_without_small(a, np.arange(values.size) >= int(rank)), b)
    else:
        x = least_squares_(a, b, solutions, cutoff)
    if residuals.size:
        residuals = squared_residuals_(a, b, residuals, cutoff)
    else:
        residuals = arrays_together([residuals, a])[0]
    return (
        squeeze(x, -1) if is_vector else x,
        residuals,
        arrays_together([as_array(rank), a])[0],
        singular_values_(a, values),
    )


RULES[np.linalg.lstsq] = lstsq


def _cutoff_of_rank(values: np.ndarray, rank: int) -> float:
    """Return a cutoff relative to the largest singular value that drops what LAPACK drops, whatever it was told.

    LAPACK takes an rcond outside of (0, 1) for its own precision, where `pinv` takes it at its word.
    """
    if not rank:
        return 0.5
    kept = float(values[rank - 1] / values[0])
    dropped = float(values[rank] / values[0]) if rank < values.size else 0.0
    # Of numbers so small that their product is 0, the half lies between, too, where nothing is dropped.
    return math.sqrt(kept) * math.sqrt(dropped) or kept / 2


def _cutoff_of_device(a: Any, rcond: float | None) -> float:
    """Return the cutoff that the solver of a device uses, without a look at its singular values."""
    if rcond is None:
        return float(np.finfo(a.dtype).eps) * max(a.shape)
    return rcond if 0 < rcond < 1 else float(np.finfo(a.dtype).eps)


def _drops_much(shape: tuple[int, ...], values: np.ndarray, rank: int) -> bool:
    """Return whether a singular value that is dropped is more than a rounding error, so that its matrix matters."""
    return rank < values.size and bool(values[rank] > max(shape) * np.finfo(values.dtype).eps * values[0])
