"""Learning while serving: a Learner answers predictions while it learns, and survives crashes; helpers for requests."""

from typing import TYPE_CHECKING

from ..core.settings.lazy import attach

if TYPE_CHECKING:
    from ..observing.latency import LatencyHistogram as LatencyHistogram
    from . import http as http
    from .follower import Follower as Follower
    from .follower import FollowerStatistics as FollowerStatistics
    from .follower import follow as follow
    from .learner import Evaluation as Evaluation
    from .learner import Learned as Learned
    from .learner import Learner as Learner
    from .specs import ArraySpec as ArraySpec
    from .statistics import Statistics as Statistics
    from .statistics import prometheus_collector as prometheus_collector

__all__ = [
    "ArraySpec",
    "Evaluation",
    "Follower",
    "FollowerStatistics",
    "LatencyHistogram",
    "Learned",
    "Learner",
    "Statistics",
    "follow",
    "http",
    "prometheus_collector",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "": ["http"],
            ".follower": ["Follower", "FollowerStatistics", "follow"],
            "..observing.latency": ["LatencyHistogram"],
            ".learner": ["Evaluation", "Learned", "Learner"],
            ".specs": ["ArraySpec"],
            ".statistics": ["Statistics", "prometheus_collector"],
        },
    )
