"""The records by which the runner makes the calls of a program; what has none is called by Python between them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from .fused_program import FusedProgram
from .fusion import Group
from .inner_loops import address_of
from .loop_call import LoopCall
from .loop_calls import LoopCalls
from .program import CheckFailed, Program, Step
from .runner import ERRORS, IS_OTHER, RECORD, Runner
from .trace import Value, name_of

__all__ = ["Records", "parts_of"]


@final
class Records:
    """The records of a program, for the memory of one table.

    Args:
        program: the program.
        runner: what runs them.
        array: returns the array of a Value; of one that depends on an argument it is not asked.
        fused: which steps are done by kernels; None for none.
    """

    __slots__ = (
        "_addresses",
        "_array",
        "_bases",
        "_bases_memory",
        "_calls",
        "_calls_made",
        "_failed",
        "_fused",
        "_given",
        "_kernels",
        "_layouts",
        "_nan",
        "_program",
        "_start",
        "_table",
        "backward",
        "forward",
        "gradient_targets",
    )

    def __init__(
        self,
        program: Program,
        runner: Runner,
        array: Callable[[Value], np.ndarray],
        fused: FusedProgram | None = None,
    ) -> None:
        self._program = program
        self._start = runner.start
        self._array = array
        self._fused = fused
        values = (*program.arguments, *program.targets, *program.cotangents, *program.gradient_targets.values())
        given = {value: index + 1 for index, value in enumerate(values)}
        self._given = given
        #: Not 0 once a number was another one than in the traced run, or an index is out of bounds.
        self._failed = np.zeros(1, np.int64)
        #: Not 0 once a kernel has loaded a NaN that may have met another one.
        self._nan = np.zeros(1, np.int64)
        self._bases = np.zeros(len(given) + 1, np.int64)
        self._bases_memory: memoryview = self._bases.data
        fixed = frozenset([given[value] for value in (*program.arguments, *program.cotangents)])
        self._calls = LoopCalls(given, array, program.errstate, runner, self._failed, fixed, program.passing())
        #: By the call of a kernel, of how many steps that is; once all records are known, by the number of its record.
        self._kernels: dict[Any, int] = {}
        calls: list[LoopCall] = []
        groups = ([], []) if fused is None else fused.fusion
        #: Parts of the forward and of the backward: a range of records, or the number of a step that has none.
        self.forward: list[tuple[int, int] | int] = self._parts(program.forward, groups[0], calls)
        # A backward that writes into what the forward has left could not be run again after an error.
        self.backward: list[tuple[int, int] | int] = (
            self._parts(program.backward, groups[1], calls) if program.repeats else list(range(len(program.backward)))
        )
        self._kernels = {index: self._kernels[one] for index, one in enumerate(calls) if one in self._kernels}
        self._table = np.array([one.record() for one in calls], RECORD)
        opaque = {value.root for step in self.opaque() for value in (*step.reads, *step.writes)}
        #: The gradients that are written into memory of the caller's; those of which a step without a record has a part
        #: lie in the table.
        self.gradient_targets: list[int] = [
            index for index, value in program.gradient_targets.items() if value not in opaque
        ]
        #: By its part and which bases are arrays then: a call of `start`, and where it lies.
        self._calls_made: dict[tuple[tuple[int, int], int, int], np.ndarray] = {}
        self._addresses: dict[tuple[tuple[int, int], int, int], int] = {}
        #: By how many arrays are given: how their addresses are written.
        self._layouts: dict[int, struct.Struct] = {}

    def opaque(self) -> set[Step]:
        """Return the steps that have no record."""
        parts = ((self.forward, self._program.forward), (self.backward, self._program.backward))
        return {steps[part] for found, steps in parts for part in found if isinstance(part, int)}

    def pieces(self, parts: Sequence[tuple[int, int] | int]) -> list[tuple[int, int] | int]:
        """Return the same parts with each kernel as a part of its own."""
        found: list[tuple[int, int] | int] = []
        for part in parts:
            if isinstance(part, int):
                found.append(part)
                continue
            begin, end = part
            for index in range(begin, end):
                if index in self._kernels:
                    found += [(begin, index)] if begin < index else []
                    found.append((index, index + 1))
                    begin = index + 1
            found += [(begin, end)] if begin < end else []
        return found

    def described(self, part: tuple[int, int] | int, steps: Sequence[Step]) -> str:
        """Return what a piece of a forward or a backward with these steps does."""
        if isinstance(part, int):
            return name_of(steps[part].function)
        kernel = self._kernels.get(part[0])
        if kernel is not None:
            return f"kernel of {kernel} step{'s' * (kernel != 1)}"
        count = part[1] - part[0]
        return f"runner, {count:,} loop{'s' * (count != 1)}"

    def run(
        self,
        parts: Sequence[tuple[int, int] | int],
        rows: Sequence[Any],
        arrays: Sequence[np.ndarray],
        first: int,
        note: Callable[[tuple[int, int] | int], None] | None = None,
    ) -> int | None:
        """Run a forward or a backward; return the place of a part with an error to be told of, after which it ends.

        Args:
            parts: `forward` or `backward`, or pieces of it.
            rows: the calls of the steps that have no record, by their numbers.
            arrays: the arguments and the targets, or the cotangents and those for gradients.
            first: the number of the first among all that are given.
            note: called with each part after it; None where nobody observes it.

        Raises:
            CheckFailed: a number decides otherwise than in the traced run.
        """
        count = len(arrays)
        begin, end = first + 1, first + 1 + count
        layout = self._layouts.get(count)
        if layout is None:
            layout = self._layouts[count] = struct.Struct(f"{count}q")
        # A slice of an array of NumPy's takes three times as long.
        layout.pack_into(self._bases_memory, begin * self._bases.itemsize, *map(id, arrays))
        calls = self._addresses
        for place, part in enumerate(parts):
            if isinstance(part, tuple):
                if self._start(calls.get((part, begin, end)) or self._call_of(part, begin, end)):
                    self._end()
                    return place
                # The addresses of the arrays stand there now.
                begin = end
            else:
                function, args = rows[part]
                function(*args)
            if note is not None:
                note(part)
        if begin < end:
            # No record has run, and those of the backward read the arguments too.
            self._start(self._call_of((0, 0), begin, end))
        return None

    def _call_of(self, part: tuple[int, int], begin: int, end: int) -> int:
        """Return the address of a call of `start`, which is made once.

        Args:
            part: its records, from the first to the one after the last.
            begin: the first base that is an array of Python then.
            end: the one after the last.
        """
        key = part, begin, end
        places = [address_of(self._bases), address_of(self._table), *part, begin, end]
        call = np.array([*places, address_of(self._failed), address_of(self._nan)], np.int64)
        self._calls_made[key] = call
        found = self._addresses[key] = address_of(call)
        return found

    def _end(self) -> None:
        """Forget what has ended a run.

        Raises:
            CheckFailed: a number decides otherwise than in the traced run.
        """
        how, self._failed[0], self._nan[0] = int(self._failed[0]), 0, 0
        if how == IS_OTHER:
            raise CheckFailed("another number than in the traced run")

    def _parts(
        self, steps: Sequence[Step], groups: Sequence[Group], found: list[LoopCall]
    ) -> list[tuple[int, int] | int]:
        return parts_of(steps, self._calls, found, groups, self._kernel_call)

    def _kernel_call(self, group: Group) -> LoopCall:
        assert self._fused is not None
        data = [address_of(self._nan)]
        for part, operand in zip(group.parts, group.kernel.operands, strict=True):
            if operand.is_given:
                data += [
                    self._given[part.root] * self._bases.itemsize,
                    address_of(part.array) - address_of(part.root.array),
                ]
            else:
                data.append(address_of(self._array(part) if type(part) is Value else part))
        # Where a NaN comes to be, it may meet another one in the same kernel.
        ignored = group.ignored & ~ERRORS["invalid"] if group.kernel.reports_nan else group.ignored
        call = self._calls.of_kernel(self._fused.address(group.kernel), address_of(self._bases), data, ignored)
        self._kernels[call] = group.end - group.begin
        return call


def parts_of(
    steps: Sequence[Step],
    calls_of: LoopCalls,
    found: list[LoopCall],
    groups: Sequence[Group] = (),
    kernel_call: Callable[[Group], LoopCall] | None = None,
) -> list[tuple[int, int] | int]:
    """Return ranges of records, and the numbers of steps that have none; add the calls of the records to `found`.

    Args:
        steps: the steps of a forward or a backward.
        calls_of: what finds their calls.
        found: the calls before.
        groups: the steps that are done by kernels.
        kernel_call: returns the call of a kernel.
    """
    parts: list[tuple[int, int] | int] = []
    begin, done = len(found), 0
    calls_of.begin()
    by_begin = {group.begin: group for group in groups}

    def end_range() -> None:
        if len(found) > begin:
            found[-1].collects = True
            parts.append((begin, len(found)))

    for index, step in enumerate(steps):
        if index < done:
            continue
        group = by_begin.get(index)
        done = index + 1 if group is None else group.end
        calls = calls_of.of(step) if group is None or kernel_call is None else [kernel_call(group)]
        if calls is None:
            end_range()
            parts.append(index)
            begin = len(found)
        for call in calls or ():
            if call.loop is None:
                continue
            if len(found) > begin and (call.clears or found[-1].ignored != call.ignored):
                found[-1].collects = True
            found.append(call)
    end_range()
    return parts
