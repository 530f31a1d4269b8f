"""Depthwise convolution of images whose rows follow one another in memory: a product and a sum for each weight.

Channels are copied, a few at a time, into planes: rows with zeros after them, and rows of zeros after those. What a
weight multiplies is then the planes from another element on, one after the other: the zeros after a row are those
before the next, and NumPy's loops are as long as all planes, however small the images are. With a stride, the elements
that are a stride apart have planes of their own. What is computed at the zeros is no result, and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

if TYPE_CHECKING:
    from .windows import Window


__all__ = ["depthwise", "depthwise_input_grad", "depthwise_weight_grad", "has_planes"]

#: The elements of planes to compute at a time, so that operands and sums are still in the second-level cache.
ELEMENTS = 1 << 15
#: Of so many images, each weight is first repeated for all elements of a plane, which each of the images then uses.
REPEATED = 4
#: The only phase of a stride of 1.
_WHOLE = (0, 0)

Block = tuple[slice, slice]


class _Weight(NamedTuple):
    """A weight of a filter, and which element of which plane it multiplies."""

    row: int
    column: int
    phase: tuple[int, int]
    #: From an element of a result to the one that is multiplied.
    shift: int


class _Grid(NamedTuple):
    """The rows and columns of planes that images and results share, with the zeros after them."""

    rows: int
    columns: int
    #: By the phases of a stride.
    weights: dict[tuple[int, int], list[_Weight]]
    #: Elements before the first plane and after the last.
    margin: int

    @property
    def plane(self) -> int:
        """The number of elements of a plane."""
        return self.rows * self.columns


@lru_cache(maxsize=256)
def _grid(window: Window, height: int, width: int) -> _Grid:
    """Return the grid for images of that height and width."""
    lengths, steps = [], []
    for axis, image in enumerate((height, width)):
        stride, before = window.stride[axis], window.padding[axis][0]
        found = [divmod(nr * window.dilation[axis] - before, stride) for nr in range(window.kernel[axis])]
        first, last = min(0, found[0][0]), max(0, found[-1][0])
        lengths.append(max(-(-image // stride) - first, window.size[axis] + last))
        steps.append(found)
    weights: dict[tuple[int, int], list[_Weight]] = {}
    for row, column in window.offsets:
        (down, above), (right, left) = steps[0][row], steps[1][column]
        one = _Weight(row, column, (above, left), down * lengths[1] + right)
        weights.setdefault(one.phase, []).append(one)
    margin = max(abs(one.shift) for some in weights.values() for one in some)
    return _Grid(lengths[0], lengths[1], weights, margin)


def has_planes(x: Any, other: Any, window: Window, groups: int, filters: tuple[int, ...] | None = None) -> bool:
    """Tell whether a convolution is to be computed in planes.

    It has a stride, and a filter for each channel of images whose rows follow one another, or which are one number in
    many places, as the gradient of a sum, and are copied. Without a stride, there is no order to pay for, and products
    of matrices take less time.

    Args:
        x: the images, or gradients of results.
        other: the filters, or the gradients of results.
        window: over the images.
        groups: the number of groups of channels and filters.
        filters: their shape; None if they are `other`.
    """
    shape = other.shape if filters is None else filters
    return (
        window.stride != (1, 1)
        and groups == shape[0] == x.shape[1]
        and shape[1] == 1
        and x.__class__ is other.__class__ is np.ndarray
        and x.dtype == other.dtype
        and x.dtype.char in "fd"
        and (x.flags.c_contiguous or 0 in x.strides)
        and x.size > 0
    )


def _blocks(n: int, channels: int, plane: int) -> Iterator[Block]:
    """Yield some images and channels whose planes are computed at a time, channel after channel."""
    planes = max(1, ELEMENTS // plane)
    each = min(channels, max(1, planes // min(n, 2 * REPEATED)))
    images = min(n, max(1, planes // each))
    for channel in range(0, channels, each):
        for image in range(0, n, images):
            yield slice(image, min(n, image + images)), slice(channel, min(channels, channel + each))


def _largest(n: int, channels: int, grid: _Grid) -> int:
    """Return the number of elements of the largest block."""
    images, some = next(_blocks(n, channels, grid.plane))
    return (images.stop - images.start) * (some.stop - some.start) * grid.plane


def _copy_rows(target: Any, source: Any) -> None:
    """Copy rows: each as one element, since NumPy's loops over few numbers take longer for their starts."""
    row = np.dtype((np.void, source.shape[-1] * source.itemsize))
    target.view(row)[...] = source.view(row)


@final
class _Planes:
    """Memory for the planes of a block, by the phases of a stride."""

    __slots__ = ("grid", "memory", "shape", "stride")

    def __init__(
        self, grid: _Grid, phases: Iterable[tuple[int, int]], stride: tuple[int, int], largest: int, dtype: Any
    ) -> None:
        # What is not written stays zero, whatever block is next.
        self.memory = {phase: np.zeros(largest + 2 * grid.margin, dtype) for phase in phases}
        self.grid, self.stride = grid, stride
        #: Images, channels and elements of a plane, of the block that it was filled with last.
        self.shape: tuple[int, int, int] = (0, 0, grid.plane)

    def fill(self, images: Any) -> None:
        """Copy the images of a block."""
        grid, (down, right) = self.grid, self.stride
        self.shape = (*images.shape[:2], grid.plane)
        columns: dict[int, Any] = {0: images} if right == 1 else {}
        for above, left in self.memory:
            if left not in columns:
                columns[left] = images[..., left::right].copy()
            rows = columns[left][:, :, above::down]
            planes = self.moved((above, left), 0).reshape(*images.shape[:2], grid.rows, grid.columns)
            if rows.size:
                _copy_rows(planes[:, :, : rows.shape[2], : rows.shape[3]], rows)

    def moved(self, phase: tuple[int, int], shift: int) -> Any:
        """Return what is so many elements after each one of a block, as an array of its shape."""
        start, (images, channels, plane) = self.grid.margin + shift, self.shape
        return self.memory[phase][start : start + images * channels * plane].reshape(self.shape)


