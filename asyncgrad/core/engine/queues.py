"""ReadyQueue, which orders the ready nodes, and InputBuffer, which sums the gradients that arrive at one node."""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from ..arrays import values
from ..arrays.device_functions import DEVICE_FUNCTIONS

if TYPE_CHECKING:
    from ..graph.node import Node

__all__ = ["Arrival", "InputBuffer", "ReadyQueue"]

Work = TypeVar("Work")


@final
class ReadyQueue(Generic[Work]):
    """A priority queue of the ready work of one backward: AccumulateGrad first, then newest node, then first in.

    Nested backward passes have a queue each.

    Source: ReadyQueue of PyTorch, whose heap leaves the order of ties open.
    """

    __slots__ = ("_pushed", "heap")

    def __init__(self) -> None:
        #: The work, by order and number. The executor pops from it itself, which saves a call at each node.
        self.heap: list[tuple[int, int, Work]] = []
        self._pushed = 0

    def push(self, node: Node, work: Work) -> None:
        """Add the work of one node.

        Args:
            node: the node whose order decides.
            work: what `pop` returns.
        """
        self._pushed += 1
        heapq.heappush(self.heap, (node.order, self._pushed, work))

    def pop(self) -> Work:
        """Remove and return the first work."""
        return heapq.heappop(self.heap)[2]

    def works(self) -> list[Work]:
        """Return all work in the order in which it will be popped; from any thread."""
        return [work for _, _, work in sorted(self.heap.copy(), key=itemgetter(0, 1))]

    @property
    def pushed(self) -> int:
        """How much work has been pushed so far."""
        return self._pushed

    def copy(self) -> ReadyQueue[Work]:
        """Return a queue with the same work in the same order."""
        other: ReadyQueue[Work] = ReadyQueue()
        other.heap, other._pushed = self.heap.copy(), self._pushed
        return other

    def clear(self) -> None:
        """Remove all work."""
        self.heap.clear()

    def __len__(self) -> int:
        return len(self.heap)


#: The edge that a gradient came along: the node that returned it, and its index among the gradients of that node.
Arrival = tuple["Node", int]


@final
class InputBuffer:
    """The sums of the gradients that have arrived at each input of a node.

    The first gradient is kept by reference, the second makes a new array, and further ones are added in place to that:
    an array that the buffer did not make is never written into. Under `create_graph` every sum is a new value.

    Where bodies overlap, gradients may arrive in any order. Then `expected` lists the arrivals in the order of
    summation, and a gradient that comes early is kept until its turn. So the bits of a sum depend on the graph alone
    (`test_sums_have_the_same_bits_under_any_schedule`).
    """

    __slots__ = ("_early", "_next", "_owned", "expected", "values")

    def __init__(self, size: int) -> None:
        self.values: list[Any] = [None] * size
        #: The inputs whose sums are arrays that the buffer made; None where there are none.
        self._owned: set[int] | None = None
        #: The arrivals in the order of summation; None while they come in that order anyway.
        self.expected: list[Arrival] | None = None
        self._next = 0
        self._early: dict[Arrival, tuple[int, Any]] | None = None

    def seed(self, input_nr: int, value: Any, owned: bool) -> None:
        """Start input `input_nr` with an existing sum; `owned` tells whether it may be updated in place."""
        self.values[input_nr] = value
        if owned:
            self._own(input_nr)

    def add(self, input_nr: int, value: Any, arrival: Arrival, in_place: bool) -> None:
        """Add one gradient to input `input_nr`; None adds nothing.

        Args:
            input_nr: which input of the node.
            value: a gradient with the metadata of that input; None where it is undefined.
            arrival: the edge that it came along.
            in_place: whether a sum that the buffer made may be updated in place.
        """
        expected = self.expected
        if expected is None:
            self._fold(input_nr, value, in_place)
            return
        if self._next < len(expected) and expected[self._next] == arrival:
            if self.values[input_nr] is None:
                # As `_fold`, without a call.
                self.values[input_nr] = value
            else:
                self._fold(input_nr, value, in_place)
            self._next += 1
            if not self._early:
                return
        else:
            if self._early is None:
                self._early = {}
            self._early[arrival] = (input_nr, value)
        while self._next < len(expected) and expected[self._next] in self._early:
            self._fold(*self._early.pop(expected[self._next]), in_place)
            self._next += 1

    def holds_gradients(self) -> bool:
        """Tell whether any gradient other than None has arrived."""
        return bool(self._early) or any(value is not None for value in self.values)

    def _fold(self, input_nr: int, value: Any, in_place: bool) -> None:
        if value is None:
            return
        total = self.values[input_nr]
        if total is None:
            self.values[input_nr] = value
        elif in_place and self._owned is not None and input_nr in self._owned:
            if total.__class__ not in DEVICE_FUNCTIONS:
                # As `add_into`, without a call.
                total += value
            else:
                total = values.add_into(total, value)
            self.values[input_nr] = total
        else:
            self.values[input_nr] = values.add(total, value)
            self._own(input_nr)

    def _own(self, input_nr: int) -> None:
        if self._owned is None:
            self._owned = set()
        self._owned.add(input_nr)
