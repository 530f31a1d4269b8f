"""Messages as bytes: a short JSON head, then the raw bytes of the arrays. Reading one runs no code that it contains.

`compact` and `expand` keep the order of an array's axes in memory, for every transport: NumPy sums in that order, so
an array that arrived in another one would give a stage other bits than a run at home has.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, PayloadError
from .payload import check_size

__all__ = [
    "CONTENT_TYPE",
    "check_length",
    "compact",
    "decode",
    "encode",
    "expand",
    "head_bytes",
    "message_bytes",
    "read_bytes",
]

#: What a message is, as HTTP names it: a page of a browser cannot post it to another site unasked.
CONTENT_TYPE = "application/octet-stream"

#: The most bytes of a head.
_HEAD_BYTES = 1 << 20

#: The most arrays: each is an object of hundreds of bytes, however small it is.
_ARRAYS = 1 << 14

#: The most axes of an array, as NumPy has it.
_AXES = 64

#: How long the name of a dtype of numbers may be: ">c16" is one.
_DTYPE = 8

#: Heads and arrays begin at multiples of this, so that arrays are aligned where they lie.
_ALIGNMENT = 16


def encode(head: dict[str, Any], arrays: Sequence[np.ndarray | None]) -> bytes:
    """Return a message: 16 bytes with the length of the head, the head, and the elements of the arrays.

    Args:
        head: what else it says, as JSON.
        arrays: arrays of numbers; None for one that is not there.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.distributed.wire import decode, encode
        >>> decode(bytearray(encode({"op": "ping"}, [np.array([1.0, 2.0]), None])))
        ({'op': 'ping'}, [array([1., 2.]), None])
    """
    found = [None if array is None else compact(array) for array in arrays]
    specs = [None if one is None else [one[0].dtype.str, list(one[0].shape), one[1]] for one in found]
    text = json.dumps({**head, "arrays": specs}).encode()
    if len(specs) > _ARRAYS:
        raise PayloadError(f"a message has {len(specs)} arrays, and may have {_ARRAYS}: stack them")
    if len(text) > _HEAD_BYTES:
        raise PayloadError(f"a message says {len(text)} bytes besides its arrays, and may say {_HEAD_BYTES}")
    parts: list[Any] = [len(text).to_bytes(_ALIGNMENT, "little"), text, _padding(len(text))]
    for one in found:
        if one is not None:
            # The memory itself: `join` alone copies it.
            parts += [one[0].reshape(-1).view(np.uint8).data, _padding(one[0].nbytes)]
    return b"".join(parts)


def decode(data: bytearray, max_bytes: int | None = None) -> tuple[dict[str, Any], list[np.ndarray | None]]:
    """Return the head and the arrays of a message; the arrays share its memory, and may be written into.

    Args:
        data: the message.
        max_bytes: how many bytes the arrays may have, those included that a broadcast array has not in the message.

    Raises:
        ArgumentError: it is no message.
        PayloadError: its arrays are larger than they may be.
    """
    try:
        length = head_bytes(data)
        begin = _ALIGNMENT + length
        if len(data) < begin:
            raise ValueError(f"it has {len(data)} bytes, and its head alone {begin}")
        if length > _HEAD_BYTES:
            # Before it is read: JSON takes many times its bytes as objects
            # (test_a_head_that_is_larger_than_heads_may_be_is_refused_unread).
            raise PayloadError(
                f"a message says {length} bytes besides its arrays, and may say {_HEAD_BYTES}: send arrays as arrays"
            )
        head = json.loads(bytes(data[_ALIGNMENT:begin]))
        if 2 * begin > len(data):
            # Arrays that share the memory of a message keep all of it for as long as they are kept themselves
            # (test_a_small_array_keeps_no_head_alive).
            begin += -begin % _ALIGNMENT
            if begin > len(data):
                raise ValueError(f"it has {len(data)} bytes, and its head with its padding {begin}")
            data, begin = data[begin:], 0
        specs = head.pop("arrays")
        if len(specs) > _ARRAYS:
            raise PayloadError(f"a message has {len(specs)} arrays, and may have {_ARRAYS}: stack them")
        arrays: list[np.ndarray | None] = []
        for spec in specs:
            begin += -begin % _ALIGNMENT
            if spec is None:
                arrays.append(None)
                continue
            dtype, shape, layout = spec
            array = _array_at(data, begin, dtype, shape)
            begin += array.nbytes
            arrays.append(expand(array, layout))
        if begin + -begin % _ALIGNMENT != len(data):
            raise ValueError(f"its arrays end at byte {begin} of {len(data)}")
    except PayloadError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ArgumentError(f"this is no message of a stage: {error}") from None
    if max_bytes is not None:
        check_size(arrays, max_bytes, "a message")
    return head, arrays


def compact(array: np.ndarray) -> tuple[np.ndarray, list[list[int]] | None]:
    """Return the elements of an array as one block in C order, and what `expand` needs to lay them out as they were.

    The order of the axes in memory stays, and which of them run backwards or are broadcast; gaps go. An array in C
    order is returned itself, with None.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.distributed.wire import compact, expand
        >>> block, layout = compact(np.broadcast_to(np.arange(3.0), (1000, 3)))
        >>> block.size, expand(block, layout).strides
        (3, (0, 8))
    """
    if array.flags.c_contiguous:
        return array, None
    strides = array.strides
    order = sorted(range(array.ndim), key=lambda axis: -abs(strides[axis]))
    backwards = [axis for axis in range(array.ndim) if strides[axis] < 0]
    index = tuple([slice(0, 1) if stride == 0 else slice(None, None, -1 if stride < 0 else 1) for stride in strides])
    return np.ascontiguousarray(array[index].transpose(order)), [order, backwards, list(array.shape)]


def expand(block: np.ndarray, layout: Sequence[Sequence[int]] | None) -> np.ndarray:
    """Return the array that `compact` has made a block of; it shares memory with the block.

    Raises:
        ValueError: the layout does not fit the block.
    """
    if layout is None:
        return block
    order, backwards, shape = layout
    # Each of them once: a flip takes a microsecond, and a head has room for tens of thousands
    # (test_a_list_of_axes_that_no_array_has_is_refused_at_once).
    if len(order) != block.ndim or len(backwards) > block.ndim or len(set(backwards)) < len(backwards):
        raise ValueError(f"a layout of {len(order)} axes, {len(backwards)} of them backwards, is none of {block.ndim}")
    if len(shape) > _AXES:
        raise ValueError(f"an array of {len(shape)} axes is none")
    found = block.transpose(np.argsort(order))
    for axis in backwards:
        found = np.flip(found, axis)
    return found if found.shape == tuple(shape) else np.broadcast_to(found, tuple(shape))


def _array_at(data: bytearray, begin: int, dtype: str, shape: list[int]) -> np.ndarray:
    # Before NumPy reads it: as a list of fields it may be as long as a head.
    kind = np.dtype(dtype) if isinstance(dtype, str) and len(dtype) <= _DTYPE else None
    if kind is None or kind.kind not in "biufc":
        raise ValueError(f"{str(dtype)[:80]!r} is no dtype of numbers")
    # Before it is multiplied: a product of many integers takes seconds.
    if len(shape) > _AXES or not all(isinstance(size, int) and 0 <= size < 1 << 63 for size in shape):
        raise ValueError(f"{str(shape)[:80]} is no shape")
    count = math.prod(shape)
    if begin + count * kind.itemsize > len(data):
        raise ValueError(f"an array of shape {shape} and dtype {dtype} is longer than the message")
    if not count:
        return np.empty(shape, kind)
    return np.frombuffer(data, kind, count, begin).reshape(shape)


def _padding(length: int) -> bytes:
    return bytes(-length % _ALIGNMENT)


def head_bytes(data: bytearray) -> int:
    """Return how many bytes a message says that its head has: each takes far more time to read than one of an array."""
    return int.from_bytes(data[:_ALIGNMENT], "little")


def message_bytes(max_bytes: int) -> int:
    """Return how long a message may be whose arrays have `max_bytes` in all."""
    return max_bytes + _HEAD_BYTES + (1 << 16)


async def read_bytes(chunks: AsyncIterable[bytes], limit: int, what: str) -> bytearray:
    """Return what arrives in chunks; read no more than `limit`, whatever a header says.

    Raises:
        PayloadError: there is more.
    """
    data = bytearray()
    async for chunk in chunks:
        data += chunk
        check_length(len(data), limit, what)
    return data


def check_length(length: int, limit: int, what: str) -> None:
    """Raise if a message is longer than it may be.

    Raises:
        PayloadError: it is.
    """
    if length > limit:
        raise PayloadError(f"{what} has more than {limit} bytes: send smaller batches, or raise max_bytes there")
