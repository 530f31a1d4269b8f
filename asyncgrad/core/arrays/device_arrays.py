"""What device arrays, those of another library such as CuPy, take otherwise than NumPy's.

Rules call these functions for such arrays only, so that NumPy's own take no longer. What a library lacks is made of
what it has, on the array's own device, or refused by name; nothing is computed on the host instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from numbers import Number
from types import MethodType
from typing import Any

import numpy as np

from ...errors import ArgumentTypeError, DeviceError, IndexRangeError
from ..settings.arguments import describe, takes
from ..settings.unawaited import refuse_unawaited
from .axes import array_like, tensor_like
from .device_functions import own_function
from .tensor_base import TensorBase
from .values import arange_like, as_like, is_device_array, raw

__all__ = [
    "add_at",
    "as_dtype",
    "axes_led_by",
    "check_places",
    "choice_numbers",
    "clipped",
    "explain_refusal",
    "eye_like",
    "is_full_slice",
    "is_mask",
    "largest_size",
    "name_shapes",
    "named",
    "placed",
    "refuse_device_arrays",
    "rename_refusal",
    "taken",
    "unavailable",
]

#: What to write where the device of a tensor lacks a function: whether others may do, and where not.
_ELSEWHERE = "move the tensor by t.to('cpu')"
_OTHERWISE = f"write it as functions that are, or {_ELSEWHERE}"


def unavailable(name: str, place: Any, why: str = "", instead: str | None = None) -> str:
    """Return the words for a function that the device of an array does not have, or not for such arguments.

    Args:
        name: of the function.
        place: the device, or what is known of it.
        why: what goes on the sentence, with its comma or blank.
        instead: what to write; None for other functions or another device, or, with `why`, another device.

    Example:
        >>> from asyncgrad.core.arrays.device_arrays import unavailable
        >>> unavailable("numpy.spacing", "cuda:0")
        "numpy.spacing is not available on cuda:0: write it as functions that are, or move the tensor by t.to('cpu')"
    """
    return f"{name} is not available on {place}{why}: {instead or (_ELSEWHERE if why else _OTHERWISE)}"


def refuse_device_arrays(name: str, operands: Sequence[Any], instead: str) -> None:
    """Raise if an operand, a tensor or an array, is of another library's type, for which there is no such function.

    Args:
        name: of the function.
        operands: its arguments.
        instead: what to write.

    Raises:
        ArgumentTypeError: one is.
    """
    for operand in operands:
        array = raw(operand)
        if array.__class__ is not np.ndarray and is_device_array(array):
            place = operand._device if isinstance(operand, TensorBase) else f"a {type(array).__module__} array"
            raise ArgumentTypeError(unavailable(name, place, instead=instead))


def _refuse_uncalled(name: str, operands: Sequence[Any], error: Exception) -> None:
    # Asked for what an array has, a method asks its function: that is what an AttributeError names.
    method = next((one for one in operands if isinstance(one, MethodType)), None)
    if method is not None and isinstance(error, (TypeError, AttributeError)):
        what = f"the method {method.__name__} in place of its result: write x.{method.__name__}()"
        raise ArgumentTypeError(f"{name} got {what}") from error


def _refuse_attribute(name: str, operands: Sequence[Any], error: AttributeError, parameters: Sequence[str]) -> None:
    for index, operand in enumerate(operands):
        if error.obj is not operand or isinstance(operand, (TensorBase, np.ndarray)):
            continue
        parameter = parameters[index] if parameters else "x"
        hint = ": does the function that should return it end without return?" if operand is None else ""
        if isinstance(operand, (int, float, complex, list, tuple)):
            hint = f": write np.array({parameter})"
        elif callable(operand):
            hint = ": call it, and pass what it returns"
        wanted = f"a tensor or an array as {parameter}" if parameters else "tensors and arrays"
        raise ArgumentTypeError(f"{name} takes {wanted}, not {describe(operand)}{hint}") from error


def _refuse_no_numbers(name: str, operands: Sequence[Any], error: Exception, parameters: Sequence[str]) -> None:
    for parameter, operand in zip(parameters, operands, strict=False):
        if isinstance(operand, np.ndarray) and operand.dtype.kind not in "biufc":
            raise ArgumentTypeError(f"{name} takes numbers, and {parameter} is of dtype {operand.dtype}") from error


def explain_refusal(name: str, operands: Sequence[Any], error: Exception, parameters: Sequence[str] = ()) -> None:
    """Replace the error for an operand that a function is not made for by one that says what to write instead.

    Args:
        name: of the function.
        operands: its arguments.
        error: what calling it raised.
        parameters: the names of the operands, for a function whose parameters users know.

    Raises:
        ArgumentTypeError: the library of a tensor's array lacks the function, or an operand is no number.
        ArgumentTypeError: an operand is a coroutine, or holds one, or a method, in place of its result.
        ArgumentTypeError: an operand is no array at all, and the function has asked it for what arrays have.
        DeviceError: an operand is an array of NumPy's, or a list, and another one's is another library's.
    """
    refuse_unawaited(name, operands, error)
    _refuse_uncalled(name, operands, error)
    if isinstance(error, AttributeError):
        _refuse_attribute(name, operands, error, parameters)
        return
    _refuse_no_numbers(name, operands, error, parameters)
    on_device = next(
        (one for one in _flat(operands) if isinstance(one, TensorBase) and is_device_array(one._data)), None
    )
    said = str(error) if isinstance(error, TypeError) else ""
    if said.startswith(_CONVERTED) and any(isinstance(raw(one), np.ndarray) for one in _flat(operands)):
        said = _MIXED[0]
    if said.startswith(_UFUNC_LACKING) and any(isinstance(one, (list, tuple)) for one in operands):
        # A ufunc takes no list beside such an array, whichever ufunc it is.
        said = _MIXED[0]
    if any(words in said for words in _MIXED):
        arrays = [one for one in _flat(operands) if isinstance(one, (TensorBase, np.ndarray))]
        found = next((one for one in arrays if isinstance(raw(one), np.ndarray)), None)
        if isinstance(found, TensorBase):
            what = f"a tensor of shape {found._data.shape} on '{found._device}': write t.to(device) first"
        else:
            what = "a list" if found is None else f"a NumPy array of shape {found.shape}"
            what += ": write ag.tensor(..., device=t.device) of it first"
        known = "an array of another library" if on_device is None else f"a tensor on '{on_device._device}'"
        raise DeviceError(f"{name} got {known} and {what}") from error
    if on_device is None:
        return
    if type(error) is NotImplementedError:
        # The library's own words do not name the function.
        raise ArgumentTypeError(unavailable(name, on_device._device, f" for such arguments ({error})")) from error
    if said.startswith(_LACKING):
        others = [one for one in operands if not isinstance(one, (TensorBase, np.ndarray, Number))]
        if others and said.startswith(_UFUNC_LACKING):
            raise ArgumentTypeError(
                takes(f"{name} of a tensor on {on_device._device}", "tensors and numbers", others[0])
            ) from error
        raise ArgumentTypeError(unavailable(name, on_device._device)) from error


def rename_refusal(name: str, operands: Sequence[Any], error: DeviceError) -> None:
    """Replace an error of `explain_refusal` for an inner function by one that names the function that was called.

    Raises:
        DeviceError: an array of NumPy's among the operands has been refused.
    """
    refusal = error.__cause__
    if isinstance(refusal, TypeError) and any(isinstance(one, np.ndarray) for one in _flat(operands)):
        explain_refusal(name, operands, refusal)


def name_shapes(name: str, operands: Iterable[Any], error: Exception) -> None:
    """Add to what NumPy says of shapes and axes that do not fit which function and which shapes these are."""
    if type(error) is not np.exceptions.AxisError and (
        type(error) not in (ValueError, IndexError, np.linalg.LinAlgError) or len(error.args) != 1
    ):
        return
    # The function that was called, not one that it calls, is what the user knows.
    said = _NAMED.sub("", str(error))
    arrays = [operand for operand in _flat(operands) if isinstance(operand, (TensorBase, np.ndarray))]
    shapes = [str(raw(array).shape) for array in arrays]
    is_named = said.startswith("numpy.") or all(part in said for part in (name.rpartition(".")[2], *shapes))
    if is_named or not any(word in said for word in _OF_SHAPES):
        return
    what = "an array of shape" if len(shapes) == 1 else "arrays of shapes"
    prefix = f"{name} of {what} {' and '.join(shapes)}"
    if isinstance(error, np.exceptions.AxisError) and error.axis is not None and error.ndim is not None:
        # It says the axis by itself, after a prefix, such as the name of the argument.
        argument = said.removesuffix(f"axis {error.axis} is out of bounds for array of dimension {error.ndim}")
        np.exceptions.AxisError.__init__(error, error.axis, error.ndim, f"{prefix}: {argument}".removesuffix(": "))
    else:
        error.args = (f"{prefix}: {said}",)


#: How `name_shapes` begins an error.
_NAMED = re.compile(r"^[\w.]+ of (an array of shape|arrays of shapes) .*?: ")
#: One of them is in what NumPy says where shapes do not fit.
_OF_SHAPES = ("shape", "broadcast", "dimension", "aligned", "axes", "assign", "squeeze", "too deep")


def _flat(operands: Iterable[Any]) -> Iterator[Any]:
    for operand in operands:
        if isinstance(operand, (list, tuple)):
            yield from _flat(operand)
        else:
            yield operand


#: How NumPy begins what it says of a function, and of a ufunc, that an array's type does not implement.
_UFUNC_LACKING = "operand type(s) all returned NotImplemented"
_LACKING = ("no implementation found for", _UFUNC_LACKING)
#: What CuPy says of an array of NumPy's, and of a list.
_MIXED = (
    *(f"Unsupported type <class '{name}'>" for name in ("numpy.ndarray", "list", "tuple")),
    "got numpy.ndarray)",
    "Only cupy arrays can be concatenated",
)
#: What it says where it would have to make an array of NumPy's of its own, for a function of NumPy's.
_CONVERTED = "Implicit conversion to a NumPy array"


def eye_like(other: Any, side: int, dtype: Any) -> Any:
    """Return an identity matrix of the type and device of the array `other`."""
    other = raw(other)
    if other.__class__ is np.ndarray or not is_device_array(other):
        return np.eye(side, dtype=dtype)
    # np.eye(like=) passes on a keyword that CuPy does not know.
    return np.identity(side, dtype, like=other)


def placed(*values: Any) -> list[Any]:
    """Return values as arrays or tensors; lists and numbers beside those whose arrays are of another library's type.

    An array of NumPy's stays where it is, and is refused beside those, as a tensor on another device is.
    """
    arrays = list(map(array_like, values))
    others = [one for one in arrays if raw(one).__class__ is not np.ndarray and is_device_array(raw(one))]
    if not others:
        return arrays
    # A tensor, if there is one: an operator of another library's array refuses a tensor on its right.
    template = next((one for one in others if isinstance(one, TensorBase)), others[0])
    return [
        array if isinstance(value, (TensorBase, np.ndarray)) else tensor_like(as_like(array, raw(template)), template)
        for value, array in zip(values, arrays, strict=True)
    ]


def is_mask(item: Any) -> bool:
    """Tell whether part of an index is an array of booleans."""
    return (isinstance(item, np.ndarray) or is_device_array(item)) and item.dtype.kind == "b"


def named(found: Any, kind: Any) -> Any:
    """Return the results of a function as NumPy's named tuple, where another library gives a plain one."""
    return kind(*found) if found.__class__ is tuple else found


