"""The calls of loops for ufuncs with `where=`: the loop of the ufunc is called for each run of elements wanted.

NumPy does the same, axis by axis in the order of its iterator. So each layout is tried against it once in a process.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from .inner_loops import InnerLoop, address_of
from .iterations import Layout, memory_like, merged_axes
from .loop_call import LoopCall, Operand, Operands, filled, steps_along
from .program import Step
from .runner import MOST_AXES, MOST_OPERANDS, RECORD, Runner
from .trace import Value

__all__ = ["MaskedCalls", "masked_parts"]

#: Larger arrays are left to NumPy, which takes no more time for them.
_MOST_ELEMENTS = 1 << 20
#: How often a layout is tried, each time with more elements wanted.
_TRIALS = 4


def masked_parts(step: Step) -> tuple[Value, list[Any]] | None:
    """Return the mask of a call of a ufunc, and its operands, the result last; None for any other call."""
    ufunc, mask, out = step.function, step.kwargs.get("where"), step.kwargs.get("out")
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not isinstance(ufunc, np.ufunc) or set(step.kwargs) != {"where", "out"} or ufunc.nout != 1 or step.results:
        return None
    if type(mask) is not Value or type(out) is not Value or len(step.args) != ufunc.nin or ufunc.signature is not None:
        return None
    is_apart = mask.array.dtype == bool and mask.root is not out.root
    return (mask, [*step.args, out]) if is_apart else None


@final
class MaskedCalls:
    """Finds the calls of loops for masks.

    Args:
        operands: what finds operands.
        own: the runner, which has the loop that looks at a mask.
    """

    __slots__ = ("_operands", "_own")

    def __init__(self, operands: Operands, own: Runner) -> None:
        self._operands = operands
        self._own = own

    def of(
        self, ufunc: np.ufunc, loop: InnerLoop, mask: Value, operands: Sequence[Operand], ignored: int
    ) -> LoopCall | None:
        """Return the call of a loop where a mask is true; None where there is none with the bits of NumPy.

        Args:
            ufunc: the ufunc.
            loop: its loop for the operands.
            mask: the mask.
            operands: what it is called with; the last is the result.
            ignored: the bits of the floating-point errors that nobody is to be told of.
        """
        where = self._operands.of(mask)
        if where is None or len(operands) >= MOST_OPERANDS or any(one.dtype.kind not in "biuf" for one in operands):
            return None
        if len(where.shape) > len(operands[-1].shape) or operands[-1].size > _MOST_ELEMENTS:
            return None
        told = self._operands.constant(np.array(loop, np.int64))
        given = [where, *operands]
        layouts = tuple([(one.dtype.char, one.shape, one.strides) for one in given])
        axes = _axes(layouts)
        if axes is None or not _agrees(ufunc, loop, self._own, layouts):
            return None
        if not operands[-1].size:
            return LoopCall(None, given, *axes, ignored, True)
        return _call(InnerLoop(self._own.masked.function, told.offset), loop, given, axes, ignored)

    def where(self, mask: Value, call: LoopCall) -> LoopCall | None:
        """Return a call of a loop that is made where a mask of one element is true."""
        flag = self._operands.of(mask)
        if flag is None or call.loop is None:
            return None
        if not flag.base:
            return LoopCall(
                call.loop, call.operands, call.outer, call.counts, call.steps, call.ignored, True, flag.offset
            )
        if len(call.operands) >= MOST_OPERANDS:
            return None
        told = self._operands.constant(np.array(call.loop, np.int64))
        steps = []
        for begin in range(0, len(call.steps), MOST_OPERANDS):
            steps += [0, *call.steps[begin : begin + MOST_OPERANDS - 1]]
        own, operands = InnerLoop(self._own.masked.function, told.offset), [flag, *call.operands]
        return LoopCall(own, operands, call.outer, call.counts, steps, call.ignored, True)


def _call(
    masked: InnerLoop,
    loop: InnerLoop,
    operands: Sequence[Operand],
    axes: tuple[int, list[int], list[int]],
    ignored: int,
) -> LoopCall:
    """Return the call of a loop where a mask, the first operand, is true.

    Args:
        masked: the loop that looks at a mask, and is told of the other one.
        loop: the loop.
        operands: the mask, and those of the loop.
        axes: theirs.
        ignored: the bits of the floating-point errors that nobody is to be told of.
    """
    mask, *others = operands
    if mask.size != 1 or mask.base:
        return LoopCall(masked, operands, *axes, ignored, True)
    # All or nothing: it is looked at once, and not for each call of the loop.
    outer, counts, steps = axes
    of_others = [
        step for begin in range(0, len(steps), MOST_OPERANDS) for step in (*steps[begin + 1 : begin + MOST_OPERANDS], 0)
    ]
    return LoopCall(loop, others, outer, counts, of_others, ignored, True, mask.offset)


def _axes(layouts: Sequence[Layout]) -> tuple[int, list[int], list[int]] | None:
    """Return how many axes are around the loop, the length of each, and the steps of the operands along each."""
    shape = layouts[-1][1]
    spread = [steps_along(one[1], one[2], shape) for one in layouts]
    axes = [(length, [one[axis] for one in spread]) for axis, length in enumerate(shape) if length != 1]
    axes.sort(key=lambda axis: -abs(axis[1][-1]))
    merged = merged_axes(axes)
    if len(merged) > MOST_AXES:
        return None
    steps = [step for _, along in merged for step in filled(along, MOST_OPERANDS)]
    return len(merged) - 1, [length for length, _ in merged], steps


@functools.lru_cache(maxsize=4096)
def _agrees(ufunc: np.ufunc, loop: InnerLoop, runner: Runner, layouts: tuple[Layout, ...]) -> bool:
    """Tell whether a loop, called by the runner where a mask is true, has the bits of the ufunc."""
    axes, made = _axes(layouts), [memory_like(one) for one in layouts]
    mask, *inputs, target = made
    assert axes is not None
    if not target.size:
        return True
    told = np.array(loop, np.int64)
    own = InnerLoop(runner.masked.function, address_of(told))
    operands = [Operand(0, address_of(one), one.dtype, one.shape, one.strides) for one in made]
    table = np.array([_call(own, loop, operands, axes, 0).record()], RECORD)
    bases = np.zeros(1, np.int64)
    rng = np.random.Generator(np.random.PCG64(0))
    for trial in range(_TRIALS):
        _fill(rng, mask, rng.random(mask.shape) < (trial + 0.5) / _TRIALS)
        for one in inputs:
            _fill(rng, one, rng.standard_normal(one.shape) * 8)
        found = []
        for by_runner in (False, True):
            _fill(rng, target, 0)
            with np.errstate(all="ignore"):
                if by_runner:
                    runner.run(address_of(bases), address_of(table), 0, 1, 1, 1)
                else:
                    ufunc(*inputs, out=target, where=mask)
            found.append(target.tobytes())
        if found[0] != found[1]:
            return False
    return True


def _fill(rng: np.random.Generator, array: np.ndarray, numbers: Any) -> None:
    """Write numbers into an array, with some that are special where it has such."""
    with np.errstate(all="ignore"):
        array[...] = numbers
        if array.dtype.kind == "f" and np.ndim(numbers):
            special = rng.choice(np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e30]), array.shape)
            array[...] = np.where(rng.random(array.shape) < 0.1, special, numbers)
