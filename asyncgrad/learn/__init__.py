"""Learning while serving: a Learner answers predictions while it learns, and survives crashes; helpers for requests."""

from typing import TYPE_CHECKING

from ..core.settings.lazy import attach

if TYPE_CHECKING:
    from ..observing.latency import LatencyHistogram as LatencyHistogram
    from . import http as http
    from .learner import Evaluation as Evaluation
    from .learner import Learned as Learned
    from .learner import Learner as Learner
    from .specs import ArraySpec as ArraySpec
    from .statistics import Statistics as Statistics
    from .statistics import prometheus_collector as prometheus_collector

__all__ = [
    "ArraySpec",
    "Evaluation",
    "LatencyHistogram",
    "Learned",
    "Learner",
    "Statistics",
    "http",
    "prometheus_collector",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "": ["http"],
            "..observing.latency": ["LatencyHistogram"],
            ".learner": ["Evaluation", "Learned", "Learner"],
            ".specs": ["ArraySpec"],
            ".statistics": ["Statistics", "prometheus_collector"],
        },
    )
