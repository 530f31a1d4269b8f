"""The line to the model that all libraries use: it counts requests, and says how long each takes and which fails."""

from __future__ import annotations

import asyncio
from random import Random
from types import TracebackType
from typing import Any, Self, final

import httpx

__all__ = ["Line", "ModelError"]


class ModelError(RuntimeError):
    """The model has no answer."""


@final
class Line:
    """Asks the stand-in, by an `await` or blocking.

    Args:
        url: its base URL.
        seconds: how long an answer takes.
        seed: draws the seconds of each request, from a tenth of `seconds` to all of them; None for the same always.
    """

    def __init__(self, url: str, seconds: float, *, seed: int | None = None) -> None:
        # A pool of its own for each way: the first requests open its connections.
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=100)
        self._later = httpx.AsyncClient(base_url=url, timeout=60.0, limits=limits, trust_env=False)
        self._now = httpx.Client(base_url=url, timeout=60.0, limits=limits, trust_env=False)
        self.seconds = seconds
        self._random = None if seed is None else Random(seed)
        #: How many requests have been sent, how many have no answer yet, and the number of the one that fails, after
        #: half the time of the others.
        self.sent = self.open = 0
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self.fails_at: int | None = None

    async def ask(self, text: str) -> str:
        """Return the answer of the model."""
        request = self._request(text)
        self.open += 1
        self._all_answered.clear()
        try:
            return self._text(await self._later.post("chat/completions", json=request))
        finally:
            self.open -= 1
            if not self.open:
                self._all_answered.set()

    def ask_now(self, text: str) -> str:
        """Return the answer of the model, blocking."""
        return self._text(self._now.post("chat/completions", json=self._request(text)))

    async def idle(self) -> None:
        """Wait until every request has its answer."""
        await self._all_answered.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._later.aclose()
        self._now.close()

    def _request(self, text: str) -> dict[str, Any]:
        seconds = self.seconds if self._random is None else self.seconds * self._random.uniform(0.1, 1.0)
        fails = self.sent == self.fails_at
        metadata = {"seconds": str(seconds / 2.0 if fails else seconds), "fails": "yes" if fails else "no"}
        self.sent += 1
        return {"model": "stand-in", "messages": [{"role": "user", "content": text}], "metadata": metadata}

    @staticmethod
    def _text(reply: httpx.Response) -> str:
        if reply.status_code != httpx.codes.OK:
            raise ModelError(reply.json()["error"]["message"])
        text: str = reply.json()["choices"][0]["message"]["content"]
        return text
