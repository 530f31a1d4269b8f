"""SimulatedTransport: hosts in this process, whose network delays, loses, repeats and cuts what a test says."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, final

from ..errors import WorkerLostError
from .failures import unknown_worker
from .host import StageHost
from .outbox import Outbox
from .transport import Reply, Request
from .wire import compact, expand

if TYPE_CHECKING:
    from .definition import Definition


__all__ = ["SimulatedTransport"]


@final
class SimulatedTransport:
    """A transport to hosts in this process, for tests and for models that are to run without a cluster.

    Every message yields to the event loop once on each way, so an `ag.testing.explore` tries the orders of arrival.

    Args:
        workers: the addresses of the workers.
        ttl: that of the hosts.
        stage_ttl: that of the hosts.
        max_bytes: the most bytes that the arrays of a message may have.
        clock: that of the hosts.
        on_message: called with the worker and the request before a message arrives, and with the worker and the reply
            before that does. It may call `kill`; it may return a number, which is how often a request arrives.

    Example:
        >>> import asyncgrad as ag
        >>> transport = ag.distributed.SimulatedTransport(["a", "b"])
        >>> transport.kill("a")
        >>> ag.run(transport.workers())
        ['b']
    """

    def __init__(
        self,
        workers: Iterable[str],
        *,
        ttl: float = 3600.0,
        stage_ttl: float = 86400.0,
        max_bytes: int = 1 << 30,
        clock: Callable[[], float] = time.monotonic,
        on_message: Callable[[str, Request | Reply], int | None] | None = None,
    ) -> None:
        self.max_bytes: int = max_bytes
        self._hosts: dict[str, StageHost] = {
            one: StageHost(load=copy.deepcopy, ttl=ttl, stage_ttl=stage_ttl, max_bytes=max_bytes, clock=clock)
            for one in workers
        }
        self._dead: set[str] = set()
        self.on_message: Callable[[str, Request | Reply], int | None] | None = on_message
        #: Of the loop that has awaited a call last.
        self._outbox: Outbox | None = None

    def host(self, worker: str) -> StageHost:
        """Return the host of a worker, also of one that is dead."""
        return self._hosts[worker]

    def kill(self, worker: str) -> None:
        """Lose a worker: from here on nothing reaches it, and nothing that it has computed arrives."""
        self._dead.add(worker)

    async def retire(self, worker: str) -> None:
        """Have a worker leave in an orderly way: another one gets its stages, with their state."""
        others = [one for one in await self.workers() if one != worker]
        for request in self._hosts[worker].hand_over():
            # It may have been dropped while others were handed over.
            if self._hosts[worker].has_stage(request.stage):
                await self.call(others[0], request)
        self._hosts[worker].leave()
        self.kill(worker)

    def export(self, definition: Definition) -> object:
        """Return a copy of the definition, which the hosts do not share with home."""
        return copy.deepcopy(definition)

    def load_error(self, data: bytes) -> Any:
        """Return None: errors are made by their types."""
        return None

    async def workers(self) -> Sequence[str]:
        """Return the workers that are not dead."""
        return [one for one in self._hosts if one not in self._dead]

    async def call(self, worker: str, request: Request) -> Reply:
        """Return the reply of a worker, after a yield to the loop on each way."""
        loop = asyncio.get_running_loop()
        if self._outbox is None or self._outbox.loop is not loop:
            self._outbox = Outbox(loop, self.call)
        await asyncio.sleep(0)
        times = self._arrive(worker, request)
        message = Request(request.op, request.stage, request.fields, _carry(request.arrays))
        reply = await self._hosts[worker].handle(message)
        for _ in range(times - 1):
            await self._hosts[worker].handle(message)
        await asyncio.sleep(0)
        self._arrive(worker, reply)
        return Reply(reply.fields, _carry(reply.arrays))

    def send(self, worker: str, request: Request) -> None:
        """Have a request sent whose reply nobody needs, in a later turn of the loop that has awaited a call last.

        Once that is closed, the host drops what it would have dropped when its time is over.
        """
        if self._outbox is not None:
            self._outbox.put(worker, request)

    def _arrive(self, worker: str, message: Request | Reply) -> int:
        times = None if self.on_message is None else self.on_message(worker, message)
        if worker not in self._hosts:
            raise unknown_worker(worker, self._hosts)
        if worker in self._dead:
            raise WorkerLostError(f"worker {worker} does not answer")
        return 1 if times is None else times


def _carry(arrays: Sequence[Any]) -> list[Any]:
    """Return copies, laid out as every transport does."""
    found: list[Any] = []
    for array in arrays:
        block, layout = (None, None) if array is None else compact(array)
        found.append(None if block is None else expand(block.copy(), layout))
    return found
