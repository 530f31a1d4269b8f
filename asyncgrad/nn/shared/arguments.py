"""Helpers for arguments: unwrap the arrays of tensors, and check types, dtypes and options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.current_streams import follow_streams
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import as_array
from ...core.settings.context import GRAD_MODE
from ...errors import ArgumentError, ArgumentTypeError, MissingDerivativeError

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "REDUCTIONS",
    "array_of",
    "as_saved",
    "check_real",
    "check_reduction",
    "complex_error",
    "constant",
    "floating",
    "is_outside",
    "pair",
    "real_floating",
    "records",
    "single",
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
    follow_streams()
    return as_array(value)


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


def floating(array: Array) -> Any:
    """Return a floating or complex array as it is, and any other in float64."""
    return array if array.dtype.kind in "fc" else array.astype(np.float64)


def complex_error(function: str, name: str, array: Array) -> ArgumentTypeError:
    """Return the error for a complex argument of a function of real numbers."""
    return ArgumentTypeError(
        f"nn.{function} is a function of real numbers, and {name} is of dtype {array.dtype}: "
        f"pass {name}.real and {name}.imag to it one by one, or {name}.real alone"
    )


def check_real(function: str, **arguments: Any) -> None:
    """Raise if one of the arguments, which may be None, is complex.

    Raises:
        ArgumentTypeError: one is complex; the message names the function and the argument.
    """
    for name, value in arguments.items():
        if value is not None and array_of(value).dtype.kind == "c":
            raise complex_error(function, name, array_of(value))


def real_floating(function: str, name: str, array: Array) -> Any:
    """Return a floating array as it is, and any other real one in float64.

    Raises:
        ArgumentTypeError: it is complex; the message names the function and the argument.
    """
    kind = array.dtype.kind
    if kind == "f":
        return array
    if kind == "c":
        raise complex_error(function, name, array)
    return array.astype(np.float64)


def records(value: Any) -> bool:
    """Return whether a call on `value` is recorded: it requires grad, and grad mode is on."""
    return isinstance(value, TensorBase) and value._requires_grad() and GRAD_MODE.get()


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
    """Return a height and a width, given as one int for both or as a pair; each is at least `least`.

    Raises:
        ArgumentError: `value` is neither; the message names the argument.
    """
    both = value if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or not all(isinstance(one, (int, np.integer)) and one >= least for one in both):
        raise ArgumentError(f"{name} must be an int of at least {least}, or a pair of them, not {value!r}")
    return int(both[0]), int(both[1])


def single(name: str, value: Any, least: int) -> int:
    """Return an int of at least `least`, given as it is or as the only element of a sequence.

    Raises:
        ArgumentError: `value` is neither; the message names the argument.
    """
    only = value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value
    if not isinstance(only, (int, np.integer)) or only < least:
        raise ArgumentError(f"{name} must be an int of at least {least}, or a sequence of one, not {value!r}")
    return int(only)


def check_reduction(reduction: str, allowed: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise unless `reduction` is valid for a loss.

    Raises:
        ArgumentError: it is not one of those allowed.
    """
    if reduction not in allowed:
        raise ArgumentError(f"reduction must be one of {', '.join(allowed)}, not {reduction!r}")
