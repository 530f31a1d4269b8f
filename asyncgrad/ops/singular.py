"""Singular values and vectors, and what is made of them: condition numbers, pseudo-inverses, least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError, GraphError
from ..graph.values import as_array, is_foreign, raw
from .axes import array_like, arrays_together
from .decomposition import decomposition, joint_derivative
from .foreign import named
from .linear_algebra import adjoint, product
from .primitive import RULES, derivative, primitive
from .shaping import expand_dims, squeeze
from .spectral import check_distinct, check_phases, columns_times, distinct_up_to_rounding, eigh, gaps, over_gaps

__all__ = ["lstsq", "pinv", "svd", "svdvals"]

_NO_VALUE: Any = np._NoValue
#: NumPy does not export the class of what its svd returns.
_SVDResult = type(np.linalg.svd(np.ones((1, 1))))


# Values alone.


@primitive(superlinear=True)
def singular_values_(a: Any, found: Any) -> Any:
    """Return the singular values of matrices, in falling order; `found` where they are known already."""
    return np.linalg.svd(a, compute_uv=False) if found is None else found


@derivative(singular_values_, "a")
def _(g: Any, a: Any) -> Any:
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return product(columns_times(u, g), vh)


def svdvals(x: Any, /) -> Any:
    """Return the singular values of matrices, in falling order."""
    return singular_values_(array_like(x), None)


RULES[np.linalg.svdvals] = svdvals


# Values and vectors.


@decomposition
def svd_(a: Any, full_matrices: bool) -> Any:
    """Return u, s and vh with `a = u * s @ vh`."""
    return named(np.linalg.svd(a, full_matrices), _SVDResult)


@joint_derivative(svd_)
def _(gu: Any, gs: Any, gvh: Any, u: Any, s: Any, vh: Any) -> Any:
    u, gu = _leading_columns(u, gu, s.shape[-1])
    v, gv = _leading_columns(adjoint(vh), None if gvh is None else adjoint(gvh), s.shape[-1])
    gradient = None if gs is None else columns_times(u, gs)
    if gu is not None or gv is not None:
        gradient = _sum_of(gradient, _gradient_of_vectors(gu, gv, u, s, v))
    gradient = product(gradient, adjoint(v))
    # What moves a vector out of the space that all of them span.
    if gv is not None and v.shape[-2] > v.shape[-1]:
        away = gv - product(v, product(adjoint(v), gv))
        gradient = gradient + product(u, adjoint(_over(away, s)))
    return gradient


def _gradient_of_vectors(gu: Any, gv: Any, u: Any, s: Any, v: Any) -> Any:
    """Return the gradient of matrices for those of their vectors, as far as it lies in what `v` spans, times `v`."""
    distinct = distinct_up_to_rounding(s)
    check_distinct("numpy.linalg.svd", "singular values", distinct, gu, gv)
    differences = gaps(s) * (s[..., np.newaxis, :] + s[..., np.newaxis])
    turned_u = None if gu is None else product(adjoint(u), gu)
    turned_v = None if gv is None else product(adjoint(v), gv)
    check_phases("numpy.linalg.svd", _sum_of(turned_u, turned_v))
    inner = None
    if turned_u is not None:
        inner = columns_times(over_gaps(turned_u - adjoint(turned_u), differences, distinct), s)
    if turned_v is not None:
        skew = over_gaps(turned_v - adjoint(turned_v), differences, distinct)
        inner = _sum_of(inner, s[..., np.newaxis] * skew)
    gradient = product(u, inner)
    if turned_u is not None and u.dtype.kind == "c":
        # The phases of both vectors of a value move together: here it is those of `u` that do.
        phases = 1j * np.imag(np.diagonal(turned_u, 0, -2, -1))
        gradient = gradient + _over(columns_times(u, phases), s)
    if gu is not None and u.shape[-2] > u.shape[-1]:
        gradient = gradient + _over(gu - product(u, turned_u), s)
    return gradient


def _sum_of(first: Any, second: Any) -> Any:
    """Return the sum of what is there."""
    return first if second is None else second if first is None else first + second


def _over(vectors: Any, s: Any) -> Any:
    """Return each column over its singular value; 0 where both are.

    Raises:
        GraphError: a value alone is 0.
    """
    absent = raw(s) == 0
    if absent.any() and (raw(vectors) != 0).any(-2)[absent].any():
        raise GraphError(
            "numpy.linalg.svd: the loss depends on singular vectors of the singular value 0, which have no derivative. "
            "Compute the loss from the vectors of the others, or from the matrix itself"
        )
    return vectors / np.where(absent, 1, s)[..., np.newaxis, :]


def _leading_columns(vectors: Any, g: Any, count: int) -> tuple[Any, Any]:
    """Return the first of the vectors in columns, which have singular values, and their gradient.

    Raises:
        GraphError: there is a gradient for others, which are any that stand upright on these.
    """
    if vectors.shape[-1] == count:
        return vectors, g
    if g is None:
        return vectors[..., :count], None
    if (raw(g)[..., count:] != 0).any():
        raise GraphError(
            f"numpy.linalg.svd: the loss depends on vectors beyond the first {count}, which have no singular value and "
            "no derivative, since any that stand upright on the others would do. Write "
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
    """Return what `svd` does, from eigenvalues and eigenvectors."""
    if not compute_uv:
        return np.sort(np.abs(np.linalg.eigvalsh(a)))[..., ::-1]
    s, u = eigh(a)
    signs = np.copysign(1.0, raw(s))
    s = np.abs(s)
    order = np.argsort(raw(s))[..., ::-1]
    signs = np.take_along_axis(signs, order, -1)
    s = np.take_along_axis(s, order, -1)
    u = np.take_along_axis(u, order[..., np.newaxis, :], -1)
    return _SVDResult(u, s, columns_times(u, signs).mT.conjugate())


# Pseudo-inverses.


@primitive(superlinear=True)
def pinv_(a: Any, rcond: Any, hermitian: bool, rtol: Any) -> Any:
    """Return the pseudo-inverses of matrices."""
    if a.__class__ is not np.ndarray and is_foreign(a):
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
def _(g: Any, a: Any, out: Any, hermitian: bool) -> Any:
    gradient = _pinv_gradient(g.mT, a, out)
    if hermitian:
        gradient = (gradient + adjoint(gradient)) / 2
    return np.conjugate(gradient) if gradient.dtype.kind == "c" else gradient


def _pinv_gradient(g: Any, a: Any, inverse: Any) -> Any:
    """Return the gradient of matrices, for the gradient of their pseudo-inverses transposed and conjugated.

    It is that of matrices whose rank does not change.

    Source: pinv_backward of PyTorch.
    """
    rows = adjoint(inverse)
    if a.shape[-2] <= a.shape[-1]:
        k = product(g, inverse)
        outer = product(k, rows)
        away = product(product(rows, inverse), g - product(k, a))
        return outer - adjoint(product(inverse, k)) - product(product(a, inverse), outer) + away
    k = product(inverse, g)
    outer = product(rows, k)
    away = product(product(g - product(a, k), inverse), rows)
    return outer - adjoint(product(k, inverse)) - product(product(outer, inverse), a) + away


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _NO_VALUE) -> Any:
    """Return the pseudo-inverses of matrices.

    The derivative is that of matrices whose rank does not change: where another step would change it, there is none.
    """
    return pinv_(array_like(a), raw(rcond), hermitian, raw(rtol))


RULES[np.linalg.pinv] = pinv


# Least squares.


@primitive(superlinear=True)
def least_squares_(a: Any, b: Any, found: Any, cutoff: float) -> Any:
    """Return the x of the smallest norm with the smallest `norm(a @ x - b)`, which has been `found`."""
    return found


@derivative(least_squares_, "a")
def _(g: Any, a: Any, b: Any, cutoff: float) -> Any:
    gradient = _pinv_gradient(product(b, g.mT), a, np.linalg.pinv(a, cutoff))
    return np.conjugate(gradient) if gradient.dtype.kind == "c" else gradient


@derivative(least_squares_, "b")
def _(g: Any, a: Any, cutoff: float) -> Any:
    return product(np.linalg.pinv(a, cutoff).mT, g)


@primitive(superlinear=True)
def squared_residuals_(a: Any, b: Any, found: Any, cutoff: float) -> Any:
    """Return the sums of squares of `a @ x - b` for the least of them, which have been `found`."""
    return found


@derivative(squared_residuals_, "a")
def _(g: Any, a: Any, b: Any, cutoff: float) -> Any:
    x = np.linalg.lstsq(a, b, cutoff)[0]
    return product(columns_times(product(a, x) - b, 2 * g), adjoint(x))


@derivative(squared_residuals_, "b")
def _(g: Any, a: Any, b: Any, cutoff: float) -> Any:
    x = np.linalg.lstsq(a, b, cutoff)[0]
    return columns_times(b - product(a, x), 2 * g)


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Return the solutions of least squares, the squared residuals, the rank and the singular values of a matrix."""
    a, b = arrays_together([a, b])
    found, residuals, rank, values = np.linalg.lstsq(raw(a), raw(b), raw(rcond))
    if rcond is None:
        # NumPy computes in double precision whatever the dtypes are.
        rcond = np.finfo(float).eps * max(a.shape)
    is_vector = b.ndim == 1
    if is_vector:
        b, found = expand_dims(b, -1), found[:, np.newaxis]
    x = least_squares_(a, b, found, raw(rcond))
    if residuals.size:
        residuals = squared_residuals_(a, b, residuals, raw(rcond))
    else:
        residuals = arrays_together([residuals, a])[0]
    return (
        squeeze(x, -1) if is_vector else x,
        residuals,
        arrays_together([as_array(rank), a])[0],
        singular_values_(a, values),
    )


RULES[np.linalg.lstsq] = lstsq
