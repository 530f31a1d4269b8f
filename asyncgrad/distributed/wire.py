"""Messages as bytes: a short JSON head, then the raw bytes of the arrays. Reading one runs no code that it contains."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, PayloadError

__all__ = ["decode", "encode", "message_bytes", "read_bytes"]

#: The most bytes of a head.
_HEAD_BYTES = 1 << 20

#: Heads and arrays begin at multiples of this, so that arrays are aligned where they lie.
_ALIGNMENT = 16


def encode(head: dict[str, Any], arrays: Sequence[np.ndarray | None]) -> bytes:
    """Return a message: 16 bytes with the length of the head, the head, and the arrays in C order.

    Args:
        head: what else it says, as JSON.
        arrays: arrays of numbers; None for one that is not there.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.distributed.wire import decode, encode
        >>> decode(bytearray(encode({"op": "ping"}, [np.array([1.0, 2.0]), None])))
        ({'op': 'ping'}, [array([1., 2.]), None])
    """
    specs = [None if array is None else [array.dtype.str, list(array.shape)] for array in arrays]
    text = json.dumps({**head, "arrays": specs}).encode()
    if len(text) > _HEAD_BYTES:
        raise PayloadError(f"a message says {len(text)} bytes besides its arrays, and may say {_HEAD_BYTES}")
    parts = [len(text).to_bytes(_ALIGNMENT, "little"), text, _padding(len(text))]
    for array in arrays:
        if array is not None:
            parts += [np.ascontiguousarray(array).tobytes(), _padding(array.nbytes)]
    return b"".join(parts)


def decode(data: bytearray) -> tuple[dict[str, Any], list[np.ndarray | None]]:
    """Return the head and the arrays of a message; the arrays share its memory, and may be written into.

    Raises:
        ArgumentError: it is no message.
    """
    try:
        length = int.from_bytes(data[:_ALIGNMENT], "little")
        begin = _ALIGNMENT + length
        if len(data) < begin:
            raise ValueError(f"it has {len(data)} bytes, and its head alone {begin}")
        head = json.loads(bytes(data[_ALIGNMENT:begin]))
        specs = head.pop("arrays")
        arrays: list[np.ndarray | None] = []
        for spec in specs:
            begin += -begin % _ALIGNMENT
            array = None if spec is None else _array_at(data, begin, *spec)
            begin += 0 if array is None else array.nbytes
            arrays.append(array)
        if begin + -begin % _ALIGNMENT != len(data):
            raise ValueError(f"its arrays end at byte {begin} of {len(data)}")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ArgumentError(f"this is no message of a stage: {error}") from None
    return head, arrays


def _array_at(data: bytearray, begin: int, dtype: str, shape: list[int]) -> np.ndarray:
    kind = np.dtype(dtype)
    if not isinstance(dtype, str) or kind.kind not in "biufc":
        raise ValueError(f"{dtype!r} is no dtype of numbers")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"{shape!r} is no shape")
    count = math.prod(shape)
    if begin + count * kind.itemsize > len(data):
        raise ValueError(f"an array of shape {shape} and dtype {dtype} is longer than the message")
    if not count:
        return np.empty(shape, kind)
    return np.frombuffer(data, kind, count, begin).reshape(shape)


def _padding(length: int) -> bytes:
    return bytes(-length % _ALIGNMENT)


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
        if len(data) > limit:
            raise PayloadError(f"{what} has more than {limit} bytes: send smaller batches, or raise max_bytes there")
    return data
