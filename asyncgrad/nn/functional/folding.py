"""Windows over images as columns, and the images that are sums of such columns."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentError
from ..shared.arguments import array_of, pair, shapes_of
from ..shared.axis_windows import count_windows, sums_of_windows, windows_along

if TYPE_CHECKING:
    from ...core.arrays.array_like import Lengths
    from ...core.tensor import Tensor


__all__ = ["fold", "unfold"]


def unfold(
    x: Tensor | np.ndarray, kernel_size: Lengths, dilation: Lengths = 1, padding: Lengths = 0, stride: Lengths = 1
) -> Tensor | np.ndarray:
    """Return the windows over images, each as a column.

    Args:
        x: images, shape `(n, channels, height, width)` or `(channels, height, width)`.
        kernel_size: height and width of the window, an int or a pair.
        dilation: steps between the elements of the window, an int or a pair.
        padding: rows and columns of zeros on each side, an int or a pair.
        stride: steps of the window, an int or a pair.

    Returns:
        A tensor of shape `(n, channels * elements of a window, positions)`, without n if x has none.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.unfold.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.unfold(np.arange(6.0).reshape(1, 2, 3), 2)
        array([[0., 1.],
               [1., 2.],
               [3., 4.],
               [4., 5.]])
    """
    (shape,) = shapes_of("unfold", x=x)
    if len(shape) not in (3, 4) or not all(shape[-3:]):
        raise ArgumentError(f"unfold takes x of shape (n, channels, height, width), not {shape}")
    kernel, steps = _both("kernel_size", kernel_size, 1), _both("stride", stride, 1)
    dilations, around = _both("dilation", dilation, 1), _both("padding", padding, 0)
    images: Any = x if len(shape) == 4 else np.reshape(x, (1, *shape))
    if any(around):
        images = np.pad(images, ((0, 0), (0, 0), (around[0],) * 2, (around[1],) * 2))
    counts = _counts("unfold", array_of(images).shape[2:], kernel, steps, dilations)
    n, channels = array_of(images).shape[:2]
    # First along the last axis, so that the number of the other one stays.
    windows = windows_along(images, 3, kernel[1], steps[1], dilations[1])
    windows = windows_along(windows, 2, kernel[0], steps[0], dilations[0])
    columns = np.swapaxes(windows, 3, 4)
    found = np.reshape(columns, (n, channels * prod(kernel), prod(counts)))
    return found if len(shape) == 4 else found[0]


def fold(
    x: Tensor | np.ndarray,
    output_size: Lengths,
    kernel_size: Lengths,
    dilation: Lengths = 1,
    padding: Lengths = 0,
    stride: Lengths = 1,
) -> Tensor | np.ndarray:
    """Return images, each element the sum of what windows have there: the gradient of `unfold`, as a function.

    Args:
        x: the windows, shape `(n, channels * elements of a window, positions)`, or without n.
        output_size: height and width of the images, an int or a pair.
        kernel_size: height and width of the window, an int or a pair.
        dilation: steps between the elements of the window, an int or a pair.
        padding: rows and columns around the images that are cut off, an int or a pair.
        stride: steps of the window, an int or a pair.

    Returns:
        A tensor of shape `(n, channels, *output_size)`, without n if x has none.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.fold.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.fold(np.ones((4, 2)), (2, 3), 2)
        array([[[1., 2., 1.],
                [1., 2., 1.]]])
    """
    (shape,), sizes = shapes_of("fold", x=x), _both("output_size", output_size, 1)
    kernel, steps = _both("kernel_size", kernel_size, 1), _both("stride", stride, 1)
    dilations, around = _both("dilation", dilation, 1), _both("padding", padding, 0)
    whole = (sizes[0] + 2 * around[0], sizes[1] + 2 * around[1])
    counts = _counts("fold", whole, kernel, steps, dilations)
    if len(shape) not in (2, 3) or shape[-2] % prod(kernel) or not shape[-2] or shape[-1] != prod(counts):
        raise ArgumentError(
            f"fold of windows of {kernel} into images of {sizes} takes x of shape (n, channels * {prod(kernel)}, "
            f"{prod(counts)}), not {shape}"
        )
    n, channels = (shape[0] if len(shape) == 3 else 1), shape[-2] // prod(kernel)
    windows = np.swapaxes(np.reshape(x, (n, channels, *kernel, *counts)), 3, 4)
    rows = sums_of_windows(windows, 2, whole[0], steps[0], dilations[0])
    images = sums_of_windows(rows, 3, whole[1], steps[1], dilations[1])
    found = images[:, :, around[0] : around[0] + sizes[0], around[1] : around[1] + sizes[1]]
    return found if len(shape) == 3 else found[0]


def _both(name: str, value: Any, least: int) -> tuple[int, int]:
    """Return a height and a width, given as one int or as a pair.

    Raises:
        ArgumentError: `value` is neither, as a sequence of one is; the message names the argument.
    """
    if isinstance(value, (tuple, list)) and len(value) == 1:
        raise ArgumentError(f"{name} must be an int of at least {least}, or a pair of them, not {value!r}")
    return pair(name, value, least)


def _counts(
    function: str, image: tuple[int, ...], kernel: tuple[int, int], steps: tuple[int, int], dilations: tuple[int, int]
) -> tuple[int, ...]:
    """Return the number of positions along each axis."""
    each = zip(image, kernel, steps, dilations, strict=True)
    counts = tuple([count_windows(length, size, step, apart) for length, size, step, apart in each])
    if min(counts) < 1:
        raise ArgumentError(
            f"{function}: a kernel of {kernel} with dilation {dilations} does not fit into a padded image of {image}"
        )
    return counts
