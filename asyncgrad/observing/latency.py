"""LatencyHistogram: how long things took, counted in ranges; LatencyWindow: how long they took lately."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from typing import Self, final

__all__ = ["LatencyHistogram", "LatencyWindow"]


@final
class LatencyHistogram:
    """Durations, counted by the range that they lie in. It takes the same memory however many there are.

    Attributes:
        counts: how many durations there were in each range: up to each number of BOUNDS, and above the last.
        total: the seconds of all together.

    Example:
        >>> from asyncgrad.learn import LatencyHistogram
        >>> histogram = LatencyHistogram()
        >>> for seconds in (0.002, 0.004, 0.3):
        ...     histogram.add(seconds)
        >>> histogram.count, histogram.quantile(0.5), histogram.quantile(0.99)
        (3, 0.005, 0.5)
    """

    __slots__ = ("counts", "total")

    #: The ends of the ranges, in seconds.
    BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(self.BOUNDS) + 1)
        self.total: float = 0.0

    @property
    def count(self) -> int:
        """How many durations there were."""
        return sum(self.counts)

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.BOUNDS, seconds)] += 1
        self.total += seconds

    def quantile(self, share: float) -> float:
        """Return the end of the range up to which this share of all durations lies; NaN where there are none."""
        count, wanted = 0, share * self.count
        for bound, number in zip((*self.BOUNDS, math.inf), self.counts, strict=True):
            count += number
            if count and count >= wanted:
                return bound
        return math.nan

    def cumulative(self) -> list[tuple[float, int]]:
        """Return for each end of a range how many durations do not exceed it; that of the last is infinite."""
        found, count = [], 0
        for bound, number in zip((*self.BOUNDS, math.inf), self.counts, strict=True):
            count += number
            found.append((bound, count))
        return found

    def copy(self) -> Self:
        """Return a histogram of the same durations."""
        found = type(self)()
        found.counts, found.total = self.counts.copy(), self.total
        return found

    def since(self, earlier: Self) -> Self:
        """Return a histogram of what was added after `earlier` was copied from this one."""
        found = type(self)()
        found.counts = [now - before for now, before in zip(self.counts, earlier.counts, strict=True)]
        found.total = self.total - earlier.total
        return found


@final
class LatencyWindow:
    """The durations of a histogram that were added since the last few looks at it.

    Args:
        histogram: to which durations are added.
        looks: how many looks ago a duration may have been added.
    """

    __slots__ = ("_earlier", "_histogram")

    def __init__(self, histogram: LatencyHistogram, looks: int) -> None:
        self._histogram = histogram
        self._earlier = deque([histogram.copy()], maxlen=looks)

    def look(self) -> LatencyHistogram:
        """Return the durations of the window, of which this is one look."""
        found = self._histogram.since(self._earlier[0])
        self._earlier.append(self._histogram.copy())
        return found
