"""Statistics of a learner, and their collector for Prometheus."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Protocol, final

from ..errors import ArgumentTypeError

__all__ = ["Statistics", "prometheus_collector"]


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
    journal_records: int
    torn_bytes: int
    journal_error: str | None
    last_loss: float | None
    stage: str | None


#: What may also fall, and so is a gauge and no counter.
_GAUGES = ("pending", "pending_predictions", "journal_records", "torn_bytes", "last_loss")


class HasStatistics(Protocol):
    """Abstract: what a Learner has, and what a collector asks for."""

    def statistics(self) -> Statistics:
        """Return the numbers of this moment."""


def prometheus_collector(learner: HasStatistics, prefix: str = "asyncgrad_learner") -> _Collector:
    """Return a collector of a learner's statistics, for a registry of prometheus-client (extra `metrics`).

    Args:
        learner: a Learner.
        prefix: what each name of a metric begins with.

    Raises:
        ModuleNotFoundError: prometheus-client is not installed.

    Example:
        >>> import prometheus_client  # doctest: +SKIP
        >>> prometheus_client.REGISTRY.register(learn.prometheus_collector(learner))  # doctest: +SKIP
    """
    if not hasattr(learner, "statistics"):
        raise ArgumentTypeError("prometheus_collector takes a Learner")
    try:
        core = import_module("prometheus_client.core")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "metrics need prometheus-client: pip install 'asyncgrad[metrics]'", name=error.name
        ) from error
    return _Collector(learner.statistics, prefix, core)


@final
class _Collector:
    """What a registry asks for metrics whenever it is scraped."""

    def __init__(self, statistics: Callable[[], Statistics], prefix: str, core: Any) -> None:
        self._statistics, self._prefix, self._core = statistics, prefix, core

    def collect(self) -> Iterator[Any]:
        """Yield a metric for each number of the statistics."""
        found = self._statistics()
        for each in fields(found):
            value = getattr(found, each.name)
            if value is None and each.name in _GAUGES:
                # A gauge is there from the beginning, and JSON has no such number.
                value = math.nan
            if isinstance(value, str) or value is None:
                continue
            kind = self._core.GaugeMetricFamily if each.name in _GAUGES else self._core.CounterMetricFamily
            yield kind(f"{self._prefix}_{each.name}", f"{each.name.replace('_', ' ')} of a learner", value=value)
        name = f"{self._prefix}_can_learn"
        yield self._core.GaugeMetricFamily(name, "whether the journal can be written", found.journal_error is None)
