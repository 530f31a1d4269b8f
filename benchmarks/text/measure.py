"""Measurements of one library with one graph: times, requests, the order of critiques, and what a failure leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from .graphs import Graph
from .line import Line, ModelError
from .sides import Side

__all__ = ["RUNS", "Row", "measured"]

#: How many runs with other waits are compared, and the share of the seconds that answers take in these.
RUNS, SHARE = 10, 0.2


@dataclass
class Row:
    """What was measured of a library with a graph."""

    graph: str
    depth: int
    library: str
    #: The seconds of each round: of the backward, where it can be timed apart, and of forward and backward.
    backward: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    #: The requests of forward and backward.
    requests: int = 0
    #: How many different gradients the prompt had in ten runs, in which answers came in other orders.
    gradients: int = 0
    #: After a request has failed: how many critiques the prompt had, and how many requests still ran.
    left: int = 0
    running: int = 0
    #: What a second try asked, and whether the prompt had as many critiques after it as without a failure.
    asked_again: int = 0
    is_whole: bool = False


async def measured(side: type[Side], graph: Graph, url: str, seconds: float, rounds: int) -> Row:
    """Measure a library with a graph.

    Args:
        side: the library.
        graph: the graph.
        url: where the stand-in is.
        seconds: how long each answer takes.
        rounds: how often it is timed, after a run that opens the connections.
    """
    row = Row(graph.title, graph.depth, side.name)
    async with Line(url, seconds * SHARE) as line:
        await _timed(side, graph, line)
        line.seconds = seconds
        for _ in range(rounds):
            before = line.sent
            forward, backward = await _timed(side, graph, line)
            row.requests = line.sent - before
            row.whole.append(forward + backward)
            if side.is_split:
                row.backward.append(backward)
    found = set()
    for seed in range(RUNS):
        async with Line(url, seconds * SHARE, seed=seed) as line:
            run = side(graph, line)
            await run.forward()
            await run.backward()
            found.add("\n".join(run.gradient()))
    row.gradients = len(found)
    await _failed(side, graph, url, seconds * SHARE, row)
    return row


async def _timed(side: type[Side], graph: Graph, line: Line) -> tuple[float, float]:
    run = side(graph, line)
    began = perf_counter()
    await run.forward()
    middle = perf_counter()
    await run.backward()
    return middle - began, perf_counter() - middle


async def _failed(side: type[Side], graph: Graph, url: str, seconds: float, row: Row) -> None:
    """Have one of the last requests of a backward fail, and try again."""
    async with Line(url, seconds) as line:
        whole = side(graph, line)
        await whole.forward()
        await whole.backward()
    async with Line(url, seconds) as line:
        run = side(graph, line)
        await run.forward()
        line.fails_at = row.requests - 3
        try:
            await run.backward()
        except ModelError:
            row.left, row.running = len(run.gradient()), line.open
        else:
            raise RuntimeError(f"{side.name}: the backward has succeeded, although a request failed")
        await line.idle()
        before = line.sent
        await run.backward()
        row.asked_again = line.sent - before
        row.is_whole = len(run.gradient()) == len(whole.gradient())
