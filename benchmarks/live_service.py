"""The service that `python -m benchmarks.live` starts in a process of its own; it prints its port."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import asyncgrad as ag
from asyncgrad import learn, nn, optim
from asyncgrad.observing.live.feed import LiveFeed
from tests.support.listeners import new_listener

__all__ = ["main"]


def main() -> None:
    """Serve predictions, examples, a live page, and the processor time that was used, until the process is ended."""
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))

    def loss(model: Any, batch: Any) -> Any:
        return nn.mse_loss(model(batch["x"]), batch["y"])

    x, y = learn.ArraySpec((4,)), learn.ArraySpec((1,))
    learner = learn.Learner(model, loss, optim.Adam(model), inputs=x, example={"x": x, "y": y})

    async def predict(request: Request) -> JSONResponse:
        body = await learn.http.read_json(request)
        return JSONResponse((await learn.http.run_for_client(request, learner.predict(body))).tolist())

    async def teach(request: Request) -> JSONResponse:
        body = await learn.http.read_json(request)
        return JSONResponse(await learn.http.run_for_client(request, learner.learn(body)))

    async def used(_: Request) -> JSONResponse:
        return JSONResponse([time.process_time(), of_pages[0]])

    routes = [
        Route("/predict", predict, methods=["POST"]),
        Route("/learn", teach, methods=["POST"]),
        Route("/used", used),
    ]
    app = Starlette(routes=routes, lifespan=learn.http.lifespan(learner))
    of_pages = [0.0]
    app.mount("/live", _timed(learn.http.live(learner), of_pages))
    listener = new_listener()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, http=learn.http.connections(), access_log=False, log_level="warning")
    ag.run(uvicorn.Server(config).serve(sockets=[listener]))


def _timed(page: Callable[..., Awaitable[None]], spent: list[float]) -> Callable[..., Awaitable[None]]:
    """Return the page, which adds the processor seconds that it makes and sends events for."""
    make = LiveFeed.event

    def event(self: LiveFeed, last: str | None) -> tuple[str, bytes] | None:
        began = time.thread_time()
        try:
            return make(self, last)
        finally:
            spent[0] += time.thread_time() - began

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def timed_send(message: Any) -> None:
            began = time.thread_time()
            await send(message)
            spent[0] += time.thread_time() - began

        await page(scope, receive, timed_send)

    LiveFeed.event = event  # type: ignore[method-assign]
    return app


if __name__ == "__main__":
    main()