def largest_size(values: Any) -> Any:
    """Return the largest absolute value along the last axis, which is kept with length 1; 0 where there are none."""
    sizes = np.abs(values)
    return np.max(sizes, axis=-1, keepdims=True) if values.shape[-1] else np.sum(sizes, axis=-1, keepdims=True)


def as_dtype(array: Any, dtype: Any, casting: Any, order: str = "K", copy: bool = True) -> Any:
    """Return an array in another dtype, as NumPy's `astype` does.

    Raises:
        ArgumentTypeError: the casting rule forbids it, or the array's library has no such dtype.
    """
    if not is_device_array(array):
        return array.astype(dtype, order, casting, True, copy)
    if casting != "unsafe" and not np.can_cast(array.dtype, dtype, casting):
        raise ArgumentTypeError(
            f"cannot cast an array of dtype {array.dtype} to {np.dtype(dtype)} according to the rule {casting!r}: "
            f"write array.astype({np.dtype(dtype).name!r})"
        )
    try:
        return array.astype(dtype, order=order, copy=copy)
    except ValueError as error:
        raise ArgumentTypeError(
            f"the device of an array of dtype {array.dtype} has no dtype {np.dtype(dtype)} ({error}): first move it by "
            "t.to('cpu')"
        ) from error


def clipped(a: Any, low: Any, high: Any, dtype: Any) -> Any:
    """Return an array kept between two bounds, as `np.clip` does."""
    if dtype is not None:
        a = as_dtype(a, dtype, "same_kind", copy=False)
    if a.dtype.kind in "iu":
        # As in NumPy, a number that the dtype is too narrow for bounds nothing.
        numbers = np.iinfo(a.dtype)
        low = None if isinstance(low, int) and low < numbers.min else low
        high = None if isinstance(high, int) and high > numbers.max else high
    # Two ufuncs: they pass on a bound that is nan, which clip of CuPy does not.
    above = a if low is None else np.maximum(a, low)
    result = above if high is None else np.minimum(above, high)
    return result.copy() if result is a else result


