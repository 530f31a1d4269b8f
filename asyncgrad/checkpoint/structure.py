"""Structures of tensors: the arguments and the results of a checkpointed function, taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import AsyncGeneratorType, GeneratorType
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentTypeError
from ..graph.tensor_base import TensorBase

__all__ = ["Place", "filled", "refuse_generators", "taken_apart"]

#: What a stream of random numbers may be among the arguments.
RANDOM = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)


class Place(NamedTuple):
    """Where tensor number `position` of a structure was."""

    position: int


def taken_apart(value: Any, tensors: list[Any], streams: list[Any] | None = None) -> Any:
    """Return `value` with a Place for each tensor in it; add those to `tensors`, and random streams to `streams`.

    Looks into lists, tuples and dicts, which are copied, and not into other objects.
    """
    if isinstance(value, TensorBase):
        tensors.append(value)
        return Place(len(tensors) - 1)
    if streams is not None and isinstance(value, RANDOM):
        streams.append(value)
        return value
    return _mapped(value, lambda item: taken_apart(item, tensors, streams))


def filled(template: Any, tensors: Sequence[Any]) -> Any:
    """Return what `taken_apart` made, with `tensors` in their places."""
    if isinstance(template, Place):
        return tensors[template.position]
    return _mapped(template, lambda item: filled(item, tensors))


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    kind = type(value)
    if kind is list:
        return [change(item) for item in value]
    if kind is tuple:
        return tuple([change(item) for item in value])
    if kind is dict:
        return {key: change(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(kind, "_fields") and kind is not Place:
        return kind(*[change(item) for item in value])
    return value


def refuse_generators(output: Any, name: str) -> None:
    """Raise for what a generator function returns: nothing of it has run yet."""
    if isinstance(output, (GeneratorType, AsyncGeneratorType)):
        raise ArgumentTypeError(
            f"{name} is a generator function, whose body runs only once somebody iterates: checkpoint a function that "
            "returns its results, for example as a list"
        )
