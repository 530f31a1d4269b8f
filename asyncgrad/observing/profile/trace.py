"""The trace of a profile in the trace event format, which Perfetto and chrome://tracing open.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Work is a complete slice
(X) in the lane of its thread, and of its stream where it has one; a node that waits is an async slice (b, n, e) of the
process, numbered within it (id2): one with a number for all processes (id) is shown apart from all lanes; arrows are
flows (s, f), and counters are C. A stream of a device whose work was timed has a lane with what the device did there,
and when, and an arrow leads to each slice from its launch on the host. The programs of a compiled function have a lane,
in which the parts of a run lie within it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, final

from .events import ProfileEvent

if TYPE_CHECKING:
    from .device_work import DeviceSpan
    from .events import Record

__all__ = ["make_trace"]

#: The length in nanoseconds of the slice of a forward call of which only the end is known.
_MARK = 1


def make_trace(record: Record) -> str:
    """Return the trace as JSON."""
    return json.dumps({"traceEvents": _Trace(record).events(), "displayTimeUnit": "ns"}, separators=(",", ":"))


@final
class _Lanes:
    """The numbers and names of lanes; slices of one lane never overlap except one inside of another."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        #: What each lane is called, by its number: no two have one name.
        self.names: dict[int, str] = {}
        self._ends: dict[str, int] = {}

    def number(self, key: str, name: str | None = None) -> int:
        """Return the number of a lane; a new one is called `name`, else its key, with a number if that is taken."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._numbers) + 1
            self.names[found] = self._unused(key if name is None else name)
        return found

    def _unused(self, name: str) -> str:
        taken, count, found = set(self.names.values()), 1, name
        while found in taken:
            count += 1
            found = f"{name} ({count})"
        return found

    def free(self, name: str, began: int, ended: int) -> int:
        """Return the number of the first lane of that name, or of that name with a number, where nothing else is."""
        count, lane = 1, name
        while self._ends.get(lane, began) > began:
            count += 1
            lane = f"{name} ({count})"
        self._ends[lane] = ended
        return self.number(lane)


@final
class _Trace:
    """Makes the events of a trace."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._process = os.getpid()
        self._lanes = _Lanes()
        with_loops = {event.thread_id for event in record.events if event.loop is not None}
        #: A lane for each thread, which tells whether it runs an event loop.
        self._thread_lanes = {
            thread: self._thread_lane(thread, f"{name} (event loop)" if thread in with_loops else name)
            for thread, name in sorted(record.threads.items())
        }

    def events(self) -> list[dict[str, Any]]:
        """Return all events: the names of the lanes first, then the others by their time."""
        found: list[dict[str, Any]] = []
        for index, event in enumerate(self._record.events):
            if event.kind == "forward":
                found.append(self._forward(event))
            elif event.program is not None:
                found.append(self._program(event))
            else:
                found += self._backward(index, event)
        for number, span in enumerate(self._record.device_spans):
            found += self._device_span(number, span)
        found += self._spans()
        found += self._arrows()
        found += self._counters()
        # Where two begin at one time the longer comes first, so that the other is inside of it. Arrows come after the
        # slices that they lead from and to, their beginnings first.
        found.sort(key=lambda one: (one["ts"], -one.get("dur", 0), "sf".find(one["ph"])))
        return [*self._names(), *found]

    def _event(self, phase: str, name: str, time: int, lane: int, **more: Any) -> dict[str, Any]:
        return {"ph": phase, "name": name, "ts": _microseconds(max(time, 0)), "pid": self._process, "tid": lane, **more}

    def _lane(self, event: ProfileEvent | DeviceSpan) -> int:
        lane = self._thread_lanes.get(event.thread_id)
        if lane is not None:
            return lane
        return self._thread_lane(event.thread_id, event.thread if isinstance(event, ProfileEvent) else "thread")

    def _thread_lane(self, thread: int, name: str) -> int:
        return self._lanes.number(f"thread {thread}", name)

    def _names(self) -> Iterator[dict[str, Any]]:
        yield self._event("M", "process_name", 0, 0, args={"name": "asyncgrad"})
        for lane, name in self._lanes.names.items():
            yield self._event("M", "thread_name", 0, lane, args={"name": name})
            yield self._event("M", "thread_sort_index", 0, lane, args={"sort_index": lane})

    def _forward(self, event: ProfileEvent) -> dict[str, Any]:
        assert event.ended is not None
        began = event.ended - _MARK if event.began is None else min(event.began, event.ended - _MARK)
        duration = _microseconds(event.ended - began)
        if event.began is not None and event.device_began is None and event.sequence_nr not in self._record.timed:
            # An async Function may have waited meanwhile: it has no slice that other work would lie inside of.
            began, duration = event.ended - _MARK, _microseconds(_MARK)
        lane = self._lane(event)
        return self._event("X", event.name, began, lane, dur=duration, cat="forward", args=_arguments(event))

    def _program(self, event: ProfileEvent) -> dict[str, Any]:
        """Return the slice of a program, or of a part of one, in the lane that its programs have in a thread."""
        assert event.began is not None
        assert event.ended is not None
        lane = self._lanes.number(f"{event.program} #{event.thread_id}", f"program of {event.program}")
        duration = _microseconds(event.ended - event.began)
        return self._event("X", event.name, event.began, lane, dur=duration, cat=event.kind, args=_arguments(event))

    def _backward(self, index: int, event: ProfileEvent) -> Iterator[dict[str, Any]]:
        lane, arguments = self._lane(event), _arguments(event)
        for part, (began, ended) in enumerate(_work(event)):
            more = arguments if part == 0 else {"part": part + 1, "sequence_nr": event.sequence_nr}
            yield self._event("X", event.name, began, lane, dur=_microseconds(ended - began), cat=event.kind, args=more)
        if event.worker_began is not None and event.worker_ended is not None:
            duration = _microseconds(event.worker_ended - event.worker_began)
            worker = self._worker_lane(event)
            yield self._event("X", event.name, event.worker_began, worker, dur=duration, cat="worker", args=arguments)
        if event.began is not None and event.ended is not None:
            if event.device_began is None and (event.stream is not None or event.device not in (None, "cpu")):
                name = f"{event.device}" if event.stream is None else f"{event.device} {event.stream}"
                own = self._lanes.free(name, event.began, event.ended)
                duration = _microseconds(event.ended - event.began)
                yield self._event("X", event.name, event.began, own, dur=duration, cat="device", args=arguments)
            if event.suspended:
                yield from self._waiting(index, event, lane)

    def _device_span(self, number: int, span: DeviceSpan) -> Iterator[dict[str, Any]]:
        """Yield the slice of what a device did, that of its launch where no other shows it, and the arrow between."""
        arguments = _launch_arguments(span)
        if span.event is not None:
            arguments |= _arguments(self._record.events[span.event])
        host = self._lane(span)
        if span.event is None:
            duration = _microseconds(span.returned - span.launched)
            yield self._event("X", span.name, span.launched, host, dur=duration, cat="launch", args=arguments)
        lane, duration = self._lanes.number(f"{span.device} {span.stream}"), _microseconds(span.duration)
        yield self._event("X", span.name, span.began, lane, dur=duration, cat="device", args=arguments)
        same = {"cat": "launch", "id": number}
        yield self._event("s", "launch", span.launched, host, **same)
        yield self._event("f", "launch", span.began, lane, **same, bp="e")

    def _worker_lane(self, event: ProfileEvent) -> int:
        for thread, name in self._record.threads.items():
            if name == event.worker:
                return self._thread_lanes[thread]
        return self._lanes.number(f"{event.worker}")

    def _waiting(self, index: int, event: ProfileEvent, lane: int) -> Iterator[dict[str, Any]]:
        assert event.began is not None
        assert event.ended is not None
        same: dict[str, Any] = {"cat": "waiting", "id2": {"local": f"node {index}"}}
        yield self._event("b", event.name, event.began, lane, **same, args=_arguments(event))
        for what, times in (("suspended", event.suspended), ("resumed", event.resumed)):
            for time in times:
                yield self._event("n", event.name, time, lane, **same, args={"what": what})
        yield self._event("e", event.name, event.ended, lane, **same, args={"status": event.status})

    def _spans(self) -> Iterator[dict[str, Any]]:
        last = max((event.ended for event in self._record.events if event.ended is not None), default=0)
        for span in self._record.spans:
            name = f"backward {span.id}"
            lane = self._thread_lanes.get(span.thread_id, 0)
            same: dict[str, Any] = {"cat": "backward", "id2": {"local": name}}
            ended = max(last, span.began) if span.ended is None else span.ended
            yield self._event("b", name, span.began, lane, **same, args={"parent": span.parent, "status": span.status})
            yield self._event("e", name, ended, lane, **same)

    def _arrows(self) -> Iterator[dict[str, Any]]:
        """Yield arrows from each forward call to the runs of its node, and from each nested backward to its parent."""
        events, number = self._record.events, 0
        forward = {event.sequence_nr: event for event in events if event.kind == "forward"}
        for event in events:
            source = forward.get(event.forward_sequence_nr) if event.kind == "backward" else None
            work = next(_work(event), None) if source is not None else None
            if source is not None and source.ended is not None and work is not None:
                number += 1
                yield from self._arrow(number, "forward", source, source.ended - _MARK, event, work[0])
        for span in self._record.spans:
            if span.parent_event is None or span.first_event is None:
                continue
            source, target = events[span.first_event], events[span.parent_event]
            begins = next(_work(source), None)
            parts = list(_work(target))
            if begins is not None and parts:
                number += 1
                yield from self._arrow(number, "nested", source, begins[0], target, max(parts[-1][0], begins[0]))

    def _arrow(
        self, number: int, name: str, source: ProfileEvent, left: int, target: ProfileEvent, arrived: int
    ) -> Iterator[dict[str, Any]]:
        same = {"cat": "flow", "id": number}
        yield self._event("s", name, left, self._lane(source), **same)
        yield self._event("f", name, max(left, arrived), self._lane(target), **same, bp="e")

    def _counters(self) -> Iterator[dict[str, Any]]:
        changes: list[tuple[int, int, int]] = []
        for event, saved in zip(self._record.events, self._record.saved_bytes, strict=True):
            if event.kind == "backward" and event.began is not None:
                changes.append((event.began, 1, 0))
                if event.ended is not None:
                    changes.append((event.ended, -1, 0))
            if saved and event.ended is not None:
                changes.append((event.ended, 0, saved))
        running = saved_bytes = 0
        for time, count, saved in sorted(changes):
            running, saved_bytes = running + count, saved_bytes + saved
            if count:
                yield self._event("C", "nodes in flight", time, 0, args={"nodes": running})
            if saved:
                # Nodes may have saved before the profile began, and release that now.
                yield self._event("C", "bytes saved", time, 0, args={"bytes": max(saved_bytes, 0)})
        for time, thread, late in self._record.lateness:
            lane = self._thread_lanes.get(thread, 0)
            name = "lateness of the loop, ms"
            yield self._event("C", name, time, lane, args={f"thread {thread}": late / 1e6})


