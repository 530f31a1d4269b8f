"""Norms of vectors and matrices, with subgradient 0 where they have none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import MissingDerivativeError
from ..graph.values import raw
from .axes import array_like, axis_tuple, spread, sum_over
from .extremes import absolute
from .primitive import RULES, derivative, primitive
from .reductions import max, min, sum

__all__ = ["matrix_norm", "norm", "vector_norm"]


@primitive()
def euclidean_norm(x: Any, axis: Any, keepdims: bool) -> Any:
    """Return the square root of the sum of squares."""
    if axis is None:
        return np.linalg.norm(x, axis=None, keepdims=keepdims)
    return np.sqrt(sum_over((x.conj() * x).real if x.dtype.kind == "c" else x * x, axis, None, None, keepdims))


@derivative(euclidean_norm, "x")
def _(g: Any, x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    zero = raw(out) == 0
    factor = np.where(zero, 0, g / np.where(zero, 1, out))
    return x * spread(factor, x.shape, axis, keepdims)


@primitive()
def power_norm(x: Any, order: float, axis: Any, keepdims: bool) -> Any:
    """Return the sum of absolute values to a power, and the root of that."""
    return sum_over(np.abs(x) ** order, axis, None, None, keepdims) ** (1 / order)


@derivative(power_norm, "x")
def _(g: Any, x: Any, out: Any, order: float, axis: Any, keepdims: bool) -> Any:
    zero = raw(out) == 0
    factor = np.where(zero, 0, g / np.where(zero, 1, out) ** (order - 1))
    nothing = raw(x) == 0
    size = np.where(nothing, 0, np.abs(np.where(nothing, 1, x)) ** (order - 1))
    return np.sign(x) * size * spread(factor, x.shape, axis, keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return the norm of the vectors that lie along axes."""
    x = array_like(x)
    if x.dtype.kind not in "fc":
        x = x.astype(float)
    if axis is not None:
        axis = axis_tuple(axis, x.ndim)
    if ord is None or ord == 2:
        return euclidean_norm(x, axis, keepdims)
    if ord == math.inf:
        return max(absolute(x), axis, None, keepdims)
    if ord == -math.inf:
        return min(absolute(x), axis, None, keepdims)
    if ord == 0:
        return sum((x != 0).astype(raw(x).real.dtype), axis, None, None, keepdims)
    if ord == 1:
        return sum(absolute(x), axis, None, None, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"a vector has no norm of order {ord!r}: name two axes for a matrix")
    return power_norm(x, float(ord), axis, keepdims)


RULES[np.linalg.vector_norm] = vector_norm


def _matrix_norm(x: Any, ord: Any, rows: int, columns: int, keepdims: bool) -> Any:
    if rows == columns:
        raise ValueError(f"the two axes of a matrix must differ, and both are {rows}")
    if ord in (None, "fro", "f"):
        return euclidean_norm(x, (rows, columns), keepdims)
    folds: dict[Any, Any] = {1: (rows, columns, max), -1: (rows, columns, min)}
    folds |= {math.inf: (columns, rows, max), -math.inf: (columns, rows, min)}
    if ord not in folds:
        if ord in (2, -2, "nuc"):
            raise MissingDerivativeError(
                f"numpy.linalg.norm of order {ord!r} of a matrix needs singular values, which have no derivative rule: "
                "orders that have one are None, 'fro', 1, -1, inf and -inf"
            )
        raise ValueError(f"a matrix has no norm of order {ord!r}")
    first, second, extreme = folds[ord]
    # As in NumPy's norms, the largest of no elements is 0, and there is no smallest.
    initial = 0 if extreme is max and not x.shape[second] else None
    result = extreme(sum(absolute(x), first, None, None, True), second, None, True, initial)
    return result if keepdims else np.squeeze(result, axis=(rows, columns))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the norm of vectors along one axis, or of matrices along two."""
    x = array_like(x)
    if x.dtype.kind not in "fc":
        x = x.astype(float)
    if axis is None:
        if ord is None or (ord == 2 and x.ndim == 1) or (ord in ("fro", "f") and x.ndim == 2):
            return euclidean_norm(x, None, keepdims)
        if x.ndim not in (1, 2):
            raise ValueError(f"norm of order {ord!r} is of vectors and matrices: name the axes, of {x.ndim}")
        axis = tuple(range(x.ndim))
    axes = axis_tuple(axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) == 2:
        return _matrix_norm(x, ord, *axes, keepdims)
    raise ValueError(f"norm is taken along one axis or two, not {len(axes)}")


RULES[np.linalg.norm] = norm


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return the norms of a stack of matrices."""
    return norm(x, ord, (-2, -1), keepdims)


RULES[np.linalg.matrix_norm] = matrix_norm
