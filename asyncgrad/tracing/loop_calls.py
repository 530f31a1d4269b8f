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

from .index_calls import IndexCalls, is_indexing
from .inner_loops import InnerLoop, inner_loop
from .iterations import Layout, elementwise_parts, merged_axes
from .loop_call import LoopCall, Operand, Operands, filled, number_of, overlaps, steps_along, strides_in_order
from .loop_trials import (
    Groups,
    nest_agrees,
    reduction_agrees,
    reduction_axes,
)
from .masked_calls import MaskedCalls, masked_parts
from .product_calls import ProductCalls
from .program import Comparison, OfNumbers, Step
from .runner import ERRORS, MOST_AXES, MOST_OPERANDS, Runner
from .trace import Value

__all__ = ["LoopCalls", "loop_of"]

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
#: What copies an array in C order where it cannot be looked at in another shape.
_COPYING = {np.reshape, np.ndarray.reshape, np.ravel, np.ndarray.ravel, np.ndarray.flatten}
#: What a reduction by them begins with; the others begin with the first elements.
_BEGINNINGS: dict[np.ufunc, Any] = {np.add: 0, np.multiply: 1, np.logical_and: True, np.logical_or: False}


@final
class LoopCalls:
    """Finds the calls of loops for the steps of a program.

    Args:
        given: the numbers of the arrays that each call gives, from 1.
        array: returns the array of a Value that is there before.
        errstate: how NumPy treats floating-point errors around the program.
        own: the runner, which has loops of its own.
        failed: what these write into where numbers are not as they have to be.
        fixed: the numbers of what each call gives that no step writes into.
        passing: the arrays that one step makes, and that one other step alone reads.
    """

    __slots__ = ("_errstate", "_failed", "_indexing", "_masked", "_operands", "_own", "_products")

    def __init__(
        self,
        given: dict[Value, int],
        array: Callable[[Value], np.ndarray],
        errstate: dict[str, Any],
        own: Runner,
        failed: np.ndarray,
        fixed: frozenset[int],
        passing: frozenset[Value],
    ) -> None:
        self._operands = Operands(given, array)
        self._errstate = errstate
        self._own = own
        self._failed = failed
        self._indexing = IndexCalls(self._operands, own, failed, self._copy_of_operand)
        self._masked = MaskedCalls(self._operands, own)
        self._products = ProductCalls(self._operands, own, self._copy_of_operand, fixed, passing)

    def begin(self) -> None:
        """Begin with the steps of a forward or a backward, which are asked for in order."""
        self._products.begin()

    def of_kernel(self, function: int, bases: int, data: Sequence[int], ignored: int) -> LoopCall:
        """Return the call of a kernel.

        Args:
            function: its address.
            bases: the address of the bases.
            data: what it is given.
            ignored: the bits of the floating-point errors that nobody is to be told of.
        """
        self._products.follow(None)
        kept = self._operands.constant(np.array(data, np.int64))
        operand = Operand(0, bases, kept.dtype, (), ())
        return LoopCall(InnerLoop(function, kept.offset), [operand], 0, [], [], ignored, False)

    def of(self, step: Step) -> list[LoopCall] | None:
        """Return the calls that do what a step does; None where there are none."""
        found = self._of(step)
        self._products.follow(found)
        return found

    def _of(self, step: Step) -> list[LoopCall] | None:
        if isinstance(step.function, Comparison):
            return self._comparison(step.function)
        of_numbers = _OF_NUMBERS.get(step.function.function) if isinstance(step.function, OfNumbers) else None
        makes_own = step.function not in _COPYING and not is_indexing(step) and of_numbers is None
        if len(step.writes) != 1 or (step.results and makes_own):
            return None
        ways = {**self._errstate, **step.errstate}
        ignored = sum(bit for name, bit in ERRORS.items() if ways[name] == "ignore")
        found: list[LoopCall | None]
        if of_numbers is not None:
            # Of integers, NumPy tells that a number is too large, and not that one in an array is.
            is_plain = all(not one.array.ndim and one.array.dtype.kind == "f" for one in (*step.reads, *step.writes))
            found = self._ufunc(of_numbers, (*step.args, step.writes[0]), ignored) if is_plain else [None]
        elif is_indexing(step):
            found = self._indexing.of(step, ignored)
        elif step.results:
            found = [self._in_other_shape(step, ignored)]
        elif step.function is np.copyto:
            target, source = step.args[:2]
            is_plain = len(step.args) == 2 and (not step.kwargs or step.kwargs == {"casting": "unsafe"})
            is_plain = is_plain and not overlaps((source, target), False)
            found = [self._copy(source, self._operands.of(target), ignored) if is_plain else None]
        elif step.function in (operator.setitem, np.ndarray.__setitem__, np.ndarray.fill):
            found = [self._written(step, ignored)]
        elif step.function in (np.dot, np.ndarray.dot):
            found = self._products.dot(np.dot, (*step.args, step.kwargs.get("out")), step.kwargs, ignored)
        elif step.function in (np.concatenate, np.stack):
            found = self._joined(step, ignored)
        elif isinstance(step.function, np.ufunc):
            added = self._products.added(step, ignored)
            if added is not None:
                found = [added]
            elif step.kwargs:
                found = [self._where(step.function, step, ignored)]
            else:
                found = self._ufunc(step.function, step.args, ignored)
        else:
            found = self._reduction(step, ignored)
        present = [one for one in found if one is not None]
        return present if len(present) == len(found) else None

    def _comparison(self, function: Comparison) -> list[LoopCall] | None:
        expected = function.expected_bytes()
        value = self._operands.of(function.check.value)
        if expected is None or value is None or not value.is_flat():
            return None
        operands = [value, self._operands.constant(expected), self._operands.constant(self._failed)]
        return [LoopCall(self._own.check, operands, 0, [expected.nbytes], [], 0, False)]

    def _copy(self, source: Any, target: Operand | None, ignored: int) -> LoopCall | None:
        given = None if target is None else self._operands.of(source, target.dtype)
        if target is None or given is None or len(given.shape) > len(target.shape):
            return None
        return self._copy_of_operand(given, target, ignored)

    def _copy_of_operand(self, given: Operand, target: Operand, ignored: int) -> LoopCall | None:
        kind = target.dtype.char
        loop = self._own.casts.get(kind * 2) or inner_loop(np.positive, f"{kind}->{kind}")
        if loop is None:
            return None
        call = self._elementwise(np.positive, loop, [given, target], ignored)
        rows = self._own.row_copies.get(kind)
        if call is None or call.loop is None or rows is None or not call.outer or given.meets(target):
            return call
        return LoopCall(rows, call.operands, *_by_rows(call), ignored, call.clears)

    def copied(self, value: Value, base: int) -> LoopCall | None:
        """Return the call that copies a Value to the array with number `base`, in C order; None where there is none."""
        array = value.array
        strides = strides_in_order(array.shape, array.dtype)
        return self._copy(value, Operand(base, 0, array.dtype, array.shape, strides), 0)

    def _in_other_shape(self, step: Step, ignored: int) -> LoopCall | None:
        """Return the call that copies an array in C order, whose result has another shape."""
        source, target = step.args[0], self._operands.of(step.writes[0])
        # The order may be given by its position, which is another one in each of these functions.
        orders = [one for one in (*step.args, *step.kwargs.values()) if isinstance(one, str)]
        is_in_order = all(one == "C" for one in orders) and not set(step.kwargs) - {"order", "shape", "newshape"}
        if type(source) is not Value or target is None or not is_in_order or not target.is_flat():
            return None
        shape = source.array.shape
        spread = Operand(target.base, target.offset, target.dtype, shape, strides_in_order(shape, target.dtype))
        return self._copy(source, spread, ignored) if source.array.size == target.size else None

    def _cast(self, part: Any, dtype: np.dtype[Any]) -> tuple[LoopCall, Operand] | None:
        """Return the call that converts an operand exactly, and what it writes into."""
        given = self._operands.of(part) if type(part) is Value else None
        loop = None if given is None else self._own.casts.get(given.dtype.char + dtype.char)
        if given is None or loop is None:
            return None
        # It lies in memory as that does.
        made = self._operands.constant(np.empty_like(part.array, dtype))
        axes = _axes(np.positive, [given, made])
        return None if axes is None else (LoopCall(loop, [given, made], *axes, 0, False), made)

    def _written(self, step: Step, ignored: int) -> LoopCall | None:
        """Return the call that writes a number or an array into another one, or into a part that is a view."""
        into, source = step.args[0], step.args[-1]
        index = ... if step.function is np.ndarray.fill else step.args[1]
        whole = self._operands.of(into) if type(into) is Value else None
        if whole is None or step.kwargs:
            return None
        target = whole.viewed(index)
        if target is None:
            return None
        if type(source) is not Value or source.root is not into.root:
            return self._copy(source, target, ignored)
        # Where a part was changed in place, Python assigns it to itself.
        given = self._operands.of(source, target.dtype)
        is_same = given is not None and given.place() == target.place()
        return LoopCall(None, [target], 0, [], [], ignored, False) if is_same else None

    def _ufunc(self, ufunc: np.ufunc, parts: Sequence[Any], ignored: int) -> list[LoopCall | None]:
        if ufunc.signature is not None and ufunc is not np.matmul:
            return [None]
        if ufunc.nout != 1 or len(parts) != ufunc.nargs or len(parts) > MOST_OPERANDS:
            return [None]
        chosen = loop_of(ufunc, parts)
        if chosen is None or type(parts[-1]) is not Value or overlaps(parts, ufunc is np.matmul):
            return [None]
        loop, dtypes = chosen
        before: list[LoopCall | None] = []
        operands: list[Operand] = []
        for part, dtype in zip(parts, dtypes, strict=True):
            operand = self._operands.of(part, dtype)
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
            products = self._products
            if not is_stack:
                return products.dot(ufunc, parts, {}, ignored)
            return products.matmul(loop, operands, parts[-1], ignored)
        call = self._elementwise(ufunc, loop, operands, ignored)
        return [*before, call] if call is not None else self._in_parts(ufunc, loop, operands, ignored)

    def _where(self, ufunc: np.ufunc, step: Step, ignored: int) -> LoopCall | None:
        """Return the call of a ufunc where a mask is true."""
        masked = masked_parts(step)
        chosen = None if masked is None else loop_of(ufunc, masked[1])
        if masked is None or chosen is None or overlaps(masked[1], False):
            return None
        (mask, parts), (loop, dtypes) = masked, chosen
        operands = [self._operands.of(part, dtype) for part, dtype in zip(parts, dtypes, strict=True)]
        present = [one for one in operands if one is not None]
        return self._masked.of(ufunc, loop, mask, present, ignored) if len(present) == len(parts) else None

    def _elementwise(
        self, ufunc: np.ufunc, loop: InnerLoop, operands: Sequence[Operand], ignored: int
    ) -> LoopCall | None:
        axes = _axes(ufunc, operands)
        if axes is None:
            return None
        return LoopCall(loop if operands[-1].size else None, operands, *axes, ignored, ufunc not in _KEEPS_FLAGS)

    def _in_parts(
        self, ufunc: np.ufunc, loop: InnerLoop, operands: Sequence[Operand], ignored: int
    ) -> list[LoopCall | None]:
        """Return the calls of a loop as NumPy's iterator makes them, after copies of what that copies to its buffer."""
        order = operands[-1].order()
        *inputs, target = operands = [one.in_order(order) if len(order) > 1 else one for one in operands]
        if not target.is_flat() or target.size < 2:
            return [None]
        layouts: tuple[Layout, ...] = tuple([(one.dtype.char, one.shape, one.strides) for one in operands])
        parts = elementwise_parts(layouts, np.getbufsize())
        if parts is None:
            return [None]
        length, steps = parts
        calls: list[LoopCall | None] = []
        for place, one in enumerate(inputs):
            if one.size == 1 and steps[place] == 0:
                continue
            if one.shape == target.shape and (one.is_flat() or len(one.shape) == 1) and steps[place] == one.step():
                continue
            if steps[place] != one.dtype.itemsize:
                return [None]
            inputs[place] = self._operands.scratch(place, one.dtype, target.shape)
            calls.append(self._copy_of_operand(one, inputs[place], ignored))
        whole = target.size // length
        for begin, number, count in ((0, whole, length), (whole, 1, target.size - whole * length)):
            if number * count:
                around = filled([step * length for step in steps], MOST_OPERANDS)
                here = [one.shifted(begin * length * step) for one, step in zip((*inputs, target), steps, strict=True)]
                calls.append(
                    LoopCall(loop, here, 1, [number, count], [*around, *steps], ignored, ufunc not in _KEEPS_FLAGS)
                )
        return calls

    def _joined(self, step: Step, ignored: int) -> list[LoopCall | None]:
        """Return the copies that concatenate or stack arrays."""
        target = self._operands.of(step.kwargs.get("out"))
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
        options = {name: one for name, one in step.kwargs.items() if name not in ("out", "keepdims", "axis", "where")}
        mask = step.kwargs.get("where")
        if not isinstance(ufunc, np.ufunc) or len(step.args) > 2 or set(options) - {"initial"}:
            return [None]
        value, out = step.args[0], step.kwargs.get("out")
        axis = step.args[1] if len(step.args) > 1 else step.kwargs.get("axis", _default_axis(step.function))
        out = out[0] if isinstance(out, tuple) else out
        if type(value) is not Value or type(out) is not Value or value.root is out.root:
            return [None]
        kind, beginning = value.array.dtype, options.get("initial", _BEGINNINGS.get(ufunc))
        loop = inner_loop(ufunc, f"{kind.char * 2}->{kind.char}") if kind.kind != "c" else None
        source, target = self._operands.of(value), self._operands.of(out, kind)
        reduced = _reduced_axes(value.array.ndim, axis)
        if loop is None or source is None or target is None or reduced is None or not source.size:
            return [None]
        groups = _groups(source.shape, reduced) if source.is_flat() else None
        if mask is not None and (groups is None or not _is_one_flag(mask) or "initial" not in options):
            return [None]
        is_plain = isinstance(beginning, (int, float, np.generic)) or (beginning is None and ufunc not in _BEGINNINGS)
        if not target.is_flat() or not is_plain or (beginning is not None and number_of(beginning, kind) is None):
            return [None]
        if groups is None:
            return self._reduced_in_order(ufunc, loop, source, target, reduced, beginning, ignored)
        if not reduction_agrees(ufunc, loop, kind, groups, beginning, mask is not None):
            return [None]
        calls = self._reduced(loop, source, target, groups, beginning is None, ignored)
        if mask is not None:
            masked = [self._masked.where(mask, one) for one in calls]
            return [self._beginning(source, target, groups, beginning, ignored), *masked]
        return [self._beginning(source, target, groups, beginning, ignored), *calls]

    def _reduced_in_order(
        self,
        ufunc: np.ufunc,
        loop: InnerLoop,
        source: Operand,
        target: Operand,
        reduced: set[int],
        beginning: Any,
        ignored: int,
    ) -> list[LoopCall | None]:
        """Return the calls for axes of an array that need not lie together, in the order of NumPy's iterator."""
        is_any_order = source.dtype.kind in "biu" and ufunc not in (np.add, np.multiply)
        kept = [axis for axis in range(len(source.shape)) if axis not in reduced]
        shape = tuple([source.shape[axis] for axis in kept])
        into = dict(zip(kept, strides_in_order(shape, target.dtype), strict=True))
        axes = [
            (source.shape[axis], [into.get(axis, 0), source.strides[axis], into.get(axis, 0), 0])
            for axis in source.order()
        ]
        merged = merged_axes(axes)
        if len(merged) > MOST_AXES or (beginning is None and not is_any_order):
            return [None]
        if not is_any_order:
            layout: Layout = source.dtype.char, source.shape, source.strides
            onto = tuple([kept.index(axis) if axis in into else -1 for axis in range(len(source.shape))])
            along = tuple([(length, (steps[0], steps[1])) for length, steps in merged])
            if not nest_agrees(ufunc, loop, layout, onto, along, beginning, np.getbufsize()):
                return [None]
        flat = Operand(target.base, target.offset, target.dtype, shape, strides_in_order(shape, target.dtype))
        if beginning is None:
            first = Operand(
                source.base, source.offset, source.dtype, shape, tuple([source.strides[axis] for axis in kept])
            )
            begun = self._copy_of_operand(first, flat, ignored)
        else:
            begun = self._copy(np.array(beginning, target.dtype)[()], flat, ignored)
        counts, steps = [length for length, _ in merged], [step for _, along in merged for step in along]
        return [begun, LoopCall(loop, [target, source, target], len(merged) - 1, counts, steps, ignored, True)]

    def _beginning(
        self, source: Operand, target: Operand, groups: Groups, beginning: Any, ignored: int
    ) -> LoopCall | None:
        kept, length, is_last = groups
        flat = Operand(target.base, target.offset, target.dtype, (kept,), (target.dtype.itemsize,))
        if beginning is not None:
            return self._copy(np.array(beginning, target.dtype)[()], flat, ignored)
        item = source.dtype.itemsize
        first = Operand(source.base, source.offset, source.dtype, (kept,), (item * length if is_last else item,))
        return self._copy_of_operand(first, flat, ignored)

    def _reduced(
        self, loop: InnerLoop, source: Operand, target: Operand, groups: Groups, skips: bool, ignored: int
    ) -> list[LoopCall]:
        counts, steps, offset = reduction_axes(groups, source.dtype.itemsize, skips)
        if groups[1] == skips:
            # All of it is in the beginning.
            return []
        rest = Operand(source.base, source.offset + offset, source.dtype, source.shape, source.strides)
        return [LoopCall(loop, [target, rest, target], 1, counts, steps, ignored, True)]


