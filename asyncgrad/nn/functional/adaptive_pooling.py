"""Pooling into a given number of windows, whatever the size of the image.

Window i of `count` over `length` elements begins at `i * length // count`, and ends before the next multiple of
`length / count`, rounded up. Windows of one size are pooled as such. Means over others are products with a matrix whose
rows hold the share of each element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.values import as_like
from ...core.ops.single_precision import in_single
from ...errors import ArgumentError
from .arguments import array_of, check_real, complex_error, floating
from .linear import linear
from .pooling import avg_pool2d, max_pool2d, with_positions
from .windows import with_height, without_height

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d"]


def _bounds(length: int, count: int) -> list[tuple[int, int]]:
    """Return where each of `count` windows over `length` elements begins and ends."""
    return [(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]


def _shares(length: int, count: int, data: Any) -> Any:
    """Return the matrix of means, shape (count, length)."""
    matrix = np.zeros((count, length), data.dtype)
    for row, (start, end) in zip(matrix, _bounds(length, count), strict=True):
        row[start:end] = 1 / (end - start)
    return as_like(matrix, data)


def _sizes(function: str, shape: tuple[int, ...], output_size: Any) -> tuple[int, int]:
    if len(shape) not in (3, 4):
        raise ArgumentError(f"{function} takes x of shape (n, channels, height, width), not {shape}")
    both = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size, output_size)
    if len(both) != 2 or not all(one is None or (isinstance(one, (int, np.integer)) and one >= 1) for one in both):
        raise ArgumentError(
            f"{function}: output_size must be an int of at least 1, None to keep a size, or a pair, not {output_size!r}"
        )
    if not all(shape[-2:]):
        raise ArgumentError(f"{function} takes images with at least one element, not of shape {shape}")
    return tuple(own if one is None else int(one) for one, own in zip(both, shape[-2:], strict=True))  # type: ignore[return-value]


@in_single
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Any:
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
    data = array_of(x)
    height, width = data.shape[-2:] if data.ndim > 1 else (0, 0)
    rows, columns = _sizes("adaptive_avg_pool2d", data.shape, output_size)
    if (rows, columns) == (1, 1):
        return np.mean(x, axis=(-2, -1), keepdims=True)
    if height % rows == 0 and width % columns == 0:
        return avg_pool2d(x, (height // rows, width // columns))
    data = floating(data)
    if rows != height:
        x = np.swapaxes(linear(np.swapaxes(x, -1, -2), _shares(height, rows, data)), -1, -2)
    return x if columns == width else linear(x, _shares(width, columns, data))


def adaptive_avg_pool1d(x: Any, output_size: Any) -> Any:
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
    return without_height(adaptive_avg_pool2d(_sequences("adaptive_avg_pool1d", x), (1, _length(output_size))))


@on_device_of_arguments
def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
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
    data = array_of(x)
    if data.dtype.kind == "c":
        raise complex_error("adaptive_max_pool2d", "x", data)
    rows, columns = _sizes("adaptive_max_pool2d", data.shape, output_size)
    height, width = data.shape[-2:]
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


def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
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
    found = adaptive_max_pool2d(images, (1, _length(output_size)), return_indices)
    return tuple(map(without_height, found)) if return_indices else without_height(found)


def _sequences(function: str, x: Any) -> Any:
    shape = array_of(x).shape
    if len(shape) not in (2, 3):
        raise ArgumentError(f"{function} takes x of shape (n, channels, length), not {shape}")
    return with_height(x)


def _length(output_size: Any) -> Any:
    return output_size[0] if isinstance(output_size, (tuple, list)) and len(output_size) == 1 else output_size
