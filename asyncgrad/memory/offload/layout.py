"""Layout: the memory layout of an array, from which an array with the same strides can be made from bytes.

With other strides NumPy would sum in another order, and the gradients would have other bits.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...core.arrays.values import is_device_array

__all__ = ["Layout"]

#: The kinds of dtype whose elements are nothing but their bytes; strings of any length are not.
_KINDS = "biufcmMSUV"


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
        #: The distance in bytes from the lowest element to the first one.
        self._offset = -sum(reach for reach in reaches if reach < 0)
        #: The number of bytes from the lowest to the highest.
        self._extent = sum(map(abs, reaches)) + array.itemsize
        #: Whether the memory is stored as it is. Otherwise there are gaps, and the elements are stored in C order.
        self._is_span = self._extent <= array.nbytes
        #: How many bytes are stored.
        self.nbytes: int = min(self._extent, array.nbytes)

    @staticmethod
    def can_hold(array: Any) -> bool:
        """Return whether bytes are enough to restore the array; they are not for objects and subclasses."""
        return (
            (type(array) is np.ndarray or is_device_array(array))
            and not array.dtype.hasobject
            and array.dtype.kind in _KINDS
            and array.nbytes > 0
        )

    def describe(self) -> str:
        """Return the shape and dtype as text for an error message."""
        return f"shape {self._shape} and dtype {self._dtype}"

    def read(self, array: np.ndarray[Any, Any]) -> memoryview:
        """Return the bytes to store for the array that this layout was made from; no copy is made if it has no gaps."""
        if not self._is_span:
            return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        # With the ellipsis an array of no dimensions stays an array.
        upwards: tuple[Any, ...] = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in self._strides)
        first: tuple[Any, ...] = (slice(0, 1),) * array.ndim
        lowest = array[*upwards, ...][*first, ...].reshape(1).view(np.uint8)
        return as_strided(lowest, (self._extent,), (1,), writeable=False).data

    def restore(self, data: bytes | bytearray | memoryview, *, is_read_only: bool = False) -> np.ndarray[Any, Any]:
        """Return an array made from those bytes.

        Args:
            data: the bytes.
            is_read_only: whether the caller only reads the array, so that it may share the memory of any bytes.

        Raises:
            ValueError: the number of bytes is wrong.
        """
        stored = np.frombuffer(data, np.uint8)
        if stored.size != self.nbytes:
            raise ValueError(f"{stored.size} bytes came back, but {self.nbytes} were put")
        if not self._is_span:
            array = self._array_over(np.empty(self._extent, np.uint8))
            array[...] = stored.view(self._dtype).reshape(self._shape)
        else:
            array = self._array_over(stored if stored.flags.writeable or is_read_only else stored.copy())
        array.flags.writeable = self._writeable and not is_read_only
        return array

    def _array_over(self, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.ndarray(self._shape, self._dtype, memory, self._offset, self._strides)
