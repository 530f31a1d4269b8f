"""Positions: a set of lines of a journal, as ranges, so that those of a million steps take a few numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, final

__all__ = ["Positions"]


@final
class Positions:
    """An immutable set of whole numbers from 0, as ranges that neither touch nor overlap.

    Args:
        ranges: pairs of the first number of each range and the one after its last, in any order.

    Attributes:
        ranges: the same, in order, merged.

    Raises:
        ValueError: what is given is no such thing.

    Example:
        >>> Positions([(0, 3), (3, 5), (9, 10)]).ranges
        ((0, 5), (9, 10))
    """

    __slots__ = ("ranges",)

    def __init__(self, ranges: Iterable[Any] = ()) -> None:
        found: list[tuple[int, int]] = []
        for begin, end in sorted((begin, end) for begin, end in ranges):
            if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
                raise ValueError(f"a range of positions is two whole numbers from 0, not {begin!r} and {end!r}")
            if begin == end:
                continue
            if found and begin <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((begin, end))
        self.ranges: tuple[tuple[int, int], ...] = tuple(found)

    def __contains__(self, position: int) -> bool:
        at = bisect_right(self.ranges, position, key=lambda each: each[0])
        return at > 0 and position < self.ranges[at - 1][1]

    def __iter__(self) -> Iterator[int]:
        for begin, end in self.ranges:
            yield from range(begin, end)

    def __len__(self) -> int:
        return sum(end - begin for begin, end in self.ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __repr__(self) -> str:
        return f"Positions({list(self.ranges)})"

    def __or__(self, other: Positions) -> Positions:
        return Positions([*self.ranges, *other.ranges])

    def __and__(self, other: Positions) -> Positions:
        return self - (self - other)

    def __sub__(self, other: Positions) -> Positions:
        found = []
        for begin, end in self.ranges:
            left = begin
            for start, stop in other.ranges:
                if stop <= left or start >= end:
                    continue
                if start > left:
                    found.append((left, start))
                left = stop
            if left < end:
                found.append((left, end))
        return Positions(found)

    def with_one(self, position: int) -> Positions:
        """Return the set with one number more."""
        if self.ranges and position == self.ranges[-1][1]:
            # What each step does: without a look at what came before.
            found = Positions()
            found.ranges = (*self.ranges[:-1], (self.ranges[-1][0], position + 1))
            return found
        return self | Positions([(position, position + 1)])

    def without_one(self, position: int) -> Positions:
        """Return the set without a number."""
        if position not in self:
            return self
        return self - Positions([(position, position + 1)])
