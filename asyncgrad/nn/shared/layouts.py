"""The order in which the axes of images lie in memory: rows first, as in C, or the images last.

Convolution and pooling of small images are fastest with the images last, in their results too: NumPy's loops are then
as long as there are images, and not as short as a row. Where arrays of both orders meet, one is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import empty_like

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["copy_images", "empty_laid_like", "images_first", "images_last", "in_order_of", "with_spaced_rows"]


#: Rows that are apart by a multiple of so many bytes fall into few sets of a processor's cache.
_ALIASED = 1 << 10
#: The bytes of a cache line.
_LINE = 64
#: So many images are copied into another order one by one, in NumPy's longest loops.
_FEW = 12


def empty_laid_like(x: Any, shape: tuple[int, ...]) -> Any:
    """Return an uninitialised array of a shape with as many axes as `x`, which lie in memory in the same order."""
    if x.__class__ is np.ndarray and not x.flags.c_contiguous:
        return np.empty_like(x, shape=shape)
    return empty_like(x, shape)


def with_spaced_rows(x: Array) -> Any:
    """Return an array that is to be transposed, or a copy of it.

    The copy has a gap after what belongs to one index of the first axis, if all that would fall into few sets of the
    processor's cache: a copy of the transposed array takes a fifth of the time then.
    """
    if type(x) is not np.ndarray or not x.flags.c_contiguous or not x.size or x.strides[0] % _ALIASED:
        return x
    rows = x.reshape(len(x), -1)
    wider = np.empty((len(x), rows.shape[1] + _LINE // x.itemsize), x.dtype)
    spaced = wider[:, : rows.shape[1]]
    spaced[...] = rows
    return spaced.reshape(x.shape)


def copy_images(target: Any, x: Any) -> None:
    """Copy images, or rows, into an array of their shape, which may lie in memory in another order."""
    if type(x) is np.ndarray and len(x) <= _FEW:
        for nr in range(len(x)):
            target[nr] = x[nr]
    else:
        target[...] = with_spaced_rows(x)


def images_last(x: Array) -> Any:
    """Return images as a contiguous array of shape (channels, height, width, n)."""
    last = x.transpose(1, 2, 3, 0)
    if last.flags.c_contiguous:
        return last
    if type(x) is not np.ndarray:
        return last.copy()
    copy = np.empty(last.shape, x.dtype)
    copy_images(copy.transpose(3, 0, 1, 2), x)
    return copy


def images_first(x: Any) -> Any:
    """Return an array of shape (channels, height, width, n) as images."""
    x = x.transpose(3, 0, 1, 2)
    # The kernels of a device go through memory in rows.
    return x if x.__class__ is np.ndarray else x.copy()


def in_order_of(other: Any, x: Array) -> Any:
    """Return `x`, or a copy of it whose axes lie in memory in the order of those of `other`, which has its shape.

    NumPy computes with two arrays of different orders in loops that are as short as the last axis.
    """
    if other.__class__ is not np.ndarray or x.__class__ is not np.ndarray:
        return x
    if x.flags.c_contiguous and other.flags.c_contiguous:
        return x
    copy = np.empty_like(other, x.dtype)
    if copy.strides == x.strides:
        return x
    copy_images(copy, x)
    return copy
