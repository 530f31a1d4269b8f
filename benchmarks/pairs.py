"""Timing of two libraries side by side, in one process and in turns, so that both see the same machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

__all__ = ["Times", "measure_pair", "table"]


class Times(NamedTuple):
    """The medians of the seconds that a call takes in each library, and of the ratios of both in one round."""

    ours: float
    theirs: float
    ratio: float


def measure_pair(calls: Sequence[Callable[[], Any]], rounds: int, seconds: float = 0.02) -> Times:
    """Return the times of two calls, ours and theirs, over `rounds`, in each of which both run for some `seconds`."""
    repeats = [max(1, int(seconds / max(_time(call, 3), 1e-9))) for call in calls]
    found = [[_time(call, count) for call, count in zip(calls, repeats, strict=True)] for _ in range(rounds)]
    ours, theirs = (statistics.median(times) for times in zip(*found, strict=True))
    return Times(ours, theirs, statistics.median([mine / other for mine, other in found]))


def _time(call: Callable[[], Any], count: int) -> float:
    began = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - began) / count


def table(title: str, peer: str, found: Mapping[str, Times]) -> str:
    """Return a table of microseconds and ratios, with the geometric mean of the ratios."""
    lines = [f"| {title} | asyncgrad, µs | {peer}, µs | ratio |", "| --- | ---: | ---: | ---: |"]
    for name, times in found.items():
        lines.append(f"| {name} | {times.ours * 1e6:.0f} | {times.theirs * 1e6:.0f} | {times.ratio:.2f} |")
    mean = statistics.geometric_mean([times.ratio for times in found.values()])
    lines.append(f"| geometric mean | | | {mean:.2f} |")
    return "\n".join(lines)
