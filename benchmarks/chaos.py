"""`python -m benchmarks.chaos 200 --transport dask`: backward passes during each of which a worker is harmed.

A model of three stages has its workers in processes of their own: on a Dask cluster, or as HTTP servers. At a random
moment of a backward a worker is killed, or stopped, or its connections are cut. The stages of every other run have no
backup, and have learned something before, so that no other worker can take over. Either the gradients have the bits of
a local run, or `StageLost` is raised, and those of all stages that are left and of a leaf at home are as they were
before. A table counts both for each harm; anything else ends the program with an AssertionError.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, final

import numpy as np
import uvicorn
from distributed import Client, LocalCluster

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.distributed import DaskTransport, Definition, HttpTransport, Stage, http_app, stage
from asyncgrad.errors import StageLost

__all__ = [
    "DaskWorkers",
    "HttpWorkers",
    "commit_here",
    "dask_cluster",
    "dask_workers",
    "http_workers",
    "layer",
    "main",
    "make_sgd",
    "model",
    "run_chaos",
]

HARMS = ("kill", "stop", "cut")
#: After how many runs there are new workers: Dask does not restart one that is harmed again while it starts.
_RUNS_PER_CLUSTER = 5
PATIENCE = 1.0


def layer(params: Any, x: Any) -> Any:
    w, b = params
    return np.tanh(x @ w + b)


def make_sgd(params: Any) -> Any:
    return optim.SGD(list(params), lr=0.05, momentum=0.5)


def model() -> tuple[list[tuple[np.ndarray, np.ndarray]], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    params = [(rng.normal(size=(8, 8)), rng.normal(size=8)) for _ in range(3)]
    return params, [rng.normal(size=(4, 8)) for _ in range(4)]


class Workers(Protocol):
    """Abstract: workers in processes, each of which may be harmed."""

    async def make_stages(self, backup: bool) -> list[Stage]:
        """Return the stages of the model, each at a worker of its own."""
        ...

    async def process(self, worker: str) -> int:
        """Return the id of the process of a worker."""
        ...

    def cut(self, worker: str) -> None:
        """Break the connections to a worker."""
        ...


@final
class DaskWorkers:
    """The workers of a Dask cluster."""

    def __init__(self, client: Any, patience: float = PATIENCE) -> None:
        self.transport: DaskTransport = DaskTransport(client, patience=patience)
        self._client = client

    async def make_stages(self, backup: bool) -> list[Stage]:
        await self.mend()
        pairs = zip(await self.transport.workers(), model()[0], strict=False)
        return [stage(layer, pair, transport=self.transport, worker=worker, backup=backup) for worker, pair in pairs]

    async def mend(self) -> None:
        """Wait for the workers that were killed: they may not all have been restarted."""
        await self._client.wait_for_workers(3, timeout=120)

    def definition(self, at: int) -> Definition:
        """Return that of a stage of the model, with an optimizer."""
        return Definition(layer, model()[0][at], optimizer=make_sgd)

    async def process(self, worker: str) -> int:
        return (await self._client.run(os.getpid, workers=[worker]))[worker]  # type: ignore[no-any-return]

    def cut(self, worker: str) -> None:
        self._client.rpc.remove(worker)


@final
class HttpWorkers:
    """HTTP servers, each behind a relay of bytes that can cut the connections."""

    def __init__(self, transport: HttpTransport, relays: dict[str, Relay]) -> None:
        self.transport: HttpTransport = transport
        self._relays = relays

    async def make_stages(self, backup: bool) -> list[Stage]:
        await self.mend()
        found = zip(await self.transport.workers(), range(3), strict=False)
        return [self.transport.stage(str(at), worker=worker, backup=backup) for worker, at in found]

    async def mend(self) -> None:
        """Start the servers that do not run."""
        await asyncio.gather(*(relay.start_server() for relay in self._relays.values()))

    def definition(self, at: int) -> Definition:
        """Return the name of a stage of the model."""
        return Definition(str(at))

    async def process(self, worker: str) -> int:
        return self._relays[worker].process()

    def cut(self, worker: str) -> None:
        self._relays[worker].cut()

    def half_close(self, worker: str, way: str) -> None:
        """End one way, "there" or "back", of the connections to a worker; the other way stays open."""
        self._relays[worker].half_close(way)

    def freeze(self, worker: str, way: str) -> Callable[[], None]:
        """Pass no bytes one way until what this returns is called; all connections stay, and others can be made."""
        return self._relays[worker].freeze(way)


@final
class Relay:
    """Passes bytes on between a port of its own and that of a server, which it starts."""

    def __init__(self) -> None:
        self._port = 0
        self._server: Any = None
        #: The writers of all connections, each with the way that its bytes go.
        self._writers: dict[Any, str] = {}
        #: Those whose way has been ended.
        self._ended: set[Any] = set()
        #: Whether bytes are passed on, each way.
        self._flowing = {"there": asyncio.Event(), "back": asyncio.Event()}
        for way in self._flowing.values():
            way.set()

    async def start_server(self) -> None:
        """Start the server if it does not run."""
        if self._server is None or self._server.returncode is not None:
            self._server = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "benchmarks.chaos", "--serve", stdout=asyncio.subprocess.PIPE
            )
            self._port = int(await self._server.stdout.readline())

    def process(self) -> int:
        """Return the id of the server's process."""
        return self._server.pid  # type: ignore[no-any-return]

    async def end(self) -> None:
        """End the server."""
        for way in self._flowing.values():
            way.set()
        self.cut()
        if self._server is not None and self._server.returncode is None:
            self._server.kill()
            await self._server.wait()

    async def connect(self, reader: Any, writer: Any) -> None:
        """Pass the bytes of one connection on."""
        try:
            other_reader, other = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {other: "there", writer: "back"}
        try:
            await asyncio.gather(self._pass(reader, other), self._pass(other_reader, writer))
        finally:
            for one in (writer, other):
                del self._writers[one]
                self._ended.discard(one)

    async def _pass(self, reader: Any, writer: Any) -> None:
        flowing = self._flowing[self._writers[writer]]
        try:
            while data := await reader.read(1 << 16):
                await flowing.wait()
                if writer not in self._ended:
                    writer.write(data)
                    await writer.drain()
            writer.close()
        except OSError:
            writer.transport.abort()

    def cut(self) -> None:
        """Break all connections."""
        for writer in self._writers:
            writer.transport.abort()

    def half_close(self, way: str) -> None:
        """End one way of all connections."""
        for writer, its_way in self._writers.items():
            if its_way == way and writer not in self._ended and not writer.is_closing():
                writer.write_eof()
                self._ended.add(writer)

    def freeze(self, way: str) -> Callable[[], None]:
        """Pass no bytes one way, until what this returns is called."""
        self._flowing[way].clear()
        return self._flowing[way].set


