"""Functions of square matrices: the exponential, the logarithm, roots, trigonometric and hyperbolic functions.

The derivative of such a function f at A in the direction E is a block of f([[A, E], [0, A]]), and its transpose the
same at the transposed matrix. So f is its own derivative, to any order; but for roots and signs, which solve equations.
In these blocks each eigenvalue is there several times, moved apart by rounding: where one lies on the branch cut of
the logarithm, the matrix is turned away from it first.

Source: Mathias, A Chain Rule for Matrix Functions, 1996; Higham, Functions of Matrices, 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from ...core.arrays.axes import array_like
from ...core.arrays.values import raw
from ...core.ops.linear_algebra import product
from ...core.recording.primitive import derivative, primitive
from ...errors import ArgumentError
from ..arguments import matrices, number_as_matrix
from .lapack import refuse_infinity
from .stacks import over_stacks
from .sylvester import sylvester_solution

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "cosm",
    "coshm",
    "expm",
    "expm_frechet",
    "fractional_matrix_power",
    "logm",
    "signm",
    "sinhm",
    "sinm",
    "sqrtm",
    "tanhm",
    "tanm",
]


def _doubled(a: Array) -> Any:
    """Return matrices in double precision, as SciPy computes some functions of those in single precision."""
    return a.astype(np.result_type(a.dtype, np.float64), copy=False)


def _blocks(a: Any, e: Any) -> Any:
    """Return the matrices [[a, e], [0, a]]."""
    zeros = np.zeros(raw(a).shape, raw(a).dtype)
    stack = np.broadcast_shapes(raw(a).shape[:-2], raw(e).shape[:-2])
    size = a.shape[-1]
    top, bottom = (
        np.concatenate([np.broadcast_to(one, (*stack, size, size)) for one in row], -1) for row in ((a, e), (zeros, a))
    )
    return np.concatenate([top, bottom], -2)


@primitive(superlinear=True)
def matrix_function_(a: Any, function: Callable[[Any], Any]) -> Any:
    """Return a function of square matrices."""
    return _of_each(function, a)


def _of_each(function: Callable[[Any], Any], a: Array) -> Any:
    """Return a function of each matrix; of no matrices, or of those without elements, what is as empty."""
    if a.ndim == 2:
        return np.asarray(function(a))
    if not a.size:
        return np.zeros(a.shape, np.asarray(function(np.eye(1, dtype=a.dtype))).dtype)
    return np.array([function(one) for one in a.reshape(-1, *a.shape[-2:])]).reshape(a.shape)


@derivative(matrix_function_, "a")
def _(g: Array, a: Array, function: Callable[[Any], Any]) -> Array:
    return _frechet(function, a.mT, g)


def _frechet(function: Callable[[Any], Any], a: Array, e: Any) -> Any:
    """Return the derivative of a function of matrices in a direction."""
    size = a.shape[-1]
    return matrix_function_.call(_blocks(a, e), function)[..., :size, size:]


_call = matrix_function_.call


def expm(A: Any) -> Any:
    """Return the exponentials of square matrices.

    Args:
        A: shape (..., n, n).

    Source: scipy.linalg.expm.

    Example:
        >>> from asyncgrad.scipy import linalg
        >>> linalg.expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    return _call(matrices("expm", number_as_matrix(A)), linalg.expm)


