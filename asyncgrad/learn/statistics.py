"""Statistics of a learner, and their collector for Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Protocol, cast, final

from ..core.settings.arguments import takes
from ..core.settings.extras import missing_extra
from ..errors import ArgumentTypeError
from ..observing.latency import LatencyHistogram
from .drift import DriftStatus
from .served import VersionLoss

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
        stage: what is being done now: "forward", "backward", "journal", "step", "checkpoint", "rollback", "serve",
            "compare", or None.
        paused: why nothing is learned until `resume`; None if it is.
        rollbacks: versions that were gone back to.
        learned_again: examples that were learned once more after a rollback.
        drifts: changes that were detected.
        failed_reactions: those after which what was to be done could not be.
        versions: versions in the directory now.
        kept: steps whose examples a rollback has left to be learned again.
        drift: what each detector sees now.
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
        "rollbacks",
        "learned_again",
        "drifts",
        "failed_reactions",
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
    paused: str | None
    rollbacks: int
    learned_again: int
    drifts: int
    failed_reactions: int
    versions: int
    kept: int
    drift: tuple[DriftStatus, ...]


#: What may also fall, and so is a gauge and no counter.
_GAUGES = (
    "pending",
    "pending_predictions",
    "max_pending",
    "max_pending_predictions",
    "journal_records",
    "torn_bytes",
    "last_loss",
    "versions",
    "kept",
    "lag_bytes",
    "lag_seconds",
)


#: What each number tells whoever sees it on a dashboard.
_HELP = {
    "learned": "Examples that the model has learned since it was made, in earlier processes too; a rollback lowers it.",
    "steps": "Steps of the optimizer since the model was made, in earlier processes too; a rollback lowers it.",
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
    "rollbacks": "Versions that the model was taken back to.",
    "learned_again": "Examples that were learned once more after a rollback.",
    "drifts": "Changes of losses or inputs that were detected.",
    "failed_reactions": "Drifts after which the rollback or the stop failed that was to follow; learning goes on.",
    "versions": "Versions in the directory, which the model can be taken back to.",
    "kept": "Steps whose examples a rollback has left to be learned again.",
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
        "1 if the learner can learn; 0 if it is paused, or its journal cannot be written: then it only predicts.",
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


class ServesVersions(HasStatistics, Protocol):
    """Abstract: what a Learner has beside that, and a Follower has not."""

    def losses(self) -> Mapping[str, VersionLoss]:
        """Return the losses of the versions that are served."""


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
        raise ArgumentTypeError(takes("prometheus_collector", "a Learner or a Follower", learner))
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
            if isinstance(value, (str, tuple)) or value is None:
                continue
            kind = self._core.GaugeMetricFamily if each.name in _GAUGES else self._core.CounterMetricFamily
            yield kind(f"{self._prefix}_{each.name}", _HELP[each.name], value=value)
        for name, (error, what) in _CAN.items():
            if hasattr(found, error):
                can = getattr(found, error) is None and getattr(found, "paused", None) is None
                yield self._core.GaugeMetricFamily(f"{self._prefix}_{name}", what, can)
        if isinstance(found, Statistics):
            yield from self._of_drifts(found.drift)
            yield from self._of_versions(cast(ServesVersions, self._learner).losses())
        for name, histogram in self._learner.latencies.items():
            yield self._core.HistogramMetricFamily(
                f"{self._prefix}_{name}_seconds",
                _LATENCY_HELP[name],
                buckets=[(_bound(bound), count) for bound, count in histogram.cumulative()],
                sum_value=histogram.total,
            )

    def _of_drifts(self, drift: tuple[DriftStatus, ...]) -> Iterator[Any]:
        """Yield what the detectors see, each with its name as a label."""
        for name, what, kind in (
            ("drifts", "Drifts of one kind that were detected.", self._core.CounterMetricFamily),
            ("count", "Values that a detector of drift compares now.", self._core.GaugeMetricFamily),
            ("mean", "Mean of the values that a detector of drift compares now.", self._core.GaugeMetricFamily),
        ):
            family = kind(f"{self._prefix}_drift_{name}", what, labels=["of"])
            for each in drift:
                family.add_metric([each.name], getattr(each, name))
            yield family

    def _of_versions(self, losses: Mapping[str, VersionLoss]) -> Iterator[Any]:
        """Yield the losses of the model and of the versions that are served, on the same examples."""
        what = "Mean loss since the versions are served, on the same examples, each before it was learned."
        family = self._core.GaugeMetricFamily(f"{self._prefix}_version_loss", what, labels=["version"])
        for name, loss in losses.items():
            family.add_metric([name], loss.mean)
        yield family


def _bound(seconds: float) -> str:
    return "+Inf" if seconds == math.inf else str(seconds)
