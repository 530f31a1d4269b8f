"""What many functions hold their arguments to: truth values, numbers, and functions to be called."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Coroutine
from typing import Any

import numpy as np

from .errors import ArgumentError, ArgumentTypeError

__all__ = ["check_function", "describe", "number", "truth", "whole_number"]


def truth(value: Any, name: str) -> bool:
    """Return a truth value that a user gave: True or False, NumPy's too, or the ints 1 and 0.

    Everything else has a truth value in Python, "false" a true one, and is most likely a mistake.

    Args:
        value: what was given.
        name: what the error calls it.

    Raises:
        ArgumentTypeError: it is none of these.
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise ArgumentTypeError(f"{name} is True or False, not {describe(value)}")


def number(value: Any, name: str, least: float = -math.inf) -> float:
    """Return a real number that a user gave, as a float.

    Args:
        value: what was given: a number of Python's or NumPy's, an array or a tensor of one.
        name: what the error calls it.
        least: what it is to be at least.

    Raises:
        ArgumentTypeError: it is no number.
        ArgumentError: it is NaN, infinite, or less than `least`.
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


def whole_number(value: Any, name: str) -> int:
    """Return an int that a user gave, NumPy's too.

    Raises:
        ArgumentTypeError: it is none.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(f"{name} must be an int, not {describe(value)}")
    return int(value)


def check_function(fn: Any, name: str, *others: Any) -> None:
    """Raise unless `fn`, the first argument of the function `name`, can be called.

    Args:
        fn: what was given.
        name: of the function that it was given to.
        *others: what was given beside it.

    Raises:
        ArgumentTypeError: it cannot; says so where it has changed places with another, or has been called already.
    """
    if callable(fn):
        return
    if isinstance(fn, Coroutine):
        fn.close()
        hint = "pass the function itself, without calling it"
    elif others and callable(others[0]):
        hint = f"the two have changed places, write {name}(fn, ...)"
    else:
        hint = f"write {name}(fn, ...) with a function or an async def"
    raise ArgumentTypeError(f"{name} takes a function as its first argument, not {describe(fn)}: {hint}")


def describe(value: Any) -> str:
    """Say what a value is, for an error message."""
    shape = getattr(value, "shape", None)
    if shape is None or isinstance(value, type) or not hasattr(value, "dtype"):
        return f"{type(value).__name__} {reprlib.repr(value)}"
    return f"{type(value).__name__} of shape {shape} and dtype {value.dtype}"