def check_places(index: Any, shape: tuple[int, ...]) -> None:
    """Raise if an array of NumPy's in an index names no element: CuPy takes another one instead.

    Arrays of a device are not looked at, since the host would have to wait for them.

    Raises:
        IndexRangeError: it names an element that there is not.
    """
    items = index if isinstance(index, tuple) else (index,)
    axis = 0
    for item in items:
        if item is Ellipsis:
            axis += len(shape) - sum(map(_axes_of, items))
            continue
        if isinstance(item, np.ndarray) and item.dtype.kind in "iu" and item.size and axis < len(shape):
            low, high, length = int(item.min()), int(item.max()), shape[axis]
            if low < -length or high >= length:
                raise IndexRangeError(
                    f"index {low if low < -length else high} is out of bounds for axis {axis} with size {length}"
                )
        axis += _axes_of(item)


def taken(a: Any, indices: Any, axis: int, mode: str) -> Any:
    """Return the elements at indices along an axis, as `np.take` does; no index on a device is checked."""
    if mode == "raise":
        check_places((*(slice(None),) * (axis % a.ndim), indices), a.shape)
    elif mode == "clip":
        indices = np.clip(indices, 0, a.shape[axis] - 1)
    elif mode == "wrap":
        indices = indices % a.shape[axis]
    return np.take(a, indices, axis)


