"""Convolution of images by matrix products (im2col).

The windows of a few images at a time are copied into a matrix with a row for each weight of a filter and a column for
each position, and multiplied. `conv2d`, `conv2d_input_grad` and `conv2d_weight_grad` are the three ways to contract
two of the three arrays of one trilinear form, so the derivatives of each are the other two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..graph.values import empty_beside, own_function, zeros_beside
from ..ops.kernels import device_variant
from ..ops.primitive import derivative, primitive
from .arguments import array_of, pair, single
from .windows import Window, add_shifted, by_kernel, crop, pad, sliding, with_height, without_height

__all__ = ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"]

#: The bytes of windows to copy at a time, so that they are still in the cache when they are multiplied.
CHUNK = 1 << 20
#: The same for arrays of another library: on a device a call costs more than its cache saves.
FOREIGN_CHUNK = 1 << 26


def _chunks(count: int, bytes_each: int, like: Any) -> Iterator[slice]:
    """Yield slices of `count` images, each with as many as fit into a chunk of arrays of the type of `like`."""
    chunk = CHUNK if like.__class__ is np.ndarray else FOREIGN_CHUNK
    step = max(1, min(count, chunk // max(1, bytes_each)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _by_group(weight: Any, groups: int) -> Any:
    """Return the filters as a matrix for each group, shape (groups, filters, weights)."""
    return weight.reshape(groups, weight.shape[0] // groups, -1)


def _columns(x: Any, window: Window, groups: int) -> Iterator[tuple[slice, Any]]:
    """Yield the windows over a few images at a time, shape (images, groups, weights, positions)."""
    n, channels = x.shape[:2]
    views = sliding(pad(x, window.padding), window)
    weights = channels // groups * window.kernel[0] * window.kernel[1]
    positions = window.size[0] * window.size[1]
    buffer: Any = None
    for chunk in _chunks(n, groups * weights * positions * x.itemsize, x):
        part = views[chunk]
        if buffer is None:
            buffer = empty_beside(part)
        columns = buffer[: len(part)]
        columns[...] = part
        yield chunk, columns.reshape(len(part), groups, weights, positions)


def _conv2d_on_device(x: Any, weight: Any, bias: Any, window: Window, groups: int) -> Any:
    result = by_kernel("conv2d", x, weight, bias, window, groups)
    return conv2d_.function(x, weight, bias, window, groups) if result is None else result


@primitive(superlinear=True)
@device_variant(_conv2d_on_device)
def conv2d_(x: Any, weight: Any, bias: Any, window: Window, groups: int) -> Any:
    """Return the filters' products with the windows over x, plus the bias of each filter."""
    n, filters, positions = x.shape[0], weight.shape[0], window.size[0] * window.size[1]
    result = empty_beside(x, (n, filters, *window.size), np.result_type(x, weight))
    products = result.reshape(n, groups, filters // groups, positions)
    matrices = _by_group(weight, groups)
    for chunk, columns in _columns(x, window, groups):
        np.matmul(matrices, columns, out=products[chunk])
    if bias is None:
        return result
    column = bias.reshape(-1, 1, 1)
    return np.add(result, column, out=result if result.dtype == bias.dtype else None)


@derivative(conv2d_, "x")
def _(g: Any, x_shape: tuple[int, ...], weight: Any, window: Window, groups: int) -> Any:
    return conv2d_input_grad(g, weight, x_shape, window, groups)


@derivative(conv2d_, "weight")
def _(g: Any, x: Any, weight_shape: tuple[int, ...], window: Window, groups: int) -> Any:
    return conv2d_weight_grad(g, x, weight_shape, window, groups)


def _bias_gradient_on_device(g: Any) -> Any:
    # The pixels of an image lie side by side, so that each of the two sums is a simple one.
    total = own_function(np.sum, g)
    return total(total(g, axis=(2, 3)), axis=0)


@derivative(conv2d_, "bias")
@device_variant(_bias_gradient_on_device)
def _(g: Any) -> Any:
    return np.sum(g, axis=(0, 2, 3))


def _input_grad_on_device(g: Any, weight: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    result = by_kernel("conv2d_input_grad", g, weight, shape, window, groups)
    return conv2d_input_grad_.function(g, weight, shape, window, groups) if result is None else result


@primitive(superlinear=True)
@device_variant(_input_grad_on_device)
def conv2d_input_grad_(g: Any, weight: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    """Return the gradient of conv2d for its images: the gradients of the windows, added at their positions."""
    n, positions = g.shape[0], window.size[0] * window.size[1]
    (above, below), (left, right) = window.padding
    padded_shape = (n, shape[1], above + shape[2] + below, left + shape[3] + right)
    padded = zeros_beside(padded_shape, g, np.result_type(g, weight))
    matrices = _by_group(weight, groups).swapaxes(1, 2)
    g = g.reshape(n, groups, -1, positions)
    for chunk in _chunks(n, groups * matrices.shape[1] * positions * padded.itemsize, padded):
        columns = np.matmul(matrices, g[chunk])
        columns = columns.reshape(-1, shape[1], *window.kernel, *window.size)
        for row, column in window.offsets:
            add_shifted(padded[chunk], window, row, column, columns[:, :, row, column])
    return crop(padded, window.padding, shape[2:])


@derivative(conv2d_input_grad_, "g")
def _(h: Any, weight: Any, window: Window, groups: int) -> Any:
    return _conv2d(h, weight, None, window, groups)


@derivative(conv2d_input_grad_, "weight")
def _(h: Any, g: Any, weight_shape: tuple[int, ...], window: Window, groups: int) -> Any:
    return conv2d_weight_grad(g, h, weight_shape, window, groups)


def _weight_grad_on_device(g: Any, x: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    result = by_kernel("conv2d_weight_grad", g, x, shape, window, groups)
    return conv2d_weight_grad_.function(g, x, shape, window, groups) if result is None else result


@primitive(superlinear=True)
@device_variant(_weight_grad_on_device)
def conv2d_weight_grad_(g: Any, x: Any, shape: tuple[int, ...], window: Window, groups: int) -> Any:
    """Return the gradient of conv2d for its filters."""
    positions = window.size[0] * window.size[1]
    result = zeros_beside(shape, g, np.result_type(g, x))
    total = _by_group(result, groups)
    g = g.reshape(g.shape[0], groups, -1, positions)
    for chunk, columns in _columns(x, window, groups):
        total += np.matmul(g[chunk], columns.swapaxes(2, 3)).sum(axis=0)
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
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
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
    shape, filters = array_of(x).shape, array_of(weight).shape
    if len(shape) not in (3, 4) or len(filters) != 4:
        raise ArgumentError(
            f"conv2d takes x of shape (n, channels, height, width) and a weight of shape (filters, channels, height, "
            f"width), not {shape} and {filters}"
        )
    if shape[-3] != filters[1] * groups or filters[0] % groups:
        raise ArgumentError(
            f"conv2d with a weight of shape {filters} and groups={groups} takes x with {filters[1] * groups} channels "
            f"and a number of filters that {groups} divides: x has shape {shape}"
        )
    if bias is not None and array_of(bias).shape != filters[:1]:
        raise ArgumentError(
            f"conv2d with a weight of shape {filters} needs a bias of shape {filters[:1]}, not {array_of(bias).shape}"
        )
    steps, dilations = pair("stride", stride, 1), pair("dilation", dilation, 1)
    around = _padding(padding, filters[2:], steps, dilations)
    window = Window.over("conv2d", shape[-2:], filters[2:], steps, around, dilations)
    if len(shape) == 4:
        return _conv2d(x, weight, bias, window, groups)
    return _conv2d(np.reshape(x, (1, *shape)), weight, bias, window, groups)[0]


def _padding(
    padding: Any, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    if padding == "valid":
        return (0, 0), (0, 0)
    if padding == "same":
        if stride != (1, 1):
            raise ArgumentError(f"conv2d with padding='same' needs stride 1, not {stride}")
        down, right = (step * (length - 1) for step, length in zip(dilation, kernel, strict=True))
        return (down // 2, down - down // 2), (right // 2, right - right // 2)
    if isinstance(padding, str):
        raise ArgumentError(f"padding must be 'valid', 'same', an int or a pair, not {padding!r}")
    height, width = pair("padding", padding, 0)
    return (height, height), (width, width)


def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
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
    shape, filters = array_of(x).shape, array_of(weight).shape
    if len(shape) not in (2, 3) or len(filters) != 3:
        raise ArgumentError(
            f"conv1d takes x of shape (n, channels, length) and a weight of shape (filters, channels, length), not "
            f"{shape} and {filters}"
        )
    around = padding if isinstance(padding, str) else (0, single("padding", padding, 0))
    steps, dilations = (1, single("stride", stride, 1)), (1, single("dilation", dilation, 1))
    return without_height(conv2d(with_height(x), with_height(weight), bias, steps, around, dilations, groups))


def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
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
    shape, filters = array_of(x).shape, array_of(weight).shape
    _check_transposed("conv_transpose2d", shape, filters, bias, groups)
    steps, dilations = pair("stride", stride, 1), pair("dilation", dilation, 1)
    around, extra = pair("padding", padding, 0), pair("output_padding", output_padding, 0)
    image = []
    for axis in (0, 1):
        if extra[axis] >= max(steps[axis], dilations[axis]):
            raise ArgumentError(
                f"conv_transpose2d: output_padding {extra} must be less than the stride, {steps}, or the dilation, "
                f"{dilations}"
            )
        reach = (shape[axis - 2] - 1) * steps[axis] + dilations[axis] * (filters[axis + 2] - 1) + 1
        image.append(reach - 2 * around[axis] + extra[axis])
    if min(image) < 1:
        raise ArgumentError(f"conv_transpose2d: nothing is left of x of shape {shape} with padding {around}")
    padding_of = ((around[0], around[0]), (around[1], around[1]))
    window = Window(filters[2:], steps, padding_of, dilations, shape[-2:])
    images = x if len(shape) == 4 else np.reshape(x, (1, *shape))
    channels = filters[1] * groups
    result = conv2d_input_grad(images, weight, (array_of(images).shape[0], channels, *image), window, groups)
    if bias is not None:
        result = result + np.reshape(bias, (channels, 1, 1))
    return result if len(shape) == 4 else result[0]


def _check_transposed(function: str, shape: tuple[int, ...], filters: tuple[int, ...], bias: Any, groups: int) -> None:
    if len(shape) not in (3, 4) or len(filters) != 4:
        raise ArgumentError(
            f"{function} takes x of shape (n, channels, height, width) and a weight of shape (channels, filters, "
            f"height, width), not {shape} and {filters}"
        )
    if shape[-3] != filters[0] or filters[0] % groups:
        raise ArgumentError(
            f"{function} with a weight of shape {filters} and groups={groups} takes x with {filters[0]} channels, a "
            f"number that {groups} divides: x has shape {shape}"
        )
    if bias is not None and array_of(bias).shape != (filters[1] * groups,):
        raise ArgumentError(
            f"{function} with a weight of shape {filters} and groups={groups} needs a bias of shape "
            f"({filters[1] * groups},), not {array_of(bias).shape}"
        )


def conv_transpose1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
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
    shape, filters = array_of(x).shape, array_of(weight).shape
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
