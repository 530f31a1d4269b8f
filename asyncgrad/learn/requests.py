"""Requests: what callers have asked a learner for, which is done between two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, final

from .activity import Activity
from .checks import closed_error

__all__ = ["Requests"]


class _Request(NamedTuple):
    """What is to be done, and what tells its result."""

    do: Callable[[], Coroutine[object, None, Any]]
    done: asyncio.Future[Any]


@final
class Requests:
    """Callers ask, and the task that learns does it.

    Args:
        wake: set when somebody asks.
        activity: has the stage.
    """

    def __init__(self, wake: asyncio.Event, activity: Activity) -> None:
        self._wake, self._activity = wake, activity
        self._requests: list[_Request] = []
        self._checkpoint_waiters: list[asyncio.Future[None]] = []

    async def ask(self, do: Callable[[], Coroutine[object, None, Any]]) -> Any:
        """Have the task that learns await something; return the result."""
        request = _Request(do, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._wake.set()
        return await request.done

    async def ask_for_checkpoint(self) -> None:
        """Have it write a checkpoint, which all have in common who ask for one at a time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._checkpoint_waiters.append(waiter)
        self._wake.set()
        await waiter

    async def do_all(self, after_each: Callable[[], Awaitable[None]]) -> None:
        """Do what was asked for, but for checkpoints, in order."""
        while self._requests:
            await self._do(self._requests.pop(0))
            await after_each()

    async def _do(self, request: _Request) -> None:
        """Do what somebody waits for, and tell them."""
        if request.done.done():
            return
        error: BaseException | None = None
        try:
            result = await request.do()
        except Exception as failure:
            error = failure
        except BaseException:
            # It ends the learner.
            error = closed_error()
            raise
        finally:
            self._activity.stage = None
            if error is not None and not request.done.done():
                request.done.set_exception(error)
        if error is None and not request.done.done():
            request.done.set_result(result)

    async def save(self, save: Callable[[], Awaitable[OSError | None]]) -> None:
        """Write the checkpoint that somebody waits for, and tell them; `save` returns why there is none."""
        waiters, self._checkpoint_waiters = self._checkpoint_waiters, []
        if not waiters:
            return
        error: BaseException | None
        try:
            error = await save()
        except BaseException:
            # It ends the learner.
            error = closed_error()
            raise
        finally:
            for waiter in waiters:
                if not waiter.done():
                    _tell(waiter, error)

    def refuse(self) -> None:
        """Give a LearnerClosedError to all who wait."""
        for waiter in [*self._checkpoint_waiters, *(request.done for request in self._requests)]:
            if not waiter.done():
                waiter.set_exception(closed_error())


def _tell(waiter: asyncio.Future[None], error: BaseException | None) -> None:
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
