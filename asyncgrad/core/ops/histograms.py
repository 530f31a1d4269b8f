"""Histograms: sums of the weights of the elements of each bin.

They are linear in the weights, and constant in the elements between the steps at which one moves to another bin. The
edges of a number of bins lie evenly from the smallest element to the largest, or over a given range, and move with
these; given edges are themselves. An automatic choice of bins uses all elements for their number alone, which is
constant. A density divides by the widths of the bins, so that it moves with the edges too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentError
from ..arrays.axes import arrays_together
from ..arrays.device_arrays import add_at, as_dtype
from ..arrays.tensor_base import TensorBase
from ..arrays.values import as_like, is_device_array, raw, zeros_like
from ..recording.primitive import RULES, derivative, primitive
from ..settings.context import GRAD_MODE
from .nondifferentiable import NonDifferentiable
from .reductions import max, min

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


@primitive()
def weigh_(weights: Any, places: Any, sums: Any) -> Any:
    """Return the sums of the weights, which NumPy has found.

    Args:
        weights: one for each element, `(n,)`.
        places: in which bin of the flattened histogram each element is, `(n,)`; -1 for one outside of all.
        sums: the histogram.
    """
    return sums


@derivative(weigh_, "weights")
def _(g: Array, places: Any) -> Array:
    if not g.size:
        return np.zeros_like(g, shape=places.shape)
    return np.where(places >= 0, np.take(np.reshape(g, -1), np.maximum(places, 0)), 0)


@primitive()
def even_edges_(first: Any, last: Any, edges: Any) -> Any:
    """Return the edges of bins of one width from `first` to `last`, which NumPy has found."""
    return edges


def _shares(edges: Any) -> Any:
    """Return which part of the way from the first edge to the last one each edge has come."""
    return as_like(np.linspace(0, 1, len(edges)).astype(raw(edges).real.dtype), raw(edges))


@derivative(even_edges_, "first")
def _(g: Any) -> Array:
    return np.sum(g * (1 - _shares(g)))


@derivative(even_edges_, "last")
def _(g: Any) -> Array:
    return np.sum(g * _shares(g))


def _is_recorded(value: Any) -> bool:
    return isinstance(value, TensorBase) and value._requires_grad() and bool(GRAD_MODE.get())


def _with_history(edges: Any, column: Array, bins: Any, range: Any) -> Any:
    """Return the edges along an axis, recorded where what they are made of is.

    Args:
        edges: NumPy's, a plain tensor.
        column: the elements along the axis.
        bins: the number of bins, the name of a choice, or the edges.
        range: the first and the last edge; None for the extremes of the elements.
    """
    if isinstance(bins, (list, tuple)) and any(map(_is_recorded, bins)):
        bins = np.stack(arrays_together(bins))
    if _is_recorded(bins) and bins.ndim:
        return bins
    if np.ndim(raw(bins)) or not any(map(_is_recorded, [column] if range is None else range)):
        return edges
    if range is None and not math.prod(column.shape):
        return edges
    first, last = (min(column), max(column)) if range is None else range
    return even_edges_.call(first, last, raw(edges))


def _places(columns: Sequence[Any], edges: Sequence[Any]) -> Any:
    """Return in which bin of the flattened histogram each element is, as NumPy puts it; -1 for one outside of all."""
    places: Any = 0
    inside: Any = True
    for column, edge in zip(columns, edges, strict=True):
        last = len(edge) - 2
        # The last bin includes its right edge; a nan is outside of all.
        place = np.minimum(np.searchsorted(edge, column, "right") - 1, last)
        inside = inside & (column >= edge[0]) & (column <= edge[-1])
        places = places * (last + 1) + place
    return np.where(inside, places, -1)


def _sums(places: Any, weights: Array, counts: Array) -> Any:
    """Return the histogram of weights at places; `counts` is that without weights.

    Raises:
        ArgumentError: there is not one weight for each place.
        ArgumentTypeError: the weights are complex, and the counts are not ints, as those of several axes.
    """
    if weights.shape != places.shape:
        raise ArgumentError(f"a histogram needs a weight for each element: {weights.size} for {places.size}")
    # NumPy gives the dtype of the weights where it counts by ints, and float64 elsewhere.
    dtype = weights.dtype if counts.dtype.kind == "i" else np.dtype(float)
    given = as_dtype(weights, np.result_type(dtype, float), "safe", copy=False)
    # What is outside of all bins goes to one more.
    sums = zeros_like(given, (counts.size + 1,))
    add_at(sums, np.where(places < 0, counts.size, places), given, is_zero=True)
    return np.reshape(sums[:-1], counts.shape).astype(dtype, copy=False)


def _found(
    plain: Callable[..., Any],
    columns: Sequence[Any],
    bins: Sequence[Any],
    ranges: Sequence[Any],
    args: tuple[Any, ...],
    density: Any,
    weights: Any,
) -> tuple[Any, list[Any]]:
    """Return a histogram, and the edges along each of its axes.

    Args:
        plain: NumPy's function, without a derivative, with a list of edges.
        columns: the elements along each axis.
        bins: the bins along each axis.
        ranges: the range along each axis, or None.
        args: the elements, the bins and the range as `plain` takes them.
        density: whether to divide by the sum of the weights and the size of each bin.
        weights: one for each element.
    """
    weighed = isinstance(weights, TensorBase)
    array = raw(weights)
    # Another library may add floats in any order, and counts exactly.
    is_summed_here = (
        weighed and array.__class__ is not np.ndarray and is_device_array(array) and array.dtype.kind in "fc"
    )
    result, plain_edges = plain(*args, None, None if is_summed_here else weights.detach() if weighed else weights)
    given = zip(plain_edges, columns, bins, ranges, strict=True)
    edges = [_with_history(edge, *of_axis) for edge, *of_axis in given]
    if weighed:
        bare = [raw(edge) for edge in plain_edges]
        places = _places([np.reshape(raw(column), -1) for column in columns], bare)
        found = _sums(places, np.reshape(array, -1), raw(result)) if is_summed_here else raw(result)
        result = weigh_.call(np.reshape(weights, -1), places, found)
    if not density:
        return result, edges
    total = np.sum(result)
    for axis, edge in enumerate(edges):
        widths = np.diff(edge)
        # Along one axis NumPy takes real widths, with a warning for complex edges.
        widths = widths.astype(float) if plain is _plain else widths
        result = result / np.reshape(widths, (-1, *(1,) * (len(edges) - 1 - axis)))
    return result / total, edges


_histogram = NonDifferentiable(np.histogram)
_histogram2d = NonDifferentiable(np.histogram2d)
_histogramdd = NonDifferentiable(np.histogramdd)
_histogram_bin_edges = NonDifferentiable(np.histogram_bin_edges)


def _plain(*args: Any) -> tuple[Any, list[Any]]:
    counts, edges = _histogram(*args)
    return counts, [edges]


def _plain2d(*args: Any) -> tuple[Any, list[Any]]:
    counts, *edges = _histogram2d(*args)
    return counts, edges


def _length(bins: Any) -> int | None:
    """Return how many bins or edges are given; None for a number."""
    return len(bins) if isinstance(bins, (list, tuple)) or np.ndim(raw(bins)) else None


def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Return how many elements are in each bin, or the sum of their weights, and the edges of the bins."""
    result, edges = _found(_plain, [a], [bins], [range], (a, bins, range), density, weights)
    return result, edges[0]


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Return the edges of the bins of a histogram."""
    if is_device_array(raw(a)):
        # CuPy has no function for the edges alone.
        return histogram(a, bins, range)[1]
    edges = _histogram_bin_edges(a, bins, range, raw(weights))
    return _with_history(edges, a, bins, range)


def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Return the histogram of points, which are rows, or the columns of a list, and the edges along each axis."""
    # NumPy tells a list of columns from an array of rows, as it does here.
    shaped = hasattr(sample, "shape")
    columns = list(np.transpose(sample if sample.ndim > 1 else np.atleast_2d(sample).T) if shaped else sample)
    each = [bins] * len(columns) if _length(bins) is None else list(bins)
    ranges = [None] * len(columns) if range is None else list(range)
    return _found(_histogramdd, columns, each, ranges, (sample, bins, range), density, weights)


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any, Any]:
    """Return the histogram of points in the plane, and the edges along both axes."""
    # One number or one row of edges holds for both axes, two of either for one each.
    each = list(bins) if _length(bins) == 2 else [bins, bins]
    ranges = [None, None] if range is None else list(range)
    counts, edges = _found(_plain2d, [x, y], each, ranges, (x, y, bins, range), density, weights)
    return counts, edges[0], edges[1]


RULES[np.histogram] = histogram
RULES[np.histogram2d] = histogram2d
RULES[np.histogramdd] = histogramdd
RULES[np.histogram_bin_edges] = histogram_bin_edges
