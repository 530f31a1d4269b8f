"""What two registered stages share: a Module that learns has one client at a time, whatever its names are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nn.modules.module import Module

__all__ = ["owned_by"]


def owned_by(fn: Any) -> frozenset[int]:
    """Return the identities of what a Module changes as it learns: submodules, parameters, buffers, and their memory.

    Of a function each client has its own copy, so it owns nothing.
    """
    if not isinstance(fn, Module):
        return frozenset()
    tensors = [*fn.parameters(), *fn.buffers()]
    return frozenset([*map(id, fn.modules()), *map(id, tensors), *(id(_memory(one._data)) for one in tensors)])


def _memory(array: Any) -> Any:
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
    return array
