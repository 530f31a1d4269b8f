"""Sparse arrays whose elements are a Tensor."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import sparse

from ... import tree
from ...errors import ArgumentTypeError
from ...tensor import Tensor, asarray
from ..arguments import floating
from .constants import pattern_of
from .pattern import Pattern, multiply_dense

__all__ = ["SparseArray", "coo_array", "csc_array", "csr_array", "diags_array", "eye_array"]

_product = multiply_dense.call


@final
class SparseArray:
    """A sparse matrix of a fixed pattern, whose elements are a Tensor; gradients have the pattern's elements alone.

    It is a container of `ag.tree` with one leaf, `data`.

    Attributes:
        data: the elements, in the order of the pattern: `(nnz,)`.
        pattern: their rows and columns.
    """

    __slots__ = ("data", "pattern")

    #: NumPy's arrays leave their operators to this class.
    __array_ufunc__ = None

    def __init__(self, data: Any, pattern: Pattern) -> None:
        self.data, self.pattern = data, pattern

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.pattern.shape

    @property
    def ndim(self) -> int:
        """2."""
        return 2

    @property
    def nnz(self) -> int:
        """The number of elements of the pattern."""
        return len(self.pattern.indices)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.data.dtype

    @property
    def T(self) -> SparseArray:
        """The transpose, with the same elements."""
        return self.transpose()

    def transpose(self) -> SparseArray:
        """Return the transpose, with the same elements."""
        return SparseArray(self.data, self.pattern.transpose())

    def toscipy(self) -> Any:
        """Return SciPy's array of the elements, without history."""
        return self.pattern.matrix(self.data.detach().numpy())

    def toarray(self) -> Tensor:
        """Return the matrix as a dense tensor."""
        whole = np.zeros(self.shape, self.dtype)
        dense: Tensor = _add_at(asarray(whole), self.pattern.positions(), self.data)
        return dense

    def diagonal(self) -> Tensor:
        """Return the main diagonal: `(min(shape),)`."""
        rows, columns = self.pattern.positions()
        places = np.nonzero(rows == columns)[0]
        found: Tensor = _add_at(asarray(np.zeros(min(self.shape), self.dtype)), (rows[places],), self.data[places])
        return found

    def sum(self, axis: int | None = None) -> Tensor:
        """Return the sum of all elements, or that of each column (axis 0) or row (axis 1)."""
        if axis is None:
            return self.data.sum()
        if axis not in (0, 1, -1, -2):
            raise ValueError(f"scipy.sparse: sum takes axis None, 0 or 1 of a matrix, not {axis}")
        pattern = self.pattern if axis in (1, -1) else self.pattern.transpose()
        result: Tensor = _product(self.data, np.ones(pattern.shape[1], self.dtype), pattern)
        return result

    def multiply(self, other: Any) -> SparseArray:
        """Return the product by elements with a number, or a dense operand that broadcasts to this shape."""
        if isinstance(other, SparseArray) or sparse.issparse(other):
            raise ArgumentTypeError(
                "scipy.sparse: multiply takes a number or a dense operand: of two sparse arrays of one pattern, "
                "multiply their data"
            )
        other = asarray(other)
        if other.ndim:
            other = np.broadcast_to(other, self.shape)[self.pattern.positions()]
        return SparseArray(self.data * other, self.pattern)

    def dot(self, other: Any) -> Tensor:
        """Return the product with a dense vector or matrix."""
        if isinstance(other, SparseArray) or sparse.issparse(other):
            raise ArgumentTypeError(
                f"scipy.sparse: the product of a sparse array of shape {self.shape} with differentiable data takes a "
                f"dense vector or matrix, not {type(other).__name__}: write A @ (B @ x), or A @ B.toarray()"
            )
        other = floating(other)
        if other.ndim not in (1, 2) or other.shape[0] != self.shape[1]:
            raise ValueError(
                f"scipy.sparse: a sparse array of shape {self.shape} is multiplied by a vector or matrix with "
                f"{self.shape[1]} rows, not by shape {other.shape}"
            )
        result: Tensor = _product(self.data, other, self.pattern)
        return result

    def __matmul__(self, other: Any) -> Tensor:
        return self.dot(other)

    def __rmatmul__(self, other: Any) -> Tensor:
        other = floating(other)
        if other.ndim not in (1, 2) or other.shape[-1] != self.shape[0]:
            raise ValueError(
                f"scipy.sparse: an operand of shape {other.shape} does not fit on the left of a sparse array of shape "
                f"{self.shape}"
            )
        result: Tensor = self.T.dot(other.T).T
        return result

    def __mul__(self, other: Any) -> SparseArray:
        return self.multiply(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseArray:
        return self.multiply(1 / asarray(other))

    def __neg__(self) -> SparseArray:
        return SparseArray(-self.data, self.pattern)

    def __repr__(self) -> str:
        return f"SparseArray(shape={self.shape}, nnz={self.nnz}, dtype={self.dtype})"


tree.register(
    SparseArray,
    flatten=lambda array: ((array.data,), array.pattern),
    unflatten=lambda pattern, children: SparseArray(children[0], pattern),
)


def _add_at(base: Any, positions: Any, values: Any) -> Any:
    """Return `base` with `values` added at `positions`, which may repeat."""
    size = base.size
    flat = np.ravel_multi_index(positions, base.shape) if len(positions) > 1 else positions[0]
    # A matrix with an element in each column, at the row where its value goes.
    order = np.argsort(flat, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=size))])
    ones = np.ones(len(order), base.dtype)
    return _product(ones, values, Pattern(order, indptr, (size, len(order)))).reshape(base.shape)


