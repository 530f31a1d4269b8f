"""A source and a clock that tests of the live page set, and a client of its application."""

from __future__ import annotations

import asyncio
import json
from typing import Any, final

from asyncgrad.observing.live.feed import LiveFeed
from asyncgrad.observing.live.records import Records
from asyncgrad.observing.live.source import LiveSource


@final
class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@final
class Source(LiveSource):
    """A source that counts its samples."""

    def __init__(self, clock: Any, title: str = "test") -> None:
        self.records = Records(clock=clock)
        self.title = title
        self.begun = self.samples = self.closed = 0
        self.seconds: list[float] = []

    def facts(self) -> dict[str, Any]:
        return {"title": self.title, "value": "loss", "unit": "", "marks": ["refused"]}

    def begin(self) -> None:
        self.begun += 1

    def sample(self, seconds: float) -> dict[str, Any]:
        self.samples += 1
        self.seconds.append(seconds)
        return {"rates": {"steps": float(self.samples)}, "latencies": {}, "queues": {}}

    def close(self) -> None:
        self.closed += 1


def new_feed(**options: Any) -> tuple[LiveFeed, Source, Clock]:
    """Return a feed whose time stands still, with its source and its clock."""
    clock = Clock()
    source = Source(clock)
    return LiveFeed(source, clock=clock, **options), source, clock


def parsed(event: bytes) -> tuple[str, str, Any]:
    """Return the id, the kind and the data of an event."""
    lines = dict(line.split(": ", 1) for line in event.decode().rstrip("\n").split("\n"))
    return lines["id"], lines["event"], json.loads(lines["data"])


@final
class Client:
    """Asks an application for something, and takes what it is sent, unless it is told to take nothing."""

    def __init__(self, path: str = "/", **scope: Any) -> None:
        headers = {"host": "localhost", **scope.pop("headers", {})}
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": path,
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1234),
            "state": {},
            **scope,
        }
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.has_gone = asyncio.Event()
        #: Cleared while it takes nothing.
        self.reads = asyncio.Event()
        self.reads.set()
        self.changed = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.has_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]
        self.changed.set()

    async def has(self, text: bytes) -> None:
        """Wait until it has been sent that."""
        while text not in self.body:
            self.changed.clear()
            await self.changed.wait()

    async def ask(self, application: Any) -> Any:
        """Return the status of the answer, once that has ended."""
        await application(self.scope, self.receive, self.send)
        return self.status
