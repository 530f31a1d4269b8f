"""Requests of Starlette and FastAPI: bodies within limits, work that ends with its client, and errors as answers.

Nothing here imports either of them before it must: `exception_handlers` makes responses of Starlette's.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..core.engine.eager_task import EagerTask, start_task
from ..core.settings.arguments import describe, number, takes, truth
from ..core.settings.extras import missing_extra
from ..core.settings.scheduling import no_full_collections
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    BusyError,
    ClientDisconnectedError,
    ExampleError,
    JournalError,
    LearnerClosedError,
    LearningPausedError,
    RequestError,
)
from ..observing.live.application import LiveApplication, checked_names, seconds_of
from ..observing.live.feed import LiveFeed
from .live import LearnerSource

if TYPE_CHECKING:
    from .follower import Follower
    from .learner import Learner

__all__ = [
    "connections",
    "exception_handlers",
    "health_app",
    "journal_app",
    "lifespan",
    "live",
    "read_json",
    "run_for_client",
]

T = TypeVar("T")

#: nginx's status for a connection that the client has closed; nobody receives it.
CLIENT_CLOSED_REQUEST = 499

#: The seconds of work after which its client is watched. Most predictions are done by then, and spared a task, which
#: takes a tenth of their time.
WATCHED_AFTER = 0.01


class ClientRequest(Protocol):
    """Abstract: what is asked of Starlette's or FastAPI's Request."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by their names."""

    @property
    def receive(self) -> Callable[[], Awaitable[Mapping[str, object]]]:
        """Awaits the next message of the client's."""

    def stream(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body."""


async def read_json(request: ClientRequest, *, max_bytes: int = 1_000_000, timeout: float = 10.0) -> Any:
    """Return what the body of a request says, as JSON; read no more than the limit, whatever its content-length says.

    Its content type must say that it is JSON. Any web page can have a browser send what says that it is text or a form,
    or says nothing, to a service on the visitor's machine or network; for JSON the browser asks the service first.

    Args:
        request: Starlette's or FastAPI's Request.
        max_bytes: the most bytes of a body.
        timeout: the seconds in which the body must arrive.

    Raises:
        RequestError: 400 for a body that is not JSON, 408 for one that does not arrive, 413 for one that is too long,
            415 for one that does not say that it is JSON.
    """
    _must_say_json(request.headers.get("content-type", ""))
    body = bytearray()
    try:
        async with asyncio.timeout(number(timeout, "timeout", 0)):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise RequestError(413, f"the body is longer than {max_bytes} bytes: send it in parts")
    except TimeoutError:
        raise RequestError(408, f"the body did not arrive within {timeout:g} s") from None
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise RequestError(400, f"the body is not JSON: {reason}") from None


def _must_say_json(content_type: str) -> None:
    """Raise a RequestError unless a content type is JSON's, or that of a format which is JSON, as problem+json is.

    Browsers do not ask before they send any other that begins as one of theirs does
    (test_what_a_web_page_may_send_unasked_is_not_read).
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise RequestError(
            415,
            f"the body must have the content type application/json, and has {kind or 'none'}: send the header "
            "content-type: application/json, as curl --json does",
        )


async def run_for_client(request: ClientRequest, work: Awaitable[T], *, timeout: float | None = None) -> T:
    """Await work for the client of a request; if the client goes, or time runs out, the work is cancelled.

    A backward that is cancelled leaves every `.grad` as it was. The body of the request must have been read.

    Args:
        request: Starlette's or FastAPI's Request.
        work: what to await: `learner.learn(example)`, or any coroutine with a backward in it.
        timeout: the seconds that it may take; None for no limit.

    Raises:
        ClientDisconnectedError: the client has gone.
        TimeoutError: time has run out.
    """
    if not inspect.isawaitable(work):
        raise ArgumentTypeError(f"run_for_client(request, work) awaits work, which cannot be {describe(work)}")
    has_gone = False
    watcher: EagerTask | None = None

    async def wait() -> T:
        async with asyncio.timeout(timeout):
            return await work

    async def watch() -> None:
        nonlocal has_gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        has_gone = True
        task.cancel()

    def begin_to_watch() -> None:
        nonlocal watcher
        watcher = start_task(watch(), context.copy(), "ag.learn.http watches a client")

    context = contextvars.copy_context()
    task = start_task(wait(), context, "work for a client")
    beginning = None if task.done() else asyncio.get_running_loop().call_later(WATCHED_AFTER, begin_to_watch)
    try:
        result: T = await task
        return result
    except asyncio.CancelledError:
        if has_gone:
            raise ClientDisconnectedError(CLIENT_CLOSED_REQUEST, "the client has disconnected") from None
        raise
    except TimeoutError as error:
        if str(error) or timeout is None:
            raise error from None
        raise TimeoutError(f"not done within {timeout:g} s, and cancelled") from None
    finally:
        if beginning is not None:
            beginning.cancel()
        if watcher is not None and not watcher.cancel() and not watcher.cancelled():
            # A client that can no longer be watched; asyncio would report that nobody has looked at its error.
            watcher.exception()


def lifespan(
    learner: AbstractAsyncContextManager[object], *, collect_garbage: bool = True
) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """Return what runs a learner as long as an application, for the argument `lifespan` of Starlette and FastAPI.

    Args:
        learner: a Learner.
        collect_garbage: whether full garbage collections, which stop the loop, stay as they are. Without, they are kept
            off by `ag.no_full_collections` while the application runs.

    Raises:
        ArgumentTypeError: `learner` is none.

    Example:
        >>> from starlette.applications import Starlette  # doctest: +SKIP
        >>> app = Starlette(lifespan=learn.http.lifespan(learner))  # doctest: +SKIP
    """
    if not hasattr(learner, "__aenter__"):
        raise ArgumentTypeError(takes("learn.http.lifespan", "a Learner", learner, "write learn.Learner(model, ...)"))

    @asynccontextmanager
    async def run(_: object) -> AsyncIterator[None]:
        async with learner:
            if collect_garbage:
                yield
            else:
                with no_full_collections():
                    yield

    return run


def exception_handlers() -> dict[int | type[Exception], Callable[..., Any]]:
    """Return what answers the errors of a learner, for the argument of that name of Starlette and FastAPI.

    An answer is JSON: `{"error": "..."}`. The status is 422 for an example or input that does not fit, 400, 408, 413
    and 415 for a body that cannot be read, 429 where too many wait, 503 where the journal cannot be written, the
    learner is closed or learns nothing for now, or the process has no file descriptors left, 504 after a timeout, 500
    for an error of the service's own. None of these changes the model. Where a system call failed, its file is not
    named.

    Raises:
        ModuleNotFoundError: Starlette is not installed.
    """
    try:
        responses, exceptions = import_module("starlette.responses"), import_module("starlette.exceptions")
        disconnected = import_module("starlette.requests").ClientDisconnect
    except ImportError as error:
        raise missing_extra("exception_handlers() needs Starlette", "serve", error=error) from error

    def answer(status: int, text: str, headers: dict[str, str] | None = None) -> Any:
        return responses.JSONResponse({"error": text}, status, headers)

    def told(status: int, headers: dict[str, str] | None = None) -> Callable[[Any, Any], Awaitable[Any]]:
        async def handle(_: Any, error: Exception) -> Any:
            return answer(status, _without_file(error), headers)

        return handle

    async def refused(_: Any, error: RequestError) -> Any:
        return answer(error.status, error.text, error.headers)

    async def of_http(_: Any, error: Any) -> Any:
        return answer(error.status_code, error.detail, error.headers)

    async def of_system(_: Any, error: OSError) -> Any:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise error
        return answer(503, f"the service is short of descriptors: {_without_file(error)}", _LATER)

    async def own(_: Any, error: Exception) -> Any:
        return answer(500, "an error of the service's own, which its log shows")

    async def gone(_: Any, error: Exception) -> Any:
        return responses.Response(status_code=CLIENT_CLOSED_REQUEST)

    return {
        RequestError: refused,
        ClientDisconnectedError: gone,
        disconnected: gone,
        ExampleError: told(422),
        BusyError: told(429, _LATER),
        JournalError: told(503, _LATER),
        LearnerClosedError: told(503, _LATER),
        LearningPausedError: told(503),
        TimeoutError: told(504),
        exceptions.HTTPException: of_http,
        OSError: of_system,
        Exception: own,
    }


_LATER = {"Retry-After": "1"}


def _without_file(error: BaseException) -> str:
    """Return what an error says, but not which file of the service it is about: a client is not told of those."""
    text = str(error)
    for each in (error, error.__cause__):
        if isinstance(each, OSError) and each.filename is not None:
            text = text.replace(str(each), f"[Errno {each.errno}] {each.strerror}")
    return text


def live(
    learner: Learner, *, loopback_only: bool = True, names: Sequence[str] = (), stuck_after: float = 10.0
) -> LiveApplication:
    """Return the live page of a learner, an application of ASGI to mount beside the routes.

    A browser is shown, while the service runs: predictions, examples and steps in a second, with p50 and p99 of their
    latency; the losses, with what was refused, cancelled or timed out; what waits, against its bound; each running
    backward, and what it waits for; and how late the event loop is. It has numbers and names alone, escaped, runs no
    script but its own, and asks nothing of other machines. At most 16 clients look at a time; one that does not read
    misses what it does not read, and holds nothing.

    Args:
        learner: a Learner, which keeps its last 1024 steps from now on. Nothing else is measured while nobody looks.
        loopback_only: whether clients on other machines are refused. Nobody is asked who they are.
        names: names, besides localhost, by which browsers may call the service. Another one is refused, since the page
            of a stranger, whose name leads to this machine, would be shown what the browser's owner may see.
        stuck_after: the seconds after which a backward in which no node begins or ends is shown as stuck.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is invalid; the message names it.

    Example:
        >>> app.mount("/live", learn.http.live(learner))  # doctest: +SKIP
    """
    if not hasattr(learner, "latencies"):
        raise ArgumentTypeError(takes("learn.http.live", "a Learner", learner, "write http.live(learner)"))
    feed = LiveFeed(LearnerSource(learner), stuck_after=seconds_of(stuck_after))
    only = truth(loopback_only, "loopback_only")
    return LiveApplication(feed, loopback_only=only, names=checked_names(names))


def connections(
    max_connections: int = 256,
    headers_timeout: float = 10.0,
    *,
    body_timeout: float = 30.0,
    write_timeout: float = 10.0,
    spare_after: float = 1.0,
) -> Callable[..., asyncio.Protocol]:
    """Return what makes the connections of uvicorn, for its option `http`, with limits that uvicorn does not have.

    uvicorn waits for headers, bodies, and clients that do not read their answers without a timeout, and accepts any
    number of clients: a few hundred that send one byte a minute, or ask and never read, would use up the file
    descriptors of the process. Where `max_connections` are served, a new client takes the place of one that is idle,
    neither sends nor reads, or always sends further requests ahead of its answers: of the one that does so for longest.
    If none does for `spare_after` seconds, the new one is answered with 503; beyond as many clients again, it is
    disconnected.

    Args:
        max_connections: how many clients are served at a time; fewer where the process may have few descriptors.
        headers_timeout: the seconds in which the headers of a request must arrive; else the answer is 408.
        body_timeout: the seconds in which the next 16 KiB of a body, or its rest, must arrive; else the client is
            disconnected. `read_json` has a limit for the whole.
        write_timeout: the seconds in which a client must take the next 16 KiB of its answers, or the rest; else it is
            disconnected. Until it has taken most of an answer, the next one is not written.
        spare_after: the seconds for which such a connection is kept when another client needs its place.

    Raises:
        ModuleNotFoundError: uvicorn is not installed.

    Example:
        >>> uvicorn.run(app, http=learn.http.connections(max_connections=1000))  # doctest: +SKIP
    """
    module = import_module(".connections", __package__)
    most: int = module.within_descriptors(max_connections)
    seconds = {"headers_timeout": headers_timeout, "body_timeout": body_timeout, "write_timeout": write_timeout}
    for name, value in seconds.items():
        if not number(value, name, 0) > 0:
            raise ArgumentError(f"{name} must be above 0, not {value}")
    limits = module.Limits(most, *map(float, seconds.values()), number(spare_after, "spare_after", 0))
    protocol: Callable[..., asyncio.Protocol] = module.protocol(limits)
    return protocol


def journal_app(
    learner: Learner, *, key: str, max_bytes: int = 4 << 20, max_retained: int = 64 << 20
) -> Callable[..., Awaitable[None]]:
    """Return an application that sends a learner's checkpoint and journal to followers with a key: `learn.follow(url)`.

    Mount it beside your routes. Whoever has the key reads all that the model learns from: serve it over TLS, or on a
    network of yours alone. It sends what was learned, and nothing that may be taken back. Answers to `GET /lines` and
    `GET /checkpoint` begin at a byte that the follower names, so what was cut off is resumed; they change nothing.
    `POST /fence`, which a follower that is promoted sends, has the learner acknowledge nothing more, now and after a
    restart.

    Args:
        learner: a Learner with a directory.
        key: what a follower must send, of 16 characters or more; it is compared in constant time.
        max_bytes: the most bytes of an answer. What is longer is sent in parts.
        max_retained: where a checkpoint takes the journal's place, up to so many bytes of that journal are kept in
            memory, so that followers which have not read them yet need not load the checkpoint.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is invalid, or the learner has no directory.
        ModuleNotFoundError: Starlette is not installed.

    Example:
        >>> app.mount("/journal", learn.http.journal_app(learner, key=os.environ["JOURNAL_KEY"]))  # doctest: +SKIP
    """
    found: Callable[..., Awaitable[None]] = import_module(".journal_app", __package__).app_of_journal(
        learner, key, max_bytes, max_retained
    )
    return found


def health_app(one: Learner | Follower, *, max_lag: float = 10.0) -> Callable[..., Awaitable[None]]:
    """Return an application with the probes of an orchestrator: `GET /live` and `GET /ready`.

    `/live` is answered with 200 as long as the event loop turns: start the process anew if it is not. `/ready` is
    answered with 503 where requests should go elsewhere: the learner's journal cannot be written, the follower lags,
    or the model has ended. A service answers nothing before its learner has replayed the journal.

    Args:
        one: a Learner or a Follower.
        max_lag: the seconds for which a follower may not have had all of the journal.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is invalid.
        ModuleNotFoundError: Starlette is not installed.

    Example:
        >>> app.mount("/health", learn.http.health_app(learner))  # doctest: +SKIP
    """
    found: Callable[..., Awaitable[None]] = import_module(".health", __package__).app_of_health(one, max_lag)
    return found
