"""Permits: no more than `max_in_flight` bodies run on a device at a time, and the most urgent waiter is next.

Waiters may come from any loop or thread. A body that calls a backward lends its permit until that backward has ended,
since nodes of the inner backward may need it; so nesting never deadlocks. One that waits for a request lends it as soon
as the request calls a backward, or has to wait for other requests, until the body goes on.
"""

from __future__ import annotations

import itertools
import threading
from contextvars import ContextVar
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol, final
from weakref import WeakKeyDictionary

from ...errors import BlockingError, DeviceError
from ..settings.context import BLOCKING
from ..settings.process import call_in_forked_children, hold_in_forks
from .await_stack import NAMED_WAITS
from .loops import OneShotEvent, running_loop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .device import Device

__all__ = ["PERMIT", "Loan", "Permit", "PermitsOfCallers", "acquire_permit", "lend_for_request", "permit_around"]

#: Guards the fields of all semaphores; never held while anything waits. Reentrant: the garbage collector may close an
#: abandoned body, which releases its permit, at any line.
_MUTEX = hold_in_forks(threading.RLock())


@final
class _PermitWaiter:
    """A body that waits for a permit, on the running loop."""

    __slots__ = ("granted", "has_permit")

    def __init__(self) -> None:
        self.granted = OneShotEvent(running_loop())
        self.has_permit = False

    def offer(self) -> bool:
        """Grant a permit that has become free; return False where the waiter's loop is closed."""
        self.has_permit = True
        if not self.granted.set_threadsafe():
            self.has_permit = False
        return self.has_permit


@final
class _PrioritySemaphore:
    """The permits of one device; the waiter with the lowest priority value is next.

    Args:
        device: what descriptions call the device.
    """

    __slots__ = ("_in_use", "_next_arrival", "_waiting", "device", "limit")

    def __init__(self, device: str) -> None:
        self.device = device
        #: How many permits there are: `max_in_flight` as the device gave it last.
        self.limit: int = 0
        self._in_use = 0
        self._next_arrival = itertools.count().__next__
        self._waiting: list[tuple[tuple[int, int], int, _PermitWaiter]] = []

    def force_acquire(self) -> None:
        """Take a permit even if none is free."""
        with _MUTEX:
            self._in_use += 1

    async def acquire(self, priority: tuple[int, int]) -> None:
        """Take a permit; suspends until it is the caller's turn.

        Raises:
            BlockingError: none is free, and the caller blocks this thread's event loop.
        """
        with _MUTEX:
            if self._in_use < self.limit:
                self._in_use += 1
                return
            if BLOCKING.get():
                raise BlockingError(
                    f"a body would have to wait in a blocking backward, since its device runs {self.limit} at a time, "
                    "and an event loop is running in this thread: await ag.backward(...) in place of asyncgrad.sync"
                )
            waiter = _PermitWaiter()
            entry = (priority, self._next_arrival(), waiter)
            heappush(self._waiting, entry)
        try:
            await waiter.granted
        except BaseException:
            with _MUTEX:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                    heapify(self._waiting)
            if waiter.has_permit:
                self.release()
            raise

    def release(self) -> None:
        """Return a permit, and grant it to the next waiter."""
        with _MUTEX:
            self._in_use -= 1
            while self._waiting and self._in_use < self.limit:
                if heappop(self._waiting)[2].offer():
                    self._in_use += 1


@final
class Permit:
    """The permit that a body holds while it runs on a device."""

    __slots__ = ("_has_ended", "_is_awaited", "_is_held", "_lent", "_priority", "_semaphore")

    def __init__(self, semaphore: _PrioritySemaphore, priority: tuple[int, int]) -> None:
        self._semaphore = semaphore
        self._priority = priority
        self._is_held = True
        #: Whether the body waits for a permit again. Of several tasks of the body one waits: it needs one permit.
        self._is_awaited = False
        self._has_ended = False
        #: How many backward passes that the body called are running; they may run side by side.
        self._lent = 0

    def end(self) -> None:
        """Release the permit at the end of the body."""
        with _MUTEX:
            self._has_ended = True
        self._release()

    def lend(self) -> None:
        """Release the permit while a backward runs that the body has called."""
        with _MUTEX:
            self._lent += 1
        self._release()

    async def reacquire(self) -> None:
        """Take a permit again after that backward; suspends until there is one.

        If the wait is cancelled, the permit is taken all the same: the body may catch that, a timeout say, and go on.
        """
        if not self._end_loan():
            return
        try:
            await self._semaphore.acquire(self._priority)
        except BaseException:
            self._semaphore.force_acquire()
            raise
        finally:
            self._hold()

    def force_reacquire(self) -> None:
        """Take a permit again without waiting, after which one body too many may run until another one ends."""
        if self._end_loan():
            self._semaphore.force_acquire()
            self._hold()

    def __str__(self) -> str:
        """What a body waits for that has lent it."""
        return f"a permit of device '{self._semaphore.device}'"

    def _end_loan(self) -> bool:
        """Note that a backward has ended; tell whether the caller is to take a permit for the body now."""
        with _MUTEX:
            self._lent -= 1
            # A task that the body has started may outlive the body.
            if self._lent or self._has_ended or self._is_awaited:
                return False
            self._is_awaited = True
            return True

    def _hold(self) -> None:
        """Keep the permit that has been taken, unless the body has ended, or has called a backward, meanwhile."""
        with _MUTEX:
            self._is_awaited = False
            self._is_held = True
            is_late = bool(self._has_ended or self._lent)
        if is_late:
            self._release()

    def _release(self) -> None:
        with _MUTEX:
            held, self._is_held = self._is_held, False
        if held:
            self._semaphore.release()


