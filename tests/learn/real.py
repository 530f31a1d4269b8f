"""A service around a learner, of Starlette or FastAPI, on a real socket of this event loop, with a real client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import fastapi
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from asyncgrad.learn import Learner, http
from tests.support.listeners import new_listener

FRAMEWORKS = {"starlette": Starlette, "fastapi": fastapi.FastAPI}


def application(learner: Learner, framework: str, ready: asyncio.Event, **limits: Any) -> Any:
    """Return a service that predicts and learns."""

    async def predict(request: Request) -> JSONResponse:
        body = await http.read_json(request, **limits)
        return JSONResponse((await http.run_for_client(request, learner.predict(body))).tolist())

    async def learn(request: Request) -> JSONResponse:
        body = await http.read_json(request, **limits)
        result = await http.run_for_client(request, learner.learn(body), timeout=20.0)
        return JSONResponse(result._asdict())

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with http.lifespan(learner)(app):
            ready.set()
            yield

    options: Any = {"lifespan": lifespan, "exception_handlers": http.exception_handlers()}
    if framework == "starlette":
        routes = [Route("/predict", predict, methods=["POST"]), Route("/learn", learn, methods=["POST"])]
        return Starlette(routes=routes, **options)
    app = fastapi.FastAPI(**options)
    app.post("/predict")(predict)
    app.post("/learn")(learn)
    return app


@contextlib.asynccontextmanager
async def serving(
    learner: Learner, framework: str = "starlette", protocol: Any = None, **limits: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, uvicorn.Server]]:
    """Serve; give a client, and the server, which ends when the block does."""
    listener = new_listener()
    started = asyncio.Event()
    config = uvicorn.Config(
        application(learner, framework, started, **limits),
        http=protocol or http.connections(),
        lifespan="on",
        ws="none",
        access_log=False,
        log_config=None,
    )
    server = uvicorn.Server(config)
    ended = asyncio.create_task(server.serve(sockets=[listener]))
    await started.wait()
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=50.0, trust_env=False) as client:
            yield client, server
    finally:
        server.should_exit = True
        await ended
