"""Permits: no more than `max_in_flight` bodies run on a device at a time, and the most urgent waiter is next.

Waiters may come from any loop or thread. A body that calls a backward lends its permit until that backward has ended,
since nodes of the inner backward may need it; so nesting never deadlocks. One that asyncgrad makes wait, for a place of
a limit or for a request, keeps its permit, unless a body wants one that it waits for, directly or through others: that
one borrows it, and gives it back at its end, since the device is to have no more bodies in progress than it allows.
Either takes a permit again before it goes on.
"""

from __future__ import annotations

import itertools
import threading
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol, TypeVar, final
from weakref import WeakKeyDictionary, ref

from ...errors import BlockingError, DeviceError
from ..settings.context import BLOCKING, CURRENT_NODE
from ..settings.process import call_in_forked_children, hold_in_forks
from .await_stack import NAMED_WAITS
from .dependents import dependents_of, has_dependents
from .loops import OneShotEvent, running_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..graph.node import Node

__all__ = [
    "PERMIT",
    "Permit",
    "acquire_permit",
    "begin_wait",
    "end_wait",
    "force_end_wait",
    "lend_to_dependencies",
    "wait_with_loan",
]

T = TypeVar("T")

#: Guards the fields of all semaphores and permits; never held while anything waits. Reentrant: the garbage collector
#: may close an abandoned body, which releases its permit, at any line.
_MUTEX = hold_in_forks(threading.RLock())


class LimitedDevice(Protocol):
    """The part of a Device that permits need."""

    @property
    def max_in_flight(self) -> int | None:
        """How many bodies may be in progress at a time."""


@final
class _PermitWaiter:
    """A body that waits for a permit, on the running loop.

    The semaphore keeps neither the event that wakes it nor its context, and so no task of a loop that is dropped: the
    bodies with permits there, which they release as they are collected, may be found from them.

    Args:
        granted: what the body awaits.
        context: that of the body, which those who wait for it are found by.
    """

    __slots__ = ("_context", "_granted", "has_permit", "lender")

    def __init__(self, granted: OneShotEvent, context: Context) -> None:
        self._granted, self._context = ref(granted), ref(context)
        self.has_permit = False
        #: Whose permit it has got; None for one of the device that was free.
        self.lender: Permit | None = None

    @property
    def context(self) -> Context | None:
        """The context of the body; None once it has been collected."""
        return self._context()

    def offer(self) -> bool:
        """Grant a permit; return False where the waiter's loop is closed, or it has been collected."""
        granted = self._granted()
        if granted is None:
            return False
        self.has_permit = True
        if not granted.set_threadsafe():
            self.has_permit = False
        return self.has_permit


