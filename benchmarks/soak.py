"""`python -m benchmarks.soak 10`: trains stages over HTTP for so many minutes; nothing may become more.

The server is a uvicorn in a process of its own. Backward passes and steps are cancelled at random moments, and stages
are closed and made anew. Ten times a minute at least, the descriptors, the tasks (asyncio's and the engine's) and the
resident memory of both processes are counted. It fails if the median of the second half is above that of the first by
more than a few. The first tenth does not count: caches fill.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import asyncgrad as ag
from asyncgrad.core.engine.eager_task import EagerTask
from asyncgrad.distributed import Definition, HttpTransport, Stage, http_app
from benchmarks.chaos import commit_here, layer, make_sgd, model

__all__ = ["Sample", "growth", "main", "soak"]

_STAGES = 2
#: How many samples there are at least; in a long run, how many seconds are between two.
_SAMPLES, _SECONDS = 20, 6.0
#: After how many rounds stages are closed and made anew.
_ROUNDS_PER_STAGE = 50


class Sample(NamedTuple):
    """What one process has."""

    descriptors: float
    tasks: float
    megabytes: float


#: By how much the second half may be above the first: the allocator returns memory in pieces.
_BOUNDS = Sample(3, 3, 4)


def _sample_here() -> Sample:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    # Those of the engine are not asyncio's: the collector alone knows them.
    ours = sum(type(one) is EagerTask and not one.done() for one in gc.get_objects())
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return Sample(descriptors, len(asyncio.all_tasks()) + ours, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


def serve() -> None:
    """Serve the stages of the model on a free port, and print the port."""

    async def sample(_: Request) -> JSONResponse:
        return JSONResponse(_sample_here()._asdict())

    stages = {str(at): Definition(layer, pair, optimizer=make_sgd) for at, pair in enumerate(model()[0])}
    app = http_app(stages, share_parameters=True)
    app.router.routes.append(Route("/sample", sample))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="critical")).serve(sockets=[listener]))


@asynccontextmanager
async def _server() -> AsyncIterator[str]:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.soak", "--serve", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(await server.stdout.readline())}"
    finally:
        server.kill()
        await server.wait()


async def soak(seconds: float, seed: int) -> list[tuple[Sample, Sample]]:
    """Train for so many seconds; return samples of home and of the server."""
    draw, samples = random.Random(seed), []
    async with _server() as url, httpx.AsyncClient() as client, HttpTransport([url], patience=5.0) as transport:
        began = time.monotonic()
        pause = min(_SECONDS, seconds / _SAMPLES)
        rounds, stages = 0, _stages(transport)
        while time.monotonic() < began + seconds:
            until = time.monotonic() + pause
            while time.monotonic() < until:
                await _round(stages, draw)
                rounds += 1
                if rounds % _ROUNDS_PER_STAGE == 0:
                    for one in stages:
                        await one.close()
                    stages = _stages(transport)
            there = Sample(**(await client.get(f"{url}/sample")).json())
            samples.append((_sample_here(), there))
        print(f"{rounds} rounds", flush=True)
    return samples


def _stages(transport: HttpTransport) -> list[Stage]:
    return [transport.stage(str(at), backup=at == 0) for at in range(_STAGES)]


async def _round(stages: Sequence[Stage], draw: random.Random) -> None:
    """Do a backward and a step, each of which may be cancelled."""

    async def backward() -> Any:
        y: Any = ag.tensor(model()[1][0], requires_grad=True)
        for one in stages:
            y = await one(y)
        await np.square(y).sum().backward()

    for work in (backward, stages[draw.randrange(_STAGES)].step):
        with suppress(TimeoutError):
            async with asyncio.timeout(draw.random() * 0.1):
                await work()


def growth(samples: Sequence[Sample]) -> Sample:
    """Return by how much the median of the second half is above that of the first, without the first tenth."""
    counted = samples[len(samples) // 10 :]
    halves = counted[: len(counted) // 2], counted[len(counted) // 2 :]
    first, second = ([statistics.median(values) for values in zip(*half, strict=True)] for half in halves)
    return Sample(*(after - before for before, after in zip(first, second, strict=True)))


def _report(samples: Sequence[tuple[Sample, Sample]]) -> bool:
    """Print a table; tell whether all stayed the same."""
    is_flat = True
    for where, of_process in zip(("home", "server"), zip(*samples, strict=True), strict=True):
        grown = growth(of_process)
        for name, *values, more, bound in zip(Sample._fields, *of_process, grown, _BOUNDS, strict=True):
            is_flat &= more <= bound
            shown = "  ".join(f"{values[len(values) * at // 5 if at < 5 else -1]:8.1f}" for at in range(6))
            verdict = "" if more <= bound else f"  more than {bound}"
            print(f"{where:6}  {name:11}  {shown}  second half {more:+.1f}{verdict}")
    return is_flat


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, and print a table of six moments; fail if there is more of anything in the second half."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve()
        return 0
    if not Path("/proc/self/statm").exists():
        print("descriptors and memory are read from /proc, which is not here")
        return 1
    print(f"soak of {options.minutes:g} minutes, seed {options.seed}, commit {commit_here()}", flush=True)
    is_flat = _report(asyncio.run(soak(options.minutes * 60, options.seed)))
    return 0 if is_flat else 1


if __name__ == "__main__":
    sys.exit(main())
