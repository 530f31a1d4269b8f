"""How many bodies are under way on a device that takes no more than `max_in_flight` at a time, and who is next.

The most urgent that waits is next, whichever loop or thread it comes from. A body that calls a backward gives its
permit up until that has ended: it may be that backward's nodes that need the permit, and so no nesting can deadlock.
"""

from __future__ import annotations

import itertools
import os
import threading
from contextvars import ContextVar
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, final
from weakref import WeakKeyDictionary

from ..context import BLOCKING
from ..errors import BlockingError, DeviceError
from .loops import running_loop

if TYPE_CHECKING:
    from .device import Device

__all__ = ["PERMIT", "Permit", "acquire_permit"]

#: Guards the fields of all limits; never held over anything that waits. One thread may take it twice: the garbage
#: collector may close an abandoned body, which gives its permit back, at any line.
_MUTEX = threading.RLock()


@final
class _PermitWaiter:
    """Somebody who waits for a permit on a loop."""

    __slots__ = ("_future", "_loop", "has_permit")

    def __init__(self) -> None:
        self._loop = running_loop()
        self._future = self._loop.create_future()
        self.has_permit = False

    def offer(self) -> bool:
        """Give it the permit that has become free; False where nobody takes it."""
        self.has_permit = True
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # The loop is closed.
            self.has_permit = False
        return self.has_permit

    def _wake(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        """Wait for the permit."""
        await self._future


@final
class _Limit:
    """The permits of one device."""

    __slots__ = ("_next_arrival", "_taken", "_waiting", "most")

    def __init__(self) -> None:
        #: How many there are: what the device has said last.
        self.most = 0
        self._taken = 0
        self._next_arrival = itertools.count().__next__
        self._waiting: list[tuple[tuple[int, int], int, _PermitWaiter]] = []

    def force(self) -> None:
        """Take a permit even where none is free."""
        with _MUTEX:
            self._taken += 1

    async def take(self, priority: tuple[int, int]) -> None:
        """Take a permit when it is the caller's turn; suspends where none is free.

        Raises:
            BlockingError: none is free, and the caller blocks this thread's event loop.
        """
        with _MUTEX:
            if self._taken < self.most:
                self._taken += 1
                return
            if BLOCKING.get():
                raise BlockingError(
                    f"a body would have to wait for one of the {self.most} that its device takes at a time, in a "
                    "blocking backward, and an event loop is running in this thread: await ag.backward(...) in place "
                    "of asyncgrad.sync"
                )
            waiter = _PermitWaiter()
            entry = (priority, self._next_arrival(), waiter)
            heappush(self._waiting, entry)
        try:
            await waiter.wait()
        except BaseException:
            with _MUTEX:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                    heapify(self._waiting)
            if waiter.has_permit:
                self.give()
            raise

    def give(self) -> None:
        """Give a permit back, to the one that is next."""
        with _MUTEX:
            self._taken -= 1
            while self._waiting and self._taken < self.most:
                if heappop(self._waiting)[2].offer():
                    self._taken += 1


@final
class Permit:
    """The permit that a body has while it is under way on a device."""

    __slots__ = ("_has_ended", "_is_held", "_lent", "_limit", "_priority")

    def __init__(self, limit: _Limit, priority: tuple[int, int]) -> None:
        self._limit = limit
        self._priority = priority
        self._is_held = True
        self._has_ended = False
        #: To how many backward calls of the body, which run side by side.
        self._lent = 0

    def end(self) -> None:
        """Give it back, at the end of the body."""
        with _MUTEX:
            self._has_ended = True
        self._give()

    def lend(self) -> None:
        """Do without it while a backward runs that the body has called."""
        with _MUTEX:
            self._lent += 1
        self._give()

    async def acquire_again(self) -> None:
        """Go on with a permit after that backward; suspends until there is one."""
        if self._is_wanted():
            await self._limit.take(self._priority)
            self._hold()

    def force_again(self) -> None:
        """Go on after a backward where nobody may wait: until another body ends there may be one too many."""
        if self._is_wanted():
            self._limit.force()
            self._hold()

    def _is_wanted(self) -> bool:
        with _MUTEX:
            self._lent -= 1
            # What the body has started may outlive it.
            return not (self._lent or self._has_ended)

    def _hold(self) -> None:
        with _MUTEX:
            self._is_held = True
            is_late = self._has_ended
        if is_late:
            self._give()

    def _give(self) -> None:
        with _MUTEX:
            held, self._is_held = self._is_held, False
        if held:
            self._limit.give()


#: The permit of the body that this context runs in, if its device has so many alone.
PERMIT: ContextVar[Permit | None] = ContextVar("asyncgrad_permit", default=None)

_limits: WeakKeyDictionary[Device, _Limit] = WeakKeyDictionary()

if hasattr(os, "register_at_fork"):
    # The bodies that were under way are the parent's.
    os.register_at_fork(after_in_child=_limits.clear)


async def acquire_permit(device: Device, priority: tuple[int, int]) -> Permit:
    """Return a permit on a device for the body that this context is about to run; suspends until there is one.

    Args:
        device: one that has a limit.
        priority: the lowest is next.

    Raises:
        DeviceError: its limit is no number of bodies.
    """
    most = device.max_in_flight
    if not isinstance(most, int) or most < 1:
        raise DeviceError(f"max_in_flight of '{device}' is {most!r}: it must be 1 or more, or None for any number")
    with _MUTEX:
        limit = _limits.get(device)
        if limit is None:
            limit = _limits[device] = _Limit()
        limit.most = most
    await limit.take(priority)
    permit = Permit(limit, priority)
    PERMIT.set(permit)
    return permit
