"""Norms of vectors and matrices, and condition numbers; the subgradient of a norm that is 0 is 0."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like, axis_tuple, kept_shape, spread, sum_over
from ..arrays.device_arrays import eye_like
from ..arrays.values import as_like, raw
from ..recording.primitive import RULES, derivative, primitive
from .extremes import absolute
from .reductions import max, min, sum
from .shaping import moveaxis, reshape, transpose
from .single_precision import by_single, holds_half
from .singular import svdvals
from .solving import inv

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]


@primitive()
def euclidean_norm(x: Any, axis: Any, keepdims: bool) -> Array:
    """Return the square root of the sum of squares."""
    if axis is None:
        return np.linalg.norm(x, axis=None, keepdims=keepdims)
    return np.sqrt(sum_over((x.conj() * x).real if x.dtype.kind == "c" else x * x, axis, None, None, keepdims))


@derivative(euclidean_norm, "x")
def _(g: Any, x: Any, out: Array, axis: Any, keepdims: bool) -> Array:
    zero = raw(out) == 0
    factor = np.where(zero, 0, g / np.where(zero, 1, out))
    return x * spread(factor, x.shape, axis, keepdims)


@primitive()
def power_norm(x: Any, order: float, axis: Any, keepdims: bool) -> Any:
    """Return the p-norm: the sum of absolute values to the power `order`, to the power `1 / order`."""
    return sum_over(np.abs(x) ** order, axis, None, None, keepdims) ** (1 / order)


@derivative(power_norm, "x")
def _(g: Any, x: Array, out: Array, order: float, axis: Any, keepdims: bool) -> Array:
    zero = raw(out) == 0
    factor = np.where(zero, 0, g / np.where(zero, 1, out) ** (order - 1))
    nothing = raw(x) == 0
    size = np.where(nothing, 0, np.abs(np.where(nothing, 1, x)) ** (order - 1))
    return np.sign(x) * size * spread(factor, x.shape, axis, keepdims)


def _plain_norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    return np.linalg.norm(x, ord, axis[0], keepdims)


def _plain_matrix_norm(x: Any, ord: Any, rows: int, columns: int, keepdims: bool) -> Any:
    return np.linalg.norm(x, ord, (rows, columns), keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return the norm of vectors along axes."""
    x = array_like(x)
    shape = x.shape
    if axis is None or isinstance(axis, tuple):
        # NumPy moves the axes of a vector to the front and flattens them; the same order gives the same bits.
        axes = tuple(range(x.ndim)) if axis is None else axis_tuple(axis, x.ndim)
        rest = tuple(one for one in range(x.ndim) if one not in axes)
        if len(axes) != 1:
            x = reshape(
                transpose(x, (*axes, *rest)) if rest else x,
                (math.prod(shape[one] for one in axes), *(shape[one] for one in rest)),
            )
        result = _norm_along(x, ord, (0,) if len(axes) != 1 else axes, False)
        return reshape(result, kept_shape(shape, axes)) if keepdims else result
    return _norm_along(x, ord, axis_tuple(axis, x.ndim), keepdims)


