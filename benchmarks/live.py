"""`python -m benchmarks.live`: what a live page costs a service under load, with pages open and without, in turns.

    python -m benchmarks.live                       # 1,000 requests a second, and as many as it can, with 3 pages open
    python -m benchmarks.live --rounds 20           # four times as long, for a narrower range

A service of Starlette on uvicorn, in a process of its own, predicts and learns. It is asked over a few connections that
stay open: at a fixed rate, for the processor time of the service for each request, and the share of it in which events
of pages are made and sent; as fast as it answers, for the requests in a second; and not at all, for what a page takes
by itself. The share is of one clock in one run, so that it is told to a tenth of a percent where the ratio of two runs
is not. In each round all three are measured with pages
open and without, first the one and then the other in turns, so that a machine that becomes slower meanwhile favours
neither. A ratio is the median of those of the rounds, beside the range of their middle half: a claim that lies in it is
none. It takes less than a minute, and writes nothing. It fails where pages take more than 3 % of the processor time of
the requests, and where the machine was too busy to tell.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

__all__ = ["Compared", "Costs", "main", "measure"]

ROOT = Path(__file__).resolve().parent.parent
#: The connections that requests come over, and of so many requests, one is an example to learn.
CONNECTIONS, LEARN_EVERY = 16, 20
#: The share of the processor time of the requests that pages may take.
ALLOWED = 0.03
ASK, TEACH = json.dumps([0.1, 0.2, 0.3, 0.4]), json.dumps({"x": [0.1, 0.2, 0.3, 0.4], "y": [0.5]})


class Compared(NamedTuple):
    """Medians over the rounds, with pages and without; of the ratios of both in one round, the three quartiles."""

    opened: float
    closed: float
    ratios: tuple[float, float, float]


class Costs(NamedTuple):
    """What pages cost.

    Attributes:
        microseconds: processor time of the service for a request, at the fixed rate.
        share: of this, that for events of pages: its least, its median, and its most in the rounds.
        requests: requests in a second, as fast as it answers.
        idle: processor milliseconds of the service in a second in which nobody asks for anything.
        rate: how many requests of the first there were in a second, in the slowest round.
    """

    microseconds: Compared
    share: tuple[float, float, float]
    requests: Compared
    idle: Compared
    rate: float


def _request(method: str, path: str, body: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()


_REQUESTS = [_request("POST", "/predict", ASK)] * (LEARN_EVERY - 1) + [_request("POST", "/learn", TEACH)]


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    """Return the body of an answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise AssertionError(head.decode())
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))


@asynccontextmanager
async def _pages(port: int, count: int) -> AsyncIterator[None]:
    """Have so many pages open, which take their events, and go on with another stream as a browser does."""

    async def look() -> None:
        last = ""
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
            header = f"\r\nlast-event-id: {last}" if last else ""
            writer.write(f"GET /live/events HTTP/1.1\r\nhost: localhost{header}\r\n\r\n".encode())
            try:
                while line := await reader.readuntil(b"\n"):
                    if line.startswith(b"id: "):
                        last = line[4:].decode().strip()
                        begun.set()
            except asyncio.IncompleteReadError:
                continue  # the stream has ended, and the page goes on with another one
            finally:
                writer.close()

    tasks = []
    for _ in range(count):
        begun = asyncio.Event()
        tasks.append(asyncio.create_task(look()))
        await begun.wait()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _load(port: int, seconds: float, rate: float | None) -> tuple[float, float, float]:
    """Ask for so long; return the service's processor seconds for a request, the pages' share, requests in a second."""
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
    asked = 0
    before = await _used(*streams[0])
    began = time.perf_counter()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while (elapsed := time.perf_counter() - began) < seconds:
            if rate is not None and (early := asked / rate - elapsed) > 0:
                await asyncio.sleep(early)
                continue
            asked += 1
            await _ask(reader, writer, _REQUESTS[asked % LEARN_EVERY])

    await asyncio.gather(*(client(*stream) for stream in streams))
    took = time.perf_counter() - began
    used, of_pages = (after - former for after, former in zip(await _used(*streams[0]), before, strict=True))
    for _, writer in streams:
        writer.close()
        await writer.wait_closed()
    return used / asked, of_pages / used, asked / took


