"""Draws docs/live-page.png: `python -m tools.live_picture`, in the two minutes that the charts of a live page show.

A learner predicts and learns; the derivative of its loss asks a service that answers late, and in the end no more. In
the midst, the inputs become others than before, and later a burst of examples is more than may wait. Chromium has the
page open all the time, since samples are taken while somebody looks. Chromium and the extra serve have to be installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np
import uvicorn
from starlette.applications import Starlette

import asyncgrad as ag
from asyncgrad import learn, nn, optim
from asyncgrad.errors import BusyError
from tests.support.devtools import Devtools, devtools
from tests.support.listeners import new_listener

__all__ = ["main"]

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "live-page.png"
#: How long the page is looked at, and before that, when the service falls silent, in seconds.
SECONDS, SILENCE = 122.0, 5.0
#: After how much of the time the inputs become others, and from when to when twenty times as many examples come.
SHIFT, BURST = 0.5, (0.7, 0.74)


@final
class Service:
    """Answers after some milliseconds, until it falls silent."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)
        self.answers = asyncio.Event()
        self.answers.set()

    async def ask(self) -> None:
        """Wait for an answer."""
        await self.answers.wait()
        await asyncio.sleep(self.rng.gamma(2.0, 0.015))


@final
class AskService(ag.Function):
    """The value itself, whose derivative a service is asked for."""

    @staticmethod
    def forward(ctx: Any, value: Any, service: Service) -> Any:
        """Return the value."""
        ctx.service = service
        return value

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        """Ask."""
        await ctx.service.ask()
        return grad, None


@final
class Traffic:
    """Those who ask for predictions and send examples."""

    def __init__(self, learner: learn.Learner) -> None:
        self._learner, self._rng, self._began = learner, np.random.default_rng(0), perf_counter()
        self._examples: set[asyncio.Task[None]] = set()

    def passed(self) -> float:
        """Return which part of the time has passed."""
        return (perf_counter() - self._began) / SECONDS

    def x(self) -> Any:
        """Return an input, which is larger after the shift."""
        return self._rng.normal(1.5 if self.passed() > SHIFT else 0.0, 1.0, 4)

    async def predict(self) -> None:
        """Ask for predictions, a dozen a second."""
        while True:
            await asyncio.sleep(self._rng.exponential(1 / 12))
            await self._learner.predict(self.x())

    async def teach(self) -> None:
        """Send examples, ten a second, and many more in the burst."""
        while True:
            is_burst = BURST[0] < self.passed() < BURST[1]
            await asyncio.sleep(self._rng.exponential(1 / (200 if is_burst else 10)))
            task = asyncio.create_task(self._example())
            self._examples.add(task)
            task.add_done_callback(self._examples.discard)

    def end(self) -> None:
        """Send none of the examples that wait still."""
        for task in self._examples:
            task.cancel()

    async def _example(self) -> None:
        x = self.x()
        example = {"x": x, "y": np.array([np.sin(x[0]) + x[1]])}
        with contextlib.suppress(BusyError, TimeoutError):
            await self._learner.learn(example, timeout=self._rng.choice([0.15, 30.0], p=[0.03, 0.97]))


def new_learner(service: Service) -> learn.Learner:
    """Return what is looked at."""

    async def squared_error(model: Any, batch: Any) -> Any:
        return AskService.apply(nn.mse_loss(model(batch["x"]), batch["y"]), service)

    model = nn.Sequential(nn.Linear(4, 32, dtype=np.float64), nn.Tanh(), nn.Linear(32, 1, dtype=np.float64))
    x, y = learn.ArraySpec((4,)), learn.ArraySpec((1,))
    watched = learn.Drift(learn.ADWIN(), of=lambda example: float(np.mean(example["x"])), name="mean of x")
    return learn.Learner(
        model,
        squared_error,
        optim.Adam(model, lr=0.01),
        inputs=x,
        example={"x": x, "y": y},
        max_pending=32,
        drift=[learn.Drift(learn.PageHinkley(threshold=20.0)), watched],
    )


async def look(take: Callable[[str], None]) -> None:
    """Serve the learner, and have its page looked at, by a function of its address that runs in a thread."""
    service = Service()
    learner = new_learner(service)
    app = Starlette(lifespan=learn.http.lifespan(learner))
    app.mount("/live", learn.http.live(learner, stuck_after=3.0))
    listener = new_listener()
    config = uvicorn.Config(app, http=learn.http.connections(), access_log=False, log_level="warning")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    traffic = Traffic(learner)
    try:
        asked = [asyncio.create_task(traffic.predict()), asyncio.create_task(traffic.teach())]
        asyncio.get_running_loop().call_later(SECONDS - SILENCE, service.answers.clear)
        await asyncio.to_thread(take, f"http://127.0.0.1:{listener.getsockname()[1]}/live/")
        for task in asked:
            task.cancel()
        traffic.end()
        service.answers.set()
    finally:
        server.should_exit = True
        await serving


def photograph(page: Devtools, address: str) -> None:
    """Open the page, wait until its charts are full, and write the picture."""
    page.open(address, 1400, is_dark=False)
    page.ask(f"new Promise(done => setTimeout(done, {1000 * SECONDS:.0f}))")
    page.photograph(PICTURE)


def main() -> int:
    """Draw it; return the exit status."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, devtools(Path(folder)) as page:
        ag.run(look(lambda address: photograph(page, address)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
