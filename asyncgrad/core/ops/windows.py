"""Strided views: sliding windows, and `as_strided`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentError
from ..arrays.axes import axis_index
from ..arrays.device_arrays import refuse_device_arrays
from ..arrays.device_functions import own_function
from ..arrays.typed import like_first
from ..arrays.values import is_device_array, raw, zeros_like
from ..recording.primitive import RULES, derivative, primitive
from ..views.geometry import Slice, TensorGeometry
from ..views.strided import put_at

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["as_strided", "sliding_window_view"]


@primitive(views=True)
def windows_(x: Any, lengths: tuple[int, ...], axes: tuple[int, ...], writeable: bool) -> Any:
    """Return a view of all windows; the axes of a window come last."""
    if x.__class__ is not np.ndarray and is_device_array(x):
        # CuPy takes each axis once; windows of windows are the same. All views of such an array can be written into.
        make = own_function(np.lib.stride_tricks.sliding_window_view, x)
        for length, axis in zip(lengths, axes, strict=True):
            x = make(x, length, axis)
        # The index makes a view that names its base.
        return x[...]
    return np.lib.stride_tricks.sliding_window_view(x, lengths, axes, writeable=writeable)


@primitive()
def put_windows_(g: Any, shape: tuple[int, ...], lengths: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Return zeros of a shape with each window added at its position; windows may overlap."""
    total = zeros_like(g, shape)
    for start in itertools.product(*map(range, lengths)):
        index: list[Any] = [slice(None)] * len(shape)
        for axis, first in zip(axes, start, strict=True):
            # An axis may be repeated, for windows of windows.
            before = index[axis].start or 0
            index[axis] = slice(before + first, before + first + g.shape[axis])
        total[tuple(index)] += g[(..., *start)]
    return total


@derivative(windows_, "x")
def _(g: Array, x_shape: tuple[int, ...], lengths: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    return put_windows_(g, x_shape, lengths, axes)


@derivative(put_windows_, "g")
def _(h: Array, lengths: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    return windows_(h, lengths, axes, False)


def sliding_window_view(
    x: Array, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """Return a view of the windows of shape `window_shape` that slide along axes; read-only unless `writeable`."""
    lengths = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    if axis is None:
        axes = tuple(range(x.ndim))
    else:
        axes = tuple(axis_index(one, x.ndim) for one in (axis if np.iterable(axis) else (axis,)))
    return windows_(x, tuple(map(int, lengths)), axes, writeable)


RULES[np.lib.stride_tricks.sliding_window_view] = sliding_window_view


@primitive(views=True)
def strided_(a: Any, place: Slice) -> Any:
    """Return the view of an array that `place` describes."""
    return (
        place.part(a)
        if place.is_contiguous and a.flags.c_contiguous
        else np.lib.stride_tricks.as_strided(a, place.view.shape, place.view.strides)
    )


@derivative(strided_, "a")
def _(g: Array, place: Slice) -> Array:
    return put_at(g, place)


@like_first
def as_strided(a: Any, shape: Any, strides: Any) -> Any:
    """Return the view that begins where `a` begins, with the given shape and strides in bytes.

    Raises:
        ArgumentError: the view would reach beyond the memory of `a`.
    """
    refuse_device_arrays("numpy.lib.stride_tricks.as_strided", (a,), "make the view by indexing, reshape or transpose")
    array: Any = raw(a)
    whole = TensorGeometry(array.shape, array.strides, 0, array.dtype)
    view = TensorGeometry(tuple(shape), tuple(strides), 0, array.dtype)
    (low, high), (first, last) = whole.reach(), view.reach()
    if view.size() and not low <= first <= last <= high:
        raise ArgumentError(
            f"as_strided: a view of shape {view.shape} with strides {view.strides} would reach from byte {first} to "
            f"{last}, but the tensor of shape {whole.shape} with strides {whole.strides} has bytes {low} to {high}"
        )
    return strided_(a, Slice(whole, view, array.flags.c_contiguous))
