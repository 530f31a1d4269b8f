"""The bits of a gradient, as something to compare."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any, final

from .tensor_base import TensorBase
from .values import has_memory, is_sparse, on_host

__all__ = ["bits_of"]


def bits_of(value: Any) -> Hashable:
    """Return what is equal for two gradients of the same kind, shape, dtype, layout in memory and bits, and no others.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.core.arrays.bits import bits_of
        >>> bits_of(np.array([0.0])) == bits_of(np.array([0.0])), bits_of(np.array([0.0])) == bits_of(np.array([-0.0]))
        (True, False)
    """
    if isinstance(value, TensorBase):
        value = value._data
    if not has_memory(value):
        return _bits_of_object(value)
    array = on_host(value)
    return type(value), array.dtype.str, array.shape, array.strides, array.tobytes()


def _bits_of_object(value: Any) -> Hashable:
    if value is None or isinstance(value, (int, float, complex, str, bytes)):
        # The text of one tells all its bits.
        return type(value), repr(value)
    if isinstance(value, (tuple, list)):
        return type(value), *map(bits_of, value)
    if isinstance(value, dict):
        return type(value), *((bits_of(key), bits_of(one)) for key, one in value.items())
    if is_sparse(value) and hasattr(entries := value.tocoo(), "coords"):
        return type(value), value.shape, *map(bits_of, (*entries.coords, entries.data))
    if getattr(getattr(type(value), "__dataclass_params__", None), "eq", False):
        # Not by its `==`, which cannot compare arrays in it, and takes 0.0 for -0.0.
        # Whoever has made a dataclass has loaded the module, which takes as long to load as this package does.
        fields = sys.modules["dataclasses"].fields(value)
        return type(value), *(bits_of(getattr(value, field.name)) for field in fields)
    return _Object(value)


@final
class _Object:
    """An object that equals another one of its class if it says so; one that cannot say is equal to itself alone."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Object) or type(other._value) is not type(self._value):
            return False
        if other._value is self._value:
            return True
        try:
            return bool(other._value == self._value)
        except (TypeError, ValueError):
            # Of an array in it, say.
            return False

    def __hash__(self) -> int:
        return hash(type(self._value))
