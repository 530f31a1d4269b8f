"""The memory and the bits of arrays and tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import asyncgrad as ag

__all__ = ["address", "bits", "bits_of_grads"]


def address(array: Any) -> int:
    """Where the memory of an array or a tensor begins."""
    bare: np.ndarray = array.numpy() if isinstance(array, ag.Tensor) else array
    return bare.__array_interface__["data"][0]


def bits(array: Any) -> Any:
    """Shape, dtype and bytes of an array or a tensor; None where there is none."""
    bare = array.numpy() if isinstance(array, ag.Tensor) else array
    return None if bare is None else (bare.shape, bare.dtype, bare.tobytes())


def bits_of_grads(tensors: Iterable[Any]) -> list[Any]:
    """The bits of the gradient of each tensor."""
    return [bits(tensor.grad) for tensor in tensors]
