"""The turn of an event loop: how long this library has kept the loop from turning, and who waits until it has.

A loop of small backward passes would starve its event loop if each had a budget of its own, since none of them spends
it. So the budget (`ag.loop_budget`) belongs to the loop: it counts from the first work after the loop has turned, over
all backward passes, transforms, steps and batches of that loop, whoever awaits them. Whoever finds it spent waits here.
Waiting callers go on first in, first out, as many in a turn as the budget has time for: were all woken at once, a
thousand backward passes would each be woken a dozen times before they run.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextvars import Context
from math import inf
from typing import TYPE_CHECKING, final

from .context import BLOCKING, ROW
from .scheduling import CLOCK, LOOP_BUDGET

if TYPE_CHECKING:
    from .scheduling import Clock

__all__ = ["HERE", "LoopTurn", "keep_pace", "next_turn", "time_left", "yield_to_loop"]

#: For how many iterations a loop is left alone once its budget is spent; those who wait go on in the next one. A timer
#: needs one iteration to fire, one to set its future and one to wake its task, as `yield_to_loop` says.
_ITERATIONS_LEFT_ALONE = 2


@final
class LoopTurn:
    """What is known of the current turn of one event loop, in its thread.

    A turn begins with the first work after the loop has turned, and ends when the loop turns. A callback, put into the
    loop at the begin, notes its end: once for each turn, however many backward passes there are in it.

    Args:
        loop: the event loop; None for a thread that has had none.
    """

    __slots__ = (
        "_admitted",
        "_context",
        "_has_begun",
        "_is_settled",
        "_loop",
        "_number",
        "_pause",
        "_returned",
        "_waiting",
        "_watch",
        "_woken",
        "clock",
        "start",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        #: Empty, so that the callback keeps no values alive; and its own, since two threads cannot be in one context.
        self._context = Context()
        #: The clock that `start` was read from; None between two turns.
        self.clock: Clock | None = None
        #: When the turn began; -inf while those who wait go first, so that everybody finds the budget spent.
        self.start: float = -inf
        #: How many iterations of the loop begin until those who wait are looked at; 0 if no callback is in the loop.
        self._pause = 0
        #: How many callbacks have been put into the loop, which is the number of the last one.
        self._number = 0
        #: How many have begun to look after those, which is the number of the one that goes on.
        self._watch = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        #: Those who were woken, and found the budget spent by those before them: ahead of all who wait.
        self._returned: deque[asyncio.Future[None]] = deque()
        #: How many are woken at a time: twice as many each time, and slowly more once some have returned.
        self._admitted = 1
        self._is_settled = False
        #: How many were woken last, and whether the first of them has begun the turn.
        self._woken = 0
        self._has_begun = True

    def begin(self, clock: Clock, now: float) -> float:
        """Begin a turn at `now`, unless one has begun by that clock; return when it began.

        Without an asyncio loop in this thread nothing has to turn, and each caller has a turn of its own.
        """
        loop = asyncio._get_running_loop()
        if loop is None:
            return now
        turn = self
        if loop is not self._loop:
            turn = HERE.turn = LoopTurn(loop)
        turn.clock, turn.start = clock, now
        if not turn._pause:
            turn._pause = 1
            turn._schedule()
        return now

    async def wait(self, clock: Clock, budget: float) -> None:
        """Let the loop run everything else that is ready, and wait until there is time for this caller."""
        assert self._loop is not None
        queue = self._waiting
        while True:
            woken: asyncio.Future[None] = self._loop.create_future()
            if self.start > -inf or not self._pause or not queue:
                self._watch += 1
                self._loop.call_soon(self._look_after, self._watch, self._number, context=self._context)
            queue.append(woken)
            if self.start > -inf or not self._pause:
                # The turn ends here. Others who come later do not make it longer.
                self.clock, self.start = clock, -inf
                if not self._pause:
                    self._schedule()
                self._pause = _ITERATIONS_LEFT_ALONE
            await woken
            now = clock()
            if not self._has_begun or self.clock is not clock:
                self._has_begun, self.clock, self.start = True, clock, now
            if now - self.start <= budget:
                return
            queue = self._returned

    def last_in_line(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None] | None:
        """Return what is done once all have gone on who wait for `loop` to turn now; None where nobody does."""
        if loop is not self._loop:
            return None
        for queue in (self._waiting, self._returned):
            if queue:
                return queue[-1]
        return None

    def _schedule(self) -> None:
        assert self._loop is not None
        self._number += 1
        self._loop.call_soon(self._note_iteration, self._number, context=self._context)

    def _note_iteration(self, number: int) -> None:
        """Note that an iteration of the loop begins."""
        if number != self._number:
            # Taken for lost, and put into the loop again.
            return
        self._pause -= 1
        if not self._pause:
            self._wake_next()
        if self._pause:
            self._schedule()

    def _look_after(self, watch: int, number: int) -> None:
        """Put the callback into the loop again if it was lost, as long as anybody waits.

        A KeyboardInterrupt ends the run of a loop, and the callback that ran then is gone. The next run of that loop
        would never wake anybody (`test_an_interrupted_loop_that_goes_on_wakes_those_who_wait`).

        Args:
            watch: the number of this watch. Each spent turn begins a new one, and ends that before
                (`test_a_loop_whose_turns_are_spent_without_end_has_few_callbacks`).
            number: of the callback that was in the loop ahead of this one, and has run by now.
        """
        assert self._loop is not None
        if watch != self._watch or not (self._waiting or self._returned):
            return
        if number == self._number:
            self._pause = max(1, self._pause)
            self._schedule()
        self._loop.call_soon(self._look_after, watch, self._number, context=self._context)

    def _wake_next(self) -> None:
        """End the turn. Wake as many of those who wait as there may be time for; they run in the next iteration."""
        if self._returned:
            self._admitted, self._is_settled = max(1, self._woken - len(self._returned)), True
            self._waiting.extendleft(reversed(self._returned))
            self._returned.clear()
        elif self._waiting:
            self._admitted += self._admitted // 8 + 1 if self._is_settled else self._admitted
        self._woken = 0
        while self._waiting and self._woken < self._admitted:
            # One that was cancelled waits no more. Others stay in the queue until woken: an interrupt may come here.
            if not (future := self._waiting[0]).done():
                future.set_result(None)
                self._woken += 1
            del self._waiting[0]
        if self._woken:
            # One iteration to run in, which ends with the begin of the second.
            self._pause, self._has_begun, self.start = 2, False, -inf
        else:
            self._admitted, self._is_settled, self.clock = 1, False, None


@final
class _Here(threading.local):
    """The turn of the loop that runs in this thread, or that ran in it last."""

    def __init__(self) -> None:
        self.turn = LoopTurn(None)


HERE = _Here()


def time_left(clock: Clock, budget: float) -> tuple[float, float]:
    """Return the time now, and when the budget of this turn ends, which may have passed; a turn begins if none has."""
    now, turn = clock(), HERE.turn
    # The budget is the loop's, which others may have spent before.
    return now, (turn.start if turn.clock is clock else turn.begin(clock, now)) + budget


async def yield_to_loop() -> None:
    """Let the event loop run everything else that is ready; do nothing under a loop that is not asyncio's.

    It takes three iterations of the loop, since a timer needs one to fire, one to set its future and one to wake its
    task. Measured: with one iteration the median lateness of a 1 ms ticker is five times as high.
    """
    if asyncio._get_running_loop() is None:
        return
    for _ in range(3):
        await asyncio.sleep(0)


async def next_turn(clock: Clock, budget: float, is_counted: bool = False) -> None:
    """Let the event loop run everything else that is ready, and wait for time to go on, in a turn that has begun.

    Args:
        clock: what measures the budget.
        budget: in seconds. If it is not positive, the caller yields whenever it looks at the clock, and does not queue.
        is_counted: whether the caller sees to it that its backward counts as one that runs. Otherwise a row of several
            that run together does here: the others send no request before it has gone on, and perhaps joins in.
    """
    loop = asyncio._get_running_loop()
    if loop is None or budget <= 0.0:
        await yield_to_loop()
        return
    turn = HERE.turn
    if turn._loop is loop:
        if is_counted or (row := ROW.get()) is None or not row.is_here():
            await turn.wait(clock, budget)
        else:
            row.scheduler.wake(0)
            try:
                await turn.wait(clock, budget)
            finally:
                row.scheduler.leave(0)
    else:
        # What was found spent is the last turn of a loop that ran here before.
        turn.begin(clock, clock())


async def keep_pace() -> None:
    """Yield to the event loop if the budget of its turn is spent; never in a blocking call.

    For loops over many short pieces of plain work, and at the begin of what users may call in such a loop.
    """
    if BLOCKING.get():
        return
    clock, budget = CLOCK.get(), LOOP_BUDGET.get()
    now, deadline = time_left(clock, budget)
    if now > deadline or budget <= 0.0:
        await next_turn(clock, budget)