def _microseconds(nanoseconds: int) -> float:
    """Return a time in the unit of the format, so that a viewer that drops what is below a nanosecond gets it back.

    Else a slice could begin a nanosecond before the end of the one before, and Perfetto leaves out what overlaps.
    """
    time = nanoseconds / 1000
    while int(time * 1000) < nanoseconds:
        time = math.nextafter(time, math.inf)
    return time


def _work(event: ProfileEvent) -> Iterator[tuple[int, int]]:
    """Yield when a run worked in its thread: until it suspended, and from each time that it went on."""
    if event.began is None or event.ended is None:
        return
    yield from zip((event.began, *event.resumed), (*event.suspended, event.ended), strict=False)


def _arguments(event: ProfileEvent) -> dict[str, Any]:
    """Return what a click on a slice shows."""
    found = {
        "sequence_nr": event.sequence_nr,
        "line": event.line,
        "inputs": _described(event.input_shapes, event.input_dtypes),
        "outputs": _described(event.output_shapes, event.output_dtypes),
        "flops": event.flops,
        "bytes": event.bytes,
        "status": event.status,
        "backward": event.graph_task_id,
        "inside of backward": event.parent_graph_task_id,
        "reentrant depth": event.reentrant_depth if event.kind == "backward" else None,
        "device": event.device,
        "waited for": "; ".join(event.waited_for) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _launch_arguments(span: DeviceSpan) -> dict[str, Any]:
    late = (span.began - span.launched) / 1e3
    found = {"kernels": span.kernels, "bytes": span.bytes, "µs from launch to begin": late}
    return {name: value for name, value in found.items() if value is not None}


def _described(shapes: tuple[Any, ...], dtypes: tuple[Any, ...]) -> str:
    return ", ".join(
        "-" if shape is None else f"{dtype}{list(shape)}" for shape, dtype in zip(shapes, dtypes, strict=True)
    )
