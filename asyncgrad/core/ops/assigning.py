"""NumPy's functions that write into an array by an index, a mask or an axis, and the methods `at` of its ufuncs."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentTypeError
from ..arrays.axes import array_like, axis_index
from ..arrays.device_arrays import (
    add_at,
    check_places,
    explain_refusal,
    is_mask,
    name_shapes,
    placed,
    refuse_device_arrays,
)
from ..arrays.one_device import check_one_device
from ..arrays.tensor_base import TensorBase
from ..arrays.values import (
    arange_like,
    as_array,
    as_like,
    empty_like,
    is_device_array,
    raw,
    refuse_masked,
    zeros_like,
)
from ..recording.primitive import RULES, derivative, primitive
from ..settings.arguments import describe
from ..settings.callers import WRITING
from ..views.writing import copy_into, copy_into_part, write_unrecorded
from .dispatch import METHODS
from .in_place import write_at_index
from .indexing import getitem, grid_along, is_basic, part, pick, raw_index
from .shaping import reshape

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "setitem", "write_at"]

WRITING.add(__name__)


# Advanced indices: where several lead to one element, the last one counts.


@primitive()
def assign_(a: Any, index: Any, value: Any) -> Any:
    """Return a copy of `a` with a value at an advanced index."""
    result = a.copy()
    result[index] = value
    return result


@primitive()
def clear_(g: Any, index: Any) -> Array:
    """Return a copy of `g` with zeros at an index."""
    # NumPy turns a gradient without axes into a number, which cannot be written into.
    result = as_array(g.copy())
    result[index] = 0
    return result


@derivative(assign_, "a")
def _(g: Array, index: Any) -> Array:
    return clear(g, index)


@derivative(assign_, "value")
def _(g: Array, index: Any) -> Array:
    picked = pick(g, index)
    if is_mask(index):
        return picked
    array = raw(g)
    order = arange_like(array, picked.size).reshape(picked.shape)
    last = empty_like(array, dtype=np.intp)
    last[index] = order
    counts = last[index] == order
    return picked if counts.__class__ is np.ndarray and counts.all() else np.where(counts, picked, 0)


@derivative(clear_, "g")
def _(h: Array, index: Any) -> Array:
    return clear(h, index)


clear: Callable[..., Any] = clear_.call


def setitem(a: Any, index: Any, value: Any) -> None:
    """Write a value into a part of a tensor, in place, with NumPy's casting.

    Raises:
        InPlaceError: the write cannot be recorded.
    """
    check_one_device("t[index] = value", a, index, value)
    index = raw_index(index)
    refuse_masked(value)
    if a._data.__class__ is not np.ndarray:
        check_places(index, a._data.shape)
        if isinstance(value, (list, tuple)):
            value, _ = placed(value, a)
    try:
        if write_unrecorded(lambda array, value: operator.setitem(array, index, value), a, value):
            return
        if is_basic(index):
            items = index if isinstance(index, tuple) else (index,)
            if not any(item is Ellipsis for item in items):
                if np.ndim(raw(value)) and np.ndim(a._data[index]) == 0:
                    # Newer versions of NumPy refuse to write an array, even one of length 1, into one element.
                    bare = raw(value)
                    np.zeros(1, a._data.dtype)[0] = np.zeros(bare.shape) if is_device_array(bare) else bare
                items = (*items, Ellipsis)
            copy_into_part(a, items, (part, (items,)), value)
            return
        if isinstance(value, TensorBase):
            extra = value._data.ndim - a._data[index].ndim
            value = reshape(value, value._data.shape[extra:]) if extra > 0 else value
        write_at_index(assign_, operator.setitem, a, index, value)
    except (TypeError, ValueError) as error:
        explain_refusal("t[index] = value", (a, value), error)
        name_shapes("t[index] = value", (a, value), error)
        raise


# ufunc.at writes an element as often as it is named, in order.


@primitive()
def add_at_(a: Any, index: Any, value: Any) -> Any:
    """Return a copy of `a` with values added at an index."""
    result = a.copy()
    add_at(result, index, value)
    return result


@derivative(add_at_, "a")
def _(g: Array) -> Array:
    return g


@derivative(add_at_, "value")
def _(g: Array, index: Any) -> Array:
    return getitem(g, index)


def write_at(ufunc: np.ufunc, a: Any, indices: Any, *values: Any) -> None:
    """Run a ufunc in place on the elements at indices, as often as an index names each."""
    index = raw_index(indices)
    for value in values:
        refuse_masked(value)
    is_sum = ufunc in (np.add, np.subtract)
    if not is_sum:
        instead = "write t[index] = ..., where the index names no element twice"
        refuse_device_arrays(f"numpy.{ufunc.__name__}.at", (a,), instead)
    if write_unrecorded(lambda array, *values: _write_bare_at(ufunc, array, index, *values), a, *values):
        return
    if is_sum:
        (value,) = values
        write_at_index(add_at_, add_at, a, index, value if ufunc is np.add else -array_like(value))
        return
    numbers = np.arange(a._data.size).reshape(a._data.shape)[index]
    flat = np.reshape(numbers, -1)
    spread = [reshape(np.broadcast_to(array_like(value), np.shape(numbers)), -1) for value in values]
    for chosen in _rounds(flat):
        places = np.unravel_index(flat[chosen], a._data.shape)
        setitem(a, places, ufunc(pick(a, places), *(getitem(value, chosen) for value in spread)))


def _write_bare_at(ufunc: np.ufunc, array: Any, index: Any, *values: Any) -> None:
    """Run a ufunc in place on the elements of an array at indices; of other libraries' arrays, a sum or difference."""
    if array.__class__ is np.ndarray or not is_device_array(array):
        ufunc.at(array, index, *values)
    else:
        (value,) = values
        add_at(array, index, value if ufunc is np.add else np.negative(value))


