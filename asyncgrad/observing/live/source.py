"""LiveSource: what a live page shows besides the running backward passes; BackwardSource: those that have ended."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary

from ...core.engine.observation import observe_process
from ...core.settings.observers import BackwardObserver
from ..latency import LatencyHistogram, LatencyWindow
from .records import Records

if TYPE_CHECKING:
    from ...core.engine.graph_task import GraphTask

__all__ = ["BackwardSource", "LiveSource", "quantiles", "rates"]

#: How many samples, one every half second, the quantiles of a page are of.
LOOKS = 20


class LiveSource:
    """Abstract: gives the names, the numbers and the records of one page. What it gives is no data of the user's."""

    __slots__ = ("records",)

    #: What has happened lately.
    records: Records

    def facts(self) -> dict[str, Any]:
        """Return what does not change, for JSON: names, what the values of records are, and kinds of those without."""
        raise NotImplementedError(f"{type(self).__name__} must implement facts()")

    def begin(self) -> None:
        """Note that samples are taken from now on, after a while without."""
        raise NotImplementedError(f"{type(self).__name__} must implement begin()")

    def sample(self, seconds: float) -> dict[str, Any]:
        """Return the numbers of this moment, for JSON: "rates", "latencies" and "queues"; "drift", where it is watched.

        Args:
            seconds: the time since the last sample; 0 for the first one after `begin`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement sample(seconds)")

    def close(self) -> None:
        """Observe nothing any more."""


def rates(now: Mapping[str, int], before: Mapping[str, int], seconds: float) -> dict[str, float | None]:
    """Return how many there were in a second, of each; None where no time has passed yet."""
    return {name: (count - before[name]) / seconds if seconds else None for name, count in now.items()}


def quantiles(histogram: LatencyHistogram) -> dict[str, Any]:
    """Return how many durations there are, and the ends of the ranges of p50 and p99: None where they have no end."""
    found: dict[str, Any] = {"count": histogram.count}
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        end = histogram.quantile(share)
        found[name] = end if math.isfinite(end) else None
    return found


@final
class BackwardSource(LiveSource):
    """Observes the backward passes of the process that no other one has called: how many, how long, how they ended."""

    __slots__ = ("_before", "_count", "_histogram", "_observer", "_window")

    def __init__(self) -> None:
        self.records = Records()
        self._histogram = LatencyHistogram()
        self._observer = _Ends(self._histogram, self.records)
        self._before = 0
        observe_process(self._observer, True)
        self.begin()

    def facts(self) -> dict[str, Any]:
        """Return what the values are."""
        marks = ["cancelled", "timed out", "failed"]
        return {"title": "backward passes", "value": "duration", "unit": "s", "marks": marks}

    def begin(self) -> None:
        """Begin a window."""
        self._before = self._histogram.count
        self._window = LatencyWindow(self._histogram, LOOKS)

    def sample(self, seconds: float) -> dict[str, Any]:
        """Return how many have ended in a second, and how long they took."""
        before, self._before = self._before, self._histogram.count
        found = rates({"backward passes": self._before}, {"backward passes": before}, seconds)
        return {"rates": found, "latencies": {"backward": quantiles(self._window.look())}, "queues": {}}

    def close(self) -> None:
        """Observe no further backward."""
        observe_process(self._observer, False)


@final
class _Ends(BackwardObserver):
    """Notes how backward passes end. Its methods are called by the threads that drive them."""

    __slots__ = ("_began", "_histogram", "_lock", "_records")

    def __init__(self, histogram: LatencyHistogram, records: Records) -> None:
        self._histogram, self._records = histogram, records
        self._began: WeakKeyDictionary[GraphTask, float] = WeakKeyDictionary()
        self._lock = Lock()

    def begin(self, graph_task: GraphTask) -> None:
        """Note when a backward begins that no other one has called."""
        if graph_task.outer is None:
            with self._lock:
                self._began[graph_task] = perf_counter()

    def end(self, graph_task: GraphTask, error: BaseException | None) -> None:
        """Note how long it took, and how it ended."""
        with self._lock:
            began = self._began.pop(graph_task, None)
            if began is None:
                return
            if error is None:
                seconds = perf_counter() - began
                self._histogram.add(seconds)
                self._records.add("done", seconds)
            elif isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                self._records.add("cancelled")
            else:
                self._records.add("timed out" if isinstance(error, TimeoutError) else "failed")
