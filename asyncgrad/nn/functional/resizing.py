"""Padding, and images of another size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ...core.arrays.values import as_like, empty_like, zeros_like
from ...core.ops.single_precision import arrays_in_single
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import number, truth, whole_number
from ...errors import ArgumentError
from ..shared.arguments import (
    array_of,
    check_arrays,
    floating,
    instead_of_array,
    is_array,
    is_length,
    operand,
    option,
)
from ..shared.rows import product_along
from .pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, means_of_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.arrays.array import Array
    from ...core.arrays.array_like import Lengths
    from ...core.tensor import Tensor


__all__ = ["interpolate", "pad"]

#: The modes of `pad`.
_MODES = ("constant", "reflect", "replicate", "circular")


@primitive()
def taken_along_(x: Array, indices: Any, axis: int) -> Array:
    """Return the elements of x at the indices along an axis, an array on the host."""
    if times := _times(indices, x.shape[axis]):
        result = empty_like(x, (*x.shape[:axis], len(indices), *x.shape[axis + 1 :]))
        for offset in range(times):
            result[(*(slice(None),) * axis, slice(offset, None, times))] = x
        return result
    return np.take(x, as_like(indices, x), axis=axis)


@derivative(taken_along_, "x")
def _(g: Array, x_shape: tuple[int, ...], indices: Any, axis: int) -> Array:
    return added_along(g, indices, axis, x_shape[axis])


@primitive()
def added_along_(g: Any, indices: Any, axis: int, length: int) -> Array:
    """Return zeros, `length` along an axis, with each element of g added at its index."""
    result = zeros_like(g, (*g.shape[:axis], length, *g.shape[axis + 1 :]))
    before = (slice(None),) * axis
    if times := _times(indices, length):
        for offset in range(times):
            result += g[(*before, slice(offset, None, times))]
        return result
    if g.__class__ is np.ndarray and indices.size and (indices[1:] >= indices[:-1]).all():
        places, starts = np.unique(indices, return_index=True)
        result[(*before, places)] = np.add.reduceat(g, starts, axis=axis)
        return result
    for first, last, step in _runs(indices):
        where = int(indices[first])
        end = where + step * (last - first)
        target = slice(where, None if end < 0 else end, step)
        result[(*before, target)] += g[(*before, slice(first, last))]
    return result


@derivative(added_along_, "g")
def _(h: Array, indices: Any, axis: int) -> Array:
    return taken_along(h, indices, axis)


taken_along: Callable[..., Any] = taken_along_.call
added_along: Callable[..., Any] = added_along_.call


def _times(indices: Any, length: int) -> int:
    """Return how many times each of `length` indices is repeated, if it is the same number for all; else 0."""
    times = len(indices) // length if length else 0
    return times if times and np.array_equal(indices, np.repeat(np.arange(length), times)) else 0


def _runs(indices: Any) -> list[tuple[int, int, int]]:
    """Return where runs of consecutive indices begin and end, and the step of each, 1 or -1."""
    steps = np.diff(indices)
    runs: list[tuple[int, int, int]] = []
    first = 0
    while first < len(indices):
        step = int(steps[first]) if first < len(steps) and abs(steps[first]) == 1 else 1
        last = first + 1
        while last < len(indices) and steps[last - 1] == step:
            last += 1
        runs.append((first, last, step))
        first = last
    return runs


def pad(
    x: Tensor | np.ndarray, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor | np.ndarray:
    """Return x with elements added around its last axes, or cut off.

    Args:
        x: any shape.
        pad: for the last axis, then the one before it and so on, how many elements to add before and after; negative
            numbers cut elements off.
        mode: "constant", "reflect" (without the edge), "replicate" (the edge), or "circular".
        value: the constant; None for 0.

    Raises:
        ArgumentError: the numbers or options do not fit; the message names them.

    Source: torch.nn.functional.pad.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.pad(np.array([1.0, 2.0, 3.0]), (1, 2), mode="reflect")
        array([2., 1., 2., 3., 2., 1.])
    """
    check_arrays("pad", x=x)
    x = operand(x)
    shape = array_of(x).shape
    widths = _widths(shape, pad, mode)
    constant = 0 if value is None else option("pad", "value", value)
    if mode != "constant" and not (isinstance(constant, (int, float)) and constant == 0):
        raise ArgumentError(f"nn.pad with mode={mode!r} takes no value, and got {value!r}")
    if mode in ("reflect", "replicate"):
        for axis, (before, after) in enumerate(widths):
            if before or after:
                x = taken_along(x, _places(shape[axis], before, after, mode), axis)
        return x
    if any(number < 0 for both in widths for number in both):
        # What is cut off on one side does not come again on the other.
        kept = tuple(
            slice(max(0, -before), length - max(0, -after))
            for (before, after), length in zip(widths, shape, strict=True)
        )
        x, widths = x[kept], [(max(0, before), max(0, after)) for before, after in widths]
    if not any(number for both in widths for number in both):
        return x
    if mode == "constant":
        return np.pad(x, widths, constant_values=constant)
    for axis, both in enumerate(widths):
        if any(both):
            x = taken_along(x, np.pad(np.arange(array_of(x).shape[axis]), both, mode="wrap"), axis)
    return x


def _places(length: int, before: int, after: int, mode: str) -> Any:
    """Return the index of each element of a padded axis among those of the axis.

    What is cut off on one side may come again on the other, as in PyTorch.
    """
    places = np.arange(-before, length + after)
    if mode == "replicate":
        return np.clip(places, 0, length - 1)
    places = np.abs(places)
    return np.where(places < length, places, 2 * (length - 1) - places)


def _widths(shape: tuple[int, ...], pad: Any, mode: str) -> list[tuple[int, int]]:
    """Return how many elements to add before and after each axis."""
    if mode not in _MODES:
        raise ArgumentError(f"nn.pad: mode must be one of {', '.join(_MODES)}, not {mode!r}")
    numbers = list(pad) if isinstance(pad, Iterable) and not is_array(pad) else [pad]
    if len(numbers) % 2 or len(numbers) > 2 * len(shape) or not all(is_length(n, -math.inf) for n in numbers):
        raise ArgumentError(
            f"nn.pad takes two ints for each padded axis, the last axis first, not {pad!r} for x of shape {shape}"
            f"{instead_of_array('pad', pad)}"
        )
    pairs = [(int(before), int(after)) for before, after in zip(numbers[::2], numbers[1::2], strict=True)]
    widths = [(0, 0)] * (len(shape) - len(pairs)) + pairs[::-1]
    for (before, after), length in zip(widths, shape, strict=True):
        if not before and not after:
            continue
        is_indexed = mode in ("reflect", "replicate")
        cut = before + after if is_indexed else min(before, 0) + min(after, 0)
        most = {"reflect": length - 1, "circular": length + cut}.get(mode, math.inf)
        if max(before, after) > most or cut < -length:
            raise ArgumentError(
                f"nn.pad with mode={mode!r} cannot add {(before, after)} to an axis of {length} elements"
            )
        if mode in ("reflect", "replicate") and not length and max(before, after) > 0:
            raise ArgumentError(f"nn.pad with mode={mode!r} needs an element to repeat: an axis of x has none")
    return widths


#: The modes of `interpolate`, with the number of axes of their images; None for any number.
_INTERPOLATIONS = {
    "nearest": None,
    "nearest-exact": None,
    "area": None,
    "linear": 1,
    "bilinear": 2,
    "bicubic": 2,
    "trilinear": 3,
}


def interpolate(
    x: Tensor | np.ndarray,
    size: Lengths | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor | np.ndarray:
    """Return images of another size, with the nearest elements or interpolated ones.

    Args:
        x: shape `(n, channels, ...)`, with one axis or more for each image.
        size: of the result, an int for all axes or one for each; None for that of x times `scale_factor`.
        scale_factor: a number for all axes or one for each; not together with `size`.
        mode: "nearest", "nearest-exact", "area" (the means of windows, as in adaptive_avg_pool2d), linear
            interpolation ("linear", "bilinear" and "trilinear" for images with one, two and three axes), or "bicubic".
        align_corners: in linear and cubic interpolation, let the first and the last elements stay where they are,
            rather than the borders around them.
        recompute_scale_factor: take the distance of new elements from the sizes, rather than from `scale_factor`, of
            which it may differ by rounding; only with `scale_factor`.
        antialias: where an image becomes smaller, widen the window of each new element by as much, so that all old
            ones count; only in the modes "bilinear" and "bicubic".

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        ArgumentTypeError: a size is no int.

    Source: torch.nn.functional.interpolate.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.interpolate(np.array([[[0.0, 3.0]]]), size=4, mode="linear", align_corners=True)
        array([[[0., 1., 2., 3.]]])
    """
    check_arrays("interpolate", x=x)
    x = operand(x)
    shape = array_of(x).shape
    _check_images(shape, mode, align_corners)
    least = 0 if mode == "area" else 1
    sizes, factors = _new_sizes(shape[2:], size, scale_factor, recompute_scale_factor, least)
    if truth(antialias, "antialias") and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"nn.interpolate with mode={mode!r} takes no antialias")
    if mode == "area":
        return _areas(x, sizes)
    if mode in ("nearest", "nearest-exact"):
        for axis, (new, factor) in enumerate(zip(sizes, factors, strict=True), 2):
            # Of images, twice as many elements are each twice, whatever the scale factor is, as in PyTorch.
            is_plain = len(sizes) == 2 and new in (shape[axis], 2 * shape[axis])
            ratio = shape[axis] / new if is_plain else factor
            x = taken_along(x, _nearest(shape[axis], new, ratio, mode), axis)
        return x
    is_aligned = align_corners is not None and truth(align_corners, "align_corners")
    return _weighted(x, sizes, factors, _CURVES[mode], is_aligned, antialias)


def _check_images(shape: tuple[int, ...], mode: str, align_corners: Any) -> None:
    if mode not in _INTERPOLATIONS:
        raise ArgumentError(f"nn.interpolate: mode must be one of {', '.join(_INTERPOLATIONS)}, not {mode!r}")
    wanted, axes = _INTERPOLATIONS[mode], len(shape) - 2
    if axes < 1 or not all(shape[2 if mode == "area" else 1 :]) or (wanted is not None and axes != wanted):
        expected = {None: "...", 1: "length", 2: "height, width", 3: "depth, height, width"}[wanted]
        raise ArgumentError(
            f"nn.interpolate with mode={mode!r} takes x of shape (n, channels, {expected}), not {shape}"
        )
    if align_corners is not None and wanted is None:
        raise ArgumentError(f"nn.interpolate with mode={mode!r} takes no align_corners")


def _new_sizes(
    shape: tuple[int, ...], size: Any, scale_factor: Any, is_recomputed: Any, least: int
) -> tuple[list[int], list[float]]:
    """Return the new size of each axis, at least `least`, and how many old elements there are for a new one."""
    if (size is None) == (scale_factor is None):
        raise ArgumentError("nn.interpolate takes one of size and scale_factor")
    is_recomputed = is_recomputed is not None and truth(is_recomputed, "recompute_scale_factor")
    given = size if scale_factor is None else scale_factor
    each = list(given) if isinstance(given, (tuple, list)) else [given] * len(shape)
    if len(each) != len(shape):
        raise ArgumentError(f"nn.interpolate needs a number for each axis of images of shape {shape}, not {given!r}")
    if scale_factor is None:
        if is_recomputed:
            raise ArgumentError("nn.interpolate with a size has no scale factor for recompute_scale_factor=True")
        sizes = [whole_number(one, "size") for one in each]
    else:
        each = [number(one, "scale_factor") for one in each]
        if not all(math.isfinite(old * one) for old, one in zip(shape, each, strict=True)):
            raise ArgumentError(f"nn.interpolate cannot make images of shape {shape} larger by scale_factor={given!r}")
        sizes = [math.floor(old * one) for old, one in zip(shape, each, strict=True)]
    if min(sizes) < least:
        raise ArgumentError(f"nn.interpolate cannot make images of shape {tuple(sizes)} of images of shape {shape}")
    if scale_factor is None or is_recomputed:
        return sizes, [old / max(new, 1) for old, new in zip(shape, sizes, strict=True)]
    return sizes, [1 / one if one else 1.0 for one in each]


@arrays_in_single
def _areas(x: Any, sizes: Sequence[int]) -> Any:
    """Return the means of windows; those over two axes of one size, and of all of an image, are taken at once."""
    if len(sizes) < 3:
        return adaptive_avg_pool1d(x, sizes) if len(sizes) == 1 else adaptive_avg_pool2d(x, sizes)
    for axis, size in enumerate(sizes, 2):
        x = means_of_windows(x, size, axis)
    return x


def _nearest(old: int, new: int, factor: float, mode: str) -> Any:
    """Return the index of the old element that is nearest to each new one."""
    shift = 0.5 if mode == "nearest-exact" else 0.0
    found = np.floor((np.arange(new, dtype=np.float32) + np.float32(shift)) * np.float32(factor))
    return np.minimum(found.astype(np.int64), old - 1)


# Interpolation by weights: a new element is the sum of a few old ones, each times its weight. By a matrix of all
# weights an infinite element would make NaN of each new one, so the product with it is taken where it is finite.


@final
class _Curve(NamedTuple):
    """The weights of old elements, by their distance from a new one."""

    weight: Callable[[Any], Any]
    #: The distance from which on they are 0.
    reach: int


def _hat(distance: Any) -> Any:
    return np.maximum(1 - np.abs(distance), 0)


def _cubic(distance: Any, a: float) -> Any:
    """Return the weights of cubic convolution (R. Keys, 1981), whose slope at a distance of 1 is a."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d < 1, near, np.where(d < 2, far, 0.0))


