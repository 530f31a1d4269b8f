"""Line: how many requests may run and start now, and who waits for that, from any loop or thread.

A place that becomes free is given to the next in line at once, and nobody comes between. Of those who wait, the
deepest backward is next, then the oldest; a caller outside of all backward passes comes after those that the line has
seen before it. So inner backward passes, which outer ones wait for, never wait for outer ones, and nobody waits for
ever behind backward passes that begin later.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import threading
from collections import deque
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from typing import final
from weakref import WeakSet, ref

from ...errors import BlockingError
from ..engine.await_stack import NAMED_WAITS
from ..engine.dependents import HELD, hold, let_go
from ..engine.device_limit import begin_wait, end_wait, force_end_wait, lend_to_dependencies
from ..engine.loops import OneShotEvent, running_loop
from ..settings.context import BLOCKING
from ..settings.process import call_in_forked_children, hold_in_forks
from .callers import current_urgency, tell_profiles

__all__ = ["Line", "all_lines"]

#: Guards the fields of all lines; never held while anything waits. Reentrant: the garbage collector may close an
#: abandoned request, which gives its place back, at any line.
_MUTEX = hold_in_forks(threading.RLock())


@final
class _Waiter:
    """Somebody who waits in a line, on the running loop.

    The line keeps neither the event that wakes them nor their context, and so no task of a loop that is dropped: those
    who hold places there, which they give back as they are collected, may be found from them.

    Args:
        line: the line.
        order: of all waiters the lowest is next.
        granted: what they await.
        context: what holds a place in the line may be a backward that waits for what this one holds.
    """

    __slots__ = (
        "_context",
        "_granted",
        "_order",
        "has_place",
        "is_gone",
        "is_queued",
        "line",
        "loop",
        "since",
        "started",
        "waited",
    )

    def __init__(self, line: Line, order: tuple[int, float, int], granted: OneShotEvent, context: Context) -> None:
        self.line, self.loop, self._order = line, running_loop(), order
        self._granted, self._context = ref(granted), ref(context)
        #: By the clock of its loop.
        self.since = self.loop.time()
        self.has_place = self.is_gone = False
        self.is_queued = True
        #: When it was counted as a start, by the clock of its loop, and for how long it had waited then.
        self.started = self.waited = 0.0

    def __lt__(self, other: _Waiter) -> bool:
        return self._order < other._order

    @property
    def context(self) -> Context | None:
        """Its context; None once it has been collected."""
        return self._context()

    def __str__(self) -> str:
        """What it waits for."""
        return f"{self.line.title}, {self.line.count_before(self)} before it"

    def offer(self) -> bool:
        """Give it a place; return False where it waits no more."""
        granted = self._granted()
        if granted is None:
            return False
        self.has_place = True
        is_here = asyncio._get_running_loop() is self.loop
        if not (granted.set() if is_here else granted.set_threadsafe()):
            self.has_place = False
        return self.has_place


@final
class _Place:
    """A place that a context has taken, which those in line wait for.

    Args:
        line: the line.
    """

    __slots__ = ("line",)

    def __init__(self, line: Line) -> None:
        #: None once it has been given back.
        self.line: Line | None = line

    @property
    def is_held(self) -> bool:
        """Whether it has not been given back."""
        return self.line is not None

    def dependents(self) -> list[Context]:
        """Return the contexts of those who wait for a place; takes no lock."""
        line = self.line
        return [] if line is None else line.contexts_waiting()


@final
class Line:
    """The places of a limit, and those who wait for one.

    Args:
        title: what descriptions call it.
        requests: how many places there are; None for any number.
        rate: how many requests may start in `per` seconds; None for any number.
        per: see `rate`.
    """

    __slots__ = (
        "__weakref__",
        "_gone",
        "_loops",
        "_newest",
        "_next_arrival",
        "_per",
        "_rate",
        "_requests",
        "_starts",
        "_timers",
        "_waiting",
        "in_use",
        "longest_wait",
        "started",
        "title",
        "waited",
    )

    def __init__(self, title: str, requests: int | None, rate: int | None, per: float) -> None:
        self.title = title
        self._requests, self._rate, self._per = requests, rate, per
        #: How many requests have ever started.
        self.started = 0
        #: The seconds that all of them had waited together, and the most that one had.
        self.waited = self.longest_wait = 0.0
        with _MUTEX:
            _LINES.add(self)
        self.reset()

    def reset(self) -> None:
        """Begin anew: in a forked child nobody of its parent waits, or runs."""
        #: How many places are taken.
        self.in_use = 0
        #: A heap; those who have gone stay in it for a while.
        self._waiting: list[_Waiter] = []
        self._gone = 0
        #: When the last requests started, as many as the rate counts. It may count more than fit into memory.
        self._starts: deque[float] = deque()
        self._next_arrival = itertools.count().__next__
        #: The id of the newest backward that has been in line.
        self._newest: float = -1
        #: How many wait on each loop.
        self._loops: dict[asyncio.AbstractEventLoop, int] = {}
        #: By loop, what looks again when the rate allows the next start; None where the loop has yet to set it. One for
        #: each, since a loop that is busy for a while must not hold up the others.
        self._timers: dict[asyncio.AbstractEventLoop, asyncio.TimerHandle | None] = {}

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting) - self._gone

    def waits(self) -> list[float]:
        """Return for how many seconds each that waits has done so."""
        with _MUTEX:
            waiting = [one for one in self._waiting if not (one.is_gone or one.loop.is_closed())]
            return [one.loop.time() - one.since for one in waiting]

    def count_before(self, waiter: _Waiter) -> int:
        """Return how many are ahead of one that waits; takes no lock, since a signal handler may ask."""
        return sum(1 for other in self._waiting.copy() if other < waiter and not other.is_gone)

    def contexts_waiting(self) -> list[Context]:
        """Return the contexts of those who wait; takes no lock."""
        contexts = [one.context for one in self._waiting.copy() if not one.is_gone]
        return [context for context in contexts if context is not None]

    async def enter(self) -> None:
        """Take a place, which this context holds then; suspends until it is the caller's turn.

        Raises:
            GraphError: no asyncio loop is running.
            BlockingError: the caller would have to wait, and blocks this thread's event loop.
        """
        loop = running_loop()
        with _MUTEX:
            if not self.waiting and self._has_place() and self._next_start(loop) is None:
                self._start(loop)
                self._hold_place()
                return
            if BLOCKING.get():
                raise BlockingError(
                    f"a request would have to wait for {self.title} in a blocking backward, and an event loop is "
                    "running in this thread: await ag.backward(...) in place of asyncgrad.sync"
                )
            granted, context = OneShotEvent(loop), copy_context()
            waiter = _Waiter(self, self._order(), granted, context)
            heappush(self._waiting, waiter)
            self._loops[loop] = self._loops.get(loop, 0) + 1
            self._admit()
        permit = begin_wait()
        try:
            lend_to_dependencies()
            tell_profiles(waiter)
            await _turn_of(waiter, granted)
        except BaseException:
            self._withdraw(waiter)
            force_end_wait(permit)
            raise
        with _MUTEX:
            self.waited += waiter.waited
            self.longest_wait = max(self.longest_wait, waiter.waited)
        # Now, since those who wait for a permit of the device may be lent one by those who wait for this place.
        self._hold_place()
        try:
            await end_wait(permit)
        except BaseException:
            self.leave()
            raise

    def _hold_place(self) -> None:
        # A rate makes nobody wait for those who have started.
        if self._requests is not None:
            hold(_Place(self))

    def leave(self) -> None:
        """Give a place back, the last one that this context has taken, and the next in line has it; from any thread."""
        for held in reversed(HELD.get()):
            if isinstance(held, _Place) and held.line is self:
                held.line = None
                let_go(held)
                break
        self._return_place()

    def _return_place(self) -> None:
        with _MUTEX:
            self.in_use -= 1
            self._admit()

    def _order(self) -> tuple[int, float, int]:
        depth, backward = current_urgency()
        if backward == math.inf:
            # One outside of all comes after the backward passes that have asked so far, and before later ones.
            backward = self._newest
        self._newest = max(self._newest, backward)
        return depth, backward, self._next_arrival()

    def _has_place(self) -> bool:
        return self._requests is None or self.in_use < self._requests

    def _next_start(self, loop: asyncio.AbstractEventLoop) -> float | None:
        """Return until when the rate allows no further start, by the clock of a loop; None where it allows one now."""
        starts, now = self._starts, loop.time()
        if starts and now < starts[-1] - self._per:
            # Another clock: the virtual one of a test, say.
            starts.clear()
        if self._rate is None or len(starts) < self._rate or now >= starts[0] + self._per:
            return None
        return starts[0] + self._per

    def _start(self, loop: asyncio.AbstractEventLoop) -> float:
        """Count a start, and return when it is; without a rate nobody asks."""
        self.in_use += 1
        self.started += 1
        if self._rate is None:
            return 0.0
        # The clocks of loops in several threads are read at different times.
        starts, now = self._starts, loop.time()
        while starts and (len(starts) == self._rate or now >= starts[0] + self._per):
            starts.popleft()
        starts.append(max(now, starts[-1]) if starts else now)
        return starts[-1]

    def _admit(self) -> None:
        """Let those begin for whom there is a place now, in their order; the caller holds the mutex."""
        waiting = self._waiting
        while waiting and self._has_place():
            first = waiting[0]
            if not (first.is_gone or first.loop.is_closed()):
                when = self._next_start(first.loop)
                if when is not None:
                    self._look_again(when)
                    return
            heappop(waiting)
            first.is_queued = False
            if first.is_gone:
                self._gone -= 1
                continue
            self._leave_line(first)
            if not first.loop.is_closed() and first.offer():
                first.started = self._start(first.loop)
                first.waited = first.loop.time() - first.since

    def _withdraw(self, waiter: _Waiter) -> None:
        """Forget one that waits no more, or give its place to the next."""
        with _MUTEX:
            if waiter.has_place:
                # It never began: the next may start in its place, also by the rate.
                self.started -= 1
                if waiter.started in self._starts:
                    self._starts.remove(waiter.started)
                self._return_place()
                return
            if not waiter.is_queued:
                return
            waiter.is_gone = True
            self._gone += 1
            self._leave_line(waiter)
            # Seldom, since it looks at all: ten thousand may be cancelled at a time.
            if 2 * self._gone >= len(self._waiting):
                self._waiting = [other for other in self._waiting if not other.is_gone]
                heapify(self._waiting)
                self._gone = 0
            self._admit()

    def _leave_line(self, waiter: _Waiter) -> None:
        """Count one less on the loop of one that waits no more; the last one leaves no timer there."""
        loop = waiter.loop
        # None at all in a forked child, where one of the parent's is collected.
        count = self._loops.pop(loop, 0) - 1
        if count > 0:
            self._loops[loop] = count
            return
        timer = self._timers.pop(loop, None)
        # From another thread it cannot be cancelled: it looks once for nothing.
        if timer is not None and asyncio._get_running_loop() is loop:
            timer.cancel()

    def _look_again(self, when: float) -> None:
        """Have each loop on which somebody waits look again when the rate allows a start."""
        here = asyncio._get_running_loop()
        for loop in [loop for loop in self._loops if loop not in self._timers]:
            # An empty context: the loop keeps no caller's alive.
            if loop is here:
                self._timers[loop] = loop.call_at(when, self._on_time, loop, context=Context())
                continue
            # RuntimeError: the loop is closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._on_time, loop, context=Context())
                self._timers[loop] = None

    def _on_time(self, loop: asyncio.AbstractEventLoop) -> None:
        with _MUTEX:
            self._timers.pop(loop, None)
            self._admit()


async def _turn_of(waiter: _Waiter, granted: OneShotEvent) -> None:
    """Wait for a place; `describe_running` finds `waiter` here."""
    await granted


NAMED_WAITS[_turn_of.__code__] = "waiter"

_LINES: WeakSet[Line] = WeakSet()


def all_lines() -> list[Line]:
    """Return the lines of all limits that have not been dropped; from any thread."""
    with _MUTEX:
        return list(_LINES)


def _reset_all() -> None:
    for line in list(_LINES):
        line.reset()


call_in_forked_children(_reset_all)
