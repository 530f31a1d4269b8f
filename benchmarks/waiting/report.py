"""The table of docs/batching-and-limits.md, made from the record alone: a row for each case, with each loop."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ..record import Record
from ..report import marked, measured_on
from ..runner import Result
from .loops import LOOPS

__all__ = ["block", "printed"]

#: The limit of a case, by the name of its second peer.
LIMITS = {
    "one row": "one row",
    "steps": "its steps",
    "requests": "as many waits",
    "critical path": "the critical path",
    "torch": "PyTorch's, one by one",
}

#: What the time is to be over the limit at most, on asyncio and on uvloop.
AIMS = {
    "one row": (1.3, 1.3),
    "steps": (1.5, 1.5),
    "requests": (1.3, 1.3),
    "critical path": (1.10, 1.06),
    "torch": (0.55, 0.55),
}


def block(record: Record, raw: str) -> str:
    """Return the table as Markdown between markers.

    Args:
        record: the measurements.
        raw: the path of the record, as the page links to it.
    """
    return marked("python -m benchmarks waiting --write", raw, _table(record.results), measured_on(record, raw))


def printed(record: Record) -> str:
    """Return the table and the machine as text for a terminal."""
    return "\n\n".join([_table(record.results), measured_on(record, "")])


def _table(results: Sequence[Result]) -> str:
    """Return for each case and loop the time, its ratio to the limit, what that is to be, and those of the floor."""
    cases: dict[str, dict[str, Result]] = {}
    for result in results:
        case, _, loop = result.case.rpartition(", on ")
        cases.setdefault(case, {})[loop] = result
    loops = [loop for loop in LOOPS if any(loop in found for found in cases.values())]
    ratios = ["÷ limit", "aim", "by hand ÷ limit", "÷ by hand"]
    rows = [["", "limit", *(head for loop in loops for head in (f"{loop}, ms", *ratios))]]
    for case, found in cases.items():
        limit = next(peer for peer in next(iter(found.values())).seconds if peer in LIMITS)
        cells = [cell for loop in loops for cell in _cells(found.get(loop), limit, AIMS[limit][LOOPS.index(loop)])]
        rows.append([case, LIMITS[limit], *cells])
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"| --- | --- |{' ---: |' * (len(rows[0]) - 2)}", *others])


def _cells(result: Result | None, limit: str, aim: float) -> list[str]:
    if result is None:
        return ["-"] * 5
    ratios = [result.ratio(limit), aim, result.ratio(limit, of="floor"), result.ratio("floor")]
    milliseconds = 1e3 * statistics.median(result.seconds["asyncgrad"])
    return [f"{milliseconds:,.1f}", *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)]
