"""The calls of NumPy's inner loops that do what a call of a program does; not every call has some.

A loop is called here as NumPy calls it: with dtypes that it takes as they are, and with operands that lie in memory as
the result does, which NumPy passes at once. Where a ufunc rounds correctly, it does not matter in how many parts its
loop is called. Products and reductions are tried, once for each layout, against NumPy's own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, final

import numpy as np

from .inner_loops import InnerLoop, address_of, inner_loop
from .loop_trials import (
    Groups,
    outer_agrees,
    product_agrees,
    reduction_agrees,
    reduction_axes,
    scale_agrees,
)
from .program import Comparison, OfNumbers, Step
from .runner import ERRORS, MOST_AXES, MOST_OPERANDS, RECORD
from .trace import Value

__all__ = ["LoopCall", "LoopCalls", "loop_of", "number_of", "steps_along"]

#: The bits of their results do not depend on how their loops are called.
_EXACT = {
    *(np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.absolute, np.square, np.sqrt),
    *(np.less, np.less_equal, np.equal, np.not_equal, np.greater, np.greater_equal),
    *(np.logical_and, np.logical_or, np.logical_not, np.logical_xor),
    *(np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert),
    *(np.isnan, np.isfinite, np.isinf, np.signbit, np.copysign, np.floor, np.ceil, np.trunc, np.rint),
}
#: The same of those of complex numbers.
_EXACT_OF_COMPLEX = {np.add, np.subtract, np.negative, np.positive, np.equal, np.not_equal}
#: Their loops do not clear the flags of floating-point errors.
_KEEPS_FLAGS = {np.add, np.subtract, np.multiply, np.divide, np.positive, np.square, np.matmul}
#: The ufunc that each of NumPy's reductions reduces by.
_REDUCTIONS: dict[Any, np.ufunc] = {
    **dict.fromkeys((np.sum, np.ndarray.sum), np.add),
    **dict.fromkeys((np.prod, np.ndarray.prod), np.multiply),
    **dict.fromkeys((np.max, np.ndarray.max), np.maximum),
    **dict.fromkeys((np.min, np.ndarray.min), np.minimum),
    **dict.fromkeys((np.all, np.ndarray.all), np.logical_and),
    **dict.fromkeys((np.any, np.ndarray.any), np.logical_or),
}
#: The ufuncs that do the same as operators of NumPy's numbers.
_OF_NUMBERS = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.divide,
    operator.neg: np.negative,
    operator.abs: np.absolute,
}
#: How many bytes a result has at least that is written past the caches.
_LARGE_RESULT = 1 << 15
#: What copies an array in C order where it cannot be looked at in another shape.
_COPYING = {np.reshape, np.ndarray.reshape, np.ravel, np.ndarray.ravel, np.ndarray.flatten}
#: What a reduction by them begins with; the others begin with the first elements.
_BEGINNINGS: dict[np.ufunc, Any] = {np.add: 0, np.multiply: 1, np.logical_and: True, np.logical_or: False}


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
    """

    __slots__ = ("clears", "collects", "counts", "ignored", "loop", "operands", "outer", "steps")

    def __init__(
        self,
        loop: InnerLoop | None,
        operands: Sequence[_Operand],
        outer: int,
        counts: list[int],
        steps: list[int],
        ignored: int,
        clears: bool,
    ) -> None:
        self.loop = loop
        self.operands = operands
        self.outer = outer
        self.counts = counts
        self.steps = steps
        self.ignored = ignored
        self.clears = clears
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
            _filled([one.base for one in self.operands], MOST_OPERANDS),
            _filled([one.offset for one in self.operands], MOST_OPERANDS),
            _filled(self.counts, RECORD["counts"].shape[0]),
            _filled(self.steps, RECORD["steps"].shape[0]),
        )


