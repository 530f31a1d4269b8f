"""Helpers for arguments: unwrap the arrays of tensors, and check types, dtypes and options."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.current_streams import follow_streams
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import as_array, is_device_array
from ...core.graph.saved import sharing_version
from ...core.settings.arguments import describe, must_be, takes, truth, whole_number
from ...core.settings.context import GRAD_MODE
from ...core.settings.unawaited import refuse_unawaited
from ...core.views.writing import write
from ...errors import ArgumentError, ArgumentTypeError, IndexRangeError, MissingDerivativeError

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "REDUCTIONS",
    "array_of",
    "as_numbers",
    "as_saved",
    "axis_of",
    "check_arrays",
    "check_real",
    "check_reduction",
    "common_shape",
    "constant",
    "flat",
    "floating",
    "in_floats",
    "in_place",
    "instead_of_array",
    "is_array",
    "is_length",
    "is_outside",
    "lengths",
    "operand",
    "operands",
    "option",
    "pair",
    "real_floating",
    "records",
    "saved_constant",
    "shapes_of",
    "single",
    "triple",
    "wrong_dtype",
]


REDUCTIONS = ("none", "mean", "sum")


def array_of(value: Any) -> Any:
    """Return the bare array under a tensor, and anything else as an array.

    A function that computes with it before its first operation on tensors does so on the current stream.
    """
    if isinstance(value, TensorBase):
        value = value._data
    if value.__class__ is np.ndarray:
        return value
    if value is None:
        raise ArgumentTypeError(f"functions of nn take tensors or arrays, not None: {_FORGOTTEN}")
    follow_streams()
    array = as_array(value)
    if array.dtype.kind == "O":
        refuse_unawaited("a function of nn", (array,))
    return array


#: Where a None most likely comes from.
_FORGOTTEN = "does the function that should return it end without return?"


def check_arrays(function: str, **arguments: Any) -> None:
    """Raise if one of the arguments is None or holds something else than numbers.

    Raises:
        ArgumentTypeError: one is; the message names the function and the argument.
    """
    for name, value in arguments.items():
        if value is None:
            raise ArgumentTypeError(f"nn.{function} takes a tensor or an array as {name}, not None: {_FORGOTTEN}")
        if not isinstance(value, TensorBase) and array_of(value).dtype.kind not in _NUMBERS:
            raise _no_numbers(f"nn.{function}", name, array_of(value))


def shapes_of(function: str, **arguments: Any) -> list[tuple[int, ...]]:
    """Return the shapes of arguments that hold numbers.

    Raises:
        ArgumentTypeError: one does not; the message names the function and the argument.
    """
    shapes = []
    for name, value in arguments.items():
        if isinstance(value, TensorBase):
            shapes.append(value._data.shape)
        else:
            check_arrays(function, **{name: value})
            shapes.append(array_of(value).shape)
    return shapes


#: The kinds of dtypes of numbers, and of truth values, which count as such.
_NUMBERS = "fciub"
_REAL = "fiub"


def wrong_dtype(function: str, name: str, array: Array) -> ArgumentTypeError:
    """Return the error for an argument of a function of real numbers that holds complex ones, or no numbers."""
    if array.dtype.kind == "c":
        return _complex_error(function, name, array)
    return _no_numbers(f"nn.{function}", name, array)


def _no_numbers(function: str, name: str, array: Array) -> ArgumentTypeError:
    refuse_unawaited(function, (array,))
    if array.dtype.kind == "O" and callable(found := next(np.asarray(array).flat, None)):
        instead = "call it, and pass what it returns"
        return ArgumentTypeError(f"{function} takes numbers as {name}, not {describe(found)}: {instead}")
    hint = f"; if it is None, {_FORGOTTEN}" if array.dtype.kind == "O" else ""
    return ArgumentTypeError(f"{function} takes numbers, and {name} is of dtype {array.dtype}{hint}")


def option(function: str, name: str, value: Any) -> Any:
    """Return a number that is an option as one of Python's, which does not decide the dtype of a result.

    A tensor is returned as it is.

    Raises:
        ArgumentTypeError: it is no number; the message names the function and the option.
    """
    if value.__class__ is float or value.__class__ is int:
        return value
    if isinstance(value, np.generic) or (value.__class__ is np.ndarray and value.ndim == 0):
        value = value.item()
    if value is None or isinstance(value, (str, bytes, complex, list, tuple, dict)):
        raise ArgumentTypeError(f"nn.{function}: {must_be(name, 'a number', value)}")
    return value


def in_floats(*values: Any) -> tuple[Any, ...]:
    """Return the arrays of a loss: those of whole numbers in the floating dtype of the others, if there is one.

    NumPy's promotion would be to float64 wherever a float32 meets a label or a count. None stays None, and lists become
    arrays.
    """
    first = None
    for value in values:
        if value is None:
            continue
        if value.__class__ is list or value.__class__ is tuple:
            return in_floats(*map(operand, values))
        dtype = value._data.dtype if isinstance(value, TensorBase) else array_of(value).dtype
        if first is None:
            first = dtype
        elif dtype is not first and dtype != first:
            break
    else:
        return values
    dtypes = [None if value is None else array_of(value).dtype for value in values]
    floats = {dtype for dtype in dtypes if dtype is not None and dtype.kind in "fc"}
    if not floats:
        return values
    common = np.result_type(*floats)
    return tuple(
        value if dtype is None or dtype.kind not in "iub" else _in_dtype(value, common)
        for value, dtype in zip(values, dtypes, strict=True)
    )


def _in_dtype(value: Any, dtype: Any) -> Any:
    number: Any = value if isinstance(value, TensorBase) else array_of(value)
    return number.astype(dtype)


def operand(value: Any) -> Any:
    """Return a list of numbers as an array, and anything else as it is."""
    return array_of(value) if value.__class__ is list or value.__class__ is tuple else value


def operands(*values: Any) -> tuple[Any, ...]:
    """Return lists of numbers as arrays, and anything else as it is."""
    for value in values:
        if value.__class__ is list or value.__class__ is tuple:
            return tuple(map(operand, values))
    return values


def as_numbers(value: Any) -> Any:
    """Return truth values, which have no negative, as float64, a list as an array, and anything else as it is."""
    value = operand(value)
    return value.astype(np.float64) if array_of(value).dtype.kind == "b" else value


def common_shape(function: str, **arguments: Any) -> tuple[int, ...]:
    """Return the shape to which arguments are broadcast; those that are None do not count.

    Raises:
        ArgumentError: there is none; the message names the arguments and their shapes.
    """
    shapes = {name: array_of(value).shape for name, value in arguments.items() if value is not None}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ArgumentError(f"{function} takes arguments of shapes that broadcast, not {found}") from None


def lengths(name: str, value: Any) -> tuple[int, ...]:
    """Return a shape, given as an int or as a sequence of them.

    Raises:
        ArgumentTypeError: it is neither; the message names the argument.
    """
    if is_array(value):
        must = must_be(name, "an int or a sequence of ints", value)
        raise ArgumentTypeError(f"{must}{instead_of_array(name, value)}")
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return tuple([whole_number(one, name) for one in value])
    return (whole_number(value, name),)


def axis_of(function: str, shape: tuple[int, ...], axis: Any) -> int:
    """Return the number of an axis from 0 on; that of a number without axes, which may be 0 or -1, is 0.

    Raises:
        IndexRangeError: there is no such axis.
        ArgumentTypeError: it is no int.
    """
    count = max(1, len(shape))
    if isinstance(axis, (bool, np.bool_)) or not isinstance(axis, (int, np.integer)):
        raise ArgumentTypeError(f"nn.{function}: {must_be('axis', 'an int', axis)}")
    if not -count <= axis < count:
        raise IndexRangeError(
            f"nn.{function} of an array of shape {shape} takes an axis from {-count} to {count - 1}, not {axis}"
        )
    return int(axis) % count


def in_place(inplace: Any, function: Callable[..., Any], x: Any, *options: Any) -> Any:
    """Write what a function returns for x into x, and return x, if `inplace` is true; else return that result.

    Raises:
        ArgumentTypeError: `inplace` is no truth value, or x cannot be written into.
        InPlaceError: the write cannot be recorded.
    """
    if not truth(inplace, "inplace"):
        return function(x, *options)
    if not isinstance(x, (TensorBase, np.ndarray)) and not is_device_array(x):
        raise ArgumentTypeError(must_be("with inplace=True, x", "a tensor or an array", x))
    # A copy, since a derivative may need what is written over.
    copy: Any = x
    return write(x, function(copy.clone() if isinstance(x, TensorBase) else copy.copy(), *options))


def constant(function: str, name: str, value: Any) -> Any:
    """Return the bare array of an argument with respect to which the function has no derivative.

    Raises:
        MissingDerivativeError: the argument requires grad, and the call is recorded.
    """
    if records(value):
        raise MissingDerivativeError(
            f"nn.{function} has no derivative with respect to {name}, which requires grad: pass {name}.detach()"
        )
    return array_of(value)


def floating(array: Array, function: str = "a function of nn", name: str = "its argument") -> Any:
    """Return a floating or complex array as it is, and any other in float64; function and name are for the error.

    Raises:
        ArgumentTypeError: it does not hold numbers.
    """
    kind = array.dtype.kind
    if kind in "fc":
        return array
    if kind not in _NUMBERS:
        raise _no_numbers(function, name, array)
    return array.astype(np.float64)


def _complex_error(function: str, name: str, array: Array) -> ArgumentTypeError:
    """Return the error for a complex argument of a function of real numbers."""
    return ArgumentTypeError(
        f"nn.{function} is a function of real numbers, and {name} is of dtype {array.dtype}: "
        f"pass {name}.real and {name}.imag to it one by one, or {name}.real alone"
    )


#: The arguments of functions that may be None.
_OPTIONAL = {"weight", "pos_weight", "bias", "running_mean", "running_var"}


def check_real(function: str, **arguments: Any) -> None:
    """Raise if one of the arguments is complex, or None where that has no meaning.

    Raises:
        ArgumentTypeError: one is; the message names the function and the argument.
    """
    for name, value in arguments.items():
        if value is None and name not in _OPTIONAL:
            check_arrays(function, **{name: value})
        if value is not None and array_of(value).dtype.kind not in _REAL:
            raise wrong_dtype(function, name, array_of(value))


def real_floating(function: str, name: str, array: Array) -> Any:
    """Return a floating array as it is, and any other real one in float64.

    Raises:
        ArgumentTypeError: it is complex; the message names the function and the argument.
    """
    kind = array.dtype.kind
    if kind == "f":
        return array
    if kind not in _REAL:
        raise wrong_dtype(function, name, array)
    return array.astype(np.float64)


def flat(values: Any, x: Any) -> Any:
    """Return an array of the shape of x as a function of x with a derivative of 0, whatever the gradient is."""
    # Not x * 0, whose derivative is NaN where the gradient is.
    return np.where(np.zeros_like(array_of(x), dtype=bool), x, values)


def records(value: Any) -> bool:
    """Return whether a call on `value` is recorded: it requires grad, and grad mode is on."""
    return isinstance(value, TensorBase) and value._requires_grad() and GRAD_MODE.get()


def saved_constant(array: Any, source: Any, beside: Any) -> Any:
    """Return the array of a constant, `source`, as a node saves it: see `sharing_version`.

    It is a tensor only where the call on `beside` is recorded: where no argument is a tensor, the result is none.
    """
    if not isinstance(source, TensorBase) or not records(beside):
        return array
    return source if array is source._data else sharing_version(array, source)


def as_saved(array: Any, like: Any) -> Any:
    """Return an array that a forward computes for the backward as a tensor without history, on the device of `like`.

    A tensor is saved like all saved tensors: it is released with the graph, and passed to saved-tensor hooks.
    """
    return type(like)(array, None, 0, like._device)


def is_outside(indices: Any, count: int) -> Any:
    """Return where an array of integers holds a number that is not from 0 to `count - 1`, without waiting for it."""
    # As numbers without a sign, negative ones are the largest: one comparison does for both.
    return indices.astype(np.int64, copy=False).view(np.uint64) >= count


def pair(name: str, value: Any, least: int) -> tuple[int, int]:
    """Return a height and a width, given as one int for both, alone or in a sequence, or as a pair.

    Each is at least `least`.

    Raises:
        ArgumentError: `value` is neither; the message names the argument.
    """
    both = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    both = both * 2 if len(both) == 1 else both
    if len(both) != 2 or not all(is_length(one, least) for one in both):
        raise ArgumentError(f"{name} must be an int of at least {least}, or a pair of them, not {_told(name, value)}")
    return int(both[0]), int(both[1])


def triple(name: str, value: Any, least: int) -> tuple[int, int, int]:
    """Return a depth, a height and a width, given as one int for all, alone or in a sequence, or as three.

    Each is at least `least`.

    Raises:
        ArgumentError: `value` is neither; the message names the argument.
    """
    each = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    each = each * 3 if len(each) == 1 else each
    if len(each) != 3 or not all(is_length(one, least) for one in each):
        raise ArgumentError(f"{name} must be an int of at least {least}, or three of them, not {_told(name, value)}")
    return int(each[0]), int(each[1]), int(each[2])


def single(name: str, value: Any, least: int) -> int:
    """Return an int of at least `least`, given as it is or as the only element of a sequence.

    Raises:
        ArgumentError: `value` is neither; the message names the argument.
    """
    only = value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value
    if not is_length(only, least):
        told = _told(name, value)
        raise ArgumentError(f"{name} must be an int of at least {least}, or a sequence of one, not {told}")
    return int(only)


def is_array(value: object) -> bool:
    """Return whether a value is a tensor or an array, which no size is given as: its elements may not be there yet."""
    return isinstance(value, (TensorBase, np.ndarray)) or is_device_array(value)


def instead_of_array(name: str, value: object) -> str:
    """Return what to write in place of an array, or of a sequence of arrays, that was given as sizes; "" for others."""
    if is_array(value):
        return f": write {name}.tolist()"
    if isinstance(value, (tuple, list)) and any(map(is_array, value)):
        return f": write [int(one) for one in {name}]"
    return ""


def _told(name: str, value: object) -> str:
    return f"{value!r}{instead_of_array(name, value)}"


def is_length(value: object, least: float) -> bool:
    """Return whether a value is an int of at least `least`. True is one in Python, and as a length a mistake."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)


def refuse_input(layer: str, *given: object) -> None:
    """Raise if a layer is made with the arrays that it should be called with.

    Raises:
        ArgumentTypeError: the first option that was given is an array.
    """
    if given and isinstance(given[0], (TensorBase, np.ndarray)):
        inputs = ", ".join(("input", "target")[: len(given)])
        raise ArgumentTypeError(
            takes(f"nn.{layer}", "options", given[0], f"write nn.{layer}()({inputs}), which calls what it returns")
        )


def check_reduction(reduction: str, allowed: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise unless `reduction` is valid for a loss.

    Raises:
        ArgumentError: it is not one of those allowed.
    """
    if reduction not in allowed:
        raise ArgumentError(f"reduction must be one of {', '.join(allowed)}, not {reduction!r}")
