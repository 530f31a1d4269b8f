"""`python -m benchmarks.distributed`: stages on a Dask cluster beside the raw calls of a Dask actor, in one process.

They take turns. A node is a stage that multiplies its input by a parameter: its forward, the backward of its input
alone (`ag.grad`), one whose gradient goes to a leaf at home, and a whole backward with the commit of a gradient at the
worker. One call of the actor returns what it gets, and another does the stage's multiplications and sums in NumPy.
`--chaos 200` harms workers of a cluster, as `python -m benchmarks.chaos` does.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Any, final

import numpy as np

import asyncgrad as ag
from asyncgrad.distributed import DaskTransport, stage
from benchmarks.chaos import dask_cluster, run_chaos

__all__ = ["main", "measure"]


@final
class Peer:
    """An actor that returns what it gets, or does the same NumPy work as the stage."""

    def __init__(self) -> None:
        self._w, self._x, self._grad = np.array(2.0), np.array(0.0), np.array(0.0)

    def echo(self, x: Any) -> Any:
        return x

    def forward(self, x: Any) -> Any:
        self._x = x
        return self._w * x

    def backward(self, grad: Any) -> Any:
        return grad * self._w

    def backward_and_commit(self, grad: Any) -> Any:
        found = grad * self._w
        self._grad = self._grad + np.sum(grad * self._x)
        return found


def scale(w: Any, x: Any) -> Any:
    return w * x


async def measure(client: Any, worker: str, size: int, rounds: int) -> list[tuple[str, float, float, float]]:
    """Return for calls of arrays of `size` bytes what they do, and the median seconds of stage, echo and equal work."""
    transport = DaskTransport(client)
    one = stage(scale, 2.0, transport=transport, worker=worker, backup=False)
    w, x = (ag.tensor(np.ones(size // 8), requires_grad=True) for _ in range(2))
    at_home = stage(scale, w, transport=transport, worker=worker, gradients="home")
    peer = await client.submit(Peer, actor=True, workers=[worker])
    array, ones, two = np.ones(size // 8), ag.asarray(np.ones(size // 8)), ag.asarray(2.0)
    times: dict[str, list[float]] = {}

    async def timed(name: str, work: Awaitable[Any]) -> Any:
        began = perf_counter()
        result = await work
        times.setdefault(name, []).append(perf_counter() - began)
        return result

    # The first round is no measurement: connections are made in it, and threads started.
    for number in range(rounds + 1):
        await timed("echo", peer.echo(array))
        await timed("peer forward", peer.forward(array))
        y = await timed("forward", one(x))
        await timed("peer backward", peer.backward(array))
        await timed("backward", ag.grad(y, [x], ones))
        y = await one(x)
        await timed("backward and commit", ag.backward(y, ones))
        x.grad = None
        await peer.forward(array)
        await timed("peer backward and commit", peer.backward_and_commit(array))
        y = await at_home(two)
        await timed("backward that comes home", ag.backward(y, ones))
        w.grad = None
        if number == 0:
            times.clear()
    del y
    await one.close()
    await at_home.close()
    found = {name: statistics.median(seconds) for name, seconds in times.items()}
    return [
        ("forward", found["forward"], found["echo"], found["peer forward"]),
        ("gradient of the input", found["backward"], found["echo"], found["peer backward"]),
        ("gradient to a leaf at home", found["backward that comes home"], found["echo"], found["peer backward"]),
        ("both, with a commit", found["backward and commit"], found["echo"], found["peer backward and commit"]),
    ]


async def _main(options: argparse.Namespace) -> None:
    async with dask_cluster(2) as (cluster, client):
        worker = next(iter(cluster.workers.values())).worker_address
        for size in (32 << 10, 32 << 20):
            found = await measure(client, worker, size, options.rounds if size < 1 << 20 else options.rounds // 10)
            for name, seconds, echo, work in found:
                print(
                    f"{size >> 10:>6} KB  {name:<26} {seconds * 1e3:9.3f} ms  {seconds / echo:5.2f} calls that return "
                    f"their argument  {seconds / work:5.2f} calls with the same work"
                )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table; or run the chaos."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distributed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="of each kind of call")
    parser.add_argument("--chaos", type=int, default=0, metavar="RUNS", help="harm workers, and compare gradients")
    parser.add_argument("--seed", type=int, default=0, help="of the chaos")
    options = parser.parse_args(arguments)
    asyncio.run(run_chaos("dask", options.chaos, options.seed) if options.chaos else _main(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
