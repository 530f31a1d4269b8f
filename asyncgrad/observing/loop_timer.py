"""LoopTimer: a timer of an event loop that fires again and again, and tells how late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import final

__all__ = ["LoopTimer"]


@final
class LoopTimer:
    """Asks the running loop for one timer after the other, and tells how late each fires.

    A timer that fires late has waited for what kept the loop: that is how late an answer is, too. The clocks of loops
    tick once in a millisecond, so that less than one or two says nothing.

    Args:
        period: the seconds between two timers.
        note: called with the seconds by which one was late; returns whether there is to be another.
    """

    __slots__ = ("_due", "_handle", "_loop", "_note", "_period")

    def __init__(self, period: float, note: Callable[[float], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._period = period
        self._note = note
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._ask()

    def overdue(self) -> float:
        """Return by how many seconds a timer is late that has not fired yet; 0 where it is not due."""
        return 0.0 if self._handle is None else max(perf_counter() - self._due, 0.0)

    def cancel(self) -> None:
        """Fire no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ask(self) -> None:
        self._due = perf_counter() + self._period
        self._handle = self._loop.call_later(self._period, self._fire)

    def _fire(self) -> None:
        # Until the next one: they refer to each other.
        self._handle = None
        if self._note(max(perf_counter() - self._due, 0.0)):
            self._ask()
