"""Sparse arrays, of one or two axes, whose elements are a Tensor."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse

from ... import tree
from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError, ArgumentTypeError
from .constants import pattern_of
from .elementwise import Elementwise
from .entries import arranged, broadcast, matrix_product, merged, shared
from .pattern import Pattern, multiply_dense

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...core.arrays.array import Array


__all__ = [
    "SparseArray",
    "block_array",
    "block_diag",
    "coo_array",
    "csc_array",
    "csr_array",
    "diags_array",
    "eye_array",
    "hstack",
    "kron",
    "tril",
    "triu",
    "vstack",
]

_product = multiply_dense.call


@final
class SparseArray(Elementwise):
    """A sparse matrix or vector of a fixed pattern, whose elements are a Tensor; gradients have these elements alone.

    It is a container of `ag.tree` with one leaf, `data`.

    Attributes:
        data: the elements, in the order of the pattern: `(nnz,)`.
        pattern: their rows and columns; the elements of a vector lie in one row.
        is_vector: whether the array has one axis.
    """

    __slots__ = ("data", "is_vector", "pattern")

    #: NumPy's arrays leave their operators to this class.
    __array_ufunc__ = None

    def __init__(self, data: Any, pattern: Pattern, is_vector: bool = False) -> None:
        self.data: Any = data
        self.pattern: Pattern = pattern
        self.is_vector: bool = is_vector

    def _of_kind(self, data: Any, pattern: Pattern) -> SparseArray:
        """Return an array of as many axes as this one has."""
        return SparseArray(data, pattern, self.is_vector)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and columns; of a vector, the number of its elements."""
        return self.pattern.shape[1:] if self.is_vector else self.pattern.shape

    @property
    def ndim(self) -> int:
        """The number of axes, 1 or 2."""
        return 1 if self.is_vector else 2

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
        """Return the transpose, with the same elements; of a vector, itself."""
        return self if self.is_vector else SparseArray(self.data, self.pattern.transpose())

    def reshape(self, *shape: Any) -> SparseArray:
        """Return the array of the same elements in another shape of one or two axes, by rows."""
        wanted = shape[0] if len(shape) == 1 and np.ndim(shape[0]) else shape
        return self._arranged(lambda matrix: matrix.reshape(wanted))

    def toscipy(self) -> Any:
        """Return SciPy's array of the elements, without history."""
        matrix = self.pattern.matrix(self.data.detach().numpy())
        return matrix.reshape(self.shape).tocsr() if self.is_vector else matrix

    def astype(self, dtype: Any) -> SparseArray:
        """Return the array with its elements in another dtype."""
        return self if self.dtype == dtype else self._of_kind(self.data.astype(dtype), self.pattern)

    def toarray(self) -> Tensor:
        """Return the array as a dense tensor."""
        whole = np.zeros(self.pattern.shape, self.dtype)
        dense: Tensor = _add_at(asarray(whole), self.pattern.positions(), self.data).reshape(self.shape)
        return dense

    def todense(self) -> Tensor:
        """Return the array as a dense tensor, as `toarray`."""
        return self.toarray()

    def tocsr(self) -> SparseArray:
        """Return the array with its elements in the order of rows, those of one place added."""
        return self._of_kind(*self._deduplicated())

    def tocsc(self) -> SparseArray:
        """Return the matrix with its elements in the order of columns, those of one place added."""
        self._check_matrix("tocsc")
        return self.T.tocsr().T

    def tocoo(self) -> SparseArray:
        """Return the array as it is: `pattern.positions()` are the rows and columns of its elements."""
        return self

    def _check_matrix(self, name: str) -> None:
        if self.is_vector:
            raise ValueError(f"scipy.sparse: {name} is of a sparse matrix, not of a vector of shape {self.shape}")

    def diagonal(self, k: int = 0) -> Tensor:
        """Return the main diagonal, or one that is `k` columns beside it."""
        self._check_matrix("diagonal")
        rows, columns = self.pattern.positions()
        places = np.nonzero(columns - rows == k)[0]
        length = max(min(self.shape[0] + min(k, 0), self.shape[1] - max(k, 0)), 0)
        start = rows[places] + min(k, 0)
        found: Tensor = _add_at(asarray(np.zeros(length, self.dtype)), (start,), self.data[places])
        return found

    def sum(self, axis: int | None = None) -> Tensor:
        """Return the sum of all elements, or that of each column (axis 0) or row (axis 1)."""
        if axis is None or (self.is_vector and axis in (0, -1)):
            return self.data.sum()
        if self.is_vector or axis not in (0, 1, -1, -2):
            raise ValueError(f"scipy.sparse: sum takes axis None, 0 or 1 of a matrix, or 0 of a vector, not {axis}")
        pattern = self.pattern if axis in (1, -1) else self.pattern.transpose()
        result: Tensor = _product(self.data, np.ones(pattern.shape[1], self.dtype), pattern)
        return result

    def mean(self, axis: int | None = None) -> Tensor:
        """Return the mean of all elements, zeros included, or that of each column (axis 0) or row (axis 1)."""
        rows, columns = self.pattern.shape
        count = rows * columns if axis is None or self.is_vector else rows if axis in (0, -2) else columns
        return self.sum(axis) / count

    def trace(self, offset: int = 0) -> Tensor:
        """Return the sum of a diagonal; see `diagonal`."""
        return self.diagonal(offset).sum()

    def copy(self) -> SparseArray:
        """Return another array of the same pattern, whose elements are a copy."""
        return self._of_kind(self.data.copy(), self.pattern)

    def conj(self) -> SparseArray:
        """Return the array of conjugated elements."""
        return self._of_kind(np.conjugate(self.data), self.pattern)

    conjugate = conj

    def _deduplicated(self) -> tuple[Any, Pattern]:
        """Return the elements, those of one place added, in the order of rows."""
        return merged(self.data, *self.pattern.positions(), self.pattern.shape)

    def _elementwise(self, function: Callable[[Any], Any]) -> SparseArray:
        data, pattern = self._deduplicated()
        return self._of_kind(function(data), pattern)

    def _arranged(self, function: Callable[[Any], Any]) -> Any:
        """Return what SciPy's function makes of the elements' places: a sparse array, or a tensor."""
        found = arranged(function, [self.data], [self.pattern], [self.is_vector])
        return SparseArray(*found) if isinstance(found, tuple) else found

    def power(self, n: float) -> SparseArray:
        """Return the array of powers of the elements, with a number other than 0 as exponent."""
        if np.ndim(n) or n == 0:
            raise ArgumentError(f"scipy.sparse: power of a sparse array takes a number other than 0, not {n}")
        return self._elementwise(lambda data: data**n)

    def count_nonzero(self) -> int:
        """Return the number of elements that are not 0."""
        return int(np.count_nonzero(raw(self._deduplicated()[0])))

    def nonzero(self) -> tuple[Any, ...]:
        """Return the rows and the columns, or the places in a vector, of the elements that are not 0."""
        found: tuple[Any, ...] = self.toscipy().nonzero()
        return found

    def max(self) -> Tensor:
        """Return the largest element, among the zeros that are not stored, too."""
        return self._extreme(np.max)

    def min(self) -> Tensor:
        """Return the smallest element, among the zeros that are not stored, too."""
        return self._extreme(np.min)

    def _extreme(self, function: Callable[[Any], Any]) -> Tensor:
        data, pattern = self._deduplicated()
        if 0 in pattern.shape:
            raise ValueError(f"scipy.sparse: an array of shape {self.shape} has no largest or smallest element")
        if len(data) < pattern.shape[0] * pattern.shape[1]:
            data = np.concatenate([data, np.zeros(1, data.dtype)])
        found: Tensor = function(data)
        return found

    def multiply(self, other: Any) -> Any:
        """Return the product by elements with a number, or with a dense or sparse operand that broadcasts.

        It is sparse, unless it has three axes or more, as that with a dense array may have.
        """
        if isinstance(other, SparseArray) or sparse.issparse(other):
            right = _as_sparse(other)
            (x, x_pattern), (y, y_pattern) = self._broadcast_beside(right.shape), right._broadcast_beside(self.shape)
            return SparseArray(*shared(x, x_pattern, y, y_pattern), self.is_vector and right.is_vector)
        # Python's numbers take the dtype of the elements.
        other = other if type(other) in (int, float, complex) else asarray(other)
        if not np.ndim(other):
            return self._of_kind(self.data * other, self.pattern)
        if other.ndim > 2:
            return self.toarray() * other
        data, pattern = self._broadcast_beside(other.shape)
        product = data * np.broadcast_to(other, pattern.shape)[pattern.positions()]
        return SparseArray(product, pattern, self.is_vector and other.ndim == 1)

    def _broadcast_beside(self, shape: tuple[int, ...]) -> tuple[Any, Pattern]:
        """Return the elements of this array where it is broadcast together with another shape, as a matrix."""
        try:
            rows, columns = (1, *np.broadcast_shapes(self.shape, shape))[-2:]
        except ValueError:
            raise ValueError(
                f"scipy.sparse: a sparse array of shape {self.shape} does not broadcast beside shape {shape}"
            ) from None
        return broadcast(self.data, self.pattern, (rows, columns))

    def dot(self, other: Any) -> Any:
        """Return the product with a dense vector or matrix, as a Tensor, or with a sparse one, as a SparseArray.

        That of two vectors is a Tensor without axes.
        """
        is_sparse = isinstance(other, SparseArray) or sparse.issparse(other)
        right: Any = _as_sparse(other) if is_sparse else asarray(other)
        if right.ndim not in (1, 2) or right.shape[0] != self.shape[-1]:
            operand = "sparse array" if is_sparse else "vector or matrix"
            raise ValueError(
                f"scipy.sparse: shapes {self.shape} and {right.shape} have no matrix product: a sparse array of shape "
                f"{self.shape} is multiplied by a {operand} with {self.shape[-1]} rows"
            )
        if not is_sparse:
            result: Tensor = _product(self.data, right, self.pattern)
            return result[0] if self.is_vector else result
        pattern = right.pattern.transpose() if right.is_vector else right.pattern
        data, places = matrix_product(self.data, self.pattern, right.data, pattern)
        if self.is_vector and right.is_vector:
            return data.sum()
        return SparseArray(data, places.transpose() if right.is_vector else places, self.is_vector or right.is_vector)

    def _with(self, other: Any, word: str, combine: Callable[..., Any]) -> SparseArray:
        """Return what is made of the elements of this array and of another sparse one of its shape."""
        right = _as_sparse(other)
        if right.shape != self.shape:
            raise ValueError(
                f"scipy.sparse: a sparse array of shape {self.shape} is {word} a sparse array of that shape, not of "
                f"shape {right.shape}"
            )
        return self._of_kind(*combine(self.data, self.pattern, right.data, right.pattern))

    def __matmul__(self, other: Any) -> Any:
        return self.dot(other)

    def __rmatmul__(self, other: Any) -> Any:
        if sparse.issparse(other):
            return _as_sparse(other).dot(self)
        other = asarray(other)
        if other.ndim not in (1, 2) or other.shape[-1] != self.shape[0]:
            raise ValueError(
                f"scipy.sparse: an operand of shape {other.shape} does not fit on the left of a sparse array of shape "
                f"{self.shape}"
            )
        result: Tensor = self.T.dot(other.T).T
        return result

    def __mul__(self, other: Any) -> Any:
        return self.multiply(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, SparseArray) or sparse.issparse(other):
            right = _as_sparse(other)
            if right.shape != self.shape:
                raise ValueError(f"scipy.sparse: arrays of shapes {self.shape} and {right.shape} have no quotient")
            with np.errstate(divide="ignore", invalid="ignore"):
                return self.toarray() / right.toarray()
        if type(other) in (int, float, complex):
            return self.multiply(1 / other)
        return self.multiply(1 / asarray(other))

    def __rtruediv__(self, other: Any) -> Any:
        return _as_sparse(other) / self if sparse.issparse(other) else NotImplemented

    def __pow__(self, other: Any) -> SparseArray:
        return self.power(other)

    def __eq__(self, other: object) -> Any:
        return self._compared(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self._compared(operator.ne, other)

    def __lt__(self, other: Any) -> Any:
        return self._compared(operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._compared(operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(operator.ge, other)

    #: That of the object, as a tensor's: `==` compares elements.
    __hash__ = object.__hash__

    def _compared(self, compare: Callable[[Any, Any], Any], other: Any) -> Any:
        """Return SciPy's comparison, which has no derivative: a sparse array of truth values, or a dense tensor."""
        other = other.toscipy() if isinstance(other, SparseArray) else raw(other)
        found = compare(self.toscipy(), other)
        if found is NotImplemented or isinstance(found, bool):
            return found
        return _as_sparse(found) if sparse.issparse(found) else asarray(found)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple, str)):
            return NotImplemented
        if isinstance(other, SparseArray) or sparse.issparse(other):
            return self._with(other, "added to", _sum)
        if np.ndim(other) == 0:
            if not (isinstance(other, Tensor) and other.requires_grad) and raw(other) == 0:
                return self
            raise ArgumentError("scipy.sparse: a number is added to all elements, of a dense array: write A.toarray()")
        return self.toarray() + self._beside(other)

    def _beside(self, other: Any) -> Any:
        """Return a dense operand that is added to this array: it may be repeated, the array not."""
        dense = asarray(other)
        if dense.ndim > self.ndim or any(
            one not in (1, length) for one, length in zip(dense.shape[::-1], self.shape[::-1], strict=False)
        ):
            raise ValueError(
                f"scipy.sparse: an array of shape {dense.shape} cannot be repeated to shape {self.shape}, that of the "
                "sparse array it is added to: write A.toarray()"
            )
        return dense

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple, str)):
            return NotImplemented
        if isinstance(other, SparseArray) or sparse.issparse(other):
            right = _as_sparse(other)
            # In the common dtype first: a small unsigned number has no negative.
            return self._with(-right.astype(np.result_type(self.dtype, right.dtype)), "less", _sum)
        return self + other if np.ndim(other) == 0 else self.toarray() - self._beside(other)

    def __rsub__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple, str)):
            return NotImplemented
        if sparse.issparse(other):
            return _as_sparse(other) - self
        return -self + other if np.ndim(other) == 0 else self._beside(other) - self.toarray()

    def __getitem__(self, key: Any) -> Any:
        """Return the sparse array of some rows and columns, or elements as a Tensor, where SciPy's are dense."""
        keys = tuple(map(_plain_key, key)) if isinstance(key, tuple) else _plain_key(key)
        return self._arranged(lambda matrix: matrix[keys])

    def __neg__(self) -> SparseArray:
        return self._of_kind(-self.data, self.pattern)

    def __repr__(self) -> str:
        return f"SparseArray(shape={self.shape}, nnz={self.nnz}, dtype={self.dtype})"


