"""The cost of a node's body: an estimate of its duration, by which a worker may be chosen to run it.

A long body blocks its thread, and the event loop that runs there, so a worker runs it instead. The test for a heavy
body must cost nothing in a process that has none. So only functions whose work grows faster than their arrays (such as
a matrix product) always check the sizes of their arrays and raise `OffloadSignal`. All other bodies begin to do so once
a body on large arrays has used up the time budget of a backward in this process.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
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

#: The least number of elements of a large array. A body that takes one step for each element may then be heavy.
LARGE = 1 << 18
#: The least number of multiplications that may make a function heavy whose work grows faster than its arrays.
MANY_PRODUCTS = 1 << 23

#: The estimate for one element and one formula, until a run is measured. (Measured: 0.3 to 3 ns of one core.)
_SECONDS_PER_ELEMENT = 1e-9
#: The estimate for one multiplication and addition of a superlinear function, and one formula.
_SECONDS_PER_PRODUCT = 1e-10

_on_large_arrays: list[Callable[[], None]] = []
#: Whether every body checks the sizes of its arrays.
large_arrays_met: list[bool] = [False]
#: Counts the changes of the set of bodies that are measured on arrays below the size LARGE.
watch_changes: list[int] = [0]


def size_of(value: Any) -> int:
    """Return the number of elements of an array, a tensor or anything with a shape; 1 for a value without one."""
    size = getattr(value, "size", None)
    if type(size) is int:
        # An array of NumPy's. Others have a method of that name, or nothing.
        return size
    shape = getattr(getattr(value, "_data", value), "shape", ())
    return prod(shape) if type(shape) is tuple else 1


def least_volume(arrays: int) -> int:
    """Return the product of the sizes of this many arrays at which a function takes MANY_PRODUCTS multiplications.

    A product of matrices of m by k and k by n, whose gradient is m by n, takes as many multiplications as the root of
    the product of the three sizes. For another number of arrays this is a guess.
    """
    return int(MANY_PRODUCTS ** (arrays * 2 / 3))


def estimated_seconds(sizes: Sequence[int], formulas: int, superlinear: bool) -> float:
    """Return an estimate of how long a body takes, in seconds.

    Args:
        sizes: the sizes of the arrays that it reads.
        formulas: the number of gradients that it computes.
        superlinear: whether its work grows faster than its arrays: see `least_volume`.
    """
    if superlinear:
        products: float = float(prod(sizes)) ** (1.5 / len(sizes))
        return products * _SECONDS_PER_PRODUCT * formulas
    return max(sizes) * _SECONDS_PER_ELEMENT * formulas


def array_kind(value: Any) -> Any:
    """Return a key for arrays of equal cost: shape and dtype; for a value that is no array, its type."""
    value = getattr(value, "_data", value)
    shape = getattr(value, "shape", None)
    return type(value) if shape is None else (shape, getattr(value, "dtype", None))


def when_large_arrays_come(callback: Callable[[], None]) -> None:
    """Call `callback` once: when this process meets its first large array, or now if it already has."""
    if large_arrays_met[0]:
        callback()
    else:
        _on_large_arrays.append(callback)


def expect_large_arrays() -> None:
    """Make every body check the sizes of its arrays from now on, since this process uses large ones."""
    if large_arrays_met[0]:
        return
    large_arrays_met[0] = True
    while _on_large_arrays:
        _on_large_arrays.pop()()