@final
class KilledCluster(LocalCluster):  # type: ignore[misc]  # Dask's classes have no hints
    """A LocalCluster whose workers come back when they are killed, however busy the machine is."""

    def _update_worker_status(self, op: str, msg: Any) -> None:
        # Dask's own gives up a worker that is not back after 15 s, and fails for one that has ended before this cluster
        # was told that it began.
        if op != "remove":
            super()._update_worker_status(op, msg)


@asynccontextmanager
async def dask_cluster(workers: int) -> AsyncIterator[tuple[Any, Any]]:
    """A Dask cluster of processes, and its client."""
    options: dict[str, Any] = {
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "asynchronous": True,
        "silence_logs": "CRITICAL",
    }
    async with (
        KilledCluster(n_workers=workers, **options) as cluster,
        Client(cluster, asynchronous=True, direct_to_workers=True) as client,
    ):
        yield cluster, client


@asynccontextmanager
async def dask_workers(patience: float = PATIENCE) -> AsyncIterator[DaskWorkers]:
    """Four workers of a new Dask cluster."""
    async with dask_cluster(4) as (_, client):
        yield DaskWorkers(client, patience)


@asynccontextmanager
async def http_workers(patience: float = PATIENCE) -> AsyncIterator[HttpWorkers]:
    """Four HTTP servers."""
    async with AsyncExitStack() as stack:
        relays = {}
        for _ in range(4):
            relay = Relay()
            stack.push_async_callback(relay.end)
            relayed = await asyncio.start_server(relay.connect, "127.0.0.1", 0)
            stack.callback(relayed.close)
            relays[f"http://127.0.0.1:{relayed.sockets[0].getsockname()[1]}"] = relay
        transport = await stack.enter_async_context(HttpTransport(list(relays), patience=patience))
        yield HttpWorkers(transport, relays)


def serve() -> None:
    """Serve the stages of the model on a free port, and print the port."""
    stages = {str(at): Definition(layer, pair, optimizer=make_sgd) for at, pair in enumerate(model()[0])}
    # Requests to drop a stage are lost, too: it stays until its time is over.
    app = http_app(stages, share_parameters=True, max_stages=1 << 20)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="critical")).serve(sockets=[listener]))


_PLACES: dict[str, Callable[[], AbstractAsyncContextManager[Workers]]] = {"dask": dask_workers, "http": http_workers}