def _plain_key(key: Any) -> Any:
    """Return a part of a key without tensors."""
    return key.toscipy() if isinstance(key, SparseArray) else raw(key)


def _sum(x: Any, x_pattern: Pattern, y: Any, y_pattern: Pattern) -> tuple[Any, Pattern]:
    """Return the elements of the sum of two sparse matrices."""
    if x_pattern is y_pattern:
        return x + y, x_pattern
    kind = np.result_type(x.dtype, y.dtype)
    rows, columns = (np.concatenate(pair) for pair in zip(x_pattern.positions(), y_pattern.positions(), strict=True))
    whole = np.concatenate([one.astype(kind, copy=False) for one in (x, y)])
    return merged(whole, rows, columns, x_pattern.shape)


def _as_sparse(value: Any) -> SparseArray:
    """Return SciPy's sparse matrix or vector as one whose elements are a Tensor."""
    if isinstance(value, SparseArray):
        return value
    if value.ndim > 2:
        raise ArgumentTypeError(f"scipy.sparse: sparse arrays of Tensors have one or two axes, not shape {value.shape}")
    pattern, data = pattern_of(value)
    return SparseArray(asarray(data), pattern, value.ndim == 1)


tree.register(
    SparseArray,
    flatten=lambda array: ((array.data,), (array.pattern, array.is_vector)),
    unflatten=lambda places, children: SparseArray(children[0], *places),
)


