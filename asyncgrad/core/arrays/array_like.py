"""What type checkers know of what stands for an array: the arguments of functions that take arrays.

It is never asked for at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import SupportsIndex

    import numpy as np

    from .tensor_base import TensorBase

    #: What stands for an array: one of any library, a Tensor, a number, or nested sequences of them.
    TensorLike: TypeAlias = TensorBase | "HasArray" | complex | "Nested"
    #: One length, or several.
    Lengths: TypeAlias = SupportsIndex | Sequence[SupportsIndex]

__all__ = ["HasArray", "Lengths", "Nested", "TensorLike"]


class HasArray(Protocol):
    """Abstract: what NumPy makes an array of."""

    def __array__(self) -> np.ndarray: ...


class Nested(Protocol):
    """Abstract: a sequence of what stands for an array. A string is none: it looks for strings alone in itself."""

    def __len__(self) -> int: ...

    def __contains__(self, element: object, /) -> bool: ...

    # A sequence alone has it, and what it takes may be of the class of its elements.
    def count(self, element: Any, /) -> int: ...

    def __iter__(self) -> Iterator[TensorLike]: ...
