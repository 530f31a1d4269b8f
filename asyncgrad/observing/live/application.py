"""LiveApplication: the page and its events as an application of ASGI, with limits on who may look."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ipaddress
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any, final

from ...core.engine.eager_task import start_task
from ...core.settings.arguments import must_be, number
from ...errors import ArgumentError, ArgumentTypeError
from .feed import LiveFeed
from .page import live_page

__all__ = ["ENDLESS", "LiveApplication", "checked_names", "seconds_of"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: Under this name, the state of a request says that its answer ends with its client alone: a server that stops need not
#: wait for it.
ENDLESS = "asyncgrad.endless"

_PLAIN = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


@final
class LiveApplication:
    """Answers with the page, and with its events, for as long as a client takes them.

    Who calls it by a name that it does not know is refused: the page of a stranger, whose name leads here, would be
    shown what the browser's owner may see. An address is no such name.

    Args:
        feed: what the events are.
        loopback_only: whether clients on other machines are refused.
        names: the names, besides localhost, by which clients may call it.
        max_clients: how many get events at a time; further ones are told to come later.
        lifetime: the seconds after which a stream of events ends. The page goes on with another one, where it was. A
            server that stops waits no longer for it than that, and one that does not notice that a client has gone has
            it no longer.
        write_timeout: the seconds in which a client must take an event.
    """

    def __init__(
        self,
        feed: LiveFeed,
        *,
        loopback_only: bool,
        names: Collection[str] = (),
        max_clients: int = 16,
        lifetime: float = 10.0,
        write_timeout: float = 10.0,
    ) -> None:
        self._feed = feed
        self._loopback_only, self._names = loopback_only, {"localhost", *(name.lower() for name in names)}
        self._max_clients, self._lifetime, self._write_timeout = max_clients, lifetime, write_timeout
        self._page = live_page(str(feed.source.facts()["title"]))
        self._is_closed = False
        #: Set when the client of a stream has gone, or nobody is to be served any more.
        self._ends: set[asyncio.Event] = set()

    def close(self) -> None:
        """End all streams, and the observation of what they tell."""
        self._is_closed = True
        for end in self._ends:
            end.set()
        self._feed.source.close()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            raise NotImplementedError(f"a live page answers requests, and this is {scope['type']!r}: mount it")
        path = scope["path"].removeprefix(scope.get("root_path", "")).strip("/")
        headers = _headers(scope)
        if (refusal := self._refusal(scope, path, headers)) is not None:
            status, text, more = refusal
            await self._answer(send, status, b"text/plain; charset=utf-8", f"{text}\n".encode(), more)
        elif path:
            await self._stream(scope, receive, send, headers.get("last-event-id", [None])[0])
        else:
            policy = [(b"content-security-policy", self._page.policy.encode())]
            body = b"" if scope["method"] == "HEAD" else self._page.text
            await self._answer(send, 200, b"text/html; charset=utf-8", body, policy)

    def _refusal(
        self, scope: Message, path: str, headers: dict[str, list[str]]
    ) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        """Return the status, the words and the headers for who is not served; None for who is."""
        if self._loopback_only and not _is_loopback(scope.get("client")):
            return 403, "this page is shown on the machine itself alone, and its owner decides otherwise", []
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._is_known(hosts[0]):
            return 421, "this page does not answer to that name: its owner may add it to names=", []
        if path not in ("", "events"):
            return 404, "there is nothing here", []
        if scope["method"] not in ("GET", "HEAD") or (path and scope["method"] == "HEAD"):
            return 405, "this page is read, and nothing else", [(b"allow", b"GET")]
        if path and headers.get("sec-fetch-site", ["none"])[0] not in ("same-origin", "none"):
            return 403, "events are for the page itself", []
        if self._is_closed:
            return 503, "this page is shown no more", []
        if path and len(self._ends) >= self._max_clients:
            return 503, f"{len(self._ends)} look already, and no more may", [(b"retry-after", b"5")]
        return None

    def _is_known(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or host.endswith("]"):
            name, port = host, "0"
        if not port.isdecimal():
            return False
        name = name.lower().removesuffix(".")
        if name in self._names:
            return True
        return _address(name.removeprefix("[").removesuffix("]")) is not None

    async def _answer(
        self, send: Send, status: int, kind: bytes, body: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        length = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(self._write_timeout):
                await send({"type": "http.response.start", "status": status, "headers": [*length, *_PLAIN, *headers]})
                await send({"type": "http.response.body", "body": body})

    async def _stream(self, scope: Message, receive: Receive, send: Send, last: str | None) -> None:
        """Send events until the client goes, takes too long, or has had its time."""
        end = asyncio.Event()
        self._ends.add(end)
        self._feed.open()
        if isinstance(state := scope.get("state"), MutableMapping):
            state[ENDLESS] = True
        watcher = start_task(_watch(receive, end), contextvars.copy_context(), "a live page watches a client")
        try:
            # A client that does not read, or breaks off, gets nothing more, and nobody waits for it.
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(self._write_timeout) as limit:
                    await self._send_events(send, last, end, limit)
        finally:
            self._ends.discard(end)
            self._feed.close()
            if not watcher.cancel() and not watcher.cancelled():
                # A client that can no longer be watched; asyncio would report that nobody has looked at its error.
                watcher.exception()

    async def _send_events(self, send: Send, last: str | None, end: asyncio.Event, limit: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._lifetime
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), *_PLAIN, (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"retry: 500\n\n", "more_body": True})
        while not end.is_set() and loop.time() < until:
            if (found := self._feed.event(last)) is not None:
                last, body = found
                limit.reschedule(loop.time() + self._write_timeout)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            limit.reschedule(None)
            await _wait(end, self._feed.seconds_left())
        limit.reschedule(loop.time() + self._write_timeout)
        await send({"type": "http.response.body", "body": b""})


def checked_names(names: Any) -> tuple[str, ...]:
    """Return the argument `names` as strings.

    Raises:
        ArgumentTypeError: it is none of several strings; a string alone would be taken for its letters.
    """
    found = () if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if (not found and names not in ((), [])) or not all(isinstance(name, str) for name in found):
        raise ArgumentTypeError(must_be("names", "a list of strings", names, "write names=['box.example']"))
    return found


def seconds_of(stuck_after: Any) -> float:
    """Return the argument `stuck_after` as a float.

    Raises:
        ArgumentError, ArgumentTypeError: it is no number above 0.
    """
    if not (found := number(stuck_after, "stuck_after", 0)) > 0:
        raise ArgumentError(f"stuck_after must be a number of seconds above 0, not {found:g}")
    return found


async def _watch(receive: Receive, end: asyncio.Event) -> None:
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    finally:
        end.set()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Return when an event is set, or so many seconds have passed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _headers(scope: Message) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_loopback(client: Any) -> bool:
    address = _address(str(client[0])) if client else None
    mapped = getattr(address, "ipv4_mapped", None)
    return address is not None and (mapped or address).is_loopback
