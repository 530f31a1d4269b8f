"""Convolution of images by matrix products (im2col).

The windows over all images at some positions are copied into a matrix with a row for each weight of a filter and a
column for each position and image, and multiplied. The images are the last axis in memory, in the results too: so the
copies are of long rows, however small the images are, each product is one for all images, and its result lies as the
next convolution needs it. Where a window is a pixel, there is nothing to copy: large images that lie one after the
other are multiplied one by one, and the results lie so too. `conv2d`, `conv2d_input_grad` and `conv2d_weight_grad` are
the three ways to contract two of the three arrays of one trilinear form, so the derivatives of each are the other two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.device_functions import own_function
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.values import empty_like, is_recorder, zeros_like
from ...core.ops.single_precision import arrays_in_single
from ...core.recording.kernels import kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import whole_number
from ...errors import ArgumentError
from ..shared.arguments import array_of, operand, operands, pair, shapes_of, single, triple
from ..shared.axis_windows import count_windows, sums_of_windows, windows_along
from ..shared.depthwise import depthwise, depthwise_input_grad, depthwise_weight_grad, has_planes
from ..shared.layouts import images_first, images_last
from ..shared.windows import (
    Tile,
    Window,
    pad_images_last,
    shifted_tile,
    sliding,
    with_height,
    without_height,
    zeros_around,
)

if TYPE_CHECKING:
    from ...core.arrays.array_like import Lengths
    from ...core.tensor import Tensor


__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

#: The bytes of windows to copy at a time, so that they are still in the cache when they are multiplied.
CHUNK = 1 << 20
#: Products of fewer columns take longer for each, so as many are copied, if they are no more bytes than that.
COLUMNS = 512
LARGEST = 1 << 22
#: From so many pixels on, images that lie one after the other are multiplied one by one where a window is a pixel.
PIXELS = 64
#: The chunk for arrays of another library: on a device a call costs more than its cache saves.
DEVICE_CHUNK = 1 << 26


@final
class _Workspace(threading.local):
    """Memory for the windows of one tile, kept by each thread.

    Without it, malloc returns that memory to the system after most calls, and the first write into each new page of it
    costs more than to multiply what is there.
    """

    memory: Any = None

    def array(self, like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of arbitrary content, to be used before the next call; for NumPy in the kept memory."""
        count = prod(shape) * dtype.itemsize
        if type(like) is not np.ndarray or dtype.kind not in "fc" or count > LARGEST:
            return empty_like(like, shape, dtype)
        if self.memory is None or self.memory.size < count:
            self.memory = np.empty(count, np.uint8)
        return self.memory[:count].view(dtype).reshape(shape)


_WORKSPACE = _Workspace()