def choice_numbers(names: Any, count: int, mode: str) -> Any:
    """Return which of `count` choices each element names, as `np.choose` does.

    Raises:
        ValueError: an element names none, and `mode` is "raise".
    """
    if mode == "wrap":
        return names % count
    if mode == "raise" and ((names < 0) | (names >= count)).any():
        raise ValueError(f"choose got a number that names none of {count} choices")
    return np.clip(names, 0, count - 1)


def add_at(target: Any, index: Any, value: Any, is_zero: bool = False) -> None:
    """Add a value to an array at an advanced index, as often as the index names each element, as `np.add.at` does.

    Args:
        target: the array.
        index: without Tensors in it.
        value: of a shape that broadcasts to that of `target[index]`.
        is_zero: whether `target` is known to have only zeros yet.
    """
    if target.__class__ is np.ndarray or not is_device_array(target):
        np.add.at(target, index, value)
        return
    shape = target.shape
    before, along, places = _rows_named(index, target)
    if not places.size or not target.size:
        return
    value, _ = placed(value, target)
    spread = (*shape[:before], *places.shape, *shape[before + along :])
    if value.shape != spread:
        value = np.broadcast_to(value, spread)
    if value.dtype != target.dtype:
        value = value.astype(target.dtype)
    in_place = target.flags.c_contiguous
    total = target if in_place else target.copy("C")
    outer, rows = math.prod(shape[:before]), math.prod(shape[before : before + along])
    if own_function("add_rows_at", total)(total, places, value, outer, rows, is_zero) is None:
        _add_rows_by_library(total, places, value, outer, rows)
    if not in_place:
        target[...] = total


