"""DaskTransport: stages at the workers of a Dask cluster, over the connections that its client has.

The requests go from the client to the worker directly, to a handler of its server that a worker plugin adds: that takes
no scheduler, no task, and no pickled closure. Arrays travel as Dask's frames, without a copy where its transport needs
none, and each arrives in memory of its own. `python -m benchmarks.distributed` measures this beside calls of an actor.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..core.arrays.values import owned
from ..core.engine.eager_task import EagerTask, start_task
from ..core.settings.arguments import must_be
from ..core.settings.extras import missing_extra
from ..errors import ArgumentTypeError, WorkerLostError
from .concurrency import run_patiently
from .failures import unknown_worker
from .host import StageHost
from .open_stages import OpenStages
from .outbox import Outbox
from .payload import size_of
from .transport import Reply, Request
from .wire import compact, expand

if TYPE_CHECKING:
    from .definition import Definition


try:
    import cloudpickle
    import distributed
    from distributed.core import send_recv
    from distributed.protocol.serialize import to_serialize
    from tornado.ioloop import PeriodicCallback
except ImportError as error:
    raise missing_extra("stages on a Dask cluster need Dask", "dask", error=error) from error

__all__ = ["DaskTransport", "HostPlugin"]

log = logging.getLogger("asyncgrad.distributed")

#: How many seconds pass between two questions to the scheduler whether it knows a worker that accepts no connection.
_CONNECT_SECONDS = 0.5
#: How many seconds a worker that leaves waits for the scheduler, which may have gone: a nanny kills it after 4.
_SCHEDULER_SECONDS = 1.0
#: From how many bytes on an array is not copied on arrival.
_LARGE_BYTES = 1 << 16
_FIRST = np.zeros(1, np.uint8)
#: The name of the handler at the workers, and of the plugin.
_HANDLER = "asyncgrad_stages"


@final
class HostPlugin(distributed.WorkerPlugin):  # type: ignore[misc]
    """Gives each worker of a cluster a StageHost.

    Args:
        ttl: after how many seconds a graph that nobody asks for is dropped.
        stage_ttl: after how many seconds a stage is.
        max_bytes: the most bytes that the arrays of a reply may have.
    """

    name = _HANDLER
    idempotent = True

    def __init__(self, ttl: float, stage_ttl: float, max_bytes: int) -> None:
        self._ttl = ttl
        self._stage_ttl = stage_ttl
        self._max_bytes = max_bytes
        self._host: StageHost | None = None
        self._is_leaving = False

    def setup(self, worker: Any) -> None:
        """Add the handler to a worker."""
        host = self._host = StageHost(
            load=cloudpickle.loads,
            dumps=cloudpickle.dumps,
            ttl=self._ttl,
            stage_ttl=self._stage_ttl,
            max_bytes=self._max_bytes,
        )

        async def handle(*, request: str, stage: str, fields: dict[str, Any], **message: Any) -> dict[str, Any]:
            if request == "adopt" and self._is_leaving:
                # Two workers of a cluster that closes would wait for each other, each until it is killed.
                # test_a_cluster_closes_at_once_though_stages_were_not_closed
                return {"fields": {"is_leaving": True}, **_message_of_arrays([], worker.address)}
            reply = await host.handle(Request(request, stage, fields, _arrays_of_message(message)))
            return {"fields": reply.fields, **_message_of_arrays(reply.arrays, worker.address)}

        worker.handlers[_HANDLER] = handle
        timer = PeriodicCallback(host.expire, max(min(self._ttl, self._stage_ttl), 1.0) * 100)
        worker.periodic_callbacks[_HANDLER] = timer
        timer.start()

    async def teardown(self, worker: Any) -> None:
        """Hand the stages of a worker that closes to another one, unless all of the cluster closes."""
        if self._host is None:
            return
        self._is_leaving = True
        try:
            await self._hand_over(worker, self._host, self._host.hand_over())
        finally:
            self._host.leave()

    async def _hand_over(self, worker: Any, host: StageHost, requests: Sequence[Request]) -> None:
        if not requests:
            return
        try:
            async with asyncio.timeout(_SCHEDULER_SECONDS):
                identity = await worker.scheduler.identity()
        except (OSError, TimeoutError):
            # It has gone before its workers: nobody could find the stages elsewhere.
            return
        others = [one for one in identity["workers"] if one != worker.address]
        if not others:
            return
        for number, request in enumerate(requests):
            if not host.has_stage(request.stage):
                # Dropped while others were handed over.
                continue
            await _adopt(worker, [*others[number % len(others) :], *others[: number % len(others)]], request)


async def _adopt(worker: Any, others: Sequence[str], request: Request) -> None:
    """Have one of other workers adopt a stage; one that accepts no connection is not tried for long."""
    for other in others:
        try:
            comm = await worker.rpc.connect(other, timeout=_CONNECT_SECONDS)
            try:
                arrays = _message_of_arrays(request.arrays, other)
                answer = await send_recv(
                    comm, op=_HANDLER, request=request.op, stage=request.stage, fields=request.fields, **arrays
                )
            finally:
                worker.rpc.reuse(other, comm)
        except (OSError, TimeoutError) as error:
            log.info("worker %s does not take stage %s of %s over: %s", other, request.stage, worker.address, error)
            continue
        if "is_leaving" not in answer["fields"]:
            return
    log.info("stage %s ends with worker %s: no other takes it over", request.stage, worker.address)


@final
class DaskTransport:
    """A transport to the workers of a Dask cluster.

    Use it as an async context manager, or await `aclose()`, and the stages end with it.

    Whoever can reach the scheduler can have the workers run any code, as in Dask itself: use it on networks that you
    trust, or with Dask's TLS, which the client's connections then have.

    Args:
        client: a `distributed.Client`, synchronous or not.
        patience: how many seconds a worker may be silent before it is asked whether it is there; if it is silent as
            long again, it counts as lost.
        ttl: after how many seconds a worker drops a graph that nobody asks for.
        stage_ttl: after how many seconds it drops a whole stage, as one is whose home has died; a home that asks for it
            later has it made again if it has a backup.
        max_bytes: the most bytes that the arrays of a message may have.

    Example:
        >>> from distributed import Client, LocalCluster  # doctest: +SKIP
        >>> transport = ag.distributed.DaskTransport(Client(LocalCluster()))  # doctest: +SKIP
    """

    def __init__(
        self,
        client: Any,
        *,
        patience: float = 10.0,
        ttl: float = 3600.0,
        stage_ttl: float = 86400.0,
        max_bytes: int = 1 << 30,
    ) -> None:
        self.max_bytes: int = max_bytes
        self._client = client
        self._patience = patience
        self._ttl = ttl
        self._stage_ttl = stage_ttl
        self._is_installed = False
        #: How many stages have been created at each worker.
        self._created: Counter[str] = Counter()
        self._lost: set[str] = set()
        #: The workers that the scheduler has known.
        self._known: set[str] = set()
        #: Once there is a connection, and so a stage that may have anything to send.
        self._outbox: Outbox | None = None
        self._opened = OpenStages()

    @classmethod
    def of_client(cls, client: Any) -> DaskTransport:
        """Return a transport with the defaults; without a client, Dask's default one is used."""
        if client is None:
            client = distributed.get_client()
        if not isinstance(client, distributed.Client):
            raise ArgumentTypeError(must_be("client", "a distributed.Client", client))
        return cls(client)

    def export(self, definition: Definition) -> object:
        """Return the definition as bytes of cloudpickle, once for each stage."""
        return cloudpickle.dumps(definition)

    def load_error(self, data: bytes) -> Any:
        """Return what a worker has pickled of an exception."""
        return cloudpickle.loads(data)

    async def workers(self) -> Sequence[str]:
        """Return the workers that the scheduler knows, those with the fewest stages of this transport first.

        Raises:
            WorkerLostError: the client has been closed.
        """
        self._check_client()
        identity = await self._on_loop_of_client(self._client.scheduler.identity())
        self._known.update(identity["workers"])
        found = sorted(identity["workers"], key=lambda one: self._created[one])
        return sorted(found, key=lambda one: one in self._lost)

    async def call(self, worker: str, request: Request) -> Reply:
        """Return the reply of a worker.

        Raises:
            WorkerLostError: the connection broke, the worker is silent, or the client has been closed.
        """
        self._check_client()
        if not self._is_installed:
            await self._install()
        if worker not in self._known and worker not in await self.workers():
            raise unknown_worker(worker, await self.workers())
        if request.op == "create":
            self._created[worker] += 1
        self._opened.note(worker, request)
        reply: Reply = await self._on_loop_of_client(self._exchange(worker, request))
        return reply

    def _check_client(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise WorkerLostError(
                f"the Dask client of this transport is {self._client.status}: make another one, and new stages"
            )

    def send(self, worker: str, request: Request) -> None:
        """Have a request sent whose reply nobody needs; a finalizer may call this, in the midst of any code."""
        if self._outbox is not None and self._client.status in ("running", "connecting"):
            self._outbox.put(worker, request)

    async def aclose(self) -> None:
        """End the stages that this transport has brought to workers; the client stays open."""
        if self._outbox is not None and self._client.status in ("running", "connecting"):
            for worker, request in self._opened.take():
                self._outbox.put(worker, request)
            await self._on_loop_of_client(self._outbox.flush())

    async def __aenter__(self) -> DaskTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _install(self) -> None:
        plugin = HostPlugin(self._ttl, self._stage_ttl, self.max_bytes)
        if self._client.asynchronous:
            await self._on_loop_of_client(self._client.register_plugin(plugin))
        else:
            await asyncio.to_thread(self._client.register_plugin, plugin)
        self._outbox = Outbox(self._client.loop.asyncio_loop, self._exchange)
        self._is_installed = True

    async def _exchange(self, worker: str, request: Request) -> Reply:
        """Send a request and wait for the reply; while there is none, ask now and then whether the worker is there."""
        exchange = self._send_and_receive(worker, request)
        reply: Reply = await run_patiently(exchange, partial(self._check, worker), self._patience, "ask a worker")
        return reply

    async def _check(self, worker: str) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._send_and_receive(worker, Request("ping", ""))
        except TimeoutError:
            self._lost.add(worker)
            raise WorkerLostError(f"worker {worker} has been silent for {2 * self._patience:g} s") from None

    async def _send_and_receive(self, worker: str, request: Request) -> Reply:
        pool = self._client.rpc
        try:
            comm = await self._connect(worker)
            try:
                answer = await send_recv(
                    comm,
                    op=_HANDLER,
                    request=request.op,
                    stage=request.stage,
                    fields=request.fields,
                    **_message_of_arrays(request.arrays, worker),
                )
            finally:
                pool.reuse(worker, comm)
        except (OSError, TimeoutError) as error:
            self._lost.add(worker)
            raise WorkerLostError(f"worker {worker} does not answer: {error}") from error
        except RuntimeError:
            # Dask's, where the client has been closed meanwhile.
            self._check_client()
            raise
        self._lost.discard(worker)
        return Reply(answer["fields"], _arrays_of_message(answer))

    async def _connect(self, worker: str) -> Any:
        """Return a connection to a worker, as long as the scheduler knows it: to one that has gone, Dask tries long."""
        waited = 0.0
        while True:
            seconds = min(self._patience, _CONNECT_SECONDS)
            try:
                return await self._client.rpc.connect(worker, timeout=seconds)
            except (OSError, TimeoutError):
                waited += seconds
                if waited >= self._patience:
                    raise
                identity = await self._client.scheduler.identity()
                if worker not in identity["workers"]:
                    raise

    async def _on_loop_of_client(self, coroutine: Coroutine[object, None, Any]) -> Any:
        """Return the result of a coroutine on the client's event loop, which may be that of another thread."""
        loop = self._client.loop.asyncio_loop
        if asyncio.get_running_loop() is loop:
            return await coroutine
        outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()
        running: list[EagerTask] = []

        def deliver(task: EagerTask) -> None:
            error = task.cancelled_by if task.cancelled() else task.exception()
            if not outcome.set_running_or_notify_cancel():
                return
            if error is None:
                outcome.set_result(task.result())
            else:
                outcome.set_exception(error)

        def begin() -> None:
            running.append(start_task(coroutine, contextvars.Context(), "call of a stage", deliver))

        loop.call_soon_threadsafe(begin)
        try:
            return await asyncio.wrap_future(outcome)
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in running])
            raise


def _message_of_arrays(arrays: Sequence[Any], address: str) -> dict[str, Any]:
    """Return what a message says of arrays; `address` is that of the worker, at either end of the connection."""
    found = [None if array is None else compact(array) for array in arrays]
    if address.startswith("inproc"):
        # A connection within the process hands on the arrays themselves: neither end is to see what the other writes.
        found = [None if one is None else (one[0].copy(), one[1]) for one in found]
    message = {
        "arrays": [None if one is None else to_serialize(one[0]) for one in found],
        "layouts": [None if one is None else one[1] for one in found],
    }
    # The first frame is read together with the head, which leaves it unaligned in memory that it does not own.
    return message if size_of(arrays) < _LARGE_BYTES else {"first": to_serialize(_FIRST), **message}


def _arrays_of_message(message: Mapping[str, Any]) -> list[Any]:
    """Return arrays that have arrived: aligned, for NumPy sums others slower, and in another order."""
    return [
        None if block is None else expand(_own(block), layout)
        for block, layout in zip(message["arrays"], message["layouts"], strict=True)
    ]


def _own(block: np.ndarray) -> np.ndarray:
    return owned(block) if block.flags.aligned and block.nbytes >= _LARGE_BYTES else block.copy()
