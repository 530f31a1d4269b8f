"""Servers for tests, on real sockets of the event loop that the test runs on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.listeners import new_listener

__all__ = ["serving_app", "serving_models"]


@contextlib.asynccontextmanager
async def serving_models(*models: Any) -> AsyncIterator[str]:
    """Serve models by what the package umbridge serves them by; give the address."""
    from aiohttp import web
    from umbridge import um

    apps: list[web.Application] = []
    with pytest.MonkeyPatch.context() as patch:
        # It would start a loop of its own, and block.
        patch.setattr(um.web, "run_app", lambda app, **_: apps.append(app))
        um.serve_models(list(models), max_workers=4)
    runner = web.AppRunner(apps[0])
    await runner.setup()
    listener = new_listener()
    await web.SockSite(runner, listener).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def serving_app(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI app by uvicorn; give the address."""
    import uvicorn

    listener = new_listener()
    config = uvicorn.Config(app, lifespan="off", ws="none", access_log=False, log_config=None)
    server = uvicorn.Server(config)
    ended = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await ended
