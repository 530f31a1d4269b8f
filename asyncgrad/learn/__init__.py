"""Learning while serving: a Learner answers predictions while it learns, and survives crashes; helpers for requests."""

from typing import TYPE_CHECKING

from ..core.settings.lazy import attach

if TYPE_CHECKING:
    from ..observing.latency import LatencyHistogram as LatencyHistogram
    from . import http as http
    from .drift import ADWIN as ADWIN
    from .drift import Change as Change
    from .drift import Drift as Drift
    from .drift import DriftDetector as DriftDetector
    from .drift import DriftEvent as DriftEvent
    from .drift import DriftStatus as DriftStatus
    from .drift import PageHinkley as PageHinkley
    from .evaluations import Evaluation as Evaluation
    from .follower import Follower as Follower
    from .follower import FollowerStatistics as FollowerStatistics
    from .follower import follow as follow
    from .learner import Learner as Learner
    from .model_steps import Learned as Learned
    from .rollbacks import RolledBack as RolledBack
    from .served import VersionLoss as VersionLoss
    from .specs import ArraySpec as ArraySpec
    from .statistics import Statistics as Statistics
    from .statistics import prometheus_collector as prometheus_collector
    from .versions import Version as Version

__all__ = [
    "ADWIN",
    "ArraySpec",
    "Change",
    "Drift",
    "DriftDetector",
    "DriftEvent",
    "DriftStatus",
    "Evaluation",
    "Follower",
    "FollowerStatistics",
    "LatencyHistogram",
    "Learned",
    "Learner",
    "PageHinkley",
    "RolledBack",
    "Statistics",
    "Version",
    "VersionLoss",
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
            ".drift": ["ADWIN", "Change", "Drift", "DriftDetector", "DriftEvent", "DriftStatus", "PageHinkley"],
            ".evaluations": ["Evaluation"],
            ".learner": ["Learner"],
            ".model_steps": ["Learned"],
            ".rollbacks": ["RolledBack"],
            ".served": ["VersionLoss"],
            ".specs": ["ArraySpec"],
            ".statistics": ["Statistics", "prometheus_collector"],
            ".versions": ["Version"],
        },
    )