def _add_at(base: Array, positions: Any, values: Any) -> Any:
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
    if sparse.issparse(argument) and argument.ndim == 2:
        pattern, data = pattern_of(argument.tocsc() if transposed else argument.tocsr())
        return SparseArray(asarray(data), pattern)
    if isinstance(argument, tuple) and len(argument) == 3:
        data, indices, indptr = asarray(argument[0]), np.asarray(argument[1]), np.asarray(argument[2])
        known = getattr(sparse, kind)((np.ones(data.shape), indices, indptr), shape=shape)
        whole = (1, *known.shape)[-2:]
        return SparseArray(data, Pattern(indices, indptr, whole, transposed), known.ndim == 1)
    found = argument if isinstance(argument, SparseArray) else coo_array(argument, shape)
    if transposed and found.is_vector:
        raise ValueError(f"scipy.sparse.csc_array takes a matrix, not a vector of shape {found.shape}")
    return found


def _in_dtype(array: SparseArray, dtype: Any) -> SparseArray:
    return array if dtype is None else array.astype(dtype)


def csr_array(
    arg1: Any, shape: tuple[int, ...] | None = None, dtype: npt.DTypeLike | None = None, copy: bool = False
) -> SparseArray:
    """Return a sparse array of its elements and their places, of SciPy's sparse matrix, or of a dense matrix.

    Args:
        arg1: `(data, indices, indptr)`, `(data, (row, column))`, a sparse or a dense matrix, whose elements that are
            not 0 are taken, or a shape; for an array of one axis, `(data, (places,))` or a vector.
        shape: the numbers of rows and columns, or of elements; None for what the places need.
        dtype: of the elements; None for theirs.
        copy: has no effect: the elements are never written into.

    Example:
        >>> import asyncgrad as ag
        >>> data = ag.tensor([2.0, 3.0], requires_grad=True)
        >>> (csr_array((data, [0, 1], [0, 1, 2])) @ [1.0, 10.0]).tolist()
        [2.0, 30.0]
    """
    return _in_dtype(_compressed(arg1, shape, "csr_array"), dtype)


