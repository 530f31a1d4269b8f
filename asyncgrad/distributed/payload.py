"""What a message carries: arrays, and a skeleton of lists, tuples, dicts and numbers that says where each array goes.

A skeleton is JSON: nothing of it is code, so a payload may come from anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.arrays.values import is_device_array
from ..core.settings.arguments import describe
from ..core.tree.as_json import CONTAINER, from_json, to_json
from ..errors import ArgumentTypeError, DeviceError, PayloadError

__all__ = ["arrays_of", "check_size", "held_by", "pack", "size_of", "unpack"]

#: How many arrays any message may have, and what each beyond them counts for: an object, with what refers to it.
_FEW_ARRAYS = 64
_ARRAY_BYTES = 512


def pack(value: Any, what: str = "a stage") -> tuple[Any, list[Any]]:
    """Return the skeleton of a tree, and its leaves: the tensors and arrays in it.

    Args:
        value: arrays, tensors, numbers, strings and None, in lists, tuples and dicts.
        what: who takes or returns it, for the error.

    Raises:
        ArgumentTypeError: something else is in it.
        DeviceError: a tensor is in the memory of a GPU.
    """
    found: list[Any] = []

    def leaf(part: Any, _: str) -> Any:
        return _leaf(part, found, what)

    return to_json(value, leaf, what), found


def arrays_of(leaves: Sequence[Any]) -> list[Any]:
    """Return the arrays of tensors and arrays, which share their memory; None stays None."""
    return [leaf._data if isinstance(leaf, TensorBase) else leaf for leaf in leaves]


def _leaf(value: Any, found: list[Any], what: str) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind in "biufc":
            value = np.asarray(value)
        elif not isinstance(value, np.str_):
            raise ArgumentTypeError(
                f"{what} takes and returns arrays of numbers, not {describe(value)}: no other kind of array travels"
            )
    if isinstance(value, TensorBase) and is_device_array(value._data):
        raise DeviceError(
            f"{what} takes and returns tensors in the memory of the host, which it can send, and not one of shape "
            f"{value._data.shape} on '{value._device}': write t.to('cpu')"
        )
    if isinstance(value, (TensorBase, np.ndarray)):
        found.append(value)
        return {"array": len(found) - 1}
    # After the arrays: np.float64 is a float.
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return CONTAINER
    if isinstance(value, dict) and all(isinstance(key, (str, int)) for key in value):
        return CONTAINER
    raise ArgumentTypeError(
        f"{what} takes and returns arrays, tensors, numbers, strings and None, in lists, tuples and dicts, "
        f"not {describe(value)}"
    )


def unpack(skeleton: Any, leaves: Sequence[Any]) -> Any:
    """Return the tree of a skeleton, with `leaves` in place of its arrays.

    Raises:
        ValueError: `pack` makes no such skeleton.
    """

    def leaf(kind: str, content: Any) -> Any:
        if kind == "array":
            return leaves[content]
        raise ValueError(f"a tree has arrays, lists, tuples and dicts, and no {kind}")

    return from_json(skeleton, leaf)


def size_of(arrays: Sequence[Any]) -> int:
    """Return the bytes of arrays, None among them."""
    return sum(0 if array is None else array.nbytes for array in arrays)


def held_by(arrays: Sequence[Any]) -> int:
    """Return the bytes that arrays take where they are kept: however small, thousands of them take megabytes."""
    return size_of(arrays) + _ARRAY_BYTES * max(0, len(arrays) - _FEW_ARRAYS)


def check_size(arrays: Sequence[Any], limit: int, what: str) -> None:
    """Raise if arrays are larger than a message may be.

    Raises:
        PayloadError: they have more bytes than `limit`.
    """
    size = size_of(arrays)
    if size > limit:
        largest = max((array for array in arrays if array is not None), key=lambda array: array.nbytes)
        raise PayloadError(
            f"{what} has {size} bytes, and a message may have {limit}; its largest array has shape {largest.shape} and "
            f"dtype {largest.dtype}: send smaller batches, or give the transport a larger max_bytes"
        )
