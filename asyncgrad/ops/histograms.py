"""Histograms: sums of the weights of the elements of each bin.

They are linear in the weights. In the elements they are constant between the steps at which one moves to another bin,
and so are the edges of the bins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..graph.tensor_base import TensorBase
from ..graph.values import is_foreign, raw, zeros_beside
from .foreign import add_at, as_dtype
from .nondifferentiable import NonDifferentiable
from .primitive import RULES, derivative, primitive

__all__ = ["histogram", "histogram2d", "histogramdd"]


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
def _(g: Any, places: Any) -> Any:
    if not g.size:
        return np.zeros_like(g, shape=places.shape)
    return np.where(places >= 0, np.take(np.reshape(g, -1), np.maximum(places, 0)), 0)


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


def _sums(places: Any, weights: Any, counts: Any) -> Any:
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
    sums = zeros_beside((counts.size + 1,), given)
    add_at(sums, np.where(places < 0, counts.size, places), given, is_zero=True)
    return np.reshape(sums[:-1], counts.shape).astype(dtype, copy=False)


def _weighed(plain: Callable[..., Any], columns: Any, args: tuple[Any, ...], density: Any, weights: Any) -> Any:
    """Return a histogram whose weights are a Tensor, and the edges along each of its axes.

    Args:
        plain: NumPy's function, without a derivative.
        columns: the arrays of elements, one for each axis.
        args: the elements as `plain` takes them, the bins and the range.
        density: whether to divide by the sum of the weights and the size of each bin.
        weights: one for each element.
    """
    array = raw(weights)
    # Another library may add floats in any order, and counts exactly.
    is_summed_here = array.__class__ is not np.ndarray and is_foreign(array) and array.dtype.kind in "fc"
    sums, edges = plain(*args, None, None if is_summed_here else weights.detach())
    each = edges if isinstance(edges, (list, tuple)) else [edges]
    places = _places([np.reshape(raw(column), -1) for column in columns], [raw(edge) for edge in each])
    found = _sums(places, np.reshape(array, -1), raw(sums)) if is_summed_here else raw(sums)
    result = weigh_.call(np.reshape(weights, -1), places, found)
    if not density:
        return result, edges
    total = np.sum(result)
    for axis, edge in enumerate(each):
        result = result / np.diff(raw(edge)).astype(float).reshape(-1, *(1,) * (len(each) - 1 - axis))
    return result / total, edges


_histogram = NonDifferentiable(np.histogram)
_histogram2d = NonDifferentiable(np.histogram2d)
_histogramdd = NonDifferentiable(np.histogramdd)


def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Return how many elements are in each bin, or the sum of their weights, and the edges of the bins."""
    if not isinstance(weights, TensorBase):
        return _histogram(a, bins, range, density, weights)
    return _weighed(_histogram, [a], (a, bins, range), density, weights)


def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Return the histogram of points, which are rows, or the columns of a list, and the edges along each axis."""
    if not isinstance(weights, TensorBase):
        return _histogramdd(sample, bins, range, density, weights)
    # NumPy tells a list of columns from an array of rows, as it does here.
    shaped = hasattr(sample, "shape")
    columns = np.atleast_2d(raw(sample)).T if shaped and sample.ndim < 2 else raw(sample).T if shaped else sample
    return _weighed(_histogramdd, list(columns), (sample, bins, range), density, weights)


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any, Any]:
    """Return the histogram of points in the plane, and the edges along both axes."""
    if not isinstance(weights, TensorBase):
        return _histogram2d(x, y, bins, range, density, weights)  # type: ignore[no-any-return]

    def plain(x: Any, y: Any, *args: Any) -> tuple[Any, list[Any]]:
        counts, *edges = _histogram2d(x, y, *args)
        return counts, edges

    counts, edges = _weighed(plain, [x, y], (x, y, bins, range), density, weights)
    return counts, edges[0], edges[1]


RULES[np.histogram] = histogram
RULES[np.histogram2d] = histogram2d
RULES[np.histogramdd] = histogramdd
