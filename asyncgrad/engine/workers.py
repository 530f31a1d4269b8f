"""The worker threads that take heavy bodies, for every device whose arrays they can reach.

They start on first need and no sooner, at most as many as may be busy at a time. They are daemons: none keeps the
interpreter from ending, and at its end those that compute are waited for. A process that was forked starts its own.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
from heapq import heappop, heappush
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, final

from ..errors import DeviceError

if TYPE_CHECKING:
    from ..scheduling import Quota
    from .remote import FunctionJob

__all__ = ["Statistics", "WORKER_POOL", "WorkerPool", "statistics"]


@final
class Statistics(NamedTuple):
    """What the worker threads of this process do now, and have done.

    Attributes:
        workers: how many threads there are.
        in_flight: how many of them run a body now.
        queued: how many bodies wait for one.
        offloaded: how many bodies have been handed to them so far.
    """

    workers: int
    in_flight: int
    queued: int
    offloaded: int


@final
class WorkerPool:
    """Threads that run Jobs, the most urgent first, no more at a time than the quota of each allows."""

    __slots__ = (
        "_arrivals",
        "_idle",
        "_lock",
        "_queued",
        "_ready",
        "_running",
        "_threads",
        "_tokens",
        "offloaded",
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all threads and all work; in a forked child the parent's do not exist."""
        self._lock = threading.Lock()
        #: Jobs whose quota allows that they run: a heap of (priority, arrival, job, quota).
        self._ready: list[tuple[tuple[int, int], int, FunctionJob, Quota]] = []
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._arrivals = itertools.count().__next__
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._queued: set[FunctionJob] = set()
        self._running: set[FunctionJob] = set()
        self.offloaded = 0

    def submit(self, job: FunctionJob, quota: Quota) -> None:
        """Have a worker run a job when its quota allows that; never blocks."""
        with self._lock:
            self.offloaded += 1
            self._queued.add(job)
            entry = (job.priority, self._arrivals(), job)
            if quota.running >= quota.limit:
                heappush(quota.waiting, entry)
                return
            self._make_ready(entry, quota)

    def _make_ready(self, entry: tuple[tuple[int, int], int, FunctionJob], quota: Quota) -> None:
        quota.running += 1
        heappush(self._ready, (*entry, quota))
        if self._idle >= len(self._ready):
            self._tokens.put(True)
            return
        thread = threading.Thread(target=self._work, name=f"asyncgrad worker {len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # There are too many threads, or the interpreter ends. Those that there are go on.
            if not self._threads:
                self._ready.clear()
                self._queued.discard(entry[2])
                quota.running -= 1
                entry[2].refuse(DeviceError(f"no worker thread could be started: {error}. Write ag.workers(0)"))
                return
        else:
            self._idle += 1
            self._threads.add(thread)
        self._tokens.put(True)

    def _work(self) -> None:
        while self._tokens.get():
            with self._lock:
                _, _, job, quota = heappop(self._ready)
                self._idle -= 1
                self._queued.discard(job)
                self._running.add(job)
            job.run()
            with self._lock:
                self._running.discard(job)
                self._idle += 1
                quota.running -= 1
                if quota.waiting and quota.running < quota.limit:
                    self._make_ready(heappop(quota.waiting), quota)
            # Not under the lock: the last reference to arrays, and to nodes, may go with it.
            del job, quota
        with self._lock:
            self._threads.discard(threading.current_thread())

    def statistics(self) -> Statistics:
        """Return how many threads there are, and what they do."""
        with self._lock:
            # One that has ended may have told so already; one that was withdrawn is thrown away when its turn comes.
            in_flight = sum(not job.has_ended() for job in self._running)
            queued = sum(job.is_waiting() for job in self._queued)
            return Statistics(len(self._threads), in_flight, queued, self.offloaded)

    def close(self) -> None:
        """Let every thread end, once it has ended what it runs, and wait for that; later work starts new ones."""
        with self._lock:
            threads = list(self._threads)
            for _ in threads:
                self._tokens.put(False)
        for thread in threads:
            thread.join()
        with self._lock:
            self._idle = 0


#: The worker threads of this process.
WORKER_POOL = WorkerPool()
atexit.register(WORKER_POOL.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKER_POOL.reset)


def statistics() -> Statistics:
    """Return what the worker threads of this process do now, and have done.

    Example:
        >>> import asyncgrad as ag
        >>> ag.engine.statistics().in_flight
        0
    """
    return WORKER_POOL.statistics()
