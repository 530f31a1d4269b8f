"""The calls of loops for what reads, writes or adds at an index by arrays: integers along an axis or two, or a mask."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, final

import numpy as np

from ..core.arrays.device_arrays import is_full_slice
from .inner_loops import InnerLoop, address_of
from .iterations import merged_axes
from .loop_call import LoopCall, Operand, Operands, filled, steps_along
from .program import Step
from .runner import IS_OTHER, IS_OUT_OF_BOUNDS, MOST_AXES, MOST_OPERANDS, Runner
from .trace import Value

__all__ = ["IndexCalls", "is_indexing"]

_TAKING = {np.take, np.ndarray.take}
_WRITING = {operator.setitem, np.ndarray.__setitem__}
_INTEGERS = np.dtype(np.int64)


def is_indexing(step: Step) -> bool:
    """Tell whether a step reads, writes or adds at an index, and not by what NumPy makes a view of."""
    function = step.function
    if function in _TAKING or (function is operator.getitem and step.results):
        return True
    if getattr(function, "__name__", "") == "at" and isinstance(getattr(function, "__self__", None), np.ufunc):
        return True
    return function in _WRITING and _has_array(step.args[1])


@final
class IndexCalls:
    """Finds the calls of loops for indices by arrays.

    Args:
        operands: what finds operands.
        own: the runner, which has the loops.
        failed: what these write into.
        copy: returns the call that copies an operand into another one, given the bits of errors to ignore.
    """

    __slots__ = ("_copy", "_failed", "_operands", "_own")

    def __init__(
        self,
        operands: Operands,
        own: Runner,
        failed: np.ndarray,
        copy: Callable[[Operand, Operand, int], LoopCall | None],
    ) -> None:
        self._operands = operands
        self._own = own
        self._failed = failed
        self._copy = copy

    def of(self, step: Step, ignored: int) -> list[LoopCall | None]:
        """Return the calls that do what a step does; None among them where there are none."""
        array, index, *rest = step.args
        if type(array) is not Value:
            return [None]
        if step.function in _TAKING:
            found = self._taken(step)
        elif step.kwargs:
            return [None]
        elif step.function is operator.getitem:
            found = array, index, step.results[0], "gather"
        elif step.function in _WRITING:
            found = array, index, rest[0], "scatter"
        elif getattr(step.function, "__self__", None) is np.add and len(rest) == 1:
            found = array, index, rest[0], "add"
        else:
            return [None]
        if found is None or (found[3] != "gather" and _shares_memory(array, (index, *rest))):
            return [None]
        given, other = self._operands.of(array), self._operands.of(found[2], array.array.dtype)
        if given is None or other is None:
            return [None]
        if found[3] == "gather" and not _has_array(found[1]):
            # A number.
            part = given.viewed(index)
            return [None if part is None else self._copy(part, other, ignored)]
        if type(index) is Value and index.array.dtype.kind == "b":
            return self._masked(found[3], given, index, other, ignored)
        return [self._indexed(found[3], given, found[1], other, ignored)]

    def _taken(self, step: Step) -> tuple[Value, Any, Any, str] | None:
        """Return what `take` takes along an axis as the index of an array."""
        array, index, *rest = step.args
        axis = rest[0] if len(rest) == 1 else step.kwargs.get("axis")
        if len(rest) > 1 or set(step.kwargs) - {"axis"} or len(step.results) != 1:
            return None
        if axis is None and array.array.ndim == 1:
            axis = 0
        if type(axis) is not int or type(index) is not Value or index.array.dtype.kind != "i":
            return None
        return array, (*[slice(None)] * (axis % array.array.ndim), index), step.results[0], "gather"

    def _indexed(self, kind: str, array: Operand, index: Any, other: Operand, ignored: int) -> LoopCall | None:
        loop = self._own.indexing.get(f"{kind} {array.dtype.char}")
        found = self._indices(array, index)
        if loop is None or found is None:
            return None
        first, indices = found
        onto = np.broadcast_shapes(*[one.shape for one in indices])
        lengths, strides = [of_array[first : first + len(indices)] for of_array in (array.shape, array.strides)]
        shape = (*array.shape[:first], *onto, *array.shape[first + len(indices) :])
        if len(other.shape) > len(shape) or not prod(shape):
            return None
        of_other = steps_along(other.shape, other.strides, shape)
        of_index = [steps_along(one.shape, one.strides, onto) for one in indices]
        places = [
            (length, filled([0, of_other[first + axis], *[one[axis] for one in of_index]], MOST_OPERANDS))
            for axis, length in enumerate(onto)
        ]
        along = [(axis, axis) for axis in range(first)]
        along += [(axis, axis - len(indices) + len(onto)) for axis in range(first + len(indices), len(array.shape))]
        rows = [(array.shape[axis], [array.strides[axis], of_other[at], 0, 0]) for axis, at in along]
        places, rows = merged_axes(places), merged_axes(rows)
        # At an index that is there twice the last one wins, and NumPy goes in the order of the index in memory.
        in_order = len(places) == 1 and all(one.is_flat() and one.shape == onto for one in indices)
        if (kind != "gather" and not in_order) or len(places) + len(rows) > MOST_AXES:
            return None
        data = [address_of(self._failed), IS_OUT_OF_BOUNDS]
        if kind == "add" and array.is_flat() and len(array.shape) == 1 and other.is_flat() and other.shape == onto:
            flat = self._own.indexing[f"add_flat {array.dtype.char}"]
            return self._call(flat, kind, [array, other, *indices], places, rows, [*data, *lengths], ignored)
        for length, stride in zip(lengths, strides, strict=True):
            data += [length, stride]
        if len(indices) == 1:
            indices = [*indices, self._operands.constant(np.zeros((), np.int64))]
            data += [1, 0]
        return self._call(loop, kind, [array, other, *indices], places, rows, data, ignored)

    def _indices(self, array: Operand, index: Any) -> tuple[int, list[Operand]] | None:
        """Return the first axis of one or two index arrays, and these; None for any other index."""
        parts = list(index) if isinstance(index, tuple) else [index]
        number = sum(map(_has_array, parts))
        if any(one is ... for one in parts):
            at = next(place for place, one in enumerate(parts) if one is ...)
            parts[at : at + 1] = [slice(None)] * (len(array.shape) - len(parts) + 1)
        is_array = [_has_array(one) for one in parts]
        if number not in (1, 2) or not all(has or is_full_slice(one) for has, one in zip(is_array, parts, strict=True)):
            return None
        first = is_array.index(True)
        if not all(is_array[first : first + number]):
            # NumPy puts the axes of the result elsewhere.
            return None
        found = [self._index(one) for one in parts[first : first + number]]
        present = [one for one in found if one is not None]
        return (first, present) if len(present) == number else None

    def _index(self, part: Any) -> Operand | None:
        if isinstance(part, list):
            return self._operands.constant(np.array(part)) if part and all(type(one) is int for one in part) else None
        if type(part) is not Value or part.is_scalar or not part.array.ndim:
            return None
        return self._operands.of(part, _INTEGERS)

    def _masked(self, kind: str, array: Operand, index: Value, other: Operand, ignored: int) -> list[LoopCall | None]:
        mask = self._operands.of(index)
        axes = len(index.array.shape)
        is_fill = kind == "scatter" and other.size == 1
        loop = self._own.indexing.get(f"mask_{'fill' if is_fill else kind} {array.dtype.char}")
        if mask is None or loop is None or not axes or array.shape[:axes] != mask.shape or not array.size:
            return [None]
        if is_fill:
            return [self._filled(loop, array, mask, other, ignored)]
        calls: list[LoopCall | None] = []
        if kind == "gather" and not array.is_flat():
            array, source = self._operands.scratch(0, array.dtype, array.shape), array
            calls.append(self._copy(source, array, ignored))
        if not mask.is_flat():
            mask, source = self._operands.scratch(2, mask.dtype, mask.shape), mask
            calls.append(self._copy(source, mask, ignored))
        length, item = array.size // mask.size, array.dtype.itemsize
        is_plain = array.is_flat() and other.is_flat() and other.shape[1:] == array.shape[axes:]
        if not is_plain or len(other.shape) != 1 + len(array.shape) - axes:
            return [None]
        data = [address_of(self._failed), IS_OTHER if kind == "gather" else IS_OUT_OF_BOUNDS, other.shape[0]]
        places = [(mask.size, [length * item, length * item, 1, 0])]
        call = self._call(loop, kind, [array, other, mask], places, [(length, [item, item, 0, 0])], data, ignored)
        return [*calls, call]

    def _filled(self, loop: InnerLoop, array: Operand, mask: Operand, other: Operand, ignored: int) -> LoopCall | None:
        """Return the call that writes a number where a mask is true."""
        of_mask = [*mask.strides, *[0] * (len(array.shape) - len(mask.shape))]
        axes = [
            (length, [step, 0, along, 0])
            for length, step, along in zip(array.shape, array.strides, of_mask, strict=True)
        ]
        merged = merged_axes(sorted(axes, key=lambda axis: -abs(axis[1][0])))
        if len(merged) > MOST_AXES:
            return None
        steps = [step for _, of_axis in merged for step in of_axis]
        counts = [length for length, _ in merged]
        return LoopCall(loop, [array, other, mask], len(merged) - 1, counts, steps, ignored, False)

    def _call(
        self,
        loop: InnerLoop,
        kind: str,
        operands: Sequence[Operand],
        places: list[tuple[int, list[int]]],
        rows: list[tuple[int, list[int]]],
        data: list[int],
        ignored: int,
    ) -> LoopCall:
        """Return a call for the axes of an index, and those of the rows at each place."""
        outer = [*places[:-1], *rows[:-1]]
        along = rows[-1][1]
        if kind == "scatter":
            # A row is copied from the other operand into the array.
            along = [along[1], along[0], 0, 0]
        counts = [*[length for length, _ in outer], places[-1][0], rows[-1][0]]
        steps = [step for _, of_axis in outer for step in of_axis] + places[-1][1] + along
        told = self._operands.constant(np.array(data, np.int64))
        own = InnerLoop(loop.function, told.offset)
        return LoopCall(own, operands, len(outer), counts, steps, ignored, False)


def _has_array(index: object) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(type(one) is Value or isinstance(one, list) for one in parts)


def _shares_memory(array: Value, parts: Sequence[Any]) -> bool:
    """Tell whether one of the parts of a step lies in the memory of an array, so that NumPy copies it before."""
    flat = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
    return any(type(one) is Value and one.root is array.root for one in flat)
