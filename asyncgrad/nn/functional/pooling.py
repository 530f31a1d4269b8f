"""Pooling: the maximum or the mean of each window over an image.

Adaptive pooling is into a given number of windows, whatever the size of the image. Window i of `count` over `length`
elements begins at `i * length // count`, and ends before the next multiple of `length / count`, rounded up. Windows of
one size are pooled as such. Means over others are sums between bounds, along one axis after the other: products with a
matrix of ones and zeros, or, where an infinite element would make NaN of all, sums of each window.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.device_functions import own_function
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import as_like, is_device_array, zeros_like
from ...core.ops.single_precision import arrays_in_single, by_single, holds_half_array
from ...core.recording.kernels import kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth, whole_number
from ...core.tensor import asarray
from ...errors import ArgumentError
from ..shared.arguments import (
    array_of,
    check_arrays,
    check_real,
    floating,
    instead_of_array,
    is_length,
    operand,
    option,
    pair,
    single,
    triple,
    wrong_dtype,
)
from ..shared.layouts import empty_laid_like, in_order_of
from ..shared.rows import product_along
from ..shared.windows import Window, add_shifted, crop, pad, shifted, with_height, without_height
from .linear import linear

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.arrays.array_like import Lengths, NewLengths
    from ...core.tensor import Tensor


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "means_of_windows",
    "with_positions",
]


def _zeros_around(shape: tuple[int, ...], window: Window, like: Any) -> Any:
    """Return zeros for a padded image of which `shape` is the inner part."""
    padded = _empty_around(shape, window, like)
    padded.fill(0)
    return padded


def _empty_around(shape: tuple[int, ...], window: Window, like: Any) -> Any:
    (above, below), (left, right) = window.padding
    return empty_laid_like(like, (*shape[:-2], above + shape[-2] + below, left + shape[-1] + right))


# Maxima. The forward also finds the position of each maximum in its window; the rest is linear in x.


def _find_maxima(x: Array, window: Window) -> tuple[Any, Any]:
    """Return the maximum of each window, and its number among the elements of the window, the first of equal ones.

    Of NaNs it is the last.
    """
    if x.__class__ is not np.ndarray and (found := own_function("find_maxima", x)(x, window)) is not None:
        return found
    # Of truth values, 0.
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min if x.dtype.kind in "iu" else False
    padded = pad(x, window.padding, lowest)
    is_floating = x.dtype.kind == "f"
    is_known = x.__class__ is np.ndarray
    # To look for NaNs takes a third of the time, and mostly there are none.
    maxima, choice = _choose(padded, window, is_floating and not is_known)
    if is_known and is_floating and np.isnan(maxima).any():
        maxima, choice = _choose(padded, window, True)
    if padded is not x:
        is_lowest = maxima == lowest
        if not is_known or is_lowest.any():
            # Of nothing but minus infinities, the first of the image, and not one of the padding.
            choice = np.where(is_lowest, as_like(_first_inside(window).astype(choice.dtype), choice), choice)
    return maxima, choice


def _first_inside(window: Window) -> Any:
    """Return the number in each window of its first element that is not before the image, shape (rows, columns)."""
    firsts = []
    for axis in (0, 1):
        before = window.padding[axis][0] - np.arange(window.size[axis]) * window.stride[axis]
        firsts.append(np.clip(-(-before // window.dilation[axis]), 0, window.kernel[axis] - 1))
    return firsts[0][:, np.newaxis] * window.kernel[1] + firsts[1]


def _choose(padded: Any, window: Window, may_be_nan: bool) -> tuple[Any, Any]:
    """Return what `_find_maxima` does; without `may_be_nan`, the number in a window with a NaN may be wrong."""
    maxima: Any = None
    choice: Any = None
    for number, (row, column) in enumerate(window.offsets):
        seen = shifted(padded, window, row, column)
        if maxima is None:
            maxima = seen.copy("K")
            choice = np.zeros_like(maxima, np.min_scalar_type(math.prod(window.kernel)))
        else:
            # The numbers grow, so the maximum of the chosen ones is the last one. A NaN counts as the largest element,
            # and of several the last one, as in PyTorch.
            above = seen > maxima
            if may_be_nan:
                above |= seen != seen
            np.maximum(choice, above * choice.dtype.type(number), out=choice)
            np.maximum(maxima, seen, out=maxima)
    return maxima, choice


@primitive()
def max_pool2d_(x: Any, maxima: Any, choice: Any, window: Window) -> Any:
    """Return `maxima`, which were found before, together with the choice that the derivative needs."""
    return maxima


@derivative(max_pool2d_, "x")
@kernel(name="scatter_windows", arguments=("g", "choice", "x_shape", "window"))
def _(g: Array, x_shape: tuple[int, ...], choice: Any, window: Window) -> Array:
    return scatter_chosen(g, choice, x_shape, window)


@primitive()
@kernel(name="scatter_windows")
def scatter_chosen_(g: Any, choice: Any, shape: tuple[int, ...], window: Window) -> Any:
    """Return images of zeros with each element of g added to the element that its window chose."""
    g = in_order_of(choice, g)
    # What the windows cover is written as a whole.
    padded = (_empty_around if window.covers(shape[-2:]) else _zeros_around)(shape, window, g)
    for number, (row, column) in enumerate(window.offsets):
        if window.is_disjoint:
            np.multiply(g, choice == number, out=shifted(padded, window, row, column))
        else:
            add_shifted(padded, window, row, column, g * (choice == number))
    return crop(padded, window.padding, shape[-2:])


@derivative(scatter_chosen_, "g")
def _(h: Array, choice: Any, window: Window) -> Array:
    return gather_chosen(h, choice, window)


@primitive()
@kernel(name="gather_windows")
def gather_chosen_(x: Array, choice: Any, window: Window) -> Array:
    """Return the element of x that each window chose."""
    padded = pad(x, window.padding)
    total = zeros_like(x, choice.shape) if x.__class__ is not np.ndarray else np.zeros_like(choice, x.dtype)
    for number, (row, column) in enumerate(window.offsets):
        total += shifted(padded, window, row, column) * (choice == number)
    return total


@derivative(gather_chosen_, "x")
def _(g: Array, x_shape: tuple[int, ...], choice: Any, window: Window) -> Array:
    return scatter_chosen(g, choice, x_shape, window)


_max_pool2d = max_pool2d_.call
scatter_chosen: Callable[..., Any] = scatter_chosen_.call
gather_chosen: Callable[..., Any] = gather_chosen_.call


def _pooling_window(
    function: str, shape: tuple[int, ...], kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Window:
    if len(shape) not in (3, 4):
        raise ArgumentError(f"{function} takes x of shape (n, channels, height, width), not {shape}")
    if not all(shape[-3:]):
        raise ArgumentError(f"{function} takes images with a channel and at least one element, not of shape {shape}")
    kernel = pair("kernel_size", kernel_size, 1)
    steps = kernel if _is_left_out(stride) else pair("stride", stride, 1)
    height, width = pair("padding", padding, 0)
    if 2 * height > kernel[0] or 2 * width > kernel[1]:
        raise ArgumentError(f"{function}: a padding of {(height, width)} is more than half of the kernel, {kernel}")
    dilations = pair("dilation", dilation, 1)
    around = ((height, height), (width, width))
    is_ceiled = truth(ceil_mode, "ceil_mode")
    return Window.over(function, shape[-2:], kernel, steps, around, dilations, ceil_mode=is_ceiled)


def _is_left_out(stride: Any) -> bool:
    # An empty sequence is PyTorch's other word for None.
    return stride is None or (isinstance(stride, (tuple, list)) and not stride)


#: To compute it takes as long as to launch two kernels.
_known_window: Callable[..., Any] = lru_cache(maxsize=256)(_pooling_window)


def _positions(choice: Array, window: Window, image: tuple[int, ...]) -> Any:
    """Return the number in its image, row by row, of the element that each window has chosen."""
    places = []
    numbers = np.divmod(choice.astype(np.int64), window.kernel[1])
    for axis, number in enumerate(numbers):
        steps = np.arange(window.size[axis]) * window.stride[axis] - window.padding[axis][0]
        place = number * window.dilation[axis] + as_like(steps[:, np.newaxis] if axis == 0 else steps, choice)
        # A window may have no element of the image.
        places.append(np.where(place < 0, place % window.dilation[axis], place))
    return places[0] * image[1] + places[1]


def with_positions(x: Any, maxima: Any, positions: Any) -> tuple[Any, Any]:
    """Return maxima with their positions, which are a tensor if x is one."""
    return maxima, asarray(positions) if isinstance(x, TensorBase) else positions


@on_device_of_arguments
def max_pool2d(
    x: Tensor | np.ndarray,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths | str = 0,
    dilation: Lengths = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum of each window; of equal maxima, the first gets the gradient.

    Args:
        x: images, shape `(n, channels, height, width)` or `(channels, height, width)`.
        kernel_size: height and width of the window, an int or a pair.
        stride: steps of the window, an int or a pair; None for the kernel's size.
        padding: rows and columns of minus infinity on each side, an int or a pair, at most half the kernel.
        dilation: steps between the elements of the window, an int or a pair.
        ceil_mode: let the last windows reach beyond the image, if they begin inside.
        return_indices: return the positions of the maxima too: their numbers in each image, row by row.

    Returns:
        A tensor of shape `(n, channels, rows, columns)`; with `return_indices` a pair of it and the positions.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.max_pool2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.max_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2)
        array([[[[ 5.,  7.],
                 [13., 15.]]]])
    """
    x = operand(x)
    data = array_of(x)
    if data.dtype.kind not in "fiub":
        raise wrong_dtype("max_pool2d", "x", data)
    given = data.shape, kernel_size, stride, padding, dilation, ceil_mode
    # The types of numbers are part of the key, but not those of the elements of a pair.
    is_known = type(kernel_size) is type(padding) is type(dilation) is int and (stride is None or type(stride) is int)
    window = (_known_window if is_known and type(ceil_mode) is bool else _pooling_window)("max_pool2d", *given)
    maxima, choice = _find_maxima(data, window)
    result = _max_pool2d(x, maxima, choice, window)
    if not truth(return_indices, "return_indices"):
        return result
    return with_positions(x, result, _positions(choice, window, data.shape[-2:]))


