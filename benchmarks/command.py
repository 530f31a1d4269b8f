"""The command line: which benchmarks to run, for how many rounds, and where to write the figures.

python -m benchmarks chain lstm --rounds 5     measure two topics, and print their table
python -m benchmarks --write                   measure all; write results.json, the chart, and the pages' tables
python -m benchmarks lstm --write              measure one topic again, and keep the other rows of the record
python -m benchmarks --from FILE               print the table of a record, without measuring
python -m benchmarks --from FILE --write       write the chart and the pages' tables from a record
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from . import chart, report
from .machine import describe
from .peers import hips_numpy, mygrad, torch
from .record import Record, UnusableRecordError
from .runner import Result, run

__all__ = ["TOPICS", "main"]

TOPICS = (
    "chain",
    "mlp",
    "transformer",
    "lstm",
    "in_place",
    "many",
    "branches",
    "lateness",
    "checkpoint",
    "offload",
)


#: The root of the project, and the paths in it of the files that `--write` writes.
ROOT = Path(__file__).parent.parent
RAW, CHART = "benchmarks/results.json", "benchmarks/results.svg"
#: The pages that show the record, each with the function of its text and its relative path to the root.
PAGES = {"README.md": (report.summary, ""), "docs/performance.md": (report.block, "../")}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure asyncgrad against its peers.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(TOPICS)}; all if left out")
    parser.add_argument("--rounds", type=int, help="how often each peer is measured (default: 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the seconds of every round there")
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on while measuring")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="read a record, measure nothing")
    parser.add_argument(
        "--write", action="store_true", help=f"write {RAW}, {CHART} and the tables of {' and '.join(PAGES)}"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in TOPICS]:
        parser.error(f"no benchmark is called {unknown[0]!r}: there are {', '.join(TOPICS)}")
    if options.source is not None and (options.names or options.gc or options.rounds is not None):
        parser.error("--from measures nothing: leave out the names, --rounds and --gc")
    options.rounds = 15 if options.rounds is None else options.rounds
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, not {options.rounds}")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    if options.write and (missing := _missing(measuring=options.source is None)):
        parser.error(f"--write needs {', '.join(missing)}: pip install -e '.[bench]'")
    options.error = parser.error
    return options


def _missing(measuring: bool) -> list[str]:
    """Return the missing packages of the extra `bench`: matplotlib for the chart, and the peers if they are needed."""
    peers = {"PyTorch": torch, "HIPS autograd": hips_numpy, "MyGrad": mygrad} if measuring else {}
    missing = [name for name, module in peers.items() if module is None]
    return missing if chart.can_draw() else [*missing, "matplotlib"]


def _machine(*, collect: bool) -> dict[str, str]:
    return {**describe(), "garbage collector": "on"} if collect else describe()


def measured(names: Sequence[str], rounds: int, *, collect: bool) -> Record:
    """Measure the topics with these names, and return the record."""
    if torch is not None:
        torch.set_num_threads(1)
    results: list[Result] = []
    for name in names:
        results.extend(run(import_module(f"benchmarks.{name}").BENCHMARKS, rounds, collect=collect))
    return Record(_machine(collect=collect), results)


def write(record: Record, root: Path) -> None:
    """Write the record, the chart and the pages' tables; write nothing if a page has no markers for them."""
    texts = _pages(record, root)
    drawn = chart.draw(record.results)
    (root / RAW).write_text(record.text(), encoding="utf-8")
    (root / CHART).write_text(drawn, encoding="utf-8")
    for page, text in texts.items():
        page.write_text(text, encoding="utf-8")


def _pages(record: Record | None, root: Path) -> dict[Path, str]:
    """Return the text of each page, with the part of a record between its markers; nothing there for None."""
    texts = {}
    for name, (shown, up) in PAGES.items():
        page = root / name
        try:
            text = page.read_text(encoding="utf-8")
        except OSError as error:
            raise UnusableRecordError(f"{page} cannot be read: {error.strerror}") from error
        block = "" if record is None else shown(record, up + CHART, up + RAW)
        texts[page] = report.replaced(text, block, page)
    return texts


def _recorded(options: argparse.Namespace) -> Record | None:
    """Return the record whose other rows are kept, if any. Errors are found here, before anything is measured."""
    if not options.write:
        return None
    before = Record.read(ROOT / RAW) if options.names else None
    if before is not None:
        before.merged(Record(_machine(collect=options.gc)))
    _pages(None, ROOT)
    return before


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read a record, print and write it; return the exit status."""
    options = parse(arguments)
    try:
        if options.source is None:
            before = _recorded(options)
            record = measured(options.names or TOPICS, options.rounds, collect=options.gc)
        else:
            before, record = None, Record.read(options.source)
        print(report.printed(record))
        if options.json is not None:
            options.json.write_text(record.text(), encoding="utf-8")
        if options.write:
            write(record if before is None else before.merged(record), ROOT)
    except UnusableRecordError as error:
        options.error(str(error))
    return 0
