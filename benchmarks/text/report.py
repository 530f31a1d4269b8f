"""The record of a run as JSON, and the tables of docs/text-gradients.md, which are made from the record only."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from ..record import UnusableRecordError
from ..report import marked
from .measure import RUNS, Row

__all__ = ["TextRecord", "block", "printed"]


@final
@dataclass
class TextRecord:
    """All measurements of one run."""

    machine: dict[str, str]
    measured: str
    #: How long an answer takes.
    seconds: float
    #: The libraries that are not here, and why.
    missing: dict[str, str]
    rows: list[Row]

    def text(self) -> str:
        """Return the record as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> TextRecord:
        """Return the record in a file.

        Raises:
            UnusableRecordError: the file does not exist, is not JSON, or has other fields.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**found, "rows": [Row(**row) for row in found["rows"]]})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UnusableRecordError(f"{path} is no record of `python -m benchmarks text`: {error}") from error


def printed(record: TextRecord) -> str:
    """Return the tables, and what they were measured on."""
    return "\n\n".join([_times(record), _failures(record), _measured_on(record)])


def block(record: TextRecord, raw: str) -> str:
    """Return the part of the page between the markers, markers included."""
    measured = f"{_measured_on(record)} The seconds of every round are in [{raw}]({raw})."
    return marked("python -m benchmarks text --write", raw, _times(record), _failures(record), measured)


def _times(record: TextRecord) -> str:
    header = ("", "backward, s", "÷ critical path", "÷ asyncgrad", "forward and backward, s", "requests of both")
    ours = {row.graph: statistics.median(row.backward) for row in record.rows if row.library == "asyncgrad"}
    lines = []
    for row in record.rows:
        apart = ["–"] * 3
        if row.backward:
            took = statistics.median(row.backward)
            apart = [
                f"{took:.2f}",
                f"{took / (row.depth * record.seconds):.2f}",
                f"{took / ours[row.graph]:.2f}",
            ]
        lines.append([f"{row.graph}, {row.library}", *apart, f"{statistics.median(row.whole):.2f}", str(row.requests)])
    return _table(header, lines)


def _failures(record: TextRecord) -> str:
    header = (
        "",
        f"different gradients in {RUNS} runs",
        "critiques left",
        "requests that still run",
        "requests of a second try",
        "result of it",
    )
    return _table(
        header,
        [
            [
                f"{row.graph}, {row.library}",
                str(row.gradients),
                str(row.left),
                str(row.running),
                str(row.asked_again),
                "as without the failure" if row.is_whole else "has critiques twice",
            ]
            for row in record.rows
        ],
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = [list(header), *map(list, rows)]
    rule = ["---", *["---:"] * (len(cells[0]) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:]))


def _measured_on(record: TextRecord) -> str:
    machine = dict(record.machine)
    where = f"{machine.pop('processor', 'unknown processor')}, {machine.pop('cores', '?')} cores"
    machine.pop("blas", None)
    versions = ", ".join(f"{name} {version}" for name, version in machine.items() if name != "platform")
    rounds = max(len(row.whole) for row in record.rows)
    said = (
        f"Medians of {rounds} rounds, with answers that take {record.seconds} s, measured {record.measured} on "
        f"{where}; {versions}."
    )
    missing = "".join(f" {name} is left out: {why}." for name, why in record.missing.items())
    return said + missing
