"""Schedules: in which order the steps of a chain are run, their states kept, and the steps reversed.

Pure functions, which do not know what a step is. State 0 is the chain's first state, and step i leads from state i to
state i + 1. `binomial_schedule` is the best one for steps of equal cost; rotor.py has one for unequal steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from math import comb
from typing import NamedTuple

__all__ = ["Action", "ActionKind", "binomial_schedule", "fewest_advances", "logarithmic_snapshots"]


class ActionKind(Enum):
    """What an action of a schedule does."""

    #: Keep the current state, number `step`.
    KEEP = auto()
    #: Make the kept state `step` the current one.
    RESTORE = auto()
    #: Let go of the kept state `step`.
    DROP = auto()
    #: Run step `step` on the current state, and keep nothing but the new state.
    ADVANCE = auto()
    #: Run step `step` on the current state, recorded.
    RECORD = auto()
    #: Run backward through the recorded step `step`, and let go of it.
    REVERSE = auto()


class Action(NamedTuple):
    """One action of a schedule."""

    kind: ActionKind
    step: int


def fewest_advances(steps: int, snapshots: int) -> int:
    """Return the fewest ADVANCE actions that reverse a chain; besides, each step is run once more, recorded.

    Args:
        steps: of the chain.
        snapshots: how many states may be kept at a time, the first one among them.

    Source: Proposition 1 of Griewank and Walther; see `binomial_schedule`.

    Example:
        >>> from asyncgrad.memory.checkpoint.schedule import fewest_advances
        >>> fewest_advances(1000, 12)
        3440
    """
    repeats = _fewest_repeats(steps, snapshots)
    return repeats * steps - _longest_chain(snapshots + 1, repeats - 1)


def binomial_schedule(steps: int, snapshots: int) -> Iterator[Action]:
    """Yield the actions that reverse a chain of equal steps with the fewest advances.

    Those before the first REVERSE can be run in the forward.

    Args:
        steps: of the chain.
        snapshots: how many states may be kept at a time, the first one among them.

    Source: A. Griewank, A. Walther, "Algorithm 799: Revolve: An Implementation of Checkpointing for the Reverse or
    Adjoint Mode of Computational Differentiation", ACM Transactions on Mathematical Software 26(1), 2000.
    """
    yield Action(ActionKind.KEEP, 0)
    current: int | None = 0
    # Parts of the chain still to be reversed, the next one last: begin, end, and how many states may be kept for it.
    stack = [(0, steps, min(snapshots, steps))]
    while stack:
        begin, end, left = stack.pop()
        middle = end - 1 if left == 1 else begin + _best_split(end - begin, left)
        if end - begin == 1:
            middle = begin
        if current != begin:
            yield Action(ActionKind.RESTORE, begin)
        for step in range(begin, middle):
            yield Action(ActionKind.ADVANCE, step)
        if end - middle == 1:
            yield Action(ActionKind.RECORD, middle)
            yield Action(ActionKind.REVERSE, middle)
            current = None
            if middle == begin:
                yield Action(ActionKind.DROP, begin)
            else:
                stack.append((begin, middle, left))
            continue
        yield Action(ActionKind.KEEP, middle)
        current = middle
        stack += [(begin, middle, left), (middle, end, left - 1)]


def logarithmic_snapshots(steps: int) -> int:
    """Return a number of states that grows as the logarithm of the number of steps; the runs of a step then do too.

    Example:
        >>> from asyncgrad.memory.checkpoint.schedule import logarithmic_snapshots
        >>> [logarithmic_snapshots(steps) for steps in (1, 10, 1000, 1_000_000)]
        [1, 4, 10, 20]
    """
    return max(1, (steps - 1).bit_length())


def _longest_chain(snapshots: int, repeats: int) -> int:
    """Return the length of the longest chain that can be reversed with at most `repeats` advances over each step."""
    return comb(snapshots + repeats, snapshots) if repeats >= 0 else 0


def _fewest_repeats(steps: int, snapshots: int) -> int:
    """Return how many advances over a step are needed at most."""
    repeats = 0
    while _longest_chain(snapshots, repeats) < steps:
        repeats += 1
    return repeats


def _best_split(steps: int, snapshots: int) -> int:
    """Return after how many steps to keep the next state, where at least two states may be kept."""
    repeats = _fewest_repeats(steps, snapshots)
    # Neither part may need more repeats than the whole. Every split that keeps to this is equally good.
    return min(_longest_chain(snapshots, repeats - 1), steps - _longest_chain(snapshots - 1, repeats - 1)) or 1
