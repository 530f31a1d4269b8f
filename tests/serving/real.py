"""The service on this event loop, on a real socket, with a real client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import uvicorn

from examples.serving.checking import Limits
from examples.serving.connection import connections
from examples.serving.learner import Learner
from examples.serving.service import application
from tests.serving.making import LIMITS, opened_learner


@contextlib.asynccontextmanager
async def serving(
    path: Path, limits: Limits = LIMITS, **options: int
) -> AsyncIterator[tuple[httpx.AsyncClient, Learner, uvicorn.Server]]:
    """Serve; give a client, the learner, and the server, which ends when the block does."""
    learner = await opened_learner(path, **options)
    listener = socket.create_server(("127.0.0.1", 0))
    started = asyncio.Event()
    served = application(learner, limits, started.set)
    config = uvicorn.Config(
        served, http=connections(limits), lifespan="on", ws="none", access_log=False, log_config=None
    )
    server = uvicorn.Server(config)
    ended = asyncio.create_task(server.serve(sockets=[listener]))
    await started.wait()
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=50.0, trust_env=False) as client:
            yield client, learner, server
    finally:
        server.should_exit = True
        await ended
