"""Statistics of a learner, and their collector for Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Protocol, final

from ..core.settings.extras import missing_extra
from ..errors import ArgumentTypeError
from ..observing.latency import LatencyHistogram

__all__ = ["Statistics", "new_latencies", "prometheus_collector"]


@final
@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What a learner has done since it was started.

    Attributes:
        learned: examples that the model has learned since it was made.
        steps: steps that it has made since it was made.
        replayed: examples of the journal that were learned again at the start.
        predicted: predictions that were answered.
        prediction_batches: calls of the model that answered them.
        timed_out: predictions and examples that took too long.
        cancelled: those whose caller was cancelled.
        refused: those that were refused because too many waited.
        ended_in_forward, ended_in_backward, ended_in_journal, ended_in_step: steps that ended there, by an error or a
            cancellation.
        checkpoints, failed_checkpoints: checkpoints that were written, and that could not be.
        evaluations, failed_evaluations: the same of evaluations.
        pending: examples that wait or are being learned now.
        pending_predictions: inputs that wait or are being answered now.
        max_pending, max_pending_predictions: how many of each may.
        journal_records: lines of the journal now.
        torn_bytes: bytes of an incomplete last line that were cut off at the start.
        journal_error: why nothing more can be learned; None if it can.
        last_loss: the loss of the last step; None before the first.
        stage: what is being done now: "forward", "backward", "journal", "step", "checkpoint", or None.
    """

    #: Those that only rise, and are counted by name.
    COUNTS: ClassVar[tuple[str, ...]] = (
        "predicted",
        "timed_out",
        "cancelled",
        "refused",
        "ended_in_forward",
        "ended_in_backward",
        "ended_in_journal",
        "ended_in_step",
        "checkpoints",
        "failed_checkpoints",
        "evaluations",
        "failed_evaluations",
    )

    learned: int
    steps: int
    replayed: int
    predicted: int
    prediction_batches: int
    timed_out: int
    cancelled: int
    refused: int
    ended_in_forward: int
    ended_in_backward: int
    ended_in_journal: int
    ended_in_step: int
    checkpoints: int
    failed_checkpoints: int
    evaluations: int
    failed_evaluations: int
    pending: int
    pending_predictions: int
    max_pending: int
    max_pending_predictions: int
    journal_records: int
    torn_bytes: int
    journal_error: str | None
    last_loss: float | None
    stage: str | None


#: What may also fall, and so is a gauge and no counter.
_GAUGES = (
    "pending",
    "pending_predictions",
    "max_pending",
    "max_pending_predictions",
    "journal_records",
    "torn_bytes",
    "last_loss",
    "lag_bytes",
    "lag_seconds",
)


#: What each number tells whoever sees it on a dashboard.
_HELP = {
    "learned": "Examples that the model has learned since it was made, in earlier processes too.",
    "steps": "Steps of the optimizer since the model was made, in earlier processes too.",
    "replayed": "Examples of the journal that were learned again when this process started, after its last checkpoint.",
    "predicted": "Predictions that were answered. Compare with prediction_batches to see how many share a call.",
    "prediction_batches": "Calls of the model that answered predictions.",
    "timed_out": "Predictions and examples whose caller was told that they took too long.",
    "cancelled": "Predictions and examples whose caller went away before the answer.",
    "refused": "Predictions and examples that were refused because as many as allowed waited already.",
    "ended_in_forward": "Steps that an error or a cancellation ended while the loss was computed; nothing changed.",
    "ended_in_backward": "Steps that an error or a cancellation ended while gradients were computed; nothing changed.",
    "ended_in_journal": "Steps that ended because the journal could not be written; nothing changed.",
    "ended_in_step": "Steps that an error of the optimizer ended; the model was put back.",
    "checkpoints": "Checkpoints that were written.",
    "failed_checkpoints": "Checkpoints that could not be written; the former one and the journal are kept.",
    "evaluations": "Evaluations of a version of the model that ended.",
    "failed_evaluations": "Evaluations that an error ended; learning goes on.",
    "pending": "Examples that wait to be learned or are being learned now.",
    "pending_predictions": "Inputs that wait for a prediction or are being answered now.",
    "max_pending": "How many examples may wait or be learned at a time; a further one is refused.",
    "max_pending_predictions": "How many inputs may wait or be answered at a time; a further one is refused.",
    "journal_records": "Lines of the journal since the last checkpoint, which a start would learn again.",
    "torn_bytes": "Bytes of an incomplete last line of the journal that were cut off when this process started.",
    "last_loss": "The loss of the last step, before it; NaN until there is one.",
    "applied": "Examples of the learner's journal that this follower has learned since it was started.",
    "loads": "Checkpoints and versions that this follower has loaded.",
    "lag_bytes": "Bytes of the learner's journal that this follower had not applied when it looked last.",
    "lag_seconds": "Seconds since this follower was last known to have all of the learner's journal.",
}
#: What it can do while there is no such error, and what that tells.
_CAN = {
    "can_learn": (
        "journal_error",
        "1 if the learner can learn; 0 if its journal cannot be written, after which it only predicts.",
    ),
    "can_follow": (
        "following_error",
        "1 if the follower could read the learner's journal when it tried last; 0 if it predicts by an older model.",
    ),
}
#: What each histogram of `Learner.latencies` tells.
_LATENCY_HELP = {
    "predict": "Seconds from the call of predict to its answer, for predictions that were answered.",
    "learn": "Seconds from the call of learn to its answer, its wait included, for examples that were learned.",
    "step": "Seconds that a step took: forward, backward, journal and update of one batch of examples.",
}


