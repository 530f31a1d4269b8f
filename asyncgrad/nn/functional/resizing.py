"""Padding, and images of another size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import as_like, empty_like, zeros_like
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...errors import ArgumentError
from ..shared.arguments import array_of, floating
from .linear import linear
from .pooling import adaptive_avg_pool1d, adaptive_avg_pool2d

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.arrays.array import Array
    from ...core.arrays.array_like import Lengths
    from ...core.tensor import Tensor


__all__ = ["interpolate", "pad"]

#: The modes of `pad`, and what NumPy calls them.
_MODES: dict[str, Any] = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@primitive()
def taken_along_(x: Array, indices: Any, axis: int) -> Array:
    """Return the elements of x at the indices along an axis, an array on the host."""
    if times := _times(indices, x.shape[axis]):
        result = empty_like(x, (*x.shape[:axis], len(indices), *x.shape[axis + 1 :]))
        for offset in range(times):
            result[(*(slice(None),) * axis, slice(offset, None, times))] = x
        return result
    return np.take(x, as_like(indices, x), axis=axis)


@derivative(taken_along_, "x")
def _(g: Array, x_shape: tuple[int, ...], indices: Any, axis: int) -> Array:
    return added_along(g, indices, axis, x_shape[axis])


@primitive()
def added_along_(g: Any, indices: Any, axis: int, length: int) -> Array:
    """Return zeros, `length` along an axis, with each element of g added at its index."""
    result = zeros_like(g, (*g.shape[:axis], length, *g.shape[axis + 1 :]))
    before = (slice(None),) * axis
    if times := _times(indices, length):
        for offset in range(times):
            result += g[(*before, slice(offset, None, times))]
        return result
    if g.__class__ is np.ndarray and indices.size and (indices[1:] >= indices[:-1]).all():
        places, starts = np.unique(indices, return_index=True)
        result[(*before, places)] = np.add.reduceat(g, starts, axis=axis)
        return result
    for first, last, step in _runs(indices):
        where = int(indices[first])
        end = where + step * (last - first)
        target = slice(where, None if end < 0 else end, step)
        result[(*before, target)] += g[(*before, slice(first, last))]
    return result


@derivative(added_along_, "g")
def _(h: Array, indices: Any, axis: int) -> Array:
    return taken_along(h, indices, axis)


taken_along: Callable[..., Any] = taken_along_.call
added_along: Callable[..., Any] = added_along_.call


def _times(indices: Any, length: int) -> int:
    """Return how many times each of `length` indices is repeated, if it is the same number for all; else 0."""
    times = len(indices) // length if length else 0
    return times if times and np.array_equal(indices, np.repeat(np.arange(length), times)) else 0


def _runs(indices: Any) -> list[tuple[int, int, int]]:
    """Return where runs of consecutive indices begin and end, and the step of each, 1 or -1."""
    steps = np.diff(indices)
    runs: list[tuple[int, int, int]] = []
    first = 0
    while first < len(indices):
        step = int(steps[first]) if first < len(steps) and abs(steps[first]) == 1 else 1
        last = first + 1
        while last < len(indices) and steps[last - 1] == step:
            last += 1
        runs.append((first, last, step))
        first = last
    return runs


def pad(
    x: Tensor | np.ndarray, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor | np.ndarray:
    """Return x with elements added around its last axes, or cut off.

    Args:
        x: any shape.
        pad: for the last axis, then the one before it and so on, how many elements to add before and after; negative
            numbers cut elements off.
        mode: "constant", "reflect" (without the edge), "replicate" (the edge), or "circular".
        value: the constant; None for 0.

    Raises:
        ArgumentError: the numbers or options do not fit; the message names them.

    Source: torch.nn.functional.pad.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.pad(np.array([1.0, 2.0, 3.0]), (1, 2), mode="reflect")
        array([2., 1., 2., 3., 2., 1.])
    """
    shape = array_of(x).shape
    widths = _widths(shape, pad, mode)
    if value is not None and mode != "constant":
        raise ArgumentError(f"nn.pad with mode={mode!r} takes no value, and got {value!r}")
    if any(number < 0 for both in widths for number in both):
        # What is cut off on one side is not there to be reflected on the other.
        kept = tuple(
            slice(max(0, -before), length - max(0, -after))
            for (before, after), length in zip(widths, shape, strict=True)
        )
        x, widths = x[kept], [(max(0, before), max(0, after)) for before, after in widths]
    if not any(number for both in widths for number in both):
        return x
    if mode == "constant":
        return np.pad(x, widths, constant_values=value or 0)
    for axis, both in enumerate(widths):
        if any(both):
            x = taken_along(x, np.pad(np.arange(array_of(x).shape[axis]), both, mode=_MODES[mode]), axis)
    return x


def _widths(shape: tuple[int, ...], pad: Any, mode: str) -> list[tuple[int, int]]:
    """Return how many elements to add before and after each axis."""
    if mode not in _MODES:
        raise ArgumentError(f"nn.pad: mode must be one of {', '.join(_MODES)}, not {mode!r}")
    numbers = [pad] if isinstance(pad, (int, np.integer)) else list(pad)
    if len(numbers) % 2 or len(numbers) > 2 * len(shape) or not all(isinstance(n, (int, np.integer)) for n in numbers):
        raise ArgumentError(
            f"nn.pad takes two ints for each padded axis, the last axis first, not {pad!r} for x of shape {shape}"
        )
    pairs = [(int(before), int(after)) for before, after in zip(numbers[::2], numbers[1::2], strict=True)]
    widths = [(0, 0)] * (len(shape) - len(pairs)) + pairs[::-1]
    for (before, after), length in zip(widths, shape, strict=True):
        most = {"reflect": length - 1, "circular": length}.get(mode, math.inf)
        if max(before, after) > most or min(before, 0) + min(after, 0) < -length:
            raise ArgumentError(
                f"nn.pad with mode={mode!r} cannot add {(before, after)} to an axis of {length} elements"
            )
        if mode == "replicate" and not length and max(before, after):
            raise ArgumentError("nn.pad with mode='replicate' needs an element to repeat: an axis of x has none")
    return widths


#: The modes of `interpolate`, with the number of axes of their images; None for any number.
_INTERPOLATIONS = {"nearest": None, "nearest-exact": None, "area": None, "linear": 1, "bilinear": 2, "trilinear": 3}


def interpolate(
    x: Tensor | np.ndarray,
    size: Lengths | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor | np.ndarray:
    """Return images of another size, with the nearest elements or interpolated ones.

    Args:
        x: shape `(n, channels, ...)`, with one axis or more for each image.
        size: of the result, an int for all axes or one for each; None for that of x times `scale_factor`.
        scale_factor: a number for all axes or one for each; not together with `size`.
        mode: "nearest", "nearest-exact", "area" (the means of windows, as in adaptive_avg_pool2d), or linear
            interpolation: "linear", "bilinear" and "trilinear" for images with one, two and three axes.
        align_corners: in linear interpolation, let the first and the last elements stay where they are, rather than
            the borders around them.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.interpolate.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.interpolate(np.array([[[0.0, 3.0]]]), size=4, mode="linear", align_corners=True)
        array([[[0., 1., 2., 3.]]])
    """
    data = array_of(x)
    axes = data.ndim - 2
    if mode not in _INTERPOLATIONS:
        raise ArgumentError(f"nn.interpolate: mode must be one of {', '.join(_INTERPOLATIONS)}, not {mode!r}")
    wanted = _INTERPOLATIONS[mode]
    if axes < 1 or not data.size or (wanted is not None and axes != wanted):
        expected = {None: "...", 1: "length", 2: "height, width", 3: "depth, height, width"}[wanted]
        raise ArgumentError(
            f"nn.interpolate with mode={mode!r} takes x of shape (n, channels, {expected}), not {data.shape}"
        )
    if align_corners is not None and wanted is None:
        raise ArgumentError(f"nn.interpolate with mode={mode!r} takes no align_corners")
    sizes, factors = _new_sizes(data.shape[2:], size, scale_factor)
    if mode == "area":
        if axes > 2:
            raise ArgumentError("nn.interpolate with mode='area' takes images with one or two axes")
        return adaptive_avg_pool1d(x, sizes) if axes == 1 else adaptive_avg_pool2d(x, sizes)
    is_aligned = align_corners is not None and truth(align_corners, "align_corners")
    for axis, (new, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        if wanted is None:
            shift = 0.5 if mode == "nearest-exact" else 0.0
            found = np.floor((np.arange(new, dtype=np.float32) + np.float32(shift)) * np.float32(factor))
            x = taken_along(x, np.minimum(found.astype(np.int64), data.shape[axis] - 1), axis)
        elif new != data.shape[axis] or factor != 1:
            matrix = _between(data.shape[axis], new, factor, is_aligned, floating(data))
            lines: Any = x
            lines = linear(np.moveaxis(lines, axis, -1), matrix)
            x = np.moveaxis(lines, -1, axis)
    return x


def _new_sizes(shape: tuple[int, ...], size: Any, scale_factor: Any) -> tuple[list[int], list[float]]:
    """Return the new size of each axis, and how many old elements there are for a new one."""
    if (size is None) == (scale_factor is None):
        raise ArgumentError("nn.interpolate takes one of size and scale_factor")
    given = size if scale_factor is None else scale_factor
    each = list(given) if isinstance(given, (tuple, list)) else [given] * len(shape)
    if len(each) != len(shape):
        raise ArgumentError(f"nn.interpolate needs a number for each axis of images of shape {shape}, not {given!r}")
    if scale_factor is None:
        sizes, factors = [int(one) for one in each], [old / one for old, one in zip(shape, each, strict=True) if one]
    else:
        sizes = [math.floor(old * one) for old, one in zip(shape, each, strict=True)]
        factors = [1 / one for one in each if one]
    if min(sizes) < 1:
        raise ArgumentError(f"nn.interpolate cannot make images of shape {tuple(sizes)} of images of shape {shape}")
    return sizes, factors


def _between(old: int, new: int, factor: float, align_corners: bool, like: Array) -> Any:
    """Return the matrix of linear interpolation, shape (new, old)."""
    if align_corners:
        places = np.arange(new) * ((old - 1) / (new - 1) if new > 1 else 0.0)
    else:
        places = np.maximum((np.arange(new) + 0.5) * factor - 0.5, 0)
    left = np.minimum(places.astype(np.int64), old - 1)
    right = np.minimum(left + 1, old - 1)
    matrix = np.zeros((new, old), like.dtype)
    np.add.at(matrix, (np.arange(new), left), 1 - (places - left))
    np.add.at(matrix, (np.arange(new), right), places - left)
    return as_like(matrix, like)
