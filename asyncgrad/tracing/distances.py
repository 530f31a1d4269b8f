"""How far from one another the steps are that write an array and that read it: what is far would leave the caches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import final

from .program import Step
from .trace import Value

__all__ = ["Distances"]

#: How many bytes are written in between where an array is far: as many as the caches of a processor hold.
_FAR = 1 << 25
#: What is read this many steps later is taken to be in memory, and not in registers.
_LATER = 128


@final
class Distances:
    """The distances of a program.

    Args:
        steps: its steps.
        uses: by root, the numbers of the steps that read or write it, in order.
    """

    __slots__ = ("_uses", "_written")

    def __init__(self, steps: Sequence[Step], uses: Mapping[Value, Sequence[int]]) -> None:
        self._uses = uses
        sizes = [
            sum(root.array.nbytes for root in {one.root for one in step.writes} if uses[root][-1] > position + _LATER)
            for position, step in enumerate(steps)
        ]
        #: By the number of a step: the bytes that those before have written into arrays that stay for a while.
        self._written: list[int] = [0, *accumulate(sizes)]

    def is_far(self, root: Value, end: int) -> bool:
        """Tell whether the first step that uses an array, of those from `end` on, is far from there."""
        uses = self._uses[root]
        following = bisect_left(uses, end)
        return following < len(uses) and self._written[uses[following]] - self._written[end] >= _FAR
