"""A hedged request: a second one is started if the first has not answered in time, and the first answer wins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, final

from ..engine.eager_task import EagerTask
from ..engine.loops import OneShotEvent, running_loop, wait_through_cancellation
from ..engine.notes import add_note
from .line import Line

__all__ = ["Hedged"]


@final
class Hedged:
    """One call that is made a second time if it takes long.

    Args:
        name: what the tasks are called.
        line: both take a place in it.
        call: makes the request.
        after: after how many seconds the second one is started.
    """

    __slots__ = ("_after", "_attempts", "_call", "_changed", "_context", "_ended", "_line", "_loop", "_name")

    def __init__(self, name: str, line: Line, call: Callable[[], Awaitable[Any]], after: float) -> None:
        self._name, self._line, self._call, self._after = name, line, call, after
        self._loop = running_loop()
        self._attempts: list[EagerTask] = []
        #: Those that have ended, in their order.
        self._ended: list[EagerTask] = []
        self._changed: OneShotEvent | None = None
        self._context: Context

    async def result(self) -> Any:
        """Return the first answer; return, or raise, only once no request runs any more.

        Raises:
            Exception: the error of a request that failed while no other was running; of two, the first error, with a
                note on the second.
        """
        await self._line.enter()
        # The requests run in copies of it, which hold the place.
        self._context = copy_context()
        self._begin(self._request())
        # Most answer in time, some at once.
        timer = self._loop.call_later(self._after, self._begin_again, context=self._context.copy())
        try:
            while not self._is_decided():
                await self._wait()
            winner = next((task for task in self._ended if _error_of(task) is None), None)
            failure = None if winner is not None else _failure(self._name, self._ended)
            interrupted = await self._end_all()
            try:
                if (raised := interrupted or failure) is not None:
                    raise raised
                assert winner is not None
                return winner.result()
            finally:
                # The traceback of an error refers to this frame: leave no cycle.
                del failure, interrupted, raised, winner
        except GeneratorExit:
            # The loop is gone, or the coroutine is being closed: nothing may be awaited.
            for task in self._attempts:
                task.close()
            raise
        except BaseException as error:
            if not self._have_ended():
                await self._end_all()
                self._add_later_errors(error)
            raise
        finally:
            timer.cancel()
            # The tasks refer to their errors, whose tracebacks refer to frames of this object.
            self._attempts.clear()
            self._ended.clear()

    def _begin(self, coroutine: Coroutine[object, None, Any]) -> None:
        task = EagerTask(
            coroutine, loop=self._loop, context=self._context.copy(), name=self._name, on_end=self._note_end
        )
        self._attempts.append(task)
        task.start()
        # As in EagerTask.start().
        del task

    def _begin_again(self) -> None:
        if not self._is_decided():
            self._begin(self._second())

    async def _request(self) -> Any:
        """Make the request, and give the place back that has been taken for it."""
        try:
            return await self._call()
        finally:
            self._line.leave()

    async def _second(self) -> Any:
        await self._line.enter()
        return await self._request()

    def _is_decided(self) -> bool:
        """Tell whether there is an answer, or none will come."""
        return len(self._ended) == len(self._attempts) or any(_error_of(task) is None for task in self._ended)

    def _note_end(self, task: EagerTask) -> None:
        self._ended.append(task)
        # Counts as retrieved, whatever becomes of this call.
        _error_of(task)
        if self._is_decided():
            # At once: the place that is free now may have been given to the second request.
            self._cancel()
        if self._changed is not None:
            self._changed.set()

    async def _wait(self) -> None:
        """Wait until a request has ended."""
        self._changed = OneShotEvent(self._loop)
        await self._changed

    def _cancel(self) -> None:
        for task in self._attempts:
            if not task.done() and not task.cancelling():
                task.cancel()

    def _have_ended(self) -> bool:
        return all(task.done() for task in self._attempts)

    def _add_later_errors(self, error: BaseException) -> None:
        """Add to the error that has ended this call what its requests have raised besides."""
        for later in map(_error_of, self._ended):
            if later is not None and not isinstance(later, asyncio.CancelledError):
                add_note(error, f"{self._name} failed while it was being cancelled: {later!r}")

    async def _end_all(self) -> asyncio.CancelledError | None:
        """Cancel the requests that run, and wait for their end; return the last cancellation of this call meanwhile."""
        self._cancel()
        return await wait_through_cancellation(self._have_ended, self._wait)


def _error_of(task: EagerTask) -> BaseException | None:
    """Return the error of a request that has ended, also the cancellation that it raised."""
    return task.cancelled_by or asyncio.CancelledError() if task.cancelled() else task.exception()


def _failure(name: str, ended: list[EagerTask]) -> BaseException:
    """Return the error of requests of which none has an answer: the first, with a note on the second."""
    first, *others = (error for task in ended if (error := _error_of(task)) is not None)
    for other in others:
        if other is not first:
            add_note(first, f"the second request of {name} failed too: {other!r}")
    return first
