"""A schedule for a chain of steps of unequal cost and size, by dynamic programming: pure.

Besides keeping a state, a step may be recorded early, and what it saves be kept until its turn in the backward; so with
much memory nothing is computed twice.

Source: O. Beaumont, L. Eyraud-Dubois, J. Herrmann, A. Joly, A. Shilova, "Optimal Checkpointing for Heterogeneous
Chains: How to Train Deep Neural Networks with Limited Memory", Inria RR-9302, 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np

from ..errors import ArgumentError
from .schedule import Action, Kind, binomial_schedule

__all__ = ["Sizes", "fewest_bytes", "peak_bytes", "seconds", "unequal_schedule"]

#: Into how many parts the memory is divided: sizes are rounded up to one.
PARTS = 256
#: Longer chains are cut into so many pieces, of which each is treated as one step.
PIECES = 64


class Sizes(NamedTuple):
    """What has been measured of a chain of n steps."""

    #: Bytes of each state; n + 1.
    states: tuple[int, ...]
    #: Bytes that each step saves where it is recorded, besides the states before and after it; n.
    records: tuple[int, ...]
    #: Bytes that each step needs besides while it runs, or is reversed; n.
    working: tuple[int, ...]
    #: Seconds that each step takes; n.
    seconds: tuple[float, ...]


def unequal_schedule(sizes: Sizes, budget: int) -> tuple[Action, ...]:
    """Return the schedule that takes least time of those that need no more than `budget` bytes.

    Counted are the states that are held, kept or current, what recorded steps save, and what a step needs besides.

    Raises:
        ArgumentError: no schedule gets by with so little; it names the least.
    """
    least = fewest_bytes(sizes)
    if budget < least:
        raise ArgumentError(
            f"memory_budget={budget} is too small for this chain: at least {least} bytes are needed, for its first "
            "state, the largest step's state before and after it, what that step saves, and what it needs while it runs"
        )
    found = [tuple(_by_pieces(sizes, budget)), *_equal(sizes, budget)]
    return min((one for one in found if one), key=lambda one: seconds(sizes, one))


def fewest_bytes(sizes: Sizes) -> int:
    """Return the bytes that no schedule can do without."""
    states, records, working, _ = sizes
    return max(
        states[0] * bool(step) + states[step] + states[step + 1] + records[step] + working[step]
        for step in range(len(records))
    )


def seconds(sizes: Sizes, schedule: Sequence[Action]) -> float:
    """Return how long the steps of a schedule take, those that are run again counted again."""
    return sum(sizes.seconds[step] for kind, step in schedule if kind in (Kind.ADVANCE, Kind.RECORD))


def peak_bytes(sizes: Sizes, schedule: Sequence[Action]) -> int:
    """Return how many bytes a schedule needs at most."""
    states, records, working, _ = sizes
    kept: set[int] = set()
    recorded: set[int] = set()
    current: int | None = 0
    peak = 0
    for kind, step in schedule:
        held = kept | {one for made in recorded for one in (made, made + 1)}
        saved = sum(records[one] for one in recorded)
        if kind in (Kind.ADVANCE, Kind.RECORD):
            held |= {step, step + 1}
            current = step + 1
            if kind is Kind.RECORD:
                recorded.add(step)
                saved += records[step]
        elif kind is Kind.KEEP:
            kept.add(step)
        elif kind is Kind.RESTORE:
            current = step
        elif kind is Kind.DROP:
            kept.discard(step)
        else:
            recorded.discard(step)
            current = None
        if current is not None:
            held.add(current)
        needed = working[step] if kind in (Kind.ADVANCE, Kind.RECORD, Kind.REVERSE) else 0
        peak = max(peak, sum(states[one] for one in held) + saved + needed)
    return peak


def _equal(sizes: Sizes, budget: int) -> Iterator[tuple[Action, ...]]:
    """Give the schedule for equal steps that keeps as many states as fit, if any does: it is long chains' best."""
    steps = len(sizes.records)
    low, high = 1, steps
    while low < high:
        middle = (low + high + 1) // 2
        if peak_bytes(sizes, tuple(binomial_schedule(steps, middle))) <= budget:
            low = middle
        else:
            high = middle - 1
    found = tuple(binomial_schedule(steps, low))
    if peak_bytes(sizes, found) <= budget:
        yield found


