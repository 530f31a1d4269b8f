"""Windows along one axis: their elements as a new axis, and the sums of what belongs to one element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...core.arrays.values import empty_like, zeros_like
from ...core.recording.primitive import derivative, primitive

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["count_windows", "sums_of_windows", "windows_along"]


def count_windows(length: int, kernel: int, step: int, dilation: int) -> int:
    """Return at how many positions a window lies within `length` elements; 0 or less if it fits nowhere."""
    return (length - dilation * (kernel - 1) - 1) // step + 1


def _places(axis: int, kernel: int, count: int, step: int, dilation: int) -> Iterator[tuple[Any, Any]]:
    """Yield for each element of a window its place among the windows, and the elements at all positions."""
    before = (slice(None),) * axis
    for number in range(kernel):
        first = number * dilation
        yield (*before, number), (*before, slice(first, first + (count - 1) * step + 1, step))


@primitive()
def windows_along_(x: Any, axis: int, kernel: int, step: int, dilation: int) -> Array:
    """Return the windows along an axis, which becomes two: the elements of a window, and its positions."""
    count = count_windows(x.shape[axis], kernel, step, dilation)
    result = empty_like(x, (*x.shape[:axis], kernel, count, *x.shape[axis + 1 :]))
    for place, elements in _places(axis, kernel, count, step, dilation):
        result[place] = x[elements]
    return result


@derivative(windows_along_, "x")
def _(g: Array, axis: int, x_shape: tuple[int, ...], step: int, dilation: int) -> Array:
    return _sums_over(x_shape, g, axis, step, dilation)


@primitive()
def sums_of_windows_(g: Any, axis: int, length: int, step: int, dilation: int) -> Array:
    """Return the gradient of that: `length` elements along an axis, each with the sum of what windows have there."""
    kernel, count = g.shape[axis], g.shape[axis + 1]
    result = zeros_like(g, (*g.shape[:axis], length, *g.shape[axis + 2 :]))
    for place, elements in _places(axis, kernel, count, step, dilation):
        result[elements] += g[place]
    return result


@derivative(sums_of_windows_, "g")
def _(h: Array, axis: int, g_shape: tuple[int, ...], step: int, dilation: int) -> Array:
    return _windows_like(g_shape, h, axis, step, dilation)


windows_along: Callable[..., Any] = windows_along_.call
sums_of_windows: Callable[..., Any] = sums_of_windows_.call


def _sums_over(shape: tuple[int, ...], g: Any, axis: int, step: int, dilation: int) -> Any:
    """Return the sums of windows for each element along an axis of an array of a shape."""
    return sums_of_windows(g, axis, shape[axis], step, dilation)


def _windows_like(shape: tuple[int, ...], x: Any, axis: int, step: int, dilation: int) -> Any:
    """Return windows of x along an axis with the number of elements, and of positions, of an array of a shape."""
    kernel, count = shape[axis], shape[axis + 1]
    # The sums may be of more elements than windows reach, so that there is place for another one.
    reach = (count - 1) * step + dilation * (kernel - 1) + 1
    if count_windows(x.shape[axis], kernel, step, dilation) > count:
        x = x[(*(slice(None),) * axis, slice(0, reach))]
    return windows_along(x, axis, shape[axis], step, dilation)
