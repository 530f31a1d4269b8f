"""In what order the steps of a chain are run, kept and reversed: pure, and independent of what a step is.

State 0 is what the chain begins with, and step i leads from state i to state i + 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from math import comb
from typing import NamedTuple

__all__ = ["Action", "Kind", "binomial_schedule", "fewest_advances", "logarithmic_snapshots"]


class Kind(Enum):
    """What is done next."""

    #: Keep the current state, number `step`.
    KEEP = auto()
    #: Make the kept state `step` the current one.
    RESTORE = auto()
    #: Let go of the kept state `step`.
    DROP = auto()
    #: Run step `step` on the current state, and keep nothing else of that.
    ADVANCE = auto()
    #: Run step `step` on the current state, recorded.
    RECORD = auto()
    #: Run backward through the recorded step `step`, and let go of it.
    REVERSE = auto()


class Action(NamedTuple):
    """One line of a schedule."""

    kind: Kind
    step: int


def reach(snapshots: int, repeats: int) -> int:
    """Return how many steps can be reversed where none is advanced over more than `repeats` times."""
    return comb(snapshots + repeats, snapshots) if repeats >= 0 else 0


def repeats_for(steps: int, snapshots: int) -> int:
    """Return how often a step has to be advanced over at most."""
    repeats = 0
    while reach(snapshots, repeats) < steps:
        repeats += 1
    return repeats


def fewest_advances(steps: int, snapshots: int) -> int:
    """Return how many steps have to be advanced over to reverse a chain; each is run once more, recorded.

    Args:
        steps: of the chain.
        snapshots: how many states may be kept at a time, the first one among them.

    Source: Proposition 1 of Griewank and Walther, as `binomial_schedule`.

    Example:
        >>> from asyncgrad.checkpoint.schedule import fewest_advances
        >>> fewest_advances(1000, 12)
        3440
    """
    repeats = repeats_for(steps, snapshots)
    return repeats * steps - reach(snapshots + 1, repeats - 1)


def binomial_schedule(steps: int, snapshots: int) -> Iterator[Action]:
    """Give a schedule that reverses a chain of equal steps with the fewest advances.

    All that comes before the first REVERSE can be run in the forward.

    Args:
        steps: of the chain.
        snapshots: how many states may be kept at a time, the first one among them.

    Source: A. Griewank, A. Walther, "Algorithm 799: Revolve: An Implementation of Checkpointing for the Reverse or
    Adjoint Mode of Computational Differentiation", ACM Transactions on Mathematical Software 26(1), 2000.
    """
    yield Action(Kind.KEEP, 0)
    current: int | None = 0
    stack = [(0, steps, min(snapshots, steps))]
    while stack:
        begin, end, left = stack.pop()
        middle = end - 1 if left == 1 else begin + _split(end - begin, left)
        if end - begin == 1:
            middle = begin
        if current != begin:
            yield Action(Kind.RESTORE, begin)
        for step in range(begin, middle):
            yield Action(Kind.ADVANCE, step)
        if end - middle == 1:
            yield Action(Kind.RECORD, middle)
            yield Action(Kind.REVERSE, middle)
            current = None
            if middle == begin:
                yield Action(Kind.DROP, begin)
            else:
                stack.append((begin, middle, left))
            continue
        yield Action(Kind.KEEP, middle)
        current = middle
        stack += [(begin, middle, left), (middle, end, left - 1)]


def _split(steps: int, snapshots: int) -> int:
    """Return after how many steps of several the next state is best kept, where two or more may be."""
    repeats = repeats_for(steps, snapshots)
    # Either part is to need no more repeats than the whole allows it: any number in between is as good.
    return min(reach(snapshots, repeats - 1), steps - reach(snapshots - 1, repeats - 1)) or 1


def logarithmic_snapshots(steps: int) -> int:
    """Return a number of states that grows as the logarithm of the number of steps, as the repeats then do.

    Example:
        >>> from asyncgrad.checkpoint.schedule import logarithmic_snapshots
        >>> [logarithmic_snapshots(steps) for steps in (1, 10, 1000, 1_000_000)]
        [1, 4, 10, 20]
    """
    return max(1, (steps - 1).bit_length())