def _by_pieces(sizes: Sizes, budget: int) -> Iterator[Action]:
    """Give the best schedule of a chain whose steps are taken together in pieces; nothing where none fits."""
    steps = len(sizes.records)
    count = min(steps, PIECES)
    cuts = [steps * piece // count for piece in range(count + 1)]
    pieces = Sizes(
        tuple(sizes.states[cut] for cut in cuts),
        tuple(sum(sizes.records[begin:end]) + sum(sizes.states[begin + 1 : end]) for begin, end in pairwise(cuts)),
        tuple(max(sizes.working[begin:end]) for begin, end in pairwise(cuts)),
        tuple(sum(sizes.seconds[begin:end]) for begin, end in pairwise(cuts)),
    )
    table = Table(pieces, budget)
    for kind, piece in table.schedule():
        begin, end = cuts[piece], cuts[min(piece + 1, count)]
        if kind in (Kind.ADVANCE, Kind.RECORD):
            yield from (Action(kind, step) for step in range(begin, end))
        elif kind is Kind.REVERSE:
            yield from (Action(kind, step) for step in reversed(range(begin, end)))
        else:
            yield Action(kind, begin)


@final
class Table:
    """For each part of a chain and each amount of memory: the least time to reverse it, and what is done first.

    Args:
        sizes: of the steps.
        budget: bytes.
    """

    def __init__(self, sizes: Sizes, budget: int) -> None:
        unit = max(1.0, budget / PARTS)
        self._steps = steps = len(sizes.records)
        self._states = [int(np.ceil(size / unit)) for size in sizes.states]
        self._records = [int(np.ceil(size / unit)) for size in sizes.records]
        self._working = [int(np.ceil(size / unit)) for size in sizes.working]
        self._parts = int(budget // unit) - self._states[0]
        self._before = np.concatenate([[0.0], np.cumsum(sizes.seconds)])
        #: By (begin, end), a row over the memory left once the state `begin` is held: seconds, and how to begin:
        #: 0 records the first step for good, k > 0 keeps the state after k steps.
        self._time: dict[tuple[int, int], np.ndarray] = {}
        self._first: dict[tuple[int, int], np.ndarray] = {}
        if self._parts >= 0:
            for length in range(1, steps + 1):
                for begin in range(steps - length + 1):
                    self._fill(begin, begin + length)

    def _fill(self, begin: int, end: int) -> None:
        parts = self._parts + 1
        states, before = self._states, self._before
        cost = self._records[begin] + states[begin + 1]
        step = before[begin + 1] - before[begin]
        needed = cost + self._working[begin]
        if end - begin == 1:
            time = np.where(np.arange(parts) >= needed, step, np.inf)
            self._time[begin, end], self._first[begin, end] = time, np.zeros(parts, np.int32)
            return
        choices = np.full((end - begin, parts), np.inf)
        if cost < parts:
            choices[0, cost:] = step + self._time[begin + 1, end][: parts - cost]
            choices[0, :needed] = np.inf
        passing = 0
        for middle in range(begin + 1, end):
            # On the way there, two states are held beside the first, and what the step between them needs.
            size = states[middle]
            before_it = states[middle - 1] if middle - 1 > begin else 0
            passing = max(passing, before_it + size + self._working[middle - 1])
            least = max(passing, size)
            if least >= parts:
                continue
            row = choices[middle - begin]
            row[size:] = self._time[middle, end][: parts - size] + self._time[begin, middle][size:]
            row[size:] += before[middle] - before[begin]
            row[:least] = np.inf
        first = choices.argmin(axis=0)
        self._time[begin, end] = choices[first, np.arange(parts)]
        self._first[begin, end] = first.astype(np.int32)

    def schedule(self) -> Iterator[Action]:
        """Give the best schedule; nothing where there is none."""
        if self._parts < 0 or not np.isfinite(self._time[0, self._steps][self._parts]):
            return
        yield Action(Kind.KEEP, 0)
        current: int | None = 0
        # Parts to reverse, each with the memory that is left for it, or what is to be done after them.
        stack: list[Action | tuple[int, int, int]] = [Action(Kind.DROP, 0), (0, self._steps, self._parts)]
        while stack:
            item = stack.pop()
            if isinstance(item, Action):
                yield item
                if item.kind is Kind.REVERSE:
                    current = None
                continue
            begin, end, left = item
            if current != begin:
                yield Action(Kind.RESTORE, begin)
                current = begin
            first = int(self._first[begin, end][left])
            if first == 0:
                yield Action(Kind.RECORD, begin)
                current = begin + 1
                stack.append(Action(Kind.REVERSE, begin))
                if end - begin > 1:
                    yield Action(Kind.KEEP, begin + 1)
                    left -= self._records[begin] + self._states[begin + 1]
                    stack += [Action(Kind.DROP, begin + 1), (begin + 1, end, left)]
                continue
            middle = begin + first
            yield from (Action(Kind.ADVANCE, step) for step in range(begin, middle))
            yield Action(Kind.KEEP, middle)
            current = middle
            stack += [
                (begin, middle, left),
                Action(Kind.DROP, middle),
                (middle, end, left - self._states[middle]),
            ]