@final
class _Operand:
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
        order = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        shape, strides = [tuple([given[axis] for axis in order]) for given in (self.shape, self.strides)]
        return _Operand(self.base, self.offset, self.dtype, shape, strides).is_flat()

    def step(self) -> int:
        """Return the step along an array that is passed at once, as NumPy chooses it."""
        return self.strides[0] if len(self.shape) == 1 else self.dtype.itemsize if self.shape else 0

    def has_odd_step(self) -> bool:
        """Tell whether it is one element of an axis with another step than the next one's."""
        return len(self.shape) == 1 == self.shape[0] and self.strides[0] != self.dtype.itemsize

    def part(self, axis: int, begin: int, length: int) -> _Operand:
        """Return a part along an axis."""
        shape = (*self.shape[:axis], length, *self.shape[axis + 1 :])
        return _Operand(self.base, self.offset + begin * self.strides[axis], self.dtype, shape, self.strides)

    def without(self, axis: int) -> _Operand:
        """Return the first element along an axis, without the axis."""
        shape, strides = list(self.shape), list(self.strides)
        del shape[axis], strides[axis]
        return _Operand(self.base, self.offset, self.dtype, tuple(shape), tuple(strides))


@final
class LoopCalls:
    """Finds the calls of loops for the steps of a program.

    Args:
        given: the numbers of the arrays that each call gives, from 1.
        array: returns the array of a Value that is there before.
        errstate: how NumPy treats floating-point errors around the program.
        check: the loop that compares bytes; it writes into the last operand where they differ.
        casts: loops that convert numbers, by the characters of both dtypes.
        products: loops that multiply a column and a row, and add zero, by the character of the dtype; the second of
            each writes past the caches.
        scales: loops that multiply by a number as BLAS does, by the character of the dtype.
        failed: what `check` writes into.
    """

    __slots__ = ("_array", "_casts", "_check", "_errstate", "_failed", "_given", "_kept", "_products", "_scales")

    def __init__(
        self,
        given: dict[Value, int],
        array: Callable[[Value], np.ndarray],
        errstate: dict[str, Any],
        check: InnerLoop,
        casts: dict[str, InnerLoop],
        products: dict[str, list[InnerLoop]],
        scales: dict[str, list[InnerLoop]],
        failed: np.ndarray,
    ) -> None:
        self._given = given
        self._array = array
        self._errstate = errstate
        self._check = check
        self._casts = casts
        self._products = products
        self._scales = scales
        self._failed = failed
        #: Arrays that only records refer to.
        self._kept: list[np.ndarray] = []

    def of_kernel(self, function: int, bases: int, data: Sequence[int], ignored: int) -> LoopCall:
        """Return the call of a kernel.

        Args:
            function: its address.
            bases: the address of the bases.
            data: what it is given.
            ignored: the bits of the floating-point errors that nobody is to be told of.
        """
        kept = np.array(data, np.int64)
        self._kept.append(kept)
        operand = _Operand(0, bases, kept.dtype, (), ())
        return LoopCall(InnerLoop(function, address_of(kept)), [operand], 0, [], [], ignored, False)

    def of(self, step: Step) -> list[LoopCall] | None:
        """Return the calls that do what a step does; None where there are none."""
        if isinstance(step.function, Comparison):
            return self._comparison(step.function)
        of_numbers = _OF_NUMBERS.get(step.function.function) if isinstance(step.function, OfNumbers) else None
        if len(step.writes) != 1 or (step.results and step.function not in _COPYING and of_numbers is None):
            return None
        ways = {**self._errstate, **step.errstate}
        ignored = sum(bit for name, bit in ERRORS.items() if ways[name] == "ignore")
        found: list[LoopCall | None]
        if of_numbers is not None:
            # Of integers, NumPy tells that a number is too large, and not that one in an array is.
            is_plain = all(not one.array.ndim and one.array.dtype.kind == "f" for one in (*step.reads, *step.writes))
            found = self._ufunc(of_numbers, (*step.args, step.writes[0]), ignored) if is_plain else [None]
        elif step.results:
            found = [self._in_other_shape(step, ignored)]
        elif step.function is np.copyto:
            target, source = step.args[:2]
            is_plain = len(step.args) == 2 and (not step.kwargs or step.kwargs == {"casting": "unsafe"})
            is_plain = is_plain and not _overlaps((source, target), False)
            found = [self._copy(source, self._operand(target), ignored) if is_plain else None]
        elif step.function in (operator.setitem, np.ndarray.__setitem__, np.ndarray.fill):
            found = [self._written(step, ignored)]
        elif step.function in (np.dot, np.ndarray.dot):
            found = self._dot(np.dot, (*step.args, step.kwargs.get("out")), step.kwargs, ignored)
        elif step.function in (np.concatenate, np.stack):
            found = self._joined(step, ignored)
        elif isinstance(step.function, np.ufunc):
            found = [None] if step.kwargs else self._ufunc(step.function, step.args, ignored)
        else:
            found = self._reduction(step, ignored)
        present = [one for one in found if one is not None]
        return present if len(present) == len(found) else None

    def _operand(self, part: Any, dtype: np.dtype[Any] | None = None) -> _Operand | None:
        """Return where an operand lies; None for one that a loop for this dtype cannot take as it is."""
        if type(part) is not Value:
            if not isinstance(part, (bool, int, float, complex, np.generic)) or dtype is None:
                return None
            number = number_of(part, dtype)
            return None if number is None else self._constant(number)
        if (dtype is not None and part.array.dtype != dtype) or not part.array.flags.aligned:
            return None
        if part.root in self._given:
            offset = address_of(part.array) - address_of(part.root.array)
            return _Operand(self._given[part.root], offset, part.array.dtype, part.array.shape, part.array.strides)
        array = self._array(part)
        return _Operand(0, address_of(array), array.dtype, array.shape, array.strides)

    def _constant(self, array: np.ndarray) -> _Operand:
        self._kept.append(array)
        return _Operand(0, address_of(array), array.dtype, array.shape, array.strides)

    def _comparison(self, function: Comparison) -> list[LoopCall] | None:
        expected = function.expected_bytes()
        value = self._operand(function.check.value)
        if expected is None or value is None or not value.is_flat():
            return None
        operands = [value, self._constant(expected), self._constant(self._failed)]
        return [LoopCall(self._check, operands, 0, [expected.nbytes], [], 0, False)]

    def _copy(self, source: Any, target: _Operand | None, ignored: int) -> LoopCall | None:
        given = None if target is None else self._operand(source, target.dtype)
        if target is None or given is None or len(given.shape) > len(target.shape):
            return None
        return self._copy_of_operand(given, target, ignored)

    def _copy_of_operand(self, given: _Operand, target: _Operand, ignored: int) -> LoopCall | None:
        kind = target.dtype.char
        loop = self._casts.get(kind * 2) or inner_loop(np.positive, f"{kind}->{kind}")
        return None if loop is None else self._elementwise(np.positive, loop, [given, target], ignored)

    def copied(self, value: Value, base: int) -> LoopCall | None:
        """Return the call that copies a Value to the array with number `base`, in C order; None where there is none."""
        array = value.array
        strides = _strides_in_order(array.shape, array.dtype)
        return self._copy(value, _Operand(base, 0, array.dtype, array.shape, strides), 0)

    def _in_other_shape(self, step: Step, ignored: int) -> LoopCall | None:
        """Return the call that copies an array in C order, whose result has another shape."""
        source, target = step.args[0], self._operand(step.writes[0])
        # The order may be given by its position, which is another one in each of these functions.
        orders = [one for one in (*step.args, *step.kwargs.values()) if isinstance(one, str)]
        is_in_order = all(one == "C" for one in orders) and not set(step.kwargs) - {"order", "shape", "newshape"}
        if type(source) is not Value or target is None or not is_in_order or not target.is_flat():
            return None
        shape = source.array.shape
        spread = _Operand(target.base, target.offset, target.dtype, shape, _strides_in_order(shape, target.dtype))
        return self._copy(source, spread, ignored) if source.array.size == target.size else None

    def _cast(self, part: Any, dtype: np.dtype[Any]) -> tuple[LoopCall, _Operand] | None:
        """Return the call that converts an operand exactly, and what it writes into."""
        given = self._operand(part) if type(part) is Value else None
        loop = None if given is None else self._casts.get(given.dtype.char + dtype.char)
        if given is None or loop is None:
            return None
        # It lies in memory as that does.
        made = self._constant(np.empty_like(part.array, dtype))
        axes = _axes(np.positive, [given, made])
        return None if axes is None else (LoopCall(loop, [given, made], *axes, 0, False), made)

    def _written(self, step: Step, ignored: int) -> LoopCall | None:
        """Return the call that writes a number or an array into another one, whole or at one part of its first axis."""
        into, source = step.args[0], step.args[-1]
        index = ... if step.function is np.ndarray.fill else step.args[1]
        target = self._operand(into) if type(into) is Value else None
        if target is None or step.kwargs or (type(source) is Value and source.root is into.root):
            return None
        if isinstance(index, slice) and target.shape:
            begin, end, step_of_index = index.indices(target.shape[0])
            return (
                self._copy(source, target.part(0, begin, max(end - begin, 0)), ignored) if step_of_index == 1 else None
            )
        return self._copy(source, target, ignored) if index is ... else None

    def _ufunc(self, ufunc: np.ufunc, parts: Sequence[Any], ignored: int) -> list[LoopCall | None]:
        if ufunc.signature is not None and ufunc is not np.matmul:
            return [None]
        if ufunc.nout != 1 or len(parts) != ufunc.nargs or len(parts) > MOST_OPERANDS:
            return [None]
        chosen = loop_of(ufunc, parts)
        if chosen is None or type(parts[-1]) is not Value or _overlaps(parts, ufunc is np.matmul):
            return [None]
        loop, dtypes = chosen
        before: list[LoopCall | None] = []
        operands: list[_Operand] = []
        for part, dtype in zip(parts, dtypes, strict=True):
            operand = self._operand(part, dtype)
            if operand is None and ufunc in _EXACT and part is not parts[-1]:
                # NumPy converts in parts, which does not matter where the ufunc rounds correctly.
                cast = self._cast(part, dtype)
                if cast is not None:
                    before.append(cast[0])
                    operand = cast[1]
            if operand is None:
                return [None]
            operands.append(operand)
        if ufunc is np.matmul:
            is_stack = all(len(one.shape) > 1 for one in operands)
            return [self._product(loop, operands, ignored)] if is_stack else self._dot(np.matmul, parts, {}, ignored)
        return [*before, self._elementwise(ufunc, loop, operands, ignored)]

    def _elementwise(
        self, ufunc: np.ufunc, loop: InnerLoop, operands: Sequence[_Operand], ignored: int
    ) -> LoopCall | None:
        axes = _axes(ufunc, operands)
        if axes is None:
            return None
        return LoopCall(loop if operands[-1].size else None, operands, *axes, ignored, ufunc not in _KEEPS_FLAGS)

    def _product(self, loop: InnerLoop, operands: Sequence[_Operand], ignored: int) -> LoopCall:
        return LoopCall(loop if operands[-1].size else None, operands, *_axes_of_product(operands), ignored, False)

    def _dot(
        self, function: Callable[..., Any], parts: Sequence[Any], options: dict[str, Any], ignored: int
    ) -> list[LoopCall | None]:
        """Return the calls that have the bits of `dot`, or of `matmul` for a vector: most often of matmul's loop."""
        if len(parts) != 3 or set(options) - {"out"} or _overlaps(parts, True):
            return [None]
        kind = getattr(parts[-1], "array", np.empty(0)).dtype
        loop = inner_loop(np.matmul, f"{kind.char * 2}->{kind.char}") if kind.kind == "f" else None
        a, b, target = [self._operand(one, kind) for one in parts]
        if loop is None or a is None or b is None or target is None or not target.size or not target.is_flat():
            return [None]
        if len(a.shape) > 2 or len(b.shape) > 2 or not a.shape or not b.shape or a.size * b.size == 0:
            return [None]
        if parts[0].root is parts[1].root:
            # BLAS has another function for the product of an array with itself.
            return [None]
        if function is np.dot and 1 in (a.size, b.size):
            return [self._scaled(a, b, target, kind, ignored)]
        is_outer = len(a.shape) == len(b.shape) == 2 and a.shape[1] == 1 and kind.char in self._products
        is_outer = is_outer and function is np.dot and b.strides[1] == kind.itemsize
        if is_outer and outer_agrees(kind, a.shape[0], b.shape[1]):
            return [self._outer(a, b, target, kind, ignored)]
        if function is not np.dot and 1 in (*a.shape, *b.shape):
            # BLAS has other functions for these.
            return [None]
        if not product_agrees(function, loop, kind, (a.shape, a.strides), (b.shape, b.strides)):
            return [None]
        return [self._product(loop, _as_matrices(a, b, target), ignored)]

    def _outer(self, a: _Operand, b: _Operand, target: _Operand, kind: np.dtype[Any], ignored: int) -> LoopCall:
        """Return the call that multiplies a column and a row: matmul's loop does the same, and is slow."""
        # Of a large result for a row, little would be in the caches when it is read.
        is_past = target.base > 0 and target.size * kind.itemsize >= _LARGE_RESULT
        loop = self._products[kind.char][is_past]
        steps = [a.strides[0], target.strides[0]]
        return LoopCall(loop, [a, b, target], 0, list(target.shape), steps, ignored, False)

    def _scaled(self, a: _Operand, b: _Operand, target: _Operand, kind: np.dtype[Any], ignored: int) -> LoopCall | None:
        """Return the call that has the bits of `dot` where one operand is one number."""
        factor, vector = (a, b) if a.size == 1 else (b, a)
        if vector.size == 1:
            return None
        for loop in self._scales.get(kind.char, ()):
            if scale_agrees(loop, kind, (a.shape, a.strides), (b.shape, b.strides)):
                step = next(step for step, length in zip(vector.strides, vector.shape, strict=True) if length > 1)
                steps = _filled([0, step, kind.itemsize], MOST_OPERANDS)
                return LoopCall(loop, [factor, vector, target], 0, [vector.size], steps, ignored, False)
        return None

    def _joined(self, step: Step, ignored: int) -> list[LoopCall | None]:
        """Return the copies that concatenate or stack arrays."""
        target = self._operand(step.kwargs.get("out"))
        parts, axis = step.args[0], step.args[1] if len(step.args) > 1 else step.kwargs.get("axis", 0)
        if target is None or set(step.kwargs) - {"out", "axis"} or not isinstance(axis, int):
            return [None]
        if not all(type(one) is Value and one.root is not step.kwargs["out"].root for one in parts):
            return [None]
        axis %= len(target.shape)
        found: list[LoopCall | None] = []
        begin = 0
        for one in parts:
            if step.function is np.stack:
                into = target.part(axis, begin, 1).without(axis)
                begin += 1
            else:
                into = target.part(axis, begin, one.array.shape[axis])
                begin += one.array.shape[axis]
            found.append(self._copy(one, into, ignored))
        return found

    def _reduction(self, step: Step, ignored: int) -> list[LoopCall | None]:
        """Return what fills the result of a reduction with its beginning, and what reduces."""
        ufunc = _REDUCTIONS.get(step.function)
        if ufunc is None and getattr(step.function, "__name__", "") == "reduce":
            ufunc = getattr(step.function, "__self__", None)
        options = {name: one for name, one in step.kwargs.items() if name not in ("out", "keepdims", "axis")}
        if not isinstance(ufunc, np.ufunc) or len(step.args) > 2 or set(options) - {"initial"}:
            return [None]
        value, out = step.args[0], step.kwargs.get("out")
        axis = step.args[1] if len(step.args) > 1 else step.kwargs.get("axis", _default_axis(step.function))
        out = out[0] if isinstance(out, tuple) else out
        if type(value) is not Value or type(out) is not Value or value.root is out.root:
            return [None]
        kind, beginning = value.array.dtype, options.get("initial", _BEGINNINGS.get(ufunc))
        loop = inner_loop(ufunc, f"{kind.char * 2}->{kind.char}") if kind.kind != "c" else None
        source, target = self._operand(value), self._operand(out, kind)
        if loop is None or source is None or target is None or not source.size or not source.is_flat():
            return [None]
        groups = _groups(source.shape, axis)
        is_plain = isinstance(beginning, (int, float, np.generic)) or (beginning is None and ufunc not in _BEGINNINGS)
        if groups is None or not target.is_flat() or not is_plain:
            return [None]
        if beginning is not None and number_of(beginning, kind) is None:
            return [None]
        if not reduction_agrees(ufunc, loop, kind, groups, beginning):
            return [None]
        return [
            self._beginning(source, target, groups, beginning, ignored),
            *self._reduced(loop, source, target, groups, beginning is None, ignored),
        ]

    def _beginning(
        self, source: _Operand, target: _Operand, groups: Groups, beginning: Any, ignored: int
    ) -> LoopCall | None:
        kept, length, is_last = groups
        flat = _Operand(target.base, target.offset, target.dtype, (kept,), (target.dtype.itemsize,))
        if beginning is not None:
            return self._copy(np.array(beginning, target.dtype)[()], flat, ignored)
        item = source.dtype.itemsize
        first = _Operand(source.base, source.offset, source.dtype, (kept,), (item * length if is_last else item,))
        return self._copy_of_operand(first, flat, ignored)

    def _reduced(
        self, loop: InnerLoop, source: _Operand, target: _Operand, groups: Groups, skips: bool, ignored: int
    ) -> list[LoopCall]:
        counts, steps, offset = reduction_axes(groups, source.dtype.itemsize, skips)
        if groups[1] == skips:
            # All of it is in the beginning.
            return []
        rest = _Operand(source.base, source.offset + offset, source.dtype, source.shape, source.strides)
        return [LoopCall(loop, [target, rest, target], 1, counts, steps, ignored, True)]


