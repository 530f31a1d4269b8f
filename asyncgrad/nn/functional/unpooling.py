"""Maxima put back to where they were, and windows at random places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.values import as_like, is_device_array, on_host, zeros_like
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...errors import ArgumentError, IndexRangeError
from ...random import generator
from ..shared.arguments import array_of, check_real, constant, is_outside, lengths, pair, saved_constant, single, triple
from .pooling import with_positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.arrays.array import Array
    from ...core.arrays.array_like import Lengths
    from ...core.tensor import Tensor


__all__ = ["fractional_max_pool2d", "fractional_max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d"]


@primitive()
def placed_at_(x: Any, places: Any, length: int) -> Array:
    """Return zeros, `length` along the last axis, with each element of x in its place; of several there, the last."""
    result = zeros_like(x, (*x.shape[:-1], length))
    np.put_along_axis(result, places, x, -1)
    return result


@derivative(placed_at_, "places")
def _(g: Array) -> None:
    """Give no gradient; the formula is there so that the places may be a Tensor, whose version is checked."""


@derivative(placed_at_, "x")
def _(g: Array, places: Any) -> Any:
    return np.take_along_axis(g, places, -1)


placed_at: Callable[..., Any] = placed_at_.call


@on_device_of_arguments
def max_unpool1d(
    x: Tensor | np.ndarray,
    indices: Tensor | np.ndarray,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor | np.ndarray:
    """Return sequences of zeros with the results of `max_pool1d` where the maxima were.

    Args:
        x: those results, shape `(n, channels, length)` or `(channels, length)`.
        indices: the positions that it has returned.
        kernel_size: as it had; so stride and padding.
        stride: None for the kernel's size.
        padding: elements around the sequences.
        output_size: the length of the result, where more than one would do; it may be the whole shape.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        IndexRangeError: a position lies outside of the result.

    Source: torch.nn.functional.max_unpool1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> found, places = nn.max_pool1d(np.array([[[1.0, 4.0, 2.0, 3.0]]]), 2, return_indices=True)
        >>> nn.max_unpool1d(found, places, 2)
        array([[[0., 4., 0., 3.]]])
    """
    kernel = (single("kernel_size", kernel_size, 1),)
    steps = kernel if stride is None else (single("stride", stride, 1),)
    return _unpooled("max_unpool1d", x, indices, kernel, steps, (single("padding", padding, 0),), output_size)


@on_device_of_arguments
def max_unpool2d(
    x: Tensor | np.ndarray,
    indices: Tensor | np.ndarray,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor | np.ndarray:
    """Return images of zeros with the results of `max_pool2d` where the maxima were: see `max_unpool1d`.

    Args:
        x: those results, shape `(n, channels, rows, columns)` or `(channels, rows, columns)`.
        indices: the positions that it has returned.
        kernel_size: height and width of the window, an int or a pair, as it had; so stride and padding.
        stride: steps of the window, an int or a pair; None for the kernel's size.
        padding: elements around the images, an int or a pair.
        output_size: rows and columns of the result, where more than one would do; it may be the whole shape.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        IndexRangeError: a position lies outside of the result.

    Source: torch.nn.functional.max_unpool2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> found, places = nn.max_pool2d(np.array([[[1.0, 4.0], [2.0, 3.0]]]), 2, return_indices=True)
        >>> nn.max_unpool2d(found, places, 2)
        array([[[0., 4.],
                [0., 0.]]])
    """
    kernel = pair("kernel_size", kernel_size, 1)
    steps = kernel if stride is None else pair("stride", stride, 1)
    return _unpooled("max_unpool2d", x, indices, kernel, steps, pair("padding", padding, 0), output_size)


@on_device_of_arguments
def max_unpool3d(
    x: Tensor | np.ndarray,
    indices: Tensor | np.ndarray,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor | np.ndarray:
    """Return volumes of zeros with the results of `max_pool3d` where the maxima were: see `max_unpool1d`.

    Args:
        x: those results, shape `(n, channels, depth, rows, columns)`, or one without n.
        indices: the positions that it has returned.
        kernel_size: depth, height and width of the window, an int or three, as it had; so stride and padding.
        stride: steps of the window, an int or three; None for the kernel's size.
        padding: elements around the volumes, an int or three.
        output_size: depth, rows and columns of the result, where more than one would do; it may be the whole shape.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        IndexRangeError: a position lies outside of the result.

    Source: torch.nn.functional.max_unpool3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> found, places = nn.max_pool3d(np.array([[[[1.0, 4.0]]]]), (1, 1, 2), return_indices=True)
        >>> nn.max_unpool3d(found, places, (1, 1, 2))
        array([[[[0., 4.]]]])
    """
    kernel = triple("kernel_size", kernel_size, 1)
    steps = kernel if stride is None else triple("stride", stride, 1)
    return _unpooled("max_unpool3d", x, indices, kernel, steps, triple("padding", padding, 0), output_size)


def _unpooled(
    function: str,
    x: Any,
    indices: Any,
    kernel: tuple[int, ...],
    steps: tuple[int, ...],
    around: tuple[int, ...],
    output_size: Any,
) -> Any:
    places = as_like(constant(function, "indices", indices), array_of(x))
    shape, axes = array_of(x).shape, len(kernel)
    if len(shape) not in (axes + 1, axes + 2):
        raise ArgumentError(f"{function} takes x of {axes + 1} or {axes + 2} axes, not of shape {shape}")
    if places.shape != shape or places.dtype.kind not in "iu":
        raise ArgumentError(
            f"{function} takes the positions that max_pool{axes}d(..., return_indices=True) returned, ints of shape "
            f"{shape}, not {places.dtype} of shape {places.shape}"
        )
    if not all(shape[1:]):
        raise ArgumentError(f"{function} takes x with a channel and at least one element, not of shape {shape}")
    sizes = _sizes_before(function, shape[-axes:], kernel, steps, around, output_size)
    count = math.prod(sizes)
    if is_outside(places, count).any():
        raise IndexRangeError(
            f"{function}: positions in a result of {sizes} are from 0 to {count - 1}, and indices has "
            f"{places[is_outside(places, count)].flat[0]}"
        )
    flat = (*shape[:-axes], math.prod(shape[-axes:]))
    places = saved_constant(places.reshape(flat), indices, x)
    return np.reshape(placed_at(np.reshape(x, flat), places, count), (*shape[:-axes], *sizes))


def _sizes_before(
    function: str,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    steps: tuple[int, ...],
    around: tuple[int, ...],
    output_size: Any,
) -> tuple[int, ...]:
    """Return the size of what was pooled."""
    usual = tuple(
        (length - 1) * step - 2 * width + size
        for length, size, step, width in zip(shape, kernel, steps, around, strict=True)
    )
    if output_size is None:
        return usual
    wanted = lengths("output_size", output_size)
    if len(wanted) not in (len(kernel), len(kernel) + 1, len(kernel) + 2):
        raise ArgumentError(f"{function}: output_size must have {len(kernel)} numbers, not {output_size!r}")
    wanted = wanted[-len(kernel) :]
    if any(abs(one - other) >= step for one, other, step in zip(wanted, usual, steps, strict=True)):
        raise ArgumentError(
            f"{function}: output_size must differ from {usual} by less than the stride, {steps}, and is {wanted}"
        )
    return wanted


# Windows at random places, of which each axis has as many as asked for.


@on_device_of_arguments
def fractional_max_pool2d(
    x: Tensor | np.ndarray,
    kernel_size: Lengths,
    output_size: Lengths | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | np.ndarray | None = None,
) -> Any:
    """Return the maxima of windows whose distances are drawn at random, for each channel anew.

    Args:
        x: images, shape `(n, channels, height, width)` or `(channels, height, width)`.
        kernel_size: height and width of the window, an int or a pair.
        output_size: rows and columns of the result, an int or a pair.
        output_ratio: the size of the result as a share of that of x, in place of `output_size`.
        return_indices: return the positions of the maxima too: their numbers in each image, row by row.
        _random_samples: numbers from 0 to 1 that decide where the windows are, shape `(n, channels, 2)`, that of the
            width first; None for those that the generator of the context draws (`ag.random.seed`).

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.fractional_max_pool2d; B. Graham, "Fractional max-pooling" (2014).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> samples = np.full((1, 1, 2), 0.5)
        >>> nn.fractional_max_pool2d(np.arange(25.0).reshape(1, 5, 5), 2, 2, _random_samples=samples)
        array([[[ 6.,  9.],
                [21., 24.]]])
    """
    kernel = pair("kernel_size", kernel_size, 1)
    return _at_random(
        "fractional_max_pool2d", x, kernel, output_size, output_ratio, return_indices, _random_samples, (1, 0)
    )


@on_device_of_arguments
def fractional_max_pool3d(
    x: Tensor | np.ndarray,
    kernel_size: Lengths,
    output_size: Lengths | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | np.ndarray | None = None,
) -> Any:
    """Return the maxima of windows of volumes whose distances are drawn at random: see `fractional_max_pool2d`.

    Args:
        x: volumes, shape `(n, channels, depth, height, width)`, or one without n.
        kernel_size: depth, height and width of the window, an int or three.
        output_size: depth, rows and columns of the result, an int or three; either it or `output_ratio`.
        output_ratio: the size of the result as a share of that of x, a number between 0 and 1 for all axes or one for
            each.
        return_indices: return the positions of the maxima too: their numbers in each volume.
        _random_samples: where the windows begin, numbers in [0, 1), shape `(n, channels, 3)`, that of the depth first;
            None draws them from the generator of the context (`ag.random.seed`).

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.fractional_max_pool3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.fractional_max_pool3d(np.ones((1, 5, 5, 5)), 2, 2).shape
        (1, 2, 2, 2)
    """
    kernel = triple("kernel_size", kernel_size, 1)
    return _at_random(
        "fractional_max_pool3d", x, kernel, output_size, output_ratio, return_indices, _random_samples, (0, 1, 2)
    )


def _at_random(
    function: str,
    x: Any,
    kernel: tuple[int, ...],
    output_size: Any,
    output_ratio: Any,
    return_indices: Any,
    samples: Any,
    order: tuple[int, ...],
) -> Any:
    check_real(function, x=x)
    shape, axes = array_of(x).shape, len(kernel)
    if len(shape) not in (axes + 1, axes + 2) or not all(shape[-axes - 1 :]):
        raise ArgumentError(
            f"{function} takes x of {axes + 1} or {axes + 2} axes with at least one element, not of shape {shape}"
        )
    sizes = _sizes_after(function, shape[-axes:], kernel, output_size, output_ratio)
    batch, channels = (shape[0] if len(shape) == axes + 2 else 1), shape[-axes - 1]
    if samples is None:
        drawn = generator().random((batch, channels, axes))
    else:
        drawn = constant(function, "_random_samples", samples)
        # What is traced stays so.
        drawn = on_host(drawn) if is_device_array(drawn) else drawn
        if drawn.shape[1:] != (channels, axes) or len(drawn) < batch:
            raise ArgumentError(
                f"{function}: _random_samples must have shape {(batch, channels, axes)}, not {drawn.shape}"
            )
        # As PyTorch does: those of further samples are for none.
        drawn = drawn[:batch]
    windows = np.zeros((batch, channels, *sizes, math.prod(kernel)), np.int64)
    for axis in range(axes):
        starts = _starts(drawn[..., order[axis]], shape[axis - axes], sizes[axis], kernel[axis])
        along = np.reshape(np.arange(kernel[axis]), [-1 if one == axis else 1 for one in range(axes)])
        offsets = np.broadcast_to(along, kernel).reshape(-1)
        place = starts.reshape(batch, channels, *[sizes[axis] if one == axis else 1 for one in range(axes)], 1)
        windows = windows * shape[axis - axes] + place + offsets
    flat: Any = np.reshape(x, (batch, channels, math.prod(shape[-axes:])))
    values, count = array_of(flat), math.prod(sizes)
    found = np.take_along_axis(values, as_like(windows.reshape(batch, channels, count * math.prod(kernel)), values), -1)
    choice = np.argmax(found.reshape(*windows.shape), axis=-1, keepdims=True)
    places = np.take_along_axis(as_like(windows, values), choice, -1).reshape(batch, channels, count)
    result_shape = (*shape[:-axes], *sizes)
    result = np.reshape(np.take_along_axis(flat, places, -1), result_shape)
    return (
        with_positions(x, result, places.reshape(result_shape)) if truth(return_indices, "return_indices") else result
    )


def _sizes_after(
    function: str, shape: tuple[int, ...], kernel: tuple[int, ...], output_size: Any, output_ratio: Any
) -> tuple[int, ...]:
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(f"{function} takes one of output_size and output_ratio")
    several = {2: pair, 3: triple}[len(kernel)]
    if output_ratio is not None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * len(kernel)
        if len(ratios) != len(kernel) or not all(0 < ratio < 1 for ratio in ratios):
            raise ArgumentError(
                f"{function}: output_ratio must be a number between 0 and 1 for each axis, not {output_ratio!r}"
            )
        output_size = tuple([int(length * ratio) for length, ratio in zip(shape, ratios, strict=True)])
    sizes = several("output_size", output_size, 1)
    # PyTorch's volumes need an element more than its images.
    most = [length - reach + 1 - (len(kernel) == 3) for reach, length in zip(kernel, shape, strict=True)]
    if any(size > count for size, count in zip(sizes, most, strict=True)):
        raise ArgumentError(f"{function}: {sizes} windows of {kernel} do not fit into {shape}")
    return sizes


def _starts(samples: Any, length: int, count: int, kernel: int) -> Any:
    """Return where windows begin along an axis, shape (n, channels, count)."""
    last = length - kernel
    step = last / (count - 1) if count > 1 else 0.0
    numbers = np.arange(count)
    at = ((numbers + samples[..., np.newaxis]) * step).astype(np.int64) - (samples[..., np.newaxis] * step).astype(
        np.int64
    )
    return np.where(numbers == count - 1, last, at)
