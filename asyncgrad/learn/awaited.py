"""Awaited: what a server waits for a client to do, since when, and what happens if it is not done in time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import final

__all__ = ["Awaited", "ENOUGH"]

#: The bytes that a client must have moved, for the time to begin anew.
ENOUGH = 16_384


@final
class Awaited:
    """One thing that a client is to do: send headers, send a body, or take an answer.

    The time begins anew with each `ENOUGH` bytes that the client moves, so that long bodies and answers may take their
    time, and a byte now and then gains none.

    Args:
        loop: the loop of the server.
        seconds: the time that the client has.
        moved: returns how many bytes it has moved so far; None where it is not awaited, and infinity where it is not,
            but may be again without a call of `look`.
        on_timeout: called once it has not done so in time.
    """

    __slots__ = ("_loop", "_mark", "_moved", "_on_timeout", "_seconds", "_since", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        moved: Callable[[], float | None],
        on_timeout: Callable[[], None],
    ) -> None:
        self._loop, self._seconds, self._moved, self._on_timeout = loop, seconds, moved, on_timeout
        #: Since when the client has not moved enough, and what it had moved by then; None where it is not awaited.
        self._since: float | None = None
        self._mark: float = 0
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Note whether the client is awaited, and has moved enough; called whenever that may have changed."""
        moved = self._moved()
        if moved is None:
            self._since = None
            return
        if self._since is None or moved - self._mark >= ENOUGH:
            self._since, self._mark = self._loop.time(), 0 if moved == math.inf else moved
        if self._timer is None:
            self._timer = self._loop.call_at(self._since + self._seconds, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        before = self._since
        self.look()
        if self._timer is None or self._since is None or self._since != before:
            return
        if self._loop.time() >= self._since + self._seconds:
            self.forget()
            self._on_timeout()

    def since(self) -> float | None:
        """Return the loop's time since which the client has not moved enough; None where it is not awaited."""
        self.look()
        return self._since

    def forget(self) -> None:
        """Await nothing any more."""
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
