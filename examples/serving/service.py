"""The learner as an HTTP service: a Starlette application with four routes, all of which speak JSON.

    POST /predict   {"inputs": [[..], ..]}                                -> {"outputs": [[..], ..], "learned": 12}
    POST /learn     {"inputs": [[..], ..], "targets": [[..], ..]}         -> {"loss": 0.25, "learned": 13}
                    and, if wanted, "timeout": seconds
    GET  /health    200 while it learns, 503 while it only predicts
    GET  /metrics   counts, and how late the event loop is

What is refused has the answer {"error": "..."}: 400 and 422 name what is wrong with the body, 413 one that is too
long, 408 one that does not arrive, or headers that do not; 429 comes where too many wait to be learned, 504 where the
timeout has passed, and 503 where the journal cannot be written, too many clients are connected, or the process has no
descriptors left. After each of these the model is what it was.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar, final

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from examples.serving.checking import Limits, Refusal, document, matrix, seconds
from examples.serving.journal import JournalError
from examples.serving.learner import BusyError, Learner
from examples.serving.network import Sequence

T = TypeVar("T")

#: Seconds between two looks at how late the loop is, and how many of them count.
TICK, TICKS = 0.005, 1000
#: Seconds between two garbage collections.
COLLECT = 1.0


def application(learner: Learner, limits: Limits, on_start: Callable[[], None] = lambda: None) -> Starlette:
    """Return the application, for a learner that has replayed its journal; at its end it closes the learner."""
    service = Service(learner, limits)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        with _no_garbage_collection():
            tasks = [asyncio.create_task(service.watch_loop()), asyncio.create_task(service.collect_garbage())]
            on_start()
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await learner.close()

    return Starlette(
        routes=[
            Route("/predict", service.predict, methods=["POST"]),
            Route("/learn", service.learn, methods=["POST"]),
            Route("/health", service.health),
            Route("/metrics", service.metrics),
        ],
        exception_handlers={
            Refusal: service.refuse,
            HTTPException: _http_error,
            ClientDisconnect: _nobody_there,
            OSError: _system_error,
            Exception: _own_error,
        },
        lifespan=lifespan,
    )


@final
class Service:
    """Answers requests; each method below is a route."""

    def __init__(self, learner: Learner, limits: Limits) -> None:
        self.learner, self.limits = learner, limits
        self.settings = learner.network.settings
        self.refused = 0
        self.lateness: deque[float] = deque(maxlen=TICKS)

    async def predict(self, request: Request) -> Response:
        found = document(await self._body(request), ("inputs",))
        inputs = matrix("inputs", found["inputs"], self.settings.inputs, self.limits.steps)
        outputs, learned = await self.learner.predict(inputs)
        return JSONResponse({"outputs": outputs.tolist(), "learned": learned})

    async def learn(self, request: Request) -> Response:
        found = document(await self._body(request), ("inputs", "targets"), ("timeout",))
        limit = seconds(found, self.limits.seconds)
        inputs = matrix("inputs", found["inputs"], self.settings.inputs, self.limits.steps)
        targets = matrix("targets", found["targets"], self.settings.outputs, self.limits.steps)
        if len(inputs) != len(targets):
            raise Refusal(422, f"inputs has {len(inputs)} rows and targets {len(targets)}: each time step needs both")
        try:
            loss, learned = await _while_client_waits(request, self.learner.learn(Sequence(inputs, targets), limit))
        except TimeoutError:
            raise Refusal(504, f"not learned: not done after {limit:g} s, and cancelled") from None
        except BusyError as error:
            raise Refusal(429, f"not learned: {error}", **{"Retry-After": "1"}) from None
        except JournalError as error:
            raise Refusal(503, f"not learned: {error}", **{"Retry-After": "1"}) from None
        return JSONResponse({"loss": loss, "learned": learned})

    async def health(self, _: Request) -> Response:
        broken = self.learner.directory.broken
        if broken is not None:
            body = {"status": f"only predicts, for the journal failed: {broken}", "learned": self.learner.learned}
            return JSONResponse(body, 503)
        return JSONResponse({"status": "ok", "learned": self.learner.learned})

    async def metrics(self, _: Request) -> Response:
        learner = self.learner
        late = np.percentile(np.array(self.lateness or [0.0]) * 1000, [50, 99, 100])
        names = ("predicted", "timed_out", "abandoned", "turned_away", "unwritten", "snapshots", "failed_snapshots")
        return JSONResponse(
            {
                "learned": learner.learned,
                "learned_since_start": learner.counts["learned"],
                "replayed": learner.replayed,
                "torn_bytes": learner.directory.torn,
                **{name: learner.counts[name] for name in names},
                "ended_in": {name: learner.counts[f"ended_in_{name}"] for name in ("forward", "backward")},
                "refused": self.refused,
                "waiting": learner.waiting,
                "stage": learner.stage,
                "journal_records": learner.directory.records,
                "loop_lateness_ms": {name: round(ms, 3) for name, ms in zip(("p50", "p99", "max"), late, strict=True)},
            }
        )

    async def refuse(self, _: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, Refusal)
        self.refused += 1
        return JSONResponse({"error": refusal.text}, refusal.status, refusal.headers)

    async def watch_loop(self) -> None:
        """Ask for a tick, for ever, and note by how many seconds each one is late."""
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(TICK)
            self.lateness.append(time.perf_counter() - asked - TICK)

    async def collect_garbage(self) -> None:
        """Collect garbage between two sequences, for ever."""
        while True:
            await asyncio.sleep(COLLECT)
            await self.learner.in_turn(gc.collect)

    async def _body(self, request: Request) -> bytes:
        """Return a request's body; no more than the limit is ever kept, whatever the request says of its length."""
        most = self.limits.body
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise Refusal(413, f"the body is longer than {most} bytes: post it in parts")
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {self.limits.seconds:g} s") from None
        return bytes(body)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Leave it to `collect_garbage` when to collect.

    A collection looks at every object, and a backward under way has a hundred thousand: it would hold up the loop for
    40 ms. Graphs are no cycles and go without it. What is there from the start stays, and is not looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


async def _while_client_waits(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await work that is cancelled when the client hangs up: nobody would hear what came of it."""
    task = asyncio.create_task(work)

    async def hang_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        task.cancel()

    watcher = asyncio.create_task(hang_up())
    try:
        return await task
    except asyncio.CancelledError:
        if watcher.done():
            raise ClientDisconnect from None
        raise
    finally:
        watcher.cancel()


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _nobody_there(_: Request, error: Exception) -> Response:
    return Response(status_code=499)  # what others log for it; it is sent to nobody


async def _system_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        raise error
    return JSONResponse({"error": f"the service is short of descriptors: {error}"}, 503, {"Retry-After": "1"})


async def _own_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": "an error of the service's own, which its log shows"}, 500)
