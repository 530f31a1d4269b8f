"""The bits of a gradient, as something to compare."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from .tensor_base import TensorBase
from .values import has_memory, on_host

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
        # None, or a number: the text of one tells all its bits.
        return type(value), repr(value)
    array = on_host(value)
    return type(value), array.dtype.str, array.shape, array.strides, array.tobytes()
