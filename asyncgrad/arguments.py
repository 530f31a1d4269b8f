"""What many functions hold their arguments to: truth values, and functions to be called."""

from __future__ import annotations

import reprlib
from collections.abc import Coroutine
from typing import Any

import numpy as np

from .errors import ArgumentTypeError

__all__ = ["check_function", "truth"]


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
    raise ArgumentTypeError(f"{name} is True or False, not {_shown(value)}")


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
    raise ArgumentTypeError(f"{name} takes a function as its first argument, not {_shown(fn)}: {hint}")


def _shown(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__} " + (reprlib.repr(value) if shape is None else f"of shape {shape}")
