"""Outbox: requests whose reply nobody needs, which finalizers hand over at any moment, and a loop sends later."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, final

from ..core.engine.eager_task import EagerTask, start_task
from .concurrency import retrieve, wait_until_done
from .transport import MOST_LISTED, Request

__all__ = ["Outbox"]

#: How many requests are kept while the loop has no time for them, and, once it has, for each worker.
_MOST_KEPT = 4096
#: How many are under way to one worker: one that is silent keeps no others from theirs, and no more connections.
_MOST_UNDER_WAY = 4
#: What may be asked of a stage for many things in one request, and the field that lists them.
_LISTS = {"free": "keys", "finish": "finish"}


@final
class Outbox:
    """Keeps requests, and sends them on one event loop, no more than four at a time to each worker.

    `put` may be called by a finalizer: that is, from any thread, and in the midst of any code of this one, the loop's
    and the connections' included. So it sends nothing: it appends to a queue, and has the loop look there.

    Nobody waits for these requests, and the hosts drop by themselves, after their time to live, what is never freed:
    of more than 4,096 that cannot be sent the oldest are left out.

    Args:
        loop: the event loop.
        deliver: sends a request, and returns the reply; errors are dropped.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deliver: Callable[[str, Request], Coroutine[object, None, Any]]
    ) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self._deliver = deliver
        self._arrived: deque[tuple[str, Request]] = deque(maxlen=_MOST_KEPT)
        self._is_awaited = False
        #: By worker, what is to be sent.
        self._waiting: dict[str, deque[Request]] = {}
        #: By worker, what is under way.
        self._sending: dict[str, set[EagerTask]] = {}

    def put(self, worker: str, request: Request) -> None:
        """Have a request sent, unless the loop has been closed."""
        # In this order: the loop takes the mark away before it empties the queue.
        self._arrived.append((worker, request))
        if not self._is_awaited and not self.loop.is_closed():
            self._is_awaited = True
            try:
                self.loop.call_soon_threadsafe(self._send)
            except RuntimeError:
                # Closed meanwhile, by another thread.
                self._arrived.clear()

    async def flush(self) -> None:
        """Send all that is here; return when each has been answered, or has failed. Called on the loop."""
        self._send()
        while running := [task for tasks in self._sending.values() for task in tasks]:
            await wait_until_done(running[0])
            self._send()

    def _send(self) -> None:
        self._is_awaited = False
        while self._arrived:
            worker, request = self._arrived.popleft()
            _add(self._waiting.setdefault(worker, deque(maxlen=_MOST_KEPT)), request)
        for worker, waiting in list(self._waiting.items()):
            sending = self._sending.setdefault(worker, set())
            while waiting and len(sending) < _MOST_UNDER_WAY:
                coroutine, end = self._deliver(worker, waiting.popleft()), partial(self._end, worker)
                task = start_task(coroutine, contextvars.Context(), "send a message", end)
                if not task.done():
                    sending.add(task)
            if not waiting:
                del self._waiting[worker]

    def _end(self, worker: str, task: EagerTask) -> None:
        retrieve(task)
        self._sending[worker].discard(task)
        if worker in self._waiting:
            self.loop.call_soon(self._send)


def _add(waiting: deque[Request], request: Request) -> None:
    """Add a request, or what it lists to one that waits: a graph of many calls is freed by one request."""
    name = _LISTS.get(request.op)
    if name is not None:
        same = (request.op, request.stage, _without(request, name))
        for other in reversed(waiting):
            is_full = len(other.fields.get(name, ())) + len(request.fields[name]) > MOST_LISTED
            if not is_full and (other.op, other.stage, _without(other, name)) == same:
                other.fields[name].extend(request.fields[name])
                return
        # Its own list, since others are added to it.
        request = Request(request.op, request.stage, {**request.fields, name: list(request.fields[name])})
    waiting.append(request)


def _without(request: Request, name: str) -> dict[str, Any]:
    return {field: value for field, value in request.fields.items() if field != name}