def _strides_in_order(shape: tuple[int, ...], kind: np.dtype[Any]) -> tuple[int, ...]:
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


def _groups(shape: tuple[int, ...], axis: Any) -> Groups | None:
    """Return what a reduction over axes reduces in an array in C order; None unless they are the first or the last."""
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not all(isinstance(one, int) for one in axes):
        return None
    reduced = {one % len(shape) for one in axes} if shape else set()
    number = len(reduced)
    length = prod([shape[place] for place in reduced])
    kept = prod(shape) // length
    if reduced == set(range(len(shape) - number, len(shape))):
        return kept, length, True
    return (kept, length, False) if reduced == set(range(number)) else None


def _default_axis(function: Any) -> int | None:
    return 0 if getattr(function, "__name__", "") == "reduce" else None


def _filled(numbers: list[int], size: int) -> list[int]:
    return numbers + [0] * (size - len(numbers))


def loop_of(ufunc: np.ufunc, parts: Sequence[Any]) -> tuple[InnerLoop, tuple[np.dtype[Any], ...]] | None:
    """Return the loop that a ufunc chooses for operands, and its dtypes."""
    kinds = [one.array.dtype if type(one) is Value else type(one) for one in parts]
    try:
        given = tuple([kind if kind in (int, float, complex) else np.dtype(kind) for kind in kinds])
        dtypes = ufunc.resolve_dtypes(given)
    except (TypeError, ValueError):
        return None
    signature = "".join(one.char for one in dtypes[: ufunc.nin]) + "->" + dtypes[-1].char
    loop = inner_loop(ufunc, signature)
    return None if loop is None else (loop, dtypes)


