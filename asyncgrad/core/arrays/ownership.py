"""Private gradients: what the engine goes on with after users' code has had a gradient, nobody else can write into.

A hook or a user's body may keep a gradient that it gets, or one that it returns, and write into it later: in another
hook, while an async body waits, in another task. Two nodes may have got one array. So before users' code gets a
gradient, and after it has had or returned one, the engine asks whether anything else refers to that memory, and goes on
with a copy if so. What users' code keeps is its own from then on. A plain graph never asks.

The answer is in the reference counts of the array, of the Tensor around it, and of the arrays that it is a view of. A
reference that is no danger makes a copy too many and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from sys import getrefcount
from typing import Any

import numpy as np

from .tensor_base import TensorBase
from .values import OwnedMemory, has_memory, is_writeable, memory_owner, own_copy

__all__ = [
    "hand_over",
    "is_private",
    "make_all_private",
    "make_private",
    "prepare_all_to_lend",
    "prepare_to_lend",
    "private_copy",
]

#: Named here, since an attribute of a module takes twice as long to look up.
_ndarray = np.ndarray


def _references(holder: MutableSequence[Any], index: int) -> int:
    value = holder[index]
    return getrefcount(value)


#: The reference count of an object that one place and one local variable refer to.
_SOLE = _references([object()], 0)


def is_private(holder: MutableSequence[Any], index: int) -> bool:
    """Tell whether nothing but `holder[index]` refers to a gradient, or to memory that it shares."""
    value = holder[index]
    if value.__class__ is not _ndarray and not isinstance(value, TensorBase) and not has_memory(value):
        # None, or a number.
        return True
    if getrefcount(value) > _SOLE:
        return False
    if isinstance(value, TensorBase):
        value = value._data
        if getrefcount(value) > _SOLE:
            return False
    while (base := getattr(value, "base", None)) is not None:
        if not has_memory(base) and not is_writeable(value):
            # Memory of another kind, a file or a buffer, that is not written into.
            return True
        if getrefcount(base) > _SOLE:
            return False
        if not has_memory(base):
            return base.__class__ is OwnedMemory
        value = base
    return True


def make_private(holder: MutableSequence[Any], index: int) -> None:
    """Replace the gradient `holder[index]` by a copy if anything else refers to it or shares its memory."""
    make_all_private(holder, (index,))


def make_all_private(holder: MutableSequence[Any], places: Iterable[int] | None = None) -> None:
    """Do what `make_private` does, for each gradient in a list, or for those at `places`."""
    for index in range(len(holder)) if places is None else places:
        value = holder[index]
        # The most common kinds, without a call.
        if value.__class__ is _ndarray:
            if getrefcount(value) > _SOLE:
                holder[index] = own_copy(value)
                continue
            if value.base is None:
                continue
        elif value is None or isinstance(value, np.generic):
            continue
        del value
        if not is_private(holder, index):
            holder[index] = private_copy(holder[index])


def prepare_to_lend(holder: MutableSequence[Any], index: int) -> None:
    """Make the gradient `holder[index]` one that users' code may write into.

    That of a sum is a read-only broadcast of one number.
    """
    prepare_all_to_lend(holder, (index,))


def prepare_all_to_lend(holder: MutableSequence[Any], places: Iterable[int] | None = None) -> None:
    """Do what `prepare_to_lend` does, for each gradient in a list, or for those at `places`."""
    for index in range(len(holder)) if places is None else places:
        value = holder[index]
        # As in `make_all_private`.
        if value.__class__ is _ndarray:
            if value.base is None and getrefcount(value) <= _SOLE and value.flags.writeable:
                continue
        elif value is None or isinstance(value, np.generic):
            continue
        del value
        if not is_private(holder, index) or _is_read_only(holder[index]):
            holder[index] = private_copy(holder[index])


def private_copy(value: Any) -> Any:
    """Return a gradient in memory of its own: an array, or a Tensor with its place in the graph; a number as it is.

    A leaf that requires grad stays itself: no other tensor has its place.
    """
    if value.__class__ is _ndarray:
        return own_copy(value)
    if not isinstance(value, TensorBase):
        return own_copy(value) if has_memory(value) else value
    history = value._history()
    if history is None and value._requires_grad():
        return value
    return type(value)(own_copy(value._data), history, value._output_nr, value._device)


def hand_over(captured: list[Any]) -> list[Any]:
    """Return captured gradients as they belong to the caller, who may write into each: one list, whose values change.

    Of gradients with a history, those of one memory are told apart; what nodes have saved of them has its versions.
    """
    seen: set[int] = set()
    # Not by `enumerate`, which holds a reference to each.
    for index in range(len(captured)):
        if not isinstance(captured[index], TensorBase):
            prepare_to_lend(captured, index)
            continue
        memory = id(memory_owner(captured[index]._data))
        if memory in seen:
            captured[index] = private_copy(captured[index])
        seen.add(memory)
    return captured


def _is_read_only(value: Any) -> bool:
    array = value._data if isinstance(value, TensorBase) else value
    return has_memory(array) and not is_writeable(array)
