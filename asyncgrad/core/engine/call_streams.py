"""CallStream: a stream of a device whose work is calls of functions; the calls on one stream run one after the other.

The order of a call is fixed when it begins to wait. A call never waits for one that waits for it, so there is no
deadlock: a call nested in another one is a part of that, and waits neither for it nor for the calls that wait for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Iterable
from contextvars import Context, ContextVar, Token, copy_context
from typing import TYPE_CHECKING, Any, final

from ...errors import DeviceError
from ..settings.process import hold_in_forks
from .dependents import hold, let_go
from .device_limit import begin_wait, end_wait, force_end_wait, lend_to_dependencies
from .loops import loop_is_running
from .streams import DONE, Event, Stream, StreamOwner

if TYPE_CHECKING:
    from .device_limit import Permit

__all__ = ["CallStream"]

#: Guards the order of calls on all devices, since an event may lead from one device to another.
_MUTEX = hold_in_forks(threading.RLock())


@final
class _StreamWork:
    """A call on a stream, or a wait for calls.

    Args:
        enclosing: the calls that it is nested in.
        wanted: the calls and waits that it should come after.
    """

    __slots__ = ("_context", "_enclosing", "_followers", "_is_abandoned", "_nested", "_ready", "has_ended", "waits_for")

    def __init__(self, enclosing: Iterable[_StreamWork], wanted: Iterable[_StreamWork]) -> None:
        self.has_ended = False
        self._is_abandoned = False
        self._ready: concurrent.futures.Future[None] | None = None
        #: That of who waits for its turn, while they do.
        self._context: Context | None = None
        self._followers: list[_StreamWork] = []
        #: The calls and waits nested in it that have not ended.
        self._nested: set[_StreamWork] = set()
        self._enclosing = {one for one in enclosing if not one.has_ended}
        self.waits_for = {one for one in wanted if not one.has_ended and not one._needs(self._enclosing)}
        for one in self.waits_for:
            one._followers.append(self)
        for one in self._enclosing:
            one._nested.add(self)

    def _needs(self, others: set[_StreamWork]) -> bool:
        """Tell whether it is one of `others`, or cannot end before one of them has."""
        stack, seen = [self], {self}
        while stack and others:
            one = stack.pop()
            if one in others:
                return True
            for further in (*one.waits_for, *one._nested):
                if further not in seen:
                    seen.add(further)
                    stack.append(further)
        return False

    def ready(self) -> concurrent.futures.Future[None] | None:
        """Return a future that resolves when nothing is left to wait for; None if nothing is now."""
        with _MUTEX:
            if not self.waits_for:
                return None
            self._ready = concurrent.futures.Future()
            self._context = copy_context()
            # So that cancelling a task that awaits the future does not cancel the future.
            self._ready.set_running_or_notify_cancel()
            return self._ready

    @property
    def is_held(self) -> bool:
        """Whether others may wait for it."""
        return not self.has_ended

    def dependents(self) -> list[Context]:
        """Return the contexts of those that wait for it, directly or by one that waits for it; takes no lock."""
        found, stack, seen = [], [self], {self}
        while stack:
            for one in stack.pop()._followers.copy():
                if one not in seen:
                    seen.add(one)
                    stack.append(one)
                    if one._context is not None:
                        found.append(one._context)
        return found

    def end(self) -> None:
        """End it, and wake what waits for it alone; if abandoned in mid-wait, it ends once it could have begun."""
        resolved = []
        with _MUTEX:
            if self.waits_for:
                self._is_abandoned = True
                return
            ending = [self]
            while ending:
                one = ending.pop()
                one.has_ended = True
                for enclosing in one._enclosing:
                    enclosing._nested.discard(one)
                for follower in one._followers:
                    follower.waits_for.discard(one)
                    if follower.waits_for:
                        continue
                    if follower._is_abandoned:
                        ending.append(follower)
                    elif follower._ready is not None:
                        resolved.append(follower._ready)
                one._followers = []
                one._enclosing = set()
        for future in resolved:
            future.set_result(None)


#: The calls that this context is nested in, outermost first.
_ENCLOSING_CALLS: ContextVar[tuple[_StreamWork, ...]] = ContextVar("asyncgrad_calls_around", default=())


async def _until_ready(work: _StreamWork) -> Permit | None:
    """Wait for its turn; return the permit of the body that waits, which is to have it again."""
    ready = work.ready()
    if ready is None:
        return None
    permit = begin_wait()
    try:
        lend_to_dependencies()
        await asyncio.wrap_future(ready)
    except BaseException:
        force_end_wait(permit)
        raise
    finally:
        work._context = None
    return permit


async def _await_all(work: _StreamWork) -> None:
    try:
        permit = await _until_ready(work)
    finally:
        work.end()
    await end_wait(permit)


def _wait_for_all(wanted: Iterable[_StreamWork]) -> Awaitable[None]:
    """Wait for calls: return an awaitable if an event loop runs in this thread, and otherwise block."""
    with _MUTEX:
        work = _StreamWork(_ENCLOSING_CALLS.get(), wanted)
    if not work.waits_for:
        work.end()
        return DONE
    if loop_is_running():
        return _await_all(work)
    try:
        ready = work.ready()
        if ready is not None:
            ready.result()
    finally:
        work.end()
    return DONE


@final
class _Turn:
    """The turn of one call on a stream, as a context manager."""

    __slots__ = ("_stream", "_token", "_work")

    def __init__(self, stream: CallStream) -> None:
        self._stream = stream

    async def __aenter__(self) -> None:
        self._work = work = self._stream._enter()
        try:
            permit = await _until_ready(work)
            # Before the permit is there again, which those who wait for this call may have to lend.
            hold(work)
            await end_wait(permit)
        except BaseException:
            let_go(work)
            work.end()
            raise
        self._token: Token[Any] = _ENCLOSING_CALLS.set(
            (*(one for one in _ENCLOSING_CALLS.get() if not one.has_ended), work)
        )

    async def __aexit__(self, *_: object) -> None:
        _ENCLOSING_CALLS.reset(self._token)
        let_go(self._work)
        self._work.end()


@final
class CallEvent(Event):
    """An event of a CallStream: the calls on it that had not ended when it was recorded."""

    __slots__ = ("works",)

    def __init__(self, stream: Stream, works: frozenset[_StreamWork]) -> None:
        super().__init__(stream)
        self.works: frozenset[_StreamWork] = works

    def query(self) -> bool:
        """Tell whether all those calls have ended."""
        return all(work.has_ended for work in self.works)

    def synchronize(self) -> Awaitable[None]:
        """Wait until all those calls have ended."""
        return _wait_for_all(self.works)


@final
class CallStream(Stream):
    """A stream of calls, made by `device.call` where it is current; an async call holds it until it has returned.

    The default stream of a device is an exception: its calls are unordered, and overlap where they suspend. Its events
    stand for all of them.

    Example:
        >>> import asyncio, asyncgrad as ag
        >>> device = ag.device("cpu")
        >>> async def step(name):
        ...     print("begin", name)
        ...     await asyncio.sleep(0)
        ...     print("end", name)
        >>> async def main():
        ...     with device.stream():
        ...         await asyncio.gather(device.call(step, 1), device.call(step, 2))
        >>> ag.run(main())
        begin 1
        end 1
        begin 2
        end 2
    """

    __slots__ = ("_after", "_works")

    def __init__(self, device: StreamOwner, index: int) -> None:
        super().__init__(device, index)
        #: The calls on the stream that have not ended, except those that a later call waits for.
        self._works: set[_StreamWork] = set()
        #: The calls that later ones on this stream wait for because of `wait_event`.
        self._after: set[_StreamWork] = set()

    def _wanted(self) -> set[_StreamWork]:
        """Return the calls that the next one should wait for."""
        self._works = {work for work in self._works if not work.has_ended}
        self._after = {work for work in self._after if not work.has_ended}
        return self._works | self._after if self.index else self._after

    def _enter(self) -> _StreamWork:
        """Put a call on the stream."""
        with _MUTEX:
            work = _StreamWork(_ENCLOSING_CALLS.get(), self._wanted())
            # Other calls still have to wait for those that this one does not wait for, such as its enclosing calls.
            self._works = self._works - work.waits_for | {work}
            if self.index:
                self._after -= work.waits_for
            return work

    def record_event(self, *, enable_timing: bool = False) -> CallEvent:
        """Return an Event that stands for the calls on this stream that have not ended.

        Raises:
            DeviceError: `enable_timing` is true: calls of functions have no events with the time.
        """
        if enable_timing:
            raise DeviceError(f"'{self.device}' has no events with the time: only a device that has_timing has them")
        with _MUTEX:
            self._wanted()
            return CallEvent(self, frozenset(self._works | self._after))

    def wait_event(self, event: Event) -> None:
        """Let later calls on this stream begin only once `event` has completed.

        Raises:
            DeviceError: it is an event of another kind of device, and has not completed.
        """
        if isinstance(event, CallEvent):
            with _MUTEX:
                self._after |= event.works
        else:
            self.must_have_passed(event)

    def turn(self) -> _Turn:
        """Return an async context manager in which a call has its turn on the stream."""
        return _Turn(self)

    def is_free(self) -> bool:
        """Tell whether a node's body may run without waiting for a call."""
        with _MUTEX:
            work = _StreamWork(_ENCLOSING_CALLS.get(), self._wanted())
        if work.waits_for:
            work.end()
            return False
        work.end()
        return True

    async def until_free(self) -> None:
        """Wait until the earlier calls have ended; suspends."""
        with _MUTEX:
            work = _StreamWork(_ENCLOSING_CALLS.get(), self._wanted())
        await _await_all(work)
