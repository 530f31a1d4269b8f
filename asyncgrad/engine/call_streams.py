"""CallStream: the streams of a device whose work is calls of functions; calls on one run one after the other.

The order is settled where a call begins to wait, and nothing is ever waited for that waits itself for the one that
asks: what runs inside of a call is a part of it, and waits neither for that nor for what waits for that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Iterable
from contextvars import ContextVar, Token
from typing import Any, final

from .loops import loop_is_running
from .streams import DONE, Event, Stream, StreamOwner

__all__ = ["CallStream"]

#: Guards all that calls wait for, on any device, for an event may lead from one to another.
_ORDER = threading.RLock()


@final
class _StreamWork:
    """A call, or somebody who waits for calls.

    Args:
        around: the calls that it runs inside of.
        wanted: what it is to come after.
    """

    __slots__ = ("_around", "_followers", "_inside", "_is_given_up", "_ready", "has_ended", "waits_for")

    def __init__(self, around: Iterable[_StreamWork], wanted: Iterable[_StreamWork]) -> None:
        self.has_ended = False
        self._is_given_up = False
        self._ready: concurrent.futures.Future[None] | None = None
        self._followers: list[_StreamWork] = []
        #: What runs inside of it and has not ended.
        self._inside: set[_StreamWork] = set()
        self._around = {one for one in around if not one.has_ended}
        self.waits_for = {one for one in wanted if not one.has_ended and not one._needs(self._around)}
        for one in self.waits_for:
            one._followers.append(self)
        for one in self._around:
            one._inside.add(self)

    def _needs(self, others: set[_StreamWork]) -> bool:
        """Tell whether it is one of `others`, or does not end before one of them has."""
        stack, seen = [self], {self}
        while stack and others:
            one = stack.pop()
            if one in others:
                return True
            for further in (*one.waits_for, *one._inside):
                if further not in seen:
                    seen.add(further)
                    stack.append(further)
        return False

    def ready(self) -> concurrent.futures.Future[None] | None:
        """Return the future that resolves when nothing is left to wait for; None where that is so already."""
        with _ORDER:
            if not self.waits_for:
                return None
            self._ready = concurrent.futures.Future()
            # So that nobody who is cancelled while awaiting it cancels it.
            self._ready.set_running_or_notify_cancel()
            return self._ready

    def end(self) -> None:
        """Let those go on that wait for it; given up in mid-wait, it ends only once it could have begun."""
        resolved = []
        with _ORDER:
            if self.waits_for:
                self._is_given_up = True
                return
            ending = [self]
            while ending:
                one = ending.pop()
                one.has_ended = True
                for around in one._around:
                    around._inside.discard(one)
                for follower in one._followers:
                    follower.waits_for.discard(one)
                    if follower.waits_for:
                        continue
                    if follower._is_given_up:
                        ending.append(follower)
                    elif follower._ready is not None:
                        resolved.append(follower._ready)
                one._followers = []
                one._around = set()
        for future in resolved:
            future.set_result(None)


#: The calls that this context runs inside of, outermost first.
_AROUND: ContextVar[tuple[_StreamWork, ...]] = ContextVar("asyncgrad_calls_around", default=())


async def _until_ready(work: _StreamWork) -> None:
    ready = work.ready()
    if ready is not None:
        await asyncio.wrap_future(ready)


async def _await_all(work: _StreamWork) -> None:
    try:
        await _until_ready(work)
    finally:
        work.end()


def _wait_for_all(wanted: Iterable[_StreamWork]) -> Awaitable[None]:
    """Wait for calls: on the running loop by an awaitable, elsewhere by standing still."""
    with _ORDER:
        work = _StreamWork(_AROUND.get(), wanted)
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
    """One call's turn on a stream."""

    __slots__ = ("_stream", "_token", "_work")

    def __init__(self, stream: CallStream) -> None:
        self._stream = stream

    async def __aenter__(self) -> None:
        self._work = work = self._stream._enter()
        try:
            await _until_ready(work)
        except BaseException:
            work.end()
            raise
        self._token: Token[Any] = _AROUND.set((*(one for one in _AROUND.get() if not one.has_ended), work))

    async def __aexit__(self, *_: object) -> None:
        _AROUND.reset(self._token)
        self._work.end()


@final
class CallEvent(Event):
    """An event of a CallStream: the calls that had not ended when it was recorded."""

    __slots__ = ("works",)

    def __init__(self, stream: Stream, works: frozenset[_StreamWork]) -> None:
        super().__init__(stream)
        self.works = works

    def query(self) -> bool:
        """Tell whether all those calls have ended."""
        return all(work.has_ended for work in self.works)

    def synchronize(self) -> Awaitable[None]:
        """Wait until all those calls have ended."""
        return _wait_for_all(self.works)


@final
class CallStream(Stream):
    """A stream of calls: `device.call` where it is current. An async function holds it until it has returned.

    The device's default stream alone orders nothing, so that calls which nobody has put on a stream overlap where they
    suspend; its events stand for all of them.

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
        #: What has been put on the stream and has not ended, as far as a later one does not wait for it.
        self._works: set[_StreamWork] = set()
        #: What it is to wait for by events.
        self._after: set[_StreamWork] = set()

    def _wanted(self) -> set[_StreamWork]:
        """Return what the next call waits for."""
        self._works = {work for work in self._works if not work.has_ended}
        self._after = {work for work in self._after if not work.has_ended}
        return self._works | self._after if self.index else self._after

    def _enter(self) -> _StreamWork:
        """Put a call on the stream."""
        with _ORDER:
            work = _StreamWork(_AROUND.get(), self._wanted())
            # Those that it does not wait for, such as the calls around it, are still to be waited for by others.
            self._works = self._works - work.waits_for | {work}
            if self.index:
                self._after -= work.waits_for
            return work

    def record_event(self) -> CallEvent:
        """Return an Event that stands for the calls on this stream that have not ended."""
        with _ORDER:
            self._wanted()
            return CallEvent(self, frozenset(self._works | self._after))

    def wait_event(self, event: Event) -> None:
        """Let later calls on this stream begin only once `event` has come to pass.

        Raises:
            DeviceError: it is an event of another kind of device, and has not come to pass.
        """
        if isinstance(event, CallEvent):
            with _ORDER:
                self._after |= event.works
        else:
            self.must_have_passed(event)

    def turn(self) -> _Turn:
        """Return a block in which a call has its turn on the stream."""
        return _Turn(self)

    def is_free(self) -> bool:
        """Tell whether a node's body need not wait for a call."""
        with _ORDER:
            work = _StreamWork(_AROUND.get(), self._wanted())
        if work.waits_for:
            work.end()
            return False
        work.end()
        return True

    async def until_free(self) -> None:
        """Wait until the calls before have ended; suspends."""
        with _ORDER:
            work = _StreamWork(_AROUND.get(), self._wanted())
        await _await_all(work)