_LINEAR = _Curve(_hat, 1)
_CURVES = {
    "linear": _LINEAR,
    "bilinear": _LINEAR,
    "trilinear": _LINEAR,
    "bicubic": _Curve(partial(_cubic, a=-0.75), 2),
}
#: PyTorch's, and Pillow's, where old elements are smoothed.
_SMOOTH_CUBIC = _Curve(partial(_cubic, a=-0.5), 2)


@arrays_in_single
def _weighted(
    x: Any, sizes: Sequence[int], factors: Sequence[float], curve: _Curve, is_aligned: bool, antialias: bool
) -> Any:
    """Return images interpolated along one axis after the other."""
    for axis, (new, ratio) in enumerate(zip(sizes, factors, strict=True), 2):
        old = array_of(x).shape[axis]
        factor = ratio if not is_aligned else (old - 1) / (new - 1) if new > 1 else 0.0
        if new == old and (antialias or curve.reach == 1):
            # Whatever the scale factor is, as in PyTorch.
            continue
        if antialias:
            found = _smooth_weights(old, new, factor, _SMOOTH_CUBIC if curve.reach == 2 else curve)
        else:
            found = _weights(old, new, factor, curve, is_aligned)
        x = mixed_along(x, found, axis)
    return x


@final
class _Mixture(NamedTuple):
    """Which old elements a new one is made of, and how much of each."""

    #: Shape (elements, new).
    places: Any
    weights: Any
    #: The weights of all old elements, shape (new, old).
    matrix: Any

    @classmethod
    def of(cls, places: Any, weights: Any, old: int) -> _Mixture:
        """Return the mixture of `old` elements."""
        matrix = np.zeros((places.shape[1], old))
        np.add.at(matrix, (np.arange(places.shape[1]), places), weights)
        return cls(places, weights, matrix)

    def factors(self, like: Array, axis: int) -> list[Any]:
        """Return the weights as arrays beside an array along an axis of it."""
        after = (1,) * (like.ndim - 1 - axis)
        return [as_like(weight.astype(like.dtype).reshape(-1, *after), like) for weight in self.weights]


