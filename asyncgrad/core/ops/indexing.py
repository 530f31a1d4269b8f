"""Parts of an array: by slices (views), by arrays of indices and masks, along an axis, in order of size.

Picking elements and putting them into zeros are primitives, each the derivative of the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..arrays.axes import array_like, axis_index, in_rows, laid_like, reduced_axes, tensor_like
from ..arrays.device_arrays import add_at, axes_led_by, check_places, choice_numbers, is_mask, taken
from ..arrays.interception import add_entry_names
from ..arrays.one_device import check_one_device
from ..arrays.tensor_base import TensorBase
from ..arrays.typed import like_first
from ..arrays.values import add_into, arange_like, as_array, is_device_array, on_host, raw, refuse_masked, zeros_like
from ..recording.kernels import kernel
from ..recording.primitive import RULES, derivative, primitive
from ..settings.unawaited import refuse_unawaited
from .dispatch import write_result
from .shaping import copy, line, ravel, reshape

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "choose",
    "compress",
    "delete",
    "extract",
    "getitem",
    "grid_along",
    "is_basic",
    "lines_over",
    "part",
    "partition",
    "pick",
    "put",
    "raw_index",
    "select",
    "sort",
    "sort_complex",
    "take",
    "take_along_axis",
    "trim_zeros",
]

#: Up to so many elements it does not pay to compute their places.
_FEW = 1000

#: Python's numbers, which leave the dtype of a result to the arrays beside them.
_NUMBERS = (bool, int, float, complex)

_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


# Basic indexing: a view; its derivative writes into zeros.


@primitive(views=True)
def part_(a: Any, index: Any) -> Any:
    """Return the view that ints, slices, None and Ellipsis make."""
    return a[index]


@primitive()
def put_part_(g: Any, index: Any, shape: tuple[int, ...]) -> Array:
    """Return zeros of a shape with `g` at a basic index."""
    total = zeros_like(g, shape)
    total[index] = g
    return total


@derivative(part_, "a")
def _(g: Array, index: Any, a_shape: tuple[int, ...]) -> Array:
    return _put_part(g, index, a_shape)


@derivative(put_part_, "g")
def _(h: Array, index: Any) -> Array:
    return part(h, index)


part, _put_part = part_.call, put_part_.call


# Advanced indexing: a copy; its derivative adds, since an element may be picked more than once.


@primitive()
def pick_(a: Array, index: Any) -> Array:
    """Return the elements at an index of integer arrays and masks."""
    if a.__class__ is not np.ndarray:
        check_places(index, a.shape)
    return a[index]


@primitive()
def put_(g: Array, index: Any, shape: tuple[int, ...]) -> Array:
    """Return zeros of a shape with `g` added at an advanced index."""
    total = zeros_like(g, shape)
    if is_mask(index):
        total[index] = g
        return total
    if total.__class__ is not np.ndarray:
        add_at(total, index, g, is_zero=True)
        return total
    leading = axes_led_by(index, len(shape))
    if leading == len(shape) or g.size < _FEW:
        np.add.at(total, index, g)
        return total
    # For many elements np.add.at is several times faster if it adds single elements than if it adds whole rows.
    rows = math.prod(shape[leading:])
    places = _places(index, shape[:leading])[..., np.newaxis] * rows + np.arange(rows)
    np.add.at(total.reshape(-1), places.reshape(-1), g.reshape(-1))
    return total


def _add_put(total: Any, g: Any, index: Any, a_shape: tuple[int, ...]) -> Any:
    """Add `g` at an advanced index into an array of a device that may be written into; return the new sum."""
    if is_mask(index):
        return add_into(total, put_.function(g, index, a_shape))
    add_at(total, index, g)
    return total


@derivative(pick_, "a")
@kernel(variant=put_.function, adder=_add_put)
def _(g: Array, index: Any, a_shape: tuple[int, ...]) -> Array:
    return put(g, index, a_shape)


@derivative(put_, "g")
def _(h: Array, index: Any) -> Array:
    return pick(h, index)


pick, put = pick_.call, put_.call


def _places(index: Any, shape: tuple[int, ...]) -> Any:
    """Return the places of an index in the flattened array of that shape."""
    places: Any = 0
    step = math.prod(shape)
    for axis, length in enumerate(shape):
        step //= max(length, 1)
        along = (np.arange(length) * step).reshape(-1, *(1,) * (len(shape) - axis - 1))
        places = places + np.broadcast_to(along, shape)[index]
    return np.asarray(places)


_copied = np.copy
add_entry_names(globals(), "_copied")


def raw_index(index: Any) -> Any:
    """Return an index without Tensors in it; its arrays are copies, so that nobody changes what a node saved."""
    if isinstance(index, tuple):
        return tuple(raw_index(item) for item in index)
    if index.__class__ in _BASIC:
        return index
    if isinstance(index, (TensorBase, np.ndarray)) or is_device_array(index):
        refuse_masked(index)
        array = raw(index)
        if array.ndim == 0 and array.dtype.kind in "biu":
            return array.item()
        return _copied(array)
    if isinstance(index, list):
        array = np.array(_bare(index))
        return array if array.size else array.astype(np.intp)
    return int(index) if isinstance(index, np.integer) else index


def _bare(nested: Any) -> Any:
    return [_bare(item) for item in nested] if isinstance(nested, list) else raw(nested)


@like_first
def getitem(a: Any, index: Any) -> Any:
    """Return `a[index]`, for an index of any kind."""
    kind = index.__class__
    if kind in _BASIC:
        return part(a, index)
    if kind is tuple:
        for item in index:
            if item.__class__ not in _BASIC:
                break
        else:
            return part(a, index)
    check_one_device("t[index]", a, index)
    bare = raw_index(index)
    if not is_basic(bare):
        try:
            return pick(a, bare)
        except IndexError as error:
            refuse_unawaited("t[index]", index if kind is tuple else (index,), error)
            raise
    found = part(a, bare)
    # An array without axes picks what a number does, and makes a copy, as other arrays do. A tensor without axes is a
    # number: where NumPy returns a number, as np.argmax does, asyncgrad returns such a tensor.
    return (
        copy(found) if any(isinstance(item, np.ndarray) for item in (index if kind is tuple else (index,))) else found
    )


def is_basic(index: Any) -> bool:
    """Tell whether an index, as `raw_index` returns it, is made of ints, slices, None and Ellipsis: it makes a view."""
    items = index if isinstance(index, tuple) else (index,)
    return _BASIC.issuperset(map(type, items))


# take, and the functions that it can do.


@primitive()
def take_(a: Any, indices: Any, axis: int, mode: Literal["raise", "wrap", "clip"]) -> Any:
    """Return the elements at indices along an axis."""
    if a.__class__ is not np.ndarray and is_device_array(a):
        return taken(a, indices, axis, mode)
    return np.take(a, indices, axis, mode=mode)


@derivative(take_, "a")
def _(g: Array, a_shape: tuple[int, ...], indices: Any, axis: int, mode: str) -> Array:
    # Where this is recorded, a copy: the node of `put` does not notice writes into the indices.
    places = np.copy(raw(indices)) if isinstance(indices, TensorBase) else as_array(indices)
    length = a_shape[axis]
    if mode == "wrap":
        places = places % length
    elif mode == "clip":
        places = places.clip(0, length - 1)
    return put(g, (*(slice(None),) * axis, places) if axis else places, a_shape)


@derivative(take_, "indices")
def _(g: Array) -> None:
    """Give no gradient; the formula is there so that the indices may be a Tensor."""


def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """Return the elements at indices along an axis; None takes all elements in one row."""
    a, axis = line(a, axis)
    indices = array_like(indices)
    if indices.dtype.kind == "f" and not indices.size:
        indices = indices.astype(np.intp)
    result = take_(a, indices, axis, mode)
    return result if out is None else write_result(out, result)


RULES[np.take] = take


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Return for each row of `arr` along an axis the elements at its own row of indices."""
    arr, places = tensor_like(arr, indices), np.copy(raw(indices))
    if places.dtype.kind not in "iu":
        raise IndexError(f"take_along_axis needs indices of an integer dtype, not {places.dtype}")
    if axis is None:
        arr, axis = reshape(arr, -1), 0
    axis = axis_index(axis, arr.ndim)
    if places.ndim != arr.ndim:
        raise ValueError(f"take_along_axis needs indices with {arr.ndim} axes, as the array has, not {places.ndim}")
    return pick(arr, grid_along(places, arr.shape, axis))


