"""The largest and smallest elements of sparse matrices, among the zeros that are not stored, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from .entries import gathered, merged
from .pattern import Pattern

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["beside_one_another", "extreme_of_rows"]


def extreme_of_rows(data: Any, pattern: Pattern, reduction: Any, explicit: bool) -> tuple[Any, Pattern]:
    """Return the largest or smallest element of each row, as the elements of a vector; its zeros are left out.

    The gradient goes to the first of equal elements.

    Args:
        data: the elements of a matrix.
        pattern: their places.
        reduction: `np.maximum` or `np.minimum`; `np.fmax` or `np.fmin` to pass over NaN.
        explicit: whether zeros that are not stored do not count.
    """
    data, pattern = merged(data, *pattern.positions(), pattern.shape)
    height, width = pattern.shape
    values, counts = raw(data), np.diff(pattern.indptr)
    (filled,) = np.nonzero(counts)
    extremes = np.zeros(height, values.dtype)
    if len(filled):
        extremes[filled] = reduction.reduceat(values, pattern.indptr[:-1][filled])
    rows = pattern.positions()[0]
    of_row = extremes[rows]
    (equal,) = np.nonzero((values == of_row) | (np.isnan(values) & np.isnan(of_row)))
    found, first = np.unique(rows[equal], return_index=True)
    if not explicit:
        has_zero = counts[found] < width
        is_kept = ~has_zero | (reduction(extremes[found], extremes.dtype.type(0)) != 0)
        found, first = found[is_kept], first[is_kept]
    places = equal[first]
    vector = Pattern(found, np.array([0, len(found)]), (1, height))
    return gathered(data, places), vector


def beside_one_another(x: Any, x_pattern: Pattern, y: Any, y_pattern: Pattern) -> tuple[Array, Array, Pattern]:
    """Return the elements of two matrices of one shape at all places at which one has some, and these places."""
    shape = x_pattern.shape
    rows, columns = (np.concatenate(pair) for pair in zip(x_pattern.positions(), y_pattern.positions(), strict=True))
    one, pattern = merged(np.concatenate([x, np.zeros(y.shape, x.dtype)]), rows, columns, shape)
    other, _ = merged(np.concatenate([np.zeros(x.shape, y.dtype), y]), rows, columns, shape)
    return one, other, pattern
