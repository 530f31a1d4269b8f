"""The table of a profile: one line for each kind and name of event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ..arguments import describe
from ..errors import ArgumentError
from ..html import table

if TYPE_CHECKING:
    from .events import ProfileEvent

__all__ = ["make_html", "make_table"]


@final
@dataclass(frozen=True, slots=True)
class _Line:
    """The events of one name."""

    name: str
    kind: str
    count: int
    #: Nanoseconds; None where no event has a known duration.
    total: int | None
    mean: float | None
    longest: int | None
    waited: int
    share: float | None
    flops: int | None
    bytes: int | None


#: The heading of each column and how to write its values.
_COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "name": ("name", str),
    "kind": ("kind", str),
    "count": ("count", "{:,}".format),
    "total": ("total, µs", lambda value: _number(value, 1e3)),
    "mean": ("mean, µs", lambda value: _number(value, 1e3)),
    "longest": ("longest, µs", lambda value: _number(value, 1e3)),
    "waited": ("waited, µs", lambda value: _number(value, 1e3)),
    "share": ("share, %", lambda value: _number(value, 0.01)),
    "flops": ("Mflop", lambda value: _number(value, 1e6, 3)),
    "bytes": ("MB", lambda value: _number(value, 1e6, 3)),
}


def _number(value: float | None, unit: float, digits: int = 1) -> str:
    return "" if value is None else f"{value / unit:,.{digits}f}"


def make_table(events: Sequence[ProfileEvent], sort_by: str, limit: int | None) -> str:
    """Return the table: see `profile.table`."""
    if not isinstance(sort_by, str) or sort_by not in _COLUMNS:
        raise ArgumentError(f"sort_by names a column, {', '.join(map(repr, _COLUMNS))}, not {describe(sort_by)}")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ArgumentError(f"limit is how many lines to show, 1 or more, or None for all, not {describe(limit)}")
    lines = _sorted_lines(events, sort_by)
    return _text(lines[:limit], len(lines))


def make_html(events: Sequence[ProfileEvent], limit: int) -> str:
    """Return the table as HTML: the lines of what took longest."""
    lines = _sorted_lines(events, "total")
    heads = [heading for heading, _ in _COLUMNS.values()]
    more = f"<div>and {len(lines) - limit:,} more</div>" if len(lines) > limit else ""
    return table(heads, [_cells(line) for line in lines[:limit]], range(2, len(heads))) + more


def _sorted_lines(events: Sequence[ProfileEvent], sort_by: str) -> list[_Line]:
    groups: dict[tuple[str, str], list[ProfileEvent]] = {}
    for event in events:
        groups.setdefault((event.kind, event.name), []).append(event)
    everything = sum(event.duration or 0 for event in events if event.kind == "backward")
    lines = sorted((_line(ones, everything) for ones in groups.values()), key=lambda line: (line.name, line.kind))
    if sort_by not in ("name", "kind"):
        lines.sort(key=lambda line: -1 if (value := getattr(line, sort_by)) is None else value, reverse=True)
    elif sort_by == "kind":
        lines.sort(key=lambda line: line.kind)
    return lines


def _line(events: Sequence[ProfileEvent], everything: int) -> _Line:
    durations = [event.duration for event in events if event.duration is not None]
    total = sum(durations) if durations else None
    flops = [event.flops for event in events if event.flops is not None]
    sizes = [event.bytes for event in events if event.bytes is not None]
    is_backward = events[0].kind == "backward"
    return _Line(
        events[0].name,
        events[0].kind,
        len(events),
        total,
        None if total is None else total / len(durations),
        max(durations, default=None),
        sum(event.waited for event in events),
        total / everything if is_backward and everything and total is not None else None,
        sum(flops) if len(flops) == len(events) else None,
        sum(sizes) if len(sizes) == len(events) else None,
    )


def _cells(line: _Line) -> list[str]:
    return [write(getattr(line, name)) for name, (_, write) in _COLUMNS.items()]


def _text(lines: Sequence[_Line], count: int) -> str:
    cells = [[heading for heading, _ in _COLUMNS.values()]]
    cells += [_cells(line) for line in lines]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_COLUMNS))]
    rows = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    rows.insert(1, "  ".join("-" * width for width in widths))
    if count > len(lines):
        rows.append(f"and {count - len(lines)} more")
    return "\n".join(rows)
