"""What a journal and a checkpoint hold: trees as JSON, without pickles, so that reading them runs no code."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.arrays.values import is_device_array
from ..core.settings.arguments import describe, must_be
from ..core.tensor import Tensor, asarray
from ..core.tree.as_json import CONTAINER, from_json, to_json
from ..errors import ArgumentTypeError

__all__ = ["array_as_text", "array_of_text", "decode", "encode"]


def encode(value: Any, put: Callable[[Any], Any], path: str) -> Any:
    """Return a tree as what JSON can hold; floats keep every bit.

    Args:
        value: dicts, lists and tuples of arrays, tensors, numbers, strings and None.
        put: called with each array; returns what JSON holds in its place.
        path: names `value` in errors.

    Raises:
        ArgumentTypeError: it holds something else; the message names the place.
    """

    def leaf(part: Any, place: str) -> Any:
        return _leaf(part, put, place)

    return to_json(value, leaf, path)


def _leaf(value: Any, put: Callable[[Any], Any], path: str) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if is_device_array(value):
        # What an optimizer keeps beside parameters on a GPU.
        value = asarray(value)
    if isinstance(value, Tensor):
        return {"array": put(value.detach().to("cpu").numpy())}
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OV":
        return {"array": put(value)}
    if isinstance(value, np.generic) and value.dtype.kind not in "OV":
        return {"scalar": put(np.asarray(value))}
    if isinstance(value, Mapping):
        for key in value:
            if type(key) not in (str, int, float, bool):
                raise ArgumentTypeError(must_be(f"a key of {path}", "a string or a number", key))
        return CONTAINER
    if type(value) in (list, tuple):
        return CONTAINER
    raise ArgumentTypeError(
        f"{path} cannot be written to the disk: give dicts, lists and tuples of arrays, numbers, strings and None, not "
        f"{describe(value)}"
    )


def decode(value: Any, get: Callable[[Any], Any]) -> Any:
    """Return the tree that `encode` was given; `get` returns the array that `put` was given.

    Raises:
        ValueError: `encode` writes no such thing.
    """

    def leaf(kind: str, content: Any) -> Any:
        if kind == "array":
            return get(content)
        if kind == "scalar":
            return get(content)[()]
        raise ValueError(f"a tree has arrays, scalars, lists, tuples and dicts, and no {kind}")

    return from_json(value, leaf)


def array_as_text(array: Any) -> list[Any]:
    """Return the dtype, the shape and the base64 of the bytes of an array."""
    return [array.dtype.str, list(array.shape), base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()]


def array_of_text(text: list[Any]) -> Any:
    """Return the array that `array_as_text` was given, writeable."""
    dtype, shape, content = text
    return np.frombuffer(base64.b64decode(content), np.dtype(dtype)).reshape(shape).copy()
