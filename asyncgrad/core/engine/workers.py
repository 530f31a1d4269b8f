"""WorkerPool: the threads that run heavy bodies, for every device whose arrays they can read.

A thread starts when a job needs it, at most as many as may be busy at a time. The threads are daemons, so an idle one
does not keep the interpreter alive; at exit the running jobs are waited for. A forked process starts its own threads.
"""

from __future__ import annotations

import itertools
import logging
import threading
from heapq import heapify, heappop, heappush
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, final

from ...errors import DeviceError
from ..settings.process import call_at_exit, call_in_forked_children

if TYPE_CHECKING:
    from ..settings.scheduling import Quota
    from .remote import FunctionJob

__all__ = ["WORKER_POOL", "WorkerCounts", "WorkerPool"]


LOG = logging.getLogger("asyncgrad.engine")


@final
class WorkerCounts(NamedTuple):
    """How many threads there are, how many of them run a body, how many bodies wait for one, and were submitted."""

    workers: int
    in_flight: int
    queued: int
    offloaded: int


@final
class WorkerPool:
    """Threads that run Jobs, the most urgent first, as many at a time as the quota of each Job allows."""

    __slots__ = (
        "_idle",
        "_lock",
        "_next_arrival",
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
        """Start anew, without threads and jobs; a forked child has none of its parent's."""
        self._lock = threading.Lock()
        #: The jobs whose quota allows them to run: a heap of (priority, arrival, job, quota).
        self._ready: list[tuple[tuple[int, int], int, FunctionJob, Quota]] = []
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._next_arrival = itertools.count().__next__
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._queued: set[FunctionJob] = set()
        self._running: set[FunctionJob] = set()
        self.offloaded: int = 0

    def submit(self, job: FunctionJob, quota: Quota) -> None:
        """Have a worker run a job once its quota allows it; never blocks."""
        with self._lock:
            self.offloaded += 1
            entry = (job.priority, self._next_arrival(), job)
            try:
                self._queued.add(job)
                if quota.running >= quota.limit:
                    heappush(quota.waiting, entry)
                else:
                    self._make_ready(entry, quota)
            except BaseException:
                self._take_back(entry, quota)
                raise

    def _take_back(self, entry: tuple[tuple[int, int], int, FunctionJob], quota: Quota) -> None:
        """Forget a job when an interrupt ends its submission, for example the wait for the start of a thread."""
        self._queued.discard(entry[2])
        if entry in quota.waiting:
            quota.waiting.remove(entry)
            heapify(quota.waiting)
        elif (ready := (*entry, quota)) in self._ready:
            self._ready.remove(ready)
            heapify(self._ready)
            quota.running -= 1

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
            # There are too many threads, or the interpreter is ending. The existing threads go on.
            if not self._threads:
                self._ready.clear()
                self._queued.discard(entry[2])
                quota.running -= 1
                entry[2].refuse(
                    DeviceError(f"no worker thread could be started: {error}. Run without workers: with ag.workers(0)")
                )
                return
        else:
            self._idle += 1
            self._threads.add(thread)
        self._tokens.put(True)

    def _work(self) -> None:
        # Not where the thread is started, under the lock: a handler of the log may run any code.
        LOG.debug("%s started", threading.current_thread().name)
        with self._lock:
            if threading.current_thread() not in self._threads:
                # Where an interrupt ended the wait for this start, its sender has not counted it.
                self._threads.add(threading.current_thread())
                self._idle += 1
        while self._tokens.get():
            with self._lock:
                if not self._ready:
                    # The job was taken back after its token had been put.
                    continue
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
            # Not under the lock: this may drop the last reference to arrays and nodes.
            del job, quota
        with self._lock:
            self._threads.discard(threading.current_thread())
        LOG.debug("%s ended", threading.current_thread().name)

    def counts(self) -> WorkerCounts:
        """Return the current counts."""
        with self._lock:
            # A running job may have told its sender of its end already; a withdrawn one is queued until its turn comes.
            in_flight = sum(not job.has_ended() for job in self._running)
            queued = sum(job.is_waiting() for job in self._queued)
            return WorkerCounts(len(self._threads), in_flight, queued, self.offloaded)

    def jobs(self) -> tuple[list[FunctionJob], list[FunctionJob]]:
        """Return the jobs that run, and those that wait.

        It takes no lock: a signal handler may call it while this thread holds the lock.
        """
        running = [job for job in self._running.copy() if not job.has_ended()]
        return running, [job for job in self._queued.copy() if job.is_waiting()]

    def close(self) -> None:
        """End every thread after its current job, and wait for that; later jobs start new threads."""
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
call_at_exit(WORKER_POOL.close)
call_in_forked_children(WORKER_POOL.reset)
