"""`reduce`, `accumulate` and `reduceat` of ufuncs of two arrays, as calls of the ufunc one after the other.

NumPy folds in the same order, so that the values are its own. Sums, products and extremes have rules of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like, axis_index, kept_shape, reduced_axes, tensor_like
from ..arrays.values import on_host, raw
from ..recording.primitive import RULES
from .dispatch import FOLDS, call_ufunc, write_result
from .indexing import getitem, lines_over
from .nondifferentiable import NonDifferentiable
from .shaping import reshape
from .single_precision import by_single, holds_half

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..arrays.array import Array


__all__ = ["accumulate", "reduce", "reduceat"]

_NO_VALUE: Any = np._NoValue


def reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: npt.DTypeLike | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = _NO_VALUE,
    where: Any = True,
) -> Any:
    """Return the elements along axes folded into one, from `initial` on if that is given, where a mask holds."""
    array = array_like(array)
    if not _is_recordable(ufunc, array, dtype):
        return _into(out, NonDifferentiable(ufunc.reduce)(array, axis, dtype, None, keepdims, initial, where))
    if holds_half(array):
        options = {"dtype": dtype, "keepdims": keepdims, "initial": initial, "where": where}
        return by_single(reduce, _plain_reduce, ufunc, array, axis, out=out, **options)
    # NumPy's errors: no such axis, or several of a function that takes them in no order.
    ufunc.reduce(np.ones((1,) * array.ndim), axis)
    axes = reduced_axes(axis, array.ndim) if array.ndim else ()
    lines = lines_over(array if dtype is None else array.astype(dtype), axes)
    mask = None if where is True else lines_over(np.broadcast_to(raw(where), array.shape), axes)
    start = None if initial is _NO_VALUE else initial
    if start is None and (mask is not None or not lines.shape[0]):
        start = ufunc.identity
        if start is None:
            raise ValueError(f"numpy.{ufunc.__name__}.reduce has no identity: pass initial= with a mask or no elements")
    rest = range(lines.shape[0])
    if start is None:
        running, rest = getitem(lines, 0), rest[1:]
    else:
        running = np.broadcast_to(tensor_like(start, lines).astype(lines.dtype), lines.shape[1:])
    for index in rest:
        folded = ufunc(running, getitem(lines, index))
        running = folded if mask is None else np.where(mask[index], folded, running)
    return _into(out, reshape(running, kept_shape(array.shape, axes)) if keepdims else running)


def accumulate(ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: npt.DTypeLike | None = None, out: Any = None) -> Any:
    """Return all that folding the elements along an axis comes through."""
    array = array_like(array)
    if not _is_recordable(ufunc, array, dtype) or not array.ndim or not array.size:
        return _into(out, NonDifferentiable(ufunc.accumulate)(array, axis, dtype))
    if holds_half(array):
        return by_single(accumulate, _plain_accumulate, ufunc, array, axis, dtype=dtype, out=out)
    axis = axis_index(axis, array.ndim)
    lines = lines_over(array if dtype is None else array.astype(dtype), (axis,))
    found = [getitem(lines, 0)]
    for index in range(1, lines.shape[0]):
        found.append(ufunc(found[-1], getitem(lines, index)))
    return _into(out, np.stack(found, axis))


def reduceat(
    ufunc: np.ufunc, array: Any, indices: Any, axis: Any = 0, dtype: npt.DTypeLike | None = None, out: Any = None
) -> Any:
    """Return the elements from each index up to the next one folded into one; the one at an index that none follows."""
    array, places = array_like(array), on_host(raw(array_like(indices)))
    if not places.size:
        places = places.astype(np.intp)
    if not _is_recordable(ufunc, array, dtype) or not array.ndim:
        return _into(out, NonDifferentiable(ufunc.reduceat)(array, places, axis, dtype))
    axis = axis_index(axis, array.ndim)
    length = array.shape[axis]
    # NumPy's errors: an index that points nowhere, or is no whole number.
    ufunc.reduceat(np.ones(length), places)
    if dtype is not None:
        array = array.astype(dtype)
    starts = places.tolist()
    found = []
    for start, following in zip(starts, [*starts[1:], length][: len(starts)], strict=True):
        whole = slice(start, max(following, start + 1))
        part = getitem(array, (*(slice(None),) * axis, whole))
        found.append(call_ufunc(ufunc, "reduce", (part,), {"axis": axis}))
    return _into(out, np.stack(found, axis) if found else np.take(array, places, axis))


def _plain_reduce(ufunc: np.ufunc, array: Any, axis: Any, **options: Any) -> Any:
    return ufunc.reduce(array, axis, **options)


def _plain_accumulate(ufunc: np.ufunc, array: Any, axis: Any, dtype: Any) -> Any:
    return ufunc.accumulate(array, axis, dtype)


def _is_recordable(ufunc: np.ufunc, array: Array, dtype: Any) -> bool:
    """Return whether the result has a derivative; else NumPy's own method gives it."""
    kind = array.dtype.kind if dtype is None else np.dtype(dtype).kind
    return kind in "fc" and array.dtype.kind in "fc" and not isinstance(RULES[ufunc], NonDifferentiable)


def _into(out: Any, result: Any) -> Any:
    if out is None:
        return result
    return write_result(out[0] if isinstance(out, tuple) else out, result, "unsafe")


FOLDS.update({"accumulate": accumulate, "reduce": reduce, "reduceat": reduceat})
