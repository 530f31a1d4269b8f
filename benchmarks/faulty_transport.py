"""FaultyTransport: carries messages as another transport does, but late, twice, out of order, or not at all.

It counts what it met, so that a run can tell whether the cases that matter were among it.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, final

from asyncgrad.distributed import Reply, Request, Transport
from asyncgrad.errors import ArgumentError, WorkerLostError

__all__ = ["FaultyTransport"]

#: The share of messages that are delayed, on each way, and by how many seconds at most.
_DELAYED, _DELAY = 0.3, 0.01
#: How many late copies there are for each request, and by how many seconds they are late at most.
_COPIES, _LATENESS = 0.2, 0.1
#: The share of requests that never arrive, and of those that arrive and whose reply is lost.
_DROPPED, _REPLY_LOST = 0.01, 0.02
#: The same for those that end a backward or make a step, of which there are few.
_REPLY_LOST_OF = {"commit": 0.1, "step": 0.1, "create": 0.05}
_SENT_DROPPED, _SENT_TWICE = 0.1, 0.2


@final
class FaultyTransport:
    """A transport that has faults, until `cease` is called.

    Args:
        transport: carries the messages.
        seed: that of the faults.
        counts: is told how often each fault, and each case, was met.
    """

    def __init__(self, transport: Transport, seed: str, counts: Counter[str]) -> None:
        self.max_bytes: int = transport.max_bytes
        self._transport = transport
        self._counts = counts
        self._draw = random.Random(seed)
        # Apart: finalizers send at moments that no seed decides.
        self._draw_of_sent = random.Random(seed)
        self._is_faulty = True
        #: By operation: there are few requests to create a stage and to make a step, and these do most harm.
        self._seen: dict[str, deque[tuple[str, Request]]] = {}
        self._late: set[asyncio.Task[None]] = set()
        #: For each stage, the last attempt that was answered, and that of the last step that was.
        self._attempts: dict[str, int] = {}
        self._stepped: dict[str, int] = {}
        #: For each commit that was asked for, of which attempt.
        self._commits: dict[tuple[str, int], int] = {}

    def export(self, definition: Any) -> Any:
        """Return what the transport makes of a definition."""
        return self._transport.export(definition)

    def load_error(self, data: bytes) -> Any:
        """Return what the transport makes of an exception."""
        return self._transport.load_error(data)

    async def workers(self) -> Sequence[str]:
        """Return the workers."""
        return await self._transport.workers()

    async def call(self, worker: str, request: Request) -> Reply:
        """Return the reply of a worker, if neither it nor the request is lost.

        Raises:
            WorkerLostError: one was lost, or the worker.
        """
        self._note_request(worker, request)
        await self._disturb()
        if self._happens(_DROPPED, "requests lost"):
            raise WorkerLostError(f"the request {request.op!r} was lost")
        reply = await self._transport.call(worker, request)
        if "error" not in reply.fields:
            self._note_answer(request)
        await self._disturb()
        if self._happens(_REPLY_LOST_OF.get(request.op, _REPLY_LOST), "replies lost"):
            raise WorkerLostError(f"the reply to {request.op!r} was lost")
        return reply

    def send(self, worker: str, request: Request) -> None:
        """Have a request sent once, twice, or not at all."""
        drawn = self._draw_of_sent.random() if self._is_faulty else 1.0
        if drawn >= _SENT_DROPPED:
            self._transport.send(worker, request)
        if _SENT_DROPPED <= drawn < _SENT_DROPPED + _SENT_TWICE:
            self._transport.send(worker, request)

    async def cease(self) -> None:
        """Have no more faults; return when the last late copy has arrived."""
        self._is_faulty = False
        while self._late:
            await asyncio.gather(*self._late)

    def _happens(self, share: float, what: str) -> bool:
        happens = self._is_faulty and self._draw.random() < share
        self._counts[what] += happens
        return happens

    async def _disturb(self) -> None:
        """Have an earlier request come again, some time later, and wait for some time; others pass meanwhile."""
        if self._seen and self._happens(_COPIES / 2, "late copies"):
            sent = self._draw.choice(self._seen[self._draw.choice(list(self._seen))])
            task = asyncio.get_running_loop().create_task(
                self._repeat(*sent, self._draw.random() * _LATENESS), context=contextvars.Context()
            )
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        if self._happens(_DELAYED, "delays"):
            await asyncio.sleep(self._draw.random() * _DELAY)

    async def _repeat(self, worker: str, request: Request, seconds: float) -> None:
        await asyncio.sleep(seconds)
        try:
            await self._transport.call(worker, request)
        except (WorkerLostError, ArgumentError):
            # The worker has gone meanwhile.
            self._counts["late copies that found no worker"] += 1
            return
        stage, attempt = request.stage, request.fields.get("attempt", 0)
        if request.op == "create":
            is_late = attempt < self._attempts.get(stage, 0) or attempt <= self._stepped.get(stage, 0)
            self._counts["late create"] += is_late

    def _note_request(self, worker: str, request: Request) -> None:
        arrays = [None if one is None else one.copy() for one in request.arrays]
        sent = worker, Request(request.op, request.stage, dict(request.fields), arrays)
        self._seen.setdefault(request.op, deque(maxlen=32)).append(sent)
        if request.op == "commit" and not request.fields.get("begins"):
            attempt = request.fields["attempt"]
            before = self._commits.setdefault((request.stage, request.fields["transaction"]), attempt)
            self._counts["move during a commit"] += before != attempt

    def _note_answer(self, request: Request) -> None:
        if request.op == "create":
            self._attempts[request.stage] = max(request.fields["attempt"], self._attempts.get(request.stage, 0))
        elif request.op == "step":
            self._stepped[request.stage] = request.fields["attempt"]