def _rounds(numbers: Any) -> list[Any]:
    """Return the positions of all first occurrences of a number, of all second ones, and so on."""
    order = np.argsort(numbers, kind="stable")
    arranged = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], arranged[1:] != arranged[:-1]))) if arranged.size else arranged
    lengths = np.diff(np.append(starts, arranged.size))
    rank = np.empty(numbers.size, np.intp)
    rank[order] = np.arange(numbers.size) - np.repeat(starts, lengths)
    return [np.flatnonzero(rank == turn) for turn in range(int(lengths.max(initial=0)))]


METHODS["at"] = write_at


# NumPy's functions.


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Copy an array into another one, where a mask says so."""
    _needs_array(dst, "copyto")
    if isinstance(src, (list, tuple)):
        src, _ = placed(src, dst)
    copy_into(dst, src, where, lambda target, source: np.copyto(target, source, casting, raw(where)))


def _needs_array(target: Any, name: str) -> None:
    if not isinstance(target, (TensorBase, np.ndarray)):
        raise ArgumentTypeError(f"{name} writes into a tensor or an array, not {describe(target)}")


def _plainly(name: str, function: Callable[..., Any], target: Any, *others: Any) -> bool:
    """Run a function that writes into `target` on bare arrays, unless that must be recorded; tell whether it ran."""
    _needs_array(target, name)
    for other in others:
        refuse_masked(other)
    # Another library's function takes less: it is done by an index.
    return not is_device_array(raw(target)) and write_unrecorded(function, target, *others)


def _repeated(values: Any, places: Any, target: Any, casting: Any) -> Any:
    """Return the values at places in an endless repetition of `values`, taken as one row.

    Raises:
        TypeError: they cannot be cast to the dtype of the target, as in NumPy.
    """
    if not isinstance(values, (TensorBase, np.ndarray, np.generic)) and not is_device_array(values):
        # NumPy makes arrays of that dtype from numbers and lists, which fails for complex numbers in a real dtype.
        values = as_like(np.asarray(values, target.dtype), raw(target))
    elif not np.can_cast(raw(values).dtype, target.dtype, casting):
        raise ArgumentTypeError(
            f"cannot write values of dtype {raw(values).dtype} into an array of dtype {target.dtype} according to the "
            f"rule {casting!r}: write values.astype({target.dtype.name!r})"
        )
    row = reshape(array_like(values), -1)
    return getitem(row, places % row.size)


def _write_repeated(a: Any, places: Any, values: Any, turns: Any, casting: Any) -> None:
    """Write values, in an endless repetition of which those at `turns` count, at places in `a` taken as one row.

    As in NumPy, an empty array of values writes nothing.

    Raises:
        TypeError: they cannot be cast to the dtype of `a`, as in NumPy.
    """
    if not math.prod(np.shape(raw(values))):
        _write_at(a, places[:0], zeros_like(raw(a), (0,)))
    else:
        _write_at(a, places, _repeated(values, turns, a, casting))


def _write_at(a: Any, places: Any, values: Any) -> None:
    """Write values at places in `a` taken as one row."""
    if a.ndim:
        setitem(a, np.unravel_index(places, a.shape), values)
    elif places.size:
        # There is one place only: the last value counts.
        setitem(a, ..., getitem(np.broadcast_to(array_like(values), places.shape), -1))
    else:
        # It writes nothing; NumPy raises here if the array is read-only.
        a._data[False] = 0


def put(a: Array, ind: Any, v: Any, mode: Any = "raise") -> None:
    """Write values, repeated where they are too few, at indices into `a` taken as one row."""
    if _plainly("put", lambda target, ind, v: np.put(target, ind, v, mode), a, ind, v):
        return
    places = _places(np.reshape(raw(ind), -1).astype(np.intp), math.prod(a.shape), mode)
    _write_repeated(a, places, v, np.arange(places.size), "unsafe")


def _places(indices: Any, size: int, mode: str) -> Any:
    """Return indices into a row of `size` elements, counted from its start."""
    if mode == "wrap":
        return indices % size
    if mode == "clip":
        return indices.clip(0, size - 1)
    outside = (indices < -size) | (indices >= size)
    if outside.any():
        raise IndexError(f"index {indices[outside][0]} is out of bounds for {size} elements in a row")
    return np.where(indices < 0, indices + size, indices)


def place(arr: Array, mask: Any, vals: Any) -> None:
    """Write values, repeated where they are too few, into the elements where a mask holds, one after another."""
    if _plainly("place", np.place, arr, mask, vals):
        return
    chosen = np.reshape(as_array(raw(mask)).astype(bool), arr.shape)
    setitem(arr, chosen, _repeated(vals, np.arange(int(np.count_nonzero(chosen))), arr, "safe"))


def putmask(a: Array, mask: Any, values: Any) -> None:
    """Write the elements of `values`, repeated where too short, to the same places where a mask holds."""
    if _plainly("putmask", np.putmask, a, mask, values):
        return
    places = np.flatnonzero(np.reshape(as_array(raw(mask)).astype(bool), a.shape))
    _write_repeated(a, places, values, places, "safe")


def put_along_axis(arr: Array, indices: Any, values: Any, axis: int | None) -> None:
    """Write values into each row of `arr` along an axis, at its own row of indices."""
    put_bare = functools.partial(np.put_along_axis, axis=axis)
    if _plainly("put_along_axis", put_bare, arr, indices, values):
        return
    places = np.copy(raw(indices))
    if axis is None:
        _write_at(arr, _places(places, math.prod(arr.shape), "raise"), values)
    else:
        setitem(arr, grid_along(places, arr.shape, axis_index(axis, arr.ndim)), values)


def fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    """Write values, repeated where they are too few, onto the main diagonal."""
    if _plainly("fill_diagonal", lambda target, val: np.fill_diagonal(target, val, wrap), a, val):
        return
    if a.ndim == 2:
        last = math.prod(a.shape) if wrap else min(a.shape[1] ** 2, math.prod(a.shape))
        places = np.arange(0, last, a.shape[1] + 1)
    else:
        # NumPy refuses arrays without a main diagonal here; it writes into one of all places.
        np.fill_diagonal(np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), a.shape, (0,) * a.ndim), 0)
        places = np.arange(a.shape[0]) * sum(math.prod(a.shape[axis + 1 :]) for axis in range(a.ndim))
    _write_repeated(a, places, val, np.arange(places.size), "unsafe")


RULES.update(
    {
        np.copyto: copyto,
        np.put: put,
        np.place: place,
        np.putmask: putmask,
        np.put_along_axis: put_along_axis,
        np.fill_diagonal: fill_diagonal,
    }
)
