"""The command line of the benchmark of compiled functions.

python -m benchmarks jit                 measure all workloads, and print the tables
python -m benchmarks jit --quick         the same with fewer rounds, without the compilers that take minutes
python -m benchmarks jit mlp --quick     only workloads whose name has a word
python -m benchmarks jit --write         write benchmarks/jit.json and the tables of docs/jit.md
python -m benchmarks jit --from FILE     print the tables of a record, without measuring; --write writes the page's
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .. import report as reports
from ..machine import describe, versions
from ..record import Record, UnusableRecordError
from ..runner import run
from .report import JitRecord, block, printed
from .sides import SIDES
from .steps import WITH_ADAM, Compiling, benchmarks_of, run_alone, warm
from .workloads import WORKLOADS

__all__ = ["PAGE", "RAW", "ROOT", "main", "measured", "write"]

ROOT = Path(__file__).parent.parent.parent
#: The files that `--write` writes, as paths from the root of the project.
RAW, PAGE = "benchmarks/jit.json", "docs/jit.md"
ROUNDS, QUICK_ROUNDS = 15, 3
#: The packages whose versions are recorded besides.
COMPILERS = ("jax", "llvmlite", "numba", "pytensor")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the checked options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks jit", description="Measure compiled functions.")
    parser.add_argument("words", nargs="*", metavar="word", help="measure only workloads whose name has one of these")
    parser.add_argument("--rounds", type=int, help=f"how often each side is measured (default: {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; without compilers that take minutes")
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on while measuring")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record there")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="read a record, measure nothing")
    parser.add_argument("--write", action="store_true", help=f"write {RAW} and the tables of {PAGE}")
    options = parser.parse_args(arguments)
    titles = [one.title + WITH_ADAM for one in WORKLOADS]
    for word in options.words:
        if not any(word.lower() in title.lower() for title in titles):
            parser.error(f"no workload is called {word!r}: there are {'; '.join(titles)}")
    if options.source is not None and (options.words or options.quick or options.gc or options.rounds is not None):
        parser.error("--from measures nothing: leave out words, --rounds, --quick and --gc")
    if options.rounds is None:
        options.rounds = QUICK_ROUNDS if options.quick else ROUNDS
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, not {options.rounds}")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    if options.write and (options.words or options.quick):
        parser.error("--write writes all measurements: leave out words and --quick")
    if options.write and options.source is None and not {"torch", "JAX"} <= SIDES.keys():
        parser.error("--write needs JAX and PyTorch: pip install -e '.[bench]'")
    options.error = parser.error
    return options


@contextmanager
def one_core() -> Iterator[None]:
    """Hold this thread, and those that it starts meanwhile, on one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measured(words: Sequence[str], rounds: int, *, quick: bool, collect: bool = False) -> JitRecord:
    """Measure, and return the record.

    Args:
        words: parts of the names of workloads; all if there are none.
        rounds: how often each side is measured.
        quick: leave out compilers that take minutes.
        collect: leave the garbage collector on while measuring.
    """
    compiling: Compiling = {}
    machine = {**describe(), **versions(COMPILERS)} | ({"garbage collector": "on"} if collect else {})
    with one_core():
        run_alone(warm(quick=quick))
        results = list(run(benchmarks_of(words, quick=quick, compiling=compiling), rounds, collect=collect))
    return JitRecord(Record(machine, results), compiling)


def write(record: JitRecord, root: Path) -> None:
    """Write the record, and the tables of the page; write nothing if the page has no markers for the tables."""
    reports.write(root / RAW, record.text(), root / PAGE, block(record, f"../{RAW}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read a record, print and write it; return the exit status."""
    options = parse(arguments)
    try:
        if options.source is not None:
            record = JitRecord.read(options.source)
        else:
            record = measured(options.words, options.rounds, quick=options.quick, collect=options.gc)
        print(printed(record))
        if options.json is not None:
            options.json.write_text(record.text(), encoding="utf-8")
        if options.write:
            write(record, ROOT)
    except UnusableRecordError as error:
        options.error(str(error))
    return 0
