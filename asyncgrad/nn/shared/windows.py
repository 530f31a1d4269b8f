"""Windows that slide over images: their geometry, and views of images through them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.arrays.device_functions import own_function
from ...core.arrays.values import is_device_array, is_recorder, zeros_like
from ...errors import ArgumentError
from .arguments import array_of
from .layouts import copy_images, empty_laid_like, images_last, with_spaced_rows

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "Tile",
    "Window",
    "add_shifted",
    "crop",
    "pad",
    "pad_images_last",
    "shifted",
    "shifted_tile",
    "sliding",
    "with_height",
    "without_height",
    "zeros_around",
]


class Tile(NamedTuple):
    """Some of the positions of a window, which follow one another."""

    rows: slice
    columns: slice
    #: The numbers of the first position and of the one after the last, row by row.
    start: int
    stop: int

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start


class Window(NamedTuple):
    """A window, and the steps in which it slides over an image; pairs are (height, width)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    #: Rows above and below, columns left and right.
    padding: tuple[tuple[int, int], tuple[int, int]]
    dilation: tuple[int, int]
    #: The number of positions of the window.
    size: tuple[int, int]

    @classmethod
    def over(
        cls,
        function: str,
        image: tuple[int, ...],
        kernel: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[tuple[int, int], tuple[int, int]],
        dilation: tuple[int, int],
        *,
        ceil_mode: bool = False,
    ) -> Window:
        """Return the window over an image of the given height and width.

        Args:
            function: the caller, for the error.
            image: height and width.
            kernel: height and width of the window.
            stride: steps down and to the right.
            padding: as in the class; with `ceil_mode` more may be added below and to the right.
            dilation: steps between the elements of the window.
            ceil_mode: let the last window reach beyond the padded image, if it begins inside.

        Raises:
            ArgumentError: the window does not fit anywhere.
        """
        sizes = []
        paddings = []
        for axis in (0, 1):
            before, after = padding[axis]
            length, span = image[axis] + before + after, dilation[axis] * (kernel[axis] - 1) + 1
            count = (length - span) // stride[axis] + 1
            if ceil_mode and (length - span) % stride[axis] and count * stride[axis] < image[axis] + before:
                count += 1
            if count < 1:
                raise ArgumentError(
                    f"{function}: a kernel of {kernel} with dilation {dilation} does not fit into an image of {image} "
                    f"with padding {padding}"
                )
            sizes.append(count)
            paddings.append((before, max(after, (count - 1) * stride[axis] + span - image[axis] - before)))
        return cls(kernel, stride, (paddings[0], paddings[1]), dilation, (sizes[0], sizes[1]))

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """The position in the window of each of its elements, row by row."""
        return [(row, column) for row in range(self.kernel[0]) for column in range(self.kernel[1])]

    @property
    def is_pixel(self) -> bool:
        """Whether the window at each position is the pixel there."""
        return self.kernel == self.stride == (1, 1) and self.padding == ((0, 0), (0, 0))

    @property
    def is_disjoint(self) -> bool:
        """Whether no element of the image lies in the window at two positions."""
        axes = zip(self.stride, self.dilation, self.kernel, strict=True)
        return all(step >= apart * (length - 1) + 1 for step, apart, length in axes)

    def covers(self, image: tuple[int, ...]) -> bool:
        """Tell whether each element of a padded image of that height and width lies in the window at one position."""
        axes = zip(self.kernel, self.stride, self.dilation, self.padding, self.size, image, strict=True)
        return all(
            length == step and (apart == 1 or length == 1) and count * step == before + inner + after
            for length, step, apart, (before, after), count, inner in axes
        )

    def tiles(self, count: int) -> Iterator[Tile]:
        """Yield all positions in parts of at most `count`, but at least one: whole rows, or parts of a row."""
        rows, columns = self.size
        if count >= columns:
            step = count // columns
            for top in range(0, rows, step):
                bottom = min(top + step, rows)
                yield Tile(slice(top, bottom), slice(0, columns), top * columns, bottom * columns)
            return
        step = max(1, count)
        for row in range(rows):
            for left in range(0, columns, step):
                right = min(left + step, columns)
                start = row * columns
                yield Tile(slice(row, row + 1), slice(left, right), start + left, start + right)


def pad(x: Array, padding: tuple[tuple[int, int], tuple[int, int]], value: Any = 0) -> Any:
    """Return an array padded with rows and columns of `value` in its last two axes, in the order in memory of `x`."""
    (above, below), (left, right) = padding
    if not (above or below or left or right):
        return x
    height, width = x.shape[-2:]
    shape = (*x.shape[:-2], above + height + below, left + width + right)
    padded = empty_laid_like(x, shape)
    padded.fill(value)
    padded[..., above : above + height, left : left + width] = x
    return padded


