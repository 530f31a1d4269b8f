"""What type checkers know of the arrays that rules and the engine pass about.

Rules, graph and engine never name the library of an array: a type hint of theirs names this instead. It is never asked
for at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

__all__ = ["Array", "BareArray", "Flags"]


class Flags(Protocol):
    """Abstract: how the elements of an array lie in memory."""

    @property
    def c_contiguous(self) -> bool:
        """Whether they lie in rows without gaps, those along the last axis side by side."""

    @property
    def f_contiguous(self) -> bool:
        """Whether they lie in columns without gaps, those along the first axis side by side."""

    @property
    def owndata(self) -> bool:
        """Whether the array has memory of its own."""


class Array(Protocol):
    """Abstract: what may be asked of an array of each library, as of NumPy's, and of a Tensor.

    A scalar of NumPy's stands for an array without axes. The operators are not here: NumPy's hints of them are of pairs
    of dtypes, and a type checker takes seconds for each to find that they fit.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""

    @property
    def dtype(self) -> np.dtype:
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
    def flags(self) -> Flags:
        """How the elements lie in memory, and whether they can be written to."""

    @property
    def T(self) -> Array:
        """The same elements, with the axes in reverse order."""

    @property
    def mT(self) -> Array:
        """The same elements, with the last two axes swapped."""

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

    def __iter__(self) -> Iterator[Array]: ...

    def __lt__(self, other: Any, /) -> Any: ...

    def __len__(self) -> int: ...

    def __bool__(self) -> bool: ...

    def __index__(self) -> int: ...

    def __float__(self) -> float: ...

    def __int__(self) -> int: ...

    def __complex__(self) -> complex: ...

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

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

    def reshape(self, shape: Any, /, *more: Any, order: Any = "C") -> Array:
        """Return the elements in another shape."""

    def sum(self, axis: Any = None) -> Any:
        """Return the sum."""

    def swapaxes(self, axis1: int, axis2: int, /) -> Array:
        """Return the elements with two axes swapped."""

    def transpose(self, *axes: Any) -> Array:
        """Return the elements with the axes in another order."""

    def dot(self, b: Any, /) -> Any:
        """Return the sum of products over the last axis, and the last but one of `b`."""

    def squeeze(self, axis: Any = None) -> Array:
        """Return the elements without the axes of length 1."""

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

    def reshape(self, shape: Any, /, *more: Any, order: Any = "C") -> BareArray:
        """Return the elements in another shape."""

    def view(self) -> Any:
        """Return another array of the same memory, and of the same library."""
