"""Rows of NumPy arrays in blocks that stay in the processor's cache, and memory for the temporaries of a block.

A function of several passes over a large array waits for memory in each of them, and for the system to map each new
temporary array: both take longer than to compute. So such a function goes through its rows block by block, does all
passes on one block, and keeps temporaries in memory that each thread has for that. Only results are new arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["are_in_blocks", "blocks", "by_rows", "in_memory", "scratch", "tiled", "unbuffered_rows"]


#: The bytes of a block; several of this size fit into the last cache. In smaller ones, which a core's own cache holds,
#: the calls cost more than that saves.
BLOCK = 1 << 20
#: The bytes of a row that each row is multiplied by, repeated: it stays in a core's own cache.
_TILE = 1 << 18
#: Larger temporaries are new arrays.
_MOST_KEPT = 1 << 20
#: From this length, a row is computed faster by itself than through NumPy's buffer.
_UNBUFFERED = 512
#: Smaller arrays are computed as a whole: what is spent on each call matters more there than the cache.
LEAST = (1 << 19) - 1


def are_in_blocks(x: Array, *others: Any) -> bool:
    """Tell whether these are NumPy arrays of one dtype, the first a large one; None is no array."""
    if x.__class__ is not np.ndarray or x.nbytes <= LEAST:
        return False
    return all(one is None or (one.__class__ is np.ndarray and one.dtype == x.dtype) for one in others)


def blocks(rows: int, row_bytes: int) -> Iterator[slice]:
    """Yield the rows in parts of at most `BLOCK` bytes, but at least one row."""
    step = max(1, BLOCK // max(1, row_bytes))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def in_memory(rows: Any, memory: Any) -> Any:
    """Return rows, or a copy of them in the given memory where they are one number that is broadcast.

    BLAS takes no such array, and NumPy's own sums of its products take several times as long as the copy. The gradient
    of a sum is one.
    """
    if rows.strides[-1]:
        return rows
    memory[...] = rows
    return memory


def tiled(row: Any, rows: int) -> Any:
    """Return one row, repeated for some of so many rows, for `by_rows`; None stays None."""
    if row is None:
        return None
    return np.repeat(row.reshape(1, -1), max(1, min(rows, _TILE // max(1, row.nbytes))), axis=0)


def by_rows(function: Any, block: Any, tile: Any, out: Any) -> None:
    """Write a function of each row of a block, and of one row, as `tiled` returns it, into `out`.

    NumPy computes two arrays of one shape in half of the time that an array and a row take.
    """
    step = len(tile)
    for first in range(0, len(block), step):
        some = block[first : first + step]
        function(some, tile[: len(some)], out=out[first : first + step])


@final
class _Kept(threading.local):
    """The memory of one thread for temporaries."""

    memory: Any = None


_KEPT = _Kept()


def scratch(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array of arbitrary content, which is free again with the next call on the same thread."""
    count = prod(shape) * dtype.itemsize
    if count > _MOST_KEPT:
        return np.empty(shape, dtype)
    if _KEPT.memory is None or _KEPT.memory.size < count:
        _KEPT.memory = np.empty(max(count, BLOCK), np.uint8)
    return _KEPT.memory[:count].view(dtype).reshape(shape)


def unbuffered_rows(length: int) -> AbstractContextManager[None]:
    """Return a context in which NumPy computes rows of this length with a column in half of the time, if they are long.

    NumPy copies an operand that is broadcast along rows shorter than its buffer into that buffer, for each element.
    """
    return _small_buffer() if length >= _UNBUFFERED else nullcontext()


@contextmanager
def _small_buffer() -> Iterator[None]:
    # The size of the buffer belongs to the state that errstate restores.
    with np.errstate():
        np.setbufsize(_UNBUFFERED)
        yield
