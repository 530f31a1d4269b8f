"""The command line of the benchmark of graphs of texts.

python -m benchmarks text                 measure all libraries that are installed, and print the tables
python -m benchmarks text --write         write benchmarks/text.json and the tables of docs/text-gradients.md
python -m benchmarks text --from FILE     print the tables of a record, without measuring; --write writes the page's

The other libraries are textgrad, pyplait and autoform. They need Python 3.13:
python3.13 -m venv peers ; peers/bin/pip install . textgrad pyplait autoform httpx starlette uvicorn
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path

import asyncgrad as ag

from .. import report as reports
from ..machine import describe, versions
from ..record import UnusableRecordError
from .graphs import GRAPHS, Graph
from .measure import Row, measured
from .report import TextRecord, block, printed
from .server import running
from .sides import ALL, SIDES

__all__ = ["PAGE", "RAW", "ROOT", "main", "record_of", "write"]

ROOT = Path(__file__).parent.parent.parent
#: The files that `--write` writes, as paths from the root of the project.
RAW, PAGE = "benchmarks/text.json", "docs/text-gradients.md"
#: What the registry does not have.
NOWHERE = {"horsona": "no package of the registry has it"}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the checked options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks text", description="Measure backward passes of texts.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each library is timed (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long an answer takes (default: 0.5)")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="read a record, measure nothing")
    parser.add_argument("--write", action="store_true", help=f"write {RAW} and the tables of {PAGE}")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, not {options.rounds}")
    if options.seconds < 0.0:
        parser.error(f"--seconds must not be negative, and is {options.seconds}")
    lacking = [side.package for side in ALL if side.name not in SIDES]
    if options.write and options.source is None and lacking:
        parser.error(f"--write needs {', '.join(lacking)}: pip install {' '.join(lacking)}, with Python 3.13")
    options.error = parser.error
    return options


def record_of(graphs: Sequence[Graph], seconds: float, rounds: int) -> TextRecord:
    """Measure all libraries that are here, and return the record."""

    async def rows(url: str) -> list[Row]:
        return [await measured(side, graph, url, seconds, rounds) for graph in graphs for side in SIDES.values()]

    with running() as url:
        found = ag.run(rows(url))
    missing = {side.name: f"{side.package} is not installed" for side in ALL if side.name not in SIDES}
    machine = {**describe(), **versions(side.package for side in ALL)}
    return TextRecord(machine, datetime.date.today().isoformat(), seconds, {**missing, **NOWHERE}, found)


def write(record: TextRecord, root: Path) -> None:
    """Write the record, and the tables of the page; write nothing if the page has no markers for the tables."""
    reports.write(root / RAW, record.text(), root / PAGE, block(record, f"../{RAW}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read a record, print and write it; return the exit status."""
    options = parse(arguments)
    try:
        if options.source is not None:
            record = TextRecord.read(options.source)
        else:
            record = record_of(GRAPHS, options.seconds, options.rounds)
        print(printed(record))
        if options.write:
            write(record, ROOT)
    except UnusableRecordError as error:
        options.error(str(error))
    return 0