def new_latencies() -> dict[str, LatencyHistogram]:
    """Return the histograms of a learner: of answered predictions, learned examples, and steps."""
    return {name: LatencyHistogram() for name in _LATENCY_HELP}


class HasStatistics(Protocol):
    """Abstract: what a Learner and a Follower have, and what a collector asks for."""

    @property
    def latencies(self) -> Mapping[str, LatencyHistogram]:
        """How long predictions, examples and steps took."""

    def statistics(self) -> Any:
        """Return the numbers of this moment: a dataclass."""


def prometheus_collector(learner: HasStatistics, prefix: str = "asyncgrad_learner") -> _Collector:
    """Return a collector of a learner's statistics and histograms of latency, for prometheus-client (extra `metrics`).

    Args:
        learner: a Learner or a Follower.
        prefix: what each name of a metric begins with.

    Raises:
        ModuleNotFoundError: prometheus-client is not installed.

    Example:
        >>> import prometheus_client  # doctest: +SKIP
        >>> prometheus_client.REGISTRY.register(learn.prometheus_collector(learner))  # doctest: +SKIP
    """
    if not hasattr(learner, "statistics"):
        raise ArgumentTypeError("prometheus_collector takes a Learner or a Follower")
    try:
        core = import_module("prometheus_client.core")
    except ImportError as error:
        raise missing_extra("metrics need prometheus-client", "metrics", error=error) from error
    return _Collector(learner, prefix, core)


@final
class _Collector:
    """What a registry asks for metrics whenever it is scraped."""

    def __init__(self, learner: HasStatistics, prefix: str, core: Any) -> None:
        self._learner, self._prefix, self._core = learner, prefix, core

    def collect(self) -> Iterator[Any]:
        """Yield a metric for each number of the statistics, and one for each histogram."""
        found = self._learner.statistics()
        for each in fields(found):
            value = getattr(found, each.name)
            if value is None and each.name in _GAUGES:
                # A gauge is there from the beginning, and JSON has no such number.
                value = math.nan
            if isinstance(value, str) or value is None:
                continue
            kind = self._core.GaugeMetricFamily if each.name in _GAUGES else self._core.CounterMetricFamily
            yield kind(f"{self._prefix}_{each.name}", _HELP[each.name], value=value)
        for name, (error, what) in _CAN.items():
            if hasattr(found, error):
                yield self._core.GaugeMetricFamily(f"{self._prefix}_{name}", what, getattr(found, error) is None)
        for name, histogram in self._learner.latencies.items():
            yield self._core.HistogramMetricFamily(
                f"{self._prefix}_{name}_seconds",
                _LATENCY_HELP[name],
                buckets=[(_bound(bound), count) for bound, count in histogram.cumulative()],
                sum_value=histogram.total,
            )


def _bound(seconds: float) -> str:
    return "+Inf" if seconds == math.inf else str(seconds)
