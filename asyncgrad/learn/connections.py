"""Connections of uvicorn, with a timeout for the headers and a limit on their number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, final

from ..arguments import whole_number

__all__ = ["protocol", "within_descriptors"]

#: File descriptors reserved for the listener, the loop, the files of the model, and Python itself.
RESERVED = 32


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


def protocol(most: int, seconds: float) -> Callable[..., asyncio.Protocol]:
    """Return uvicorn's class of connections, with these limits."""
    try:
        h11, base = import_module("h11"), import_module("uvicorn.protocols.http.h11_impl").H11Protocol
        response = import_module("starlette.responses").JSONResponse
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "connections() needs uvicorn and Starlette: pip install 'asyncgrad[serve]'", name=error.name
        ) from error

    @final
    class Connection(base):  # type: ignore[misc, valid-type]  # known at run time only
        """One connection. If headers do not arrive in time, it answers 408."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > 2 * most:
                self.transport.abort()
            elif len(self.connections) > most:
                body = {"error": f"{most} clients are connected already, and no more may be"}
                self.app = response(body, 503, {"Retry-After": "1", "Connection": "close"})
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._forget()

        def _watch(self) -> None:
            # The timer runs while headers are expected, and only then.
            if self.conn.their_state is not h11.IDLE:
                self._forget()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self._time_out)

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
                body = json.dumps({"error": f"the headers did not arrive within {seconds:g} s"}).encode()
                head = f"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
                self.transport.write(head.encode() + b"\r\nconnection: close\r\n\r\n" + body)
            self.transport.close()

    return Connection
