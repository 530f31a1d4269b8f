"""A call of a loop, and where its operands lie; the runner takes it as a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, final

import numpy as np

from .inner_loops import InnerLoop, address_of
from .runner import MOST_OPERANDS, RECORD
from .trace import Value

__all__ = ["LoopCall", "Operand", "Operands", "filled", "number_of", "overlaps", "steps_along", "strides_in_order"]


@final
class LoopCall:
    """A call of a loop, once for each element of the axes around it; one without a loop does nothing.

    Args:
        loop: the loop.
        operands: what it is called with; the last is the result.
        outer: how many axes there are around it.
        counts: the length of each of these, and the numbers that the loop takes.
        steps: the steps of the operands along each axis, and those that the loop takes, in bytes.
        ignored: the bits of the floating-point errors that nobody is to be told of.
        clears: whether the loop may clear the flags of those before it.
        flag: the address of a byte that is 0 where the loop is not to be called; 0 for a loop that always is.
    """

    __slots__ = ("clears", "collects", "counts", "flag", "ignored", "loop", "operands", "outer", "steps")

    def __init__(
        self,
        loop: InnerLoop | None,
        operands: Sequence[Operand],
        outer: int,
        counts: list[int],
        steps: list[int],
        ignored: int,
        clears: bool,
        flag: int = 0,
    ) -> None:
        self.loop = loop
        self.operands = operands
        self.outer = outer
        self.counts = counts
        self.steps = steps
        self.ignored = ignored
        self.clears = clears
        self.flag = flag
        #: Whether the flags are collected after it.
        self.collects = clears

    def record(self) -> tuple[Any, ...]:
        """Return the record for the runner."""
        assert self.loop is not None
        return (
            self.loop.function,
            self.loop.data,
            self.outer,
            int(self.collects),
            self.ignored,
            self.flag,
            filled([one.base for one in self.operands], MOST_OPERANDS),
            filled([one.offset for one in self.operands], MOST_OPERANDS),
            filled(self.counts, RECORD["counts"].shape[0]),
            filled(self.steps, RECORD["steps"].shape[0]),
        )


@final
class Operand:
    """Where an operand lies.

    Args:
        base: the number of the array that a call gives; 0 for one that is there before.
        offset: how many bytes behind that it begins; of one that is there before, its address.
        dtype: its dtype.
        shape: its shape.
        strides: its strides in bytes.
    """

    __slots__ = ("base", "dtype", "offset", "shape", "strides")

    def __init__(
        self, base: int, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        self.base = base
        self.offset = offset
        self.dtype = dtype
        self.shape = shape
        self.strides = strides

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    def place(self) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """Return what is the same for operands that are the same elements of one array."""
        return self.base, self.offset, self.shape, self.strides

    def meets(self, other: Operand) -> bool:
        """Tell whether it may have a byte in common with another one."""
        if self.base or other.base:
            # What calls bring may lie anywhere, but for the memory of a table, which nobody else ever has.
            return self.base > 0 and other.base > 0
        (low, high), (bottom, top) = self._extent(), other._extent()
        return low < top and bottom < high

    def _extent(self) -> tuple[int, int]:
        spans = [(length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(one for one in spans if one < 0)
        return low, self.offset + sum(one for one in spans if one > 0) + self.dtype.itemsize

    def is_flat(self) -> bool:
        """Tell whether the elements lie one after the other, in C order."""
        expected = self.dtype.itemsize
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != expected:
                return False
            expected *= length
        return True

    def is_dense(self) -> bool:
        """Tell whether the elements lie one after the other, in C order of the axes in some order."""
        return self.in_order(self.order()).is_flat()

    def step(self) -> int:
        """Return the step along an array that is passed at once, as NumPy chooses it."""
        return self.strides[0] if len(self.shape) == 1 else self.dtype.itemsize if self.shape else 0

    def has_odd_step(self) -> bool:
        """Tell whether it is one element of an axis with another step than the next one's."""
        return len(self.shape) == 1 == self.shape[0] and self.strides[0] != self.dtype.itemsize

    def shifted(self, offset: int) -> Operand:
        """Return the same so many bytes behind."""
        return Operand(self.base, self.offset + offset, self.dtype, self.shape, self.strides)

    def order(self) -> list[int]:
        """Return the axes by their strides, the longest ones first."""
        return sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])

    def in_order(self, order: Sequence[int]) -> Operand:
        """Return the same with its axes in another order; axes that it lacks, the first ones, are of length 1."""
        missing = len(order) - len(self.shape)
        shape, strides = (1,) * missing + self.shape, (0,) * missing + self.strides
        axes = [shape[axis] for axis in order], [strides[axis] for axis in order]
        return Operand(self.base, self.offset, self.dtype, tuple(axes[0]), tuple(axes[1]))

    def viewed(self, index: Any) -> Operand | None:
        """Return the part at an index; None for an index that may not be one of integers and slices."""
        index = index if isinstance(index, tuple) else (index,)
        if not all(one is None or one is ... or type(one) in (int, slice) for one in index):
            return None
        # With an ellipsis it is a view also where it is one element. Nothing is read of the memory.
        index = index if any(one is ... for one in index) else (*index, ...)
        whole = np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self.strides)
        part = whole[index]
        offset = self.offset + address_of(part) - address_of(whole)
        return Operand(self.base, offset, self.dtype, part.shape, part.strides)

    def part(self, axis: int, begin: int, length: int) -> Operand:
        """Return a part along an axis."""
        shape = (*self.shape[:axis], length, *self.shape[axis + 1 :])
        return Operand(self.base, self.offset + begin * self.strides[axis], self.dtype, shape, self.strides)

    def without(self, axis: int) -> Operand:
        """Return the first element along an axis, without the axis."""
        shape, strides = list(self.shape), list(self.strides)
        del shape[axis], strides[axis]
        return Operand(self.base, self.offset, self.dtype, tuple(shape), tuple(strides))