# Means.


@primitive()
@kernel(name="gather_windows", arguments=("x", None, "window"))
def window_sums_(x: Any, window: Window) -> Any:
    """Return the sum of each window."""
    padded = pad(x, window.padding)
    total: Any = None
    for row, column in window.offsets:
        seen = shifted(padded, window, row, column)
        if total is None:
            total = seen.copy("K")
        else:
            total += seen
    return total


@derivative(window_sums_, "x")
def _(g: Array, x_shape: tuple[int, ...], window: Window) -> Array:
    return window_sums_grad(g, x_shape, window)


@primitive()
@kernel(name="scatter_windows", arguments=("g", None, "shape", "window"))
def window_sums_grad_(g: Any, shape: tuple[int, ...], window: Window) -> Any:
    """Return images of zeros with each element of g added to all of its window."""
    padded = _zeros_around(shape, window, g)
    for row, column in window.offsets:
        add_shifted(padded, window, row, column, g)
    return crop(padded, window.padding, shape[-2:])


@derivative(window_sums_grad_, "g")
def _(h: Array, window: Window) -> Array:
    return window_sums(h, window)


window_sums: Callable[..., Any] = window_sums_.call
window_sums_grad: Callable[..., Any] = window_sums_grad_.call


def avg_pool2d(
    x: Tensor | np.ndarray,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths | str = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor | np.ndarray:
    """Return the mean of each window.

    Args:
        x: images, shape `(n, channels, height, width)` or `(channels, height, width)`.
        kernel_size: height and width of the window, an int or a pair.
        stride: steps of the window, an int or a pair; None for the kernel's size.
        padding: rows and columns of zeros on each side, an int or a pair, at most half the kernel.
        ceil_mode: let the last windows reach beyond the image, if they begin inside.
        count_include_pad: count the padding's zeros in the mean.
        divisor_override: divide each sum by this int rather than by the count.

    Returns:
        A tensor of shape `(n, channels, rows, columns)`.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.avg_pool2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.avg_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2)
        array([[[[ 2.5,  4.5],
                 [10.5, 12.5]]]])
    """
    x = operand(x)
    data = array_of(x)
    if data.itemsize == 2 and holds_half_array(x):
        options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return by_single(avg_pool2d, None, x, *options)
    window = _pooling_window("avg_pool2d", data.shape, kernel_size, stride, padding, 1, ceil_mode)
    count_include_pad = truth(count_include_pad, "count_include_pad")
    if divisor_override is not None:
        divisor_override = whole_number(divisor_override, "divisor_override")
        if not divisor_override:
            raise ArgumentError("avg_pool2d cannot divide by divisor_override=0")
        return window_sums(x, window) * (1 / divisor_override)
    heights, widths = pair("padding", padding, 0)
    counts = [
        _counts(data.shape[-2 + axis], around if count_include_pad else 0, window, axis, around)
        for axis, around in ((0, heights), (1, widths))
    ]
    shares = 1 / np.multiply.outer(*counts).astype(data.dtype if data.dtype.kind in "fc" else np.float64)
    if data.__class__ is not np.ndarray and (shares == shares[0, 0]).all():
        # A number, which needs no copy to a device.
        return window_sums(x, window) * shares[0, 0].item()
    return window_sums(x, window) * as_like(shares, data)


def _counts(length: int, counted: int, window: Window, axis: int, around: int) -> Any:
    """Return how many elements of each window lie in the image or up to `counted` positions around it."""
    starts = np.arange(window.size[axis]) * window.stride[axis] - around
    ends = starts + window.kernel[axis]
    return np.minimum(ends, length + counted) - np.maximum(starts, -counted)


# The same for sequences, which are images with one row.


def max_pool1d(
    x: Tensor | np.ndarray,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths | str = 0,
    dilation: Lengths = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum of each window; of equal maxima, the first gets the gradient.

    Args:
        x: sequences, shape `(n, channels, length)` or `(channels, length)`.
        kernel_size: length of the window.
        stride: steps of the window; None for the kernel's size.
        padding: how many times minus infinity on each side, at most half the kernel.
        dilation: steps between the elements of the window.
        ceil_mode: let the last window reach beyond the sequence, if it begins inside.
        return_indices: return the positions of the maxima too.

    Returns:
        A tensor of shape `(n, channels, positions)`; with `return_indices` a pair of it and those positions.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.max_pool1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.max_pool1d(np.array([[[1.0, 4.0, 2.0, 3.0]]]), 2)
        array([[[4., 3.]]])
    """
    check_real("max_pool1d", x=x)
    around, dilations = (0, single("padding", padding, 0)), (1, single("dilation", dilation, 1))
    kernel, steps = _of_one_row("max_pool1d", x, kernel_size, stride, around[1], dilations[1], ceil_mode)
    found = max_pool2d(with_height(x), kernel, steps, around, dilations, ceil_mode, return_indices)
    return tuple(map(without_height, found)) if return_indices else without_height(found)


def avg_pool1d(
    x: Tensor | np.ndarray,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths | str = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor | np.ndarray:
    """Return the mean of each window.

    Args:
        x: sequences, shape `(n, channels, length)` or `(channels, length)`.
        kernel_size: length of the window.
        stride: steps of the window; None for the kernel's size.
        padding: zeros on each side, at most half the kernel.
        ceil_mode: let the last window reach beyond the sequence, if it begins inside.
        count_include_pad: count the padding's zeros in the mean.

    Returns:
        A tensor of shape `(n, channels, positions)`.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.avg_pool1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.avg_pool1d(np.array([[[1.0, 4.0, 2.0, 3.0]]]), 2)
        array([[[2.5, 2.5]]])
    """
    around = (0, single("padding", padding, 0))
    kernel, steps = _of_one_row("avg_pool1d", x, kernel_size, stride, around[1], 1, ceil_mode)
    return without_height(avg_pool2d(with_height(x), kernel, steps, around, ceil_mode, count_include_pad))


def _of_one_row(
    function: str, x: Any, kernel_size: Any, stride: Any, padding: int, dilation: int, ceil_mode: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the kernel and the stride over images with one row."""
    shape = array_of(x).shape
    if len(shape) not in (2, 3):
        raise ArgumentError(f"{function} takes x of shape (n, channels, length), not {shape}")
    if not all(shape[-2:]):
        raise ArgumentError(f"{function} takes sequences with a channel and at least one element, not of shape {shape}")
    kernel = single("kernel_size", kernel_size, 1)
    if 2 * padding > kernel:
        raise ArgumentError(f"{function}: a padding of {padding} is more than half of the kernel, {kernel}")
    step = kernel if _is_left_out(stride) else single("stride", stride, 1)
    missing = dilation * (kernel - 1) + 1 - shape[-1] - 2 * padding
    # With ceil_mode a window may reach beyond the end by less than a step.
    if missing > 0 and not (truth(ceil_mode, "ceil_mode") and missing < step):
        raise ArgumentError(
            f"{function}: a kernel of {kernel} with dilation {dilation} does not fit into a sequence of {shape[-1]} "
            f"with padding {padding}"
        )
    return (1, kernel), (1, step)


# Adaptive pooling


def _bounds(length: int, count: int) -> tuple[tuple[int, int], ...]:
    """Return where each of `count` windows over `length` elements begins and ends."""
    return tuple([(i * length // count, -(-(i + 1) * length // count)) for i in range(count)])


@lru_cache(maxsize=64)
def _ones_between(bounds: tuple[tuple[int, int], ...], length: int) -> Any:
    """Return the matrix of sums between bounds, shape (count, length)."""
    matrix = np.zeros((len(bounds), length), np.float32)
    for row, (start, end) in zip(matrix, bounds, strict=True):
        row[start:end] = 1
    return matrix


@primitive()
def sums_between_(x: Array, bounds: tuple[tuple[int, int], ...], axis: int) -> Any:
    """Return the sums of the elements along an axis between bounds, pairs of a beginning and an end that both rise."""
    result = product_along(x, _ones_between(bounds, x.shape[axis]), axis)
    if result is not None:
        return result
    before = (slice(None),) * axis
    pairs = list(dict.fromkeys(bounds))
    inner: list[tuple[int, int]] = []
    parts: list[Any] = []
    if x.__class__ is np.ndarray and x.size:
        # Of all places one after the other: every second sum is from an end to the next beginning.
        inner = [pair for pair in pairs if pair[1] < x.shape[axis]]
        places = [place for pair in inner for place in pair]
        if inner:
            parts.append(np.add.reduceat(x, places, axis=axis)[(*before, slice(None, None, 2))])
    parts += [np.sum(x[(*before, slice(*pair))], axis=axis, keepdims=True) for pair in pairs[len(inner) :]]
    sums = np.concatenate(parts, axis=axis)
    if len(pairs) == len(bounds):
        return sums
    numbers = {pair: number for number, pair in enumerate(pairs)}
    return np.take(sums, as_like(np.array([numbers[pair] for pair in bounds]), sums), axis=axis)


@derivative(sums_between_, "x")
def _(g: Array, bounds: tuple[tuple[int, int], ...], axis: int, x_shape: tuple[int, ...]) -> Array:
    # An element is in windows that follow one another.
    starts, ends = np.array(bounds).T
    places = np.arange(x_shape[axis])
    firsts, lasts = np.searchsorted(ends, places, "right"), np.searchsorted(starts, places, "right")
    return sums_between(g, tuple(zip(firsts.tolist(), lasts.tolist(), strict=True)), axis)


sums_between: Callable[..., Any] = sums_between_.call


def means_of_windows(x: Any, count: int, axis: int) -> Any:
    """Return the means along an axis of as many windows as asked for, which together cover it."""
    data = array_of(x)
    lines: Any = x
    length = data.shape[axis]
    if length == count:
        return x
    if not count:
        return x[(*(slice(None),) * axis, slice(0))]
    bounds = _bounds(length, count)
    if data.__class__ is not np.ndarray and is_device_array(data):
        ones = _ones_between(bounds, length).astype(np.float64)
        shares = as_like((ones / np.sum(ones, axis=1, keepdims=True)).astype(floating(data).dtype), data)
        lines = linear(np.moveaxis(lines, axis, -1), shares)
        return np.moveaxis(lines, -1, axis)
    counts = np.array([end - start for start, end in bounds], data.dtype if data.dtype.kind in "fc" else np.float64)
    return sums_between(x, bounds, axis) / as_like(counts.reshape(-1, *(1,) * (data.ndim - 1 - axis)), data)


#: The most windows that are counted without asking whether there is memory for their results.
_MOST_UNASKED = 1 << 28


def _check_room(function: str, shape: tuple[int, ...]) -> None:
    """Raise if there is no memory for a result: its windows are listed first, which would take for ever."""
    if math.prod(shape) > _MOST_UNASKED:
        try:
            np.empty(shape)
        except (MemoryError, ValueError, OverflowError) as error:
            raise ArgumentError(f"{function}: there is no memory for a result of shape {shape}: {error}") from error


def _sizes(function: str, shape: tuple[int, ...], output_size: Any) -> tuple[int, int]:
    if len(shape) not in (3, 4):
        raise ArgumentError(f"{function} takes x of shape (n, channels, height, width), not {shape}")
    both = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size, output_size)
    is_whole = all(one is None or is_length(one, 0) for one in both)
    if output_size is None or len(both) != 2 or not is_whole:
        raise ArgumentError(
            f"{function}: output_size must be an int of at least 0, or a pair of them, in which None keeps a size, "
            f"not {output_size!r}{instead_of_array('output_size', output_size)}"
        )
    if not all(shape[-2:]):
        raise ArgumentError(f"{function} takes images with at least one element, not of shape {shape}")
    rows, columns = [own if one is None else int(one) for one, own in zip(both, shape[-2:], strict=True)]
    _check_room(function, (*shape[:-2], rows, columns))
    return rows, columns


def _without_channels(x: Any, sizes: tuple[int, ...], return_indices: bool) -> Any:
    """Return the maxima of images without a channel, of which there are none, in windows of some numbers."""
    shape = array_of(x).shape
    empty = np.reshape(x, (*shape[: -len(sizes)], *sizes))
    if not return_indices:
        return empty
    return with_positions(x, empty, zeros_like(array_of(x), array_of(empty).shape).astype(np.int64))


def _no_windows(x: Any, rows: int, columns: int) -> Any:
    """Return an empty array of rows and columns, one of which is 0, for each channel."""
    shape = array_of(x).shape
    return np.broadcast_to(x[..., :0, :1] if not rows else x[..., :1, :0], (*shape[:-2], rows, columns))


@arrays_in_single
def adaptive_avg_pool2d(x: Tensor | np.ndarray, output_size: NewLengths) -> Tensor | np.ndarray:
    """Return the means of windows, as many as asked for, that together cover the image.

    Args:
        x: images, shape `(n, channels, height, width)` or `(channels, height, width)`.
        output_size: rows and columns of the result, an int for both or a pair; None keeps a size.

    Returns:
        A tensor of shape `(n, channels, rows, columns)`.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.adaptive_avg_pool2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.adaptive_avg_pool2d(np.arange(6.0).reshape(1, 1, 2, 3), (1, 2))
        array([[[[2., 3.]]]])
    """
    x = operand(x)
    data = array_of(x)
    height, width = data.shape[-2:] if data.ndim > 1 else (0, 0)
    rows, columns = _sizes("adaptive_avg_pool2d", data.shape, output_size)
    if (rows, columns) == (1, 1):
        return np.mean(x, axis=(-2, -1), keepdims=True)
    if not rows or not columns:
        return _no_windows(x, rows, columns)
    if data.shape[-3] and height % rows == 0 and width % columns == 0:
        return avg_pool2d(x, (height // rows, width // columns))
    return means_of_windows(means_of_windows(x, rows, data.ndim - 2), columns, data.ndim - 1)


def adaptive_avg_pool1d(x: Tensor | np.ndarray, output_size: Lengths) -> Tensor | np.ndarray:
    """Return the means of windows, as many as asked for, that together cover the sequence.

    Args:
        x: sequences, shape `(n, channels, length)` or `(channels, length)`.
        output_size: the length of the result.

    Returns:
        A tensor of shape `(n, channels, output_size)`.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.adaptive_avg_pool1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.adaptive_avg_pool1d(np.arange(3.0).reshape(1, 1, 3), 2)
        array([[[0.5, 1.5]]])
    """
    return without_height(
        adaptive_avg_pool2d(_sequences("adaptive_avg_pool1d", x), (1, single("output_size", output_size, 0)))
    )


@on_device_of_arguments
def adaptive_max_pool2d(
    x: Tensor | np.ndarray,
    output_size: NewLengths,
    return_indices: bool = False,
) -> Any:
    """Return the maxima of windows, as many as asked for, that together cover the image.

    Args:
        x: images, shape `(n, channels, height, width)` or `(channels, height, width)`.
        output_size: rows and columns of the result, an int for both or a pair; None keeps a size.
        return_indices: return the positions of the maxima too: their numbers in each image, row by row.

    Returns:
        A tensor of shape `(n, channels, rows, columns)`; with `return_indices` a pair of it and the positions.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.adaptive_max_pool2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.adaptive_max_pool2d(np.arange(6.0).reshape(1, 1, 2, 3), (1, 2))
        array([[[[4., 5.]]]])
    """
    x = operand(x)
    data = array_of(x)
    if data.dtype.kind not in "fiub":
        raise wrong_dtype("adaptive_max_pool2d", "x", data)
    rows, columns = _sizes("adaptive_max_pool2d", data.shape, output_size)
    height, width = data.shape[-2:]
    if not data.shape[-3]:
        if data.ndim == 3:
            return _without_channels(x, (rows, columns), return_indices)
        raise ArgumentError(f"adaptive_max_pool2d takes images with a channel, not of shape {data.shape}")
    if not rows or not columns:
        empty = _no_windows(x, rows, columns)
        positions = zeros_like(data, array_of(empty).shape).astype(np.int64)
        return with_positions(x, empty, positions) if return_indices else empty
    if height % rows == 0 and width % columns == 0:
        return max_pool2d(x, (height // rows, width // columns), return_indices=return_indices)
    windows = [(*down, *right) for down in _bounds(height, rows) for right in _bounds(width, columns)]
    found = [
        max_pool2d(x[..., top:bottom, left:right], (bottom - top, right - left), return_indices=return_indices)
        for top, bottom, left, right in windows
    ]
    shape = (*data.shape[:-2], rows, columns)
    if not return_indices:
        return np.reshape(np.concatenate(found, axis=-1), shape)
    positions = []
    for (_, own), (top, _, left, right) in zip(found, windows, strict=True):
        row, column = np.divmod(array_of(own), right - left)
        positions.append((row + top) * width + column + left)
    maxima = np.reshape(np.concatenate([each for each, _ in found], axis=-1), shape)
    return with_positions(x, maxima, np.concatenate(positions, axis=-1).reshape(shape))


def adaptive_max_pool1d(x: Tensor | np.ndarray, output_size: Lengths, return_indices: bool = False) -> Any:
    """Return the maxima of windows, as many as asked for, that together cover the sequence.

    Args:
        x: sequences, shape `(n, channels, length)` or `(channels, length)`.
        output_size: the length of the result.
        return_indices: return the positions of the maxima too.

    Returns:
        A tensor of shape `(n, channels, output_size)`; with `return_indices` a pair of it and the positions.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.adaptive_max_pool1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.adaptive_max_pool1d(np.arange(3.0).reshape(1, 1, 3), 2)
        array([[[1., 2.]]])
    """
    check_real("adaptive_max_pool1d", x=x)
    images = _sequences("adaptive_max_pool1d", x)
    found = adaptive_max_pool2d(images, (1, single("output_size", output_size, 0)), return_indices)
    return tuple(map(without_height, found)) if return_indices else without_height(found)


def _sequences(function: str, x: Any) -> Any:
    shape = array_of(x).shape
    if len(shape) not in (2, 3):
        raise ArgumentError(f"{function} takes x of shape (n, channels, length), not {shape}")
    if not shape[-1]:
        raise ArgumentError(f"{function} takes sequences with at least one element, not of shape {shape}")
    return with_height(x)


# Volumes are pooled in each layer, and then along the depth.


def _volume_shape(function: str, x: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = array_of(x).shape
    if len(shape) not in (4, 5):
        raise ArgumentError(f"{function} takes x of shape (n, channels, depth, height, width), not {shape}")
    if not all(shape[-4:]):
        raise ArgumentError(f"{function} takes volumes with a channel and at least one element, not of shape {shape}")
    return shape


def _by_layer(x: Any, shape: tuple[int, ...]) -> Any:
    """Return the layers of volumes as channels of images."""
    return np.reshape(x, (*shape[:-4], shape[-4] * shape[-3], *shape[-2:]))


def _by_depth(x: Any, shape: tuple[int, ...]) -> Any:
    """Return pooled layers of volumes of a shape as images with a row for each layer."""
    return np.reshape(x, (*shape[:-2], math.prod(array_of(x).shape[-2:])))


def max_pool3d(
    x: Tensor | np.ndarray,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    dilation: Lengths = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum of each window; of equal maxima, the first gets the gradient.

    Args:
        x: volumes, shape `(n, channels, depth, height, width)`, or one without n.
        kernel_size: depth, height and width of the window, an int or three.
        stride: steps of the window, an int or three; None for the kernel's size.
        padding: elements of minus infinity on each side of each axis, an int or three, at most half the kernel.
        dilation: steps between the elements of the window, an int or three.
        ceil_mode: let the last windows reach beyond the volume, if they begin inside.
        return_indices: return the positions of the maxima too: their numbers in each volume.

    Returns:
        A tensor with one element for each window; with `return_indices` a pair of it and the positions.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.max_pool3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.max_pool3d(np.arange(16.0).reshape(1, 4, 2, 2), 2)
        array([[[[ 7.]],
        <BLANKLINE>
                [[15.]]]])
    """
    check_real("max_pool3d", x=x)
    shape = _volume_shape("max_pool3d", x)
    kernel = triple("kernel_size", kernel_size, 1)
    steps = kernel if _is_left_out(stride) else triple("stride", stride, 1)
    around, dilations = triple("padding", padding, 0), triple("dilation", dilation, 1)
    in_layer: Any = (kernel[1:], steps[1:], around[1:], dilations[1:], ceil_mode, True)
    along: Any = ((kernel[0], 1), (steps[0], 1), (around[0], 0), (dilations[0], 1), ceil_mode, True)
    layers, places = max_pool2d(_by_layer(x, shape), *in_layer)
    maxima, chosen = max_pool2d(_by_depth(layers, shape), *along)
    result = np.reshape(maxima, (*array_of(maxima).shape[:-1], *array_of(layers).shape[-2:]))
    if not truth(return_indices, "return_indices"):
        return result
    positions = _in_volume(array_of(places), array_of(chosen), shape)
    return with_positions(x, result, positions.reshape(array_of(result).shape))


def _in_volume(places: Any, chosen: Any, shape: tuple[int, ...]) -> Any:
    """Return the numbers of elements in their volumes.

    Args:
        places: their numbers in their layers.
        chosen: the numbers of those that are chosen among all places.
        shape: that of the volumes.
    """
    count = math.prod(places.shape[-2:])
    flat = places.reshape(*shape[:-3], shape[-3] * count)
    chosen = chosen.reshape(*shape[:-3], math.prod(chosen.shape[len(shape) - 3 :]))
    return np.take_along_axis(flat, chosen, -1) + chosen // count * (shape[-2] * shape[-1])


def avg_pool3d(
    x: Tensor | np.ndarray,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor | np.ndarray:
    """Return the mean of each window.

    Args:
        x: volumes, shape `(n, channels, depth, height, width)`, or one without n.
        kernel_size: depth, height and width of the window, an int or three.
        stride: steps of the window, an int or three; None for the kernel's size.
        padding: zeros on each side of each axis, an int or three, at most half the kernel.
        ceil_mode: let the last windows reach beyond the volume, if they begin inside.
        count_include_pad: count the padding's zeros in the mean.
        divisor_override: divide each sum by this int rather than by the count.

    Returns:
        A tensor with one element for each window.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.avg_pool3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.avg_pool3d(np.arange(16.0).reshape(1, 4, 2, 2), 2).ravel()
        array([ 3.5, 11.5])
    """
    shape = _volume_shape("avg_pool3d", x)
    kernel = triple("kernel_size", kernel_size, 1)
    steps = kernel if _is_left_out(stride) else triple("stride", stride, 1)
    around = triple("padding", padding, 0)
    divisor = None if divisor_override is None else 1
    in_layer: Any = (kernel[1:], steps[1:], around[1:], ceil_mode, count_include_pad, divisor)
    along: Any = ((kernel[0], 1), (steps[0], 1), (around[0], 0), ceil_mode, count_include_pad, divisor_override)
    layers = avg_pool2d(_by_layer(x, shape), *in_layer)
    means = avg_pool2d(_by_depth(layers, shape), *along)
    return np.reshape(means, (*array_of(means).shape[:-1], *array_of(layers).shape[-2:]))


def _three_sizes(function: str, shape: tuple[int, ...], output_size: Any) -> tuple[int, ...]:
    if len(shape) not in (4, 5):
        raise ArgumentError(f"{function} takes x of shape (n, channels, depth, height, width), not {shape}")
    each = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * 3
    is_whole = all(one is None or is_length(one, 0) for one in each)
    if output_size is None or len(each) != 3 or not is_whole:
        raise ArgumentError(
            f"{function}: output_size must be an int of at least 0, or three, in which None keeps a size, "
            f"not {output_size!r}{instead_of_array('output_size', output_size)}"
        )
    if not all(shape[-3:]):
        raise ArgumentError(f"{function} takes volumes with at least one element, not of shape {shape}")
    sizes = tuple(own if one is None else int(one) for one, own in zip(each, shape[-3:], strict=True))
    _check_room(function, (*shape[:-3], *sizes))
    return sizes


@arrays_in_single
def adaptive_avg_pool3d(x: Tensor | np.ndarray, output_size: NewLengths) -> Tensor | np.ndarray:
    """Return the means of windows, as many as asked for, that together cover the volume.

    Args:
        x: volumes, shape `(n, channels, depth, height, width)`, or one without n.
        output_size: depth, rows and columns of the result, an int for all or three; None keeps a size.

    Returns:
        A tensor with one element for each window.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.adaptive_avg_pool3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.adaptive_avg_pool3d(np.arange(8.0).reshape(1, 2, 2, 2), (2, 1, 1)).ravel()
        array([1.5, 5.5])
    """
    x = operand(x)
    shape = array_of(x).shape
    sizes = _three_sizes("adaptive_avg_pool3d", shape, output_size)
    for axis, size in enumerate(sizes, len(shape) - 3):
        x = means_of_windows(x, size, axis)
    return x


def adaptive_max_pool3d(x: Tensor | np.ndarray, output_size: NewLengths, return_indices: bool = False) -> Any:
    """Return the maxima of windows, as many as asked for, that together cover the volume.

    Args:
        x: volumes, shape `(n, channels, depth, height, width)`, or one without n.
        output_size: depth, rows and columns of the result, an int for all or three; None keeps a size.
        return_indices: return the positions of the maxima too: their numbers in each volume.

    Returns:
        A tensor with one element for each window; with `return_indices` a pair of it and the positions.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.adaptive_max_pool3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.adaptive_max_pool3d(np.arange(8.0).reshape(1, 2, 2, 2), (2, 1, 1)).ravel()
        array([3., 7.])
    """
    check_real("adaptive_max_pool3d", x=x)
    shape = array_of(x).shape
    depth, rows, columns = _three_sizes("adaptive_max_pool3d", shape, output_size)
    if not shape[-4]:
        if len(shape) == 4:
            return _without_channels(x, (depth, rows, columns), truth(return_indices, "return_indices"))
        raise ArgumentError(f"adaptive_max_pool3d takes volumes with a channel, not of shape {shape}")
    if not depth * rows * columns:
        empty = np.reshape(x[..., :0], (*shape[:-3], depth, rows, columns))
        positions = zeros_like(array_of(x), array_of(empty).shape).astype(np.int64)
        return with_positions(x, empty, positions) if return_indices else empty
    layers, places = adaptive_max_pool2d(_by_layer(x, shape), (rows, columns), True)
    maxima, chosen = adaptive_max_pool2d(_by_depth(layers, shape), (depth, rows * columns), True)
    result = np.reshape(maxima, (*shape[:-3], depth, rows, columns))
    if not truth(return_indices, "return_indices"):
        return result
    found = _in_volume(array_of(places), array_of(chosen), shape)
    return with_positions(x, result, found.reshape(array_of(result).shape))


# Norms of windows.


@on_device_of_arguments
def lp_pool1d(
    x: Tensor | np.ndarray,
    norm_type: float,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    ceil_mode: bool = False,
) -> Tensor | np.ndarray:
    """Return the root of order `norm_type` of the sum of such powers in each window.

    Args:
        x: sequences, shape `(n, channels, length)` or `(channels, length)`.
        norm_type: the power; of an odd one, a sum may be negative, and its root NaN.
        kernel_size: length of the window.
        stride: steps of the window; None for the kernel's size.
        ceil_mode: let the last window reach beyond the sequence; its sum is that of a whole window of its mean.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.lp_pool1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.lp_pool1d(np.array([[[3.0, 4.0, 6.0, 8.0]]]), 2, 2)
        array([[[ 5., 10.]]])
    """
    kernel = single("kernel_size", kernel_size, 1)
    power = _power("lp_pool1d", norm_type)
    check_arrays("lp_pool1d", x=x)
    x = operand(x)
    return _root(avg_pool1d(x**power, kernel, stride, 0, ceil_mode), kernel, power)


@on_device_of_arguments
def lp_pool2d(
    x: Tensor | np.ndarray,
    norm_type: float,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    ceil_mode: bool = False,
) -> Tensor | np.ndarray:
    """Return the root of order `norm_type` of the sum of such powers in each window of images: see `lp_pool1d`.

    Args:
        x: images, shape `(n, channels, height, width)` or `(channels, height, width)`.
        norm_type: the power; of an odd one, a sum may be negative, and its root NaN.
        kernel_size: height and width of the window, an int or a pair.
        stride: steps of the window, an int or a pair; None for the kernel's size.
        ceil_mode: let the last windows reach beyond the image; their sums are those of whole windows of their means.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.lp_pool2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.lp_pool2d(np.array([[[3.0, 4.0]]]), 2, (1, 2))
        array([[[5.]]])
    """
    kernel = pair("kernel_size", kernel_size, 1)
    power = _power("lp_pool2d", norm_type)
    check_arrays("lp_pool2d", x=x)
    x = operand(x)
    return _root(avg_pool2d(x**power, kernel, stride, 0, ceil_mode), math.prod(kernel), power)


@on_device_of_arguments
def lp_pool3d(
    x: Tensor | np.ndarray,
    norm_type: float,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    ceil_mode: bool = False,
) -> Tensor | np.ndarray:
    """Return the root of order `norm_type` of the sum of such powers in each window of volumes: see `lp_pool1d`.

    Args:
        x: volumes, shape `(n, channels, depth, height, width)`, or one without n.
        norm_type: the power; of an odd one, a sum may be negative, and its root NaN.
        kernel_size: depth, height and width of the window, an int or three.
        stride: steps of the window, an int or three; None for the kernel's size.
        ceil_mode: let the last windows reach beyond the volume; their sums are those of whole windows of their means.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.lp_pool3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.lp_pool3d(np.array([[[[3.0, 4.0]]]]), 2, (1, 1, 2))
        array([[[[5.]]]])
    """
    kernel = triple("kernel_size", kernel_size, 1)
    power = _power("lp_pool3d", norm_type)
    check_arrays("lp_pool3d", x=x)
    x = operand(x)
    return _root(avg_pool3d(x**power, kernel, stride, 0, ceil_mode), math.prod(kernel), power)


def _power(function: str, norm_type: float) -> float:
    power: float = option(function, "norm_type", norm_type)
    if power == 0:
        raise ArgumentError(f"nn.{function}: norm_type must not be 0: there is no root of order 0")
    return power


def _root(means: Any, count: int, power: float) -> Any:
    """Return the roots of sums, given as means; that of 0 is 0, and has no gradient."""
    is_zero = array_of(means) == 0
    # The root of a negative sum is NaN, without a warning.
    with np.errstate(invalid="ignore"):
        return np.where(is_zero, 0, np.where(is_zero, 1, means * count) ** (1.0 / power))
