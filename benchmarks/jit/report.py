"""The record of a run as JSON, and the tables in docs/jit.md, which are made from the record only."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from ..record import Record, UnusableRecordError
from ..report import marked, measured_on
from ..runner import Result
from .steps import WITH_ADAM, Compiling

__all__ = ["JitRecord", "block", "printed"]

#: The columns of ratios: whose time is the numerator, whose the denominator, and the heading.
RATIOS = (
    ("asyncgrad", "JAX", "÷ JAX"),
    ("asyncgrad", "torch", "÷ PyTorch"),
    ("asyncgrad", "torch.compile", "÷ torch.compile"),
    ("asyncgrad", "PyTensor", "÷ PyTensor"),
    ("asyncgrad", "eager", "÷ eager"),
    ("asyncgrad", "floor", "÷ by hand"),
    ("table", "floor", "table ÷ by hand"),
    ("loops", "JAX", "loops alone ÷ JAX"),
)
#: The columns of compilers, with their headings.
COMPILERS = {
    "asyncgrad": "compiled",
    "table": "table",
    "JAX": "JAX",
    "torch.compile": "torch.compile",
    "PyTensor": "PyTensor",
}


@final
@dataclass
class JitRecord:
    """All measurements of one run."""

    #: The machine, and the times of each side in each round.
    timings: Record
    compiling: Compiling = field(default_factory=dict)

    def text(self) -> str:
        """Return the record as JSON."""
        return json.dumps({**json.loads(self.timings.text()), "compiling": self.compiling}, indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> JitRecord:
        """Return the record in a file.

        Raises:
            UnusableRecordError: the file does not exist, is not JSON, or lacks something; the message says what.
        """
        timings = Record.read(path)
        compiling = json.loads(path.read_text(encoding="utf-8")).get("compiling")
        if not _is_compiling(compiling):
            raise UnusableRecordError(f'{path} is no record of compilers: it needs an object of numbers "compiling"')
        return cls(timings, compiling)


def _is_compiling(value: Any) -> bool:
    if not isinstance(value, dict) or not all(isinstance(row, dict) for row in value.values()):
        return False
    return all(isinstance(one, (int, float)) for row in value.values() for one in row.values())


def block(record: JitRecord, raw: str) -> str:
    """Return the tables as Markdown between markers.

    Args:
        record: the measurements.
        raw: the path of the record, as the page links to it.
    """
    return marked("python -m benchmarks jit --write", raw, *_tables(record), measured_on(record.timings, raw))


def printed(record: JitRecord) -> str:
    """Return the tables and the machine as text for a terminal."""
    return "\n\n".join([*_tables(record), measured_on(record.timings, "")])


def _tables(record: JitRecord) -> list[str]:
    steps = [one for one in record.timings.results if WITH_ADAM not in one.name]
    trained = [one for one in record.timings.results if WITH_ADAM in one.name]
    tables = [_ratios("a step", steps), _ratios("a step with Adam", trained), _compiling(record)]
    return [one for one in tables if one] + _lacks(record.timings.results)


def _ratios(heading: str, results: Sequence[Result]) -> str:
    """Return the table of these rows, with the columns that one of them has."""
    columns = [one for one in RATIOS if any(row.ratio(one[1], of=one[0]) is not None for row in results)]
    rows = [[heading, "compiled, ms", *(heading for _, _, heading in columns)]]
    for result in results:
        ratios = [result.ratio(below, of=above) for above, below, _ in columns]
        cells = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        rows.append([_plain(result), f"{result.microseconds() / 1e3:.2f}", *cells])
    return _markdown(rows) if results else ""


def _plain(result: Result) -> str:
    return result.case.removesuffix(WITH_ADAM)


def _compiling(record: JitRecord) -> str:
    """Return the table of the seconds of compiling, and of the calls after which a compiled function has paid."""
    found = record.compiling
    shown = {name: heading for name, heading in COMPILERS.items() if any(name in row for row in found.values())}
    rows = [["compiling, s", *shown.values(), "pays after, calls"]]
    for result in record.timings.results:
        seconds = found.get(result.case, {})
        cells = [f"{seconds[name]:.2f}" if name in seconds else "-" for name in shown]
        rows.append([result.case, *cells, _calls_that_pay(result, seconds)])
    return _markdown(rows)


def _calls_that_pay(result: Result, seconds: Mapping[str, float]) -> str:
    """Return after how many calls the time of compiling has been gained over eager calls."""
    if "asyncgrad" not in seconds or "eager" not in result.seconds:
        return "-"
    gained = statistics.median(
        eager - compiled for eager, compiled in zip(result.seconds["eager"], result.seconds["asyncgrad"], strict=True)
    )
    return f"{seconds['asyncgrad'] / gained:,.0f}" if gained > 0 else "never"


def _lacks(results: Sequence[Result]) -> list[str]:
    """Return a line for each side and reason that it does not take part for."""
    cases: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for side, why in result.lacks.items():
            if WITH_ADAM not in result.name:
                cases.setdefault((side, why), []).append(_plain(result))
    return [f"{side} does not take part in “{'”, “'.join(names)}”: {why}." for (side, why), names in cases.items()]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"| --- |{' ---: |' * (len(rows[0]) - 1)}", *others])
