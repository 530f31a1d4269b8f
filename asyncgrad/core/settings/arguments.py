"""Checks of arguments that many functions share, of truth values, numbers and callables, and what is said of others.

An error of an argument says which one it is, what it must be, what it is, and, where that helps, what to write instead:
in the words of `must_be`, or of `takes` where the argument has no name of its own.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Coroutine
from datetime import timedelta
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, final

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError, HookTypeError
from .unawaited import await_advice

__all__ = [
    "PLAIN_TYPES",
    "check_callable",
    "check_function",
    "describe",
    "must_be",
    "number",
    "shorten",
    "takes",
    "truth",
    "whole_index",
    "whole_number",
]

_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, np.ufunc)
#: Types of operands that are no sparse matrices, for speed. Those of the arrays of devices are added.
PLAIN_TYPES: set[type] = {
    *(np.ndarray, float, int, bool, complex, list, tuple, type(None)),
    *(np.dtype(char).type for char in "?ilfdFD"),
}

#: The kinds of dtypes whose elements are no real numbers. Python would convert each of them to a float: NumPy's
#: `timedelta64(5, "ms")` to 5.0, and a complex number without its imaginary part.
_NO_NUMBERS = frozenset("bcmMSU")


def truth(value: Any, name: str) -> bool:
    """Return a boolean argument as a bool: True or False, also NumPy's, or the ints 1 and 0.

    Any other value is refused. It has a truth value in Python too ("false" is true), but is most likely a mistake.

    Args:
        value: the argument.
        name: the name of the argument in the error.

    Raises:
        ArgumentTypeError: the value is none of these.
    """
    if value is True or value is False:
        return value is True
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64)
    if isinstance(value, np.bool_) or (is_number and value in (0, 1)):
        return bool(value)
    raise ArgumentTypeError(must_be(name, "True or False", value))


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
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in _NO_NUMBERS or isinstance(value, (bool, str, bytes, bytearray, memoryview, timedelta)):
        hint = "write its seconds as a number" if isinstance(value, (timedelta, np.timedelta64)) else ""
        raise ArgumentTypeError(must_be(name, "a number", value, hint))
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(must_be(name, "a number", value)) from None
    except OverflowError:
        found = math.inf
    if not (math.isfinite(found) and found >= least):
        allowed = "a finite number" if least == -math.inf else f"a finite number of at least {least:g}"
        raise ArgumentError(must_be(name, allowed, value))
    return found


def whole_number(value: Any, name: str, least: float = -math.inf, instead: str = "") -> int:
    """Return an integer argument, Python's or NumPy's, as an int.

    Args:
        value: the argument.
        name: the name of the argument in the error.
        least: the smallest allowed value.
        instead: what to write where it is less.

    Raises:
        ArgumentTypeError: the value is no integer.
        ArgumentError: it is less than `least`.
    """
    # A length of time is an integer to NumPy.
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(must_be(name, "an int", value))
    found = int(value)
    if found < least:
        raise ArgumentError(f"{name} must be at least {least}, not {shorten(found)}{instead and f': {instead}'}")
    return found


def whole_index(value: Any, name: str, least: int = 0) -> int:
    """Return an argument that has an `__index__`, as NumPy's and SciPy's functions take whole numbers, as an int.

    Args:
        value: the argument.
        name: the name of the argument in the error.
        least: the smallest allowed value.

    Raises:
        ArgumentTypeError: the value is no whole number.
        ArgumentError: it is less than `least`.
    """
    try:
        found = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(must_be(name, "a whole number", value)) from None
    if found < least:
        raise ArgumentError(f"{name} must be at least {least}, not {shorten(found)}")
    return found


def check_function(fn: Any, name: str, *others: Any, kinds: str = "a function or an async def") -> None:
    """Raise unless `fn`, the first argument of the function `name`, can be called.

    Args:
        fn: the argument.
        name: the name of the function that takes the argument.
        *others: the other arguments.
        kinds: what to pass.

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
        hint = f"write {name}(fn, ...) with {kinds}"
        if hasattr(fn, "grad_fn"):
            hint += "; the gradients of a tensor that has been computed are ag.grad(outputs, inputs)"
    raise ArgumentTypeError(takes(name, "a function as its first argument", fn, hint))


def check_callable(
    value: Any,
    name: str,
    called: str = "",
    instead: str = "pass a function or an async def",
    error: type[TypeError] = HookTypeError,
) -> None:
    """Raise unless an argument, such as a hook, can be called.

    Args:
        value: the argument.
        name: the name of the argument in the error.
        called: how it is called, such as `"without arguments"`.
        instead: what to write.
        error: the type of the error.

    Raises:
        HookTypeError: it cannot be called; or `error`.
    """
    if not callable(value):
        raise error(must_be(name, f"callable {called}".rstrip(), value, instead))


def _described(value: Any) -> str:
    """Return a description of what is no array: of objects that show nothing but their address, the kind alone."""
    kind, name = type(value).__name__, ""
    if isinstance(value, (type, *_FUNCTIONS)):
        # Of no other object: it may be a property that raises.
        name = getattr(value, "__name__", "")
    if isinstance(value, type):
        return f"the class {name}"
    if isinstance(value, _FUNCTIONS) and name:
        return f"the {'method' if isinstance(value, MethodType) else 'function'} {name}"
    own_repr: object = type(value).__repr__
    if own_repr is object.__repr__:
        return f"an object of the class {kind}"
    shown = shorten(value)
    if shown.startswith(f"{kind}(") and ("..." in shown or not shown.endswith(")")):
        return f"{kind}(...)"
    return f"{kind} {shown}"


def must_be(name: str, expected: str, value: Any, instead: str = "") -> str:
    """Return the words for an argument that is something else than it must be.

    Args:
        name: the name of the argument.
        expected: what it must be.
        value: what it is.
        instead: what to write.

    Example:
        >>> from asyncgrad.core.settings.arguments import must_be
        >>> must_be("count", "an int", 2.5, "write count=2")
        'count must be an int, not float 2.5: write count=2'
    """
    return f"{name} must be {expected}, not {describe(value)}{instead and f': {instead}'}"


def takes(function: str, expected: str, value: Any, instead: str = "") -> str:
    """Return the words for a function that is given something else than it takes; see `must_be`.

    Example:
        >>> from asyncgrad.core.settings.arguments import takes
        >>> takes("extend", "an iterable of modules", 3)
        'extend takes an iterable of modules, not int 3'
    """
    return f"{function} takes {expected}, not {describe(value)}{instead and f': {instead}'}"


@final
class _Repr(reprlib.Repr):
    """As `reprlib.repr`, which fails at an int that is too long for Python to write."""

    def repr_int(self, x: int, level: int) -> str:
        """Return the number, or how long it is."""
        try:
            return super().repr_int(x, level)
        except ValueError:
            return f"<{'negative, ' if x < 0 else ''}{x.bit_length()} bits>"


#: Returns the `repr` of a value, not too long.
shorten = _Repr().repr


def describe(value: Any) -> str:
    """Return a description of a value for an error message."""
    shape = getattr(value, "shape", None)
    if shape is None and (advice := await_advice(value)):
        return f"{type(value).__name__} {shorten(value)}, which is not awaited ({advice})"
    if shape is None or isinstance(value, type) or not hasattr(value, "dtype"):
        return _described(value)
    return f"{type(value).__name__} of shape {shape} and dtype {value.dtype}"
