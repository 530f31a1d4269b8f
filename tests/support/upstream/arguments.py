"""Arguments of a call of a library's function, as tensors and as other numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import asyncgrad as ag

#: Arguments of a call: positional, and by keyword.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def copied(value: Any, made: dict[int, Any] | None = None) -> Any:
    """Return arguments that a call may write into, or draw from; what is given twice stays one."""
    made = {} if made is None else made
    if isinstance(value, (np.ndarray, np.random.Generator, np.random.RandomState)):
        return made[id(value)] if id(value) in made else made.setdefault(id(value), copy.deepcopy(value))
    return mapped(lambda one: copied(one, made), value)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a tuple, a list or a dict with a function applied to what is in it; anything else as it is."""
    if type(value) in (tuple, list):
        return type(value)(function(one) for one in value)
    if type(value) is dict:
        return {key: function(one) for key, one in value.items()}
    return value


def is_differentiable(value: Any) -> bool:
    """Return whether a value is an array, or a number of NumPy's, that can have a gradient."""
    return (type(value) is np.ndarray or isinstance(value, np.generic)) and value.dtype.char in "fdFD"


def _is_list_of_arrays(value: Any) -> bool:
    """Return whether a list holds what would be tensors: a list of tensors is no array to asyncgrad."""
    return type(value) is list and any(isinstance(one, (np.ndarray, np.generic)) for one in value)


def as_tensors(value: Any, *, requires_grad: bool, made: dict[int, Any] | None = None) -> Any:
    """Return arguments with a tensor for each array and number of NumPy's; of one array, one tensor."""
    made = {} if made is None else made

    def again(one: Any) -> Any:
        return as_tensors(one, requires_grad=requires_grad, made=made)

    if is_differentiable(value) or (type(value) is np.ndarray and value.dtype.kind in "biu"):
        is_recorded = requires_grad and is_differentiable(value)
        return made.setdefault(id(value), ag.tensor(np.array(value), requires_grad=is_recorded))
    if _is_list_of_arrays(value):
        return value
    if type(value) is dict:
        # What is written into is no leaf that requires grad.
        for key in {"out", "output"}.intersection(value):
            as_tensors(value[key], requires_grad=False, made=made)
    return mapped(again, value)


def leaves(value: Any) -> Iterator[Any]:
    """Yield what is in tuples, lists and dicts, in order."""
    if type(value) in (tuple, list):
        if _is_list_of_arrays(value):
            return
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
        if _is_list_of_arrays(one):
            return one
        return mapped(visit, one)

    return visit(value)


def jittered(arguments: Arguments) -> Arguments | None:
    """Return arguments with each number that may have a gradient a little moved; None where there is none."""
    rng = np.random.default_rng(0)
    are_moved = False

    def moved(value: Any) -> Any:
        nonlocal are_moved
        if not is_differentiable(value):
            return value if _is_list_of_arrays(value) else mapped(moved, value)
        are_moved = True
        size = np.abs(value) + 1e-2
        return (value + size * rng.uniform(-0.03, 0.03, value.shape)).astype(value.dtype)

    found = moved(copied(arguments))
    return found if are_moved else None


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
