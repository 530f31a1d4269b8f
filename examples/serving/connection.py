"""Client connections, with a timeout for the headers and a limit on their number.

uvicorn waits for headers without a timeout, and accepts any number of clients: a few hundred that send one byte a
minute would use up the file descriptors of the process.
"""

from __future__ import annotations

import asyncio
import functools
import json
import resource
from collections.abc import Callable
from typing import Any, final

import h11
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from examples.serving.checking import Limits

#: File descriptors reserved for the listener, the loop, the files of the model, and Python itself.
RESERVED = 32


def connections(limits: Limits) -> Callable[..., asyncio.Protocol]:
    """Return a factory of connections within these limits, for uvicorn's option `http`.

    Beyond `limits.connections`, as many clients again are answered with 503; further ones are disconnected. So file
    descriptors never run out.
    """
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = limits.connections
    if descriptors != resource.RLIM_INFINITY:
        most = max(1, min(most, (descriptors - RESERVED) // 2))
    return functools.partial(Connection, most, limits.seconds)


@final
class Connection(H11Protocol):  # type: ignore[misc]  # mypy does not look into uvicorn
    """One connection. If headers do not arrive in time, it answers 408.

    Args:
        most: how many connections are served at the same time.
        seconds: the time limit for the headers, from when the connection is ready for a request.
    """

    def __init__(self, most: int, seconds: float, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most, self._seconds = most, seconds
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self.connections) > 2 * self._most:
            self.transport.abort()
        elif len(self.connections) > self._most:
            body = {"error": f"{self._most} clients are connected already, and no more may be"}
            self.app = JSONResponse(body, 503, {"Retry-After": "1", "Connection": "close"})
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _watch(self) -> None:
        """Run the timer while headers are expected, and only then."""
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._seconds, self._time_out)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        # A client that has sent nothing at all gets no answer.
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            body = json.dumps({"error": f"the headers did not arrive within {self._seconds:g} s"}).encode()
            head = f"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()
