"""Predictions by one learner alone, and by followers behind one port: how many a second, and how late.

    python -m benchmarks.followers                                # 1,000 requests a round, 50 clients, three followers
    python -m benchmarks.followers --requests 200 --rounds 2      # small
    taskset -c 0,1 python -m benchmarks.followers                 # on two cores of a larger machine

Both services run the whole time, each of its own processes of uvicorn, and rounds take turns. Each follower has a
listening socket of its own on the one port (SO_REUSEPORT), and the kernel deals connections out among them; of workers
with a socket in common (`--shared`), one may take most of those that come at once. The client is in this process and
takes its share of the cores, so it is a loop around epoll that looks at the ends of an answer alone. What a prediction
takes of a processor, at the service and at the client, is told beside the rates, which depend on what else the cores
do. It runs on Linux. At the end, each follower must answer as the learner does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import httpx
import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

import asyncgrad as ag
from asyncgrad import learn, nn, optim
from asyncgrad.learn import http

ROOT = Path(__file__).resolve().parent.parent
SIZE = 16
X, Y = learn.ArraySpec((SIZE,)), learn.ArraySpec((1,))
OPTIONS: dict[str, Any] = {"inputs": X, "example": {"x": X, "y": Y}}


def loss(model: Any, batch: Any) -> Any:
    """Return the mean squared error."""
    return nn.mse_loss(model(batch["x"]), batch["y"])


def parts(hidden: int) -> tuple[Any, Any, Any]:
    """Return a model, its loss and its optimizer."""
    ag.random.seed(0)
    model = nn.Sequential(
        nn.Linear(SIZE, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1)
    )
    return model, loss, optim.Adam(model)


def application(one: learn.Learner | learn.Follower) -> Starlette:
    """Return the service of a learner, or of a follower."""

    async def predict(request: Request) -> JSONResponse:
        return JSONResponse((await http.run_for_client(request, one.predict(await http.read_json(request)))).tolist())

    async def learn_one(request: Request) -> JSONResponse:
        return JSONResponse(await http.run_for_client(request, one.learn(await http.read_json(request))))

    routes = [
        Route("/predict", predict, methods=["POST"]),
        Route("/learn", learn_one, methods=["POST"]),
        Mount("/health", http.health_app(one)),
    ]
    return Starlette(routes=routes, lifespan=http.lifespan(one), exception_handlers=http.exception_handlers())


def learner_app() -> Starlette:
    """Return the service that learns, for uvicorn."""
    return application(learn.Learner(*parts(int(os.environ["HIDDEN"])), directory=os.environ["MODEL"], **OPTIONS))


def follower_app() -> Starlette:
    """Return the service that predicts, for uvicorn."""
    return application(learn.follow(os.environ["MODEL"], *parts(int(os.environ["HIDDEN"])), **OPTIONS))


class Round(NamedTuple):
    """How many requests were answered in how many seconds, the seconds of each, and those of the client's processor."""

    requests: int
    seconds: float
    latencies: list[float]
    of_client: float


@final
class _Connection:
    """A connection that asks again as soon as it is answered.

    Args:
        port: of the service.
        request: what is asked.
    """

    __slots__ = ("_asked_at", "_received", "_request", "socket")

    def __init__(self, port: int, request: bytes) -> None:
        self.socket: socket.socket = socket.create_connection(("127.0.0.1", port), timeout=60.0)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self._request, self._received, self._asked_at = request, b"", 0.0

    def ask(self) -> None:
        """Send the request."""
        self._asked_at = time.perf_counter()
        self.socket.sendall(self._request)

    def latency(self) -> float | None:
        """Read what has come; return the seconds since the request once the answer is whole."""
        data = self.socket.recv(65536)
        if not data:
            raise RuntimeError("the service has closed a connection")
        self._received += data
        # The answer is one list of numbers, and no header ends as a list does.
        if not self._received.endswith(b"]"):
            return None
        if not self._received.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the service answers: {self._received!r}")
        self._received = b""
        return time.perf_counter() - self._asked_at


def put(requests: int, port: int, clients: int, question: bytes) -> Round:
    """Have clients ask a service, each on a connection of its own, until so many requests are answered."""
    headers = {"host": "127.0.0.1", "content-type": "application/json", "content-length": len(question)}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"POST /predict HTTP/1.1\r\n{head}\r\n".encode() + question
    with contextlib.ExitStack() as stack:
        ready = stack.enter_context(select.epoll())
        connections = {}
        for _ in range(min(clients, requests)):
            one = _Connection(port, request)
            stack.callback(one.socket.close)
            connections[one.socket.fileno()] = one
            ready.register(one.socket, select.EPOLLIN)
        latencies: list[float] = []
        began, processor = time.perf_counter(), time.thread_time()
        for one in connections.values():
            one.ask()
        left = requests - len(connections)
        while len(latencies) < requests:
            for descriptor, _ in ready.poll():
                one = connections[descriptor]
                if (seconds := one.latency()) is not None:
                    latencies.append(seconds)
                    if left:
                        left -= 1
                        one.ask()
        return Round(requests, time.perf_counter() - began, latencies, time.thread_time() - processor)


@final
class Service:
    """A service that runs.

    Args:
        port: where it listens.
        processes: the ids of its processes, which may have children.
    """

    def __init__(self, port: int, processes: Sequence[int]) -> None:
        self.port, self._processes = port, processes

    def seconds(self) -> float:
        """Return the seconds that its processes have had of a processor, since they began."""
        return sum(map(_seconds, self._processes))


