"""Where a sparse matrix has elements, and the products that need only these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse

from ...core.recording.primitive import derivative, primitive

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["Pattern", "multiply_dense", "sample_product"]


@final
class Pattern:
    """The rows and columns of a sparse matrix's elements, in the layout of csr; or those of its transpose.

    An element may occur several times; the matrix has their sum. The arrays belong to the pattern: nobody writes them.
    """

    __slots__ = ("_rows", "indices", "indptr", "shape", "transposed")

    def __init__(self, indices: Any, indptr: Any, shape: tuple[int, int], transposed: bool = False) -> None:
        self.indices: Any = indices
        self.indptr: Any = indptr
        self.shape: tuple[int, int] = shape
        self.transposed: bool = transposed
        self._rows: Any = None

    def transpose(self) -> Pattern:
        """Return the pattern of the transpose, of the same arrays."""
        other = Pattern(self.indices, self.indptr, self.shape[::-1], not self.transposed)
        other._rows = self._rows
        return other

    def positions(self) -> tuple[Any, Any]:
        """Return the row and the column of each element."""
        if self._rows is None:
            counts = np.diff(self.indptr)
            self._rows = np.repeat(np.arange(len(counts), dtype=self.indices.dtype), counts)
        return (self.indices, self._rows) if self.transposed else (self._rows, self.indices)

    def matrix(self, data: Any) -> Any:
        """Return SciPy's array of these elements, csr or csc, which shares the memory of `data`."""
        kind = sparse.csc_array if self.transposed else sparse.csr_array
        return kind((data, self.indices, self.indptr), shape=self.shape)


@primitive()
def multiply_dense(data: Any, x: Any, pattern: Any) -> Any:
    """Return the product of a sparse matrix and a dense vector or matrix."""
    return pattern.matrix(data) @ x


@primitive()
def sample_product(x: Any, y: Any, pattern: Any) -> Array:
    """Return the elements of `x @ y.T` where the pattern has some; of vectors, those of their outer product."""
    rows, columns = pattern.positions()
    if x.ndim == 1:
        return x[rows] * y[columns]
    result = np.zeros(len(rows), np.result_type(x, y))
    # A column at a time: all at once would take as many numbers as elements times columns.
    for first, second in zip(x.T, y.T, strict=True):
        result += first[rows] * second[columns]
    return result


@derivative(multiply_dense, "data")
def _(g: Array, x: Any, pattern: Any) -> Array:
    return sample(g, x, pattern)


@derivative(multiply_dense, "x")
def _(g: Array, data: Any, pattern: Any) -> Array:
    return multiply(data, g, pattern.transpose())


@derivative(sample_product, "x")
def _(g: Array, y: Any, pattern: Any) -> Array:
    return multiply(g, y, pattern)


@derivative(sample_product, "y")
def _(g: Array, x: Any, pattern: Any) -> Array:
    return multiply(g, x, pattern.transpose())


multiply, sample = multiply_dense.call, sample_product.call
