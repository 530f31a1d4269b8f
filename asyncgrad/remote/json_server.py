"""JsonServer: a server that is asked in JSON by a client of the user's, and what may be wrong with what it answers."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NoReturn, TypeAlias, final

from ..core.engine.eager_task import EagerTask
from ..core.engine.offloading import call_on_worker
from ..core.settings.arguments import check_callable, must_be, whole_number
from ..core.settings.context import CURRENT_NODE
from ..core.settings.extras import missing_extra
from ..distributed.exchange import Exchange, reply_to
from ..errors import ArgumentError, ArgumentTypeError, RemoteError, WorkerLostError

try:
    import httpx
except ImportError as error:
    raise missing_extra("asyncgrad.remote needs httpx", "umbridge", "tesseract", error=error) from error

__all__ = ["Ask", "Decorator", "JsonServer", "wanted_inputs"]

#: Sends one request: the path, and the body, which None makes a GET of; returns what the reply holds.
Ask: TypeAlias = Callable[[str, "Mapping[str, object] | None"], Coroutine[object, None, object]]
#: What the user puts around each request: `ag.limit(requests=4)`, or `tenacity.retry(...)`.
Decorator: TypeAlias = Callable[[Ask], Ask]

#: Replies of more bytes are read as JSON on a worker thread.
_LARGE = 1 << 20
#: How much of an answer that is an error is shown.
_SHOWN = 1000
#: Shows the beginning of an answer that may have millions of numbers.
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxstring, _SHORT.maxlong = 8, 20, 20, 200, 100
#: How many seconds httpx has to take a connection for a request that was cancelled, until that is cancelled too.
_PATIENCE = 10.0
#: A server that has too much to do, or is being stopped, or a proxy whose server has gone: another try may succeed.
_MAY_PASS = (429, 502, 503, 504)


@final
class JsonServer:
    """A server, and the client that asks it.

    Args:
        client: has the address as its `base_url`.
        what: what errors call that which is asked.
        decorator: what is put around each request; None for nothing.
        max_bytes: the most bytes of a reply.
        accept: the media type that is asked for.
        refusal: makes an error of the status and the text of an answer that is none; may return None for RemoteError.
    """

    __slots__ = ("_accept", "_client", "_given_up", "_max_bytes", "_refusal", "ask", "what")

    def __init__(
        self,
        client: httpx.AsyncClient,
        what: str,
        *,
        decorator: Decorator | None,
        max_bytes: int,
        accept: str,
        refusal: Callable[[int, str], Exception | None],
    ) -> None:
        if not isinstance(client, httpx.AsyncClient):
            hint = f"write httpx.AsyncClient(base_url={client!r})" if isinstance(client, str) else "write one"
            raise ArgumentTypeError(must_be("client", "an httpx.AsyncClient", client, hint))
        if client.base_url.scheme not in ("http", "https") or not client.base_url.host:
            raise ArgumentError(
                "the client has no address of a server: write httpx.AsyncClient(base_url='http://localhost:4242')"
            )
        self._client = client
        self.what = f"{what} at {client.base_url}"
        self._accept, self._refusal = accept, refusal
        self._max_bytes = whole_number(max_bytes, "max_bytes", 1)
        #: What httpx still does for requests that nobody waits for any more.
        self._given_up: set[EagerTask] = set()
        if decorator is not None:
            check_callable(decorator, "decorator", "with an async function", "pass ag.limit(...)", ArgumentTypeError)
        #: Sends a request, with the user's decorator around it.
        self.ask: Ask = self._ask if decorator is None else decorator(self._ask)
        hint = "let it return the async function that it makes of the one that it takes"
        check_callable(self.ask, "what the decorator returns", "with a path and a body", hint, ArgumentTypeError)

    async def _ask(self, path: str, body: Mapping[str, object] | None) -> object:
        """Return what the reply to a request holds; None for `body` makes it a GET.

        Raises:
            WorkerLostError: no answer came; the request may be made again.
            PayloadError: the reply has more than `max_bytes`.
            RemoteError: the server refuses the request, or answers no JSON.
            ArgumentError: the request cannot be said in JSON.
        """
        content = None if body is None else self._as_json(body)
        status, data = await self._exchange(path, content)
        if status != 200:
            raise self._refused(path, status, bytes(data).decode(errors="replace"))
        read = partial(self._read, path, data)
        return await call_on_worker(read) if len(data) > _LARGE else read()

    async def _exchange(self, path: str, content: bytes | None) -> tuple[int, bytearray]:
        """Return the status and the bytes of the reply, whatever it says."""
        new_exchange = partial(
            Exchange,
            self._client,
            path,
            content or b"",
            headers={"content-type": "application/json", "accept": self._accept},
            timeout=self._client.timeout,
            patience=_PATIENCE,
            given_up=self._given_up,
            method="GET" if content is None else "POST",
        )
        try:
            # No request changes anything at the server.
            lost = httpx.NetworkError, httpx.ProtocolError
            return await reply_to(new_exchange, lost, self._max_bytes, f"the reply of {self.what} to {path}")
        except httpx.TimeoutException as error:
            raise WorkerLostError(
                f"{self.what} has not answered {path} within {self._client.timeout}: where it takes longer, write "
                "httpx.AsyncClient(base_url=..., timeout=httpx.Timeout(3600.0, connect=10.0))"
            ) from error
        except httpx.TransportError as error:
            raise WorkerLostError(
                f"{self.what} does not answer {path}: {str(error) or type(error).__name__}; does it run there?"
            ) from error
        except httpx.RequestError as error:
            raise RemoteError(f"{self.what} answers {path} with what cannot be read: {error}") from error

    def _as_json(self, body: Mapping[str, object]) -> bytes:
        try:
            return json.dumps(body, allow_nan=False).encode()
        except ValueError as error:
            raise ArgumentError(f"{self.what} is asked in JSON, which has no NaN and no infinity: {error}") from None
        except TypeError as error:
            raise ArgumentTypeError(f"{self.what} is asked in JSON: {error}") from None

    def _read(self, path: str, data: bytearray) -> object:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            shown = bytes(data[:_SHOWN]).decode(errors="replace")
            raise RemoteError(f"{self.what} answers {path} with what is no JSON ({error}): {shown}") from None

    def _refused(self, path: str, status: int, text: str) -> Exception:
        if status in _MAY_PASS:
            return WorkerLostError(f"{self.what} answers {path} with {status}: {text[:_SHOWN]}")
        found = self._refusal(status, text)
        return RemoteError(f"{self.what} answers {path} with {status}: {text[:_SHOWN]}") if found is None else found

    def complain(self, path: str, expected: str, found: object) -> NoReturn:
        """Raise, since a reply is not what the protocol says.

        Raises:
            RemoteError: always.
        """
        raise RemoteError(f"{self.what} must answer {path} with {expected}, and answers {_SHORT.repr(found)[:_SHOWN]}")


def wanted_inputs(count: int) -> list[bool]:
    """Tell for each of the tensors that a Function took whether the backward that runs its rule here needs a gradient.

    So a gradient by one input asks for no other, and one by a vector for no second derivative.
    """
    node: Any = CURRENT_NODE.get()
    return [bool(node.task_should_compute_output(index)) for index in range(count)]
