"""Axes: as NumPy's functions take them (None, an int of either sign, a tuple), and as formulas need them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from .tensor_base import TensorBase
from .values import as_array, as_like, check_numbers, is_recorder, raw

__all__ = [
    "tensor_like",
    "array_like",
    "arrays_together",
    "axis_index",
    "axis_tuple",
    "in_columns",
    "in_rows",
    "inverse_permutation",
    "kept_shape",
    "laid_by_ufunc",
    "laid_like",
    "largest_over",
    "product_over",
    "reduced_axes",
    "reduced_count",
    "smallest_over",
    "spread",
    "sum_over",
]


#: NumPy's type hints take only a literal `keepdims`.
sum_over: Any = np.add.reduce
product_over: Any = np.multiply.reduce
largest_over: Any = np.maximum.reduce
smallest_over: Any = np.minimum.reduce


_NUMPYS = (np.ndarray, np.generic)


def array_like(value: Any) -> Any:
    """Return a tensor or an array as it is, and anything else as an array."""
    return value if value.__class__ is np.ndarray or isinstance(value, TensorBase) else as_array(value)


def tensor_like(value: Any, other: Any) -> Any:
    """Return `value` as an array, and where `other` is a tensor as a tensor, so that the result is one too."""
    value = array_like(value)
    if isinstance(other, TensorBase) and not isinstance(value, TensorBase):
        check_numbers("a function", value.dtype, (value,))
        return type(other)(as_like(value, other._data), None, 0, other._device)
    return value


def arrays_together(values: Sequence[Any]) -> list[Any]:
    """Return all values as tensors if one of them is a tensor, else as arrays."""
    template = next((value for value in values if isinstance(value, TensorBase)), None)
    return [tensor_like(value, template) for value in values]


def axis_index(axis: Any, ndim: int) -> int:
    """Return one axis counted from the front; raise NumPy's error where there is no such axis."""
    return int(normalize_axis_index(axis, ndim))


def axis_tuple(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes counted from the front, in the order given, none of them twice."""
    return tuple(int(one) for one in normalize_axis_tuple(axis, ndim))


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that a reduction over `axis` takes away; None takes all."""
    return tuple(range(ndim)) if axis is None else axis_tuple(axis, ndim)


def reduced_count(shape: tuple[int, ...], axis: Any, if_none: int = 0) -> int:
    """Return how many elements a reduction over `axis` folds into one; `if_none` where there are none."""
    if axis is None:
        return math.prod(shape) or if_none
    return math.prod(shape[one] for one in (axis if isinstance(axis, tuple) else (axis,))) or if_none


def kept_shape(shape: tuple[int, ...], axis: Any) -> tuple[int, ...]:
    """Return the shape that a reduction over `axis` has where it keeps the reduced axes, with length 1.

    NumPy's ufuncs take the axes 0 and -1 of an array without axes, too.
    """
    if axis is None or not shape:
        return (1,) * len(shape)
    kept = list(shape)
    for one in axis if isinstance(axis, tuple) else (axis,):
        kept[one] = 1
    return tuple(kept)


def spread(g: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    """Return the gradient of a reduction broadcast over the axes that it took away, without a copy.

    Args:
        g: an array or a tensor of the shape of the result.
        shape: the shape of the array that was reduced.
        axis: the axes that were reduced, as NumPy takes them.
        keepdims: whether they were kept, with length 1.
    """
    if type(g) is np.ndarray and not g.shape:
        # A tenth of the time of np.broadcast_to, and every loss ends in a sum or a mean.
        view: Any = np.ndarray(shape, g.dtype, g, 0, (0,) * len(shape))
        view.flags.writeable = False
        return view
    kept = kept_shape(shape, axis)
    if not keepdims:
        g = g.reshape(kept)
    if type(g) not in _NUMPYS or not g.flags.c_contiguous or not g.size:
        return np.broadcast_to(g, shape)
    strides = [0 if length == 1 else stride for length, stride in zip(kept, g.strides, strict=True)]
    view = np.ndarray(shape, g.dtype, g, 0, strides)
    view.flags.writeable = False
    return view


def laid_like(result: Any, like: Any) -> Any:
    """Return a result that nobody else has seen, laid out in memory like a copy of `like`, which has its shape."""
    return _laid(result, lambda array: np.empty_like(raw(like), array.dtype))


def laid_by_ufunc(result: Any, operands: Sequence[Any], order: str = "K") -> Any:
    """Return a result that nobody else has seen, laid out in memory as a ufunc of these operands would do."""
    if raw(result).__class__ is not np.ndarray:
        return result
    # A Python number changes no layout, and one of many digits is an object to `np.asarray`.
    arrays = [np.asarray(raw(operand)) for operand in operands if not isinstance(operand, (int, float, complex))]
    flags = [["readonly"] for _ in arrays] + [["writeonly", "allocate"]]
    # NumPy's type hints know no operand that is to be allocated.
    iterator: Any = np.nditer
    allocated = iterator([*arrays, None], ["zerosize_ok"], flags, order=order).operands[-1]
    return _laid(result, lambda array: np.empty_like(allocated, array.dtype))


def in_rows(result: Any) -> Any:
    """Return a result that nobody else has seen, laid out in memory in rows."""
    return _laid(result, lambda array: np.empty(array.shape, array.dtype))


def in_columns(result: Any) -> Any:
    """Return a result that nobody else has seen, laid out in memory in columns."""
    return _laid(result, lambda array: np.empty(array.shape, array.dtype, "F"))


def _laid(result: Any, make: Callable[[Any], Any]) -> Any:
    array = raw(result)
    if array.__class__ is not np.ndarray:
        return result
    empty = make(array)
    if empty.strides == array.strides:
        return result
    if is_recorder(array) and (empty.flags.c_contiguous or empty.flags.f_contiguous):
        empty = np.empty_like(array, order="C" if empty.flags.c_contiguous else "F")
    np.copyto(empty, array)
    if not isinstance(result, TensorBase):
        return empty
    # No node has saved it, and it is no view: it may as well have been made so.
    result._data = empty
    return result


def inverse_permutation(axes: Any) -> tuple[int, ...]:
    """Return the order of axes that undoes a transposition."""
    inverse = [0] * len(axes)
    for position, axis in enumerate(axes):
        inverse[axis] = position
    return tuple(inverse)
