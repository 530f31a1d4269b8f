"""NumPy's attributes and methods, as a Tensor has them: each is NumPy's function of that name on the tensor."""

from __future__ import annotations

from typing import Any, Self, SupportsIndex

import numpy as np

from .array_operators import ArrayOperators
from .errors import ArgumentTypeError
from .ops.arithmetic import conjugate, imag, real
from .ops.assigning import put
from .ops.casting import cast
from .ops.cumulative import cumprod, cumsum
from .ops.diagonals import diagonal, trace
from .ops.dispatch import call_function, write_by
from .ops.extremes import clip
from .ops.indexing import choose, compress, partition, sort, take
from .ops.linear_algebra import dot
from .ops.rearranging import repeat
from .ops.reductions import max, mean, min, prod, std, sum, var
from .ops.shaping import copy, matrix_transpose, ravel, reshape, squeeze, swapaxes, transpose
from .ops.windows import as_strided

__all__ = ["ArrayMethods"]


class ArrayMethods(ArrayOperators):
    """Abstract base of Tensor: what it has in common with an ndarray."""

    __slots__ = ()

    # About the array.

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._data.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return self._data.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._data.ndim  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self._data.size  # type: ignore[no-any-return]

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes."""
        return self._data.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """Bytes that all elements take together."""
        return self._data.nbytes  # type: ignore[no-any-return]

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, along each axis."""
        return self._data.strides  # type: ignore[no-any-return]

    @property
    def flags(self) -> Any:
        """How the elements lie in memory, and whether they can be written to."""
        return self._data.flags

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers, without history."""
        return self._data.tolist()

    # The same elements otherwise.

    @property
    def T(self) -> Self:
        """A view with the axes in reverse order."""
        return transpose(self)  # type: ignore[no-any-return]

    @property
    def mT(self) -> Self:
        """A view with the last two axes in each other's place."""
        return matrix_transpose(self)  # type: ignore[no-any-return]

    @property
    def real(self) -> Self:
        """The real part, a view."""
        return real(self)  # type: ignore[no-any-return]

    @real.setter
    def real(self, value: Any) -> None:
        real(self)[...] = value

    @property
    def imag(self) -> Self:
        """The imaginary part, a view; zeros for a real dtype, which cannot be written."""
        return imag(self)  # type: ignore[no-any-return]

    @imag.setter
    def imag(self, value: Any) -> None:
        if self._data.dtype.kind != "c":
            raise ArgumentTypeError(
                f"a tensor of dtype {self._data.dtype} has no imaginary part to write into: make it complex first, "
                "t = t.astype(complex)"
            )
        imag(self)[...] = value

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """Return the elements in another shape, given as one tuple or as several numbers."""
        if not shape:
            raise ArgumentTypeError("reshape needs a shape: t.reshape(()) is the one of an array without axes")
        return reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)  # type: ignore[no-any-return]

    def ravel(self, order: str = "C") -> Self:
        """Return the elements in one row; a view where that can be."""
        return ravel(self, order)  # type: ignore[no-any-return]

    def flatten(self, order: str = "C") -> Self:
        """Return a copy of the elements in one row."""
        flat = ravel(self, order)
        return flat if flat._view is None else copy(flat)  # type: ignore[no-any-return]

    def transpose(self, *axes: Any) -> Self:
        """Return a view with the axes in another order, given as one tuple or as several numbers."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], SupportsIndex) else axes or None
        return transpose(self, order)  # type: ignore[no-any-return]

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Return a view with two axes in each other's place."""
        return swapaxes(self, axis1, axis2)  # type: ignore[no-any-return]

    def squeeze(self, axis: Any = None) -> Self:
        """Return a view without the axes of length 1, or without those named."""
        return squeeze(self, axis)  # type: ignore[no-any-return]

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """Return a read-only view of the diagonals of the matrices that two axes make."""
        return diagonal(self, offset, axis1, axis2)  # type: ignore[no-any-return]

    def as_strided(self, shape: Any, strides: Any) -> Self:
        """Return a view that begins where this tensor does, with a shape, and with strides in bytes.

        What np.lib.stride_tricks.as_strided is for an ndarray; that cannot be called on a tensor that requires grad.
        It may not reach outside of this tensor's memory. Writes into elements that share memory are refused.
        """
        return as_strided(self, shape, strides)  # type: ignore[no-any-return]

    def repeat(self, repeats: Any, axis: int | None = None) -> Self:
        """Return each element along an axis several times."""
        return repeat(self, repeats, axis)  # type: ignore[no-any-return]

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Self:
        """Return the elements in another dtype; the gradient comes back in this one."""
        return cast(self, dtype, order, casting, copy)  # type: ignore[no-any-return]

    def copy(self, order: str = "C") -> Self:
        """Return a copy, through which gradients flow."""
        return copy(self, order)  # type: ignore[no-any-return]

    def clone(self) -> Self:
        """Return a copy laid out in memory as this tensor is, through which gradients flow."""
        return copy(self)  # type: ignore[no-any-return]

    # Parts.

    def take(self, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Self:
        """Return the elements at indices along an axis; None counts them in one row."""
        return take(self, indices, axis, out, mode)  # type: ignore[no-any-return]

    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Self:
        """Return the elements along an axis where a row of conditions holds."""
        return compress(condition, self, axis, out)  # type: ignore[no-any-return]

    def choose(self, choices: Any, out: Any = None, mode: str = "raise") -> Any:
        """Return for each element that one of the choices which it names."""
        return choose(self, choices, out, mode)

    def nonzero(self) -> tuple[Self, ...]:
        """Return the indices of the elements that are not 0, one array for each axis."""
        return call_function(np.nonzero, (self,), {})  # type: ignore[no-any-return]

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Self:
        """Return where to insert values into these sorted elements to keep them sorted."""
        return call_function(np.searchsorted, (self, v, side, sorter), {})  # type: ignore[no-any-return]

    def argsort(self, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Self:
        """Return the indices that would sort the elements along an axis."""
        return call_function(np.argsort, (self, axis, kind, order), {"stable": stable})  # type: ignore[no-any-return]

    def argpartition(self, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Self:
        """Return the indices that would partition the elements along an axis."""
        return call_function(np.argpartition, (self, kth, axis, kind, order), {})  # type: ignore[no-any-return]

    # In place.

    def fill(self, value: Any) -> None:
        """Set all elements to one value."""
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
        """Sort the elements along an axis, in place; np.sort gives a sorted copy."""
        write_by(self, sort, (self, axis, kind, order), stable=stable)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Partition the elements along an axis, in place; np.partition gives a copy."""
        write_by(self, partition, (self, kth, axis, kind, order))

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values, repeated where they are too few, at indices into the elements taken as one row, in place."""
        put(self, indices, values, mode)

    # Reductions.

    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = 0,
        where: Any = True,
    ) -> Self:
        """Return the sum over axes; None takes all."""
        return sum(self, axis, dtype, out, keepdims, initial, where)  # type: ignore[no-any-return]

    def mean(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
    ) -> Self:
        """Return the mean over axes; None takes all."""
        return mean(self, axis, dtype, out, keepdims, where=where)  # type: ignore[no-any-return]

    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = 1,
        where: Any = True,
    ) -> Self:
        """Return the product over axes; None takes all."""
        return prod(self, axis, dtype, out, keepdims, initial, where)  # type: ignore[no-any-return]

    def var(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, **more: Any
    ) -> Self:
        """Return the variance over axes; `where`, `mean` and `correction` are NumPy's too."""
        return var(self, axis, dtype, out, ddof, keepdims, **more)  # type: ignore[no-any-return]

    def std(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, **more: Any
    ) -> Self:
        """Return the standard deviation over axes; `where`, `mean` and `correction` are NumPy's too."""
        return std(self, axis, dtype, out, ddof, keepdims, **more)  # type: ignore[no-any-return]

    def max(
        self, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Self:
        """Return the largest element along axes; equal ones share the gradient evenly."""
        return max(self, axis, out, keepdims, initial, where)  # type: ignore[no-any-return]

    def min(
        self, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Self:
        """Return the smallest element along axes; equal ones share the gradient evenly."""
        return min(self, axis, out, keepdims, initial, where)  # type: ignore[no-any-return]

    def argmax(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Self:
        """Return the index of the largest element along an axis."""
        return call_function(np.argmax, (self, axis), {"out": out, "keepdims": keepdims})  # type: ignore[no-any-return]

    def argmin(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Self:
        """Return the index of the smallest element along an axis."""
        return call_function(np.argmin, (self, axis), {"out": out, "keepdims": keepdims})  # type: ignore[no-any-return]

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Self:
        """Return whether one element at least is not 0."""
        options = {"out": out, "keepdims": keepdims, "where": where}
        return call_function(np.any, (self, axis), options)  # type: ignore[no-any-return]

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Self:
        """Return whether no element is 0."""
        options = {"out": out, "keepdims": keepdims, "where": where}
        return call_function(np.all, (self, axis), options)  # type: ignore[no-any-return]

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Self:
        """Return the running sum along an axis."""
        return cumsum(self, axis, dtype, out)  # type: ignore[no-any-return]

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Self:
        """Return the running product along an axis."""
        return cumprod(self, axis, dtype, out)  # type: ignore[no-any-return]

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Self:
        """Return the sums of the diagonals."""
        return trace(self, offset, axis1, axis2, dtype, out)  # type: ignore[no-any-return]

    # Elementwise, and products.

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Self:
        """Return the elements kept between two bounds."""
        return clip(self, min, max, out, **kwargs)  # type: ignore[no-any-return]

    def round(self, decimals: int = 0, out: Any = None) -> Self:
        """Return the elements rounded; no gradient flows."""
        return call_function(np.round, (self, decimals), {"out": out})  # type: ignore[no-any-return]

    def conj(self) -> Self:
        """Return the complex conjugates; of real numbers the tensor itself."""
        return conjugate(self) if self._data.dtype.kind == "c" else self

    def conjugate(self) -> Self:
        """Return the complex conjugates; of real numbers the tensor itself."""
        return conjugate(self) if self._data.dtype.kind == "c" else self

    def dot(self, b: Any, out: Any = None) -> Self:
        """Return the sum of products over the last axis and the last but one (or the only one) of `b`."""
        return dot(self, b, out)  # type: ignore[no-any-return]
