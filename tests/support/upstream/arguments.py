"""Arguments of a call of a library's function, as tensors and as other numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import asyncgrad as ag

#: Arguments of a call: positional, and by keyword.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def copied(value: Any) -> Any:
    """Return arguments that a call may write into, or draw from."""
    if isinstance(value, (np.ndarray, np.random.Generator, np.random.RandomState)):
        return copy.deepcopy(value)
    return mapped(copied, value)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a tuple, a list or a dict with a function applied to what is in it; anything else as it is."""
    if type(value) in (tuple, list):
        return type(value)(function(one) for one in value)
    if type(value) is dict:
        return {key: function(one) for key, one in value.items()}
    return value


def is_differentiable(value: Any) -> bool:
    """Return whether a value is an array, or a number of NumPy's, that can have a gradient."""
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.char in "fdFD" and type(value) is not np.matrix


def as_tensors(value: Any, *, requires_grad: bool) -> Any:
    """Return arguments with a tensor for each array and number of NumPy's."""
    if is_differentiable(value):
        return ag.tensor(np.array(value), requires_grad=requires_grad)
    if type(value) is np.ndarray and value.dtype.kind in "biu":
        return ag.tensor(np.array(value))
    return mapped(lambda one: as_tensors(one, requires_grad=requires_grad), value)


def leaves(value: Any) -> Iterator[Any]:
    """Yield what is in tuples, lists and dicts, in order."""
    if type(value) in (tuple, list):
        for one in value:
            yield from leaves(one)
    elif type(value) is dict:
        for one in value.values():
            yield from leaves(one)
    else:
        yield value


def replaced(value: Any, old: int, new: Any) -> Any:
    """Return arguments with the differentiable leaf of number `old` replaced."""
    count = -1

    def visit(one: Any) -> Any:
        nonlocal count
        if is_differentiable(one):
            count += 1
            return new if count == old else one
        return mapped(visit, one)

    return visit(value)


def described(value: Any) -> str:
    """Return a short text for arguments: dtypes and shapes of arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        if value.ndim == 0:
            return f"{value.dtype}({value})"
        return f"{value.dtype}({','.join(map(str, value.shape))})"
    if type(value) in (tuple, list):
        inner = ", ".join(map(described, value[:6]))
        return f"({inner})" if type(value) is tuple else f"[{inner}]"
    if type(value) is dict:
        return ", ".join(f"{key}={described(one)}" for key, one in value.items())
    return repr(value)[:60]