@final
class _PrioritySemaphore:
    """The permits of one device; the waiter with the lowest priority value is next.

    Args:
        device: what descriptions call the device.
    """

    __slots__ = ("_dependencies", "_in_use", "_next_arrival", "_waiting", "device", "lendable", "limit")

    def __init__(self, device: str) -> None:
        self.device = device
        self.reset()

    def reset(self) -> None:
        """Begin anew: in a forked child nobody of its parent waits, or gives a permit back."""
        #: How many permits there are: `max_in_flight` as the device gave it last.
        self.limit: int = 0
        #: How many are held; one that is lent is held by the borrower.
        self._in_use = 0
        self._next_arrival = itertools.count().__next__
        self._waiting: list[tuple[tuple[int, int], int, _PermitWaiter]] = []
        #: Of those, the ones for whom others may wait, in no order.
        self._dependencies: dict[_PermitWaiter, None] = {}
        #: The permits held by bodies that asyncgrad makes wait.
        self.lendable: dict[Permit, None] = {}

    def force_acquire(self) -> None:
        """Take a permit even if none is free."""
        with _MUTEX:
            self._in_use += 1

    async def acquire(self, priority: tuple[int, int]) -> Permit | None:
        """Take a permit; suspends until it is the caller's turn. Return whose it is; None for one that was free.

        Raises:
            BlockingError: none is free, and the caller blocks this thread's event loop.
        """
        with _MUTEX:
            if self._in_use < self.limit:
                self._in_use += 1
                return None
            context = copy_context()
            if (lender := self._lender_for(context)) is not None:
                lender.pass_on()
                return lender
            if BLOCKING.get():
                raise BlockingError(
                    f"a body would have to wait in a blocking backward, since its device runs {self.limit} at a time, "
                    "and an event loop is running in this thread: await ag.backward(...) in place of asyncgrad.sync"
                )
            granted = OneShotEvent(running_loop())
            waiter = _PermitWaiter(granted, context)
            entry = (priority, self._next_arrival(), waiter)
            heappush(self._waiting, entry)
            node = context.get(CURRENT_NODE)
            if has_dependents(context) or (node is not None and node.meta is not None and node.meta.contention):
                self._dependencies[waiter] = None
        try:
            await granted
        except BaseException:
            with _MUTEX:
                if entry in self._waiting:
                    self._remove(entry)
            if waiter.has_permit:
                self.release(waiter.lender)
            raise
        return waiter.lender

    def release(self, lender: Permit | None = None) -> None:
        """Return a permit: to the body that has lent it, where that waits still, and otherwise to the next waiter."""
        with _MUTEX:
            while lender is not None:
                if lender.take_back():
                    self.serve_dependencies()
                    return
                lender = lender.lender_behind()
            self._in_use -= 1
            while self._waiting and self._in_use < self.limit:
                entry = self._waiting[0]
                self._remove(entry)
                if entry[2].offer():
                    self._in_use += 1

    def note_contention(self, node: Node) -> None:
        """Note that a backward waits for the lock of a node, whose body may wait for a permit; holds the mutex."""
        for _, _, waiter in self._waiting:
            if (context := waiter.context) is not None and context.get(CURRENT_NODE) is node:
                self._dependencies[waiter] = None

    def serve_dependencies(self) -> None:
        """Have those who wait borrow permits from bodies that wait for them; the caller holds the mutex."""
        if not (self._dependencies and self.lendable):
            return
        for entry in sorted(entry for entry in self._waiting if entry[2] in self._dependencies):
            waiter = entry[2]
            if waiter not in self._dependencies or (lender := self._lender_for(waiter.context)) is None:
                continue
            self._remove(entry)
            lender.pass_on()
            waiter.lender = lender
            if not waiter.offer():
                self.release(lender)

    def _lender_for(self, context: Context | None) -> Permit | None:
        """Return a permit held by a body that cannot go on before that in a context has; None where there is none."""
        if self.lendable and context is not None:
            for dependent in dependents_of(context):
                permit = dependent.get(PERMIT)
                if permit is not None and permit in self.lendable:
                    return permit
        return None

    def _remove(self, entry: tuple[tuple[int, int], int, _PermitWaiter]) -> None:
        self._dependencies.pop(entry[2], None)
        if self._waiting[0] is entry:
            heappop(self._waiting)
        else:
            self._waiting.remove(entry)
            heapify(self._waiting)


