"""Checks of arguments that many functions share: of truth values, numbers and callables."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Coroutine
from typing import Any

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError

__all__ = ["PLAIN_TYPES", "check_function", "describe", "number", "truth", "whole_number"]

#: Types of operands that are no sparse matrices, for speed. Those of the arrays of devices are added.
PLAIN_TYPES: set[type] = {
    *(np.ndarray, float, int, bool, complex, list, tuple, type(None)),
    *(np.dtype(char).type for char in "?ilfdFD"),
}


def truth(value: Any, name: str) -> bool:
    """Return a boolean argument as a bool: True or False, also NumPy's, or the ints 1 and 0.

    Any other value is refused. It has a truth value in Python too ("false" is true), but is most likely a mistake.

    Args:
        value: the argument.
        name: the name of the argument in the error.

    Raises:
        ArgumentTypeError: the value is none of these.
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise ArgumentTypeError(f"{name} is True or False, not {describe(value)}")


def number(value: Any, name: str, least: float = -math.inf) -> float:
    """Return a numeric argument as a float.

    Args:
        value: the argument: a number of Python or NumPy, or an array or a tensor of one element.
        name: the name of the argument in the error.
        least: the smallest allowed value.

    Raises:
        ArgumentTypeError: the value is no number.
        ArgumentError: the value is NaN, infinite, or less than `least`.
    """
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise ArgumentTypeError(f"{name} must be a number, not {describe(value)}")
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name} must be a number, not {describe(value)}") from None
    except OverflowError:
        found = math.inf
    if not (math.isfinite(found) and found >= least):
        allowed = "a finite number" if least == -math.inf else f"a finite number of at least {least:g}"
        raise ArgumentError(f"{name} must be {allowed}, not {describe(value)}")
    return found


def whole_number(value: Any, name: str, least: float = -math.inf) -> int:
    """Return an integer argument, Python's or NumPy's, as an int.

    Args:
        value: the argument.
        name: the name of the argument in the error.
        least: the smallest allowed value.

    Raises:
        ArgumentTypeError: the value is no integer.
        ArgumentError: it is less than `least`.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(f"{name} must be an int, not {describe(value)}")
    if value < least:
        raise ArgumentError(f"{name} must be at least {least}, not {value}")
    return int(value)


def check_function(fn: Any, name: str, *others: Any) -> None:
    """Raise unless `fn`, the first argument of the function `name`, can be called.

    Args:
        fn: the argument.
        name: the name of the function that takes the argument.
        *others: the other arguments.

    Raises:
        ArgumentTypeError: `fn` cannot be called; the message says if two arguments are swapped, or if `fn` is
            the result of a call.
    """
    if callable(fn):
        return
    if isinstance(fn, Coroutine):
        fn.close()
        hint = "pass the function itself, without calling it"
    elif others and callable(others[0]):
        hint = f"the two arguments are swapped, write {name}(fn, ...)"
    else:
        hint = f"write {name}(fn, ...) with a function or an async def"
        if hasattr(fn, "grad_fn"):
            hint += "; the gradients of a tensor that has been computed are ag.grad(outputs, inputs)"
    raise ArgumentTypeError(f"{name} takes a function as its first argument, not {describe(fn)}: {hint}")


def describe(value: Any) -> str:
    """Return a description of a value for an error message."""
    shape = getattr(value, "shape", None)
    if shape is None or isinstance(value, type) or not hasattr(value, "dtype"):
        return f"{type(value).__name__} {reprlib.repr(value)}"
    return f"{type(value).__name__} of shape {shape} and dtype {value.dtype}"
