"""What type checkers know of the arrays that rules and the engine pass about.

Rules, graph and engine never name the library of an array: a type hint of theirs names this instead. It is never asked
for at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Array"]


class Array(Protocol):
    """Abstract: what may be asked of an array of each library, as of NumPy's."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""

    @property
    def dtype(self) -> np.dtype[Any]:
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
    def base(self) -> Any:
        """The array whose memory this one shares, or None."""

    def __array__(self) -> np.ndarray:
        """Return it as NumPy's; a device may refuse."""

    def __getitem__(self, index: Any, /) -> Any: ...

    def __setitem__(self, index: Any, value: Any, /) -> None: ...

    def __len__(self) -> int: ...

    def __float__(self) -> float: ...

    def __int__(self) -> int: ...

    def __complex__(self) -> complex: ...

    def __lt__(self, other: Any, /) -> Any: ...

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> Any: ...

    def any(self, axis: Any = None) -> Any:
        """Tell whether one element at least is not 0."""

    def copy(self, order: Any = "C") -> Any:
        """Return a copy."""

    def reshape(self, shape: Any, /) -> Any:
        """Return the elements in another shape."""

    def view(self) -> Any:
        """Return another array of the same memory."""

    def item(self) -> Any:
        """Return the only element as a Python number."""

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
