"""Outside: the simulated outside world of a ScheduleLoop, in which a seed decides how long each wait lasts."""

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

#: Each seed draws one of these numbers; its waits last less than two to the power of it, in turns of the loop. A loop
#: that has nothing else to do skips turns, so that long waits cost nothing. Of the races tried, this mix finds both
#: those that need tasks to advance nearly in step and those that need one task to make dozens of steps while another
#: waits.
_SPREADS = (0, 2, 4, 8, 12, 12, 12, 12)

_AT_ONCE = (0, 0.0)


@final
class Outside:
    """Handles that wait for the outside world, each for a number of turns drawn from the seed.

    Args:
        seed: decides how long each wait lasts, and the order of waits that end in the same turn.
        shuffled: draw that order even if the seed makes all waits short; otherwise such a seed keeps the order.
    """

    __slots__ = ("_next_number", "_paces", "_random", "_shuffles", "_spread", "_turn", "_waits")

    def __init__(self, seed: int, *, shuffled: bool) -> None:
        #: Only random() is used, the one method whose numbers Python promises to keep.
        self._random = Random(seed).random
        #: With 0, no wait is longer than in asyncio.
        self._spread = _SPREADS[int(self._random() * len(_SPREADS))]
        self._shuffles = shuffled or self._spread > 0
        #: The paces of tasks that the loop did not make.
        self._paces: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._turn = 0
        #: A heap of waits: the turn in which each ends, its position within that turn, its number, its handle.
        self._waits: list[tuple[int, float, int, asyncio.Handle]] = []
        self._next_number = count().__next__

    def __bool__(self) -> bool:
        return bool(self._waits)

    def draw_pace(self) -> int:
        """Draw how long the waits of one task may last: a task with a small pace makes many steps while others wait."""
        return int(self._random() * (self._spread + 1))

    def draw_wait(self, owner: object) -> int:
        """Draw how many turns a wait lasts; `owner` is the task that it belongs to, if any."""
        # A limit is drawn first, so that short waits are as likely as long ones.
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
        """Make a handle wait for `turns` turns beyond this one, and at least until `after`; return when it ends."""
        position = self._random() if self._shuffles else 0.0
        arrival = max(after, (self._turn + 1 + turns, position))
        heappush(self._waits, (*arrival, self._next_number(), handle))
        return arrival

    def next_turn(self) -> None:
        """Begin the next turn of the loop."""
        self._turn += 1

    def skip_turns(self) -> None:
        """Skip to the turn in which the next wait ends; the caller has nothing to run before that."""
        if self._waits:
            self._turn = max(self._turn, self._waits[0][0])

    def let_in(self, ready: deque[asyncio.Handle]) -> None:
        """Append the handles whose wait ends in this turn."""
        waits, turn = self._waits, self._turn
        while waits and waits[0][0] <= turn:
            ready.append(heappop(waits)[3])

    def clear(self) -> None:
        """Drop all waits."""
        self._waits.clear()
