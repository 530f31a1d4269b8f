"""serve_live: the live page of this process's backward passes, on a server of asyncio's own, which needs no package."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import logging
import math
from collections.abc import MutableMapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self, final
from urllib.parse import unquote

from ...core.engine.eager_task import EagerTask, start_task
from ...core.settings.arguments import must_be, whole_number
from ...errors import ArgumentError, ArgumentTypeError
from .application import LiveApplication, checked_names, seconds_of
from .feed import LiveFeed
from .source import BackwardSource

__all__ = ["LiveServer", "serve_live"]

LOG = logging.getLogger("asyncgrad.observing.live")

#: How many connections are served at a time; one more is disconnected.
CONNECTIONS = 32
#: The seconds in which the headers of a request must arrive, and their bytes.
HEADERS_TIMEOUT, HEADERS = 5.0, 16_384


@final
class LiveServer:
    """What `serve_live` returns: shows the page within its `async with` block."""

    __slots__ = ("_application", "_host", "_names", "_port", "_server", "_stuck_after", "_tasks")

    def __init__(self, host: str, port: int, names: Sequence[str], stuck_after: float) -> None:
        self._host, self._port, self._names, self._stuck_after = host, port, names, stuck_after
        self._application: LiveApplication | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[EagerTask] = set()

    @property
    def url(self) -> str:
        """The address of the page.

        Raises:
            ArgumentError: it is not shown now.
        """
        if self._server is None or not self._server.sockets:
            raise ArgumentError("the page has an address within its block: write async with ag.engine.serve_live()")
        host, port = self._server.sockets[0].getsockname()[:2]
        if host in ("0.0.0.0", "::"):
            host = "localhost"
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    async def __aenter__(self) -> Self:
        """Begin to listen.

        Raises:
            OSError: the address cannot be had.
            ArgumentError: this is used a second time.
        """
        if self._application is not None:
            raise ArgumentError("this page is shown already, or was: call ag.engine.serve_live() again")
        try:
            server = await asyncio.start_server(self._accept, self._host, self._port, limit=HEADERS)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                text = f"port {self._port} of {self._host} is taken: ag.engine.serve_live(port=0) takes a free one"
                raise OSError(errno.EADDRINUSE, text) from error
            raise
        # From here on nothing suspends, so that whoever is cancelled leaves nothing behind.
        feed = LiveFeed(BackwardSource(), stuck_after=self._stuck_after)
        self._application = LiveApplication(feed, loopback_only=False, names=self._names, lifetime=math.inf)
        self._server = server
        LOG.info("the backward passes of this process are shown on %s", self.url)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Disconnect all, and return once nothing runs any more."""
        assert self._application is not None
        assert self._server is not None
        self._application.close()
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        cancellation: asyncio.CancelledError | None = None
        while self._tasks:
            try:
                await _end_of(next(iter(self._tasks)))
            except asyncio.CancelledError as cancelled:
                # The tasks are cancelled already, and wait for nothing.
                cancellation = cancelled
        await self._server.wait_closed()
        self._server = None
        if cancellation is not None:
            raise cancellation

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= CONNECTIONS or self._application is None:
            writer.transport.abort()
            return
        context = contextvars.Context()
        task = start_task(self._serve(reader, writer, self._application), context, "ag.engine.serve_live")
        if not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, application: LiveApplication
    ) -> None:
        """Answer the one request of a connection."""
        try:
            async with asyncio.timeout(HEADERS_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
            connection = _Connection(reader, writer)
            if (scope := _scope(head, writer)) is None:
                await connection.send({"type": "http.response.start", "status": 400, "headers": []})
            else:
                await application(scope, connection.receive, connection.send)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            # A client that is slow, has gone, or sends what is no request, gets no answer.
            pass
        except Exception:
            LOG.exception("a request for the live page failed")
        finally:
            if writer.transport.get_write_buffer_size():
                # Not taken in the time for it: closing would wait for that.
                writer.transport.abort()
            writer.close()


async def _end_of(task: EagerTask) -> None:
    ended = asyncio.Event()
    task.add_done_callback(lambda _: ended.set())
    await ended.wait()


@final
class _Connection:
    """What an application of ASGI is given for one request, whose body is not read."""

    __slots__ = ("_reader", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        # So that what was sent has left this process, and the time for it counts.
        writer.transport.set_write_buffer_limits(0)

    async def receive(self) -> MutableMapping[str, Any]:
        """Wait until the client has gone."""
        while await self._reader.read(4096):
            pass
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send the head or a part of the body; return once it has been taken."""
        if message["type"] == "http.response.start":
            head = f"HTTP/1.1 {message['status']} {HTTPStatus(message['status']).phrase}\r\n".encode()
            lines = [b"%s: %s\r\n" % pair for pair in [*message["headers"], (b"connection", b"close")]]
            self._writer.write(b"".join([head, *lines, b"\r\n"]))
        elif message["body"]:
            self._writer.write(message["body"])
        await self._writer.drain()


def _scope(head: bytes, writer: asyncio.StreamWriter) -> dict[str, Any] | None:
    """Return what a request asks for, as ASGI has it; None if it is none."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[1].startswith("/") or not words[2].startswith("HTTP/1."):
        return None
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            return None
        headers.append((name.lower().encode("latin-1"), value.strip().encode("latin-1")))
    return {
        "type": "http",
        "method": words[0],
        "path": unquote(words[1].partition("?")[0]),
        "root_path": "",
        "headers": headers,
        "client": writer.get_extra_info("peername"),
    }


def serve_live(
    host: str = "127.0.0.1", port: int = 8686, *, names: Sequence[str] = (), stuck_after: float = 10.0
) -> LiveServer:
    """Show the backward passes of this process on a page while they run: `async with ag.engine.serve_live():`.

    The page tells how many backward passes end in a second, with the p50 and p99 of their times, which fail or are
    cancelled, what each that runs waits for, and how late the event loop is. It has numbers and names alone, escaped,
    runs no script but its own, and asks nothing of other machines. Nobody is asked who they are: with a `host` other
    than this machine, all who can connect see it. Nothing is served, and nothing measured, outside of the block; within
    it, a backward costs a few microseconds more, and while a browser looks, a sample is taken twice a second.

    It runs on the event loop that runs the block. While that is blocked, the page says that nothing is heard of it. It
    needs no package besides asyncgrad.

    Args:
        host: the address to listen on: by default, only this machine can connect.
        port: the port; 0 takes a free one, which `url` tells.
        names: names, besides localhost, by which browsers may call it. Another one is refused, since the page of a
            stranger, whose name leads to this machine, would be shown what the browser's owner may see.
        stuck_after: the seconds after which a backward in which no node begins or ends is shown as stuck.

    Returns:
        An asynchronous context manager, whose attribute `url` is the address of the page.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is invalid; the message names it.

    Example:
        >>> import asyncgrad as ag
        >>> async def main():
        ...     async with ag.engine.serve_live(port=0) as page:
        ...         x = ag.tensor(2.0, requires_grad=True)
        ...         await (x * x).backward()
        ...         return page.url.startswith("http://127.0.0.1:")
        >>> ag.run(main())
        True
    """
    if not isinstance(host, str):
        raise ArgumentTypeError(must_be("host of ag.engine.serve_live", "a string", host, "write host='127.0.0.1'"))
    found = whole_number(port, "port", 0)
    if found > 65535:
        raise ArgumentError(f"port must be from 0 to 65535, and is {found}")
    return LiveServer(host, found, checked_names(names), seconds_of(stuck_after))
