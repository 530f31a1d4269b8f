"""LoopLateness: how much later than asked for the timers of an event loop fire."""

from __future__ import annotations

from typing import final

from ..loop_timer import LoopTimer

__all__ = ["LoopLateness"]

#: The seconds between two timers.
_PERIOD = 0.02


@final
class LoopLateness:
    """Notes how late timers of the running loop fire, one every 20 ms."""

    __slots__ = ("_found", "_timer")

    def __init__(self) -> None:
        self._timer: LoopTimer | None = None
        self._found: list[float] = []

    def start(self) -> None:
        """Begin to measure the running loop."""
        self._found.clear()
        self._timer = LoopTimer(_PERIOD, self._note)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take(self) -> list[float]:
        """Return the seconds by which timers were late since the last call, the least late first."""
        found, self._found = sorted(self._found), []
        if self._timer is not None and (overdue := self._timer.overdue()) > 0:
            # It has not fired yet: this call comes before it in an iteration that is late already.
            found.append(max(overdue, found[-1] if found else 0.0))
        return found

    def _note(self, seconds: float) -> bool:
        self._found.append(seconds)
        return True
