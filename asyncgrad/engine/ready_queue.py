"""ReadyQueue: the order in which nodes that are ready run."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ..graph.node import Node

__all__ = ["ReadyQueue"]


@final
class ReadyQueue:
    """Ready nodes: the highest sequence number first, AccumulateGrad ahead of all, ties first in, first out."""

    __slots__ = ("_heap", "_pushed")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Node]] = []
        self._pushed = 0

    def push(self, node: Node) -> None:
        """Add a node; never suspends."""
        self._pushed += 1
        heapq.heappush(self._heap, (node.order, self._pushed, node))

    def pop(self) -> Node:
        """Remove and return the node that is to run next."""
        return heapq.heappop(self._heap)[2]

    def clear(self) -> None:
        """Forget every node."""
        self._heap.clear()

    def __len__(self) -> int:
        return len(self._heap)
