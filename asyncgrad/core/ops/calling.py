"""NumPy's functions that call a function of the user's: for pieces of an array, along an axis, or over axes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.axes import array_like, axis_index, tensor_like
from ..arrays.values import as_array, raw
from ..recording.primitive import RULES
from .indexing import getitem
from .joining import stack
from .shaping import expand_dims, reshape, transpose

__all__ = ["apply_along_axis", "apply_over_axes", "piecewise"]


def _conditions(x: Any, condlist: Any, count: int) -> Any:
    """Return a mask of `x` for each of `count` functions; a missing last one is true where no condition holds."""
    if np.isscalar(condlist) or (not isinstance(condlist[0], list) and np.ndim(condlist[0]) == 0 and x.ndim):
        condlist = [condlist]
    masks: Any = [as_array(raw(one)).astype(bool, copy=False) for one in condlist]
    if len(masks) == count - 1:
        masks.append(~functools.reduce(np.logical_or, masks))
    if len(masks) != count:
        raise ValueError(
            f"numpy.piecewise takes as many functions as conditions, or one more, not {count} for {len(masks)}"
        )
    return masks


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Return each element passed through the function of the last condition that holds; 0 where none holds."""
    x = array_like(x)
    result: Any = np.zeros_like(x)
    for mask, function in zip(_conditions(x, condlist, len(funclist)), funclist, strict=True):
        if not isinstance(function, Callable):  # type: ignore[arg-type]
            result[mask] = function
            continue
        elements = getitem(x, mask)
        if elements.size:
            result[mask] = function(elements, *args, **kw)
    return result


RULES[np.piecewise] = piecewise


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the results of a function for each 1-d slice along `axis`; the axes of a result replace that axis."""
    arr = array_like(arr)
    axis = axis_index(axis, arr.ndim)
    others = [one for one in range(arr.ndim) if one != axis]
    moved = transpose(arr, (*others, axis))
    lengths = moved.shape[:-1]
    indices = list(np.ndindex(lengths))
    if not indices:
        raise ValueError(
            f"numpy.apply_along_axis needs at least one slice to call the function with; arr has shape {arr.shape}"
        )
    results = [tensor_like(func1d(moved[(*index, ...)], *args, **kwargs), arr) for index in indices]
    dtype, shape = results[0].dtype, results[0].shape
    rows = [one if one.shape == shape else np.broadcast_to(one, shape) for one in results]
    together = reshape(stack(rows, dtype=dtype, casting="unsafe"), (*lengths, *shape))
    before = len(lengths)
    order = (*range(axis), *range(before, before + len(shape)), *range(axis, before))
    return transpose(together, order)


RULES[np.apply_along_axis] = apply_along_axis


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    """Return the result of calling a function of an array and an axis for one axis after another."""
    result = array_like(a)
    ndim = result.ndim
    for one in np.atleast_1d(axes).tolist():
        axis = one + ndim if one < 0 else one
        found = func(result, axis)
        if found.ndim != result.ndim:
            found = expand_dims(found, axis)
            if found.ndim != result.ndim:
                raise ValueError(
                    "numpy.apply_over_axes takes a function that keeps the number of axes or removes one; this one "
                    f"returned {found.ndim - 1} axes for {result.ndim}"
                )
        result = found
    return result


RULES[np.apply_over_axes] = apply_over_axes
