"""Overlap on the GPU, measured by CUDA events: of branches on two streams, and of copies and products.

Events are recorded on the streams before and after each piece of work, and the GPU notes the time of each event. A
timeline contains the begin and end of each piece, in milliseconds from the first event.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

import asyncgrad as ag

__all__ = ["Overlap", "Span", "measure_overlap"]

#: The side of the matrices of a branch, and the number of its products. Each leaves a part of a large GPU idle.
SIDE, PRODUCTS = 1024, 40
#: The bytes of a copy, and the side and number of the products that run during the copy and take longer.
COPY_BYTES = 128 * 2**20
LARGE_SIDE, LARGE_PRODUCTS = 4096, 30
ROUNDS = 5


@final
@dataclass(frozen=True)
class Span:
    """A piece of work, and the times at which the GPU began and ended it, in milliseconds."""

    what: str
    begin: float
    end: float


@final
@dataclass(frozen=True)
class Overlap:
    """A comparison: how long pieces of work take one after the other, and at the same time."""

    name: str
    apart_ms: float
    together_ms: float
    timeline: list[Span]


@final
class Recorder:
    """Records events with the time, and reads the times between them.

    Args:
        device: the device of asyncgrad.
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self.marks: list[tuple[str, Any, Any]] = []
        self.origin = self.event()

    def event(self, stream: Any = None) -> Any:
        """Record an event on a stream, or on the current stream for None, and return it."""
        return (self.device.current_stream() if stream is None else stream).record_event(enable_timing=True)

    def add(self, what: str, begin: Any, end: Any) -> None:
        """Add a piece of work with the events before and after it."""
        self.marks.append((what, begin, end))

    def spans(self) -> list[Span]:
        """Return the pieces of work in the order in which they began; all of them must have ended."""
        found = [
            Span(what, self.origin.elapsed_time(begin), self.origin.elapsed_time(end))
            for what, begin, end in self.marks
        ]
        return sorted(found, key=lambda span: span.begin)


def _wall(spans: list[Span]) -> float:
    """Return the milliseconds from the first begin to the last end."""
    return max(span.end for span in spans) - min(span.begin for span in spans)


async def _branches(device: Any, streams: list[Any]) -> list[Span]:
    """Run forward and backward of a branch on each stream; return when each ran."""
    leaves = [
        ag.tensor(np.full((SIDE, SIDE), 1 / SIDE, np.float32), device=device, requires_grad=True) for _ in streams
    ]
    await device.synchronize()
    recorder, roots = Recorder(device), []
    began: dict[int, Any] = {}
    for number, (x, stream) in enumerate(zip(leaves, streams, strict=True)):
        with stream:
            begin = recorder.event(stream)
            y = x * 1
            y.register_hook(_end_hook(recorder, number, stream, began))
            for _ in range(PRODUCTS):
                y = y @ x
            y.register_hook(_begin_hook(recorder, number, stream, began))
            roots.append(y)
            recorder.add(f"branch {number + 1}, forward", begin, recorder.event(stream))
    starts = [ag.tensor(np.ones((SIDE, SIDE), np.float32), device=device) for _ in streams]
    await ag.backward(roots, starts)
    await device.synchronize()
    return recorder.spans()


def _begin_hook(recorder: Recorder, number: int, stream: Any, began: dict[int, Any]) -> Callable[[Any], None]:
    def hook(_: Any) -> None:
        began[number] = recorder.event(stream)

    return hook


def _end_hook(recorder: Recorder, number: int, stream: Any, began: dict[int, Any]) -> Callable[[Any], None]:
    def hook(_: Any) -> None:
        recorder.add(f"branch {number + 1}, backward", began[number], recorder.event(stream))

    return hook


async def _copy(device: Any, *, computes: bool, copies: str) -> list[Span]:
    """Run products on the default stream, a copy on another stream, or both; return when each ran."""
    matrix = ag.tensor(np.full((LARGE_SIDE, LARGE_SIDE), 1 / LARGE_SIDE, np.float32), device=device)
    here: Any = ag.tensor(np.ones(COPY_BYTES // 4, np.float32))
    there: Any = ag.tensor(np.ones(COPY_BYTES // 4, np.float32), device=device) if copies == "to the host" else None
    await device.synchronize()
    recorder = Recorder(device)
    if computes:
        begin = recorder.event()
        result = matrix
        for _ in range(LARGE_PRODUCTS):
            result = result @ matrix
        recorder.add("products", begin, recorder.event())
    if copies:
        with device.stream() as stream:
            begin = recorder.event(stream)
            moved = here.to(device, non_blocking=True) if there is None else there.to("cpu", non_blocking=True)
            recorder.add(f"copy {copies}", begin, recorder.event(stream))
        await device.synchronize()
        del moved
    await device.synchronize()
    return recorder.spans()


async def measure_overlap(device_name: str) -> list[Overlap]:
    """Compare two branches on one stream and on two, and products and a copy, in each direction, apart and together."""
    device: Any = ag.device(device_name)
    one, two = device.stream(), device.stream()
    branches = await _compare(
        f"two branches of {PRODUCTS} products of {SIDE:,} × {SIDE:,}, on one stream and on two",
        [partial(_branches, device, [one, one])],
        partial(_branches, device, [one, two]),
    )
    return [branches, *[await _compare_copy(device, copies) for copies in ("to the device", "to the host")]]


async def _compare_copy(device: Any, copies: str) -> Overlap:
    return await _compare(
        f"{LARGE_PRODUCTS} products of {LARGE_SIDE:,} × {LARGE_SIDE:,} and a copy of {COPY_BYTES // 2**20} MiB "
        f"{copies}, apart and together",
        [partial(_copy, device, computes=True, copies=""), partial(_copy, device, computes=False, copies=copies)],
        partial(_copy, device, computes=True, copies=copies),
    )


async def _compare(name: str, apart: list[Callable[[], Any]], together: Callable[[], Any]) -> Overlap:
    """Return the medians of several rounds, and the timeline of the last one."""
    alone, both, timeline = [], [], []
    for number in range(ROUNDS + 1):
        one = sum([_wall(await run()) for run in apart])
        timeline = await together()
        if number:  # the first round fills the pools
            alone.append(one)
            both.append(_wall(timeline))
    return Overlap(name, statistics.median(alone), statistics.median(both), timeline)
