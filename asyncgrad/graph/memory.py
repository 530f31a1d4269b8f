"""The memory of a saved tensor, known again in whatever hooks bring back, and kept alive by none of this."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from .tracked import Tracked

__all__ = ["SavedMemory"]


@final
class SavedMemory:
    """Where a tensor lay when it was saved, and at which version.

    What has its version counter lies there, and so does what lies in the same place of the same allocation: a hook may
    have kept the bare array.

    Args:
        tensor: what is saved.
        version: at which it is.
    """

    __slots__ = ("_bounds", "_counter", "_owner", "version")

    def __init__(self, tensor: Tracked, version: int) -> None:
        self.version = version
        self._counter = tensor._shared_version()
        data = tensor._data
        #: Weak: a hook that has copied the tensor lets go of its array. Only NumPy's say whose memory they lie in.
        self._owner = weakref.ref(_owner(data)) if isinstance(data, np.ndarray) else None
        self._bounds = _bounds(data) if isinstance(data, np.ndarray) else (0, 0)

    def version_in(self, tensor: Tracked) -> int:
        """Return the version that this memory has now, where `tensor` lies in it; that of the save anywhere else."""
        counter = self._counter
        if counter.value == self.version or not (tensor._counter is counter or self._holds(tensor._data)):
            return self.version
        return counter.value

    def _holds(self, array: Any) -> bool:
        if self._owner is None or not isinstance(array, np.ndarray) or self._owner() is not _owner(array):
            return False
        (first, last), (low, high) = _bounds(array), self._bounds
        return first < high and low < last


def _owner(array: Any) -> Any:
    """Return the array that an array is, at last, a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _bounds(array: Any) -> tuple[int, int]:
    """Return the address of the first byte of an array, and that after its last."""
    found: tuple[int, int] = np.lib.array_utils.byte_bounds(array)
    return found
