"""Where the results of a program lie in one piece of memory, some of them in the same place, one after the other."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from typing import final

import numpy as np

from .fusion import Fusion
from .program import Program
from .runner import LINE
from .trace import Value

__all__ = ["arrays_of"]

#: The bytes of an array of which several fit into a page of memory.
_SMALL = 1024


def arrays_of(program: Program, fusion: Fusion | None = None) -> dict[Value, np.ndarray]:
    """Return an array for each Value that owns memory and that a step writes, all in one piece of memory.

    Args:
        program: the program.
        fusion: which steps are done together; None for one after the other.

    What a step writes never lies where anything lies that it reads, nor where a later step reads something else. What
    the forward has left for the backward stays, so that the backward can run again. All of this holds too where NumPy's
    functions do the steps of a kernel one after the other.
    """
    first, last = _spans(program, fusion)
    cut, end = len(program.forward), len(program.forward) + len(program.backward)
    begins: dict[int, list[Value]] = defaultdict(list)
    ends: dict[int, list[Value]] = defaultdict(list)
    for root in first:
        begins[first[root]].append(root)
        is_left = first[root] < cut <= last[root]
        if not is_left and last[root] < end:
            ends[last[root]].append(root)
    ending = {root for roots in ends.values() for root in roots}
    #: What stays is apart: between what comes and goes, it would leave gaps that nothing fits into.
    staying, passing = _Region(), _Region()
    places: dict[Value, int] = {}
    for position in range(end):
        for root in sorted(begins[position], key=lambda one: one.number):
            places[root] = (passing if root in ending else staying).take(_room(root))
        for root in ends[position]:
            passing.give_back(places[root], _room(root))
    # A large piece lies in large pages of the system.
    memory = np.empty(staying.end + passing.end + LINE, np.uint8)
    begin = -memory.ctypes.data % LINE
    made: dict[tuple[object, ...], np.ndarray] = {}
    found: dict[Value, np.ndarray] = {}
    for root, place in places.items():
        offset = begin + place + (0 if root in ending else passing.end)
        shape, dtype, strides = root.array.shape, root.array.dtype, _strides(root.array)
        lies = shape, dtype, strides, offset
        if lies not in made:
            made[lies] = np.ndarray(shape, dtype, memory.data, offset, strides)
        # One object for all that lie there in turn: a processor finds fewer of them sooner.
        found[root] = made[lies]
    return found


def _spans(program: Program, fusion: Fusion | None) -> tuple[dict[Value, int], dict[Value, int]]:
    """Return for each Value that owns memory and that a step writes the numbers of the first and last step to use it.

    What a kernel has in memory it uses in each of its steps. What comes and goes within one is there only for NumPy's
    functions.
    """
    steps = [*program.forward, *program.backward]
    given = {*program.arguments, *program.targets, *program.cotangents}
    own = {value.root for step in steps for value in step.writes} - given
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}

    def use(value: Value, position: int) -> None:
        if value.root in own:
            first[value.root] = min(first.get(value.root, position), position)
            last[value.root] = max(last.get(value.root, position), position)

    for position, step in enumerate(steps):
        for value in (*step.reads, *step.writes):
            use(value, position)
    for groups, before in () if fusion is None else zip(fusion, (0, len(program.forward)), strict=True):
        for group in groups:
            for part in group.parts:
                if type(part) is Value:
                    use(part, before + group.begin)
                    use(part, before + group.end - 1)
    committed = [value for _, value in program.commits]
    for value in (*program.outputs, *committed, *(one for one in program.gradients if one is not None)):
        # Read when the steps are done.
        use(value, len(steps))
    return first, last


def _room(root: Value) -> int:
    """Return the bytes that an array takes: whole lines, and one between it and the next if it is not small.

    Without that one, arrays of a large power of two in size would compete for the same lines of the cache.
    """
    size: int = root.array.nbytes
    return size + -size % LINE + (LINE if size > _SMALL else 0)


@final
class _Region:
    """A piece of memory in which arrays come and go."""

    __slots__ = ("_gaps", "end")

    def __init__(self) -> None:
        #: Where each gap begins and ends, in order; no two of them touch.
        self._gaps: list[tuple[int, int]] = []
        #: Its bytes.
        self.end: int = 0

    def take(self, size: int) -> int:
        """Return where an array of some bytes lies: in the smallest gap into which it fits, or at the end."""
        fitting = [(end - begin, index) for index, (begin, end) in enumerate(self._gaps) if end - begin >= size]
        if fitting:
            _, index = min(fitting)
            begin, end = self._gaps[index]
            self._gaps[index : index + 1] = [(begin + size, end)] if begin + size < end else []
            return begin
        begin = self._gaps.pop()[0] if self._gaps and self._gaps[-1][1] == self.end else self.end
        self.end = begin + size
        return begin

    def give_back(self, begin: int, size: int) -> None:
        """Make a gap where an array was."""
        end, at = begin + size, bisect(self._gaps, (begin, 0))
        if at < len(self._gaps) and self._gaps[at][0] == end:
            end = self._gaps.pop(at)[1]
        if at and self._gaps[at - 1][1] == begin:
            at -= 1
            begin = self._gaps.pop(at)[0]
        self._gaps.insert(at, (begin, end))


def _strides(array: np.ndarray) -> tuple[int, ...]:
    """Return the strides of a new array that lies in memory as this one."""
    if array.flags.c_contiguous:
        return array.strides
    return np.empty_like(array).strides
