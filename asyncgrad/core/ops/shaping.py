"""The same elements in another shape, order of axes or dtype: mostly views of the same memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..arrays.axes import array_like, arrays_together, axis_index, axis_tuple, inverse_permutation
from ..arrays.tensor_base import TensorBase
from ..arrays.typed import LikeFirst, like_first
from ..arrays.values import as_array, is_device_array
from ..recording.primitive import RULES, derivative, primitive

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_to",
    "copy",
    "expand_dims",
    "ix_",
    "line",
    "matrix_transpose",
    "meshgrid",
    "moveaxis",
    "ravel",
    "reshape",
    "rollaxis",
    "squeeze",
    "swapaxes",
    "transpose",
]


# reshape and ravel.


@primitive(views=True)
def reshape_(a: Array, shape: Any, order: str) -> Array:
    """Return the elements in another shape; a view where that is possible."""
    return a.reshape(shape, order=order)


@derivative(reshape_, "a")
def _(g: Array, a_shape: tuple[int, ...], order: str) -> Array:
    return g.reshape(a_shape, order=order)


_reshape = reshape_.call


@like_first
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """Return the elements of `a` in another shape, read and written in the given order."""
    if order == "A":
        order = _order_of(a)
    result = _reshape(a, shape, order)
    if copy is None:
        return result
    shares = not math.prod(result.shape) or np.may_share_memory(_raw(a), _raw(result))
    if copy:
        return copy_(result, order) if shares else result
    if not shares:
        raise ValueError(f"reshaping to {shape} has to copy here, and copy=False forbids it")
    return result


RULES[np.reshape] = reshape


@primitive(views=True)
def ravel_(a: Array, order: str) -> Array:
    """Return the elements in one row, side by side in memory; a view where they lie so."""
    return a.ravel(order)


@derivative(ravel_, "a")
def _(g: Array, a_shape: tuple[int, ...], order: str) -> Array:
    return g.reshape(a_shape, order=order)


@like_first
def ravel(a: Any, order: str = "C") -> Any:
    """Return the elements of `a` in one row."""
    if order == "A":
        order = _order_of(a)
    if order == "K":
        # As they lie in memory: the longest stride first.
        strides = _raw(a).strides
        axes = sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))
        if axes != list(range(len(axes))):
            a = transpose_(a, tuple(axes))
        order = "C"
    return ravel_(a, order)


RULES[np.ravel] = ravel


def _raw(a: Any) -> Any:
    return a._data if isinstance(a, TensorBase) else a


def _order_of(a: Any) -> str:
    """Return the order that "A" means for the memory of `a`, since its gradient may lie otherwise."""
    flags = as_array(_raw(a)).flags
    return "F" if flags.f_contiguous and not flags.c_contiguous else "C"


def line(a: Any, axis: int | None) -> tuple[Any, int]:
    """Return an array and one of its axes, counted from the front; axis None makes one row of the array.

    An array without axes counts as a row of one element, as in NumPy's oldest functions.
    """
    a = array_like(a)
    if axis is None:
        return (a if a.ndim == 1 else reshape(a, -1)), 0
    if a.ndim == 0:
        a = reshape(a, 1)
    return a, axis_index(axis, a.ndim)


# The order of axes.


@primitive(np.transpose, views=True)
def transpose_(a: Any, axes: Any = None) -> Any:
    """Return a view with the axes in another order; None reverses them."""
    return a.transpose(axes)


@derivative(transpose_, "a")
def _(g: Array, a_shape: tuple[int, ...], axes: Any) -> Array:
    return g.transpose(None if axes is None else inverse_permutation(axis_tuple(axes, len(a_shape))))


transpose: LikeFirst[...] = transpose_.call


@primitive(np.swapaxes, views=True)
def swapaxes_(a: Any, axis1: int, axis2: int) -> Any:
    """Return a view with two axes exchanged."""
    return a.swapaxes(axis1, axis2)


@derivative(swapaxes_, "a")
def _(g: Array, axis1: int, axis2: int) -> Array:
    return g.swapaxes(axis1, axis2)


swapaxes: LikeFirst[...] = swapaxes_.call


@like_first
def matrix_transpose(x: Array, /) -> Any:
    """Return a view with the last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose needs at least two axes, and this tensor has {x.ndim}")
    return swapaxes(x, -1, -2)


RULES[np.matrix_transpose] = RULES[np.linalg.matrix_transpose] = matrix_transpose


