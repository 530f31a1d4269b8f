"""The calls of loops that have the bits of NumPy's products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from .inner_loops import InnerLoop, inner_loop
from .loop_call import LoopCall, Operand, Operands, filled, overlaps, steps_along
from .loop_trials import outer_agrees, product_agrees, scale_agrees
from .product_loops import LANES
from .product_tiles import tiles_of
from .program import Step
from .runner import MOST_OPERANDS, Runner
from .trace import Value

__all__ = ["ProductCalls"]

#: How many bytes a result has at least that is written past the caches.
_LARGE_RESULT = 1 << 15


@final
class ProductCalls:
    """Finds the calls of loops for products.

    Args:
        operands: what finds operands.
        own: the runner, which has loops of its own.
        copy: returns the call that copies an operand into another one, given the bits of errors to ignore.
        fixed: the numbers of the arrays that each call gives, and that no step writes into.
        passing: the arrays that one step makes, and that one other step alone reads.
    """

    __slots__ = ("_copy", "_fixed", "_last", "_operands", "_own", "_packed", "_passing")

    def __init__(
        self,
        operands: Operands,
        own: Runner,
        copy: Callable[[Operand, Operand, int], LoopCall | None],
        fixed: frozenset[int],
        passing: frozenset[Value],
    ) -> None:
        self._operands = operands
        self._own = own
        self._copy = copy
        self._fixed = fixed
        self._passing = passing
        #: The last product by tiles, and the calls after it; None where not all of these are known.
        self._last: tuple[_Tiled, list[LoopCall]] | None = None
        #: By where a matrix lies: the copy of it in panels that the calls before have made.
        self._packed: dict[Any, Operand] = {}

    def begin(self) -> None:
        """Begin with a forward or a backward: it finds no copies, for the one before may have ended with an error."""
        self._packed.clear()
        self._last = None

    def follow(self, calls: Sequence[LoopCall] | None) -> None:
        """Note the calls that have been found for a step; None where they are not known."""
        if calls is None:
            self._last = None
        elif self._last is not None:
            tiled, since = self._last
            since += [one for one in calls if one is not tiled.call]

    def added(self, step: Step, ignored: int) -> LoopCall | None:
        """Have the last product add to what it finds, as a step does; return a call that does nothing.

        None where the step adds something else, or where the calls since then do not allow for it: the product writes
        at once what the step would write.
        """
        if self._last is None or step.function is not np.add or step.kwargs or len(step.args) != 3:
            return None
        tiled, since = self._last
        first, second, out = step.args
        other = second if first is tiled.product else first
        if tiled.product not in (first, second) or type(other) is not Value or other is tiled.product:
            return None
        if out is not tiled.product and tiled.product not in self._passing:
            return None
        kind = tiled.product.array.dtype
        addend, target = self._operands.of(other, kind), self._operands.of(out, kind)
        if (
            addend is None
            or target is None
            or target.shape != tiled.product.array.shape
            or tiled.call.ignored != ignored
        ):
            return None
        along = steps_along(addend.shape, addend.strides, target.shape)
        if len(target.shape) != 2 or (along[-1], target.strides[-1]) != (kind.itemsize, kind.itemsize):
            return None
        if addend.place() != target.place() and addend.meets(target):
            return None
        if any(one.meets(target) for one in tiled.factors) or any(_depend(one, addend, target) for one in since):
            return None
        tiled.add(addend, target, along[0])
        self._last = None
        return LoopCall(None, [target], 0, [], [], ignored, False)

    def matmul(self, loop: InnerLoop, operands: Sequence[Operand], made: Value, ignored: int) -> list[LoopCall | None]:
        """Return the calls that have the bits of `matmul` for matrices, or stacks of them.

        Args:
            loop: its loop.
            operands: what it is called with, the result last.
            made: the Value of the result.
            ignored: the bits of the floating-point errors that nobody is to be told of.
        """
        return self._tiled(np.matmul, operands, made, ignored) or [_product(loop, operands, ignored)]

    def dot(
        self, function: Callable[..., Any], parts: Sequence[Any], options: dict[str, Any], ignored: int
    ) -> list[LoopCall | None]:
        """Return the calls that have the bits of `dot`, or of `matmul` for a vector: most often of matmul's loop.

        Args:
            function: the product.
            parts: its operands, the result last.
            options: what it is called with besides.
            ignored: the bits of the floating-point errors that nobody is to be told of.
        """
        if len(parts) != 3 or set(options) - {"out"} or overlaps(parts, True):
            return [None]
        kind = getattr(parts[-1], "array", np.empty(0)).dtype
        loop = inner_loop(np.matmul, f"{kind.char * 2}->{kind.char}") if kind.kind == "f" else None
        a, b, target = [self._operands.of(one, kind) for one in parts]
        if loop is None or a is None or b is None or target is None or not target.size or not target.is_flat():
            return [None]
        if len(a.shape) > 2 or len(b.shape) > 2 or not a.shape or not b.shape or a.size * b.size == 0:
            return [None]
        if target.shape != (*a.shape[:-1], *b.shape[1:]):
            # NumPy puts the product there several times.
            return [None]
        if parts[0].root is parts[1].root:
            # BLAS has another function for the product of an array with itself.
            return [None]
        if function is np.dot and 1 in (a.size, b.size):
            return [self._scaled(a, b, target, kind, ignored)]
        is_outer = len(a.shape) == len(b.shape) == 2 and a.shape[1] == 1 and kind.char in self._own.products
        is_outer = is_outer and function is np.dot and b.strides[1] == kind.itemsize
        if is_outer and outer_agrees(kind, a.shape[0], b.shape[1]):
            return [self._outer(a, b, target, kind, ignored)]
        if function is not np.dot and 1 in (*a.shape, *b.shape):
            # BLAS has other functions for these.
            return [None]
        tiled = self._tiled(function, [a, b, target], parts[-1], ignored)
        if tiled:
            return tiled
        if not product_agrees(function, loop, kind, (a.shape, a.strides), (b.shape, b.strides)):
            return [None]
        return [_product(loop, _as_matrices(a, b, target), ignored)]

    def _outer(self, a: Operand, b: Operand, target: Operand, kind: np.dtype[Any], ignored: int) -> LoopCall:
        """Return the call that multiplies a column and a row: matmul's loop does the same, and is slow."""
        # Of a large result for a row, little would be in the caches when it is read.
        is_past = target.base > 0 and target.size * kind.itemsize >= _LARGE_RESULT
        loop = self._own.products[kind.char][is_past]
        steps = [a.strides[0], target.strides[0]]
        return LoopCall(loop, [a, b, target], 0, list(target.shape), steps, ignored, False)

    def _scaled(self, a: Operand, b: Operand, target: Operand, kind: np.dtype[Any], ignored: int) -> LoopCall | None:
        """Return the call that has the bits of `dot` where one operand is one number."""
        factor, vector = (a, b) if a.size == 1 else (b, a)
        if vector.size == 1:
            return None
        for loop in self._own.scales.get(kind.char, ()):
            if scale_agrees(loop, kind, (a.shape, a.strides), (b.shape, b.strides)):
                step = next(step for step, length in zip(vector.strides, vector.shape, strict=True) if length > 1)
                steps = filled([0, step, kind.itemsize], MOST_OPERANDS)
                return LoopCall(loop, [factor, vector, target], 0, [vector.size], steps, ignored, False)
        return None

    def _tiled(
        self, function: Callable[..., Any], operands: Sequence[Operand], made: Value, ignored: int
    ) -> list[LoopCall | None]:
        """Return the calls that do a product of small matrices by tiles; none where these lack the bits of NumPy.

        Args:
            function: the product.
            operands: its operands, the result last.
            made: the Value of the result.
            ignored: the bits of the floating-point errors that nobody is to be told of.
        """
        a, b, target = operands
        are_matrices = min(len(one.shape) for one in operands) > 1 and target.size > 0
        if not are_matrices or target.strides[-1] != target.dtype.itemsize:
            return []
        if (a.base, a.offset) == (b.base, b.offset):
            # BLAS has another function for the product of an array with itself.
            return []
        layouts = [(one.shape[-2:], one.strides[-2:]) for one in (a, b)]
        told = tiles_of(function, self._own, target.dtype, *layouts)
        packed = None if told is None else self._in_panels(b, ignored)
        if told is None or packed is None:
            return []
        before, panels = packed
        loop = self._own.tiles._replace(data=self._operands.constant(told).offset)
        call = _product(loop, [a, panels, target], ignored)
        self._last = (_Tiled(made, call, (a, b)), [])
        return [*before, call]

    def _in_panels(self, matrix: Operand, ignored: int) -> tuple[list[LoopCall], Operand] | None:
        """Return the calls that copy a matrix, so that its rows can be read in parts of a vector, and that copy.

        Its last step is that from one panel to the next. There are no calls where it can be read as it is, nor where
        the same has been copied before.
        """
        lanes, item = LANES[matrix.dtype.char], matrix.dtype.itemsize
        *stack, rows, columns = matrix.shape
        *around, step, along = matrix.strides
        if along == item:
            return [], Operand(matrix.base, matrix.offset, matrix.dtype, matrix.shape, (*around, step, lanes * item))
        if matrix.place() in self._packed:
            return [], self._packed[matrix.place()]
        shape = (*stack, columns // lanes, rows, lanes)
        spread = Operand(matrix.base, matrix.offset, matrix.dtype, shape, (*around, lanes * along, step, along))
        stays = matrix.base in self._fixed
        made = (
            self._operands.constant(np.empty(shape, matrix.dtype))
            if stays
            else self._operands.scratch(1, matrix.dtype, shape)
        )
        copy = None if 0 in around else self._copy(spread, made, ignored)
        if copy is None:
            return None
        *outer, panel, step, _ = made.strides
        found = Operand(made.base, made.offset, matrix.dtype, matrix.shape, (*outer, step, panel))
        if stays:
            self._packed[matrix.place()] = found
        return [copy], found


@final
class _Tiled(NamedTuple):
    """A product of two matrices by tiles.

    Attributes:
        product: the Value of its result.
        call: the call.
        factors: where its matrices lie.
    """

    product: Value
    call: LoopCall
    factors: tuple[Operand, Operand]

    def add(self, addend: Operand, target: Operand, step: int) -> None:
        """Have it add rows that are a step apart to its own, and write into another array."""
        call = self.call
        a, panels, _ = call.operands
        call.steps = [*_axes_of_product([a, panels, target])[2], step]
        call.operands = [a, panels, target, addend]


def _depend(call: LoopCall, addend: Operand, target: Operand) -> bool:
    """Tell whether it may matter to a call, or to what is added, which of both is first."""
    return any(one.meets(addend) or one.meets(target) for one in call.operands)


def _product(loop: InnerLoop, operands: Sequence[Operand], ignored: int) -> LoopCall:
    return LoopCall(loop if operands[-1].size else None, operands, *_axes_of_product(operands), ignored, False)


def _as_matrices(a: Operand, b: Operand, target: Operand) -> list[Operand]:
    """Return the operands of a product with an axis of length 1 where one is a vector."""
    item = a.dtype.itemsize
    shape, strides = target.shape, target.strides
    if len(a.shape) == 1:
        a = Operand(a.base, a.offset, a.dtype, (1, *a.shape), (a.shape[0] * a.strides[0], *a.strides))
        shape, strides = (1, *shape), (item * target.size, *strides)
    if len(b.shape) == 1:
        b = Operand(b.base, b.offset, b.dtype, (*b.shape, 1), (*b.strides, item))
        shape, strides = (*shape, 1), (*strides, item)
    return [a, b, Operand(target.base, target.offset, target.dtype, shape, strides)]


def _axes_of_product(operands: Sequence[Operand]) -> tuple[int, list[int], list[int]]:
    """Return the same as `_axes` for a product of matrices, whose loop runs along one axis of stacks of them."""
    a, b, target = operands
    stack = target.shape[:-2]
    spread = [steps_along(one.shape[:-2], one.strides[:-2], stack) for one in operands]
    counts, steps = [], []
    for axis, length in enumerate(stack[:-1]):
        counts.append(length)
        steps += filled([one[axis] for one in spread], MOST_OPERANDS)
    counts += [stack[-1] if stack else 1, a.shape[-2], a.shape[-1], b.shape[-1]]
    steps += [one[-1] if stack else 0 for one in spread]
    steps += [*a.strides[-2:], *b.strides[-2:], *target.strides[-2:]]
    return (len(stack) - 1 if stack else 0), counts, steps
