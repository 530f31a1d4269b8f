"""What type checkers know of what stands for an array: the arguments of functions that take arrays.

It is never asked for at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import EllipsisType
    from typing import SupportsIndex

    import numpy as np

    from .tensor_base import TensorBase

    #: What stands for an array: one of any library, a Tensor, a number, or nested sequences of them.
    TensorLike: TypeAlias = TensorBase | "HasArray" | complex | "Nested"
    #: One length, or several.
    Lengths: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
    #: One length or several, None for one that stays as it is.
    NewLengths: TypeAlias = SupportsIndex | Sequence[SupportsIndex | None] | None
    #: What stands for one axis in the index of an array.
    AxisIndex: TypeAlias = SupportsIndex | slice | EllipsisType | TensorLike | None
    #: The index of an array.
    Index: TypeAlias = AxisIndex | tuple[AxisIndex, ...]

__all__ = ["AxisIndex", "HasArray", "Index", "Lengths", "Nested", "NewLengths", "TensorLike"]


class HasArray(Protocol):
    """Abstract: what NumPy makes an array of."""

    def __array__(self) -> np.ndarray: ...


class Nested(Protocol):
    """Abstract: a sequence of what stands for an array. A string is none: it looks for strings alone in itself."""

    def __len__(self) -> int: ...

    def __contains__(self, element: object, /) -> bool: ...

    def count(self, element: Any, /) -> int:
        """Return how often the element is there. Of what can be iterated over, sequences alone have it."""

    def __iter__(self) -> Iterator[TensorLike]: ...