async def run_chaos(transport: str, runs: int, seed: int) -> Counter[tuple[str, bool, str]]:
    """Harm workers in so many backward passes, print a table, and return how many ended in which way.

    Raises:
        AssertionError: a gradient has other bits than that of a local run, or has changed in spite of an error.
    """
    draw, found = random.Random(seed), Counter[tuple[str, bool, str]]()
    scale = ag.tensor(1.5, requires_grad=True)
    local = [tuple(ag.tensor(one, requires_grad=True) for one in pair) for pair in model()[0]]
    expected = []
    for _ in range(2):
        await (await _loss([_awaitable(pair) for pair in local], scale)).backward()
        expected.append(([[_values(one.grad) for one in pair] for pair in local], _values(scale.grad)))
    while found.total() < runs:
        async with _PLACES[transport]() as workers:
            for number in range(found.total(), min(runs, found.total() + _RUNS_PER_CLUSTER)):
                backup, harm = number % 2 == 0, draw.choice(HARMS)
                outcome = await _run(workers, draw, harm, backup, expected)
                found[harm, backup, outcome] += 1
        print(f"{found.total()} runs", flush=True)
    for harm in HARMS:
        for backup in (True, False):
            right, lost = (found[harm, backup, outcome] for outcome in ("right", "lost"))
            print(f"{transport}  {harm}  {'with' if backup else 'no':>4} backup  right: {right:3}  lost: {lost:3}")
    if skipped := sum(count for (_, _, outcome), count in found.items() if outcome == "lost before"):
        print(f"{transport}  a worker was silent before it was harmed: {skipped}")
    return found


async def _run(workers: Workers, draw: random.Random, harm: str, backup: bool, expected: list[Any]) -> str:
    """Run two backward passes, harm a worker during the second one, and check the gradients; tell how it ended."""
    scale = ag.tensor(1.5, requires_grad=True)
    stages = await workers.make_stages(backup)
    await (await _loss(stages, scale)).backward()
    before = await _gradients(stages)
    if None in before and not backup:
        # A busy machine: a worker was silent for so long that it counted as lost.
        return "lost before"
    assert (before, _values(scale.grad)) == expected[0], f"before: {before}"
    loss = await _loss(stages, scale)
    end = await _harm(workers, draw, harm, [str(one.worker) for one in stages])
    try:
        await loss.backward()
        outcome = "right"
    except StageLost:
        outcome = "lost"
    finally:
        await end()
    grads, (right, at_home) = await _gradients(stages), expected[outcome == "right"]
    assert _values(scale.grad) == at_home, f"{harm}, {outcome}: {scale.grad} in place of {at_home}"
    for mine, theirs in zip(grads, right, strict=True):
        # None for a stage that has gone with its worker.
        assert mine == theirs or (mine is None and not backup), f"{harm}, {outcome}: {mine} in place of {theirs}"
    for one in stages:
        await one.close()
    return outcome


async def _gradients(stages: Sequence[Stage]) -> list[Any]:
    found: list[Any] = []
    for one in stages:
        try:
            found.append([_values(grad) for grad in await one.grads()])
        except StageLost:
            found.append(None)
    return found


def _values(grad: Any) -> Any:
    return None if grad is None else grad.tolist()


async def _loss(stages: Sequence[Any], scale: Any) -> Any:
    total: Any = 0.0
    for x in model()[1]:
        y: Any = scale * x
        for one in stages:
            y = await one(y)
        total = total + (y * y).sum()
    return total


def _awaitable(params: Any) -> Callable[[Any], Awaitable[Any]]:
    async def call(x: Any) -> Any:
        return layer(params, x)

    return call


async def _harm(
    workers: Workers, draw: random.Random, kind: str, names: Sequence[str]
) -> Callable[[], Awaitable[None]]:
    """Harm one of the workers at a random moment from now on; return what ends that."""
    worker = draw.choice(names)
    process = await workers.process(worker)

    async def harm() -> None:
        await asyncio.sleep(draw.random() * 0.1)
        if kind == "cut":
            workers.cut(worker)
        else:
            os.kill(process, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)

    task = asyncio.ensure_future(harm())

    async def end() -> None:
        await task
        if kind == "stop":
            os.kill(process, signal.SIGCONT)

    return end


def commit_here() -> str:
    """Return what git calls the commit that is checked out."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return commit.stdout.strip() or "unknown"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chaos, or serve the stages of the model over HTTP."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=200)
    parser.add_argument("--transport", choices=sorted(_PLACES), default="dask")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve()
    else:
        print(f"{options.transport}  seed {options.seed}, commit {commit_here()}", flush=True)
        asyncio.run(run_chaos(options.transport, options.runs, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
