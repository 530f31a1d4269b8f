"""The threads that serve a device with one worker. Each has an event loop; one of them at a time runs code.

Usually there is one thread. While it blocks in a backward whose nodes are on other devices, a second one takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import selectors
import threading
from collections import deque
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from asyncgrad.core.engine.device import Job

__all__ = ["FairLock", "Server"]

LOG = logging.getLogger("asyncgrad.devices")

#: The seconds for which a server takes Jobs before it lets its event loop run other callbacks.
BUDGET = 0.001
#: How many turns a server gives the loop, so that suspended bodies can go on: a wake-up takes three callbacks.
TURNS = 3
#: How many turns tasks have to end after the death of their loop's thread.
LAST_TURNS = 10


@final
class FairLock:
    """A lock that threads get in the order in which they ask. Any thread may release it."""

    __slots__ = ("_is_taken", "_mutex", "_waiting")

    def __init__(self) -> None:
        self._is_taken = False
        self._mutex = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self) -> None:
        """Block until this thread has the lock."""
        with self._mutex:
            if not self._is_taken:
                self._is_taken = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        gate.acquire()

    def release(self) -> None:
        """Release the lock to the thread that has waited longest, if there is one."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False


@final
class YieldingSelector(selectors.BaseSelector):
    """A selector that releases the lock while its event loop waits for something to do."""

    def __init__(self, run_lock: FairLock) -> None:
        self._run_lock = run_lock
        self._selector = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Do the same as `selectors.DefaultSelector`."""
        return self._selector.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Do the same as `selectors.DefaultSelector`."""
        return self._selector.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Do the same as `selectors.DefaultSelector`."""
        return self._selector.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events; the next thread that waits for the lock runs meanwhile."""
        self._run_lock.release()
        try:
            return self._selector.select(timeout)
        finally:
            self._run_lock.acquire()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Do the same as `selectors.DefaultSelector`."""
        return self._selector.get_map()

    def close(self) -> None:
        """Do the same as `selectors.DefaultSelector`."""
        self._selector.close()


@final
class Server:
    """One thread with an event loop, on which it runs the Jobs that `take` returns.

    Args:
        name: the name of the thread.
        run_lock: shared by all servers of one device; the one that holds it runs.
        take: returns the Job with the highest priority, or None if there is none for this server.
        on_end: called at the end of the thread with this server, whether the thread died, and the error it died of.

    The loop is asyncio's SelectorEventLoop: a uvloop cannot report that it has nothing to do, and ends less cleanly
    with the interpreter.
    """

    __slots__ = (
        "_context",
        "_has_finished",
        "_on_end",
        "_run_lock",
        "_suspended",
        "_take",
        "is_blocked",
        "is_due",
        "is_retired",
        "loop",
        "thread",
    )

    def __init__(
        self,
        name: str,
        run_lock: FairLock,
        take: Callable[[Server], Job | None],
        on_end: Callable[[Server, bool, BaseException | None], Callable[[], BaseException]],
    ) -> None:
        self._run_lock = run_lock
        self._take = take
        self._on_end = on_end
        #: The suspended Jobs, by the task that continues each.
        self._suspended: dict[asyncio.Future[Any], Job] = {}
        #: An empty context: each Job brings the one that it runs in.
        self._context = contextvars.Context()
        self._has_finished = False
        #: Whether its thread is blocked until other threads have done something.
        self.is_blocked = False
        #: Whether it is about to take a Job.
        self.is_due = False
        #: Whether it takes no further Job, and ends when all that it has begun have ended.
        self.is_retired = False
        # A loop keeps the context in which it is created, and this one outlives the backward that first needs it.
        self.loop = self._context.run(asyncio.SelectorEventLoop, YieldingSelector(run_lock))
        # In debug mode asyncio warns of slow callbacks, but slow bodies are what this loop is for.
        self.loop.slow_callback_duration = inf
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def takes_jobs(self) -> bool:
        """Return whether it may be woken to take a Job."""
        return not (self.is_blocked or self.is_retired)

    def wake(self) -> None:
        """Have it take Jobs until there are none; may be called from any thread."""
        self._call(self._run_jobs)

    def retire(self) -> None:
        """Have its thread end when nothing runs on its loop any more; may be called from any thread."""
        self._call(self._end_if_idle)

    def _call(self, callback: Callable[[], None]) -> None:
        # RuntimeError: the thread has just died, and the queued Jobs have been refused.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback, context=self._context)

    def _run_jobs(self, turns_before: int = 0) -> None:
        if turns_before:
            self.loop.call_soon(self._run_jobs, turns_before - 1, context=self._context)
            return
        deadline = perf_counter() + BUDGET
        while (job := self._take(self)) is not None:
            task = job.run()
            if task is not None:
                self._suspended[task] = job
                task.add_done_callback(self._note_end, context=self._context)
            del job, task
            # Bodies that have begun go on before new ones begin.
            if self._suspended or perf_counter() > deadline:
                self._run_jobs(TURNS)
                return

    def _note_end(self, task: asyncio.Future[Any]) -> None:
        self._suspended.pop(task, None)
        if self.is_retired:
            self._end_if_idle()

    def _end_if_idle(self, _ended: Any = None) -> None:
        for task in asyncio.all_tasks(self.loop):
            if not task.done():
                task.add_done_callback(self._end_if_idle, context=self._context)
                return
        self._has_finished = True
        self.loop.stop()

    def _serve(self) -> None:
        LOG.debug("%s started", self.thread.name)
        self._run_lock.acquire()
        cause: BaseException | None = None
        try:
            self.loop.run_forever()
        except BaseException as error:
            cause = error
        try:
            died_of = self._on_end(self, not self._has_finished, cause)
            while self._suspended:
                self._suspended.popitem()[1].abandon(died_of())
            self._end_tasks()
            self.loop.close()
        finally:
            self._run_lock.release()
            # The traceback refers to this frame: leave no cycle.
            del cause

    def _end_tasks(self) -> None:
        """Cancel the tasks that bodies have left behind, and give them a few turns to end; drop those that do not."""
        for _ in range(LAST_TURNS):
            left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
            if not left:
                return
            for task in left:
                task.cancel()
            self.loop.call_soon(self.loop.stop)
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()