NAMED_WAITS[Permit.reacquire.__code__] = "self"


@final
class Loan:
    """The permit of a body that waits for a request, which lends it once it calls a backward."""

    __slots__ = ("_has_ended", "_is_lent", "_permit")

    def __init__(self, permit: Permit | PermitsOfCallers) -> None:
        self._permit = permit
        self._is_lent = self._has_ended = False

    def begin(self) -> None:
        """Lend the permit, if it is not lent, and the body waits; from any thread."""
        with _MUTEX:
            if not (self._is_lent or self._has_ended):
                self._is_lent = True
                self._permit.lend()

    async def end(self) -> None:
        """Take the permit again, if it is lent, for the body that goes on; suspends until there is one."""
        if self._note_end():
            await self._permit.reacquire()

    def force_end(self) -> None:
        """Take the permit again without waiting, as `Permit.force_reacquire` does."""
        if self._note_end():
            self._permit.force_reacquire()

    def _note_end(self) -> bool:
        with _MUTEX:
            was_lent, self._is_lent, self._has_ended = self._is_lent, False, True
            return was_lent


@final
class PermitsOfCallers:
    """The permits of the bodies that wait for a request, in its context.

    Each body takes its own again when it goes on: a request that waited for all of them, one by one, might wait for
    another one that does.

    Args:
        callers: those who wait now, each with its Loan.
    """

    __slots__ = ("_callers",)

    def __init__(self, callers: Iterable[CallerWithLoan]) -> None:
        self._callers = callers

    def lend(self) -> None:
        """Lend all of them; from any thread."""
        # A list, since the loop of the request may change them meanwhile.
        for caller in list(self._callers):
            if caller.loan is not None:
                caller.loan.begin()

    async def reacquire(self) -> None:
        """Do nothing."""

    def force_reacquire(self) -> None:
        """Do nothing."""


class CallerWithLoan(Protocol):
    """Who waits for a request."""

    #: That of its permit; None where it has none.
    loan: Loan | None


#: The permit of the body that this context runs in, or those of the bodies that wait for the request that it runs in;
#: None where no device has a limit.
PERMIT: ContextVar[Permit | PermitsOfCallers | None] = ContextVar("asyncgrad_permit", default=None)


def lend_for_request() -> None:
    """Lend the permits of the bodies that wait for the request that this context runs in, if it runs in one."""
    permit = PERMIT.get()
    if isinstance(permit, PermitsOfCallers):
        permit.lend()


def permit_around(is_nested: bool) -> Permit | PermitsOfCallers | None:
    """Return what a backward lends while it runs, which a body has called if it is nested; None for nothing."""
    permit = PERMIT.get()
    return permit if is_nested or isinstance(permit, PermitsOfCallers) else None


_semaphores: WeakKeyDictionary[Device, _PrioritySemaphore] = WeakKeyDictionary()

# The bodies that hold permits run in the parent alone.
call_in_forked_children(_semaphores.clear)


async def acquire_permit(device: Device, priority: tuple[int, int]) -> Permit:
    """Return a permit on a device for the body that this context is about to run; suspends until there is one.

    Args:
        device: a device with a limit.
        priority: of all waiters the one with the lowest is next.

    Raises:
        DeviceError: `max_in_flight` is not a positive int.
    """
    limit = device.max_in_flight
    if not isinstance(limit, int) or limit < 1:
        raise DeviceError(f"max_in_flight of '{device}' is {limit!r}: it must be 1 or more, or None for any number")
    with _MUTEX:
        semaphore = _semaphores.get(device)
        if semaphore is None:
            semaphore = _semaphores[device] = _PrioritySemaphore(str(device))
        semaphore.limit = limit
    await semaphore.acquire(priority)
    permit = Permit(semaphore, priority)
    PERMIT.set(permit)
    return permit
