"""Windows that slide over images: their geometry, and views of images through them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..graph.values import empty_beside, is_foreign, kernel_of, zeros_beside
from .arguments import array_of

__all__ = [
    "Window",
    "add_shifted",
    "by_kernel",
    "crop",
    "pad",
    "shifted",
    "sliding",
    "with_height",
    "without_height",
]


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
            ArgumentError: the window is larger than the padded image.
        """
        sizes = []
        paddings = []
        for axis in (0, 1):
            before, after = padding[axis]
            length, span = image[axis] + before + after, dilation[axis] * (kernel[axis] - 1) + 1
            if length < span:
                raise ArgumentError(
                    f"{function}: a kernel of {kernel} with dilation {dilation} does not fit into an image of {image} "
                    f"with padding {padding}"
                )
            count = (length - span) // stride[axis] + 1
            if ceil_mode and (length - span) % stride[axis] and count * stride[axis] < image[axis] + before:
                count += 1
            sizes.append(count)
            paddings.append((before, max(after, (count - 1) * stride[axis] + span - image[axis] - before)))
        return cls(kernel, stride, (paddings[0], paddings[1]), dilation, (sizes[0], sizes[1]))

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """The position in the window of each of its elements, row by row."""
        return [(row, column) for row in range(self.kernel[0]) for column in range(self.kernel[1])]


def by_kernel(name: str, array: Any, *arguments: Any) -> Any:
    """Return the result of the kernel that a device has under a name; None where it has none for these arguments."""
    kernel = kernel_of(name, array)
    return None if kernel is None else kernel(array, *arguments)


def pad(x: Any, padding: tuple[tuple[int, int], tuple[int, int]], value: Any = 0) -> Any:
    """Return an array padded with rows and columns of `value` in its last two axes, always contiguous."""
    (above, below), (left, right) = padding
    if not (above or below or left or right):
        return x if x.flags.c_contiguous else x.copy()
    height, width = x.shape[-2:]
    shape = (*x.shape[:-2], above + height + below, left + width + right)
    if value:
        padded = empty_beside(x, shape)
        padded.fill(value)
    else:
        padded = zeros_beside(shape, x)
    padded[..., above : above + height, left : left + width] = x
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


def sliding(padded: Any, window: Window) -> Any:
    """Return the view of padded images that holds the window at all its positions.

    Args:
        padded: contiguous, shape (n, channels, height, width).
        window: over them.

    Returns:
        A view of shape (n, channels, *window.kernel, *window.size).
    """
    n, channels = padded.shape[:2]
    if is_foreign(padded):
        return _sliding_by_numpy(padded, window)
    image, channel, row, column = padded.strides
    (step_down, step_right), (down, right) = window.dilation, window.stride
    # The same as np.lib.stride_tricks.as_strided, in a tenth of its time.
    return np.ndarray(
        (n, channels, *window.kernel, *window.size),
        padded.dtype,
        padded,
        0,
        (image, channel, row * step_down, column * step_right, row * down, column * right),
    )


def _sliding_by_numpy(padded: Any, window: Window) -> Any:
    """Return the same as `sliding`, for an array whose memory cannot be viewed by its strides."""
    reach = [(size - 1) * step + 1 for size, step in zip(window.kernel, window.dilation, strict=True)]
    (down, right), (step_down, step_right) = window.stride, window.dilation
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    rows, columns = window.size
    return views[:, :, ::down, ::right, ::step_down, ::step_right][:, :, :rows, :columns].transpose(0, 1, 4, 5, 2, 3)


def with_height(x: Any) -> Any:
    """Return sequences, shape (..., length), as images with one row, shape (..., 1, length)."""
    shape = array_of(x).shape
    return np.reshape(x, (*shape[:-1], 1, shape[-1]))


def without_height(x: Any) -> Any:
    """Return images with one row as sequences."""
    shape = array_of(x).shape
    return np.reshape(x, (*shape[:-2], shape[-1]))
