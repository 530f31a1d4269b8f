"""What type checkers know of the arrays that rules and the engine pass about.

Rules, graph and engine never name the library of an array: a type hint of theirs names this instead. It is never asked
for at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Array", "BareArray"]


class Array(Protocol):
    """Abstract: what may be asked of an array of each library, as of NumPy's, and of a Tensor.

    A scalar of NumPy's stands for an array without axes. What an operator takes is left open: each library takes its own
    arrays, and NumPy's hints of its operators are of pairs of dtypes.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """NumPy's dtype of the elements."""

    @property
    def ndim(self) -> int:
        """How many axes there are."""

    @property
    def size(self) -> int:
        """How many elements there are."""

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes."""

    @property
    def nbytes(self) -> int:
        """Bytes that all elements take together."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, along each axis."""

    @property
    def flags(self) -> Any:
        """How the elements lie in memory, and whether they can be written to."""

    @property
    def T(self) -> Array:
        """The same elements, with the axes in reverse order."""

    @property
    def real(self) -> Array:
        """The real part."""

    @property
    def imag(self) -> Array:
        """The imaginary part."""

    def __array__(self) -> np.ndarray:
        """Return it as NumPy's; a device may refuse."""

    def __getitem__(self, index: Any, /) -> Array: ...

    def __setitem__(self, index: Any, value: Any, /) -> None: ...

    def __len__(self) -> int: ...

    def __bool__(self) -> bool: ...

    def __index__(self) -> int: ...

    def __float__(self) -> float: ...

    def __int__(self) -> int: ...

    def __complex__(self) -> complex: ...

    def __add__(self, other: Any, /) -> Array: ...

    def __radd__(self, other: Any, /) -> Array: ...

    def __sub__(self, other: Any, /) -> Array: ...

    def __rsub__(self, other: Any, /) -> Array: ...

    def __mul__(self, other: Any, /) -> Array: ...

    def __rmul__(self, other: Any, /) -> Array: ...

    def __truediv__(self, other: Any, /) -> Array: ...

    def __rtruediv__(self, other: Any, /) -> Array: ...

    def __floordiv__(self, other: Any, /) -> Array: ...

    def __rfloordiv__(self, other: Any, /) -> Array: ...

    def __mod__(self, other: Any, /) -> Array: ...

    def __rmod__(self, other: Any, /) -> Array: ...

    def __pow__(self, other: Any, /) -> Array: ...

    def __rpow__(self, other: Any, /) -> Array: ...

    def __matmul__(self, other: Any, /) -> Array: ...

    def __rmatmul__(self, other: Any, /) -> Array: ...

    def __and__(self, other: Any, /) -> Array: ...

    def __rand__(self, other: Any, /) -> Array: ...

    def __or__(self, other: Any, /) -> Array: ...

    def __ror__(self, other: Any, /) -> Array: ...

    def __xor__(self, other: Any, /) -> Array: ...

    def __rxor__(self, other: Any, /) -> Array: ...

    def __lt__(self, other: Any, /) -> Array: ...

    def __le__(self, other: Any, /) -> Array: ...

    def __gt__(self, other: Any, /) -> Array: ...

    def __ge__(self, other: Any, /) -> Array: ...

    def __neg__(self) -> Array: ...

    def __pos__(self) -> Array: ...

    def __abs__(self) -> Array: ...

    def __invert__(self) -> Array: ...

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> Any: ...

    def all(self, axis: Any = None) -> Any:
        """Tell whether no element is 0."""

    def any(self, axis: Any = None) -> Any:
        """Tell whether one element at least is not 0."""

    def argmax(self, axis: Any = None) -> Any:
        """Return the index of the largest element."""

    def argmin(self, axis: Any = None) -> Any:
        """Return the index of the smallest element."""

    def astype(self, dtype: Any, /, *, copy: bool = True) -> Array:
        """Return the elements in another dtype."""

    def conj(self) -> Array:
        """Return the complex conjugates."""

    def copy(self, order: Any = "C") -> Array:
        """Return a copy."""

    def max(self, axis: Any = None) -> Any:
        """Return the largest element."""

    def min(self, axis: Any = None) -> Any:
        """Return the smallest element."""

    def mean(self, axis: Any = None) -> Any:
        """Return the mean."""

    def ravel(self, order: Any = "C") -> Array:
        """Return the elements in one row."""

    def reshape(self, shape: Any, /) -> Array:
        """Return the elements in another shape."""

    def sum(self, axis: Any = None) -> Any:
        """Return the sum."""

    def swapaxes(self, axis1: int, axis2: int, /) -> Array:
        """Return the elements with two axes swapped."""

    def transpose(self, *axes: Any) -> Array:
        """Return the elements with the axes in another order."""

    def item(self) -> Any:
        """Return the only element as a Python number."""

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""


class BareArray(Array, Protocol):
    """Abstract: an array of a library, and no Tensor: what a Tensor holds, and what the engine hands to a body."""

    @property
    def base(self) -> Any:
        """The array whose memory this one shares, or None."""

    def __getitem__(self, index: Any, /) -> BareArray: ...

    def copy(self, order: Any = "C") -> BareArray:
        """Return a copy."""

    def reshape(self, shape: Any, /) -> BareArray:
        """Return the elements in another shape."""

    def view(self) -> Any:
        """Return another array of the same memory, and of the same library."""