def zeros_around(like: Any, shape: tuple[int, ...], padding: Any, apart: int, dtype: Any) -> Any:
    """Return zeros for images of a shape and their padding, in the order that `pad_images_last` returns.

    Args:
        like: an array of the type of the result.
        shape: (n, channels, height, width).
        padding: rows above and below, columns left and right.
        apart: which columns lie together.
        dtype: that of the zeros.
    """
    n, channels, height, width = shape
    (above, below), (left, right) = padding
    columns = -(-(left + width + right) // apart)
    return zeros_like(like, (channels, above + height + below, apart, columns, n), dtype)


def pad_images_last(x: Array, padding: tuple[tuple[int, int], tuple[int, int]], apart: int) -> Any:
    """Return images padded with zeros, with those columns together that are `apart` columns from one another.

    An element of a window that slides in such steps goes over them, so that NumPy's loops are as long as all its
    columns, and not as one pixel of all images.

    Returns:
        A contiguous array of shape (channels, height, apart, width / apart, n), filled up with zeros.
    """
    (above, below), (left, right) = padding
    height, width = x.shape[2:]
    if apart == 1 and not (above or below or left or right):
        return images_last(x)[:, :, None]
    padded = zeros_around(x, x.shape, padding, apart, x.dtype)
    source = with_spaced_rows(x) if apart > 1 else x
    for phase in range(apart):
        first = (phase - left) % apart
        if (count := len(range(first, width, apart))) > 0:
            begin = (left + first) // apart
            target = padded[:, above : above + height, phase, begin : begin + count]
            copy_images(target.transpose(3, 0, 1, 2), source[..., first::apart])
    return padded


def crop(padded: Any, padding: tuple[tuple[int, int], tuple[int, int]], image: tuple[int, ...]) -> Any:
    """Return the image of that height and width inside the padding."""
    (above, _), (left, _) = padding
    return padded[..., above : above + image[0], left : left + image[1]]


def shifted(padded: Any, window: Window, row: int, column: int) -> Any:
    """Return the view of a padded image under one element of the window, shape (..., *window.size)."""
    top, left = row * window.dilation[0], column * window.dilation[1]
    down, right = window.stride
    return padded[
        ..., top : top + (window.size[0] - 1) * down + 1 : down, left : left + (window.size[1] - 1) * right + 1 : right
    ]


def add_shifted(padded: Any, window: Window, row: int, column: int, values: Any) -> None:
    """Add values to the view under one element of the window."""
    view = shifted(padded, window, row, column)
    view += values


def shifted_tile(padded: Any, window: Window, row: int, column: int, tile: Tile) -> Any:
    """Return the view of padded images under one element of the window at some positions.

    Args:
        padded: shape (channels, height, stride, width / stride, n): columns that are a stride apart follow one another.
        window: over them.
        row: of the element in the window.
        column: of the element in the window.
        tile: the positions.

    Returns:
        A view of shape (channels, *tile.size, n).
    """
    down, right = window.stride
    top, (left, phase) = row * window.dilation[0], divmod(column * window.dilation[1], right)
    return padded[
        :,
        top + tile.rows.start * down : top + (tile.rows.stop - 1) * down + 1 : down,
        phase,
        left + tile.columns.start : left + tile.columns.stop,
    ]


def sliding(padded: Any, window: Window) -> Any:
    """Return the view of padded images that holds the window at all its positions.

    Args:
        padded: contiguous, shape (channels, height, width, n).
        window: over them.

    Returns:
        A view of shape (channels, *window.kernel, *window.size, n).
    """
    if is_device_array(padded):
        return _sliding_by_numpy(padded, window)
    channel, row, column, image = padded.strides
    (step_down, step_right), (down, right) = window.dilation, window.stride
    shape = (len(padded), *window.kernel, *window.size, padded.shape[3])
    strides = (channel, row * step_down, column * step_right, row * down, column * right, image)
    if is_recorder(padded):
        return padded.part(shape, padded.dtype, 0, strides)
    # The same as np.lib.stride_tricks.as_strided, in a tenth of its time.
    return np.ndarray(shape, padded.dtype, padded, 0, strides)


def _sliding_by_numpy(padded: Any, window: Window) -> Any:
    """Return the same as `sliding`, for an array whose memory cannot be viewed by its strides."""
    reach = [(size - 1) * step + 1 for size, step in zip(window.kernel, window.dilation, strict=True)]
    (down, right), (step_down, step_right) = window.stride, window.dilation
    views = own_function(np.lib.stride_tricks.sliding_window_view, padded)(padded, reach, (1, 2))
    rows, columns = window.size
    return views[:, ::down, ::right, :, ::step_down, ::step_right][:, :rows, :columns].transpose(0, 4, 5, 1, 2, 3)


def with_height(x: Any) -> Any:
    """Return sequences, shape (..., length), as images with one row, shape (..., 1, length)."""
    shape = array_of(x).shape
    return np.reshape(x, (*shape[:-1], 1, shape[-1]))


def without_height(x: Any) -> Any:
    """Return images with one row as sequences."""
    shape = array_of(x).shape
    return np.reshape(x, (*shape[:-2], shape[-1]))
