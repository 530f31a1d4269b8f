"""How a compiled backward is cut into pieces, so that what repeats in a graph is written, and compiled, once.

A line that runs once per backward has left the caches of the processor by the next one: of 4,000 nodes written one
after the other, each costs 0.4 µs more than if the same few lines serve them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .description import Description, Step

__all__ = ["PIECE", "boundaries"]

#: Steps in one function, about. For twice as many lines Python's compiler takes more than twice as long.
PIECE = 128
#: The longest pattern that is looked for, in steps.
LONGEST_PATTERN = 512


def boundaries(description: Description) -> list[int]:
    """Return the numbers of the steps at which pieces begin, the first among them, and the number of steps.

    Where the steps repeat after a while, so do the boundaries, and such pieces come out alike.
    """
    count = len(description.steps)
    if count <= PIECE:
        return [0, count]
    kinds = _kinds(description.steps)
    begin, end, period = _pattern(kinds)
    length = PIECE if period is None else max(1, round(PIECE / period)) * period
    starts = list(range(0, begin, PIECE))
    # The first two repetitions differ: in them leaves are met for the first time, and their sums begin.
    starts += range(begin, end - length + 1, length)
    last = starts[-1] + length if begin < end else begin
    starts += range(last, count, PIECE)
    return [*sorted({0, *starts}), count]


def _kinds(steps: list[Step]) -> list[int]:
    """Return a number for each step, the same for those that do the same to the same places around them."""
    numbers: dict[Any, int] = {}
    kinds = []
    for index, step in enumerate(steps):
        around = tuple(
            None if target is None else (target.is_leaf, target.number if target.is_leaf else target.number - index)
            for target in step.targets
        )
        kinds.append(numbers.setdefault((step.token, around), len(numbers)))
    return kinds


def _pattern(kinds: list[int]) -> tuple[int, int, int | None]:
    """Return where the longest row of repetitions that goes by the middle begins and ends, and its period."""
    middle = len(kinds) // 2
    best: tuple[int, int, int | None] = (0, 0, None)
    for period in range(1, min(LONGEST_PATTERN, len(kinds) - middle - 1)):
        if kinds[middle] != kinds[middle + period]:
            continue
        begin, end = middle, middle
        while begin and kinds[begin - 1] == kinds[begin - 1 + period]:
            begin -= 1
        while end + period < len(kinds) and kinds[end] == kinds[end + period]:
            end += 1
        end += period
        if end - begin >= 3 * period and end - begin > best[1] - best[0]:
            best = (begin, end, period)
    return best
