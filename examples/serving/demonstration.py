"""A demonstration: starts a server in a child process, sends requests to it, and prints measurements."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, final

import httpx
import numpy as np

#: The time steps of a prediction, of a sequence to learn, and of the sequence whose learning a timeout cancels.
ASKED, POSTED, LONG = 20, 500, 1000
LEARNERS = 2
#: A service reads what says that it is JSON.
JSON = {"content-type": "application/json"}
#: The first timeout to try, in seconds; it is halved until it is too short to learn the sequence.
TIMEOUT = 0.04


class Sequence(NamedTuple):
    """One example to learn from: `inputs` of shape (steps, 2) and `targets` of shape (steps, 1)."""

    inputs: np.ndarray
    targets: np.ndarray


class Load(NamedTuple):
    """The measurements of the clients: the seconds of each prediction, the answers to sequences, and the total time."""

    latencies: list[float]
    answers: list[dict[str, Any]]
    seconds: float


@final
class Server:
    """A running server: its process, the line that it printed when it was ready, and a client for it."""

    def __init__(self, process: Process, ready: str, client: httpx.AsyncClient) -> None:
        self.process, self.ready, self.client = process, ready, client

    async def ask(self, path: str, body: bytes) -> httpx.Response:
        return await self.client.post(path, content=body, headers=JSON)

    async def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.get("/metrics")).json()
        return found

    async def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def server(script: Path, directory: Path, *options: str) -> AsyncIterator[Server]:
    """Start a server on a free port; kill it at the end of the block if it still runs."""
    command = [sys.executable, str(script), "--port", "0", "--directory", str(directory), *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    try:
        assert process.stdout is not None
        ready = (await process.stdout.readline()).decode().strip()
        if not ready:
            raise RuntimeError(f"the server did not start, and ended with {await process.wait()}")
        url = ready.split()[2].removesuffix(":")
        async with httpx.AsyncClient(base_url=url, timeout=30.0, trust_env=False) as client:
            yield Server(process, ready, client)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def sequence(rng: np.random.Generator, steps: int) -> Sequence:
    """Return a sequence to learn: inputs load and drive, and as target a position that follows their product slowly."""
    inputs = np.cumsum(rng.standard_normal((steps, 2)), axis=0)
    inputs = np.sin(inputs / 4)
    targets, position = np.empty((steps, 1)), 0.0
    for step, (load, drive) in enumerate(inputs):
        position += 0.2 * (load * drive - position)
        targets[step] = position
    return Sequence(inputs.round(4), targets.round(4))


def body(**fields: Any) -> bytes:
    """Return the fields as a JSON body; arrays become lists."""
    return json.dumps({name: np.asarray(value).tolist() for name, value in fields.items()}).encode()


async def put_to_work(on: Server, seconds: float, learners: int, seed: int) -> Load:
    """Request one prediction after another, while `learners` clients post sequences to learn."""
    rng = np.random.default_rng(seed)
    bodies = [body(**sequence(rng, POSTED)._asdict()) for _ in range(16)]
    question = body(inputs=sequence(rng, ASKED).inputs)
    load = Load([], [], seconds)
    over = asyncio.Event()

    async def learner(number: int) -> None:
        while not over.is_set():
            answer = await on.ask("/learn", bodies[number % len(bodies)])
            answer.raise_for_status()
            load.answers.append(answer.json())
            number += learners

    async with asyncio.TaskGroup() as group:
        for number in range(learners):
            group.create_task(learner(number))
        began = time.perf_counter()
        while (asked := time.perf_counter()) < began + seconds or (learners and not load.answers):
            (await on.ask("/predict", question)).raise_for_status()
            load.latencies.append(time.perf_counter() - asked)
        over.set()
    return load._replace(seconds=time.perf_counter() - began)


async def demonstrate(script: Path, seconds: float) -> int:
    """Start a server, measure it, time out while it learns, kill it and start it again; print the measurements."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        async with server(script, directory) as first:
            print(first.ready)
            await put_to_work(first, min(seconds, 0.2), 0, 0)  # a warm-up: the first requests are the slowest
            _report("idle", await put_to_work(first, seconds, 0, 0))
            load = await put_to_work(first, seconds, LEARNERS, 1)
            _report("while learning", load)
            print(f"steps           {len(load.answers) / load.seconds:.0f} a second, over {POSTED} time steps each")
            await _cut_short(first)
            before, acknowledged = await _killed(first)
        async with server(script, directory) as second:
            after = (await second.ask("/predict", _QUESTION)).json()
            there = (await second.metrics())["learned"]
            same = after == before or there > acknowledged
            print(f"kill -9         {acknowledged} acknowledged, {there} there after a restart; same answers: {same}")
            status = await second.end(signal.SIGTERM)
            print(f"SIGTERM         ended with status {status}")
    return 0 if there >= acknowledged and same and status == 0 else 1


_QUESTION = body(inputs=sequence(np.random.default_rng(2), ASKED).inputs)


async def _cut_short(on: Server) -> None:
    """Let a timeout cancel a backward, and compare the predictions before and after."""
    long, timeout = sequence(np.random.default_rng(3), LONG), TIMEOUT
    while True:
        before = (await on.ask("/predict", _QUESTION)).json()
        answer = await on.ask("/learn", body(**long._asdict(), timeout=timeout))
        after = (await on.ask("/predict", _QUESTION)).json()
        if answer.status_code != httpx.codes.OK:
            break
        timeout /= 2
    print(f"timeout         {answer.status_code} {answer.json()}; same answers as before: {before == after}")


async def _killed(on: Server) -> tuple[dict[str, Any], int]:
    """Kill the server while it learns; return an earlier prediction, and how many sequences it had acknowledged."""
    posted = body(**sequence(np.random.default_rng(4), POSTED)._asdict())
    acknowledged: int = (await on.ask("/learn", posted)).json()["learned"]
    before: dict[str, Any] = (await on.ask("/predict", _QUESTION)).json()
    last = asyncio.create_task(on.ask("/learn", posted))
    while (await on.metrics())["stage"] is None and not last.done():
        pass
    await on.end(signal.SIGKILL)
    with suppress(httpx.HTTPError):
        acknowledged = (await last).json()["learned"]
    return before, acknowledged


def _report(when: str, load: Load) -> None:
    p50, p99, most = np.percentile(np.array(load.latencies) * 1000, [50, 99, 100])
    print(f"{when:15} {len(load.latencies)} predictions: p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {most:.2f} ms")