@final
class Permit:
    """The permit that a body holds while it runs on a device.

    Args:
        semaphore: that of the device.
        priority: the lowest is next.
        lender: the permit of the body that waits for this one, if it has lent it.
    """

    __slots__ = ("_has_ended", "_is_awaited", "_is_held", "_lender", "_lent", "_priority", "_semaphore", "_waits")

    def __init__(self, semaphore: _PrioritySemaphore, priority: tuple[int, int], lender: Permit | None) -> None:
        self._semaphore = semaphore
        self._priority = priority
        self._lender = lender
        self._is_held = True
        #: Whether the body waits for a permit again. Of several tasks of the body one waits: it needs one permit.
        self._is_awaited = False
        self._has_ended = False
        #: How many backward passes that the body called are running; they may run side by side.
        self._lent = 0
        #: How many tasks of the body asyncgrad makes wait for what others hold.
        self._waits = 0

    def end(self) -> None:
        """Release the permit at the end of the body."""
        with _MUTEX:
            self._has_ended = True
        self._release()

    # --- for a backward that the body calls ---------------------------------------------------------

    def lend(self) -> None:
        """Release the permit while a backward runs that the body has called."""
        with _MUTEX:
            self._lent += 1
        self._release()

    async def reacquire(self) -> None:
        """Take a permit again after that backward; suspends until there is one.

        If the wait is cancelled, the permit is taken all the same: the body may catch that, a timeout say, and go on.
        """
        if self._end_loan():
            await self._take_again()

    def force_reacquire(self) -> None:
        """Take a permit again without waiting, after which one body too many may run until another one ends."""
        if self._end_loan():
            self._force_take_again()

    # --- while asyncgrad makes the body wait --------------------------------------------------------

    def begin_wait(self) -> None:
        """Have those that the body waits for borrow the permit."""
        with _MUTEX:
            self._waits += 1
            if self._is_held:
                self._semaphore.lendable[self] = None

    async def end_wait(self) -> None:
        """Have the permit again, as `reacquire` does, before the body goes on."""
        if self._end_wait():
            await self._take_again()

    def force_end_wait(self) -> None:
        """Take the permit again without waiting, as `force_reacquire` does."""
        if self._end_wait():
            self._force_take_again()

    def pass_on(self) -> None:
        """Let another body have the permit; the caller holds the mutex."""
        self._is_held = False
        self._semaphore.lendable.pop(self, None)

    def take_back(self) -> bool:
        """Hold the permit again that a body has given back, if this one waits still; the caller holds the mutex."""
        if self._has_ended or self._is_awaited or self._lent or not self._waits:
            return False
        self._is_held = True
        self._semaphore.lendable[self] = None
        return True

    def lender_behind(self) -> Permit | None:
        """Return whose permit it is that a body has given back, where this one has ended with it lent."""
        return self._lender if self._has_ended else None

    def __str__(self) -> str:
        """What a body waits for that has lent it."""
        return f"a permit of device '{self._semaphore.device}'"

    async def _take_again(self) -> None:
        lender: Permit | None = None
        try:
            lender = await self._semaphore.acquire(self._priority)
        except BaseException:
            self._semaphore.force_acquire()
            raise
        finally:
            self._hold(lender)

    def _force_take_again(self) -> None:
        self._semaphore.force_acquire()
        self._hold(None)

    def _end_loan(self) -> bool:
        """Note that a backward has ended; tell whether the caller is to take a permit for the body now."""
        with _MUTEX:
            self._lent -= 1
            return self._begins_to_take()

    def _end_wait(self) -> bool:
        """Note that a task of the body goes on; tell whether the caller is to take a permit for the body now."""
        with _MUTEX:
            self._waits -= 1
            if not self._is_held:
                return self._begins_to_take()
            if not self._waits:
                self._semaphore.lendable.pop(self, None)
            return False

    def _begins_to_take(self) -> bool:
        # A task that the body has started may outlive the body.
        if self._lent or self._has_ended or self._is_awaited:
            return False
        self._is_awaited = True
        return True

    def _hold(self, lender: Permit | None) -> None:
        """Keep the permit that has been taken, unless the body has ended, or has called a backward, meanwhile."""
        with _MUTEX:
            self._is_awaited = False
            self._is_held = True
            self._lender = lender
            if self._waits:
                self._semaphore.lendable[self] = None
                self._semaphore.serve_dependencies()
            is_late = bool(self._has_ended or self._lent)
        if is_late:
            self._release()

    def _release(self) -> None:
        with _MUTEX:
            held, lender = self._is_held, self._lender
            if held:
                self.pass_on()
                self._lender = None
        if held:
            self._semaphore.release(lender)


NAMED_WAITS[Permit._take_again.__code__] = "self"

#: The permit of the body that this context runs in; None where no device has a limit, and in a request.
PERMIT: ContextVar[Permit | None] = ContextVar("asyncgrad_permit", default=None)


def begin_wait() -> Permit | None:
    """Have the permit of this context's body lent to those that it is about to wait for; return it, if there is one.

    One of `end_wait` and `force_end_wait` comes after each.
    """
    permit = PERMIT.get()
    if permit is not None:
        permit.begin_wait()
    return permit


async def end_wait(permit: Permit | None) -> None:
    """Have the permit again before the body goes on; suspends until it is there."""
    if permit is not None:
        await permit.end_wait()


def force_end_wait(permit: Permit | None) -> None:
    """Take the permit again without waiting: after an error, or where the coroutine is being closed."""
    if permit is not None:
        permit.force_end_wait()


async def wait_with_loan(awaited: Awaitable[T]) -> T:
    """Await what others bring about, with the permit of this context's body lent to those."""
    permit = begin_wait()
    try:
        lend_to_dependencies()
        result = await awaited
    except BaseException:
        force_end_wait(permit)
        raise
    await end_wait(permit)
    return result


_semaphores: WeakKeyDictionary[LimitedDevice, _PrioritySemaphore] = WeakKeyDictionary()


def _forget_all() -> None:
    # The bodies that hold permits run in the parent alone; a child that begins within one has that permit's semaphore.
    for semaphore in list(_semaphores.values()):
        semaphore.reset()
    _semaphores.clear()


call_in_forked_children(_forget_all)


def lend_to_dependencies(node: Node | None = None) -> None:
    """Have bodies borrow what they can now that somebody waits, for the lock of `node` or for something else."""
    if not _semaphores:
        return
    with _MUTEX:
        for semaphore in list(_semaphores.values()):
            if semaphore.lendable:
                if node is not None:
                    semaphore.note_contention(node)
                semaphore.serve_dependencies()


async def acquire_permit(device: LimitedDevice, priority: tuple[int, int]) -> Permit:
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
    permit = Permit(semaphore, priority, await semaphore.acquire(priority))
    PERMIT.set(permit)
    return permit
