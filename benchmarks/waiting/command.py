"""The command line of the benchmark of programs that wait.

python -m benchmarks waiting                 measure all, and print the table
python -m benchmarks waiting jacobian        only cases whose name has a word
python -m benchmarks waiting --write         write benchmarks/waiting.json and the table of docs/batching-and-limits.md
python -m benchmarks waiting --from FILE     print the table of a record, without measuring; --write writes the page's
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from .. import report as reports
from ..machine import describe, versions
from ..peers import torch
from ..record import Record, UnusableRecordError
from ..runner import Benchmark, run
from .critical_path import CriticalPath
from .passes import Passes
from .report import block, printed
from .requests import Requests
from .rows import Rows

try:
    from . import least_squares
    from .server import running_server
except ImportError:
    least_squares = None  # type: ignore[assignment]

__all__ = ["PAGE", "RAW", "ROOT", "main", "measured", "write"]

ROOT = Path(__file__).parent.parent.parent
#: The files that `--write` writes, as paths from the root of the project.
RAW, PAGE = "benchmarks/waiting.json", "docs/batching-and-limits.md"
ROUNDS = 7
#: The packages whose versions are recorded besides.
SERVED_BY = ("httpx", "scipy", "starlette", "uvicorn")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the checked options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks waiting", description="Measure programs that wait.")
    parser.add_argument("words", nargs="*", metavar="word", help="measure only cases whose name has one of these")
    parser.add_argument("--rounds", type=int, help=f"how often each side is measured (default: {ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record there")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="read a record, measure nothing")
    parser.add_argument("--write", action="store_true", help=f"write {RAW} and the table of {PAGE}")
    options = parser.parse_args(arguments)
    titles = [one.title for one in _benchmarks("")]
    for word in options.words:
        if not any(word.lower() in title.lower() for title in titles):
            parser.error(f"no case is called {word!r}: there are {'; '.join(titles)}")
    if options.source is not None and (options.words or options.rounds is not None):
        parser.error("--from measures nothing: leave out words and --rounds")
    options.rounds = ROUNDS if options.rounds is None else options.rounds
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, not {options.rounds}")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    if options.write and options.words:
        parser.error("--write writes all measurements: leave out words")
    if options.write and options.source is None and (torch is None or least_squares is None):
        parser.error("--write needs PyTorch, SciPy, httpx and uvicorn: pip install -e '.[bench,scipy,serve]'")
    options.error = parser.error
    return options


def _benchmarks(address: str) -> list[type[Benchmark]]:
    """Return the benchmarks that can run here, with a solver at that address."""
    found: list[type[Benchmark]] = [Rows]
    if least_squares is not None:
        found.append(least_squares.least_squares_at(address))
    found += [Requests, CriticalPath]
    return found if torch is None else [*found, Passes]


def measured(words: Sequence[str], rounds: int) -> Record:
    """Measure, and return the record.

    Args:
        words: parts of the names of cases; all if there are none.
        rounds: how often each side is measured.
    """
    if torch is not None:
        torch.set_num_threads(1)
    with ExitStack() as stack:
        asks = least_squares is not None and _has_word(least_squares.LeastSquares, words)
        address = stack.enter_context(running_server(least_squares.SECONDS)) if asks else ""
        chosen = [one for one in _benchmarks(address) if _has_word(one, words)]
        results = list(run(chosen, rounds))
    return Record({**describe(), **versions(SERVED_BY)}, results)


def _has_word(benchmark: type[Benchmark], words: Sequence[str]) -> bool:
    return not words or any(word.lower() in benchmark.title.lower() for word in words)


def write(record: Record, root: Path) -> None:
    """Write the record, and the table of the page; write nothing if the page has no markers for it."""
    reports.write(root / RAW, record.text(), root / PAGE, block(record, f"../{RAW}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read a record, print and write it; return the exit status."""
    options = parse(arguments)
    try:
        record = measured(options.words, options.rounds) if options.source is None else Record.read(options.source)
        print(printed(record))
        if options.json is not None:
            options.json.write_text(record.text(), encoding="utf-8")
        if options.write:
            write(record, ROOT)
    except UnusableRecordError as error:
        options.error(str(error))
    return 0
