"""Deallocation of a deep graph in slices, so that it does not block an event loop.

Dropping the last reference to a graph of a million nodes takes a third of a second, and would block the event loop for
that time. So one in DEALLOCATION_INTERVAL nodes is a boundary. When a boundary node of a deep graph is deallocated, the
nodes that it leads to are handed to the loop, which deallocates up to the next boundary in a later turn. A smaller
graph is deallocated at once, and so is any graph in a thread without a running loop.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Any, final

from ..settings.scheduling import CLOCK, FULL_COLLECTIONS, LOOP_BUDGET

if TYPE_CHECKING:
    from .node_like import NodeLike

__all__ = ["DEALLOCATION_INTERVAL", "defer_deallocation"]

#: One in this many nodes, in order of creation, is a boundary. It is prime, so that in a graph with a repeating
#: structure every branch gets boundaries.
DEALLOCATION_INTERVAL = 1021

#: A loop that has not turned for this many time budgets counts as blocked.
_STANDSTILL = 100

#: The share of the time between two turns that deallocation may take if that is more than the budget. Freeing a node
#: takes a seventh of the time of making it, so this share frees memory as fast as it is allocated.
_SHARE = 0.25


@final
class _DeferredDeallocation:
    """The nodes of dropped graphs that an event loop has yet to deallocate; the loop's callbacks keep it alive.

    Args:
        loop: the event loop that runs in this thread.
    """

    __slots__ = ("__weakref__", "_budget", "_clock", "_is_freeing", "_is_holding", "_last", "_parts", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._budget, self._clock = LOOP_BUDGET.get(), CLOCK.get()
        self._parts: deque[Any] = deque()
        self._is_freeing = False
        self._last = self._clock()
        # A block of no_full_collections must last until the remaining nodes, perhaps a million, are freed.
        self._is_holding = FULL_COLLECTIONS.extend_hold()
        self._schedule()

    def defer(self, nodes: tuple[NodeLike | None, ...]) -> None:
        """Take over the nodes that a dying node leads to, if they belong to a deep graph."""
        if not self._is_freeing:
            if not _is_deep(nodes):
                return
            if self._clock() - self._last > _STANDSTILL * self._budget:
                # Code that never lets the loop turn would run out of memory.
                self._free(float("inf"))
        self._parts.append(nodes)

    def free_some(self) -> None:
        """Free nodes until the time budget is spent; leave the rest for a later turn."""
        now = self._clock()
        self._free(now + max(self._budget, (now - self._last) * _SHARE))
        self._last = self._clock()
        if self._parts:
            self._schedule()

    def _free(self, deadline: float) -> None:
        parts = self._parts
        self._is_freeing = True
        try:
            while parts:
                # The next boundary below appends to `parts`.
                parts.popleft()
                if self._clock() > deadline:
                    return
        finally:
            self._is_freeing = False

    def _schedule(self) -> None:
        # An empty context, so that the callback keeps no values alive.
        self.loop.call_soon(self.free_some, context=Context())

    def __del__(self) -> None:
        if self._is_holding:
            FULL_COLLECTIONS.release()


@final
class _ThreadState(threading.local):
    """The deferred deallocation of this thread's event loop; None if there is none."""

    deferred: weakref.ref[_DeferredDeallocation] | None = None


_THREAD_STATE = _ThreadState()


def defer_deallocation(node: NodeLike) -> None:
    """Hand the nodes that a dying node leads to over to the event loop, if one runs and the graph is deep."""
    loop = asyncio._get_running_loop()
    if loop is None or loop.is_closed():
        return
    reference = _THREAD_STATE.deferred
    deferred = None if reference is None else reference()
    if deferred is None or deferred.loop is not loop:
        if not _is_deep(node.next_nodes):
            return
        deferred = _DeferredDeallocation(loop)
        _THREAD_STATE.deferred = weakref.ref(deferred)
    deferred.defer(node.next_nodes)


def _is_deep(nodes: tuple[NodeLike | None, ...]) -> bool:
    """Tell whether at least DEALLOCATION_INTERVAL nodes are reachable from these."""
    stack: list[Any] = [node for node in nodes if node is not None]
    reached = set(stack)
    while stack and len(reached) < DEALLOCATION_INTERVAL:
        for target in stack.pop().next_nodes:
            if target is not None and target not in reached:
                reached.add(target)
                stack.append(target)
    return len(reached) >= DEALLOCATION_INTERVAL
