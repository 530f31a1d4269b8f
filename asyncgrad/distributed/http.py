"""HttpTransport: stages that other owners serve over HTTP. No code travels: a stage is what its owner has registered.

`http_app` is the other end. `wire` tells what a message looks like.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, final

from ..core.engine.eager_task import EagerTask
from ..core.settings.arguments import describe, number
from ..core.settings.extras import missing_extra
from ..errors import ArgumentError, ArgumentTypeError, BusyError, PayloadError, RemoteError, StageLost, WorkerLostError
from .authentication import bearer
from .concurrency import run_patiently, wait_until_done
from .definition import Definition
from .exchange import Exchange, reply_to
from .failures import unknown_worker
from .open_stages import OpenStages
from .outbox import Outbox
from .replies import checked
from .stage import Stage
from .transport import Reply, Request
from .wire import CONTENT_TYPE, decode, encode, message_bytes

try:
    import httpx
except ImportError as error:
    raise missing_extra("stages over HTTP need httpx", "serve", error=error) from error

__all__ = ["HttpTransport"]


#: The last port that TCP has.
_LAST_PORT = 65535


@final
class HttpTransport:
    """A transport to the owners of stages who serve them by `ag.distributed.http_app`.

    Neither side runs code of the other, or unpickles what it sends. Use it as an async context manager, or await
    `aclose()`: connections, and the stages that they brought to their servers, belong to an event loop, and end then.

    A call that is cancelled closes its connection, or gives it back, at the latest when `patience` seconds are over. So
    no descriptor stays behind, however many calls are cancelled.

    Args:
        workers: the addresses of the servers, such as "https://lab.example/stages".
        client: makes the `httpx.AsyncClient` of an event loop, with the headers and certificates that you need; it
            should allow more connections than you have calls at a time. Its timeouts are not used.
        patience: how many seconds a server may be silent before it is asked, over another connection, whether it is
            there; if it does not answer in as many seconds again, it counts as lost.
        max_bytes: the most bytes that the arrays of a message may have.
        key: what the owners know this client by, where `http_app` was given `authenticate`; all addresses get it, so
            use one transport for each owner that does not trust the others.

    Example:
        >>> import httpx, asyncgrad as ag
        >>> async def main():
        ...     app = ag.distributed.http_app({"double": lambda x: 2 * x})
        ...     connect = lambda: httpx.AsyncClient(transport=httpx.ASGITransport(app=app))
        ...     async with ag.distributed.HttpTransport(["http://owner"], client=connect) as transport:
        ...         x = ag.tensor(3.0, requires_grad=True)
        ...         async with transport.stage("double") as double:
        ...             await (await double(x)).backward()
        ...         return x.grad.item()
        >>> ag.run(main())
        2.0
    """

    def __init__(
        self,
        workers: Iterable[str],
        *,
        client: Callable[..., Any] | None = None,
        patience: float = 10.0,
        max_bytes: int = 1 << 30,
        key: str | bytes | None = None,
    ) -> None:
        if isinstance(workers, str):
            raise ArgumentTypeError(f"workers is a list of addresses, not one: write [{workers!r}]")
        if not isinstance(workers, Iterable):
            raise ArgumentTypeError(f"workers is a list of addresses of servers, not {describe(workers)}")
        self._workers = [_address(one) for one in workers]
        if not self._workers:
            raise ArgumentError("workers is empty: name the address of a server, such as 'https://lab.example/stages'")
        self.max_bytes: int = max_bytes
        self._headers = {"content-type": CONTENT_TYPE, **bearer(key)}
        self._make_client = _new_client if client is None else client
        self._patience = number(patience, "patience", 0)
        #: One for each event loop. A finalizer may look at it in the midst of a change: it is replaced, never changed.
        self._connections: tuple[_Connections, ...] = ()
        self._connecting = threading.Lock()
        #: The loops on which it was closed: what is asked there opens nothing that nobody would close.
        self._closed: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    def stage(self, name: str, *, worker: str | None = None, backup: bool = False) -> Stage:
        """Return the stage that a server has registered under a name.

        Args:
            name: its name there.
            worker: the address of the server; None for the first.
            backup: whether home keeps what another server needs to take over. Each `Stage.step` then brings the
                parameters home, which the server must allow.
        """
        if not isinstance(name, str):
            raise ArgumentTypeError(f"a stage over HTTP is named as its owner has registered it, not {describe(name)}")
        at = self._workers[0] if worker is None else _address(worker)
        return Stage(Definition(name), self, at, allow_other_workers=backup, backup=backup, name=name)

    def export(self, definition: Definition) -> object:
        """Return the name of a registered definition.

        Raises:
            ArgumentTypeError: it is a function or a Module.
        """
        if not isinstance(definition.fn, str):
            raise ArgumentTypeError(
                "no code travels over HTTP: have the owner of the server register the stage by http_app({name: ...}), "
                "and write transport.stage(name)"
            )
        return definition.fn

    def load_error(self, data: bytes) -> BaseException | None:
        """Return None: errors are made by their types, and no pickle is read."""
        return None

    async def workers(self) -> Sequence[str]:
        """Return the addresses."""
        return list(self._workers)

    async def call(self, worker: str, request: Request) -> Reply:
        """Return the reply of a server, however long it takes; while there is none, it is asked whether it is there.

        Raises:
            WorkerLostError: the connection broke, or the server is silent.
            PayloadError: the request or the reply is larger than the server, or this transport, allows.
            PermissionError: the server does not allow the request, or does not know the key.
            BusyError: the client has as much under way, or holds as much, as the server lets it.
        """
        if worker not in self._workers:
            raise unknown_worker(worker, self._workers)
        connections = self._connections_here()
        connections.opened.note(worker, request)
        exchange, check = self._exchange(connections, worker, request), partial(self._check, connections, worker)
        reply: Reply = await run_patiently(exchange, check, self._patience, "ask a server")
        return reply

    def send(self, worker: str, request: Request) -> None:
        """Have a request sent whose reply nobody needs, if there is an event loop with connections.

        May be called by a finalizer, from any thread and in the midst of any code: the request goes out in a later turn
        of this thread's loop, or of another one that has connections. `Outbox` says how many are kept and under way.
        """
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        found = [one for one in self._connections if not one.loop.is_closed()]
        # None: nothing runs that could carry it, and the host drops what it would have dropped when its time is over.
        for one in sorted(found, key=lambda one: one.loop is not here)[:1]:
            one.outbox.put(worker, request)

    async def aclose(self) -> None:
        """End the stages that were brought to their servers on this event loop, and close its connections.

        Before, what `send` was given goes out. What is asked of it on this loop after that raises StageLost.
        """
        loop = asyncio.get_running_loop()
        self._closed.add(loop)
        for one in [one for one in self._connections if one.loop is loop]:
            for worker, request in one.opened.take():
                one.outbox.put(worker, request)
            await one.outbox.flush()
            with self._connecting:
                self._connections = tuple(other for other in self._connections if other is not one)
            for task in list(one.given_up):
                task.cancel()
                await wait_until_done(task)
            await one.client.aclose()

    async def __aenter__(self) -> HttpTransport:
        self._closed.discard(asyncio.get_running_loop())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _connections_here(self) -> _Connections:
        loop = asyncio.get_running_loop()
        for one in self._connections:
            if one.loop is loop:
                return one
        if loop in self._closed:
            raise StageLost("this transport was closed, and its stages with it: make another one")
        added = _Connections(loop, self._make_client(), Outbox(loop, self.call), set(), OpenStages())
        with self._connecting:
            self._connections = (*(one for one in self._connections if not one.loop.is_closed()), added)
        return added

    async def _check(self, connections: _Connections, worker: str) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._exchange(connections, worker, Request("ping", ""))
        except TimeoutError:
            raise WorkerLostError(f"server {worker} has been silent for {2 * self._patience:g} s") from None

    def _new_exchange(self, connections: _Connections, worker: str, body: bytes) -> Exchange:
        return Exchange(
            connections.client,
            f"{worker}/call",
            body,
            headers=self._headers,
            timeout=httpx.Timeout(None, connect=self._patience),
            patience=self._patience,
            given_up=connections.given_up,
        )

    async def _exchange(self, connections: _Connections, worker: str, request: Request) -> Reply:
        body = encode({"op": request.op, "stage": request.stage, "fields": request.fields}, request.arrays)
        new_exchange = partial(self._new_exchange, connections, worker, body)
        try:
            # Each request has a number, by which a server that had got it answers as before.
            limit, lost = message_bytes(self.max_bytes), (httpx.NetworkError, httpx.ProtocolError)
            status, data = await reply_to(new_exchange, lost, limit, f"the reply of {worker}")
        except httpx.TransportError as error:
            raise WorkerLostError(
                f"server {worker} does not answer: {str(error) or type(error).__name__}{_hint(worker, error)}"
            ) from error
        except httpx.RequestError as error:
            raise RemoteError(f"server {worker} answers what cannot be read: {error}") from error
        if status != 200:
            raise _refusal(worker, status, data)
        try:
            head, arrays = decode(data, self.max_bytes)
            return checked(request, Reply(head["fields"], arrays))
        except (ArgumentError, LookupError, TypeError) as error:
            raise RemoteError(
                f"server {worker} answers {request.op!r} with no reply of a stage, as http_app makes it: {error}"
            ) from None


class _Connections(NamedTuple):
    """What belongs to one event loop."""

    loop: asyncio.AbstractEventLoop
    client: Any
    outbox: Outbox
    #: What httpx still does for requests that nobody waits for any more.
    given_up: set[EagerTask]
    #: What it has brought to servers.
    opened: OpenStages


def _new_client() -> Any:
    # As many connections as calls: one that asks whether a server is there must not wait for those that are silent.
    return httpx.AsyncClient(limits=httpx.Limits(max_connections=None))


def _address(worker: Any) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        ArgumentTypeError: it is no string.
        ArgumentError: no request can be sent there.
    """
    if not isinstance(worker, str):
        raise ArgumentTypeError(f"the address of a server is a string, not {describe(worker)}")
    why = None
    try:
        url = httpx.URL(worker)
        url.host.encode("idna")
        if url.scheme not in ("http", "https") or not url.host:
            why = "it begins with http:// or https://, and the name of a host"
        elif url.query or url.fragment:
            why = "it ends with a path, and has no ? or #"
        elif (url.port or 0) > _LAST_PORT:
            why = f"a port is at most {_LAST_PORT}"
    except (httpx.InvalidURL, UnicodeError) as error:
        why = str(error)
    if why is not None:
        raise ArgumentError(f"{worker!r} is no address of a server, such as 'https://lab.example/stages': {why}")
    return worker.rstrip("/")


def _hint(worker: str, error: Exception) -> str:
    """Return what may be wrong with an address from which nothing has come."""
    if isinstance(error, httpx.ConnectError):
        return f"; does it run, is its address right, and is it {worker.partition(':')[0]}?"
    if isinstance(error, httpx.RemoteProtocolError) and worker.startswith("http:"):
        return "; has it gone, or is its address one of https://?"
    return ""


def _refusal(worker: str, status: int, data: bytearray) -> Exception:
    text = f"server {worker} answers {status}: {bytes(data[:1000]).decode(errors='replace')}"
    if status in (404, 405):
        return RemoteError(f"{text}: no stages are served there: the address is that of http_app, without /call")
    if 300 <= status < 400:
        return RemoteError(f"{text}: it names another address, which is not followed: write that one")
    if status == 413:
        return PayloadError(text)
    if status == 429:
        return BusyError(text)
    if status in (401, 403):
        return PermissionError(text)
    if status in (502, 503, 504):
        # A proxy whose server has gone, or a server that is being stopped.
        return WorkerLostError(text)
    return RemoteError(text)