def _add_rows_by_library(total: Any, places: Any, value: Any, outer: int, rows: int) -> None:
    """Add rows at places to each of `outer` blocks of an array in C order, by the function of the array's library."""
    if outer > 1:
        places = arange_like(total, outer).reshape(-1, 1) * rows + np.reshape(places, -1) % rows
    sums, added = total.reshape(outer * rows, -1), value.reshape(places.size, -1)
    if sums.dtype.kind == "c":
        # CuPy's add.at takes no complex numbers: their parts, side by side, are twice as many real ones.
        part = sums.real.dtype
        sums, added = sums.view(part), added.astype(sums.dtype, order="C").view(part)
    # One row of places is the only index that CuPy's add.at takes.
    np.add.at(sums, places.reshape(-1), added)


def _rows_named(index: Any, target: Any) -> tuple[int, int, Any]:
    """Return how many axes an index leaves whole first, over how many it goes, and which rows of these it names.

    The axes that follow are whole, too.
    """
    shape = target.shape
    items = list(index) if isinstance(index, tuple) else [index]
    for place, item in enumerate(items):
        if item is Ellipsis:
            items[place : place + 1] = [slice(None)] * (len(shape) - sum(map(_axes_of, items)))
            break
    while items and is_full_slice(items[-1]):
        items.pop()
    before = 0
    while before < len(items) and is_full_slice(items[before]):
        before += 1
    items, lengths = items[before:], shape[before:]
    if not all(map(_is_integral, items)) or all(item.__class__ is int for item in items):
        leading = axes_led_by(index, len(shape))
        lead = shape[:leading]
        return 0, leading, arange_like(target, math.prod(lead)).reshape(lead)[index]
    if len(items) == 1:
        return before, 1, as_like(items[0], target)
    places: Any = None
    for item, length in zip(items, lengths, strict=False):
        # A small dtype does not hold the product; of an axis of length 0 no element is named.
        number = item if item.__class__ is int else as_like(item, target).astype(np.int64, copy=False)
        number = number % max(length, 1)
        places = number if places is None else places * length + number
    return before, len(items), places


def is_full_slice(item: object) -> bool:
    """Tell whether part of an index is `:`."""
    return isinstance(item, slice) and item == slice(None)


def _is_integral(item: Any) -> bool:
    """Tell whether part of an index is an integer or an array of such."""
    return item.__class__ is int or (
        (isinstance(item, np.ndarray) or is_device_array(item)) and item.dtype.kind in "iu"
    )


def axes_led_by(index: Any, ndim: int) -> int:
    """Return how many leading axes an index is about; of the others it takes everything."""
    count = 0
    for item in index if isinstance(index, tuple) else (index,):
        if item is Ellipsis or isinstance(item, (bool, np.bool_)):
            return ndim
        count += _axes_of(item)
    return count


def _axes_of(item: Any) -> int:
    """Return how many axes a part of an index is about; 0 for an Ellipsis."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return 0
    return item.ndim if is_mask(item) else 1
