"""The names of `scipy.signal`, for functions that are differentiated; needs SciPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.settings.arguments import must_be
from ...errors import ArgumentError
from ..plain_names import attach_names, named_in

Axes = Sequence[Sequence[int]]
_MODULES = ("scipy.signal", "asyncgrad.scipy.signal")


def convolve(
    A: Any,
    B: Any,
    axes: Axes | str | None = None,
    dot_axes: Axes = ((), ()),
    mode: str = "full",
    method: str = "auto",
) -> Any:
    """Return the convolution of two arrays along some axes, summed over others, for each index of the rest.

    Args:
        A: an array.
        B: an array.
        axes: the axes of `A` that are convolved, and those of `B`; None for all. SciPy's `mode` may stand here.
        dot_axes: the axes of `A` that are summed over, and those of `B`.
        mode: "full", "valid" or "same", as for `scipy.signal.convolve`.
        method: that of `scipy.signal.convolve`, where `axes` is None.

    Returns:
        An array whose axes are the other ones of `A`, the other ones of `B`, and the convolved ones.

    Raises:
        ArgumentError: there is no such mode; or it is "valid", and neither array is the larger one along all axes.

    Source: autograd.scipy.signal.convolve.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips.scipy.signal import convolve
        >>> images, filters = np.ones((5, 3, 8, 8)), np.ones((3, 4, 2, 2))
        >>> convolve(images, filters, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="valid").shape
        (5, 4, 7, 7)
    """
    if axes is None or isinstance(axes, str):
        return named_in(*_MODULES, "convolve")(A, B, mode if axes is None else axes, method)
    if mode not in ("full", "valid", "same"):
        raise ArgumentError(must_be("mode", "'full', 'valid' or 'same'", mode))
    count = len(axes[0])
    first, second = _sorted(A, dot_axes[0], axes[0]), _sorted(B, dot_axes[1], axes[1])
    lengths, others = first.shape[first.ndim - count :], second.shape[second.ndim - count :]
    if mode == "valid" and any(here < there for here, there in zip(lengths, others, strict=True)):
        if any(here > there for here, there in zip(lengths, others, strict=True)):
            raise ArgumentError(
                f"mode 'valid' needs one array that is the larger along all axes, and these have {lengths} and {others}"
            )
        swapped = _windows_times(second, first, count, len(dot_axes[0]), mode)
        rest = second.ndim - count - len(dot_axes[0])
        return np.moveaxis(swapped, range(rest), range(swapped.ndim - count - rest, swapped.ndim - count))
    return _windows_times(first, second, count, len(dot_axes[0]), mode)


def _sorted(array: Any, summed: Sequence[int], convolved: Sequence[int]) -> Any:
    """Return an array whose last axes are those that are summed over, then those that are convolved."""
    last = [*summed, *convolved]
    return np.moveaxis(array, last, range(-len(last), 0)) if last else array


def _windows_times(first: Any, second: Any, count: int, summed: int, mode: str) -> Any:
    """Return the products of the windows of an array with another one, which is flipped."""
    lengths = second.shape[second.ndim - count :]
    if mode != "valid":
        ends = [length - 1 if mode == "full" else (length - 1) // 2 for length in lengths]
        around = [(end if mode == "full" else length - 1 - end, end) for length, end in zip(lengths, ends, strict=True)]
        first = np.pad(first, [(0, 0)] * (first.ndim - count) + around)
    convolved = tuple(range(first.ndim - count, first.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(first, lengths, convolved)
    rest = first.ndim - count - summed
    ours = [*range(rest, rest + summed), *range(first.ndim, first.ndim + count)]
    flipped = np.flip(second, tuple(range(-count, 0)))
    products = np.tensordot(windows, flipped, (ours, list(range(second.ndim - count - summed, second.ndim))))
    return np.moveaxis(products, range(rest, rest + count), range(-count, 0))


__getattr__, __dir__ = attach_names(globals(), *_MODULES)