def _is_one_flag(mask: object) -> bool:
    return type(mask) is Value and mask.array.size == 1 and mask.array.dtype == bool


def _reduced_axes(number: int, axis: Any) -> set[int] | None:
    """Return which of so many axes a reduction is over."""
    axes = range(number) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return {one % number for one in axes if number} if all(isinstance(one, int) for one in axes) else None


def _groups(shape: tuple[int, ...], reduced: set[int]) -> Groups | None:
    """Return what a reduction over axes reduces in an array in C order; None unless they are the first or the last."""
    number = len(reduced)
    length = prod([shape[place] for place in reduced])
    kept = prod(shape) // length
    if kept == 1 or reduced == set(range(len(shape) - number, len(shape))):
        return kept, length, True
    return (kept, length, False) if reduced == set(range(number)) else None


def _default_axis(function: Any) -> int | None:
    return 0 if getattr(function, "__name__", "") == "reduce" else None


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


def _axes(ufunc: np.ufunc, operands: Sequence[Operand]) -> tuple[int, list[int], list[int]] | None:
    """Return how many axes are around the loop, the length of each, and the steps of the operands along each."""
    *inputs, target = operands
    is_exact = ufunc in (_EXACT_OF_COMPLEX if any(one.dtype.kind == "c" for one in operands) else _EXACT)
    is_exact = is_exact or (ufunc in (np.maximum, np.minimum) and all(one.dtype.kind in "biu" for one in operands))
    if not is_exact and any(one.has_odd_step() for one in operands):
        return None
    if target.size == 1 and any((one.base, one.offset) == (target.base, target.offset) for one in inputs):
        # Into one of its operands, NumPy writes a single element by its iterator, which has no steps: the loop of a
        # product of complex numbers rounds otherwise then.
        return 0, [1], filled([0] * len(operands), MOST_OPERANDS)
    if target.is_flat() and all(not one.shape or (one.shape == target.shape and one.is_flat()) for one in inputs):
        # NumPy calls the loop once.
        steps = [one.step() for one in inputs]
        return 0, [target.size], filled([*steps, target.step() or target.dtype.itemsize], MOST_OPERANDS)
    if not is_exact:
        if target.is_dense() and all(one.shape == target.shape and one.strides == target.strides for one in inputs):
            # So it does where they all have their axes in another order in memory.
            return 0, [target.size], filled([one.dtype.itemsize for one in operands], MOST_OPERANDS)
        return None
    spread = [steps_along(one.shape, one.strides, target.shape) for one in operands]
    axes = [(length, [one[axis] for one in spread]) for axis, length in enumerate(target.shape) if length != 1]
    axes.sort(key=lambda axis: -abs(axis[1][-1]))
    merged = merged_axes(axes)
    if len(merged) > MOST_AXES:
        return None
    steps = [step for _, strides in merged for step in filled(strides, MOST_OPERANDS)]
    return len(merged) - 1, [length for length, _ in merged], steps


def _by_rows(call: LoopCall) -> tuple[int, list[int], list[int]]:
    """Return the axes of a copy whose loop does the last two: what lies together in one array or in the other."""
    steps = [call.steps[begin : begin + MOST_OPERANDS] for begin in range(0, len(call.steps), MOST_OPERANDS)]
    *around, innermost = zip(call.counts, steps, strict=True)
    row = min(range(len(around)), key=lambda axis: (abs(around[axis][1][0]), -axis))
    axes = [*around[:row], *around[row + 1 :], around[row], innermost]
    return call.outer - 1, [count for count, _ in axes], [step for _, one in axes for step in one]
