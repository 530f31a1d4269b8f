"""Arrays of earlier results that nobody has any more, for the next ones.

The system hands out new memory page by page as it is written into, and takes it back where much is freed: for gradients
per example, that takes longer than to compute them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from typing import Any, final

import numpy as np

__all__ = ["SpareArrays"]

#: How many bytes an array has at least that is kept, and how many are kept at most.
_LEAST, _MOST = 1 << 17, 1 << 26


@final
class SpareArrays:
    """The arrays that one function has returned; those that somebody still has are left alone."""

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: deque[np.ndarray] = deque()

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return an array whose numbers are anything: one that only this object has, or else a new one."""
        for _ in range(len(self._arrays)):
            try:
                array, references = _first(self._arrays)
            except IndexError:
                # Another thread has taken it.
                break
            if array.shape == shape and array.dtype == dtype and references == _ALONE:
                return array
            self._arrays.append(array)
        return np.empty(shape, dtype)

    def keep(self, arrays: Iterable[np.ndarray]) -> None:
        """Take arrays that are returned now, in place of the oldest ones where they are too many."""
        self._arrays.extend(array for array in arrays if _LEAST <= array.nbytes <= _MOST)
        while sum(array.nbytes for array in tuple(self._arrays)) > _MOST:
            self._arrays.popleft()


def _first(arrays: deque[np.ndarray]) -> tuple[np.ndarray, int]:
    """Take the first array, and count who refers to it."""
    array = arrays.popleft()
    return array, sys.getrefcount(array)


#: What `_first` counts for an array that nobody else has, a view of it included.
_ALONE = _first(deque([np.empty(0)]))[1]