def _overlaps(parts: Sequence[Any], reads_all: bool) -> bool:
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


def _axes(ufunc: np.ufunc, operands: Sequence[_Operand]) -> tuple[int, list[int], list[int]] | None:
    """Return how many axes are around the loop, the length of each, and the steps of the operands along each."""
    *inputs, target = operands
    is_exact = ufunc in (_EXACT_OF_COMPLEX if any(one.dtype.kind == "c" for one in operands) else _EXACT)
    is_exact = is_exact or (ufunc in (np.maximum, np.minimum) and all(one.dtype.kind in "biu" for one in operands))
    if not is_exact and any(one.has_odd_step() for one in operands):
        return None
    if target.size == 1 and any((one.base, one.offset) == (target.base, target.offset) for one in inputs):
        # Into one of its operands, NumPy writes a single element by its iterator, which has no steps: the loop of a
        # product of complex numbers rounds otherwise then.
        return 0, [1], _filled([0] * len(operands), MOST_OPERANDS)
    if target.is_flat() and all(not one.shape or (one.shape == target.shape and one.is_flat()) for one in inputs):
        # NumPy calls the loop once.
        steps = [one.step() for one in inputs]
        return 0, [target.size], _filled([*steps, target.step() or target.dtype.itemsize], MOST_OPERANDS)
    if not is_exact:
        if target.is_dense() and all(one.shape == target.shape and one.strides == target.strides for one in inputs):
            # So it does where they all have their axes in another order in memory.
            return 0, [target.size], _filled([one.dtype.itemsize for one in operands], MOST_OPERANDS)
        return None
    spread = [steps_along(one.shape, one.strides, target.shape) for one in operands]
    axes = [(length, [one[axis] for one in spread]) for axis, length in enumerate(target.shape) if length != 1]
    axes.sort(key=lambda axis: -abs(axis[1][-1]))
    merged: list[tuple[int, list[int]]] = []
    for length, strides in axes:
        if merged and all(outer == length * inner for outer, inner in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = merged[-1][0] * length, strides
        else:
            merged.append((length, strides))
    merged = merged or [(1, [0] * len(operands))]
    if len(merged) > MOST_AXES:
        return None
    steps = [step for _, strides in merged for step in _filled(strides, MOST_OPERANDS)]
    return len(merged) - 1, [length for length, _ in merged], steps


def steps_along(shape: tuple[int, ...], strides: tuple[int, ...], onto: tuple[int, ...]) -> list[int]:
    """Return the strides of an operand along the axes of the result."""
    missing = len(onto) - len(shape)
    return [0] * missing + [0 if length == 1 else stride for length, stride in zip(shape, strides, strict=True)]


def _as_matrices(a: _Operand, b: _Operand, target: _Operand) -> list[_Operand]:
    """Return the operands of a product with an axis of length 1 where one is a vector."""
    item = a.dtype.itemsize
    shape, strides = target.shape, target.strides
    if len(a.shape) == 1:
        a = _Operand(a.base, a.offset, a.dtype, (1, *a.shape), (a.shape[0] * a.strides[0], *a.strides))
        shape, strides = (1, *shape), (item * target.size, *strides)
    if len(b.shape) == 1:
        b = _Operand(b.base, b.offset, b.dtype, (*b.shape, 1), (*b.strides, item))
        shape, strides = (*shape, 1), (*strides, item)
    return [a, b, _Operand(target.base, target.offset, target.dtype, shape, strides)]


def _axes_of_product(operands: Sequence[_Operand]) -> tuple[int, list[int], list[int]]:
    """Return the same as `_axes` for a product of matrices, whose loop runs along one axis of stacks of them."""
    a, b, target = operands
    stack = target.shape[:-2]
    spread = [steps_along(one.shape[:-2], one.strides[:-2], stack) for one in operands]
    counts, steps = [], []
    for axis, length in enumerate(stack[:-1]):
        counts.append(length)
        steps += _filled([one[axis] for one in spread], MOST_OPERANDS)
    counts += [stack[-1] if stack else 1, a.shape[-2], a.shape[-1], b.shape[-1]]
    steps += [one[-1] if stack else 0 for one in spread]
    steps += [*a.strides[-2:], *b.strides[-2:], *target.strides[-2:]]
    return (len(stack) - 1 if stack else 0), counts, steps