def csc_array(
    arg1: Any, shape: tuple[int, ...] | None = None, dtype: npt.DTypeLike | None = None, copy: bool = False
) -> SparseArray:
    """Return a sparse array of `(data, indices, indptr)`, where `indices` are rows, or as `csr_array`."""
    return _in_dtype(_compressed(arg1, shape, "csc_array"), dtype)


def coo_array(
    arg1: Any, shape: tuple[int, ...] | None = None, dtype: npt.DTypeLike | None = None, copy: bool = False
) -> SparseArray:
    """Return a sparse array of `(data, (row, column))`, or as `csr_array`; its `data` are in the order of rows.

    Elements that occur several times are added. An array of one axis is made of `(data, (places,))` or a dense vector.
    """
    if isinstance(arg1, SparseArray):
        return _in_dtype(arg1, dtype)
    if sparse.issparse(arg1):
        whole = arg1.tocoo()
        arg1, shape = (whole.data, whole.coords), whole.shape
    elif not isinstance(arg1, tuple):
        dense = asarray(arg1)
        places = np.nonzero(raw(dense)) if dense.ndim else ()
        arg1, shape = (dense[places], places), dense.shape
    elif arg1 and all(isinstance(length, (int, np.integer)) for length in arg1):
        arg1, shape = (np.zeros(0), tuple(np.zeros(0, int) for _ in arg1)), arg1
    if len(arg1) != 2 or len(arg1[1]) not in (1, 2):
        raise ArgumentTypeError(
            "scipy.sparse.coo_array takes (data, (row, column)), (data, (places,)), or a matrix or vector, not an "
            f"array of shape {shape}"
        )
    data, places = asarray(arg1[0]), tuple(np.asarray(index) for index in arg1[1])
    known = sparse.coo_array((np.ones(data.shape), places), shape=shape)
    is_vector, columns = len(places) == 1, places[-1]
    rows = np.zeros_like(columns) if is_vector else places[0]
    order = np.argsort(rows, kind="stable")
    size = (1, *known.shape)[-2:]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size[0]))])
    return _in_dtype(SparseArray(data[order], Pattern(columns[order], indptr, size), is_vector), dtype)


