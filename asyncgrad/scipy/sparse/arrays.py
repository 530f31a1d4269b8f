"""Sparse arrays, of one or two axes, whose elements are a Tensor."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse

from ... import tree
from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError, ArgumentTypeError
from .constants import pattern_of
from .elementwise import Elementwise
from .entries import arranged, broadcast, matrix_product, merged, shared
from .extremes import beside_one_another, extreme_of_rows
from .pattern import Pattern, multiply_dense

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...core.arrays.array import Array


__all__ = [
    "SparseArray",
    "block_array",
    "block_diag",
    "bsr_array",
    "coo_array",
    "csc_array",
    "csr_array",
    "dia_array",
    "diags_array",
    "eye_array",
    "find",
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

    def transpose(self, axes: tuple[int, ...] | None = None, copy: bool = False) -> SparseArray:
        """Return the transpose, with the same elements; of a vector, itself. `copy` has no effect."""
        if axes is not None and tuple(axes) == tuple(range(self.ndim)):
            return self
        if axes is not None and tuple(axes) != (1, 0)[-self.ndim :]:
            raise ValueError(f"scipy.sparse: no order of the axes of an array of shape {self.shape} is {axes}")
        return self if self.is_vector else SparseArray(self.data, self.pattern.transpose())

    def reshape(self, *shape: Any, order: str = "C", copy: bool = False) -> SparseArray:
        """Return the array of the same elements in another shape of one or two axes, by rows, or by columns ("F")."""
        wanted = shape[0] if len(shape) == 1 and np.ndim(shape[0]) else shape
        return self._arranged(lambda matrix: matrix.reshape(wanted, order=order))

    def toscipy(self) -> Any:
        """Return SciPy's array of the elements, without history."""
        matrix = self.pattern.matrix(self.data.detach().numpy())
        return matrix.reshape(self.shape).tocsr() if self.is_vector else matrix

    def astype(self, dtype: Any, casting: Any = "unsafe", copy: bool = True) -> SparseArray:
        """Return the array with its elements in another dtype; `copy` has no effect."""
        return self if self.dtype == dtype else self._of_kind(self.data.astype(dtype, casting=casting), self.pattern)

    def toarray(self, order: str | None = None, out: Any = None) -> Tensor:
        """Return the array as a dense tensor, or write it into `out`; `order` has no effect."""
        if order is not None and out is not None:
            raise ValueError("scipy.sparse: toarray takes order or out, not both: leave out order")
        whole = np.zeros(self.pattern.shape, self.dtype)
        return _finished(_add_at(asarray(whole), self.pattern.positions(), self.data).reshape(self.shape), None, out)

    def todense(self, order: str | None = None, out: Any = None) -> Tensor:
        """Return the array as a dense tensor, as `toarray`."""
        return self.toarray(order, out)

    def tocsr(self, copy: bool = False) -> SparseArray:
        """Return the array with its elements in the order of rows, those of one place added; `copy` has no effect."""
        return self._of_kind(*self._deduplicated())

    def tocsc(self, copy: bool = False) -> SparseArray:
        """Return the matrix with its elements in the order of columns, as `tocsr` has them in that of rows."""
        self._check_matrix("tocsc")
        return self.T.tocsr().T

    def tocoo(self, copy: bool = True) -> SparseArray:
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

    def _axis(self, axis: Any) -> int | None:
        """Return an axis of a matrix that is to be reduced, 0 or 1; None if all axes are."""
        if axis is None:
            return None
        axes = axis if isinstance(axis, tuple) else (axis,)
        if not axes or len(axes) > self.ndim:
            raise ValueError(f"scipy.sparse: an array of shape {self.shape} is not reduced along axes {axis}")
        places = {axis_index(operator.index(one), self.ndim) for one in axes}
        if len(places) < len(axes):
            raise ValueError(f"scipy.sparse: no axis may be repeated, as in {axis}")
        return None if len(places) == self.ndim else places.pop()

    def sum(self, axis: int | tuple[int, ...] | None = None, dtype: Any = None, out: Any = None) -> Tensor:
        """Return the sum of all elements, or that of each column (axis 0) or row (axis 1), or write it into `out`."""
        axis = self._axis(axis)
        if axis is None:
            return _finished(self.data.sum(dtype=dtype), dtype, out)
        pattern = self.pattern if axis == 1 else self.pattern.transpose()
        # In NumPy's dtype of sums: small whole numbers do not overflow.
        ones = np.ones(pattern.shape[1], np.zeros(0, self.dtype).sum().dtype)
        return _finished(_product(self.data, ones, pattern), dtype, out)

    def mean(self, axis: int | tuple[int, ...] | None = None, dtype: Any = None, out: Any = None) -> Tensor:
        """Return the mean of all elements, zeros included, or that of each column (axis 0) or row (axis 1)."""
        place, (rows, columns) = self._axis(axis), self.pattern.shape
        count = rows * columns if place is None else rows if place == 0 else columns
        return _finished(self.sum(place) / count, dtype, out)

    def trace(self, offset: int = 0) -> Tensor:
        """Return the sum of a diagonal; see `diagonal`."""
        return self.diagonal(offset).sum()

    def copy(self) -> SparseArray:
        """Return another array of the same pattern, whose elements are a copy."""
        return self._of_kind(self.data.copy(), self.pattern)

    def conj(self, copy: bool = True) -> SparseArray:
        """Return the array of conjugated elements; `copy` has no effect."""
        return self._of_kind(np.conjugate(self.data), self.pattern) if self.dtype.kind == "c" else self

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

    def power(self, n: float, dtype: Any = None) -> SparseArray:
        """Return the array of powers of the elements, with a number other than 0 as exponent."""
        if np.ndim(n) or n == 0:
            raise ArgumentError(f"scipy.sparse: power of a sparse array takes a number other than 0, not {n}")
        return _in_dtype(self, dtype)._elementwise(lambda data: data**n)

    def count_nonzero(self, axis: int | tuple[int, ...] | None = None) -> Any:
        """Return the number of elements that are not 0, or those of each column (axis 0) or row (axis 1)."""
        place, (data, pattern) = self._axis(axis), self._deduplicated()
        if place is None:
            return int(np.count_nonzero(raw(data)))
        return np.bincount(pattern.positions()[1 - place][raw(data) != 0], minlength=pattern.shape[1 - place])

    def nonzero(self) -> tuple[Any, ...]:
        """Return the rows and the columns, or the places in a vector, of the elements that are not 0."""
        data, pattern = self._deduplicated()
        return self._places(pattern, raw(data) != 0)

    def _places(self, pattern: Pattern, is_kept: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the places of some elements of a pattern, as SciPy's numbers."""
        places = pattern.positions()[1:] if self.is_vector else pattern.positions()
        kind = sparse.get_index_dtype(maxval=max(self.shape))
        return tuple([place[is_kept].astype(kind, copy=False) for place in places])

    def max(self, axis: int | tuple[int, ...] | None = None, out: None = None, *, explicit: bool = False) -> Any:
        """Return the largest element, or that of each column (axis 0) or row (axis 1) as a sparse vector.

        Zeros that are not stored count, unless `explicit`; `out` must be None, as for SciPy.
        """
        return self._extreme(np.max, np.maximum, axis, out, explicit)

    def min(self, axis: int | tuple[int, ...] | None = None, out: None = None, *, explicit: bool = False) -> Any:
        """Return the smallest element, or that of each column (axis 0) or row (axis 1); see `max`."""
        return self._extreme(np.min, np.minimum, axis, out, explicit)

    def nanmax(self, axis: int | tuple[int, ...] | None = None, out: None = None, *, explicit: bool = False) -> Any:
        """Return the largest element that is not NaN; see `max`."""
        return self._extreme(np.nanmax, np.fmax, axis, out, explicit)

    def nanmin(self, axis: int | tuple[int, ...] | None = None, out: None = None, *, explicit: bool = False) -> Any:
        """Return the smallest element that is not NaN; see `max`."""
        return self._extreme(np.nanmin, np.fmin, axis, out, explicit)

    def argmax(self, axis: int | tuple[int, ...] | None = None, out: None = None, *, explicit: bool = False) -> Any:
        """Return the place of the largest element, or the places of those of `max`, which have no derivative."""
        return self.tocsr().toscipy().argmax(axis, out, explicit=explicit)

    def argmin(self, axis: int | tuple[int, ...] | None = None, out: None = None, *, explicit: bool = False) -> Any:
        """Return the place of the smallest element, or the places of those of `min`, which have no derivative."""
        return self.tocsr().toscipy().argmin(axis, out, explicit=explicit)

    def _extreme(self, function: Callable[[Any], Any], reduction: Any, axis: Any, out: Any, explicit: bool) -> Any:
        if out is not None:
            raise ValueError("scipy.sparse: extremes of sparse arrays take no out but None")
        place = self._axis(axis)
        if 0 in (self.shape if place is None else self.shape[place : place + 1]):
            raise ValueError(f"scipy.sparse: an array of shape {self.shape} has no largest or smallest element")
        if place is not None:
            pattern = self.pattern if place == 1 else self.pattern.transpose()
            return SparseArray(*extreme_of_rows(self.data, pattern, reduction, explicit), True)
        data, pattern = self._deduplicated()
        if not len(data) or (len(data) < pattern.shape[0] * pattern.shape[1] and not explicit):
            data = np.concatenate([data, np.zeros(1, data.dtype)])
        return function(data)

    def maximum(self, other: Any) -> Any:
        """Return the larger elements of this array and of another sparse one, a number or, as a Tensor, a dense one."""
        return self._larger(other, np.maximum)

    def minimum(self, other: Any) -> Any:
        """Return the smaller elements of this array and of another; see `maximum`."""
        return self._larger(other, np.minimum)

    def _larger(self, other: Any, function: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, SparseArray) or sparse.issparse(other):
            return self._with(other, "compared with", lambda *both: _of_both(function, *both))
        if np.ndim(other):
            return function(self.toarray(), asarray(other))
        if function(0, raw(other)) == 0:
            return self._elementwise(lambda data: function(data, other))
        return csr_array(function(self.toarray(), other))

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
        """Return the product with a dense vector or matrix, as a Tensor, or with a sparse one or a number.

        That of two vectors is a Tensor without axes.
        """
        is_sparse = isinstance(other, SparseArray) or sparse.issparse(other)
        right: Any = _as_sparse(other) if is_sparse else asarray(other)
        if np.isscalar(other):
            return self.multiply(other)
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
        if np.ndim(other) == 0 and not isinstance(other, SparseArray):
            raise ValueError("scipy.sparse: a number has no matrix product: write A * number")
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
            if self.dtype.kind == right.dtype.kind == "b":
                return self._with(right, "less", lambda *both: _of_both(np.logical_xor, *both))
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

    def __iter__(self) -> Iterator[SparseArray | Tensor]:
        for index in range(self.shape[0]):
            yield self[index]

    def __bool__(self) -> bool:
        if self.shape != (1, 1):
            raise ValueError(
                f"scipy.sparse: the truth value of an array of shape {self.shape} is ambiguous: compare what is meant, "
                "such as A.nnz > 0"
            )
        return self.nnz > 0

    def __neg__(self) -> SparseArray:
        return self._of_kind(-self.data, self.pattern)

    def __repr__(self) -> str:
        return f"SparseArray(shape={self.shape}, nnz={self.nnz}, dtype={self.dtype})"


def _plain_key(key: Any) -> Any:
    """Return a part of a key without tensors."""
    return key.toscipy() if isinstance(key, SparseArray) else raw(key)


def _of_both(
    function: Callable[[Any, Any], Any], x: Any, x_pattern: Pattern, y: Any, y_pattern: Pattern
) -> tuple[Any, Pattern]:
    """Return the elements of a function of two sparse matrices that is 0 where both are."""
    one, other, pattern = beside_one_another(x, x_pattern, y, y_pattern)
    return function(one, other), pattern


def _finished(found: Any, dtype: Any, out: Any) -> Tensor:
    """Return a result in a dtype, or write it into `out`."""
    result: Tensor = found if dtype is None else found.astype(dtype, copy=False)
    if out is None:
        return result
    if out.shape != result.shape:
        raise ValueError(f"scipy.sparse: out must have the shape {result.shape}, not {out.shape}")
    out[...] = result
    written: Tensor = out
    return written


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
        # Copies, since nobody may write into those of a pattern.
        data, indices, indptr = asarray(argument[0]), np.array(argument[1]), np.array(argument[2])
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


def dia_array(
    arg1: Any, shape: tuple[int, ...] | None = None, dtype: npt.DTypeLike | None = None, copy: bool = False
) -> SparseArray:
    """Return a sparse array of `(data, offsets)`, or as `csr_array`.

    Row k of `data`, shape (k, n), has the diagonal `offsets[k]`, and its element j is in column j; what lies outside
    of the array is left out.
    """
    return _in_dtype(_by_numbers("dia_array", arg1, shape), dtype)


def bsr_array(
    arg1: Any,
    shape: tuple[int, ...] | None = None,
    dtype: npt.DTypeLike | None = None,
    copy: bool = False,
    blocksize: tuple[int, int] | None = None,
) -> SparseArray:
    """Return a sparse array of `(data, indices, indptr)`, blocks of shape (k, rows, columns), or as `csr_array`."""
    return _in_dtype(_by_numbers("bsr_array", arg1, shape), dtype)


def _by_numbers(name: str, arg1: Any, shape: tuple[int, ...] | None) -> SparseArray:
    """Return the array in which SciPy's constructor puts the elements where it puts their numbers."""
    is_parts = isinstance(arg1, tuple) and np.ndim(raw(arg1[0])) >= 2
    if not is_parts:
        return coo_array(arg1, shape)
    data = asarray(arg1[0])
    numbers = np.arange(1, data.size + 1).reshape(data.shape)
    placed = getattr(sparse, name)((numbers, *arg1[1:]), shape=shape).tocoo()
    return coo_array((np.reshape(data, -1)[placed.data - 1], placed.coords), placed.shape)


def find(A: Any) -> tuple[np.ndarray, np.ndarray, Tensor]:
    """Return the rows, the columns and the values of the elements that are not 0, in the order of rows.

    Args:
        A: a sparse array of asyncgrad.scipy.sparse, SciPy's, or a dense matrix.

    Source: scipy.sparse.find.

    Example:
        >>> rows, columns, values = find(diags_array([2.0, 0.0, 3.0]))
        >>> rows.tolist(), columns.tolist(), values.tolist()
        ([0, 2], [0, 2], [2.0, 3.0])
    """
    matrix = coo_array(A)
    if matrix.is_vector:
        raise ValueError(f"scipy.sparse.find takes an array of two axes, not shape {matrix.shape}: write A.nonzero()")
    data, pattern = matrix._deduplicated()
    is_kept = raw(data) != 0
    rows, columns = matrix._places(pattern, is_kept)
    return rows, columns, asarray(data[is_kept])


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


def _arranged(function: Callable[..., Any], blocks: Any, dtype: Any = None) -> SparseArray:
    arrays = [_part(one) for one in blocks]
    kind = np.result_type(*(one.dtype for one in arrays)) if dtype is None else np.dtype(dtype)
    data = [one.data.astype(kind, copy=False) for one in arrays]
    found = arranged(function, data, [one.pattern for one in arrays], [one.is_vector for one in arrays])
    return SparseArray(*found)


def _part(block: Any) -> SparseArray:
    """Return a block, which may be dense, as a sparse array."""
    return _as_sparse(block) if isinstance(block, SparseArray) or sparse.issparse(block) else coo_array(block)


def hstack(blocks: Any, format: str | None = None, dtype: npt.DTypeLike | None = None) -> SparseArray:
    """Return arrays beside one another; see `scipy.sparse.hstack`. `format` has no effect."""
    return _arranged(lambda *matrices: sparse.hstack(matrices), blocks, dtype)


def vstack(blocks: Any, format: str | None = None, dtype: npt.DTypeLike | None = None) -> SparseArray:
    """Return arrays below one another; see `scipy.sparse.vstack`. `format` has no effect."""
    return _arranged(lambda *matrices: sparse.vstack(matrices), blocks, dtype)


def block_diag(mats: Any, format: str | None = None, dtype: npt.DTypeLike | None = None) -> SparseArray:
    """Return the array with arrays along its diagonal; see `scipy.sparse.block_diag`. `format` has no effect."""
    blocks = [one if isinstance(one, SparseArray) or sparse.issparse(one) else np.atleast_2d(one) for one in mats]
    return _arranged(lambda *matrices: sparse.block_diag(matrices), blocks, dtype)


def block_array(blocks: Any, *, format: str | None = None, dtype: npt.DTypeLike | None = None) -> SparseArray:
    """Return the array of rows of blocks, of which None is one of zeros; see `scipy.sparse.block_array`."""
    rows = [list(row) for row in blocks]

    def filled(*matrices: Any) -> Any:
        rest = iter(matrices)
        return sparse.block_array([[None if one is None else next(rest) for one in row] for row in rows])

    return _arranged(filled, [one for row in rows for one in row if one is not None], dtype)


def tril(A: Any, k: int = 0, format: str | None = None) -> SparseArray:
    """Return the lower triangle of an array; see `scipy.sparse.tril`. `format` has no effect."""
    return _arranged(lambda matrix: sparse.tril(matrix, k), [A])


def triu(A: Any, k: int = 0, format: str | None = None) -> SparseArray:
    """Return the upper triangle of an array; see `scipy.sparse.triu`. `format` has no effect."""
    return _arranged(lambda matrix: sparse.triu(matrix, k), [A])


def kron(A: Any, B: Any, format: str | None = None) -> SparseArray:
    """Return the Kronecker product of two arrays; see `scipy.sparse.kron`. `format` has no effect."""
    first, second = _part(A), _part(B)
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
