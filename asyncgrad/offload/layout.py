"""Layout: how an array lies in memory, so that it can be made anew from bytes with the same strides.

With other strides NumPy sums in another order, and the gradients would have other bits.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.lib.stride_tricks import as_strided

__all__ = ["Layout", "root_of"]

#: The kinds of dtype whose elements are nothing but their bytes; strings of any length are not.
_KINDS = "biufcmMSUV"


def root_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array whose memory `array` is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


@final
class Layout:
    """The dtype, shape, strides and flags of an array.

    Args:
        array: of a dtype without objects, with at least one element of at least one byte.
    """

    __slots__ = ("_dtype", "_extent", "_is_span", "_offset", "_shape", "_strides", "_writeable", "nbytes")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._dtype, self._shape, self._strides = array.dtype, array.shape, array.strides
        self._writeable = array.flags.writeable
        reaches = [stride * (size - 1) for stride, size in zip(array.strides, array.shape, strict=True)]
        #: How far the first element lies behind the lowest one, in bytes.
        self._offset = -sum(reach for reach in reaches if reach < 0)
        #: From the lowest byte to the highest.
        self._extent = sum(map(abs, reaches)) + array.itemsize
        #: Whether the memory between is stored as it lies; else the elements, in rows, since there are gaps.
        self._is_span = self._extent <= array.nbytes
        #: How many bytes are stored.
        self.nbytes = min(self._extent, array.nbytes)

    @staticmethod
    def can_hold(array: Any) -> bool:
        """Tell whether a layout of the array can be made: objects and subclasses have more to them than bytes."""
        return (
            type(array) is np.ndarray and not array.dtype.hasobject and array.dtype.kind in _KINDS and array.nbytes > 0
        )

    def described(self) -> str:
        """Return shape and dtype, for an error message."""
        return f"shape {self._shape} and dtype {self._dtype}"

    def read(self, array: np.ndarray[Any, Any]) -> memoryview:
        """Return the bytes to store of the array that this was made of, without a copy if there are no gaps."""
        if not self._is_span:
            return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        # With the ellipsis an array of no dimensions stays an array.
        upwards: tuple[Any, ...] = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in self._strides)
        first: tuple[Any, ...] = (slice(0, 1),) * array.ndim
        lowest = array[*upwards, ...][*first, ...].reshape(1).view(np.uint8)
        return as_strided(lowest, (self._extent,), (1,), writeable=False).data

    def restore(self, data: bytes | bytearray | memoryview) -> np.ndarray[Any, Any]:
        """Return an array of those bytes.

        Raises:
            ValueError: they are too few or too many.
        """
        stored = np.frombuffer(data, np.uint8)
        if stored.size != self.nbytes:
            raise ValueError(f"{stored.size} bytes came back, and {self.nbytes} were put")
        if not self._is_span:
            array = self._on(np.empty(self._extent, np.uint8))
            array[...] = stored.view(self._dtype).reshape(self._shape)
        else:
            array = self._on(stored if stored.flags.writeable else stored.copy())
        array.flags.writeable = self._writeable
        return array

    def _on(self, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.ndarray(self._shape, self._dtype, memory, self._offset, self._strides)
