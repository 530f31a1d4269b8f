"""Outside: the world outside of a ScheduleLoop, in which waits last as long as a seed says."""

from __future__ import annotations

import asyncio
from collections import deque
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, final
from weakref import WeakKeyDictionary

from .numbered_task import NumberedTask

__all__ = ["Outside"]

#: Waits last less than two to the power of this, in turns of the loop; each seed draws one. A loop that has
#: nothing else to do skips the turns, so that long waits cost nothing. The mix is one that finds, of the races
#: tried, both those that need tasks nearly in step and those that need one to make dozens of steps while another
#: waits.
_SPREADS = (0, 2, 4, 8, 12, 12, 12, 12)

_AT_ONCE = (0, 0.0)


@final
class Outside:
    """Handles that wait for the world outside, each for a number of turns drawn by the seed.

    Args:
        seed: decides how long each wait lasts, and which of those that end in the same turn is first.
        shuffled: draw the latter even if the seed makes all waits short; otherwise such a seed keeps all in order.
    """

    __slots__ = ("_next_number", "_paces", "_random", "_shuffles", "_spread", "_turn", "_waits")

    def __init__(self, seed: int, *, shuffled: bool) -> None:
        #: Only random() is used, the one method whose numbers Python promises to keep.
        self._random = Random(seed).random
        #: With 0 no wait is longer than asyncio's own.
        self._spread = _SPREADS[int(self._random() * len(_SPREADS))]
        self._shuffles = shuffled or self._spread > 0
        #: The paces of tasks that the loop did not make.
        self._paces: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._turn = 0
        #: A heap: the turn in which each wait ends, the place within that turn, its number.
        self._waits: list[tuple[int, float, int, asyncio.Handle]] = []
        self._next_number = count().__next__

    def __bool__(self) -> bool:
        return bool(self._waits)

    def draw_pace(self) -> int:
        """Draw how long the waits of one task may last, so that it may make many steps while another waits."""
        return int(self._random() * (self._spread + 1))

    def draw_wait(self, owner: object) -> int:
        """Draw how many turns a wait lasts that belongs to a task, or to nothing that has a pace of its own."""
        # Short waits are as likely as long ones, for a limit is drawn first.
        limit = 1 << int(self._random() * (self._pace_of(owner) + 1))
        return int(self._random() * limit)

    def _pace_of(self, owner: Any) -> int:
        if type(owner) is NumberedTask:
            return owner.pace
        if not hasattr(owner, "get_coro"):
            return self._spread
        pace = self._paces.get(owner)
        if pace is None:
            pace = self._paces[owner] = self.draw_pace()
        return pace

    def wait(self, handle: asyncio.Handle, turns: int, *, after: tuple[int, float] = _AT_ONCE) -> tuple[int, float]:
        """Let a handle wait for so many turns beyond this one, and not to arrive before `after`; return when."""
        place = self._random() if self._shuffles else 0.0
        arrival = max(after, (self._turn + 1 + turns, place))
        heappush(self._waits, (*arrival, self._next_number(), handle))
        return arrival

    def next_turn(self) -> None:
        """Begin the next turn of the loop."""
        self._turn += 1

    def skip_turns(self) -> None:
        """Go on to the turn in which the next wait ends, where nobody is there to see the turns between."""
        if self._waits:
            self._turn = max(self._turn, self._waits[0][0])

    def let_in(self, ready: deque[asyncio.Handle]) -> None:
        """Append the handles whose wait ends in this turn."""
        waits, turn = self._waits, self._turn
        while waits and waits[0][0] <= turn:
            ready.append(heappop(waits)[3])

    def clear(self) -> None:
        """Forget all that waits."""
        self._waits.clear()