def _planes_of_results(grid: _Grid, largest: int, dtype: Any) -> _Planes:
    """Return memory for results or their gradients, whose elements are next to one another."""
    return _Planes(grid, [_WHOLE], (1, 1), largest, dtype)


@final
class _Sums:
    """Memory for sums of planes times the weights of their channels, a block at a time."""

    __slots__ = ("_channels", "_factors", "_product", "_repeats", "_total", "_weight")

    def __init__(self, weight: Any, n: int, largest: int, dtype: Any) -> None:
        self._total, self._product = np.empty((2, largest), dtype)
        self._weight, self._repeats = weight, n >= REPEATED
        self._channels: slice | None = None
        self._factors: Any = None

    def of(self, terms: Iterable[tuple[_Weight, Any]], channels: slice, shape: tuple[int, int, int]) -> Any:
        """Return the sum of planes times their weights, which holds until the next one.

        Args:
            terms: the weights, and the planes that they multiply; not empty.
            channels: those of the planes.
            shape: images, channels and elements of a plane.
        """
        if self._channels != channels:
            self._channels, factors = channels, self._weight[channels, 0].transpose(1, 2, 0)[..., None]
            self._factors = np.repeat(factors, shape[2], axis=3) if self._repeats else factors
        count = shape[0] * shape[1] * shape[2]
        total, product = self._total[:count].reshape(shape), self._product[:count].reshape(shape)
        for nr, (one, planes) in enumerate(terms):
            np.multiply(planes, self._factors[one.row, one.column], out=product if nr else total)
            if nr:
                total += product
        return total


def depthwise(x: Any, weight: Any, window: Window) -> Any:
    """Return the filters' products with the windows over x, shape (n, channels, *window.size)."""
    n, channels, height, width = x.shape
    x = np.ascontiguousarray(x)
    grid = _grid(window, height, width)
    result = np.empty((n, channels, *window.size), x.dtype)
    largest = _largest(n, channels, grid)
    planes, sums = _Planes(grid, grid.weights, window.stride, largest, x.dtype), _Sums(weight, n, largest, x.dtype)
    weights = [one for each in grid.weights.values() for one in each]
    for images, some in _blocks(n, channels, grid.plane):
        planes.fill(x[images, some])
        total = sums.of(((one, planes.moved(one.phase, one.shift)) for one in weights), some, planes.shape)
        rows = total.reshape(*planes.shape[:2], grid.rows, grid.columns)
        _copy_rows(result[images, some], rows[:, :, : window.size[0], : window.size[1]])
    return result


def depthwise_input_grad(g: Any, weight: Any, shape: tuple[int, ...], window: Window) -> Any:
    """Return the gradient for images of that shape; the filters must be finite, as they multiply zeros too."""
    n, channels, height, width = shape
    g = np.ascontiguousarray(g)
    grid, (down, right) = _grid(window, height, width), window.stride
    complete = len(grid.weights) == down * right
    result = (np.empty if complete else np.zeros)(shape, g.dtype)
    largest = _largest(n, channels, grid)
    grads, sums = _planes_of_results(grid, largest, g.dtype), _Sums(weight, n, largest, g.dtype)
    # The columns of a stride, side by side; those that no weight multiplies stay zero.
    beside = np.zeros((largest, right), g.dtype)
    for images, some in _blocks(n, channels, grid.plane):
        grads.fill(g[images, some])
        block = beside[: math.prod(grads.shape)].reshape(*grads.shape, right)
        rows = block.reshape(*grads.shape[:2], grid.rows, grid.columns * right)
        for above in range(min(down, height)):
            written = [phase for phase in grid.weights if phase[0] == above]
            for phase in written:
                terms = ((one, grads.moved(_WHOLE, -one.shift)) for one in grid.weights[phase])
                block[..., phase[1]] = sums.of(terms, some, grads.shape)
            if written:
                target = result[images, some, above::down]
                _copy_rows(target, rows[:, :, : target.shape[2], :width])
    return result


def depthwise_weight_grad(g: Any, x: Any, shape: tuple[int, ...], window: Window) -> Any:
    """Return the gradient for filters of that shape; of images that are not finite it may be NaN where it is not."""
    n, channels, height, width = x.shape
    x, g = np.ascontiguousarray(x), np.ascontiguousarray(g)
    grid = _grid(window, height, width)
    largest = _largest(n, channels, grid)
    planes = _Planes(grid, grid.weights, window.stride, largest, x.dtype)
    grads = _planes_of_results(grid, largest, x.dtype)
    result = np.zeros(shape, x.dtype)
    for images, some in _blocks(n, channels, grid.plane):
        planes.fill(x[images, some])
        grads.fill(g[images, some])
        factor = grads.moved(_WHOLE, 0)
        for phase, each in grid.weights.items():
            for one in each:
                # An infinite element is multiplied by zeros beside it, too, which is no matter for a warning.
                with np.errstate(invalid="ignore"):
                    dots = np.vecdot(factor, planes.moved(phase, one.shift))
                result[some, 0, one.row, one.column] += np.add.reduce(dots, axis=0)
    return result