async def _used(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[float, float]:
    """Return the service's processor seconds until now, and those for events of pages."""
    whole, of_pages = json.loads(await _ask(reader, writer, _request("GET", "/used")))
    return whole, of_pages


async def _idle(port: int, seconds: float) -> float:
    """Return the service's processor seconds in a second."""
    stream = await asyncio.open_connection("127.0.0.1", port)
    before, _ = await _used(*stream)
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    used = (await _used(*stream))[0] - before
    stream[1].close()
    await stream[1].wait_closed()
    return used / (time.perf_counter() - began)


async def measure(rounds: int, seconds: float, pages: int, rate: float) -> Costs:
    """Start the service, and measure it in turns."""
    words = [sys.executable, "-m", "benchmarks.live_service"]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        await _load(port, 1.0, None)  # the first requests are the slowest
        found: list[tuple[_Turn, _Turn]] = []
        for number in range(rounds):
            turns: dict[bool, _Turn] = {}
            for is_open in (True, False) if number % 2 else (False, True):
                async with _pages(port, pages if is_open else 0):
                    turns[is_open] = await _turn(port, seconds, rate)
            found.append((turns[True], turns[False]))
    finally:
        process.terminate()
        await process.wait()
    used, most, idle = (_compared([(ours[place], theirs[place]) for ours, theirs in found]) for place in range(3))
    shares = sorted(ours.share for ours, _ in found)
    share = (shares[0], statistics.median(shares), shares[-1])
    return Costs(used, share, most, idle, min(turn.rate for pair in found for turn in pair))


class _Turn(NamedTuple):
    microseconds: float
    requests: float
    idle: float
    share: float
    rate: float


async def _turn(port: int, seconds: float, rate: float) -> _Turn:
    used, share, asked = await _load(port, seconds, rate)
    _, _, most = await _load(port, seconds, None)
    return _Turn(1e6 * used, most, 1e3 * await _idle(port, seconds / 2), share, asked)


def _compared(pairs: list[tuple[float, float]]) -> Compared:
    ours, theirs = (statistics.median(each) for each in zip(*pairs, strict=True))
    low, middle, high = statistics.quantiles([one / other for one, other in pairs], method="inclusive")
    return Compared(ours, theirs, (low, middle, high))


def _taken(found: Costs, rate: float) -> float:
    """Return the share that pages take of the processor time of so many requests a second.

    That is the larger of what their events take of it, and of what open pages take beside no request at all: the timers
    and tasks that are not part of making and sending an event.
    """
    alone = (found.idle.opened - found.idle.closed) / 1e3
    return max(found.share[1], alone / (rate * found.microseconds.closed / 1e6))


def main() -> int:
    """Measure, and print a table; return the exit code, which is 1 where pages cost too much."""
    parser = argparse.ArgumentParser(description="What a live page costs a service under load.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load; half of it without one")
    parser.add_argument("--pages", type=int, default=3, help="that are open")
    parser.add_argument("--rate", type=float, default=1000.0, help="requests a second, for the processor time of one")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be 2 or more: one round has no range")
    found = asyncio.run(measure(options.rounds, options.seconds, options.pages, options.rate))
    if found.rate < 0.9 * options.rate:
        print(f"only {found.rate:,.0f} requests a second were asked for: this machine is busy", file=sys.stderr)
    print(f"| {options.pages} pages | open | closed | ratio | its middle half |")
    print("| --- | ---: | ---: | ---: | ---: |")
    name = f"processor time of a request, {options.rate:,.0f} a second, µs"
    asked = found.microseconds
    print(f"| {name} | {asked.opened:.0f} | {asked.closed:.0f} | {_ratio(asked)} |")
    least, share, greatest = found.share
    print(f"| of it for events of pages | {share:.2%} | | | {least:.2%} to {greatest:.2%} |")
    idle = found.idle
    more = f"{(idle.opened - idle.closed) / 1e3:.1%} of a core more"
    print(f"| processor time of an idle second, ms | {idle.opened:.1f} | {idle.closed:.1f} | {more} | |")
    most = found.requests
    print(f"| requests a second, at most | {most.opened:,.0f} | {most.closed:,.0f} | {_ratio(most)} |")
    if (taken := _taken(found, options.rate)) > ALLOWED:
        print(f"pages take {taken:.1%} of the processor time, more than {ALLOWED:.0%}", file=sys.stderr)
    return int(taken > ALLOWED or found.rate < 0.9 * options.rate)


def _ratio(found: Compared) -> str:
    low, middle, high = found.ratios
    return f"{middle:.3f} | {low:.3f} to {high:.3f}"


if __name__ == "__main__":
    sys.exit(main())