def _seconds(process: int) -> float:
    """Return the seconds of a process, of all of its threads, and of its children."""
    path = Path("/proc", str(process))
    fields = (path / "stat").read_text().rpartition(")")[2].split()
    children = (path / "task" / str(process) / "children").read_text().split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(_seconds(int(one)) for one in children)


@contextlib.asynccontextmanager
async def service(
    name: str, processes: int, environment: dict[str, str], is_shared: bool = False
) -> AsyncIterator[Service]:
    """Run a service of this file by uvicorn, each process with a socket of its own, or all with one."""
    async with contextlib.AsyncExitStack() as stack:
        port, ids = 0, []
        for _ in range(1 if is_shared else processes):
            listener = socket.create_server(("127.0.0.1", port), backlog=1024, reuse_port=True)
            stack.enter_context(listener)
            port = listener.getsockname()[1]
            workers = processes if is_shared else 1
            ids.append(await stack.enter_async_context(_running(name, listener, workers, environment)))
        # The socket takes connections from the beginning; the first answer comes once the model is there.
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60.0, trust_env=False) as client:
            for _ in range(10 * processes):
                (await client.get("/health/live", headers={"connection": "close"})).raise_for_status()
        yield Service(port, ids)


@contextlib.asynccontextmanager
async def _running(name: str, listener: socket.socket, workers: int, environment: dict[str, str]) -> AsyncIterator[int]:
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    options = ["--factory", "--fd", str(listener.fileno()), "--workers", str(workers), "--log-level", "warning"]
    command = [sys.executable, "-m", "uvicorn", f"benchmarks.followers:{name}", *options]
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=ROOT, pass_fds=[listener.fileno()], start_new_session=True
    )
    try:
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


async def teach(port: int, seconds: float) -> None:
    """Have the learner learn, one example every so many seconds."""
    rng = np.random.default_rng(0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60.0, trust_env=False) as client:
        while True:
            x = rng.standard_normal(SIZE)
            (await client.post("/learn", json={"x": x.tolist(), "y": [float(x.sum())]})).raise_for_status()
            await asyncio.sleep(seconds)


async def check(ports: Sequence[int], followers: int, question: bytes) -> None:
    """Raise an AssertionError unless the followers answer as the learner does, a moment after it has learned."""
    headers = {"content-type": "application/json", "connection": "close"}
    async with httpx.AsyncClient(timeout=60.0, trust_env=False) as client:
        learner, *others = [f"http://127.0.0.1:{port}/predict" for port in ports]
        expected = (await client.post(learner, content=question, headers=headers)).json()
        deadline = time.perf_counter() + 60
        for other in others:
            same = 0
            while same < 10 * followers:
                same = (
                    same + 1 if (await client.post(other, content=question, headers=headers)).json() == expected else 0
                )
                assert time.perf_counter() < deadline, "a follower answers otherwise than the learner"


async def main(options: argparse.Namespace) -> None:
    """Measure, and print."""
    question = json.dumps(np.random.default_rng(1).standard_normal(SIZE).round(4).tolist()).encode()
    with tempfile.TemporaryDirectory() as folder:
        given = {"MODEL": str(Path(folder) / secrets.token_hex(4)), "HIDDEN": str(options.hidden)}
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **given}
        async with (
            service("learner_app", 1, environment) as learner,
            service("follower_app", options.followers, environment, options.shared) as followers,
        ):
            rounds: dict[Service, list[Round]] = {learner: [], followers: []}
            used = dict.fromkeys(rounds, 0.0)
            teacher = asyncio.create_task(teach(learner.port, options.teach)) if options.teach else None
            for number in range(options.rounds + 1):
                for one, found in rounds.items():
                    before = one.seconds()
                    done = await asyncio.to_thread(put, options.requests, one.port, options.clients, question)
                    # The first is for warmth.
                    if number:
                        found.append(done)
                        used[one] += one.seconds() - before
            if teacher is not None:
                teacher.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await teacher
            await check([one.port for one in rounds], options.followers, question)
    rates = [_report(name, rounds[one], used[one]) for name, one in zip(("learner", "followers"), rounds, strict=True)]
    print(f"{options.followers} followers answer {rates[1] / rates[0]:.2f} x as many as the learner alone")
    print(f"on {len(os.sched_getaffinity(0))} cores")


def _report(name: str, rounds: list[Round], used: float) -> float:
    """Print how a service did, which has used so many seconds; return the median of its requests a second."""
    rate = float(np.median([one.requests / one.seconds for one in rounds]))
    p50, p99 = np.percentile([1000 * each for one in rounds for each in one.latencies], [50, 99])
    count = sum(one.requests for one in rounds)
    own, of_client = 1e6 * used / count, 1e6 * sum(one.of_client for one in rounds) / count
    print(
        f"{name:10} {rate:6.0f} predictions/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms; "
        f"processor time of each: {own:.0f} µs, and {of_client:.0f} µs of the client"
    )
    return rate


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.followers", description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1000, help="of a round")
    parser.add_argument("--clients", type=int, default=50, help="at a time")
    parser.add_argument("--followers", type=int, default=3)
    parser.add_argument("--shared", action="store_true", help="one listening socket for all followers, as of --workers")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--hidden", type=int, default=64, help="size of the model")
    parser.add_argument("--teach", type=float, default=0.0, help="seconds between two examples; 0 for none")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    ag.run(main(parse(sys.argv[1:])))