@primitive()
def mixed_along_(x: Any, mixture: _Mixture, axis: int) -> Array:
    """Return sums of elements along an axis, each times its weight."""
    x = floating(x)
    if (result := product_along(x, mixture.matrix, axis)) is not None:
        return result
    factors = mixture.factors(x, axis)
    parts = [taken_along_.function(x, place, axis) for place in mixture.places]
    total = parts[0] * factors[0]
    for part, factor in zip(parts[1:], factors[1:], strict=True):
        total += part * factor
    return total


@derivative(mixed_along_, "x")
def _(g: Array, x_shape: tuple[int, ...], mixture: _Mixture, axis: int) -> Array:
    return shared_along(g, mixture, axis, x_shape[axis])


@primitive()
def shared_along_(g: Any, mixture: _Mixture, axis: int, length: int) -> Array:
    """Return the gradient of that: each element of g times the weights, added where the old elements are."""
    if (result := product_along(g, mixture.matrix.T, axis)) is not None:
        return result
    total: Any = None
    for place, factor in zip(mixture.places, mixture.factors(g, axis), strict=True):
        part = added_along_.function(g * factor, place, axis, length)
        total = part if total is None else total + part
    return total


@derivative(shared_along_, "g")
def _(h: Array, mixture: _Mixture, axis: int) -> Array:
    return mixed_along(h, mixture, axis)


