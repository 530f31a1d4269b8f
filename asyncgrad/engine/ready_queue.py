"""ReadyQueue: the order in which nodes that are ready run."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Generic, TypeVar, final

if TYPE_CHECKING:
    from ..graph.node import Node

__all__ = ["ReadyQueue"]

Work = TypeVar("Work")

#: More than the orders of any two nodes can differ by: one level of nesting counts for more than all of them.
_LEVEL = 2**65


@final
class ReadyQueue(Generic[Work]):
    """Ready work: deepest backward first, then newest node, AccumulateGrad ahead of all; ties first in, first out.

    One queue may serve several backward passes: what it holds for each node is the caller's business. A GraphTask
    whose queue is its own leaves `depth` out, since all its nodes lie at one, and pays nothing for it.

    Source: ReadyQueue of PyTorch, whose heap leaves the order of ties open.
    """

    __slots__ = ("_heap", "_pushed")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Work]] = []
        self._pushed = 0

    def push(self, node: Node, work: Work, depth: int = 0) -> None:
        """Add the work of one node; never suspends.

        Args:
            node: whose turn it is when `work` comes out.
            work: what `pop` returns.
            depth: the reentrant depth of the backward that it belongs to.
        """
        self._pushed += 1
        heapq.heappush(self._heap, (node.order - depth * _LEVEL if depth else node.order, self._pushed, work))

    def pop(self) -> Work:
        """Remove and return the work that is to be done next."""
        return heapq.heappop(self._heap)[2]

    def copy(self) -> ReadyQueue[Work]:
        """Return a queue that gives the same work in the same order."""
        other: ReadyQueue[Work] = ReadyQueue()
        other._heap, other._pushed = self._heap.copy(), self._pushed
        return other

    def clear(self) -> None:
        """Forget all of it."""
        self._heap.clear()

    def __len__(self) -> int:
        return len(self._heap)
