"""`ag.engine.statistics()`: what the worker threads, the batched functions and the limits of this process do."""

from __future__ import annotations

from typing import NamedTuple, final

from ..engine.workers import WORKER_POOL
from .batched import BatchStatistics, all_batched
from .limit import LimitStatistics, statistics_of
from .line import all_lines

__all__ = ["Statistics", "statistics"]


@final
class Statistics(NamedTuple):
    """The current state of the worker threads of this process, and of all that send requests.

    Attributes:
        workers: how many threads there are.
        in_flight: how many of them are running a body.
        queued: how many bodies wait for a thread.
        offloaded: how many bodies have been submitted so far.
        batches: those of each function of `ag.batched` that has not been dropped, by name.
        limits: those of each `ag.limit` that has not been dropped, by name.
    """

    workers: int
    in_flight: int
    queued: int
    offloaded: int
    batches: tuple[BatchStatistics, ...]
    limits: tuple[LimitStatistics, ...]


def statistics() -> Statistics:
    """Return the current Statistics of this process; from any thread.

    Example:
        >>> import asyncgrad as ag
        >>> @ag.batched(max_size=1)
        ... async def double(xs):
        ...     return [2 * x for x in xs]
        >>> ag.run(double(1))
        2
        >>> now = ag.engine.statistics()
        >>> now.in_flight, [batch.full for batch in now.batches if batch.name == "double"]
        (0, [1])
    """
    batches = sorted((one.statistics() for one in all_batched()), key=lambda one: one.name)
    limits = sorted((statistics_of(line) for line in all_lines()), key=lambda one: one.name)
    return Statistics(*WORKER_POOL.counts(), tuple(batches), tuple(limits))