def diags_array(
    diagonals: Any,
    /,
    *,
    offsets: Any = 0,
    shape: tuple[int, int] | None = None,
    format: str | None = None,
    dtype: npt.DTypeLike | None = None,
) -> SparseArray:
    """Return the sparse array with these diagonals; one of length 1 is repeated, as SciPy's; `format` has no effect."""
    if np.ndim(offsets) == 0:
        diagonals, offsets = [diagonals], [offsets]
    diagonals = [np.atleast_1d(asarray(diagonal)) for diagonal in diagonals]
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
    return coo_array((np.concatenate(parts), (np.concatenate(rows), np.concatenate(columns))), shape, dtype)


def eye_array(
    m: int, n: int | None = None, *, k: int = 0, dtype: Any = float, format: str | None = None
) -> SparseArray:
    """Return the sparse array with ones on the diagonal `k`; `format` has no effect."""
    return csr_array(sparse.eye_array(m, n, k=k, dtype=dtype, format="csr"))


# Arrays that are made of others.


def _arranged(name: str, function: Callable[..., Any], blocks: Any) -> SparseArray:
    try:
        arrays = [_as_sparse(one) for one in blocks]
    except AttributeError:
        raise ArgumentTypeError(f"scipy.sparse.{name} takes sparse arrays alone: write csr_array(...)") from None
    kind = np.result_type(*(one.dtype for one in arrays))
    data = [one.data.astype(kind, copy=False) for one in arrays]
    found = arranged(function, data, [one.pattern for one in arrays], [one.is_vector for one in arrays])
    return SparseArray(*found)


