"""The elements of sparse matrices that are made of those of others: by a product, a sum, or another arrangement.

Which element goes where is found by SciPy, or by NumPy, with whole numbers; the elements themselves are gathered and
added by products with sparse matrices of ones, which are differentiable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from .pattern import Pattern, multiply_dense

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["arranged", "broadcast", "gathered", "matrix_product", "merged", "shared"]

_product = multiply_dense.call


def gathered(data: Array, places: Any) -> Any:
    """Return the elements of a vector at places, which may repeat."""
    count = len(places)
    pattern = Pattern(np.asarray(places), np.arange(count + 1), (count, data.shape[0]))
    return _product(np.ones(count, data.real.dtype), data, pattern)


def merged(data: Array, rows: Any, columns: Any, shape: tuple[int, int]) -> tuple[Any, Pattern]:
    """Return elements in the layout of csr, with those of one place added."""
    keys, inverse = np.unique(np.asarray(rows, np.int64) * max(shape[1], 1) + columns, return_inverse=True)
    found, places = np.divmod(keys, max(shape[1], 1))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(found, minlength=shape[0]))])
    pattern = Pattern(places, indptr, shape)
    if len(keys) == data.shape[0] and np.array_equal(inverse, np.arange(len(keys))):
        return data, pattern
    order = np.argsort(inverse, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(inverse, minlength=len(keys)))])
    adding = Pattern(order, ends, (len(keys), data.shape[0]))
    return _product(np.ones(len(order), data.real.dtype), data, adding), pattern


def broadcast(data: Any, pattern: Pattern, shape: tuple[int, int]) -> tuple[Any, Pattern]:
    """Return the elements of a sparse matrix whose single row or column is repeated until it has a shape."""
    if pattern.shape == shape:
        return data, pattern
    rows, columns = pattern.positions()
    places = np.arange(len(rows))
    if pattern.shape[0] != shape[0]:
        rows, columns, places = (
            np.repeat(np.arange(shape[0]), len(rows)),
            np.tile(columns, shape[0]),
            np.tile(places, shape[0]),
        )
    if pattern.shape[1] != shape[1]:
        rows, columns, places = (
            np.repeat(rows, shape[1]),
            np.tile(np.arange(shape[1]), len(rows)),
            np.repeat(places, shape[1]),
        )
    return merged(gathered(data, places), rows, columns, shape)


def matrix_product(x: Any, x_pattern: Pattern, y: Any, y_pattern: Pattern) -> tuple[Any, Pattern]:
    """Return the elements of the product of two sparse matrices."""
    shape = (x_pattern.shape[0], y_pattern.shape[1])
    rows, inner = x_pattern.positions()
    y_rows, y_columns = y_pattern.positions()
    # The elements of y by rows: each element of x meets those of one row.
    order = np.argsort(y_rows, kind="stable")
    counts = np.bincount(y_rows, minlength=y_pattern.shape[0])
    starts = np.concatenate([[0], np.cumsum(counts)])
    met = counts[inner]
    left = np.repeat(np.arange(len(inner)), met)
    offsets = np.arange(len(left)) - np.repeat(np.cumsum(met) - met, met)
    right = order[starts[inner][left] + offsets]
    return merged(gathered(x, left) * gathered(y, right), rows[left], y_columns[right], shape)


def shared(x: Any, x_pattern: Pattern, y: Any, y_pattern: Pattern) -> tuple[Any, Pattern]:
    """Return the products of the elements that two sparse matrices of one shape both have."""
    shape = x_pattern.shape
    (x, x_pattern), (y, y_pattern) = (
        merged(data, *pattern.positions(), shape) for data, pattern in ((x, x_pattern), (y, y_pattern))
    )
    first, second = (
        np.asarray(rows, np.int64) * max(shape[1], 1) + columns
        for rows, columns in (x_pattern.positions(), y_pattern.positions())
    )
    keys, left, right = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return merged(gathered(x, left) * gathered(y, right), *np.divmod(keys, max(shape[1], 1)), shape)


def arranged(
    function: Callable[..., Any], data: Sequence[Any], patterns: Sequence[Pattern], are_vectors: Sequence[bool]
) -> tuple[Any, Pattern, bool] | Any:
    """Return the elements that SciPy's function arranges, such as `hstack`, their pattern, and if they are a vector.

    Args:
        function: takes one sparse array for each pattern.
        data: the elements of each.
        patterns: their places.
        are_vectors: which of them are given to the function as arrays of one axis.

    Returns:
        The elements, their pattern, and whether they have one axis; where SciPy's function returns a number or a dense
        array, as for `matrix[0, 1]`, a tensor.
    """
    merges = [merged(one, *pattern.positions(), pattern.shape) for one, pattern in zip(data, patterns, strict=True)]
    start, numbered = 1, []
    for (one, pattern), is_vector in zip(merges, are_vectors, strict=True):
        # The number of an element is its place in all data, plus 1: SciPy may drop zeros.
        matrix = pattern.matrix(np.arange(start, start + one.shape[0]))
        numbered.append(matrix.reshape(pattern.shape[1:]).tocsr() if is_vector else matrix)
        start += one.shape[0]
    every = merges[0][0] if len(merges) == 1 else np.concatenate([one for one, _ in merges])
    found = function(*numbered)
    if not sparse.issparse(found):
        places = np.asarray(found, np.int64)
        # Where there is none, the 0 at the end.
        return np.concatenate([every, np.zeros(1, every.dtype)])[np.where(places > 0, places - 1, every.shape[0])]
    is_vector = found.ndim == 1
    rows = found.reshape(1, -1).tocsr() if is_vector else found.tocsr()
    rows.sum_duplicates()
    return gathered(every, rows.data - 1), Pattern(rows.indices, rows.indptr, rows.shape), is_vector
