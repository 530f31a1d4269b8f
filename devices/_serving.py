"""What serves a device that has one worker: threads with an event loop each, of which one at a time runs code.

There is one such thread, until that blocks for a backward whose nodes live elsewhere: then a second one stands in.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import selectors
import threading
from collections import deque
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from asyncgrad.engine.device import Job

__all__ = ["Baton", "Server"]

#: Seconds for which a server takes Jobs before it lets its event loop run what else is ready.
BUDGET = 0.001
#: The turns of the loop after which what was suspended has had its chance: a wake-up crosses three callbacks.
TURNS = 3
#: The turns in which tasks that nobody waits for may end, after the death of their loop's thread.
LAST_TURNS = 10


@final
class Baton:
    """Whoever has it runs; handed on in the order of asking. Any thread may give it for the one that took it."""

    __slots__ = ("_is_taken", "_mutex", "_waiting")

    def __init__(self) -> None:
        self._is_taken = False
        self._mutex = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def take(self) -> None:
        """Block until it is ours."""
        with self._mutex:
            if not self._is_taken:
                self._is_taken = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        gate.acquire()

    def give(self) -> None:
        """Hand it to the one that has waited longest, if any does."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False


@final
class YieldingSelector(selectors.BaseSelector):
    """Gives the baton away for as long as its event loop waits for something to do."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._selector = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """As of any selector."""
        return self._selector.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """As of any selector."""
        return self._selector.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """As of any selector."""
        return self._selector.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As of any selector; whoever waits for the baton runs meanwhile."""
        self._baton.give()
        try:
            return self._selector.select(timeout)
        finally:
            self._baton.take()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """As of any selector."""
        return self._selector.get_map()

    def close(self) -> None:
        """As of any selector."""
        self._selector.close()


@final
class Server:
    """One thread with an event loop of its own, on which it runs the Jobs that `take` gives it.

    Args:
        name: of the thread.
        baton: shared by all that serve one device.
        take: returns the most urgent Job; None where there is none for this server.
        on_end: called with this server at the end of its thread, with what it died of, and whether it did.

    asyncio's own kind of loop, since uvloop's cannot tell when it has nothing to do, and dies less gracefully with the
    interpreter.
    """

    __slots__ = (
        "_baton",
        "_begun",
        "_context",
        "_has_finished",
        "_on_end",
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
        baton: Baton,
        take: Callable[[Server], Job | None],
        on_end: Callable[[Server, bool, BaseException | None], Callable[[], BaseException]],
    ) -> None:
        self._baton = baton
        self._take = take
        self._on_end = on_end
        #: What has been suspended, by the task that goes on with it.
        self._begun: dict[asyncio.Future[Any], Job] = {}
        #: Nobody's: what each Job runs in comes with it.
        self._context = contextvars.Context()
        self._has_finished = False
        #: Whether its thread waits for what runs in others.
        self.is_blocked = False
        #: Whether it is about to take a Job.
        self.is_due = False
        #: Whether it takes no further Job, and ends once all that it has begun has.
        self.is_retired = False
        # A loop keeps the context that it is made in, and this one outlives the backward that is the first to need it.
        self.loop = self._context.run(asyncio.SelectorEventLoop, YieldingSelector(baton))
        # In debug mode asyncio complains of callbacks that take their time, and to take it is what this loop is for.
        self.loop.slow_callback_duration = inf
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def takes_jobs(self) -> bool:
        """Tell whether it may be woken to take a Job."""
        return not (self.is_blocked or self.is_retired)

    def wake(self) -> None:
        """Have it take Jobs until there is none; in any thread."""
        self._call(self._run_jobs)

    def retire(self) -> None:
        """Have its thread end once nothing runs on its loop any more; in any thread."""
        self._call(self._end_if_idle)

    def _call(self, callback: Callable[[], None]) -> None:
        # Where its thread has died just now, what was queued has been refused.
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
                self._begun[task] = job
                task.add_done_callback(self._note_end, context=self._context)
            del job, task
            # What has begun goes on ahead of what has not.
            if self._begun or perf_counter() > deadline:
                self._run_jobs(TURNS)
                return

    def _note_end(self, task: asyncio.Future[Any]) -> None:
        self._begun.pop(task, None)
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
        self._baton.take()
        cause: BaseException | None = None
        try:
            self.loop.run_forever()
        except BaseException as error:
            cause = error
        try:
            died_of = self._on_end(self, not self._has_finished, cause)
            while self._begun:
                self._begun.popitem()[1].abandon(died_of())
            self._end_tasks()
            self.loop.close()
        finally:
            self._baton.give()
            # The traceback leads back here: leave no cycle.
            del cause

    def _end_tasks(self) -> None:
        """Cancel what bodies have started and left, and give it a few turns; whoever resists stays behind."""
        for _ in range(LAST_TURNS):
            left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
            if not left:
                return
            for task in left:
                task.cancel()
            self.loop.call_soon(self.loop.stop)
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()
