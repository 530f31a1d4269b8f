"""How NumPy's iterator goes over the operands of a ufunc: in which parts, and which ones it copies to a buffer before.

That decides how often a loop is called, for how many elements and with which steps, and depends on the release of
NumPy. So the iterator itself is asked, with the options of `ufunc_object.c`, on memory that lies in the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from .inner_loops import address_of
from .runner import MOST_OPERANDS

__all__ = ["Axes", "Layout", "elementwise_parts", "memory_like", "merged_axes", "reduction_places"]

#: The character of a dtype, a shape, and strides.
Layout = tuple[str, tuple[int, ...], tuple[int, ...]]
#: The lengths of axes, and the steps of a result and of what is reduced along each.
Axes = tuple[tuple[int, tuple[int, int]], ...]
#: Where there are more parts, it is not worth to look at them.
_MOST_PARTS = 1 << 14


@functools.lru_cache(maxsize=4096)
def elementwise_parts(layouts: tuple[Layout, ...], buffer_size: int) -> tuple[int, list[int]] | None:
    """Return how many elements a loop is called for at a time, and with which steps.

    Args:
        layouts: the operands; the last is the result, which lies in C order.
        buffer_size: that of NumPy.

    It is None where there are too many parts, or parts that are not alike, or not in the order of the result.
    """
    arrays = [memory_like(one) for one in layouts]
    result = arrays[-1]
    options: list[Any] = [["readonly", "aligned"]] * (len(arrays) - 1)
    length, done = 0, 0
    steps: list[int] = []
    with np.nditer(
        arrays,
        flags=["external_loop", "buffered", "grow_inner", "copy_if_overlap"],
        op_flags=[*options, ["writeonly", "aligned", "no_broadcast"]],
        buffersize=buffer_size,
    ) as iterator:
        for number, parts in enumerate(iterator):
            if number == 0:
                length, steps = parts[0].size, [one.strides[0] for one in parts]
            elif number == _MOST_PARTS or steps != [one.strides[0] for one in parts]:
                return None
            if address_of(parts[-1]) != address_of(result) + done * result.itemsize:
                return None
            if parts[0].size != min(length, result.size - done):
                return None
            done += parts[0].size
    return (length, steps) if done == result.size else None


def merged_axes(axes: Iterable[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    """Return axes with the steps of operands along each; those that are one axis in memory are one, and one is left."""
    merged: list[tuple[int, list[int]]] = []
    for length, steps in axes:
        if length == 1:
            continue
        if merged and all(outer == length * inner for outer, inner in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = merged[-1][0] * length, steps
        else:
            merged.append((length, steps))
    return merged or [(1, [0] * MOST_OPERANDS)]


def reduction_places(source: Layout, onto: tuple[int, ...], axes: Axes, buffer_size: int) -> np.ndarray | None:
    """Return where a reduction calls its loop, if that is along the last of some axes, for each element around it.

    Args:
        source: what is reduced.
        onto: for each axis of it that of the result, which lies in C order, or -1.
        axes: the axes.
        buffer_size: that of NumPy.

    A place is given by the offsets in the result and in the source, in bytes. It is None where the calls are others.
    """
    *outer, (length, steps) = axes
    if prod([count for count, _ in outer]) > _MOST_PARTS or any(stride < 0 for stride in source[2]):
        return None
    offsets = np.zeros((1, 2), np.int64)
    for count, along in outer:
        offsets = (offsets[:, None] + np.arange(count)[:, None] * np.array(along)).reshape(-1, 2)
    array = memory_like(source)
    result = np.empty([array.shape[axis] for axis, place in enumerate(onto) if place >= 0], array.dtype)
    begin = np.array([address_of(result), address_of(array)])
    number = 0
    with np.nditer(
        [result, array],
        flags=["external_loop", "buffered", "grow_inner", "reduce_ok", "delay_bufalloc", "copy_if_overlap"],
        op_flags=[["readwrite", "aligned"], ["readonly", "aligned"]],
        op_axes=[list(onto), list(range(array.ndim))],
        buffersize=buffer_size,
    ) as iterator:
        iterator.reset()
        for expected, parts in zip((offsets + begin).tolist(), iterator, strict=False):
            number += parts[0].size
            if [*map(address_of, parts)] != expected or [one.strides[0] for one in parts] != list(steps):
                return None
            if parts[0].size != length:
                return None
    return offsets if number == array.size else None


def memory_like(layout: Layout) -> np.ndarray:
    """Return an array that lies in memory in this way."""
    kind, shape, strides = layout
    ends = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    begin = -sum(min(end, 0) for end in ends)
    item = np.dtype(kind).itemsize
    memory = np.zeros(begin + sum(max(end, 0) for end in ends) + item, np.uint8)
    return np.ndarray(shape, kind, memory.data, begin, strides)
