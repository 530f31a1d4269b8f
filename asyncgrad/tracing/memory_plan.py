"""Which results of a program may lie in the same memory, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from .program import Program
from .trace import Value

__all__ = ["arrays_of"]

#: The bytes of a line of a processor's cache.
_LINE = 64


def arrays_of(program: Program, places: Sequence[int] | None = None) -> dict[Value, np.ndarray]:
    """Return an array for each Value that owns memory and that a step writes.

    Args:
        program: the program.
        places: when each step is done, in ascending numbers that steps share which are done together; None for one
            after the other.

    What a step writes never lies where anything lies that it reads, nor where a later step reads something else. What
    the forward has left for the backward stays, so that the backward can run again.
    """
    steps = [*program.forward, *program.backward]
    cut = len(program.forward)
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    written: set[Value] = set()
    for position, step in zip(range(len(steps)) if places is None else places, steps, strict=True):
        written.update(value.root for value in step.writes)
        for value in (*step.reads, *step.writes):
            first.setdefault(value.root, position)
            last[value.root] = position
    committed = [value for _, value in program.commits]
    for value in (*program.outputs, *committed, *(one for one in program.gradients if one is not None)):
        # Read when the steps are done.
        last[value.root] = len(steps)
    given = {*program.arguments, *program.targets, *program.cotangents}
    own = {root for root in written if root not in given}
    begin, end = defaultdict(list), defaultdict(list)
    for root in own:
        begin[first[root]].append(root)
        is_left = first[root] < cut <= last[root]
        if not is_left and last[root] < len(steps):
            end[last[root]].append(root)
    slots: dict[Value, int] = {}
    free: dict[int, list[int]] = defaultdict(list)
    taken: list[int] = []
    for position in range(len(steps)):
        for root in sorted(begin[position], key=lambda one: one.number):
            size = root.array.nbytes
            if not free[size]:
                free[size].append(len(taken))
                taken.append(size)
            slots[root] = free[size].pop()
        for root in end[position]:
            free[root.array.nbytes].append(slots[root])
    return _laid(slots, taken)


def _laid(slots: dict[Value, int], sizes: Sequence[int]) -> dict[Value, np.ndarray]:
    """Return an array for each Value, all in one piece of memory: of a large one, the system makes large pages.

    Args:
        slots: for each Value, the number of its place.
        sizes: the bytes of each place.
    """
    places: list[int] = []
    end = 0
    for size in sizes:
        places.append(end)
        end += size + -size % _LINE + _LINE
    memory = np.empty(end + _LINE, np.uint8)
    first = -memory.ctypes.data % _LINE
    return {
        root: np.ndarray(root.array.shape, root.array.dtype, memory.data, first + places[slot], _strides(root.array))
        for root, slot in slots.items()
    }


def _strides(array: np.ndarray) -> tuple[int, ...]:
    """Return the strides of a new array that lies in memory as this one."""
    if array.flags.c_contiguous:
        return array.strides
    return np.empty_like(array).strides
