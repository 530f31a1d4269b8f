"""The record: the times of every round of every row, and the machine, as a JSON file that can be read back.

    {"format": 1,
     "machine": {"processor": ..., "blas": ..., "numpy": ..., ...},
     "rows": [{"topic": "chain", "name": "...: backward", "section": "", "lacks": {}, "measured": "2030-01-31",
               "order": [["asyncgrad", "torch"], ["torch", "asyncgrad"]],
               "seconds": {"asyncgrad": [0.0081, 0.0083], "torch": [0.0141, 0.0140]}}]}

`order[i]` lists the peers in the order in which they were measured in round i; `seconds[peer][i]` is the time of one
call of that peer in it. The tables and the chart are made from this file alone.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from .runner import Result

__all__ = ["Record", "UnusableRecordError"]

FORMAT = 1


class UnusableRecordError(ValueError):
    """A file is not a record, or two records cannot be merged."""


@final
@dataclass
class Record:
    """Measurements on one machine."""

    machine: dict[str, str]
    results: list[Result] = field(default_factory=list)

    def text(self) -> str:
        """Return the record as JSON, with one line for the rounds of each peer."""
        rows = []
        for result in self.results:
            about = {key: getattr(result, key) for key in ("topic", "name", "section", "lacks", "measured", "order")}
            seconds = ",\n".join(f"    {_json(peer)}: {json.dumps(times)}" for peer, times in result.seconds.items())
            lines = [f"   {_json(key)}: {_json(value)}," for key, value in about.items()]
            rows.append("\n".join(["  {", *lines, '   "seconds": {', seconds, "   }", "  }"]))
        machine = ",\n".join(f"  {_json(key)}: {_json(value)}" for key, value in self.machine.items())
        body = ",\n".join(rows)
        return f'{{\n "format": {FORMAT},\n "machine": {{\n{machine}\n }},\n "rows": [\n{body}\n ]\n}}\n'

    def merged(self, newer: Record) -> Record:
        """Return this record with the topics of a newer one replaced.

        Raises:
            UnusableRecordError: the records are from different machines or versions of libraries.
        """
        for key in sorted(self.machine.keys() | newer.machine.keys()):
            before, now = self.machine.get(key, "none"), newer.machine.get(key, "none")
            if before != now:
                raise UnusableRecordError(
                    f"{key} is {now} here, and the record was made with {before}: figures of two machines do not go "
                    "into one table. Measure all benchmarks anew: python -m benchmarks --write"
                )
        measured: dict[str, list[Result]] = {}
        for result in newer.results:
            measured.setdefault(result.topic, []).append(result)
        kept: list[Result] = []
        for result in self.results:
            if result.topic not in measured:
                kept.append(result)
            else:
                # All new rows of a topic go where its first old row was; at its other rows none are left.
                kept.extend(measured[result.topic])
                measured[result.topic] = []
        return Record(self.machine, kept + [result for results in measured.values() for result in results])

    @classmethod
    def read(cls, path: Path) -> Record:
        """Return the record in a file.

        Raises:
            UnusableRecordError: the file does not exist, is not JSON, or lacks something; the message says what.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UnusableRecordError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:  # a wrong encoding or wrong JSON
            raise UnusableRecordError(f"{path} is not JSON: {error}") from error
        try:
            return _checked(raw)
        except UnusableRecordError as error:
            raise UnusableRecordError(f"{path} is no record of benchmarks: {error}") from error


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _checked(raw: Any) -> Record:
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise UnusableRecordError(f'it does not say "format": {FORMAT}')
    machine, rows = raw.get("machine"), raw.get("rows")
    if not isinstance(machine, dict) or not _is_texts(machine):
        raise UnusableRecordError('"machine" must be an object of strings')
    if not isinstance(rows, list) or not rows:
        raise UnusableRecordError('"rows" must be a list that is not empty')
    results = [_result(place, row) for place, row in enumerate(rows)]
    names = [result.name for result in results]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UnusableRecordError(f"row {twice[0]!r} is there twice")
    return Record(machine, results)


def _result(place: int, row: Any) -> Result:
    """Return a row as a Result, with all parts checked."""
    name = row.get("name") if isinstance(row, dict) else None
    where = f"row {name!r}" if isinstance(name, str) else f"row {place}"
    if not isinstance(row, dict):
        raise UnusableRecordError(f"{where} must be an object")
    for key in ("topic", "name", "section", "measured"):
        if not isinstance(row.get(key), str):
            raise UnusableRecordError(f'{where} needs a string "{key}"')
    if not _is_texts(row.get("lacks")):
        raise UnusableRecordError(f'{where} needs an object of strings "lacks"')
    seconds = row.get("seconds")
    if not isinstance(seconds, dict) or "asyncgrad" not in seconds:
        raise UnusableRecordError(f'{where} needs "seconds" with those of asyncgrad')
    for peer, times in seconds.items():
        if not isinstance(times, list) or not times or not all(_is_time(one) for one in times):
            raise UnusableRecordError(f"{where}: the seconds of {peer} must be numbers above 0")
    rounds = len(seconds["asyncgrad"])
    if uneven := [peer for peer, times in seconds.items() if len(times) != rounds]:
        raise UnusableRecordError(
            f"{where}: {uneven[0]} was measured {len(seconds[uneven[0]])} times, asyncgrad {rounds} times"
        )
    order = row.get("order")
    if not isinstance(order, list) or len(order) != rounds or not all(_is_turn(turn, seconds) for turn in order):
        raise UnusableRecordError(f'{where}: "order" must name every peer once for each of its {rounds} rounds')
    return Result(**{key: row[key] for key in ("name", "seconds", "order", "topic", "section", "lacks", "measured")})


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _is_turn(turn: Any, seconds: dict[str, Any]) -> bool:
    named = isinstance(turn, list) and all(isinstance(peer, str) for peer in turn)
    return named and len(turn) == len(seconds) and set(turn) == seconds.keys()