def _norm_along(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    """Return the norm of vectors along one axis."""
    if x.dtype.kind not in "fc":
        x = x.astype(float)
    if ord is None or ord == 2:
        return euclidean_norm(x, axis, keepdims)
    if holds_half(x):
        return by_single(_norm_along, _plain_norm, x, ord, axis, keepdims)
    if ord == math.inf:
        # As in NumPy, the largest of no elements is 0 in a norm, and there is no smallest.
        empty = not math.prod(x.shape[one] for one in axis)
        return max(absolute(x), axis, None, keepdims, 0 if empty else None)
    if ord == -math.inf:
        return min(absolute(x), axis, None, keepdims)
    if ord == 0:
        return sum((x != 0).astype(raw(x).real.dtype), axis, None, None, keepdims)
    if ord == 1:
        return sum(absolute(x), axis, None, None, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"numpy.linalg.norm of a vector takes no ord={ord!r}: name two axes for a matrix norm")
    return power_norm(x, float(ord), axis, keepdims)


RULES[np.linalg.vector_norm] = vector_norm


def _matrix_norm(x: Array, ord: Any, rows: int, columns: int, keepdims: bool) -> Any:
    if rows == columns:
        raise ValueError(f"numpy.linalg.norm of a matrix takes two different axes, not {rows} twice")
    if ord in (None, "fro", "f"):
        return euclidean_norm(x, (rows, columns), keepdims)
    if holds_half(x):
        return by_single(_matrix_norm, _plain_matrix_norm, x, ord, rows, columns, keepdims)
    reductions: dict[Any, Any] = {1: (rows, columns, max), -1: (rows, columns, min)}
    reductions |= {math.inf: (columns, rows, max), -math.inf: (columns, rows, min)}
    if ord in (2, -2, "nuc"):
        is_last = (rows, columns) == (x.ndim - 2, x.ndim - 1)
        values = svdvals(x if is_last else moveaxis(x, (rows, columns), (-2, -1)))
        initial = None if values.shape[-1] else 0
        result = sum(values, -1) if ord == "nuc" else min(values, -1) if ord == -2 else max(values, -1, initial=initial)
        return reshape(result, kept_shape(x.shape, (rows, columns))) if keepdims else result
    if ord not in reductions:
        raise ValueError(
            f"numpy.linalg.norm of a matrix takes no ord={ord!r}, only 'fro', 'nuc', 1, -1, 2, -2, np.inf and -np.inf"
        )
    first, second, extreme = reductions[ord]
    # As in NumPy, the largest of no elements is 0 in a norm, and there is no smallest.
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
            raise ValueError(
                f"numpy.linalg.norm with ord={ord!r} takes one axis or two: name them with axis=, of the {x.ndim} axes"
            )
        axis = tuple(range(x.ndim))
    axes = axis_tuple(axis, x.ndim)
    if len(axes) == 1:
        return _norm_along(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, *axes, keepdims)
    raise ValueError(f"numpy.linalg.norm takes one axis or two, not {len(axes)}")


RULES[np.linalg.norm] = norm


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return the norms of a stack of matrices."""
    return norm(x, ord, (-2, -1), keepdims)


RULES[np.linalg.matrix_norm] = matrix_norm


def cond(x: Any, p: Any = None) -> Any:
    """Return the condition numbers of matrices; that of a singular matrix is infinite and has the gradient 0."""
    x = array_like(x)
    if x.ndim >= 2 and not math.prod(x.shape[-2:]):
        raise np.linalg.LinAlgError(f"numpy.linalg.cond takes matrices with elements, not an array of shape {x.shape}")
    singular: Any = False
    with np.errstate(all="ignore"):
        if p is None or p in (2, -2):
            values = svdvals(x)
            first, last = values[..., 0], values[..., -1]
            result = last / first if p == -2 else first / last
        else:
            x, inverse, singular = _with_inverse(x)
            result = norm(x, p, (-2, -1)) * norm(inverse, p, (-2, -1))
            result = result.astype(np.float32 if x.dtype.char in "fF" else np.float64, copy=False)
    undefined = (np.isnan(raw(result)) | singular) & ~np.isnan(raw(x)).any((-2, -1))
    return np.where(undefined, np.inf, result).astype(result.dtype) if undefined.any() else result


RULES[np.linalg.cond] = cond


def _with_inverse(x: Any) -> tuple[Any, Any, Any]:
    """Return matrices with singular ones replaced by the identity, their inverses, and a mask of the singular ones."""
    # NumPy computes the inverses in double precision.
    wide = x.astype(np.result_type(x.dtype, np.float64), copy=False)
    try:
        # For a dtype that has no inverse, such as float16, NumPy raises the error for the original dtype.
        return x, inv(wide) if x.dtype.kind in "fc" and x.dtype.itemsize > 2 else inv(x), False
    except np.linalg.LinAlgError:
        singular = _are_singular(raw(wide))
    x = np.where(singular[..., np.newaxis, np.newaxis], eye_like(x, x.shape[-1], x.dtype), x)
    return x, inv(x.astype(wide.dtype, copy=False)), singular


def _are_singular(x: Array) -> Any:
    """Return a mask of the matrices for which NumPy finds no inverse."""
    if x.ndim > 2:
        return np.stack([_are_singular(matrices) for matrices in x])
    try:
        np.linalg.inv(x)
    except np.linalg.LinAlgError:
        if x.ndim != 2 or x.shape[0] != x.shape[1]:
            raise
        return as_like(np.array(True), x)
    return as_like(np.array(False), x)
