"""The command line: which benchmarks, how many rounds, and where the figures go.

python -m benchmarks chain lstm --rounds 5     measure two topics, print their table
python -m benchmarks --write                   measure all; write results.json, the chart, and README's tables
python -m benchmarks lstm --write              measure one anew, and leave the other rows as they were recorded
python -m benchmarks --from FILE               print the table of a record, and measure nothing
python -m benchmarks --from FILE --write       write the chart and README's tables from it
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
    "waiting",
    "branches",
    "lateness",
    "checkpoint",
    "offload",
)


#: Where README.md is, and what `--write` writes beside it, by the path that README links to.
ROOT = Path(__file__).parent.parent
README, RAW, CHART = "README.md", "benchmarks/results.json", "benchmarks/results.svg"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure asyncgrad against its peers.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(TOPICS)}; all if left out")
    parser.add_argument("--rounds", type=int, help="how often each peer is measured (default: 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the seconds of every round there")
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on while measuring")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="read a record, measure nothing")
    parser.add_argument("--write", action="store_true", help=f"write {RAW}, {CHART} and the tables of {README}")
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
        parser.error(f"--write needs {', '.join(missing)}: pip install 'asyncgrad[bench]'")
    options.error = parser.error
    return options


def _missing(measuring: bool) -> list[str]:
    """Return what the extra `bench` brings and is not here: the chart's library, and the peers of a whole table."""
    peers = {"PyTorch": torch, "HIPS autograd": hips_numpy, "MyGrad": mygrad} if measuring else {}
    missing = [name for name, module in peers.items() if module is None]
    return missing if chart.can_draw() else [*missing, "matplotlib"]


def _machine(*, collect: bool) -> dict[str, str]:
    return {**describe(), "garbage collector": "on"} if collect else describe()


def measured(names: Sequence[str], rounds: int, *, collect: bool) -> Record:
    """Return what the topics of these names measure."""
    if torch is not None:
        torch.set_num_threads(1)
    results: list[Result] = []
    for name in names:
        results.extend(run(import_module(f"benchmarks.{name}").BENCHMARKS, rounds, collect=collect))
    return Record(_machine(collect=collect), results)


def write(record: Record, root: Path) -> None:
    """Write the record, the chart and README's tables; nothing if README has no place for them."""
    text = _readme(report.block(record, CHART, RAW), root)
    drawn = chart.draw(record.results)
    (root / RAW).write_text(record.text(), encoding="utf-8")
    (root / CHART).write_text(drawn, encoding="utf-8")
    (root / README).write_text(text, encoding="utf-8")


def _readme(block: str, root: Path) -> str:
    """Return README's text with a block in the place that is for it."""
    readme = root / README
    try:
        text = readme.read_text(encoding="utf-8")
    except OSError as error:
        raise UnusableRecordError(f"{readme} cannot be read: {error.strerror}") from error
    return report.replaced(text, block, readme)


def _recorded(options: argparse.Namespace) -> Record | None:
    """Return the record whose other rows stay, once it is clear, before all the measuring, that it can be written."""
    if not options.write:
        return None
    before = Record.read(ROOT / RAW) if options.names else None
    if before is not None:
        before.merged(Record(_machine(collect=options.gc)))
    _readme("", ROOT)
    return before


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read, print, write; return the exit status."""
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