mixed_along: Callable[..., Any] = mixed_along_.call
shared_along: Callable[..., Any] = shared_along_.call


@lru_cache(maxsize=64)
def _weights(old: int, new: int, factor: float, curve: _Curve, is_aligned: bool) -> _Mixture:
    """Return the old elements of each new one, with their weights."""
    at = np.arange(new) * factor if is_aligned else (np.arange(new) + 0.5) * factor - 0.5
    if curve.reach == 1:
        at = np.maximum(at, 0)
    first = np.floor(at)
    if curve.reach == 1:
        first = np.minimum(first, old - 1)
    share = np.clip(at - first, 0, 1)
    steps = np.arange(1 - curve.reach, curve.reach + 1)[:, np.newaxis]
    places = np.clip(first.astype(np.int64) + steps, 0, old - 1)
    return _Mixture.of(places, curve.weight(share - steps), old)


@lru_cache(maxsize=64)
def _smooth_weights(old: int, new: int, factor: float, curve: _Curve) -> _Mixture:
    """Return the same for windows that are as much wider as the new elements are."""
    width = max(factor, 1.0)
    reach = curve.reach * width
    center = factor * (np.arange(new) + 0.5)
    first = np.maximum((center - reach + 0.5).astype(np.int64), 0)
    counts = np.minimum((center + reach + 0.5).astype(np.int64), old) - first
    # A window of fewer elements than others has its last one several times, each with its part of the weight.
    steps = np.arange(counts.max())[:, np.newaxis]
    places = first + np.minimum(steps, counts - 1)
    weights = curve.weight((places - center + 0.5) / width)
    weights = weights / np.where(steps < counts - 1, 1, counts.max() - counts + 1)
    return _Mixture.of(places, weights / weights.sum(axis=0), old)
