"""The table of a profile: one line for each kind and name of event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from ...core.graph.html import table
from ...core.settings.arguments import describe
from ...errors import ArgumentError
from .columns import columns_of_text

if TYPE_CHECKING:
    from .device_work import DeviceSpan
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
    device: int | None
    kernels: int | None


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
    "device": ("device, µs", lambda value: _number(value, 1e3)),
    "kernels": ("kernels", lambda value: "" if value is None else f"{value:,}"),
}
#: Those that are shown only if any line has a value there.
_OF_DEVICES = ("device", "kernels")


def _number(value: float | None, unit: float, digits: int = 1) -> str:
    return "" if value is None else f"{value / unit:,.{digits}f}"


def make_table(events: Sequence[ProfileEvent], spans: Sequence[DeviceSpan], sort_by: str, limit: int | None) -> str:
    """Return the table: see `profile.table`."""
    if not isinstance(sort_by, str) or sort_by not in _COLUMNS:
        raise ArgumentError(f"sort_by names a column, {', '.join(map(repr, _COLUMNS))}, not {describe(sort_by)}")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ArgumentError(f"limit is how many lines to show, 1 or more, or None for all, not {describe(limit)}")
    lines = _sorted_lines(events, spans, sort_by)
    return _text(lines[:limit], len(lines), _columns(lines))


def make_html(events: Sequence[ProfileEvent], spans: Sequence[DeviceSpan], limit: int) -> str:
    """Return the table as HTML: the lines of what took longest."""
    lines = _sorted_lines(events, spans, "total")
    columns = _columns(lines)
    heads = [_COLUMNS[name][0] for name in columns]
    more = f"<div>and {len(lines) - limit:,} more</div>" if len(lines) > limit else ""
    return table(heads, [_cells(line, columns) for line in lines[:limit]], range(2, len(heads))) + more


def _columns(lines: Sequence[_Line]) -> list[str]:
    return [
        name for name in _COLUMNS if name not in _OF_DEVICES or any(getattr(line, name) is not None for line in lines)
    ]


def _sorted_lines(events: Sequence[ProfileEvent], spans: Sequence[DeviceSpan], sort_by: str) -> list[_Line]:
    groups: dict[tuple[str, str], list[ProfileEvent]] = {}
    for event in events:
        groups.setdefault((event.kind, event.name), []).append(event)
    everything = sum(event.duration or 0 for event in events if event.kind == "backward")
    found = {key: _line(ones, everything) for key, ones in groups.items()}
    for span in spans:
        # Copies, steps of optimizers, and what is not recorded, have no event.
        if span.event is None:
            key = span.kind, span.name
            found[key] = _with_span(found.get(key) or _Line(span.name, span.kind, *_EMPTY), span)
    lines = sorted(found.values(), key=lambda line: (line.name, line.kind))
    if sort_by not in ("name", "kind"):
        lines.sort(key=lambda line: -1 if (value := getattr(line, sort_by)) is None else value, reverse=True)
    elif sort_by == "kind":
        lines.sort(key=lambda line: line.kind)
    return lines


#: What a line begins with that no event has a share in.
_EMPTY = (0, None, None, None, 0, None, None, None, None, None)


def _with_span(line: _Line, span: DeviceSpan) -> _Line:
    kernels = line.kernels if span.kernels is None else (line.kernels or 0) + span.kernels
    size = line.bytes if span.bytes is None else (line.bytes or 0) + span.bytes
    device = (line.device or 0) + span.duration
    return replace(line, count=line.count + 1, device=device, kernels=kernels, bytes=size)


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


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
        _total(event.device_time for event in events),
        _total(event.kernels for event in events),
    )


def _cells(line: _Line, columns: Sequence[str]) -> list[str]:
    return [_COLUMNS[name][1](getattr(line, name)) for name in columns]


def _text(lines: Sequence[_Line], count: int, columns: Sequence[str]) -> str:
    cells = [[_COLUMNS[name][0] for name in columns]]
    cells += [_cells(line, columns) for line in lines]
    rows = columns_of_text(cells, range(2, len(columns)))
    if count > len(lines):
        rows.append(f"and {count - len(lines)} more")
    return "\n".join(rows)
