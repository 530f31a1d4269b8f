"""SparseRows: a table of which few rows get a gradient, which is a sparse array of SciPy's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.arrays.value_type import ValueType
from ..core.settings.arguments import describe
from ..core.settings.extras import missing_extra
from ..errors import ArgumentTypeError

try:
    import scipy.sparse
except ImportError as error:
    raise missing_extra("asyncgrad.values.SparseRows needs SciPy", "scipy", error=error) from error

__all__ = ["SparseRows"]


class _Description(NamedTuple):
    shape: tuple[int, ...]
    dtype: Any


@final
class SparseRows(ValueType):
    """A table, of which a step reads few rows: embeddings, a file that is mapped into memory, a store elsewhere.

    The value is anything with the `shape` and the `dtype` of an array of two axes. A gradient is a sparse array of
    SciPy's of that shape, in any format, which becomes a `scipy.sparse.csr_array`.

    Example:
        >>> import numpy as np, scipy.sparse, asyncgrad as ag
        >>> from asyncgrad.values import SparseRows
        >>> class Look(ag.Function):
        ...     @staticmethod
        ...     def forward(ctx, table, rows):
        ...         ctx.shape, ctx.rows = table.value.shape, rows
        ...         return table.value[rows]
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         count, width = grad.shape
        ...         places = np.repeat(ctx.rows, width), np.tile(np.arange(width), count)
        ...         return scipy.sparse.coo_array((grad.numpy().ravel(), places), shape=ctx.shape), None
        >>> table = ag.leaf(np.ones((1_000_000, 2)), type=SparseRows())
        >>> ag.sync.backward(Look.apply(table, np.array([3, 5, 3])).sum())
        >>> table.grad.nnz, table.grad[[3]].toarray().tolist()
        (4, [[2.0, 2.0]])
    """

    __slots__ = ()

    def describe(self, value: Any) -> _Description:
        """Return shape and dtype."""
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(value, TensorBase) or not isinstance(shape, tuple) or len(shape) != 2 or dtype is None:
            raise ArgumentTypeError(
                f"a value of type SparseRows has the shape and dtype of an array of two axes, and {describe(value)} "
                "has not: pass t.numpy() for a tensor"
            )
        return _Description(shape, np.dtype(dtype))

    def zero(self, description: _Description) -> Any:
        """Return an array without entries."""
        return scipy.sparse.csr_array(description.shape, dtype=description.dtype)

    def add(self, first: Any, second: Any) -> Any:
        """Return the sum."""
        return first + second

    def merge(self, gradients: Sequence[Any]) -> Any:
        """Return the sum of all, made in one go; entries are added in the order of the gradients."""
        parts = [scipy.sparse.coo_array(gradient) for gradient in gradients]
        places = tuple(np.concatenate([part.coords[axis] for part in parts]) for axis in range(2))
        numbers = np.concatenate([part.data for part in parts])
        return scipy.sparse.coo_array((numbers, places), shape=parts[0].shape).tocsr()

    def convert(self, gradient: Any) -> Any:
        """Return it as a csr_array, in which each entry is there once."""
        if not scipy.sparse.issparse(gradient):
            return gradient
        rows = scipy.sparse.csr_array(gradient)
        if not rows.has_canonical_format:
            # It may be in the memory of a rule's own.
            rows = rows.copy()
            rows.sum_duplicates()
        return rows

    def nbytes(self, value: Any) -> int:
        """Return the bytes of a table, or of the entries of a gradient and of where they are."""
        if not scipy.sparse.issparse(value):
            size: int = math.prod(value.shape) * np.dtype(value.dtype).itemsize
            return size
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)

    def check(self, gradient: Any, description: _Description) -> None:
        """Raise unless it is a sparse array of the shape of the table."""
        if not scipy.sparse.issparse(gradient):
            raise TypeError(
                f"the gradient of a table of type SparseRows is a sparse array, not {describe(gradient)}: write "
                "scipy.sparse.coo_array((numbers, (rows, columns)), shape=...)"
            )
        if gradient.shape != description.shape:
            raise ValueError(f"it has shape {gradient.shape}, and the table has {description.shape}")
