"""LearnerSource: what a live page shows of a learner: its rates, latencies, losses and queues, as names and numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

from ..observing.latency import LatencyWindow
from ..observing.live.source import LOOKS, LiveSource, quantiles, rates

if TYPE_CHECKING:
    from .learner import Learner

__all__ = ["LearnerSource"]

#: The counts whose rates are shown, by their names on the page.
_RATES = {"predictions": "predicted", "examples": "learned", "steps": "steps"}


@final
class LearnerSource(LiveSource):
    """Reads the statistics and histograms of a learner, which its collector for Prometheus reads, too.

    Args:
        learner: has records of its steps from now on.
    """

    __slots__ = ("_before", "_learner", "_windows")

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self.records = learner.keep_records()
        self.begin()

    def facts(self) -> dict[str, Any]:
        """Return the names of the model, the loss and the optimizer."""
        learner = self._learner
        marks = ["refused", "cancelled", "timed out", "failed"]
        if learner.statistics().drift:
            marks.append("drift")
        return {
            "title": type(learner.model).__name__,
            "loss": getattr(learner.loss, "__qualname__", type(learner.loss).__name__).rpartition("<locals>.")[2],
            "optimizer": type(learner.optimizer).__name__,
            "value": "loss",
            "unit": "",
            "marks": marks,
        }

    def begin(self) -> None:
        """Begin windows of latencies, and count from now on."""
        self._before = self._counts()
        self._windows = {name: LatencyWindow(one, LOOKS) for name, one in self._learner.latencies.items()}

    def sample(self, seconds: float) -> dict[str, Any]:
        """Return what happens in a second, how long it took in the last ten, how many wait, and what is watched."""
        before, self._before = self._before, self._counts()
        found = self._learner.statistics()
        return {
            "rates": rates(self._before, before, seconds),
            "latencies": {name: quantiles(window.look()) for name, window in self._windows.items()},
            "queues": {
                "examples": [found.pending, found.max_pending],
                "predictions": [found.pending_predictions, found.max_pending_predictions],
            },
            "drift": {one.name: [one.drifts, one.count, _finite(one.mean)] for one in found.drift},
            "learned": found.learned,
            "stage": found.stage,
            "can_learn": found.journal_error is None,
            "paused": found.paused is not None,
            "refused": found.refused,
            "cancelled": found.cancelled,
            "timed out": found.timed_out,
        }

    def _counts(self) -> dict[str, int]:
        found = self._learner.statistics()
        return {name: getattr(found, count) for name, count in _RATES.items()}


def _finite(value: float) -> float | None:
    # A detector of the user's may tell any number, and JSON has no infinite ones.
    return value if math.isfinite(value) else None
