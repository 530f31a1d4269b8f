"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like
from ..arrays.typed import like_first
from ..arrays.values import is_writeable, zeros_like
from ..recording.primitive import RULES, derivative, primitive
from .dispatch import write_result
from .shaping import reshape

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..arrays.array import Array


__all__ = ["diag", "diagflat", "diagonal", "put_diagonal", "trace", "tril", "triu"]


@primitive(np.diagonal, views=True)
def diagonal_(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return a read-only view of the diagonals of the matrices that two axes make; their axis comes last."""
    return np.diagonal(a, offset, axis1, axis2)


@primitive()
def put_diagonal_(g: Any, shape: tuple[int, ...], offset: int, axis1: int, axis2: int) -> Array:
    """Return zeros of a shape with `g` on the diagonals."""
    total = zeros_like(g, shape)
    view = np.diagonal(total, offset, axis1, axis2)
    if not is_writeable(view):
        view.flags.writeable = True
    view[...] = g
    return total


@derivative(diagonal_, "a")
def _(g: Array, a_shape: tuple[int, ...], offset: int, axis1: int, axis2: int) -> Array:
    return put_diagonal(g, a_shape, offset, axis1, axis2)


@derivative(put_diagonal_, "g")
def _(h: Array, offset: int, axis1: int, axis2: int) -> Array:
    return np.diagonal(h, offset, axis1, axis2)


diagonal, put_diagonal = diagonal_.call, put_diagonal_.call


def diag(v: Any, k: int = 0) -> Any:
    """Return the diagonal of a matrix, or a matrix with a row of numbers on its diagonal."""
    v = array_like(v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError(f"diag takes a matrix or a row of numbers, and this has {v.ndim} axes")
    side = v.shape[0] + abs(k)
    return put_diagonal(v, (side, side), k, 0, 1)


RULES[np.diag] = diag


def diagflat(v: Any, k: int = 0) -> Any:
    """Return a matrix with all elements of `v` on its diagonal."""
    return diag(reshape(array_like(v), -1), k)


RULES[np.diagflat] = diagflat


def linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the diagonals of a stack of matrices."""
    return diagonal(x, offset, -2, -1)


RULES[np.linalg.diagonal] = linalg_diagonal


@like_first
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: npt.DTypeLike | None = None, out: Any = None
) -> Any:
    """Return the sums of the diagonals."""
    result = np.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)
    return result if out is None else write_result(out, result, "unsafe")


RULES[np.trace] = trace


def linalg_trace(x: Any, /, *, offset: int = 0, dtype: npt.DTypeLike | None = None) -> Any:
    """Return the traces of a stack of matrices."""
    return trace(x, offset, -2, -1, dtype)


RULES[np.linalg.trace] = linalg_trace


@primitive(np.tril)
def tril_(m: Any, k: int = 0) -> Array:
    """Return the matrix with zeros above a diagonal."""
    return np.tril(m, k)


@derivative(tril_, "m")
def _(g: Array, k: int) -> Array:
    return np.tril(g, k)


@primitive(np.triu)
def triu_(m: Any, k: int = 0) -> Array:
    """Return the matrix with zeros below a diagonal."""
    return np.triu(m, k)


@derivative(triu_, "m")
def _(g: Array, k: int) -> Array:
    return np.triu(g, k)


tril, triu = tril_.call, triu_.call