RULES[np.take_along_axis] = take_along_axis


def grid_along(places: Any, shape: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    """Return the index of an array of that shape that picks, for each row along an axis, its own row of places."""
    return tuple(
        places if one == axis else arange_like(places, length).reshape(length, *(1,) * (len(shape) - one - 1))
        for one, length in enumerate(shape)
    )


def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Return the elements along an axis where a row of conditions holds."""
    chosen = as_array(raw(condition))
    if chosen.ndim != 1:
        raise ValueError(f"compress needs conditions in one row, and these have {chosen.ndim} axes")
    return take(tensor_like(a, condition), np.flatnonzero(chosen), axis, out)


RULES[np.compress] = compress


def extract(condition: Any, arr: Any) -> Any:
    """Return in one row the elements where the condition holds."""
    return take(tensor_like(arr, condition), np.flatnonzero(as_array(raw(condition))))


RULES[np.extract] = extract


@primitive()
def delete_(arr: Array, obj: Any, axis: int) -> Array:
    """Return `arr` without the elements at `obj`, which nobody changes later, along an axis."""
    if is_device_array(arr):
        check_places((*(slice(None),) * axis, obj), arr.shape)
    return np.delete(arr, obj, axis)


@derivative(delete_, "arr")
def _(g: Array, arr_shape: tuple[int, ...], obj: Any, axis: int) -> Array:
    left = np.delete(arange_like(obj, arr_shape[axis]), obj)
    return put(g, (*(slice(None),) * axis, left), arr_shape)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """Return `arr` without the elements at `obj` along an axis."""
    arr = tensor_like(arr, obj)
    if axis is None:
        arr, axis = (arr if arr.ndim == 1 else ravel(arr)), 0
    if not isinstance(obj, slice):
        places = np.copy(raw(obj))
        obj = places if places.size or hasattr(obj, "dtype") else places.astype(np.intp)
    return delete_(arr, obj, axis_index(axis, arr.ndim))


RULES[np.delete] = delete


def _with_numbers_beside(values: list[Any]) -> list[Any]:
    """Return values with Python's numbers as NumPy's, of the dtype of all together, which the others decide."""
    if not any(isinstance(value, _NUMBERS) for value in values):
        return values
    dtype = np.result_type(*map(raw, values))
    return [np.asarray(value, dtype)[()] if isinstance(value, _NUMBERS) else value for value in values]


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Return for each element the first choice whose condition holds, else the default."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError(f"select needs a choice for each condition: {len(condlist)} and {len(choicelist)} were given")
    result, *choices = _with_numbers_beside([default, *choicelist])
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        condition = array_like(condition)  # noqa: PLW2901
        if condition.dtype.kind != "b":
            raise TypeError(f"select needs conditions of dtype bool, not {condition.dtype}")
        result = np.where(condition, choice, result)
    return in_rows(result)


RULES[np.select] = select


def choose(a: Any, choices: Any, out: Any = None, mode: Literal["raise", "wrap", "clip"] = "raise") -> Any:
    """Return for each element the choice that `a` names."""
    names = as_array(raw(a))
    arrays = _with_numbers_beside(list(choices))
    shape = np.broadcast_shapes(names.shape, *(np.shape(raw(choice)) for choice in arrays))
    if names.__class__ is np.ndarray:
        number = np.choose(names, np.arange(len(arrays)), mode=mode)
    else:
        number = choice_numbers(names, len(arrays), mode)
    together = np.stack([np.broadcast_to(tensor_like(choice, a), shape) for choice in arrays])
    places = np.broadcast_to(number, shape)
    result = pick(together, (places, *grid_along(places, shape, -1)))
    if isinstance(choices, (TensorBase, np.ndarray)):
        # Joining has given it this machine's byte order.
        result = result.astype(raw(choices).dtype, copy=False)
    return result if out is None else write_result(out, result)


RULES[np.choose] = choose


# Sorting: the gradient goes back the way that the elements came.


def lines_over(a: Array, axes: tuple[int, ...]) -> Any:
    """Return the elements with those along `axes` along one axis, the first; the other axes follow in their order."""
    kept = [axis for axis in range(a.ndim) if axis not in axes]
    shape = [a.shape[axis] for axis in kept]
    return reshape(np.transpose(a, (*axes, *kept)), (math.prod(a.shape[axis] for axis in axes), *shape))


def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Any:
    """Return the elements along an axis in ascending order."""
    if axis is None:
        a, axis = reshape(a, -1), 0
    array = raw(a)
    if array.__class__ is not np.ndarray and is_device_array(array):
        # Its own sort is stable, whatever is asked for.
        return take_along_axis(a, np.argsort(array, axis), axis)
    return laid_like(take_along_axis(a, np.argsort(array, axis, kind, order, stable=stable), axis), a)


RULES[np.sort] = sort


def partition(a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """Return the elements along an axis with those in their place that would be at `kth` in order."""
    if axis is None:
        a, axis = reshape(a, -1), 0
    array = raw(a)
    if array.__class__ is not np.ndarray and is_device_array(array):
        return take_along_axis(a, np.argpartition(array, on_host(raw(kth)).tolist(), axis), axis)
    return laid_like(take_along_axis(a, np.argpartition(array, raw(kth), axis, kind, order), axis), a)


RULES[np.partition] = partition


def sort_complex(a: Any) -> Any:
    """Return the elements along the last axis in ascending order, as complex numbers."""
    a = array_like(a)
    return sort(a).astype(np.sort_complex(np.empty(0, a.dtype)).dtype, copy=False)


RULES[np.sort_complex] = sort_complex


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """Return the view without the zeros in front ("f") and at the back ("b")."""
    trim = trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"trim_zeros takes trim='f', 'b' or 'fb', not {trim!r}")
    axes = reduced_axes(axis, filt.ndim)
    if not filt.ndim:
        return part(filt, ())
    found = [(int(places.min()), int(places.max()) + 1) if places.size else (0, 0) for places in np.nonzero(raw(filt))]
    return part(
        filt,
        tuple(
            slice(start if "f" in trim or start == stop else None, stop if "b" in trim or start == stop else None)
            if one in axes
            else slice(None)
            for one, (start, stop) in enumerate(found)
        ),
    )


RULES[np.trim_zeros] = trim_zeros
