"""How heavy a node's body is: the signal of one that may be, and the estimate of how long one takes.

A body that takes long keeps its thread, and an event loop in it, for as long; a worker can have it instead. Whether
one is heavy may cost nothing where none is. So the bodies of functions whose work grows faster than their arrays (a
matrix product) look at the sizes of these before they begin, and raise `OffloadSignal`; all others do so only once one
on large arrays has used up the time budget of a backward in this process.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "OffloadSignal",
    "LARGE",
    "MANY_PRODUCTS",
    "estimated_seconds",
    "expect_large_arrays",
    "array_kind",
    "large_arrays_met",
    "least_volume",
    "size_of",
    "watch_changes",
    "when_large_arrays_come",
]

#: From how many elements on an array is large: what takes one step for each of them may then be heavy.
LARGE = 1 << 18
#: From how many multiplications on a function may be heavy whose work grows faster than its arrays.
MANY_PRODUCTS = 1 << 23

#: Estimates, until it is measured: for one element, by one formula. (Measured: 0.3 to 3 ns of one core.)
_SECONDS_PER_ELEMENT = 1e-9
#: For one multiplication and addition of a superlinear function, by one formula.
_SECONDS_PER_PRODUCT = 1e-10

_on_large_arrays: list[Callable[[], None]] = []
#: Whether every body looks at the sizes of its arrays.
large_arrays_met = [False]
#: How often it has changed which runs on arrays that are not large are measured.
watch_changes = [0]


@final
class OffloadSignal(Exception):
    """Raised by a plain body before it does anything: it may take long. No error: the engine catches it."""

    __slots__ = ()


def size_of(value: Any) -> int:
    """Return the number of elements of an array, a tensor, or what else has a shape; 1 for what has none."""
    value = getattr(value, "_data", value)
    shape = getattr(value, "shape", ())
    return prod(shape) if type(shape) is tuple else 1


def least_volume(arrays: int) -> int:
    """Return from which product of the sizes of so many arrays on there are MANY_PRODUCTS multiplications.

    A product of matrices of m by k and k by n, whose gradient has m by n, takes the root of the product of the three
    sizes; for another number of arrays this is a guess.
    """
    return int(MANY_PRODUCTS ** (arrays * 2 / 3))


def estimated_seconds(sizes: Sequence[int], formulas: int, superlinear: bool) -> float:
    """Return about how long a body takes.

    Args:
        sizes: of the arrays that it reads.
        formulas: how many gradients it computes.
        superlinear: whether its work grows faster than its arrays: see `least_volume`.
    """
    if superlinear:
        products: float = float(prod(sizes)) ** (1.5 / len(sizes))
        return products * _SECONDS_PER_PRODUCT * formulas
    return max(sizes) * _SECONDS_PER_ELEMENT * formulas


def array_kind(value: Any) -> Any:
    """Return what arrays that take about as long have in common: shape and dtype; the type of what is no array."""
    value = getattr(value, "_data", value)
    shape = getattr(value, "shape", None)
    return type(value) if shape is None else (shape, getattr(value, "dtype", None))


def when_large_arrays_come(callback: Callable[[], None]) -> None:
    """Call `callback` once, when the first large array is met, or now if it has been."""
    if large_arrays_met[0]:
        callback()
    else:
        _on_large_arrays.append(callback)


def expect_large_arrays() -> None:
    """Let every body look at the sizes of its arrays from now on, since there are large ones in this process."""
    if large_arrays_met[0]:
        return
    large_arrays_met[0] = True
    while _on_large_arrays:
        _on_large_arrays.pop()()
