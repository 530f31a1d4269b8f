"""LiveFeed: the samples of a page, taken while somebody looks, and the same bytes for all who do."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from secrets import token_hex
from time import perf_counter
from typing import Any, final

from .lateness import LoopLateness
from .records import Record
from .source import LiveSource
from .waiting import running

__all__ = ["LiveFeed"]

#: How many samples are kept: those of two minutes.
SAMPLES = 240
#: How many records with values one event tells, evenly spread over all that are new; and how many are told again to who
#: gets the whole: those of two minutes.
TOLD, RECORDS = 12, 3000
#: After so many intervals without a sample, rates and windows begin anew.
PAUSE = 6


@final
class LiveFeed:
    """Takes a sample when the first of those who look asks for one, and gives the others the same.

    It has no task and no queue: a client that takes long misses samples, and is given the whole again. While nobody
    looks, nothing is measured.

    Args:
        source: what the page shows besides the running backward passes.
        interval: the seconds between two samples.
        stuck_after: the seconds after which a backward in which nothing moves is stuck.
        clock: returns the time in seconds; the clock of the source's records.
    """

    def __init__(
        self,
        source: LiveSource,
        interval: float = 0.5,
        stuck_after: float = 10.0,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.source: LiveSource = source
        self.interval: float = interval
        self._stuck_after, self._clock = stuck_after, clock
        self._lateness = LoopLateness()
        self._samples: deque[dict[str, Any]] = deque(maxlen=SAMPLES)
        self._last = -math.inf
        #: The number of the last sample, and in front of it a name of this feed that no other process has.
        self._name, self._number = token_hex(4), 0
        #: The records that were told, and the number of the next one.
        self._records: deque[tuple[float, str, float | None, int]] = deque(maxlen=RECORDS)
        self._told = 0
        self._passes: dict[str, Any] = {}
        self._whole: bytes | None = None
        self._next = b""
        self._watching = 0

    @property
    def watching(self) -> int:
        """How many look."""
        return self._watching

    def open(self) -> None:
        """Note that one more looks; the first one begins the measurement of the running loop."""
        self._watching += 1
        if self._watching > 1:
            return
        self._lateness.start()
        # Streams end now and then, and go on: what comes after that is no new beginning
        # (test_a_page_that_goes_on_with_another_stream_loses_no_window).
        if self._clock() - self._last > PAUSE * self.interval:
            self.source.begin()
            # All of the ring, from before anybody looked.
            self._sample(0.0, RECORDS)

    def close(self) -> None:
        """Note that one looks no more; the last one ends the measurement."""
        self._watching -= 1
        if not self._watching:
            self._lateness.stop()

    def seconds_left(self) -> float:
        """Return the seconds until the next sample is due; a little more than none, since a loop's clock has ticks."""
        return max(self._last + self.interval - self._clock(), 0.002)

    def event(self, last: str | None) -> tuple[str, bytes] | None:
        """Return the id and the bytes of the event that follows the one with that id; None if there is none yet.

        A sample that is due is taken now. Who has missed one, or has none yet, gets the whole.
        """
        now = self._clock()
        if now - self._last >= self.interval:
            self._sample(now - self._last)
        name = f"{self._name}-{self._number}"
        if last == name:
            return None
        if last == f"{self._name}-{self._number - 1}":
            return name, self._next
        if self._whole is None:
            self._whole = self._encoded("whole", self._everything())
        return name, self._whole

    def _sample(self, seconds: float, most: int = TOLD) -> None:
        self._last = now = self._clock()
        late = self._lateness.take()
        sample = {
            "at": now,
            **self.source.sample(seconds),
            "late": [late[len(late) // 2], late[-1]] if late else None,
        }
        self._samples.append(sample)
        self._passes = running(self._stuck_after)
        if new := self.source.records.since(self._told):
            # Another thread may have added more since.
            self._told = new[-1].number + 1
        told = [_fields(one) for one in _thinned(new, most)]
        self._records.extend(told)
        self._number += 1
        self._whole = None
        self._next = self._encoded("next", {"now": now, "samples": [sample], "records": told, "running": self._passes})

    def _everything(self) -> dict[str, Any]:
        return {
            "now": self._last,
            "interval": self.interval,
            "stuck_after": self._stuck_after,
            "facts": self.source.facts(),
            "samples": list(self._samples),
            "records": list(self._records),
            "running": self._passes,
        }

    def _encoded(self, kind: str, found: dict[str, Any]) -> bytes:
        text = json.dumps(found, separators=(",", ":"), allow_nan=False)
        return f"id: {self._name}-{self._number}\nevent: {kind}\ndata: {text}\n\n".encode()


def _fields(record: Record) -> tuple[float, str, float | None, int]:
    # As many digits as a chart shows: they are told again to each who begins to look.
    value = None if record.value is None else float(f"{record.value:.6g}")
    return round(record.at, 3), record.kind, value, record.times


def _thinned(records: list[Record], most: int) -> list[Record]:
    """Return all without a value, and of those with one at most so many, among them the last."""
    values = sum(one.value is not None for one in records)
    step = -(-values // most)
    found, seen = [], 0
    for one in records:
        if one.value is None:
            found.append(one)
            continue
        seen += 1
        if (values - seen) % step == 0:
            found.append(one)
    return found
