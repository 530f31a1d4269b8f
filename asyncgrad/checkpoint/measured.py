"""What the steps of a chain cost, measured in the chain's first run and known from then on."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..graph.node import LEAF_ORDER
from ..graph.saved import Saved
from .schedule import Action
from .unequal import Sizes, unequal_schedule

if TYPE_CHECKING:
    from ..graph.node import Node

__all__ = ["Measured", "Meter", "bytes_of", "measured"]


@final
class Measured:
    """What is known of one chain, run on arguments of one look."""

    __slots__ = ("_schedules", "alive", "sizes")

    def __init__(self, alive: tuple[Any, ...]) -> None:
        #: None until the first run.
        self.sizes: Sizes | None = None
        #: References to the functions: what is known of others of the same identity is nothing.
        self.alive = alive
        self._schedules: dict[int, tuple[Action, ...]] = {}

    def schedule(self, budget: int) -> tuple[Action, ...]:
        """Return the schedule for so many bytes, now that the sizes are known."""
        assert self.sizes is not None
        found = self._schedules.get(budget)
        if found is None:
            found = self._schedules[budget] = unequal_schedule(self.sizes, budget)
        return found


#: By the identities of the functions and the looks of the argument. A measurement belongs to the functions alone, so
#: that any context may use it; it lives as long as they do.
_KNOWN: dict[Any, Measured] = {}


def measured(functions: Sequence[Callable[..., Any]], tensors: Iterable[Any]) -> Measured:
    """Return what is known of a chain of these functions on tensors that look like these."""
    parts = [part for function in functions for part in _parts(function)]
    key = (tuple(map(id, parts)), tuple((tensor._data.shape, tensor._data.dtype) for tensor in tensors))
    found = _KNOWN.get(key)
    if found is not None and all(reference() is not None for reference in found.alive):
        return found
    for other in [key for key, one in _KNOWN.items() if any(reference() is None for reference in one.alive)]:
        del _KNOWN[other]
    found = _KNOWN[key] = Measured(tuple(map(_reference, dict.fromkeys(parts))))
    return found


def _parts(function: Any) -> tuple[Any, ...]:
    """Return what a function is known by: a method, of which there is a new object each time, by what it is of."""
    owner = getattr(function, "__self__", None)
    inner = getattr(function, "__func__", None)
    return (function,) if owner is None or inner is None else (owner, inner)


def _reference(part: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(part)
    except TypeError:
        return lambda: part


@final
class Meter:
    """Sees nodes in place of saved-tensor hooks, and counts what they save.

    Args:
        state: the arrays of the state before, which are counted elsewhere.
    """

    __slots__ = ("_before", "_seen", "largest")

    #: No hooks are around what is measured.
    around = None

    def __init__(self, state: Iterable[Any]) -> None:
        self._before = {id(_root(array)) for array in state}
        #: The arrays that were saved, by their identities.
        self._seen: dict[int, Any] = {}
        #: Bytes of the largest result of an operation.
        self.largest = 0

    def pack_saved(self, node: Node) -> None:
        """Note what a new node has saved, and how large its results are. It stays as it is; a leaf is there anyway."""
        if node.order != LEAF_ORDER:
            sizes = [math.prod(one.shape) * one.dtype.itemsize for one in node.input_metadata if one is not None]
            self.largest = max(self.largest, *sizes, 0)
        for saved in node.saved_entries() or ():
            if isinstance(saved, Saved) and saved.tensor is not None and saved.accumulator is None:
                root = _root(saved.tensor._data)
                self._seen[id(root)] = root

    def bytes_besides(self, state: Iterable[Any]) -> int:
        """Return how many bytes have been saved, but for the state before and the one after; let go of them."""
        elsewhere = self._before | {id(_root(array)) for array in state}
        seen, self._seen = self._seen, {}
        return sum(getattr(root, "nbytes", 0) for key, root in seen.items() if key not in elsewhere)


def bytes_of(arrays: Iterable[Any]) -> int:
    """Return how many bytes of memory arrays take, each counted once."""
    roots = {id(root): root for root in map(_root, arrays)}
    return sum(getattr(root, "nbytes", 0) for root in roots.values())


def _root(array: Any) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
