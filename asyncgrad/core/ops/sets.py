"""Set operations on arrays, and weighted counts of elements.

The gradient of a unique element flows to its first occurrence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like, arrays_together, axis_index, tensor_like
from ..arrays.device_arrays import add_at, as_dtype
from ..arrays.values import is_device_array, raw, zeros_like
from ..recording.primitive import RULES, derivative, primitive
from .indexing import getitem, sort, take
from .joining import concatenate
from .shaping import moveaxis, reshape

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "bincount",
    "intersect1d",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

#: NumPy's type hints take only literal flags.
_unique: Any = np.unique


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    **kwargs: Any,
) -> Any:
    """Return the sorted unique elements, or unique subarrays along an axis, with indices and counts if asked for."""
    ar = array_like(ar)
    _, first, *others = _unique(raw(ar), True, return_inverse, return_counts, axis, **kwargs)
    if return_index:
        # The caller gets what a node saves, and may write into it.
        first = tensor_like(first, ar)
    if axis is None or ar.ndim == 1:
        values = take(reshape(ar, -1), first)
    else:
        axis = axis_index(axis, ar.ndim)
        values = moveaxis(take(moveaxis(ar, axis, 0), first, 0), 0, axis)
    found = [first, *others] if return_index else others
    return (values, *(tensor_like(one, ar) for one in found)) if found else values


RULES[np.unique] = unique


def unique_all(x: Any) -> Any:
    """Return the unique elements, their indices, the inverse indices, and their counts."""
    found = unique(x, True, True, True, equal_nan=False)
    return type(np.unique_all(np.zeros(1)))(*found)


def unique_counts(x: Any) -> Any:
    """Return the unique elements and their counts."""
    return type(np.unique_counts(np.zeros(1)))(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x: Any) -> Any:
    """Return the unique elements and the inverse indices."""
    return type(np.unique_inverse(np.zeros(1)))(*unique(x, return_inverse=True, equal_nan=False))


def unique_values(x: Any) -> Any:
    """Return the unique elements in ascending order, which NumPy does not guarantee for its own arrays."""
    return unique(x, equal_nan=False)


RULES[np.unique_all] = unique_all
RULES[np.unique_counts] = unique_counts
RULES[np.unique_inverse] = unique_inverse
RULES[np.unique_values] = unique_values


def _rows(first: Any, second: Any, *, assume_unique: bool) -> list[Any]:
    """Return two arrays flattened, with unique elements."""
    arrays = arrays_together((first, second))
    return [reshape(one, -1) if assume_unique else unique(one) for one in arrays]


def union1d(ar1: Any, ar2: Any) -> Any:
    """Return the sorted unique elements of either array."""
    return unique(concatenate(arrays_together((ar1, ar2)), None))


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Return the sorted elements that are in both arrays, and their indices if `return_indices`."""
    first, second = arrays_together((ar1, ar2))
    # CuPy takes elements that are known to differ to be in order, too.
    is_known = assume_unique and raw(first).__class__ is np.ndarray
    _, *places = np.intersect1d(raw(first), raw(second), is_known, True)
    # The caller gets what a node saves, and may write into it.
    here, there = (tensor_like(one, first) for one in places)
    values = take(reshape(first, -1), here).astype(np.result_type(first.dtype, second.dtype), copy=False)
    return (values, here, there) if return_indices else values


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Return the elements of the first array that are not in the second."""
    first, second = _rows(ar1, ar2, assume_unique=assume_unique)
    return getitem(first, np.isin(raw(first), raw(second), assume_unique=True, invert=True))


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Return the sorted elements that are in exactly one of the arrays."""
    ordered = sort(concatenate(_rows(ar1, ar2, assume_unique=assume_unique)))
    values = raw(ordered)
    if not values.size:
        return ordered
    end = zeros_like(values, (1,), bool)
    same = np.concatenate((end, values[1:] == values[:-1], end))
    return getitem(ordered, ~(same[1:] | same[:-1]))


RULES[np.union1d] = union1d
RULES[np.intersect1d] = intersect1d
RULES[np.setdiff1d] = setdiff1d
RULES[np.setxor1d] = setxor1d


@primitive()
def bincount_(x: Any, weights: Any, minlength: int) -> Any:
    """Return the sum of the weights for each int."""
    if x.__class__ is not np.ndarray and is_device_array(x):
        return _bincount_of(x, weights, minlength)
    return np.bincount(x, weights, minlength)


def _bincount_of(x: Any, weights: Any, minlength: int) -> Any:
    """Return the sum of the weights for each int in an array of another library's, whose own may add in any order."""
    counts = np.bincount(x, None, minlength)
    # Of no ints, CuPy returns ints, whatever the weights are.
    if x.size:
        given = as_dtype(weights, float, "safe", copy=False)
        counts = zeros_like(given, counts.shape)
        add_at(counts, x, given, is_zero=True)
    return counts


@derivative(bincount_, "weights")
def _(g: Array, x: Any) -> Array:
    return np.take(g, x)


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """Return the count of each int from 0 on, or the sum of its weights."""
    if weights is None:
        return tensor_like(np.bincount(raw(x), None, minlength), x)
    x, weights = np.copy(raw(x)), tensor_like(weights, x)
    if x.shape != weights.shape:
        raise ValueError(f"numpy.bincount takes one weight for each int, not {weights.shape} of them for {x.shape}")
    return bincount_.call(x, weights, minlength)


RULES[np.bincount] = bincount