def _parts(window: Window, groups: int, rows: int, n: int, like: Any) -> Iterator[tuple[slice, Tile]]:
    """Yield some groups, and some positions, whose windows fit into a chunk of arrays of the type of `like`.

    Those of one group follow one another, since a product of many columns takes less time than many of a few.

    Args:
        window: over all images.
        groups: the number of groups.
        rows: the number of weights in a filter of one group.
        n: the number of images.
        like: an array, of the dtype of the windows.
    """
    is_numpy = like.__class__ is np.ndarray
    chunk, positions = CHUNK if is_numpy else DEVICE_CHUNK, window.size[0] * window.size[1]
    bytes_each = max(1, rows * n * like.itemsize)
    step = max(1, chunk // (bytes_each * positions))
    for first in range(0, groups, step):
        some = slice(first, min(first + step, groups))
        size = bytes_each * (some.stop - first)
        least = min(COLUMNS // max(1, n), LARGEST // size) if is_numpy else 0
        for tile in window.tiles(max(chunk // size, least)):
            yield some, tile


def _by_group(weight: Any, groups: int) -> Any:
    """Return the filters as a matrix for each group, shape (groups, filters, weights)."""
    filters, channels, *kernel = weight.shape
    return weight.reshape(groups, filters // groups, channels * kernel[0] * kernel[1])


def _grads_by_group(g: Any, groups: int) -> Any:
    """Return gradients of the results as a matrix for each group, shape (groups, filters, positions * images)."""
    n, filters, rows, columns = g.shape
    return images_last(g).reshape(groups, filters // groups, rows * columns * n)


def _columns(x: Any, window: Window, groups: int) -> Iterator[tuple[slice, slice, Any]]:
    """Yield some groups, the columns of some positions, and the windows there, shape (groups, weights, columns)."""
    n, each = x.shape[0], x.shape[1] // groups
    weights = each * window.kernel[0] * window.kernel[1]
    apart = window.stride[1]
    padded = pad_images_last(x, window.padding, apart)
    views = sliding(padded[:, :, 0], window) if apart == 1 else None
    for some, tile in _parts(window, groups, weights, n, x):
        channels = slice(some.start * each, some.stop * each)
        shape = (channels.stop - channels.start, *window.kernel, *tile.size, n)
        buffer = _WORKSPACE.array(x, shape, x.dtype)
        if views is not None:
            buffer[...] = views[channels, :, :, tile.rows, tile.columns]
        else:
            for row, column in window.offsets:
                buffer[:, row, column] = shifted_tile(padded[channels], window, row, column, tile)
        columns = slice(tile.start * n, tile.stop * n)
        yield some, columns, buffer.reshape(some.stop - some.start, weights, columns.stop - columns.start)


def _pixels(x: Any, groups: int) -> Any:
    """Return images as matrices of a row for each channel, without a copy where that is worth while.

    Returns:
        An array of shape (n, groups, channels of a group, pixels), or (1, groups, channels of a group, pixels * n).
    """
    n, channels, height, width = x.shape
    # Only dtypes of BLAS: a sum over images in float16 would be rounded for each of them.
    if (
        x.__class__ is np.ndarray
        and x.dtype.char in "fdFD"
        and n > 1
        and x.flags.c_contiguous
        and height * width >= PIXELS
    ):
        return x.reshape(n, groups, channels // groups, height * width)
    return images_last(x).reshape(1, groups, channels // groups, height * width * n)


def _of_pixels(matrices: Any, shape: tuple[int, ...]) -> Any:
    """Return images of a shape, given as `_pixels` returns them."""
    if len(matrices) > 1:
        return matrices.reshape(shape)
    return images_first(matrices.reshape(*shape[1:], shape[0]))


def _as_one_call(function: Callable[..., Any], *args: Any) -> Any:
    """Return what a function of arrays returns; where a program is recorded, it is one call there."""
    recorder = next((one for one in args if is_recorder(one)), None)
    return function(*args) if recorder is None else recorder.call_whole(function, *args)


@primitive(superlinear=True)
@kernel(name="conv2d")
def conv2d_(x: Any, weight: Any, bias: Any, window: Window, groups: int) -> Any:
    """Return the filters' products with the windows over x, plus the bias of each filter."""
    n, filters, (rows, columns) = x.shape[0], weight.shape[0], window.size
    if window.is_pixel:
        pixels = np.matmul(_by_group(weight, groups), _pixels(x, groups))
        if bias is not None:
            bias = bias.reshape(groups, -1, 1)
            pixels = np.add(pixels, bias, out=pixels if pixels.dtype == bias.dtype else None)
        return _of_pixels(pixels, (n, filters, rows, columns))
    if has_planes(x, weight, window, groups):
        result = _as_one_call(depthwise, x, weight, window)
        return result if bias is None else np.add(result, bias.reshape(-1, 1, 1))
    result = empty_like(x, (filters, rows * columns * n), np.result_type(x, weight))
    products = result.reshape(groups, filters // groups, rows * columns * n)
    matrices = _by_group(weight, groups)
    for some, part, windows in _columns(x, window, groups):
        np.matmul(matrices[some], windows, out=products[some, :, part])
    if bias is not None:
        result = np.add(result, bias.reshape(-1, 1), out=result if result.dtype == bias.dtype else None)
    return images_first(result.reshape(filters, rows, columns, n))


@derivative(conv2d_, "x")
@kernel(name="conv2d_input_grad", arguments=("g", "weight", "x_shape", "window", "groups"))
def _(g: Any, x_shape: tuple[int, ...], weight: Any, window: Window, groups: int) -> Any:
    return conv2d_input_grad(g, weight, x_shape, window, groups)


@derivative(conv2d_, "weight")
@kernel(name="conv2d_weight_grad")
def _(g: Any, x: Any, weight_shape: tuple[int, ...], window: Window, groups: int) -> Any:
    return conv2d_weight_grad(g, x, weight_shape, window, groups)


def _bias_gradient_on_device(g: Any) -> Any:
    # The pixels of an image lie side by side, so that each of the two sums is a simple one.
    total = own_function(np.sum, g)
    return total(total(g, axis=(2, 3)), axis=0)


@derivative(conv2d_, "bias")
@kernel(variant=_bias_gradient_on_device)
def _(g: Any) -> Any:
    return np.sum(g, axis=(0, 2, 3))


def _turned_window(window: Window, shape: tuple[int, ...]) -> Window | None:
    """Return the window over the results by which turned filters give the gradient of the images; None if it cannot."""
    reach = [step * (length - 1) for step, length in zip(window.dilation, window.kernel, strict=True)]
    (above, _), (left, _) = window.padding
    rows, columns = window.size
    # Not by the padding below and to the right: the last rows and columns of the images may be in no window.
    padding = ((reach[0] - above, shape[2] + above - rows), (reach[1] - left, shape[3] + left - columns))
    if window.stride != (1, 1) or window.is_pixel or min(*padding[0], *padding[1]) < 0:
        return None
    return Window(window.kernel, (1, 1), padding, window.dilation, (shape[2], shape[3]))


def _are_finite(weight: Any) -> bool:
    """Return whether filters may be multiplied by the zeros around gradients, which make NaN of an infinite number."""
    # Where a program is recorded, the filters are not known yet.
    return type(weight) is not np.ndarray or bool(np.isfinite(np.add.reduce(weight, axis=None)))


def _turned_filters(weight: Any, groups: int) -> Any:
    """Return the filters turned by half a circle, with their inputs and outputs exchanged in each group."""
    filters, channels, *kernel = weight.shape
    turned = weight.reshape(groups, filters // groups, channels, *kernel).swapaxes(1, 2)[..., ::-1, ::-1]
    # A copy: where each group has one filter, a view of the filters backwards would do, which BLAS does not take.
    return turned.copy().reshape(groups * channels, filters // groups, *kernel)


@primitive(superlinear=True)
@kernel(name="conv2d_input_grad")
def conv2d_input_grad_(g: Any, weight: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    """Return the gradient of conv2d for its images: the gradients of the windows, added at their positions."""
    if has_planes(g, weight, window, groups):
        return _as_one_call(_input_grad_of_planes, g, weight, shape, window, groups)
    return _input_grad(g, weight, shape, window, groups)


def _input_grad_of_planes(g: Any, weight: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    if _are_finite(weight):
        return depthwise_input_grad(g, weight, shape, window)
    return np.ascontiguousarray(_input_grad(g, weight, shape, window, groups))


def _input_grad(g: Any, weight: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    n, channels, height, width = shape
    # Windows of two axes over twice as many gradients are copied in less time than those over the images are added up.
    most = channels * min(2, *window.kernel)
    if len(weight) <= most and (turned := _turned_window(window, shape)) is not None and _are_finite(weight):
        return conv2d_.function(g, _turned_filters(weight, groups), None, turned, groups)
    matrices = _by_group(weight, groups).swapaxes(1, 2)
    if window.is_pixel:
        return _of_pixels(np.matmul(matrices, _pixels(g, groups)), shape)
    by_group = _grads_by_group(g, groups)
    (above, _), (left, _) = window.padding
    padded = zeros_around(g, shape, window.padding, window.stride[1], np.result_type(g, weight))
    each, weights = channels // groups, matrices.shape[1]
    for some, tile in _parts(window, groups, weights, n, padded):
        count = (tile.stop - tile.start) * n
        windows = _WORKSPACE.array(padded, (some.stop - some.start, weights, count), padded.dtype)
        # A product over one filter is none of matrices, for which BLAS takes a dozen times as long.
        product = np.multiply if matrices.shape[2] == 1 else np.matmul
        product(matrices[some], by_group[some, :, tile.start * n : tile.stop * n], out=windows)
        images = padded[some.start * each : some.stop * each]
        windows = windows.reshape(len(images), *window.kernel, *tile.size, n)
        for row, column in window.offsets:
            seen = shifted_tile(images, window, row, column, tile)
            seen += windows[:, row, column]
    images = padded.swapaxes(2, 3)
    images = images.reshape(*images.shape[:2], images.shape[2] * images.shape[3], n)
    return images_first(images[:, above : above + height, left : left + width])


@derivative(conv2d_input_grad_, "g")
def _(h: Any, weight: Any, window: Window, groups: int) -> Any:
    return _conv2d(h, weight, None, window, groups)


@derivative(conv2d_input_grad_, "weight")
def _(h: Any, g: Any, weight_shape: tuple[int, ...], window: Window, groups: int) -> Any:
    return conv2d_weight_grad(g, h, weight_shape, window, groups)


def _write_depthwise_dots(total: Any, by_group: Any, x: Any, window: Window) -> None:
    """Write the gradient of filters that have a channel each: for each weight, products of rows that are not copied.

    Args:
        total: the array to write into, in the shape of the filters.
        by_group: the gradients as `_grads_by_group` returns them.
        x: the images.
        window: over them.
    """
    padded = pad_images_last(x, window.padding, window.stride[1])
    channels, (rows, columns) = len(padded), window.size
    grads = by_group.reshape(channels, rows, columns * len(x))
    everywhere = Tile(slice(0, rows), slice(0, columns), 0, rows * columns)
    for row, column in window.offsets:
        seen = shifted_tile(padded, window, row, column, everywhere).reshape(grads.shape)
        total[:, 0, row, column] = np.add.reduce(np.vecdot(grads, seen), axis=1)


@primitive(superlinear=True)
@kernel(name="conv2d_weight_grad")
def conv2d_weight_grad_(g: Any, x: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    """Return the gradient of conv2d for its filters."""
    if has_planes(x, g, window, groups, shape):
        return _as_one_call(_weight_grad_of_planes, g, x, shape, window, groups)
    return _weight_grad(g, x, shape, window, groups)


def _weight_grad_of_planes(g: Any, x: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    result = depthwise_weight_grad(g, x, shape, window)
    # Its sums are over zeros times other elements of the images, too.
    return result if np.isfinite(result).all() else _weight_grad(g, x, shape, window, groups)


def _weight_grad(g: Any, x: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    result = zeros_like(g, shape, np.result_type(g, x))
    total = _by_group(result, groups)
    if window.is_pixel:
        pixels = _pixels(x, groups)
        # In the order of x, whatever their own.
        grads = g.reshape(len(g), *total.shape[:2], -1) if len(pixels) > 1 else _grads_by_group(g, groups)[None]
        for one, other in zip(grads, pixels, strict=True):
            total += np.matmul(one, other.swapaxes(1, 2))
        return result
    by_group = _grads_by_group(g, groups)
    is_depthwise = total.shape[1] == x.shape[1] // groups == 1
    if is_depthwise and g.__class__ is x.__class__ is np.ndarray and g.dtype == x.dtype and g.dtype.char in "fd":
        _write_depthwise_dots(result, by_group, x, window)
        return result
    for some, part, windows in _columns(x, window, groups):
        total[some] += np.matmul(by_group[some, :, part], windows.swapaxes(1, 2))
    return result


@derivative(conv2d_weight_grad_, "g")
def _(h: Any, x: Any, window: Window, groups: int) -> Any:
    return _conv2d(x, h, None, window, groups)


@derivative(conv2d_weight_grad_, "x")
def _(h: Any, g: Any, x_shape: tuple[int, ...], window: Window, groups: int) -> Any:
    return conv2d_input_grad(g, h, x_shape, window, groups)


_conv2d = conv2d_.call
conv2d_input_grad: Callable[..., Any] = conv2d_input_grad_.call
conv2d_weight_grad: Callable[..., Any] = conv2d_weight_grad_.call


def conv2d(
    x: Tensor | np.ndarray,
    weight: Tensor | np.ndarray,
    bias: Tensor | np.ndarray | None = None,
    stride: Lengths = 1,
    padding: Lengths | str = 0,
    dilation: Lengths = 1,
    groups: int = 1,
) -> Tensor | np.ndarray:
    """Return the cross-correlation of images with filters, as neural networks convolve.

    Args:
        x: images, shape `(n, channels, height, width)`, or one of shape `(channels, height, width)`.
        weight: filters, shape `(filters, channels // groups, kernel height, kernel width)`.
        bias: shape `(filters,)`, or None.
        stride: steps of the window, an int or a pair (down, right).
        padding: rows and columns of zeros on each side, an int or a pair; or "valid" (none), or "same" (as many as are
            needed to keep the size; the stride must be 1).
        dilation: steps between the elements of the window, an int or a pair.
        groups: the number of groups of channels and filters; a filter reads the channels of its own group only.

    Returns:
        A tensor of shape `(n, filters, rows, columns)`, without n if x has none.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.conv2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.conv2d(np.arange(9.0).reshape(1, 1, 3, 3), np.ones((1, 1, 2, 2)))
        array([[[[ 8., 12.],
                 [20., 24.]]]])
    """
    check_operands_share_device("conv2d", x, weight, bias)
    groups = whole_number(groups, "groups", 1)
    shape, filters = shapes_of("conv2d", x=x, weight=weight)
    x, weight, bias = operands(x, weight, bias)
    if len(shape) not in (3, 4) or len(filters) != 4:
        raise ArgumentError(
            f"conv2d takes x of shape (n, channels, height, width) and a weight of shape (filters, channels, height, "
            f"width), not {shape} and {filters}"
        )
    _check_elements("conv2d", shape, filters)
    _check_channels("conv2d", shape, filters, groups)
    if bias is not None and shapes_of("conv2d", bias=bias) != [filters[:1]]:
        raise ArgumentError(
            f"conv2d with a weight of shape {filters} needs a bias of shape {filters[:1]}, not {array_of(bias).shape}"
        )
    # Their types are part of the key, but not those of the elements of a pair.
    is_known = type(stride) is type(padding) is type(dilation) is int
    window = (_known_window if is_known else _window)(
        (shape[-2], shape[-1]), (filters[2], filters[3]), stride, padding, dilation
    )
    if len(shape) == 4:
        return _conv2d(x, weight, bias, window, groups)
    return _conv2d(np.reshape(x, (1, *shape)), weight, bias, window, groups)[0]


def _check_elements(function: str, shape: tuple[int, ...], filters: tuple[int, ...], axes: int = 2) -> None:
    if not all(shape[-axes:]) or not all(filters[2:]):
        what = "images" if axes == 2 else "volumes"
        raise ArgumentError(
            f"{function} takes {what} and filters with at least one element, not of the shapes {shape} and {filters}"
        )


def _window(image: tuple[int, int], kernel: tuple[int, int], stride: Any, padding: Any, dilation: Any) -> Window:
    """Return the window of filters over images."""
    steps, dilations = pair("stride", stride, 1), pair("dilation", dilation, 1)
    around = _padding(padding, kernel, steps, dilations)
    return Window.over("conv2d", image, kernel, steps, around, dilations)


#: To compute it takes as long as to launch two kernels.
_known_window: Callable[..., Any] = lru_cache(maxsize=256)(_window)


def _padding(
    padding: Any, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    # A comparison with an array is one of each element.
    if isinstance(padding, str) and padding == "valid":
        return (0, 0), (0, 0)
    if isinstance(padding, str) and padding == "same":
        if stride != (1, 1):
            raise ArgumentError(f"conv2d with padding='same' needs stride 1, not {stride}")
        down, right = (step * (length - 1) for step, length in zip(dilation, kernel, strict=True))
        return (down // 2, down - down // 2), (right // 2, right - right // 2)
    if isinstance(padding, str):
        raise ArgumentError(f"padding must be 'valid', 'same', an int or a pair, not {padding!r}")
    height, width = pair("padding", padding, 0)
    return (height, height), (width, width)


def _check_channels(function: str, shape: tuple[int, ...], filters: tuple[int, ...], groups: int) -> None:
    """Raise if x has not the channels that the filters take, whose axis comes before those of a kernel."""
    axis, wanted = 1 - len(filters), filters[1] * groups
    if shape[axis] == wanted and filters[0] % groups == 0:
        return
    last = [*range(len(shape) + axis), len(shape) - 1, *range(len(shape) + axis, len(shape) - 1)]
    order = f". Are the channels last? Write x.transpose({', '.join(map(str, last))})"
    raise ArgumentError(
        f"{function} with a weight of shape {filters} and groups={groups} takes x with {wanted} channels"
        f"{f', and a number of filters that {groups} divides' if groups > 1 else ''}: x has shape {shape}"
        f"{order if shape[axis] != wanted == shape[-1] else ''}"
    )


def conv1d(
    x: Tensor | np.ndarray,
    weight: Tensor | np.ndarray,
    bias: Tensor | np.ndarray | None = None,
    stride: Lengths = 1,
    padding: Lengths | str = 0,
    dilation: Lengths = 1,
    groups: int = 1,
) -> Tensor | np.ndarray:
    """Return the cross-correlation of sequences with filters, as neural networks convolve.

    Args:
        x: sequences, shape `(n, channels, length)`, or one of shape `(channels, length)`.
        weight: filters, shape `(filters, channels // groups, kernel length)`.
        bias: shape `(filters,)`, or None.
        stride: steps of the window.
        padding: zeros on each side; or "valid" (none), or "same" (as many as are needed to keep the length; the stride
            must be 1).
        dilation: steps between the elements of the window.
        groups: the number of groups of channels and filters; a filter reads the channels of its own group only.

    Returns:
        A tensor of shape `(n, filters, positions)`, without n if x has none.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.conv1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.conv1d(np.arange(4.0).reshape(1, 1, 4), np.ones((1, 1, 2)))
        array([[[1., 3., 5.]]])
    """
    check_operands_share_device("conv1d", x, weight, bias)
    shape, filters = shapes_of("conv1d", x=x, weight=weight)
    if len(shape) not in (2, 3) or len(filters) != 3:
        raise ArgumentError(
            f"conv1d takes x of shape (n, channels, length) and a weight of shape (filters, channels, length), not "
            f"{shape} and {filters}"
        )
    _check_channels("conv1d", shape, filters, whole_number(groups, "groups", 1))
    around = padding if isinstance(padding, str) else (0, single("padding", padding, 0))
    steps, dilations = (1, single("stride", stride, 1)), (1, single("dilation", dilation, 1))
    return without_height(conv2d(with_height(x), with_height(weight), bias, steps, around, dilations, groups))


def conv_transpose2d(
    x: Tensor | np.ndarray,
    weight: Tensor | np.ndarray,
    bias: Tensor | np.ndarray | None = None,
    stride: Lengths = 1,
    padding: Lengths = 0,
    output_padding: Lengths = 0,
    groups: int = 1,
    dilation: Lengths = 1,
) -> Tensor | np.ndarray:
    """Return the gradient of `conv2d` for its images, as a layer of its own: each element of x adds a filter.

    Args:
        x: images, shape `(n, channels, height, width)`, or one of shape `(channels, height, width)`.
        weight: filters, shape `(channels, filters // groups, kernel height, kernel width)`.
        bias: shape `(filters,)`, or None.
        stride: steps between the filters, an int or a pair (down, right).
        padding: rows and columns that are cut off on each side, an int or a pair.
        output_padding: rows and columns that are added below and to the right, an int or a pair, each less than the
            stride or the dilation.
        groups: the number of groups of channels and filters.
        dilation: steps between the elements of a filter, an int or a pair.

    Returns:
        A tensor of shape `(n, filters, rows, columns)`, without n if x has none.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.conv_transpose2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.conv_transpose2d(np.array([[[[1.0, 2.0]]]]), np.ones((1, 1, 1, 2)), stride=2)
        array([[[[1., 1., 2., 2.]]]])
    """
    check_operands_share_device("conv_transpose2d", x, weight, bias)
    groups = whole_number(groups, "groups", 1)
    shape, filters = shapes_of("conv_transpose2d", x=x, weight=weight)
    x, weight = operands(x, weight)
    _check_transposed("conv_transpose2d", shape, filters, bias, groups)
    (up, left), extra = pair("padding", padding, 0), pair("output_padding", output_padding, 0)
    steps, dilations = pair("stride", stride, 1), pair("dilation", dilation, 1)
    kernel, size = (filters[2], filters[3]), (shape[-2], shape[-1])
    window = Window(kernel, steps, ((up, up), (left, left)), dilations, size)
    # Where each window is a pixel, there is one for each element of x, and what is added beyond them is 0.
    beyond = extra if window.is_pixel else (0, 0)
    image = [length - more for length, more in zip(_transposed_size(window, extra), beyond, strict=True)]
    images = x if len(shape) == 4 else np.reshape(x, (1, *shape))
    channels = filters[1] * groups
    result = conv2d_input_grad(images, weight, (array_of(images).shape[0], channels, *image), window, groups)
    if any(beyond):
        result = np.pad(result, ((0, 0), (0, 0), (0, beyond[0]), (0, beyond[1])))
    if bias is not None:
        result = result + np.reshape(bias, (channels, 1, 1))
    return result if len(shape) == 4 else result[0]


def _transposed_size(window: Window, extra: tuple[int, int]) -> list[int]:
    """Return the height and the width of the images that a window over results is over, and the rows and columns added.

    Raises:
        ArgumentError: more is added than a window may miss, or nothing is left.
    """
    sizes = []
    for axis in (0, 1):
        step, apart = window.stride[axis], window.dilation[axis]
        if extra[axis] >= max(step, apart):
            raise ArgumentError(
                f"conv_transpose2d: output_padding {extra} must be less than the stride, {window.stride}, or the "
                f"dilation, {window.dilation}"
            )
        reach = (window.size[axis] - 1) * step + apart * (window.kernel[axis] - 1) + 1
        sizes.append(reach - sum(window.padding[axis]) + extra[axis])
    if min(sizes) < 1:
        around = tuple(before for before, _ in window.padding)
        raise ArgumentError(
            f"conv_transpose2d: nothing is left of x with images of shape {window.size} and padding {around}"
        )
    return sizes


def _check_transposed(function: str, shape: tuple[int, ...], filters: tuple[int, ...], bias: Any, groups: int) -> None:
    if len(shape) not in (3, 4) or len(filters) != 4:
        raise ArgumentError(
            f"{function} takes x of shape (n, channels, height, width) and a weight of shape (channels, filters, "
            f"height, width), not {shape} and {filters}"
        )
    _check_transposed_channels(function, shape, filters, bias, groups, 2)


def _check_transposed_channels(
    function: str, shape: tuple[int, ...], filters: tuple[int, ...], bias: Any, groups: int, axes: int
) -> None:
    _check_elements(function, shape, filters, axes)
    if not filters[1]:
        raise ArgumentError(f"{function} takes a weight of at least one filter, not one of shape {filters}")
    if shape[-1 - axes] != filters[0] or filters[0] % groups:
        raise ArgumentError(
            f"{function} with a weight of shape {filters} and groups={groups} takes x with {filters[0]} channels"
            f"{f', a number that {groups} divides' if groups > 1 else ''}: x has shape {shape}"
        )
    if bias is not None and shapes_of(function, bias=bias) != [(filters[1] * groups,)]:
        raise ArgumentError(
            f"{function} with a weight of shape {filters} and groups={groups} needs a bias of shape "
            f"({filters[1] * groups},), not {array_of(bias).shape}"
        )


def conv_transpose1d(
    x: Tensor | np.ndarray,
    weight: Tensor | np.ndarray,
    bias: Tensor | np.ndarray | None = None,
    stride: Lengths = 1,
    padding: Lengths = 0,
    output_padding: Lengths = 0,
    groups: int = 1,
    dilation: Lengths = 1,
) -> Tensor | np.ndarray:
    """Return the gradient of `conv1d` for its sequences, as a layer of its own: each element of x adds a filter.

    Args:
        x: sequences, shape `(n, channels, length)`, or one of shape `(channels, length)`.
        weight: filters, shape `(channels, filters // groups, kernel length)`.
        bias: shape `(filters,)`, or None.
        stride: steps between the filters.
        padding: elements that are cut off on each side.
        output_padding: elements that are added at the end, fewer than the stride or the dilation.
        groups: the number of groups of channels and filters.
        dilation: steps between the elements of a filter.

    Returns:
        A tensor of shape `(n, filters, positions)`, without n if x has none.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.conv_transpose1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.conv_transpose1d(np.array([[[1.0, 2.0]]]), np.ones((1, 1, 2)), stride=2)
        array([[[1., 1., 2., 2.]]])
    """
    check_operands_share_device("conv_transpose1d", x, weight, bias)
    shape, filters = shapes_of("conv_transpose1d", x=x, weight=weight)
    if len(shape) not in (2, 3) or len(filters) != 3:
        raise ArgumentError(
            f"conv_transpose1d takes x of shape (n, channels, length) and a weight of shape (channels, filters, "
            f"length), not {shape} and {filters}"
        )
    result = conv_transpose2d(
        with_height(x),
        with_height(weight),
        bias,
        (1, single("stride", stride, 1)),
        (0, single("padding", padding, 0)),
        (0, single("output_padding", output_padding, 0)),
        groups,
        (1, single("dilation", dilation, 1)),
    )
    return without_height(result)


# Volumes. The layers of a window along the depth become channels of images, which are convolved as such.


@arrays_in_single
def conv3d(
    x: Tensor | np.ndarray,
    weight: Tensor | np.ndarray,
    bias: Tensor | np.ndarray | None = None,
    stride: Lengths = 1,
    padding: Lengths | str = 0,
    dilation: Lengths = 1,
    groups: int = 1,
) -> Tensor | np.ndarray:
    """Return the cross-correlation of volumes with filters, as neural networks convolve.

    Args:
        x: volumes, shape `(n, channels, depth, height, width)`, or one without n.
        weight: filters, shape `(filters, channels // groups, kernel depth, kernel height, kernel width)`.
        bias: shape `(filters,)`, or None.
        stride: steps of the window, an int or three.
        padding: zeros on each side of each axis, an int or three; or "valid" (none), or "same" (as many as are needed
            to keep the size; the stride must be 1).
        dilation: steps between the elements of the window, an int or three.
        groups: the number of groups of channels and filters; a filter reads the channels of its own group only.

    Returns:
        A tensor of shape `(n, filters, ...)`, without n if x has none.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.conv3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.conv3d(np.arange(8.0).reshape(1, 1, 2, 2, 2), np.ones((1, 1, 1, 2, 2)))
        array([[[[[ 6.]],
        <BLANKLINE>
                 [[22.]]]]])
    """
    check_operands_share_device("conv3d", x, weight, bias)
    groups = whole_number(groups, "groups", 1)
    shape, filters = shapes_of("conv3d", x=x, weight=weight)
    _check_volumes(shape, filters, groups)
    steps, dilations = triple("stride", stride, 1), triple("dilation", dilation, 1)
    if isinstance(padding, str):
        _check_named_padding(padding, steps)
    volumes: Any = operand(x) if len(shape) == 5 else np.reshape(x, (1, *shape))
    layers, in_layer = _padded_in_depth(volumes, padding, dilations[0] * (filters[2] - 1))
    n, channels, depth, height, width = array_of(layers).shape
    count = count_windows(depth, filters[2], steps[0], dilations[0])
    if count < 1:
        raise ArgumentError(
            f"conv3d: a kernel of {filters[2:]} with dilation {dilations} does not fit into volumes of {shape[-3:]} "
            f"with padding {padding!r}"
        )
    windows = np.moveaxis(windows_along(layers, 2, filters[2], steps[0], dilations[0]), 3, 1)
    images = np.reshape(windows, (n * count, channels * filters[2], height, width))
    kernels = np.reshape(weight, (filters[0], filters[1] * filters[2], *filters[3:]))
    found: Any = conv2d(images, kernels, bias, steps[1:], in_layer, dilations[1:], groups)
    result = np.moveaxis(np.reshape(found, (n, count, *array_of(found).shape[1:])), 1, 2)
    return result if len(shape) == 5 else result[0]


def _check_volumes(shape: tuple[int, ...], filters: tuple[int, ...], groups: int) -> None:
    if len(shape) not in (4, 5) or len(filters) != 5:
        raise ArgumentError(
            "conv3d takes x of shape (n, channels, depth, height, width) and a weight of shape (filters, channels, "
            f"depth, height, width), not {shape} and {filters}"
        )
    _check_elements("conv3d", shape, filters, 3)
    _check_channels("conv3d", shape, filters, groups)


def _check_named_padding(padding: str, steps: tuple[int, int, int]) -> None:
    if padding not in ("same", "valid"):
        raise ArgumentError(f"padding must be 'valid', 'same', an int or three, not {padding!r}")
    if padding == "same" and steps != (1, 1, 1):
        raise ArgumentError(f"conv3d with padding='same' needs stride 1, not {steps}")


def _padded_in_depth(x: Any, padding: Any, reach: int) -> tuple[Any, Any]:
    """Return volumes with layers of zeros before and after them, and the padding within a layer."""
    if isinstance(padding, str):
        around = (reach // 2, reach - reach // 2) if padding == "same" else (0, 0)
        in_layer: Any = padding
    else:
        depth, *in_layer = triple("padding", padding, 0)
        around = (depth, depth)
    return (np.pad(x, ((0, 0), (0, 0), around, (0, 0), (0, 0))) if any(around) else x), in_layer


def conv_transpose3d(
    x: Tensor | np.ndarray,
    weight: Tensor | np.ndarray,
    bias: Tensor | np.ndarray | None = None,
    stride: Lengths = 1,
    padding: Lengths = 0,
    output_padding: Lengths = 0,
    groups: int = 1,
    dilation: Lengths = 1,
) -> Tensor | np.ndarray:
    """Return the gradient of `conv3d` for its volumes, as a layer of its own: each element of x adds a filter.

    Args:
        x: volumes, shape `(n, channels, depth, height, width)`, or one without n.
        weight: filters, shape `(channels, filters // groups, kernel depth, kernel height, kernel width)`.
        bias: shape `(filters,)`, or None.
        stride: steps between the filters, an int or three.
        padding: elements that are cut off on each side of each axis, an int or three.
        output_padding: elements that are added at the end of each axis, an int or three, each less than the stride or
            the dilation.
        groups: the number of groups of channels and filters.
        dilation: steps between the elements of a filter, an int or three.

    Returns:
        A tensor of shape `(n, filters, ...)`, without n if x has none.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.conv_transpose3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.conv_transpose3d(np.array([[[[[1.0, 2.0]]]]]), np.ones((1, 1, 1, 1, 2)), stride=2)
        array([[[[[1., 1., 2., 2.]]]]])
    """
    check_operands_share_device("conv_transpose3d", x, weight, bias)
    groups = whole_number(groups, "groups", 1)
    shape, filters = shapes_of("conv_transpose3d", x=x, weight=weight)
    if len(shape) not in (4, 5) or len(filters) != 5:
        raise ArgumentError(
            "conv_transpose3d takes x of shape (n, channels, depth, height, width) and a weight of shape (channels, "
            f"filters, depth, height, width), not {shape} and {filters}"
        )
    _check_transposed_channels("conv_transpose3d", shape, filters, bias, groups, 3)
    volumes: Any = x if len(shape) == 5 else np.reshape(x, (1, *shape))
    steps, dilations = triple("stride", stride, 1), triple("dilation", dilation, 1)
    cut, extra = triple("padding", padding, 0), triple("output_padding", output_padding, 0)
    n, channels, depth, height, width = array_of(volumes).shape
    images = np.reshape(np.moveaxis(volumes, 1, 2), (n * depth, channels, height, width))
    kernels = np.reshape(weight, (filters[0], filters[1] * filters[2], *filters[3:]))
    found: Any = conv_transpose2d(images, kernels, None, steps[1:], cut[1:], extra[1:], groups, dilations[1:])
    count = filters[1] * groups
    windows = np.reshape(found, (n, depth, count, filters[2], *array_of(found).shape[2:]))
    length = (depth - 1) * steps[0] + dilations[0] * (filters[2] - 1) + 1 + extra[0]
    whole = sums_of_windows(np.moveaxis(windows, 1, 3), 2, length, steps[0], dilations[0])
    cropped = whole[:, :, cut[0] : length - cut[0]]
    result = cropped if bias is None else cropped + np.reshape(bias, (count, 1, 1, 1))
    return result if len(shape) == 5 else result[0]