def _compressed(argument: Any, shape: Any, kind: str) -> SparseArray:
    transposed = kind == "csc_array"
    if isinstance(argument, SparseArray):
        return argument
    if sparse.issparse(argument):
        pattern, data = pattern_of(argument.tocsc() if transposed else argument.tocsr())
        return SparseArray(floating(data), pattern)
    if not isinstance(argument, tuple) or len(argument) not in (2, 3):
        raise ArgumentTypeError(
            f"scipy.sparse.{kind} takes (data, indices, indptr), (data, (row, column)) or SciPy's sparse matrix, not "
            f"{type(argument).__name__}"
        )
    if len(argument) == 2:
        return coo_array(argument, shape)
    data, indices, indptr = floating(argument[0]), np.asarray(argument[1]), np.asarray(argument[2])
    known = getattr(sparse, kind)((np.ones(data.shape), indices, indptr), shape=shape)
    return SparseArray(data, Pattern(indices, indptr, known.shape, transposed))


def csr_array(argument: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """Return a sparse array of `(data, indices, indptr)`, `(data, (row, column))` or SciPy's sparse matrix.

    Example:
        >>> import asyncgrad as ag
        >>> data = ag.tensor([2.0, 3.0], requires_grad=True)
        >>> (csr_array((data, [0, 1], [0, 1, 2])) @ [1.0, 10.0]).tolist()
        [2.0, 30.0]
    """
    return _compressed(argument, shape, "csr_array")


def csc_array(argument: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """Return a sparse array of `(data, indices, indptr)`, where `indices` are rows, or as `csr_array`."""
    return _compressed(argument, shape, "csc_array")


def coo_array(argument: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """Return a sparse array of `(data, (row, column))`; its `data` are in the order of rows.

    Elements that occur several times are added.
    """
    if sparse.issparse(argument):
        argument, shape = (argument.tocoo().data, argument.tocoo().coords), argument.shape
    if not isinstance(argument, tuple) or len(argument) != 2 or len(argument[1]) != 2:
        raise ArgumentTypeError("scipy.sparse.coo_array takes (data, (row, column)) or SciPy's sparse matrix")
    data, (rows, columns) = floating(argument[0]), (np.asarray(index) for index in argument[1])
    known = sparse.coo_array((np.ones(data.shape), (rows, columns)), shape=shape)
    order = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=known.shape[0]))])
    return SparseArray(data[order], Pattern(columns[order], indptr, known.shape))


def diags_array(diagonals: Any, offsets: Any = 0, shape: tuple[int, int] | None = None) -> SparseArray:
    """Return the sparse array with these diagonals; one of length 1 is repeated, as SciPy's."""
    if np.ndim(offsets) == 0:
        diagonals, offsets = [diagonals], [offsets]
    diagonals = [np.atleast_1d(floating(diagonal)) for diagonal in diagonals]
    if shape is None:
        size = len(diagonals[0]) + abs(int(offsets[0]))
        shape = (size, size)
    parts, rows, columns = [], [], []
    for diagonal, offset in zip(diagonals, offsets, strict=True):
        length = min(shape[0] + min(offset, 0), shape[1] - max(offset, 0))
        if len(diagonal) not in (1, length):
            raise ValueError(
                f"scipy.sparse.diags_array: the diagonal at offset {offset} of shape {shape} has {length} elements, "
                f"not {len(diagonal)}"
            )
        parts.append(np.broadcast_to(diagonal, (length,)))
        rows.append(np.arange(length) - min(offset, 0))
        columns.append(np.arange(length) + max(offset, 0))
    return coo_array((np.concatenate(parts), (np.concatenate(rows), np.concatenate(columns))), shape)


def eye_array(m: int, n: int | None = None, *, k: int = 0, dtype: Any = float) -> SparseArray:
    """Return the sparse array with ones on the diagonal `k`."""
    return csr_array(sparse.eye_array(m, n, k=k, dtype=dtype, format="csr"))
