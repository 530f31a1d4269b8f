"""What the trace event format asks of a trace, checked as Perfetto and chrome://tracing read it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

__all__ = ["violations"]

#: The fields that an event of each phase has, besides `ph`, `ts`, `pid` and `tid`.
FIELDS = {
    "X": {"name", "dur", "cat"},
    "b": {"name", "cat", "id2"},
    "n": {"name", "cat", "id2"},
    "e": {"name", "cat", "id2"},
    "s": {"name", "cat", "id"},
    "f": {"name", "cat", "id", "bp"},
    "C": {"name", "args"},
    "M": {"name", "args"},
}
METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def violations(text: str) -> list[str]:
    """Everything that is wrong with a trace."""
    events = json.loads(text)["traceEvents"]
    found = [complaint for event in events for complaint in _fields(event)]
    return found or [
        *_lanes(events),
        *_slices([event for event in events if event["ph"] == "X"]),
        *_async([event for event in events if event["ph"] in "bne"]),
        *_flows(events),
    ]


def _fields(event: dict[str, Any]) -> Iterator[str]:
    phase = event.get("ph")
    if phase not in FIELDS:
        yield f"an unknown phase: {event}"
        return
    missing = {"ts", "pid", "tid", *FIELDS[phase]} - set(event)
    if missing:
        yield f"without {sorted(missing)}: {event}"
    times = [event.get("ts", 0), event.get("dur", 0)]
    if not all(type(time) in (int, float) and time >= 0 for time in times):
        yield f"a time below zero, or none: {event}"
    if phase == "C" and not all(type(value) in (int, float) for value in event["args"].values()):
        yield f"a counter without a number: {event}"
    if phase == "M" and METADATA.get(event["name"]) not in event["args"]:
        yield f"metadata without its value: {event}"


def _lanes(events: list[dict[str, Any]]) -> Iterator[str]:
    named = {event["tid"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    used = {event["tid"] for event in events if event["ph"] in "Xsf"}
    if used - named:
        yield f"lanes without a name: {sorted(used - named)}"
    names = [event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"]
    if len(set(names)) < len(names):
        yield f"lanes with one name: {sorted(names)}"
    last: dict[int, float] = {}
    for event in events:
        if event["ph"] != "M":
            if event["ts"] < last.get(event["tid"], 0):
                yield f"before the event above it in its lane: {event}"
            last[event["tid"]] = event["ts"]


def _slices(slices: list[dict[str, Any]]) -> Iterator[str]:
    """Slices of one lane lie apart, or one inside of another."""
    by_lane = defaultdict(list)
    for event in slices:
        by_lane[event["tid"]].append(event)
    for lane in by_lane.values():
        open_ends: list[float] = []
        for event in sorted(lane, key=lambda one: (one["ts"], -one["dur"])):
            # Microseconds as floats: a nanosecond and less is rounding.
            while open_ends and open_ends[-1] <= event["ts"] + 1e-3:
                open_ends.pop()
            end = event["ts"] + event["dur"]
            if open_ends and end > open_ends[-1] + 1e-3:
                yield f"overlaps the slice before it, which ends at {open_ends[-1]}: {event}"
            open_ends.append(end)


def _async(events: list[dict[str, Any]]) -> Iterator[str]:
    """Each async slice begins once and ends once, and its instants lie between."""
    open_slices: set[tuple[str, Any]] = set()
    for event in events:
        key = event["cat"], event["id2"]["local"]
        if event["ph"] == "b":
            if key in open_slices:
                yield f"begins twice: {event}"
            open_slices.add(key)
        elif key not in open_slices:
            yield f"is not open: {event}"
        elif event["ph"] == "e":
            open_slices.remove(key)
    for key in open_slices:
        yield f"never ends: {key}"


def _flows(events: list[dict[str, Any]]) -> Iterator[str]:
    """Each arrow has one start and one end, in this order, each in a slice."""
    flows = defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            flows[event["cat"], event["id"]].append(event)
            around = (one for one in events if one["ph"] == "X" and one["tid"] == event["tid"])
            if not any(one["ts"] - 1e-3 <= event["ts"] <= one["ts"] + one["dur"] + 1e-3 for one in around):
                yield f"points to no slice: {event}"
    for key, ends in flows.items():
        if [end["ph"] for end in sorted(ends, key=lambda end: end["ts"])] not in (["s", "f"], ["f", "s"]):
            yield f"is no pair: {key}"
        elif next(end for end in ends if end["ph"] == "s")["ts"] > next(end for end in ends if end["ph"] == "f")["ts"]:
            yield f"points back in time: {key}"
