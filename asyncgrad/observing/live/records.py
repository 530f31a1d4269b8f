"""Records: the last things that happened, in a ring of fixed length, for whoever looks at them now and then."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple, final

__all__ = ["Record", "Records"]

#: Things without a value that follow each other within so many seconds are one record, so that a flood of refusals
#: does not push everything else out of the ring.
_TOGETHER = 0.25


class Record(NamedTuple):
    """One thing that happened, or several of a kind in a row that have no value.

    Attributes:
        number: which it is, of all that were added.
        at: when, by the clock of its Records.
        kind: "done", "refused", "cancelled", "timed out", "failed" or "drift".
        value: the loss of a step, or the seconds of a backward; None for what has none.
        times: how many it stands for.
    """

    number: int
    at: float
    kind: str
    value: float | None
    times: int


@final
class Records:
    """The last records, the oldest first.

    Args:
        most: how many are kept.
        clock: returns the time in seconds.
    """

    __slots__ = ("_clock", "_found", "_is_open", "added")

    def __init__(self, most: int = 1024, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._found: deque[Record] = deque(maxlen=most)
        #: Whether the last one may stand for more: nobody has been given it.
        self._is_open = False
        #: How many were added.
        self.added = 0

    def __len__(self) -> int:
        return len(self._found)

    def add(self, kind: str, value: float | None = None, times: int = 1) -> None:
        """Add what has just happened, in the place of the oldest one if there are as many as may be."""
        now = self._clock()
        last = self._found[-1] if self._is_open else None
        if last is not None and value is None and last.kind == kind and now - last.at < _TOGETHER:
            self._found[-1] = last._replace(times=last.times + times)
            return
        self._found.append(Record(self.added, now, kind, value, times))
        self.added += 1
        self._is_open = value is None

    def since(self, number: int) -> list[Record]:
        """Return those from this number on that are still kept; none of them changes any more."""
        self._is_open = False
        return [one for one in list(self._found) if one.number >= number]
