"""Nested lists, tuples and dicts of tensors: taken apart into a flat list of tensors, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..graph.tensor_base import TensorBase
from .rng import STREAM_TYPES

__all__ = ["flatten", "unflatten"]


class TensorIndex(NamedTuple):
    """Stands in a template for tensor number `position`."""

    position: int


def flatten(value: Any, tensors: list[Any], streams: list[Any] | None = None) -> Any:
    """Return a template: a copy of `value` with a TensorIndex in place of each tensor.

    Lists, tuples and dicts are searched and copied; other objects are not.

    Args:
        value: a tensor, a structure of tensors and other things, or anything else.
        tensors: the tensors found are appended here.
        streams: random streams found are appended here, if given; they stay in the template.
    """
    if isinstance(value, TensorBase):
        tensors.append(value)
        return TensorIndex(len(tensors) - 1)
    if streams is not None and isinstance(value, STREAM_TYPES):
        streams.append(value)
        return value
    return _map_items(value, lambda item: flatten(item, tensors, streams))


def unflatten(template: Any, tensors: Sequence[Any]) -> Any:
    """Return a copy of a template of `flatten` with `tensors` in the places of its TensorIndexes."""
    if isinstance(template, TensorIndex):
        return tensors[template.position]
    return _map_items(template, lambda item: unflatten(item, tensors))


def _map_items(value: Any, change: Callable[[Any], Any]) -> Any:
    kind = type(value)
    if kind is list:
        return [change(item) for item in value]
    if kind is tuple:
        return tuple([change(item) for item in value])
    if kind is dict:
        return {key: change(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(kind, "_fields") and kind is not TensorIndex:
        return kind(*[change(item) for item in value])
    return value
