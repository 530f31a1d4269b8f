"""LoopLateness: how much later than asked for the timers of an event loop fire."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import final

__all__ = ["LoopLateness"]

#: The seconds between two timers.
_PERIOD = 0.02


@final
class LoopLateness:
    """Asks the running loop for a timer every 20 ms, and notes how late each fires.

    A timer that fires late has waited for what kept the loop: that is how late an answer is, too. The clocks of loops
    tick once in a millisecond, so that less than one or two says nothing.
    """

    __slots__ = ("_due", "_found", "_timer")

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._found: list[float] = []

    def start(self) -> None:
        """Begin to measure the running loop."""
        self._found.clear()
        self._ask(asyncio.get_running_loop())

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take(self) -> list[float]:
        """Return the seconds by which timers were late since the last call, the least late first."""
        found, self._found = sorted(self._found), []
        if self._timer is not None and (overdue := perf_counter() - self._due) > 0:
            # It has not fired yet: this call comes before it in an iteration that is late already.
            found.append(max(overdue, found[-1] if found else 0.0))
        return found

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = perf_counter() + _PERIOD
        self._timer = loop.call_later(_PERIOD, self._fire, loop)

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._found.append(max(perf_counter() - self._due, 0.0))
        self._ask(loop)
