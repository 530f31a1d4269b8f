"""Work that can be done a little at a time: what compiles a backward, so that an event loop can turn meanwhile.

It is written as generators. Each `yield` is a place where the work may rest, for as long as whoever runs it likes; what
is yielded is how many seconds the part that follows takes, where that is long, and 0 elsewhere. So the work itself
knows neither clock nor event loop.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

__all__ = ["Slices", "at_once"]

T = TypeVar("T")

#: A generator of such places, which returns a T.
Slices = Generator[float, None, T]


def at_once(work: Generator[float, Any, T]) -> T:
    """Do all of it without a rest; return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