@final
class Operands:
    """Finds where operands lie, and keeps memory that only records refer to.

    Args:
        given: the numbers of the arrays that each call gives, from 1.
        array: returns the array of a Value that is there before.
    """

    __slots__ = ("_array", "_buffers", "_given", "_kept")

    def __init__(self, given: dict[Value, int], array: Callable[[Value], np.ndarray]) -> None:
        self._given = given
        self._array = array
        self._kept: list[np.ndarray] = []
        #: What holds copies of operands during one step.
        self._buffers: dict[tuple[int, int], np.ndarray] = {}

    def of(self, part: Any, dtype: np.dtype[Any] | None = None) -> Operand | None:
        """Return where an operand lies; None for one that a loop for this dtype cannot take as it is."""
        if type(part) is not Value:
            if not isinstance(part, (bool, int, float, complex, np.generic)) or dtype is None:
                return None
            number = number_of(part, dtype)
            return None if number is None else self.constant(number)
        if (dtype is not None and part.array.dtype != dtype) or not part.array.flags.aligned:
            return None
        if part.root in self._given:
            offset = address_of(part.array) - address_of(part.root.array)
            return Operand(self._given[part.root], offset, part.array.dtype, part.array.shape, part.array.strides)
        array = self._array(part)
        return Operand(0, address_of(array), array.dtype, array.shape, array.strides)

    def constant(self, array: np.ndarray) -> Operand:
        """Return an array that is kept."""
        self._kept.append(array)
        return Operand(0, address_of(array), array.dtype, array.shape, array.strides)

    def scratch(self, place: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Operand:
        """Return memory in C order, which the calls of one step may use for the operand at a place."""
        key = place, prod(shape) * dtype.itemsize
        if key not in self._buffers:
            self._buffers[key] = np.empty(key[1], np.uint8)
        return Operand(0, address_of(self._buffers[key]), dtype, shape, strides_in_order(shape, dtype))


def strides_in_order(shape: tuple[int, ...], kind: np.dtype[Any]) -> tuple[int, ...]:
    """Return the strides of an array in C order."""
    strides = [kind.itemsize]
    for length in reversed(shape[1:]):
        strides.insert(0, strides[0] * length)
    return tuple(strides) if shape else ()


def number_of(number: Any, kind: np.dtype[Any]) -> np.ndarray | None:
    """Return a number as an array of a dtype; None where NumPy warns of that, which it does in each call."""
    try:
        with np.errstate(all="raise"):
            return np.array(number, kind)
    except FloatingPointError:
        return None


def filled(numbers: list[int], size: int) -> list[int]:
    """Return numbers with zeros behind them, as many as there is room for."""
    return numbers + [0] * (size - len(numbers))


def steps_along(shape: tuple[int, ...], strides: tuple[int, ...], onto: tuple[int, ...]) -> list[int]:
    """Return the strides of an operand along the axes of the result."""
    missing = len(onto) - len(shape)
    return [0] * missing + [0 if length == 1 else stride for length, stride in zip(shape, strides, strict=True)]


def overlaps(parts: Sequence[Any], reads_all: bool) -> bool:
    """Tell whether the result shares memory with an operand so that NumPy copies that.

    Args:
        parts: the operands; the last is the result.
        reads_all: whether each element of the result depends on others than the same of the operands.
    """
    *inputs, target = parts
    for one in inputs:
        if type(one) is Value and type(target) is Value and one.root is target.root:
            mine, theirs = one.array, target.array
            same = address_of(mine) == address_of(theirs) and mine.strides == theirs.strides
            if reads_all or not same or mine.shape != theirs.shape:
                return True
    return False
