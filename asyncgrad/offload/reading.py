"""Reading: one array on its way back from a store, and who waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, final

from ..errors import StoreError

if TYPE_CHECKING:
    import threading

    from .activation import Entry

__all__ = ["Reading", "store_error", "wake"]


@final
class Reading:
    """An array that comes back, or is there and has not been taken by all who asked for it ahead.

    It is held by those alone. When the last lets go of it, the room that it takes is free again.

    Args:
        entry: whose array it is.
        changed: guards it, and is notified at the end.
        room: a list of one number, the bytes that all readings of one Offload take.
    """

    __slots__ = ("__weakref__", "_array", "_changed", "_error", "_room", "_waiting", "entry", "is_ended")

    def __init__(self, entry: Entry, changed: threading.Condition, room: list[int]) -> None:
        self.entry = entry
        self.is_ended = False
        self._changed = changed
        self._room = room
        self._array: Any = None
        self._error: StoreError | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        with changed:
            room[0] += entry.nbytes

    def __del__(self) -> None:
        with self._changed:
            self._room[0] -= self.entry.nbytes

    def end(self, array: Any, error: StoreError | None) -> None:
        """Note what came, and wake who waits."""
        with self._changed:
            self._array, self._error, self.is_ended = array, error, True
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for loop, waiter in waiting:
            # Who waited on a loop that has been closed does not wait any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake, waiter)

    def take(self) -> Any:
        """Return the array, now that it has come.

        Raises:
            StoreError: it has not.
        """
        if self._error is not None:
            # A new one each time: its traceback leads to who holds this.
            raise type(self._error)(*self._error.args) from self._error.__cause__
        return self._array

    def wait_blocking(self) -> Any:
        """Wait in this thread, and return what `take` does."""
        with self._changed:
            while not self.is_ended:
                self._changed.wait()
        return self.take()

    async def wait(self) -> Any:
        """Wait, and return what `take` does; from any event loop."""
        loop = asyncio.get_running_loop()
        with self._changed:
            waiter = None if self.is_ended else loop.create_future()
            if waiter is not None:
                self._waiting.append((loop, waiter))
        if waiter is not None:
            await waiter
        return self.take()


def wake(waiter: asyncio.Future[None]) -> None:
    """Let who waits go on, unless that was cancelled."""
    if not waiter.done():
        waiter.set_result(None)


def store_error(error: BaseException, what: str, advice: str) -> StoreError:
    """Return the error that tells a user what a store has raised, with its number if it has one."""
    number = error.errno if isinstance(error, OSError) else None
    text = f"{what}: {_in_words(error)}; {advice}"
    made = StoreError(text) if number is None else StoreError(number, text)
    made.__cause__ = error.with_traceback(None)
    return made


def _in_words(error: BaseException) -> str:
    """Return what an error says, with its type where that is not the system's own."""
    if isinstance(error, OSError):
        # An OSError without a number, but with other arguments, calls itself "[Errno None]".
        text = str(error) if error.errno is not None else error.strerror or str(error)
        return text or type(error).__name__
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
