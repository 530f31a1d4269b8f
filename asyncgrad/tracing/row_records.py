"""The records of a forward or a backward that runs for many rows: arguments and results are shifted each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from .inner_loops import address_of
from .loop_call import LoopCall
from .loop_calls import LoopCalls
from .program import CheckFailed, Program, Step
from .records import parts_of
from .runner import IS_OTHER, RECORD, Runner
from .trace import Value

__all__ = ["RowRecords", "Rows"]


@final
class Rows:
    """Rows for which a program runs.

    Args:
        arguments: its arguments, those that differ from row to row with the rows along axis 0.
        are_stacks: which ones differ.
        index: the first row; once some have run, the one after these.
        end: the row after the last.
        results: for each output an array in C order with all rows along axis 0.
    """

    __slots__ = ("are_stacks", "arguments", "end", "index", "results")

    def __init__(
        self,
        arguments: Sequence[np.ndarray],
        are_stacks: Sequence[bool],
        index: int,
        end: int,
        results: Sequence[np.ndarray],
    ) -> None:
        self.arguments = arguments
        self.are_stacks = are_stacks
        self.index = index
        self.end = end
        self.results = results

    def row(self) -> list[np.ndarray]:
        """Return the arguments for the row that is next."""
        pairs = zip(self.arguments, self.are_stacks, strict=True)
        return [one[self.index, ...] if is_stack else one for one, is_stack in pairs]


@final
class RowRecords:
    """The records of the forward or the backward of a program for many rows, for the memory of one table.

    A result lies in memory that a call gives, as the arguments do, so that nothing is copied.

    Args:
        program: the program.
        runner: what runs them.
        array: returns the array of a Value; of one that depends on an argument it is not asked.
        is_backward: whether it is the backward, whose arguments are those of the forward and the incoming gradients.
    """

    __slots__ = ("_bases", "_calls", "_failed", "_last", "_run_rows", "_steps", "_table", "is_whole")

    def __init__(
        self, program: Program, runner: Runner, array: Callable[[Value], np.ndarray], is_backward: bool
    ) -> None:
        self._run_rows = runner.run_rows
        #: Not 0 once a number was another one than in the traced run, or an index is out of bounds.
        self._failed = np.zeros(1, np.int64)
        steps, arguments, outputs = _parts(program, is_backward)
        given = {value: index + 1 for index, value in enumerate(arguments)}
        bases = [len(given) + 1 + place for place in range(len(outputs))]
        roots = [value.root for value in outputs]
        direct = {
            value.root: base
            for value, base in zip(outputs, bases, strict=True)
            if value.root not in given and _is_computed_whole(value, steps) and roots.count(value.root) == 1
        }
        fixed = frozenset(given.values())
        places = {**given, **direct}
        self._calls = LoopCalls(places, array, program.errstate, runner, self._failed, fixed, program.passing())
        calls: list[LoopCall] = []
        parts = parts_of(steps, self._calls, calls)
        #: Whether there are records for all of it.
        self.is_whole: bool = len(parts) < 2 and not any(isinstance(part, int) for part in parts)
        for value, base in zip(outputs, bases, strict=True):
            if value.root not in direct:
                # Where a caller gives memory for a result, there is none to copy from.
                self.is_whole = self.is_whole and value.root not in program.targets
                copy = self._calls.copied(value, base)
                if copy is None:
                    self.is_whole = False
                elif copy.loop is not None:
                    calls.append(copy)
        self._last = len(calls)
        self._table = np.array([one.record() for one in calls], RECORD)
        self._bases = np.zeros(len(given) + len(bases) + 1, np.int64)
        self._steps = np.zeros_like(self._bases)

    def run(self, rows: Rows) -> None:
        """Run until the end, or up to a row with an error to be told of, which runs by other means.

        Raises:
            CheckFailed: for a row, a number decides otherwise than in the traced run.
        """
        bases, steps = self._bases, self._steps
        pairs = [*zip(rows.arguments, rows.are_stacks, strict=True), *[(one, True) for one in rows.results]]
        steps[1:] = [one.strides[0] if is_stack else 0 for one, is_stack in pairs]
        bases[1:] = [address_of(one) for one, _ in pairs]
        bases += rows.index * steps
        places = bases.ctypes.data, self._table.ctypes.data, 0, self._last, steps.ctypes.data
        rows.index += self._run_rows(*places, len(bases), rows.end - rows.index, self._failed.ctypes.data)
        how, self._failed[0] = int(self._failed[0]), 0
        if how == IS_OTHER:
            raise CheckFailed("another number than in the traced run")


def _parts(program: Program, is_backward: bool) -> tuple[list[Step], list[Value], list[Value]]:
    """Return the steps, what goes in, and what comes out."""
    if is_backward:
        gradients = [value for value in program.gradients if value is not None]
        return program.backward, [*program.arguments, *program.cotangents], gradients
    return program.forward, program.arguments, program.outputs


def _is_computed_whole(value: Value, steps: Sequence[Step]) -> bool:
    """Tell whether an output is all of an array that the steps compute, in C order."""
    root = value.root
    if not any(root is one.root for step in steps for one in step.writes):
        return False
    is_all = value.array.size == root.array.size and address_of(value.array) == address_of(root.array)
    return is_all and value.array.flags.c_contiguous and root.array.flags.c_contiguous
