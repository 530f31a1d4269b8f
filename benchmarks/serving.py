"""A service that learns while it serves, under load, with clients that hang up, and killed again and again.

    python -m benchmarks.serving                # 10,000 requests, 1,000 connections, 200 hang up, 20 kill -9
    python -m benchmarks.serving --requests 1000 --connections 100 --gone 20 --kills 2

It starts `examples/serve_and_learn.py` in processes of their own, asks it with httpx, and checks what it finds at the
end: every example that was acknowledged is in the journal at the place that the answer named, none is there twice, and
the model answers as one that has learned the journal's examples in order, from the start and without a crash.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import httpx
import numpy as np

import asyncgrad as ag
from asyncgrad.learn.lines import record_of
from examples.serve_and_learn import new_learner
from examples.serving.demonstration import JSON, POSTED, Server, body, put_to_work, sequence, server

SCRIPT = Path(__file__).resolve().parent.parent / "examples" / "serve_and_learn.py"
HIDDEN = 8
#: The time steps of an example, so few that thousands are learned in a minute.
STEPS = 20
#: Of so many requests, one is an example to learn.
LEARN_EVERY = 4
#: The seconds after which a client hangs up.
PATIENCE = 0.005

QUESTION = sequence(np.random.default_rng(1000), STEPS).inputs
ASK = body(inputs=QUESTION)


def example(number: int) -> dict[str, Any]:
    """Return the example of that number; each is another one."""
    return sequence(np.random.default_rng(number), STEPS)._asdict()


@final
@dataclass(slots=True)
class Load:
    """What is asked of the service, and what came of it.

    Attributes:
        acknowledged: the number of each example that was acknowledged, by the place that the answer named.
        unknown: the numbers of those whose client hung up or got no answer.
        statuses: how many answers had which status.
        memory: the resident memory of each process before it was ended, in MB.
    """

    requests: int
    connections: int
    gone: int
    kills: int
    acknowledged: dict[int, int] = field(default_factory=dict)
    unknown: list[int] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    memory: list[float] = field(default_factory=list)
    sent: int = 0
    #: How many answers there were, or clients that went.
    _ended: int = 0
    #: The number of those after which the service is killed, and the event that they are reached.
    _until_killed: int = 0
    _enough: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, path: Path) -> list[Any]:
        """Put it on services in that directory, one after another; return the last one's answer."""
        options = ("--hidden", str(HIDDEN), "--checkpoint-every", "1000000")
        for round_nr in range(self.kills + 1):
            until = self.requests * (round_nr + 1) // (self.kills + 1)
            # Half of those of a round are answered, and the others are under way.
            self._until_killed = self._ended + max(1, (until - self.sent) // 2)
            self._enough = asyncio.Event()
            limit = str(2 * self.connections)
            async with server(SCRIPT, path, *options, "--max-connections", limit) as running:
                limits = httpx.Limits(max_connections=self.connections, max_keepalive_connections=self.connections)
                url = running.client.base_url
                async with httpx.AsyncClient(base_url=url, timeout=30.0, trust_env=False, limits=limits) as client:
                    tasks = [asyncio.create_task(self._client(client, until)) for _ in range(self.connections)]
                    await self._enough.wait()
                    self.memory.append(_resident_megabytes(running))
                    if round_nr == self.kills:
                        await asyncio.gather(*tasks)
                        answer: list[Any] = (await running.ask("/predict", ASK)).json()["outputs"]
                        return answer
                    # Those whose answers are under way get none.
                    await running.end(signal.SIGKILL)
                    await asyncio.gather(*tasks)
        raise AssertionError("the last round returns")

    async def _client(self, client: httpx.AsyncClient, until: int) -> None:
        while self.sent < until:
            self.sent += 1
            number = self.sent
            is_example = number % LEARN_EVERY == 0
            try:
                if not is_example:
                    self.statuses[(await client.post("/predict", content=ASK, headers=JSON)).status_code] += 1
                    self._end()
                    continue
                hangs_up = self.gone > 0 and number % (2 * LEARN_EVERY) == 0
                self.gone -= hangs_up
                async with asyncio.timeout(PATIENCE if hangs_up else None):
                    answer = await client.post("/learn", content=body(**example(number)), headers=JSON)
            except TimeoutError:
                self.unknown.append(number)
                self._end()
                continue
            except httpx.TransportError:
                self.unknown.extend([number] * is_example)
                self._enough.set()
                return
            self.statuses[answer.status_code] += 1
            self._end()
            if answer.status_code == httpx.codes.OK:
                place = answer.json()["learned"]
                if place in self.acknowledged:
                    raise AssertionError(f"{place} was named twice, for {self.acknowledged[place]} and {number}")
                self.acknowledged[place] = number

    def _end(self) -> None:
        self._ended += 1
        if self._ended >= self._until_killed:
            self._enough.set()


def _resident_megabytes(running: Server) -> float:
    path = Path(f"/proc/{running.process.pid}/statm")
    return int(path.read_text().split()[1]) * 4096 / 1e6 if path.exists() else 0.0


def in_journal(path: Path, most: int) -> list[int]:
    """Return the numbers of the examples in a journal, in order.

    Raises:
        AssertionError: one is there twice, or is none that was sent.
    """
    numbers = {json.dumps(example(nr)["inputs"].tolist()): nr for nr in range(LEARN_EVERY, most + 1, LEARN_EVERY)}
    records = [record_of(line) for line in (path / "journal").read_bytes().splitlines(keepends=True)]
    found = [numbers[json.dumps(one["inputs"].tolist())] for record in records for one in record.examples]
    twice = [nr for nr, count in Counter(found).items() if count > 1]
    assert not twice, f"learned twice: {twice}"
    return found


async def replayed(numbers: Sequence[int]) -> list[Any]:
    """Return what a model answers that has learned these examples in order."""
    async with new_learner(None, HIDDEN) as learner:
        for number in numbers:
            await learner.learn(example(number))
        answer: list[Any] = (await learner.predict({"inputs": QUESTION})).tolist()
        return answer


async def check(path: Path, load: Load) -> int:
    """Put a load on services in a directory; return how many examples were learned.

    Raises:
        AssertionError: an acknowledged example is lost, one was learned twice, or the model is not that of a replay.
    """
    answer = await load.put(path)
    order = in_journal(path, load.requests)
    lost = {place: nr for place, nr in load.acknowledged.items() if order[place - 1 : place] != [nr]}
    assert not lost, f"acknowledged, and not at its place in the journal: {lost}"
    others = set(order) - set(load.acknowledged.values()) - set(load.unknown)
    assert not others, f"learned, though they were refused: {others}"
    assert answer == await replayed(order), "the model is not that of a replay in order"
    return len(order)


async def compare_latencies(seconds: float) -> tuple[float, float]:
    """Return the 99th percentile of a prediction's milliseconds, without learning and beside it."""
    with tempfile.TemporaryDirectory() as folder:
        async with server(SCRIPT, Path(folder)) as running:
            await put_to_work(running, 0.5, 0, 0)
            idle = await put_to_work(running, seconds, 0, 0)
            busy = await put_to_work(running, seconds, 2, 1)
    quiet, late = (float(np.percentile(np.array(one.latencies) * 1000, 99)) for one in (idle, busy))
    return quiet, late


async def main(options: argparse.Namespace) -> None:
    """Measure, check, and print both."""
    idle, busy = await compare_latencies(options.seconds)
    print(
        f"p99 of a prediction: {idle:.2f} ms, and {busy:.2f} ms ({busy / idle:.2f} x) beside learning of {POSTED} steps"
    )
    load = Load(options.requests, options.connections, options.gone, options.kills)
    with tempfile.TemporaryDirectory() as folder:
        learned = await check(Path(folder), load)
    statuses = ", ".join(f"{count} x {status}" for status, count in sorted(load.statuses.items()))
    print(f"{load.sent} requests, {options.connections} at a time; answers: {statuses}; {load.kills} times killed")
    known = len(load.acknowledged)
    print(f"{learned} examples learned, {known} of them acknowledged; {len(load.unknown)} clients went")
    print("nothing acknowledged was lost, nothing was learned twice, and the model is that of a replay in order")
    print(f"resident memory of the processes: {min(load.memory):.0f} to {max(load.memory):.0f} MB")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=1000, help="at a time")
    parser.add_argument("--gone", type=int, default=200, help="clients that hang up while their example is learned")
    parser.add_argument("--kills", type=int, default=20, help="times that the service is killed")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement of predictions")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    ag.run(main(parse(sys.argv[1:])))
