"""Activity: what a learner is doing, and has done, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import final

from ..observing.latency import LatencyHistogram
from ..observing.live.records import Records
from .statistics import new_latencies

__all__ = ["Activity"]


@final
class Activity:
    """What is done now, and what was done since the start.

    Attributes:
        stage: what is being done, as `Statistics.stage`.
        counts: how often each thing was done, by the names of `Statistics.COUNTS`.
        latencies: how long answered predictions, learned examples and steps took.
        last_loss: the loss of the last step; None before the first.
        records: the last steps, drifts, and examples that were not learned, for a live page; None where there is none.
    """

    __slots__ = ("counts", "last_loss", "latencies", "records", "stage")

    def __init__(self) -> None:
        self.stage: str | None = None
        self.counts: Counter[str] = Counter()
        self.latencies: Mapping[str, LatencyHistogram] = new_latencies()
        self.last_loss: float | None = None
        self.records: Records | None = None

    def note(self, what: str, kind: str | None = None) -> None:
        """Count an example that was not learned, or a drift, and record it if records are kept.

        Args:
            what: its name among the counts.
            kind: that of the record; None for the same name.
        """
        self.counts[what] += 1
        if self.records is not None:
            self.records.add(kind or what.replace("_", " "))

    def keep_records(self) -> Records:
        """Return the records, which are kept from the first call on."""
        if self.records is None:
            self.records = Records()
        return self.records
