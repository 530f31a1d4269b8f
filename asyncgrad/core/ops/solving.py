"""Inverses, powers, linear systems, determinants and Cholesky factors, of matrices or stacks of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like
from ..arrays.device_arrays import eye_like
from ..arrays.values import as_like, is_device_array, raw
from ..recording.primitive import RULES, derivative, primitive
from .linear_algebra import adjoint, product
from .nondifferentiable import NonDifferentiable
from .shaping import expand_dims, reshape, squeeze, transpose

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["cholesky", "det", "inv", "matrix_power", "slogdet", "solve", "tensorinv", "tensorsolve"]


@primitive(np.linalg.inv, superlinear=True)
def inv_(a: Any) -> Array:
    """Return the inverses of square matrices."""
    return np.linalg.inv(a)


@derivative(inv_, "a")
def _(g: Array, out: Array) -> Array:
    transposed = out.mT
    return -product(product(transposed, g), transposed)


inv: Callable[..., Any] = inv_.call


def tensorinv(a: Any, ind: int = 2) -> Any:
    """Return the inverse of an array with respect to `tensordot` over its first `ind` axes."""
    a = array_like(a)
    if ind <= 0:
        raise ValueError(f"numpy.linalg.tensorinv takes ind of at least 1, the number of first axes, not {ind}")
    side = math.prod(a.shape[ind:])
    return reshape(inv(reshape(a, (side, -1))), (*a.shape[ind:], *a.shape[:ind]))


RULES[np.linalg.tensorinv] = tensorinv


def matrix_power(a: Any, n: Any) -> Any:
    """Return the n-th power of square matrices; for a negative `n`, the power of their inverses."""
    a = array_like(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError(f"numpy.linalg.matrix_power takes square matrices, not an array of shape {a.shape}")
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError(f"numpy.linalg.matrix_power takes a whole number, not {n!r}") from error
    if n == 0:
        return _identity(a)
    if n < 0:
        a, n = inv(a), -n
    if n == 3:
        return product(product(a, a), a)
    square, result = a, None
    while n:
        n, odd = divmod(n, 2)
        if odd:
            result = square if result is None else product(result, square)
        if n:
            square = product(square, square)
    return result


RULES[np.linalg.matrix_power] = matrix_power


@NonDifferentiable
def _identity(a: Array) -> Any:
    """Return identity matrices of the shape and dtype of `a`."""
    result = np.empty_like(a)
    result[...] = eye_like(a, a.shape[-1], a.dtype)
    return result


@primitive(superlinear=True)
def solve_(a: Any, b: Any) -> Array:
    """Return x with `a @ x == b`, for matrices `b`."""
    if a.__class__ is not np.ndarray and is_device_array(a):
        # NumPy broadcasts the stacks of matrices.
        stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (np.broadcast_to(one, (*stack, *one.shape[-2:])) for one in (a, b))
    return np.linalg.solve(a, b)


@derivative(solve_, "a")
def _(g: Array, a: Array, out: Array) -> Array:
    return -product(_solve(a.mT, g), out.mT)


@derivative(solve_, "b")
def _(g: Array, a: Any) -> Array:
    return _solve(a.mT, g)


_solve = solve_.call


def solve(a: Any, b: Any) -> Any:
    """Return x with `a @ x == b`; a `b` with one axis is a vector."""
    a, b = array_like(a), array_like(b)
    return squeeze(_solve(a, expand_dims(b, -1)), -1) if b.ndim == 1 else _solve(a, b)


RULES[np.linalg.solve] = solve


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """Return x with `tensordot(a, x, x.ndim) == b`, after moving `axes` of `a` to its end."""
    a, b = array_like(a), array_like(b)
    if axes is not None:
        moved = [axis % a.ndim for axis in axes]
        a = transpose(a, [axis for axis in range(a.ndim) if axis not in moved] + moved)
    shape = a.shape[b.ndim - a.ndim :]
    side = math.prod(shape)
    if math.prod(a.shape) != side**2:
        raise np.linalg.LinAlgError(
            "numpy.linalg.tensorsolve takes an array with as many elements along its first b.ndim axes as along the "
            f"others, not shapes {a.shape} and {b.shape}"
        )
    return reshape(solve(reshape(a, (side, side)), reshape(b, -1)), shape)


RULES[np.linalg.tensorsolve] = tensorsolve


# Determinants.


def slogdet(a: Array) -> tuple[Any, Any]:
    """Return the signs and the logarithms of the absolute values of determinants.

    The sign of a real determinant has no derivative. The sign of a complex one is the determinant divided by its
    absolute value.
    """
    sign = _complex_sign if a.dtype.kind == "c" else _real_sign
    return _SlogdetResult(sign(a), logarithm_of_determinant.call(a))


RULES[np.linalg.slogdet] = slogdet
#: The class of the results of np.linalg.slogdet, which NumPy does not export.
_SlogdetResult = type(np.linalg.slogdet(np.ones((1, 1))))


@NonDifferentiable
def _real_sign(a: Any) -> Any:
    """Return the signs of determinants."""
    return np.linalg.slogdet(a)[0]


@primitive(superlinear=True)
def sign_of_determinant(a: Any) -> Any:
    """Return complex determinants divided by their absolute values."""
    return np.linalg.slogdet(a)[0]


@derivative(sign_of_determinant, "a")
def _(g: Any, a: Array, out: Any) -> Array:
    # The sign changes only with the phase of the determinant.
    return _by_matrix(np.imag(g * out) * 1j) * np.linalg.inv(a).mT


_complex_sign = sign_of_determinant.call


def _by_matrix(factors: Array) -> Any:
    """Return factors, one for each matrix of a stack, with two more axes to broadcast over the matrix."""
    return factors.reshape((*factors.shape, 1, 1))


@primitive(superlinear=True)
def logarithm_of_determinant(a: Any) -> Any:
    """Return the logarithms of the absolute values of determinants."""
    return np.linalg.slogdet(a)[1]


@derivative(logarithm_of_determinant, "a")
def _(g: Array, a: Array) -> Array:
    return _by_matrix(g) * adjoint(np.linalg.inv(a))


@primitive(np.linalg.det, superlinear=True)
def det_(a: Any) -> Array:
    """Return the determinants of square matrices."""
    return np.linalg.det(a)


@derivative(det_, "a")
def _(g: Any, a: Array, out: Any) -> Array:
    if np.all(raw(out)):
        return _by_matrix(g * out) * np.linalg.inv(a).mT
    return _by_matrix(g) * _cofactors(a)


det: Callable[..., Any] = det_.call


def _cofactors(a: Array) -> Any:
    """Return the matrices of cofactors; singular matrices have them, too."""
    side = a.shape[-1]
    rows = []
    for row in range(side):
        others = [index for index in range(side) if index != row]
        left = a[..., others, :]
        rows.append(np.stack([(-1) ** (row + column) * det(_without(left, column)) for column in range(side)], axis=-1))
    return np.stack(rows, axis=-2)


def _without(a: Array, column: int) -> Any:
    return a[..., [index for index in range(a.shape[-1]) if index != column]]


# Cholesky.


@primitive(superlinear=True)
def cholesky_(a: Any, upper: bool) -> Any:
    """Return the triangular factors of positive definite matrices."""
    if not upper:
        return np.linalg.cholesky(a)
    if a.__class__ is not np.ndarray and is_device_array(a):
        # Another library's function gives lower triangles alone.
        return adjoint(np.linalg.cholesky(adjoint(a)))
    return np.linalg.cholesky(a, upper=True)


@derivative(cholesky_, "a")
def _(g: Array, out: Array, upper: bool) -> Array:
    lower, g = (adjoint(out), adjoint(g)) if upper else (out, g)
    inner = product(lower.mT, g) * _lower_with_half_of_diagonal(out.shape[-1], out)
    gradient = _solve(lower.mT, _solve(adjoint(lower), inner.mT).mT)
    # The matrix is Hermitian, and so is its gradient.
    return (gradient + adjoint(gradient)) / 2


def _lower_with_half_of_diagonal(side: int, like: Any) -> Any:
    """Return a matrix of ones below the diagonal, halves on it and zeros above, as real numbers on a device."""
    weights = np.tri(side, dtype=raw(like).real.dtype)
    weights.flat[:: side + 1] = 0.5
    return as_like(weights, raw(like))


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Return the triangular factors of positive definite matrices."""
    return cholesky_(array_like(a), upper)


RULES[np.linalg.cholesky] = cholesky
