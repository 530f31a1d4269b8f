"""The learner as an HTTP service: a Starlette application with four JSON routes.

    POST /predict   {"inputs": [[..], ..]}                                -> {"outputs": [[..], ..], "learned": 12}
    POST /learn     {"inputs": [[..], ..], "targets": [[..], ..]}         -> {"loss": 0.25, "learned": 13}
                    and, if wanted, "timeout": seconds
    GET  /health    200 if it can learn, 503 if it can only predict
    GET  /metrics   counts, and the lateness of the event loop

A refused request is answered with {"error": "..."}: 400 and 422 if the body is wrong, 413 if it is too long, 408 if
the body or the headers do not arrive in time, 429 if too many sequences are waiting, 504 after the timeout, and 503 if
the journal cannot be written, too many clients are connected, or the process has no file descriptors left. None of
these changes the model.
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

#: The seconds between two measurements of the loop's lateness, and how many of the latest are kept.
TICK, TICKS = 0.005, 1000
#: The seconds between two garbage collections.
COLLECT = 1.0


def application(learner: Learner, limits: Limits, on_start: Callable[[], None] = lambda: None) -> Starlette:
    """Return the application for a learner that has replayed its journal; on shutdown it closes the learner."""
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
    """The routes, and the background tasks of the service."""

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
        """Sleep for TICK, again and again, and record by how many seconds each wake-up is late."""
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(TICK)
            self.lateness.append(time.perf_counter() - asked - TICK)

    async def collect_garbage(self) -> None:
        """Collect garbage every COLLECT seconds, while no sequence is being learned."""
        while True:
            await asyncio.sleep(COLLECT)
            await self.learner.in_turn(gc.collect)

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request; read at most the limit, whatever its content-length says."""
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
    """Turn automatic garbage collection off inside this block: `collect_garbage` decides when to collect.

    A full collection visits every object. A running backward has a hundred thousand, so a collection would block the
    loop for 40 ms. Graphs are not cycles, and are freed without it. Objects that exist now are frozen: collections do
    not visit them.
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
    """Await work; cancel it if the client disconnects, since nobody would get the result."""
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
    return Response(status_code=499)  # nginx's status for a closed connection; nobody receives it


async def _system_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        raise error
    return JSONResponse({"error": f"the service is short of descriptors: {error}"}, 503, {"Retry-After": "1"})


async def _own_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": "an error of the service's own, which its log shows"}, 500)
