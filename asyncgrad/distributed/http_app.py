"""http_app: the stages of an owner, served over HTTP: it runs what the owner has registered, and no code of clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, final

from ..arguments import describe, number
from ..errors import ArgumentError, ArgumentTypeError, BusyError, PayloadError, UnknownStageError
from ..learn.calls import ALWAYS_ON_WORKER
from ..nn.module import Module
from ..scheduling import OFFLOAD_THRESHOLD
from .definition import Definition
from .failures import describe_error
from .host import StageHost
from .transport import Reply, Request
from .wire import decode, encode, message_bytes, read_bytes

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise ImportError("http_app needs Starlette: pip install 'asyncgrad[serve]'") from error

__all__ = ["http_app"]

#: What any client may ask for. Each of these returns outputs, gradients of inputs, or nothing.
_OPEN = frozenset(
    {
        *("backward", "cancel", "commit", "create", "drop", "finish", "forward"),
        *("free", "outcome", "ping", "prepare", "ready", "roll_back", "step", "zero_grad"),
    }
)

#: What shows or sets the parameters.
_PRIVATE = frozenset(("load_state", "restore", "state"))

#: What replicas ask for.
_OF_REPLICAS = frozenset(("abort", "all_reduce"))


def http_app(
    stages: Mapping[str, Any],
    *,
    share_parameters: bool = False,
    replicas: bool = False,
    max_bytes: int = 1 << 28,
    max_stages: int = 256,
    body_timeout: float = 60.0,
    ttl: float = 3600.0,
    clock: Callable[[], float] = time.monotonic,
) -> Any:
    """Return an ASGI application that serves stages to `HttpTransport`: run it by uvicorn, or mount it.

    A client names a stage, calls it with arrays, and gets its outputs and the gradients of its inputs. It has the
    stage's optimizer make steps, and sees no parameter. Who may connect is the server's to decide, by TLS or a token.

    Args:
        stages: by name, a Module, a function of the inputs, or an `ag.distributed.Definition`, which may have
            parameters and an optimizer. A Module is the owner's own: it learns, and one client at a time has it, until
            that closes its stage or is silent for `ttl` seconds. Of a function with parameters each has a copy.
        share_parameters: whether clients may read and set parameters, which `backup=True` at the client needs.
        replicas: whether the clients may meet here as replicas: see `RemoteGroup`.
        max_bytes: the most bytes that the arrays of a message may have, on either way.
        max_stages: how many stages clients may have at a time.
        body_timeout: the seconds in which a message must arrive.
        ttl: after how many seconds a graph or a stage that no client asks for is dropped.
        clock: the seconds since some time.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import nn, optim
        >>> make = lambda model: optim.SGD(model, lr=0.1)
        >>> app = ag.distributed.http_app({"encoder": ag.distributed.Definition(nn.Linear(3, 2), optimizer=make)})
        >>> [route.path for route in app.routes]
        ['/call']
    """
    server = _Server(stages, share_parameters, replicas, max_bytes, max_stages, ttl, clock)
    seconds = number(body_timeout, "body_timeout", 0)

    async def call(http: Any) -> Any:
        try:
            async with asyncio.timeout(seconds):
                data = await read_bytes(http.stream(), message_bytes(max_bytes), "the request")
            head, arrays = decode(data, max_bytes)
            request = Request(str(head["op"]), str(head["stage"]), dict(head["fields"]), arrays)
        except PayloadError as error:
            return PlainTextResponse(str(error), 413)
        except TimeoutError:
            return PlainTextResponse(f"the request did not arrive within {seconds:g} s", 408)
        except ClientDisconnect:
            return PlainTextResponse("the client has gone", 400)
        except (ArgumentError, KeyError, TypeError, ValueError) as error:
            return PlainTextResponse(f"this is no request of a stage: {error}", 400)
        try:
            reply = await server.handle(request)
        except PermissionError as error:
            return PlainTextResponse(str(error), 403)
        return Response(encode({"fields": reply.fields}, reply.arrays), media_type="application/octet-stream")

    return Starlette(routes=[Route("/call", call, methods=["POST"])])


@final
class _Server:
    """A StageHost, with what an owner who does not trust its clients needs: names, limits, and nothing private."""

    def __init__(
        self,
        stages: Mapping[str, Any],
        share_parameters: bool,
        replicas: bool,
        max_bytes: int,
        max_stages: int,
        ttl: float,
        clock: Callable[[], float],
    ) -> None:
        self._definitions = {name: _as_definition(name, one) for name, one in stages.items()}
        self._host = StageHost(
            load=self._definitions.__getitem__, ttl=ttl, stage_ttl=ttl, max_bytes=max_bytes, clock=clock
        )
        self._allowed = _OPEN | (_PRIVATE if share_parameters else set()) | (_OF_REPLICAS if replicas else set())
        self._share_parameters = share_parameters
        self._max_stages = max_stages
        self._ttl = ttl
        self._clock = clock
        #: By the name of a client's stage, the registered name and when it was last asked for.
        self._open: dict[str, tuple[str, float]] = {}

    async def handle(self, request: Request) -> Reply:
        """Answer a request.

        Raises:
            PermissionError: clients may not ask for that.
        """
        if request.op not in self._allowed:
            raise PermissionError(f"this server does not answer {request.op!r}: the parameters are its owner's")
        if request.fields.get("options"):
            raise PermissionError("the options of the optimizer are its owner's: call step() without any")
        if request.fields.get("wants_state") and not self._share_parameters:
            raise PermissionError("the parameters are their owner's: make the stage with backup=False")
        if request.op == "create":
            try:
                await self._admit(request)
            except Exception as error:
                return Reply({"error": describe_error(error, None)})
        elif request.stage in self._open:
            self._open[request.stage] = self._open[request.stage][0], self._clock()
        # What is answered while it computes tells clients that the server is there: functions, and bodies of backward
        # passes, run on workers, however short they were so far.
        # test_a_server_that_computes_answers_whether_it_is_there
        ALWAYS_ON_WORKER.set(True)
        OFFLOAD_THRESHOLD.set(0.0)
        reply = await self._host.handle(request)
        if request.op in ("create", "drop") and not self._host.has(request.stage):
            # One that comes late is refused, and the stage is still the client's.
            # test_a_late_create_or_drop_takes_no_stage_from_its_client
            self._open.pop(request.stage, None)
        return reply

    async def _admit(self, request: Request) -> None:
        name, now = request.fields.get("definition"), self._clock()
        if "definition" not in request.fields:
            # A client that goes on with what it had, after its connection broke.
            if request.stage not in self._open:
                raise UnknownStageError(f"there is no stage {request.stage} here")
            name = self._open[request.stage][0]
        if not isinstance(name, str) or name not in self._definitions:
            raise ArgumentError(f"no stage is registered under {name!r} here; there are {sorted(self._definitions)}")
        for stage, (_, touched) in list(self._open.items()):
            if touched < now - self._ttl:
                del self._open[stage]
                await self._host.handle(Request("drop", stage))
        if request.stage not in self._open:
            if len(self._open) >= self._max_stages:
                raise BusyError(f"clients have {self._max_stages} stages here, and may not have more: try again later")
            is_shared = isinstance(self._definitions[name].fn, Module)
            if is_shared and any(other == name for other, _ in self._open.values()):
                raise BusyError(f"another client has stage {name!r}, which learns from one at a time: try again later")
        self._open[request.stage] = name, now


def _as_definition(name: Any, found: Any) -> Definition:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"stages are registered by name, not by {describe(name)}")
    definition = found if isinstance(found, Definition) else Definition(found)
    if not callable(definition.fn):
        raise ArgumentTypeError(f"stage {name!r} must be a function, a Module or a Definition, not {describe(found)}")
    return definition