def hstack(blocks: Any) -> SparseArray:
    """Return sparse arrays beside one another; see `scipy.sparse.hstack`."""
    return _arranged("hstack", lambda *matrices: sparse.hstack(matrices), blocks)


def vstack(blocks: Any) -> SparseArray:
    """Return sparse arrays below one another; see `scipy.sparse.vstack`."""
    return _arranged("vstack", lambda *matrices: sparse.vstack(matrices), blocks)


def block_diag(mats: Any) -> SparseArray:
    """Return the sparse array with sparse arrays along its diagonal; see `scipy.sparse.block_diag`."""
    return _arranged("block_diag", lambda *matrices: sparse.block_diag(matrices), mats)


def block_array(blocks: Any) -> SparseArray:
    """Return the sparse array of rows of blocks, of which None is one of zeros; see `scipy.sparse.block_array`."""
    rows = [list(row) for row in blocks]

    def filled(*matrices: Any) -> Any:
        rest = iter(matrices)
        return sparse.block_array([[None if one is None else next(rest) for one in row] for row in rows])

    return _arranged("block_array", filled, [one for row in rows for one in row if one is not None])


def tril(A: Any, k: int = 0) -> SparseArray:
    """Return the lower triangle of a sparse array; see `scipy.sparse.tril`."""
    return _arranged("tril", lambda matrix: sparse.tril(matrix, k), [A])


def triu(A: Any, k: int = 0) -> SparseArray:
    """Return the upper triangle of a sparse array; see `scipy.sparse.triu`."""
    return _arranged("triu", lambda matrix: sparse.triu(matrix, k), [A])


def kron(A: Any, B: Any) -> SparseArray:
    """Return the Kronecker product of two sparse arrays; see `scipy.sparse.kron`."""
    first, second = _as_sparse(A), _as_sparse(B)
    rows, columns = first.pattern.positions()
    below, beside = second.pattern.positions()
    (height, width), (below_height, beside_width) = first.pattern.shape, second.pattern.shape
    data = (first.data[:, np.newaxis] * second.data).reshape(-1)
    whole_rows, whole_columns = (
        (np.asarray(one, np.int64)[:, np.newaxis] * length + other).reshape(-1)
        for one, length, other in ((rows, below_height, below), (columns, beside_width, beside))
    )
    shape = (height * below_height, width * beside_width)
    return SparseArray(*merged(data, whole_rows, whole_columns, shape), first.is_vector and second.is_vector)