def moveaxis(a: Array, source: Any, destination: Any) -> Any:
    """Return a view with some axes moved to other places, the rest in their order."""
    sources, destinations = axis_tuple(source, a.ndim), axis_tuple(destination, a.ndim)
    if len(sources) != len(destinations):
        raise ValueError(f"moveaxis got {len(sources)} axes to move and {len(destinations)} places to move them to")
    order = [axis for axis in range(a.ndim) if axis not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return transpose(a, tuple(order))


RULES[np.moveaxis] = moveaxis


def rollaxis(a: Array, axis: int, start: int = 0) -> Any:
    """Return a view with one axis moved to stand before another."""
    axis = axis_index(axis, a.ndim)
    if not -a.ndim <= start <= a.ndim:
        raise np.exceptions.AxisError(f"start={start} is out of bounds for an array with {a.ndim} axes")
    start += a.ndim if start < 0 else 0
    return moveaxis(a, axis, start - 1 if axis < start else start)


RULES[np.rollaxis] = rollaxis


# Axes of length 1.


@primitive(np.expand_dims, views=True)
def expand_dims_(a: Any, axis: Any) -> Array:
    """Return a view with new axes of length 1."""
    return np.expand_dims(a, axis)


@derivative(expand_dims_, "a")
def _(g: Array, a_shape: tuple[int, ...]) -> Array:
    return g.reshape(a_shape)


expand_dims: Callable[..., Any] = expand_dims_.call


@primitive(np.squeeze, views=True)
def squeeze_(a: Any, axis: Any = None) -> Any:
    """Return a view without the axes of length 1, or without those named."""
    return a.squeeze(axis)


@derivative(squeeze_, "a")
def _(g: Array, a_shape: tuple[int, ...]) -> Array:
    return g.reshape(a_shape)


squeeze: LikeFirst[...] = squeeze_.call


@primitive(views=True)
def with_axes_(a: Any, count: int) -> Any:
    """Return a view with more axes, placed as NumPy's atleast functions do."""
    return _AT_LEAST[count](a)


_AT_LEAST: dict[int, Any] = {1: np.atleast_1d, 2: np.atleast_2d, 3: np.atleast_3d}


@derivative(with_axes_, "a")
def _(g: Array, a_shape: tuple[int, ...]) -> Array:
    return g.reshape(a_shape)


def _at_least(arys: tuple[Any, ...], count: int) -> Any:
    """Return each array with at least so many axes; a single array is returned without a list."""
    arrays = arrays_together(arys)
    results = tuple(with_axes_(a, count) if a.ndim < count else a for a in arrays)
    return results[0] if len(results) == 1 else results


def atleast_1d(*arys: Any) -> Any:
    """Return each array with at least one axis."""
    return _at_least(arys, 1)


def atleast_2d(*arys: Any) -> Any:
    """Return each array with at least two axes, new ones in front."""
    return _at_least(arys, 2)


def atleast_3d(*arys: Any) -> Any:
    """Return each array with at least three axes: a row lies along the middle one."""
    return _at_least(arys, 3)


RULES[np.atleast_1d] = atleast_1d
RULES[np.atleast_2d] = atleast_2d
RULES[np.atleast_3d] = atleast_3d


# Broadcasting: the wrapper of a primitive sums its gradient back to the shape that the argument had.


@primitive(views=True)
def broadcast_to_(array: Any, shape: Any) -> Array:
    """Return a read-only view in a larger shape."""
    return np.broadcast_to(array, shape)


@derivative(broadcast_to_, "array")
def _(g: Array) -> Array:
    return g


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Return a read-only view of `array` in a larger shape."""
    return broadcast_to_(array, shape)


RULES[np.broadcast_to] = broadcast_to


@primitive(views=True)
def broadcast_beside_(array: Any, shape: Any) -> Any:
    """Return a view in a larger shape that is writable as in NumPy, with a warning."""
    if is_device_array(array):
        return np.broadcast_to(array, shape)
    return np.broadcast_arrays(array, np.broadcast_to(False, shape))[0]


@derivative(broadcast_beside_, "array")
def _(g: Array) -> Array:
    return g


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """Return views of the arrays in their common shape; arrays that have it are returned unchanged."""
    shape = np.broadcast_shapes(*(np.shape(_raw(array)) for array in args))
    arrays = arrays_together(args)
    if all(array.shape == shape for array in arrays):
        return tuple(arrays)
    return tuple(broadcast_beside_(array, shape) for array in arrays)


RULES[np.broadcast_arrays] = broadcast_arrays


#: What NumPy returns sparse grids in that are no copies: a list, and a tuple since NumPy 2.5.
_SPARSE_GRIDS: Callable[[Any], Sequence[Any]] = type(np.meshgrid(0.0, copy=False, sparse=True))


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Sequence[Any]:
    """Return the coordinates of a grid, one array for each axis."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid takes indexing='xy' or 'ij', not {indexing!r}")
    rows = arrays_together(xi)
    axes = list(range(len(rows)))
    if indexing == "xy":
        axes[:2] = axes[:2][::-1]
    grids: Any = [
        reshape(row, [-1 if other == axis else 1 for other in range(len(rows))])
        for axis, row in zip(axes, rows, strict=True)
    ]
    if not sparse:
        grids = broadcast_arrays(*grids)
    if copy:
        return tuple(copy_(grid, "C") for grid in grids)
    return _SPARSE_GRIDS(grids) if sparse else grids


RULES[np.meshgrid] = meshgrid


def ix_(*args: Any) -> tuple[Any, ...]:
    """Return sequences laid along one axis each, which together index a grid; those of truth values as positions."""
    count = len(args)
    return tuple([_along(position, count, row) for position, row in enumerate(arrays_together(args))])


def _along(axis: int, count: int, row: Any) -> Any:
    if row.ndim != 1:
        raise ValueError(f"numpy.ix_ takes sequences with one axis, not of shape {row.shape}")
    if row.dtype.kind == "b":
        (row,) = np.nonzero(row)
    return reshape(row, [-1 if other == axis else 1 for other in range(count)])


RULES[np.ix_] = ix_


# Copies, and other dtypes.


@primitive(np.copy)
def copy_(a: Any, order: Literal["K", "A", "C", "F"] = "K", subok: bool = False) -> Any:
    """Return a copy; gradients flow through it."""
    if is_device_array(a):
        return a.copy(order)
    return np.copy(a, order)


@derivative(copy_, "a")
def _(g: Array) -> Array:
    return g


copy: LikeFirst[...] = copy_.call
