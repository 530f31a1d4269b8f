"""`python -m benchmarks.distributed`: stages on a Dask cluster beside the raw calls of a Dask actor, in one process.

The two take turns. A node is a stage that multiplies its input by a parameter: its forward, the backward of its input
alone (`ag.grad`), and a whole backward with the commit of the gradient at the worker. An actor returns what it gets.
`--chaos 200` runs as many backward passes of a model of three stages, in each of which a worker is killed, stopped or
cut off at a random moment, and compares the gradients with those of a local run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, final

import numpy as np
from distributed import Client, LocalCluster

import asyncgrad as ag
from asyncgrad.distributed import DaskTransport, stage
from asyncgrad.errors import StageLost

#: After how many runs of the chaos there is a new cluster.
_RUNS_PER_CLUSTER = 5

__all__ = ["chaos", "main", "measure"]


@final
class Echo:
    """An actor that returns what it gets."""

    def call(self, x: Any) -> Any:
        return x


def scale(w: Any, x: Any) -> Any:
    return w * x


def layer(params: Any, x: Any) -> Any:
    w, b = params
    return np.tanh(x @ w + b)


async def measure(client: Any, worker: str, size: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of each kind of call of arrays of `size` bytes."""
    one = stage(scale, 2.0, transport=DaskTransport(client), worker=worker, backup=False)
    actor = await client.submit(Echo, actor=True, workers=[worker])
    array = np.ones(size // 8)
    x = ag.tensor(array, requires_grad=True)
    times: dict[str, list[float]] = {}

    async def timed(name: str, work: Awaitable[Any]) -> Any:
        began = perf_counter()
        result = await work
        times.setdefault(name, []).append(perf_counter() - began)
        return result

    ones = ag.asarray(np.ones(size // 8))
    for _ in range(rounds):
        await timed("actor", actor.call(array))
        y = await timed("forward", one(x))
        await timed("backward of the input", ag.grad(y, [x], ones))
        y = await one(x)
        await timed("backward and commit", ag.backward(y, ones))
        x.grad = None
    await one.close()
    return {name: statistics.median(found) for name, found in times.items()}


async def chaos(client: Any, runs: int, seed: int) -> dict[str, int]:
    """Return how many backward passes had the right gradients, and how many raised StageLost and changed nothing.

    Raises:
        AssertionError: a gradient has other bits than that of a local run, or has changed in spite of an error.
    """
    draw, found = random.Random(seed), {"right": 0, "lost": 0}
    rng = np.random.default_rng(0)
    params = [(rng.normal(size=(8, 8)), rng.normal(size=8)) for _ in range(3)]
    xs = [rng.normal(size=(4, 8)) for _ in range(4)]
    local = [tuple(ag.tensor(one, requires_grad=True) for one in pair) for pair in params]
    await (await _loss([_awaitable(pair) for pair in local], xs)).backward()
    expected = [[_values(one.grad) for one in pair] for pair in local]
    for run in range(runs):
        transport = DaskTransport(client, patience=0.5)
        workers = list(await transport.workers())
        if len(workers) < 2:
            # Those that were killed have not all been restarted.
            await client.wait_for_workers(2, timeout=120)
            workers = list(await transport.workers())
        stages = [
            stage(layer, pair, transport=transport, worker=workers[at % len(workers)]) for at, pair in enumerate(params)
        ]
        loss = await _loss(stages, xs)
        end = await _harm(client, draw, [one.worker for one in stages])
        try:
            await loss.backward()
            grads = [[_values(grad) for grad in await one.grads()] for one in stages]
            assert grads == expected, f"run {run}: {grads} in place of {expected}"
            found["right"] += 1
        except StageLost:
            found["lost"] += 1
        finally:
            await end()
        for one in stages:
            await one.close()
    return found


def _values(grad: Any) -> Any:
    return None if grad is None else grad.tolist()


async def _loss(stages: Sequence[Any], xs: Sequence[Any]) -> Any:
    total: Any = 0.0
    for x in xs:
        y: Any = x
        for one in stages:
            y = await one(y)
        total = total + (y * y).sum()
    return total


def _awaitable(params: Any) -> Callable[[Any], Awaitable[Any]]:
    async def call(x: Any) -> Any:
        return layer(params, x)

    return call


async def _harm(client: Any, draw: random.Random, workers: Sequence[Any]) -> Callable[[], Awaitable[None]]:
    """Harm one of the workers at a random moment from now on; return what ends that."""
    worker, kind = draw.choice(workers), draw.choice(["kill", "stop", "cut"])
    process = (await client.run(os.getpid, workers=[worker]))[worker]

    async def harm() -> None:
        await asyncio.sleep(draw.random() * 0.1)
        if kind == "cut":
            client.rpc.remove(worker)
        else:
            os.kill(process, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)

    task = asyncio.ensure_future(harm())

    async def end() -> None:
        await task
        if kind == "stop":
            os.kill(process, signal.SIGCONT)

    return end


@asynccontextmanager
async def _cluster(workers: int) -> AsyncIterator[tuple[Any, Any]]:
    options: dict[str, Any] = {
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "asynchronous": True,
        "silence_logs": "CRITICAL",
    }
    async with (
        LocalCluster(n_workers=workers, **options) as cluster,
        Client(cluster, asynchronous=True, direct_to_workers=True) as client,
    ):
        yield cluster, client


async def _main(options: argparse.Namespace) -> None:
    total = {"right": 0, "lost": 0}
    while (done := sum(total.values())) < options.chaos:
        # A cluster for a few runs: Dask does not restart a worker that is harmed again while it starts.
        async with _cluster(4) as (_, client):
            harmed = await chaos(client, min(_RUNS_PER_CLUSTER, options.chaos - done), options.seed + done)
        total = {name: count + harmed[name] for name, count in total.items()}
        print(total, flush=True)
    if options.chaos:
        return
    async with _cluster(2) as (cluster, client):
        worker = next(iter(cluster.workers.values())).worker_address
        for size in (32 << 10, 32 << 20):
            found = await measure(client, worker, size, options.rounds if size < 1 << 20 else options.rounds // 10)
            for name, seconds in found.items():
                ratio = seconds / found["actor"]
                print(f"{size >> 10:>6} KB  {name:<22} {seconds * 1e3:9.3f} ms  {ratio:6.2f} actor calls")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table; or run the chaos."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distributed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="of each kind of call")
    parser.add_argument("--chaos", type=int, default=0, metavar="RUNS", help="harm workers, and compare gradients")
    parser.add_argument("--seed", type=int, default=0, help="of the chaos")
    asyncio.run(_main(parser.parse_args(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