@over_stacks(2, 2)
def expm_frechet(
    A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """Return the exponential of a matrix, and its derivative in a direction.

    Args:
        A: shape (n, n).
        E: the direction, of the same shape.
        method: SciPy's are computed alike.
        compute_expm: whether to return the exponential, too.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.expm_frechet.
    """
    a, e = (_doubled(matrices("expm_frechet", one)) for one in (A, E))
    if check_finite:
        refuse_infinity("expm_frechet", a, e)
    if a.shape != e.shape:
        raise ValueError(f"scipy.linalg.expm_frechet takes a direction of the shape of A, not {a.shape} and {e.shape}")
    slope = _frechet(linalg.expm, a, e)
    return (expm(a), slope) if compute_expm else slope


def _turns(a: Any) -> Any:
    """Return by which angles to turn matrices so that the branch cut is as far as can be from their eigenvalues.

    No eigenvalue crosses it then; a matrix without negative eigenvalues, if it is real, is not turned.
    """
    if not a.size or not np.isfinite(a).all():
        return np.zeros(a.shape[:-2])
    angles = np.angle(np.linalg.eigvals(a))
    return (angles.max(-1) + angles.min(-1)) / 2


def _call_turned(a: Any, function: Callable[[Any], Any], undo: Callable[[Any, Any], Any]) -> Any:
    """Return a function with a branch cut; `undo` makes its value of that for a turned matrix, and of the angle."""
    angles = _turns(raw(a))[..., np.newaxis, np.newaxis]
    if not angles.any():
        return _call(a, function)
    dtype = np.result_type(raw(a).dtype, np.complex64)
    turned = _call(a * np.exp(-1j * angles).astype(dtype), function)
    return undo(turned, angles).astype(turned.dtype, copy=False)


def logm(A: Any, disp: Any = None) -> Any:
    """Return the principal logarithm of a matrix.

    A negative eigenvalue of a real matrix, on the branch cut, has the derivative among matrices where it stays real.

    Args:
        A: shape (..., n, n).
        disp: None alone.

    Source: scipy.linalg.logm.
    """
    if disp is not None:
        raise ArgumentError("scipy.linalg.logm of tensors returns the logarithm alone: write no disp=")
    a = matrices("logm", A)
    # For infinity SciPy's search does not end.
    refuse_infinity("logm", a, is_optional=False)
    return _call_turned(a, linalg.logm, lambda found, angles: found + 1j * angles * np.eye(a.shape[-1]))


@primitive(superlinear=True)
def square_root_(a: Any) -> Any:
    """Return the principal square roots of square matrices."""
    return _of_each(linalg.sqrtm, a)


@derivative(square_root_, "a")
def _(g: Array, out: Array) -> Array:
    return sylvester_solution.call(out.mT, out.mT, g)


def sqrtm(A: Any, disp: Any = None, blocksize: int = 64) -> Any:
    """Return the principal square roots of matrices.

    Args:
        A: shape (..., n, n).
        disp: None alone.
        blocksize: has no effect.

    Source: scipy.linalg.sqrtm.
    """
    if disp is not None:
        raise ArgumentError("scipy.linalg.sqrtm of tensors returns the root alone: write no disp=")
    return square_root_.call(matrices("sqrtm", A))


def cosm(A: Any) -> Any:
    """Return the cosines of square matrices; see `scipy.linalg.cosm`."""
    return _call(matrices("cosm", A), linalg.cosm)


def sinm(A: Any) -> Any:
    """Return the sines of square matrices; see `scipy.linalg.sinm`."""
    return _call(matrices("sinm", A), linalg.sinm)


# Not by blocks: SciPy's sign of a matrix with equal eigenvalues, which those have, is not right.
@primitive(superlinear=True)
def sign_(a: Any) -> Any:
    """Return the signs of square matrices."""
    return _of_each(linalg.signm, a)


@derivative(sign_, "a")
def _(g: Array, a: Array, out: Array) -> Array:
    # With s and the root n = s @ a of a @ a the change l of s by e has n @ l + l @ n = e - s @ e @ s.
    root = product(out, a)
    inner = sylvester_solution.call(root.mT, root.mT, g)
    return inner - product(out.mT, product(inner, out.mT))


def signm(A: Any, disp: Any = None) -> Any:
    """Return the signs of square matrices, whose eigenvalues are 1 and -1; see `scipy.linalg.signm`."""
    if disp is not None:
        raise ArgumentError("scipy.linalg.signm of tensors returns the sign alone: write no disp=")
    return sign_.call(matrices("signm", A))


def tanm(A: Any) -> Any:
    """Return the tangents of square matrices; see `scipy.linalg.tanm`."""
    return _call(matrices("tanm", A), linalg.tanm)


def coshm(A: Any) -> Any:
    """Return the hyperbolic cosines of square matrices; see `scipy.linalg.coshm`."""
    return _call(matrices("coshm", A), linalg.coshm)


def sinhm(A: Any) -> Any:
    """Return the hyperbolic sines of square matrices; see `scipy.linalg.sinhm`."""
    return _call(matrices("sinhm", A), linalg.sinhm)


def tanhm(A: Any) -> Any:
    """Return the hyperbolic tangents of square matrices; see `scipy.linalg.tanhm`."""
    return _call(matrices("tanhm", A), linalg.tanhm)


def fractional_matrix_power(A: Any, t: float) -> Any:
    """Return a power of matrices.

    A negative eigenvalue of a real matrix has the derivative among matrices where it stays real, as in `logm`.

    Args:
        A: shape (..., n, n).
        t: the exponent, a number, which has no derivative.

    Source: scipy.linalg.fractional_matrix_power.
    """
    a, exponent = matrices("fractional_matrix_power", A), float(raw(array_like(t)))

    def power(one: Any) -> Any:
        return linalg.fractional_matrix_power(one, exponent)

    if exponent.is_integer():
        return _call(a, power)
    return _call_turned(a, power, lambda found, angles: found * np.exp(1j * exponent * angles))
