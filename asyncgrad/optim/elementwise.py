"""What the updates of elementwise optimizers share: scratch arrays, numbers as arrays, and views of complex arrays."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..graph.values import empty_beside

__all__ = ["Scratch", "as_scalars", "real_view"]


@final
class Scratch(dict[tuple[int, ...], tuple[Any, ...]]):
    """Arrays of arbitrary content by their shape, made when first asked for, so that later steps allocate nothing.

    Args:
        like: an array of their type, dtype and device.
        count: how many there are of each shape.
    """

    __slots__ = ("_count", "_like")

    def __init__(self, like: Any, count: int) -> None:
        super().__init__()
        # An empty array, since `like` itself would be kept alive.
        self._like = empty_beside(like, (0,))
        self._count = count

    def __missing__(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        arrays = self[shape] = tuple([empty_beside(self._like, shape) for _ in range(self._count)])
        return arrays


def as_scalars(like: Any, *numbers: float) -> tuple[Any, ...]:
    """Return numbers as what is multiplied fastest by an array: for NumPy, arrays of one element in its real dtype.

    A ufunc takes 0.3 µs longer for a Python number than for such an array.
    """
    if type(like) is not np.ndarray:
        return numbers
    dtype = like.dtype if like.dtype.kind != "c" else like.real.dtype
    return tuple([np.asarray(number, dtype) for number in numbers])


def real_view(array: Any) -> Any:
    """Return a real array as it is, and a complex one as a view of its real and imaginary parts, on a last axis."""
    return array if array.dtype.kind != "c" else array[..., None].view(array.real.dtype)
