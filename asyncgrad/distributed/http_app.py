"""http_app: the stages of an owner, served over HTTP: it runs what the owner has registered, and no code of clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, final

from ..core.engine.measured_calls import ALWAYS_ON_WORKER
from ..core.settings.arguments import describe, must_be, number, whole_number
from ..core.settings.extras import missing_extra
from ..core.settings.scheduling import OFFLOAD_THRESHOLD
from ..errors import ArgumentError, ArgumentTypeError, BusyError, PayloadError
from .authentication import authenticator
from .definition import Definition
from .failures import describe_error, describe_to_stranger
from .finite import check_inputs
from .guard import Guard
from .host import StageHost
from .limits import Limits
from .payload import size_of
from .requests import check_request
from .transport import Reply, Request
from .wire import CONTENT_TYPE, check_length, decode, encode, head_bytes, message_bytes, read_bytes

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise missing_extra("http_app needs Starlette", "serve", error=error) from error

__all__ = ["http_app"]

#: Messages of more bytes are read and written on a worker thread, and so are those with larger heads, or with more
#: arrays or other things in a list: the loop has other clients (test_what_takes_long_to_read_is_read_on_a_worker).
_LARGE = 1 << 18
_LARGE_HEAD = 1 << 14
_MANY = 256

#: What a stranger may send to ask whether the server is there.
_PING = 1 << 12


def http_app(
    stages: Mapping[str, object],
    *,
    authenticate: Callable[..., Any] | None = None,
    share_parameters: bool = False,
    replicas: bool = False,
    allow_nonfinite: bool = False,
    show_errors: bool = False,
    max_bytes: int = 1 << 28,
    max_stages: int = 256,
    max_calls: int = 1024,
    max_transactions: int = 1024,
    max_requests: int = 1024,
    max_held_bytes: int = 1 << 30,
    max_groups: int = 16,
    body_timeout: float = 60.0,
    ttl: float = 3600.0,
    clock: Callable[[], float] = time.monotonic,
) -> Any:
    """Return an ASGI application that serves stages to `HttpTransport`: run it by uvicorn, or mount it.

    A client calls a stage, gets outputs and input gradients, and has its optimizer make steps; see docs/security.md.
    On the loop of the server, `app.state.counts()` returns what each client holds, by its name.

    Args:
        stages: by name, a Module, a function of the inputs, or an `ag.distributed.Definition`, which may have
            parameters and an optimizer. A Module learns, and one client at a time has it, and what shares a parameter
            with it, until that closes its stage or is silent for `ttl` seconds. Else each has a copy.
        authenticate: a key, keys by the names of clients, or a function of the request, which may be async, that
            returns the client's name or None. A stage belongs to its client. Without it everybody is one client.
        share_parameters: whether clients may read and set parameters, which `backup=True` at the client needs.
        replicas: whether the clients may meet here as replicas: see `RemoteGroup`.
        allow_nonfinite: whether inputs, gradients, and what a step makes of the parameters, may be NaN or infinite.
        show_errors: whether clients see whole errors; or the type, and an id in the log `asyncgrad.distributed`.
        max_bytes: the most bytes that the arrays of a message may have, on either way.
        max_stages: how many stages a client may have at a time.
        max_calls: how many calls of a client may run, or have their graph kept.
        max_transactions: how many backward passes of a client may be under way.
        max_requests: how many requests of a client may be under way.
        max_held_bytes: the most bytes of inputs, outputs and gradients that are kept for a client, or arrive; and
            those of all groups together.
        max_groups: how many groups of replicas a client may have begun.
        body_timeout: the seconds in which a message must arrive.
        ttl: after how many seconds a graph or a stage that no client asks for is dropped.
        clock: the seconds since some time.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import nn
        >>> app = ag.distributed.http_app({"encoder": nn.Linear(3, 2)})
        >>> [route.path for route in app.routes]
        ['/call']
    """
    definitions = {name: _as_definition(name, one) for name, one in stages.items()}
    limits = Limits(max_stages, max_calls, max_transactions, max_requests, max_held_bytes, max_groups)
    tell = _describe_all if show_errors else describe_to_stranger
    size, seconds = whole_number(max_bytes, "max_bytes", 1), number(body_timeout, "body_timeout", 0)
    host = _make_host(definitions, size, allow_nonfinite, tell, ttl, clock)
    guard = Guard(definitions, host, limits, share_parameters, replicas, tell, ttl, clock)
    return _application(_Endpoint(guard, authenticator(authenticate), size, seconds, allow_nonfinite, tell), guard)


def _application(endpoint: _Endpoint, guard: Guard) -> Any:
    app = Starlette(routes=[Route("/call", endpoint.call, methods=["POST"])])
    app.state.counts = guard.counts
    return app


def _make_host(
    definitions: Mapping[str, Definition],
    max_bytes: int,
    allow_nonfinite: bool,
    tell: Callable[[BaseException], dict[str, Any]],
    ttl: float,
    clock: Callable[[], float],
) -> StageHost:
    return StageHost(
        load=definitions.__getitem__,
        ttl=ttl,
        stage_ttl=ttl,
        max_bytes=max_bytes,
        allow_nonfinite=allow_nonfinite,
        describe=tell,
        clock=clock,
    )


@final
class _Endpoint:
    """HTTP on one side, a Guard on the other."""

    def __init__(
        self,
        guard: Guard,
        identify: Callable[[Any], Any],
        max_bytes: int,
        seconds: float,
        allow_nonfinite: bool,
        tell: Callable[[BaseException], dict[str, Any]],
    ) -> None:
        self._guard = guard
        self._identify = identify
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._allow_nonfinite = allow_nonfinite
        self._tell = tell

    async def call(self, http: Any) -> Any:
        """Answer a request, by a status that says what is wrong with it."""
        if http.headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
            return PlainTextResponse(f"a request has the content type {CONTENT_TYPE}, as HttpTransport sends it", 415)
        # Not below: what the owner's function raises is no answer to a stranger, whatever its type
        # (test_what_authenticate_raises_is_told_to_nobody).
        client = await self._identify(http)
        try:
            return await self._call(http, client)
        except PayloadError as error:
            return _refusal(error, 413)
        except BusyError as error:
            return _refusal(error, 429)
        except PermissionError as error:
            return _refusal(error, 403)
        except TimeoutError:
            return PlainTextResponse(f"the request did not arrive within {self._seconds:g} s", 408)
        except ClientDisconnect:
            return PlainTextResponse("the client has gone", 400)
        except _NotARequestError as error:
            return _refusal(f"this is no request of a stage: {error}", 400)

    async def _call(self, http: Any, client: str | None) -> Any:
        if client is None:
            return await self._call_of_stranger(http)
        limit = message_bytes(self._max_bytes)
        size = _content_length(http)
        if size is not None:
            check_length(size, limit, "the request")
        with self._guard.arriving(client, limit if size is None else size) as count:
            data = await self._read(http, limit)
            is_large = len(data) > _LARGE or head_bytes(data) > _LARGE_HEAD
            request, error = await _apart(is_large, self._decode, data)
            count(len(data), request)
            del data
            # What is answered while it computes tells clients that the server is there: functions, and bodies of
            # backward passes, run on workers, however short they were so far
            # (test_a_server_that_computes_answers_whether_it_is_there).
            ALWAYS_ON_WORKER.set(True)
            OFFLOAD_THRESHOLD.set(0.0)
            reply = Reply({"error": self._tell(error)}) if error else await self._guard.handle(client, request)
            body = await _apart(_is_large(reply), self._encode, reply)
        return Response(body, media_type=CONTENT_TYPE)

    async def _call_of_stranger(self, http: Any) -> Any:
        """Tell a stranger that the server is there, and nothing else."""
        try:
            request, _ = self._decode(await self._read(http, _PING))
            is_ping = request.op == "ping"
        except (PayloadError, _NotARequestError):
            is_ping = False
        if is_ping:
            return Response(_encode(Reply()), media_type=CONTENT_TYPE)
        return PlainTextResponse("this server does not know you: HttpTransport(..., key=...) sends the key", 401)

    async def _read(self, http: Any, limit: int) -> bytearray:
        async with asyncio.timeout(self._seconds):
            return await read_bytes(http.stream(), limit, "the request")

    def _encode(self, reply: Reply) -> bytes:
        try:
            return _encode(reply)
        except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, PayloadError):
                raise
            # What the owner's function has returned makes no message.
            return _encode(Reply({"error": self._tell(error)}))

    def _decode(self, data: bytearray) -> tuple[Request, Exception | None]:
        """Return a request, and the error that its stage answers at once."""
        try:
            head, arrays = decode(data, self._max_bytes)
            if not isinstance(head["op"], str) or not isinstance(head["stage"], str):
                raise TypeError("'op' and 'stage' are strings")
            if not isinstance(head["fields"], dict):
                raise TypeError("'fields' is a dict")
            request = Request(head["op"], head["stage"], head["fields"], arrays)
            check_request(request, self._allow_nonfinite)
        except PayloadError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise _NotARequestError(str(error)) from None
        # Of replicas, whatever they sum is theirs.
        if not self._allow_nonfinite and request.op != "all_reduce":
            try:
                check_inputs(arrays, f"the request {request.op!r}")
            except ArgumentError as error:
                return request, error
        return request, None


@final
class _NotARequestError(Exception):
    """A body is no request."""


def _refusal(why: object, status: int) -> Any:
    # It may quote what a client sent, of which no bytes can be made.
    return PlainTextResponse(str(why).encode(errors="backslashreplace"), status)


def _encode(reply: Reply) -> bytes:
    return encode({"fields": reply.fields}, reply.arrays)


def _is_large(reply: Reply) -> bool:
    return (
        len(reply.arrays) > _MANY
        or size_of(reply.arrays) > _LARGE
        or any(isinstance(one, list) and len(one) > _MANY for one in reply.fields.values())
    )


async def _apart(is_large: bool, work: Callable[[Any], Any], value: Any) -> Any:
    """Return what a function makes of a message: on a worker thread if that is large."""
    return await asyncio.to_thread(work, value) if is_large else work(value)


def _content_length(http: Any) -> int | None:
    text = http.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _describe_all(error: BaseException) -> dict[str, Any]:
    return describe_error(error, None)


def _as_definition(name: Any, found: Any) -> Definition:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"stages are registered by name, not by {describe(name)}")
    definition = found if isinstance(found, Definition) else Definition(found)
    if not callable(definition.fn):
        raise ArgumentTypeError(must_be(f"stage {name!r}", "a function, a Module or a Definition", found))
    return definition
