"""DeeperFirst: of the drivers that wake up together on one loop, the one of the deepest backward goes on first."""

from __future__ import annotations

import asyncio
import itertools
from heapq import heappop, heappush
from typing import final

__all__ = ["DeeperFirst"]


@final
class DeeperFirst:
    """The drivers that are about to go on, of one outermost backward on one loop and of all nested in it.

    A driver is counted from when it is woken until it goes on. One that finds a deeper one counted waits until that
    has gone on. Twenty thousand may wake up at once: each step costs the logarithm of that.

    Args:
        loop: the loop that runs the drivers.
    """

    __slots__ = ("_counts", "_depths", "_next_arrival", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        #: How many drivers are counted, by their reentrant depth; of each depth in `_depths`.
        self._counts: dict[int, int] = {}
        #: A heap of the negatives of those depths.
        self._depths: list[int] = []
        #: A heap of those that wait, the deepest first and then the first to come.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._next_arrival = itertools.count().__next__

    def __len__(self) -> int:
        """Return how many drivers are counted."""
        return sum(self._counts.values())

    def wake(self, depth: int) -> None:
        """Count a driver that is about to go on."""
        if depth not in self._counts:
            self._counts[depth] = 0
            heappush(self._depths, -depth)
        self._counts[depth] += 1

    async def turn(self, depth: int) -> None:
        """Wait until no deeper driver is about to go on, nor one as deep that came before; suspends only if one is."""
        is_behind = bool(self._waiting) and -self._waiting[0][0] >= depth
        while is_behind or self._deepest() > depth:
            is_behind = False
            future = self.loop.create_future()
            heappush(self._waiting, (-depth, self._next_arrival(), future))
            await future

    def leave(self, depth: int) -> None:
        """Count a driver no longer: it goes on now, or it has been cancelled."""
        self._counts[depth] -= 1
        if self._waiting and not self.loop.is_closed():
            # Later, since the driver goes on only once this has returned. It may be closed in any thread.
            self.loop.call_soon_threadsafe(self._let_next_go)

    def _deepest(self) -> int:
        depths, counts = self._depths, self._counts
        while depths and not counts[-depths[0]]:
            del counts[-heappop(depths)]
        return -depths[0] if depths else -1

    def _let_next_go(self) -> None:
        waiting = self._waiting
        while waiting and waiting[0][2].done():
            heappop(waiting)
        if waiting and -waiting[0][0] >= self._deepest():
            heappop(waiting)[2].set_result(None)
