"""Connections of uvicorn whose clients have only so much time, and of which there are only so many."""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, final

from ..core.settings.arguments import whole_number
from ..core.settings.extras import missing_extra
from ..observing.live.application import ENDLESS
from .awaited import Awaited

__all__ = ["Limits", "protocol", "within_descriptors"]

#: File descriptors reserved for the listener, the loop, the files of the model, and Python itself.
RESERVED = 32

#: How many of those connections may have that have been aborted, and are closed in the loop's next iteration.
CLOSING = 8


def within_descriptors(most: int) -> int:
    """Return how many connections may be served at a time, so that as many again can be told to come later."""
    most = whole_number(most, "max_connections", 1)
    try:
        resource: Any = import_module("resource")
    except ModuleNotFoundError:
        return most
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return most
    return max(1, min(most, (int(descriptors) - RESERVED) // 2))


@final
@dataclass(frozen=True)
class Limits:
    """What connections may take: their number, and seconds."""

    #: How many are served at a time.
    most: int
    #: For the headers of a request.
    headers: float
    #: For the next part of a body.
    body: float
    #: For taking the next part of an answer.
    write: float
    #: After which one that waits for its client makes room for another.
    spare_after: float

    def refusal(self) -> dict[str, str]:
        """Return what one client too many is told."""
        return {"error": f"{self.most} clients are connected already, and no more may be"}


@final
class _CountingTransport:
    """A transport that counts what is written, and tells of each write."""

    __slots__ = ("_on_write", "_transport", "written")

    def __init__(self, transport: Any, on_write: Callable[[], None]) -> None:
        self._transport, self._on_write = transport, on_write
        self.written = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, as the transport does."""
        self.written += len(data)
        self._transport.write(data)
        self._on_write()


@final
class _Client:
    """Who is at the other end of a connection: what is awaited of it, and what becomes of it if it does not come.

    Args:
        connection: uvicorn's connection.
        transport: uvicorn writes to it what the client gets.
        limits: the limits.
    """

    def __init__(self, connection: Any, transport: Any, limits: Limits) -> None:
        self._connection, self._limits, self._states = connection, limits, import_module("h11")
        self.transport = _CountingTransport(transport, self._note_write)
        #: Whether it is told to come later.
        self.is_refused = False
        #: Whether it has sent a further request ahead of an answer, which is to be read in its turn.
        self.waits_for_turn = False
        self._is_aborted = False
        self._received = 0
        loop = self._loop = connection.loop
        #: When the last answer ended.
        self._idle_since: float = loop.time()
        #: Since when it has always sent a further request ahead of its answers; None where it has not.
        self._ahead_since: float | None = None
        self._headers = Awaited(loop, limits.headers, self._headers_moved, self._time_out_headers)
        self._body = Awaited(loop, limits.body, self._body_moved, self.abort)
        self._answer = Awaited(loop, limits.write, self._answer_moved, self.abort)

    def note_received(self, count: int) -> None:
        """Note that bytes have arrived, and been given to uvicorn."""
        self._received += count
        self.look()

    def wait_for_turn(self) -> None:
        """Read nothing more of what it has sent ahead of its answers, until `has_turn`."""
        self.waits_for_turn = True
        self._connection.flow.pause_reading()

    def has_turn(self) -> bool:
        """Go on reading; return whether the connection is open still."""
        self.waits_for_turn = False
        if self.transport.is_closing():
            return False
        self._connection.flow.resume_reading()
        return True

    def note_malformed(self) -> bool:
        """Note that what has arrived is no HTTP; return whether the client can be told: no answer has begun.

        An application at work is told that its client has gone: it would answer a second time.
        """
        cycle, our_state = self._connection.cycle, self._connection.conn.our_state
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        return our_state in (self._states.IDLE, self._states.SEND_RESPONSE)

    def end_what_is_endless(self) -> None:
        """End the connection if its answer ends with the client alone: a server that stops would wait for that.

        test_a_stop_does_not_wait_for_a_live_page
        """
        cycle = self._connection.cycle
        if cycle is not None and not cycle.response_complete and cycle.scope["state"].get(ENDLESS):
            self.transport.close()

    def note_answered(self) -> None:
        """Note that an answer has ended."""
        self._idle_since = self._loop.time()
        self.look()

    def look(self) -> None:
        """See what is awaited of it now."""
        self._headers.look()
        self._body.look()
        conn = self._connection.conn
        is_ahead = self.waits_for_turn or (conn.their_state is self._states.DONE and conn.trailing_data[0])
        if not is_ahead:
            self._ahead_since = None
        elif self._ahead_since is None:
            self._ahead_since = self._loop.time()

    def _note_write(self) -> None:
        self._answer.look()

    def forget(self) -> None:
        """Await nothing more: the connection has ended."""
        for one in (self._headers, self._body, self._answer):
            one.forget()

    def abort(self) -> None:
        """End the connection, whatever has not been taken."""
        self._is_aborted = True
        self.forget()
        self.transport.abort()

    def spare_since(self) -> float:
        """Return the loop's time since which it keeps the server waiting, or at work without a pause; or infinity."""
        times = [one.since() for one in (self._headers, self._body, self._answer)]
        times += [self._ahead_since, self._idle_since if self._is_between_requests() else None]
        return min((since for since in times if since is not None), default=math.inf)

    # --- what is awaited -------------------------------------------------------------------------

    def _is_between_requests(self) -> bool:
        cycle = self._connection.cycle
        is_answered = cycle is None or (cycle.response_complete and not self.waits_for_turn)
        return is_answered and self._connection.conn.their_state is self._states.IDLE

    def _headers_moved(self) -> float | None:
        # Between two requests uvicorn's keep-alive timeout counts. A byte now and then gains no time: nothing moves.
        is_begun = self._connection.cycle is None or self._connection.conn.trailing_data[0]
        return 0 if is_begun and self._is_between_requests() else None

    def _body_moved(self) -> float | None:
        connection = self._connection
        if connection.conn.their_state is not self._states.SEND_BODY:
            return None
        cycle = connection.cycle
        if cycle is None or cycle.response_complete:
            # Nobody reads the rest: it gets the time once.
            return 0
        # Full, or not asked for yet: the application is to read first.
        is_held = connection.flow.read_paused or cycle.waiting_for_100_continue
        return math.inf if is_held else self._received

    def _answer_moved(self) -> float | None:
        left: int = self.transport.get_write_buffer_size()
        return self.transport.written - left if left else None

    def _time_out_headers(self) -> None:
        if self.transport.is_closing():
            return
        # A client that has sent nothing at all gets no answer.
        if self._connection.conn.trailing_data[0]:
            text = f"the headers did not arrive within {self._limits.headers:g} s"
            body = json.dumps({"error": text}).encode()
            head = f"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
            self.transport.write(head.encode() + b"\r\nconnection: close\r\n\r\n" + body)
        self.transport.close()

    # --- how many there may be -------------------------------------------------------------------

    def admit(self, others: Iterable[_Client]) -> None:
        """Take a place among the others; where all are taken, that of the one that can be spared for longest.

        If there is none, this one is told to come later, or where as many are told already, disconnected.
        """
        others = [one for one in others if one is not self]
        most, left = self._limits.most, [one for one in others if not one._is_aborted]
        served = [one for one in left if not one.is_refused]
        has_room = len(served) < most
        has_replaced = not has_room and self._replace_one_of(served)
        self.is_refused = not (has_room or has_replaced)
        is_full = len(left) - has_replaced >= 2 * most and not self._replace_one_of(left)
        if is_full or len(others) >= 2 * most + CLOSING:
            self.abort()

    def _replace_one_of(self, clients: list[_Client]) -> bool:
        """Disconnect the one that can be spared for longest; return False where none can for long enough."""
        now = self._loop.time()
        since, longest = min(((one.spare_since(), nr) for nr, one in enumerate(clients)), default=(math.inf, 0))
        if now - since < self._limits.spare_after:
            return False
        clients[longest].abort()
        return True


@final
class _Turns:
    """The further requests of those who ask ahead of their answers: one is read in each iteration of the loop.

    Read at once, one of each client, they would make every iteration as long as all of them take, and uvloop accepts a
    single connection in each.
    """

    def __init__(self) -> None:
        self._waiting: deque[Any] = deque()

    def put(self, connection: Any) -> None:
        """Have a connection read its next request in its turn."""
        connection.client_of_limits.wait_for_turn()
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            connection.loop.call_soon(self._next)

    def _next(self) -> None:
        connection = self._waiting[0]
        try:
            connection.take_turn()
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._waiting[0].loop.call_soon(self._next)


def _parts() -> tuple[Any, Any]:
    """Return uvicorn's class of connections, and Starlette's of answers."""
    try:
        base = import_module("uvicorn.protocols.http.h11_impl").H11Protocol
        return base, import_module("starlette.responses").JSONResponse
    except ImportError as error:
        package = "Starlette" if (error.name or "").startswith("starlette") else "uvicorn"
        raise missing_extra(f"connections() needs {package}", "serve", error=error) from error


def protocol(limits: Limits) -> Callable[..., asyncio.Protocol]:
    """Return uvicorn's class of connections, with these limits."""
    base, response = _parts()
    turns = _Turns()

    @final
    class Connection(base):  # type: ignore[misc, valid-type]  # known at run time only
        """One connection, and its client."""

        client_of_limits: _Client
        _has_just_answered = False

        def connection_made(self, transport: Any) -> None:
            client = self.client_of_limits = _Client(self, transport, limits)
            super().connection_made(client.transport)
            client.admit(one.client_of_limits for one in self.connections if isinstance(one, Connection))
            if client.is_refused:
                self.app = response(limits.refusal(), 503, {"Retry-After": "1", "Connection": "close"})
            client.look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.client_of_limits.note_received(len(data))

        def on_response_complete(self) -> None:
            self._has_just_answered = True
            try:
                super().on_response_complete()
            finally:
                self._has_just_answered = False
            self.client_of_limits.note_answered()

        def handle_events(self) -> None:
            if self._has_just_answered and self.conn.trailing_data[0]:
                turns.put(self)
            else:
                super().handle_events()

        def take_turn(self) -> None:
            if self.client_of_limits.has_turn():
                super().handle_events()
                self.client_of_limits.look()

        def send_400_response(self, msg: str) -> None:
            can_be_told = self.client_of_limits.note_malformed()
            super().send_400_response(msg) if can_be_told else self.transport.close()

        def handle_websocket_upgrade(self, event: Any) -> None:
            super().handle_websocket_upgrade(event)
            self.client_of_limits.forget()

        def shutdown(self) -> None:
            super().shutdown()
            self.client_of_limits.end_what_is_endless()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.client_of_limits.forget()

    return Connection
