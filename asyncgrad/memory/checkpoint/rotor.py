"""The schedule for a chain of unequal steps within a number of bytes, and the measurements it needs.

Besides keeping a state, this schedule may record a step early and keep what that saves until the step's turn in the
backward; so with enough memory nothing is computed twice. It is found by dynamic programming, by the algorithm that its
authors' program for PyTorch, rotor, uses. The costs of the steps are measured when a chain first runs.

Source: O. Beaumont, L. Eyraud-Dubois, J. Herrmann, A. Joly, A. Shilova, "Optimal Checkpointing for Heterogeneous
Chains: How to Train Deep Neural Networks with Limited Memory", Inria RR-9302, 2019.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np

from ...core.arrays.values import memory_owner
from ...core.graph.node import LEAF_ORDER, Node
from ...core.graph.packed import unpacked_entries
from ...errors import ArgumentError
from .schedule import Action, ActionKind, binomial_schedule

__all__ = [
    "ChainCosts",
    "ChainProfile",
    "SavedBytesMeter",
    "bytes_of",
    "fewest_bytes",
    "peak_bytes",
    "profile_of",
    "rotor_schedule",
    "total_seconds",
]

#: The table counts memory in units of this fraction of the budget; sizes are rounded up to a unit.
UNITS = 256
#: A longer chain is cut into so many pieces, each treated as one step: the time for the table grows as the cube.
PIECES = 64


class ChainCosts(NamedTuple):
    """The measured costs of a chain of n steps."""

    #: Bytes of each of the n + 1 states.
    states: tuple[int, ...]
    #: Bytes that each step saves when it is recorded, besides the states before and after it.
    records: tuple[int, ...]
    #: Bytes that each step needs besides while it runs or is reversed.
    working: tuple[int, ...]
    #: Seconds that each step takes.
    seconds: tuple[float, ...]


# --- the schedule ------------------------------------------------------------------------------------


def rotor_schedule(costs: ChainCosts, budget: int) -> tuple[Action, ...]:
    """Return the schedule that takes the least time of those found that need no more than `budget` bytes.

    Counted are the states held, kept or current, what recorded steps save, and what a step needs while it runs.

    Raises:
        ArgumentError: no schedule needs so little; the error names the least.
    """
    least = fewest_bytes(costs)
    if budget < least:
        raise ArgumentError(
            f"memory_budget={budget} is too small for this chain: at least {least} bytes are needed, for its first "
            "state, the largest step's state before and after it, what that step saves, and what it needs while it runs"
        )
    found = [tuple(_schedule_pieces(costs, budget)), *_equal_steps_schedule(costs, budget)]
    return min((one for one in found if one), key=lambda one: total_seconds(costs, one))


def fewest_bytes(costs: ChainCosts) -> int:
    """Return the bytes that every schedule needs."""
    states, records, working, _ = costs
    return max(
        states[0] * bool(step) + states[step] + states[step + 1] + records[step] + working[step]
        for step in range(len(records))
    )


def total_seconds(costs: ChainCosts, schedule: Sequence[Action]) -> float:
    """Return the seconds that all runs of steps in a schedule take."""
    return sum(costs.seconds[step] for kind, step in schedule if kind in (ActionKind.ADVANCE, ActionKind.RECORD))


def peak_bytes(costs: ChainCosts, schedule: Sequence[Action]) -> int:
    """Return how many bytes a schedule needs at most."""
    states, records, working, _ = costs
    kept: set[int] = set()
    recorded: set[int] = set()
    current: int | None = 0
    peak = 0
    for kind, step in schedule:
        held = kept | {one for made in recorded for one in (made, made + 1)}
        saved = sum(records[one] for one in recorded)
        if kind in (ActionKind.ADVANCE, ActionKind.RECORD):
            held |= {step, step + 1}
            current = step + 1
            if kind is ActionKind.RECORD:
                recorded.add(step)
                saved += records[step]
        elif kind is ActionKind.KEEP:
            kept.add(step)
        elif kind is ActionKind.RESTORE:
            current = step
        elif kind is ActionKind.DROP:
            kept.discard(step)
        else:
            recorded.discard(step)
            current = None
        if current is not None:
            held.add(current)
        runs = kind in (ActionKind.ADVANCE, ActionKind.RECORD, ActionKind.REVERSE)
        peak = max(peak, sum(states[one] for one in held) + saved + (working[step] if runs else 0))
    return peak


def _equal_steps_schedule(costs: ChainCosts, budget: int) -> Iterator[tuple[Action, ...]]:
    """Yield the schedule for equal steps with the most states that fit, if one fits.

    For a chain so long that its pieces are coarse it may be the better one.
    """
    steps = len(costs.records)
    low, high = 1, steps
    while low < high:
        middle = (low + high + 1) // 2
        if peak_bytes(costs, tuple(binomial_schedule(steps, middle))) <= budget:
            low = middle
        else:
            high = middle - 1
    found = tuple(binomial_schedule(steps, low))
    if peak_bytes(costs, found) <= budget:
        yield found


def _schedule_pieces(costs: ChainCosts, budget: int) -> Iterator[Action]:
    """Yield the best schedule of a chain cut into pieces; nothing where none fits."""
    steps = len(costs.records)
    count = min(steps, PIECES)
    cuts = [steps * piece // count for piece in range(count + 1)]
    pieces = ChainCosts(
        tuple(costs.states[cut] for cut in cuts),
        tuple(sum(costs.records[begin:end]) + sum(costs.states[begin + 1 : end]) for begin, end in pairwise(cuts)),
        tuple(max(costs.working[begin:end]) for begin, end in pairwise(cuts)),
        tuple(sum(costs.seconds[begin:end]) for begin, end in pairwise(cuts)),
    )
    for kind, piece in RotorTable(pieces, budget).schedule():
        begin, end = cuts[piece], cuts[min(piece + 1, count)]
        if kind in (ActionKind.ADVANCE, ActionKind.RECORD):
            yield from (Action(kind, step) for step in range(begin, end))
        elif kind is ActionKind.REVERSE:
            yield from (Action(kind, step) for step in reversed(range(begin, end)))
        else:
            yield Action(kind, begin)


@final
class RotorTable:
    """For each part of a chain and each amount of memory, the least time to reverse the part, and how to begin.

    Args:
        costs: of the steps.
        budget: in bytes.
    """

    def __init__(self, costs: ChainCosts, budget: int) -> None:
        unit = max(1.0, budget / UNITS)
        self._steps = steps = len(costs.records)
        self._states = [int(np.ceil(size / unit)) for size in costs.states]
        self._records = [int(np.ceil(size / unit)) for size in costs.records]
        self._working = [int(np.ceil(size / unit)) for size in costs.working]
        #: The memory that is left once the first state is held.
        self._units = int(budget // unit) - self._states[0]
        #: The seconds of all steps before each.
        self._before = np.concatenate([[0.0], np.cumsum(costs.seconds)])
        #: By (begin, end), indexed by the memory that is left once the state `begin` is held: the least seconds, and
        #: how to begin: 0 records the first step early, k > 0 advances k steps and keeps the state there.
        self._seconds: dict[tuple[int, int], np.ndarray] = {}
        self._first: dict[tuple[int, int], np.ndarray] = {}
        if self._units >= 0:
            for length in range(1, steps + 1):
                for begin in range(steps - length + 1):
                    self._fill(begin, begin + length)

    def _fill(self, begin: int, end: int) -> None:
        size = self._units + 1
        states, before = self._states, self._before
        cost = self._records[begin] + states[begin + 1]
        step = before[begin + 1] - before[begin]
        needed = cost + self._working[begin]
        if end - begin == 1:
            seconds = np.where(np.arange(size) >= needed, step, np.inf)
            self._seconds[begin, end], self._first[begin, end] = seconds, np.zeros(size, np.int32)
            return
        choices = np.full((end - begin, size), np.inf)
        if cost < size:
            choices[0, cost:] = step + self._seconds[begin + 1, end][: size - cost]
            choices[0, :needed] = np.inf
        passing = 0
        for middle in range(begin + 1, end):
            # While a step on the way to `middle` runs, the states before and after it are held besides the first one,
            # and what it needs.
            state = states[middle]
            state_before = states[middle - 1] if middle - 1 > begin else 0
            passing = max(passing, state_before + state + self._working[middle - 1])
            least = max(passing, state)
            if least >= size:
                continue
            row = choices[middle - begin]
            row[state:] = self._seconds[middle, end][: size - state] + self._seconds[begin, middle][state:]
            row[state:] += before[middle] - before[begin]
            row[:least] = np.inf
        first = choices.argmin(axis=0)
        self._seconds[begin, end] = choices[first, np.arange(size)]
        self._first[begin, end] = first.astype(np.int32)

    def schedule(self) -> Iterator[Action]:
        """Yield the best schedule; nothing where none fits."""
        if self._units < 0 or not np.isfinite(self._seconds[0, self._steps][self._units]):
            return
        yield Action(ActionKind.KEEP, 0)
        current: int | None = 0
        # What is still to be done, the next item last: an action, or a part to reverse with the memory left for it.
        stack: list[Action | tuple[int, int, int]] = [Action(ActionKind.DROP, 0), (0, self._steps, self._units)]
        while stack:
            item = stack.pop()
            if isinstance(item, Action):
                yield item
                if item.kind is ActionKind.REVERSE:
                    current = None
                continue
            begin, end, left = item
            if current != begin:
                yield Action(ActionKind.RESTORE, begin)
                current = begin
            first = int(self._first[begin, end][left])
            if first == 0:
                yield Action(ActionKind.RECORD, begin)
                current = begin + 1
                stack.append(Action(ActionKind.REVERSE, begin))
                if end - begin > 1:
                    yield Action(ActionKind.KEEP, begin + 1)
                    left -= self._records[begin] + self._states[begin + 1]
                    stack += [Action(ActionKind.DROP, begin + 1), (begin + 1, end, left)]
                continue
            middle = begin + first
            yield from (Action(ActionKind.ADVANCE, step) for step in range(begin, middle))
            yield Action(ActionKind.KEEP, middle)
            current = middle
            stack += [
                (begin, middle, left),
                Action(ActionKind.DROP, middle),
                (middle, end, left - self._states[middle]),
            ]


# --- the measurements --------------------------------------------------------------------------------


@final
class ChainProfile:
    """What has been measured of some functions run as a chain, for arguments of one signature."""

    __slots__ = ("_schedules", "costs", "references")

    def __init__(self, references: tuple[Callable[[], Any], ...]) -> None:
        #: None until the first run.
        self.costs: ChainCosts | None = None
        #: Of the functions. Once one is gone its id may belong to another, so the profile is invalid.
        self.references: tuple[Callable[[], Any], ...] = references
        self._schedules: dict[int, tuple[Action, ...]] = {}

    def is_valid(self) -> bool:
        """Tell whether all the functions are still there."""
        return all(reference() is not None for reference in self.references)

    def schedule(self, budget: int) -> tuple[Action, ...]:
        """Return the schedule for so many bytes, after the first run."""
        assert self.costs is not None
        found = self._schedules.get(budget)
        if found is None:
            found = self._schedules[budget] = rotor_schedule(self.costs, budget)
        return found


#: By the ids of the functions and the signature of the argument. A measurement depends on nothing else, so all contexts
#: share it; it is dropped after the functions are gone.
_PROFILES: dict[Any, ChainProfile] = {}


def profile_of(functions: Sequence[Callable[..., Any]], tensors: Iterable[Any]) -> ChainProfile:
    """Return the profile of a chain of functions for tensors of these shapes and dtypes."""
    parts = [part for function in functions for part in _identity(function)]
    key = (tuple(map(id, parts)), tuple((tensor._data.shape, tensor._data.dtype) for tensor in tensors))
    found = _PROFILES.get(key)
    if found is not None and found.is_valid():
        return found
    for invalid in [key for key, profile in _PROFILES.items() if not profile.is_valid()]:
        del _PROFILES[invalid]
    found = _PROFILES[key] = ChainProfile(tuple(map(_reference, dict.fromkeys(parts))))
    return found


def _identity(function: Any) -> tuple[Any, ...]:
    """Return the objects that a function is known by: a bound method, made anew at each access, by what it binds."""
    owner = getattr(function, "__self__", None)
    inner = getattr(function, "__func__", None)
    return (function,) if owner is None or inner is None else (owner, inner)


def _reference(part: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(part)
    except TypeError:
        return lambda: part


@final
class SavedBytesMeter:
    """Counts the bytes that nodes save. The nodes are shown to it as to saved-tensor hooks.

    Args:
        state: the arrays of the state before the step; they are not counted.
    """

    __slots__ = ("_saved", "_state", "largest")

    #: The user's hooks do not see what is measured.
    user_hooks = None

    def __init__(self, state: Iterable[Any]) -> None:
        self._state = {id(memory_owner(array)) for array in state}
        #: The arrays that were saved, by id.
        self._saved: dict[int, Any] = {}
        #: Bytes of the largest result of an operation.
        self.largest: int = 0

    def pack_saved(self, node: Node) -> None:
        """Note what a new node has saved and how large its results are. Leaves are not counted: they stay anyway."""
        if node.order != LEAF_ORDER:
            sizes = [math.prod(one.shape) * one.dtype.itemsize for one in node.input_metadata if one is not None]
            self.largest = max(self.largest, *sizes, 0)
        for _, saved, tensor in unpacked_entries(node):
            if saved.accumulator is None:
                owner = memory_owner(tensor._data)
                self._saved[id(owner)] = owner

    def take_bytes(self, next_state: Iterable[Any]) -> int:
        """Return the bytes saved, besides the states before and after the step; let go of the arrays."""
        states = self._state | {id(memory_owner(array)) for array in next_state}
        saved, self._saved = self._saved, {}
        return sum(getattr(owner, "nbytes", 0) for key, owner in saved.items() if key not in states)


def bytes_of(arrays: Iterable[Any]) -> int:
    """Return the bytes of memory that arrays take; what they share counts once."""
    owners = {id(owner): owner for owner in map(memory_owner, arrays)}
    return sum(getattr(owner, "nbytes", 0) for owner in owners.values())
