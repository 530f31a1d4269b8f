"""How a deep graph that nobody refers to any more is deallocated: in slices, where an event loop runs.

To drop the last reference to a graph of a million nodes takes a third of a second, for which an event loop would stand
still. So one of DEALLOCATION_INTERVAL nodes is a boundary. When a boundary node is deallocated and a deep graph hangs
on it, the nodes that it leads to are handed to the loop, which deallocates up to the next boundary in a turn of its
own. A graph of fewer nodes is deallocated at once, and so is any graph where no loop runs in the thread.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Any, final

from ..scheduling import CLOCK, FULL_COLLECTIONS, LOOP_BUDGET

if TYPE_CHECKING:
    from .node_like import NodeLike

__all__ = ["DEALLOCATION_INTERVAL", "defer_deallocation"]

#: Of so many nodes that are made one after the other, one is a boundary. A prime, so that a graph that repeats itself
#: has one in each of its threads.
DEALLOCATION_INTERVAL = 1021

#: A loop that has not turned for as many budgets is one that nobody lets turn.
_STANDSTILL = 100

#: What part of the time of the rest of a turn may be spent on deallocation, where that is more than the budget: to
#: free a node takes a seventh of what it takes to make one, so that memory is given back as fast as it is taken.
_SHARE = 0.25


@final
class _DeferredDeallocation:
    """The nodes of dropped graphs that one event loop has yet to deallocate; the loop owns it as long as there are any.

    Args:
        loop: the loop, which runs in this thread.
    """

    __slots__ = ("__weakref__", "_budget", "_clock", "_is_freeing", "_is_holding", "_last", "_parts", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._budget, self._clock = LOOP_BUDGET.get(), CLOCK.get()
        self._parts: deque[Any] = deque()
        self._is_freeing = False
        self._last = self._clock()
        # Once more for what is left: it may be a million objects.
        self._is_holding = FULL_COLLECTIONS.hold_on()
        self._go_on()

    def take(self, nodes: tuple[NodeLike | None, ...]) -> None:
        """Take over nodes from one that is being destroyed, if a deep graph hangs on them."""
        if not self._is_freeing:
            if not _is_deep(nodes):
                return
            if self._clock() - self._last > _STANDSTILL * self._budget:
                # Who never lets the loop turn would be left without memory.
                self._free(float("inf"))
        self._parts.append(nodes)

    def free_some(self) -> None:
        """Destroy what the time budget is enough for; the rest in a later turn."""
        now = self._clock()
        self._free(now + max(self._budget, (now - self._last) * _SHARE))
        self._last = self._clock()
        if self._parts:
            self._go_on()

    def _free(self, deadline: float) -> None:
        parts = self._parts
        self._is_freeing = True
        try:
            while parts:
                # The next boundary below adds to the parts.
                parts.popleft()
                if self._clock() > deadline:
                    return
        finally:
            self._is_freeing = False

    def _go_on(self) -> None:
        # In a context without anything in it, which holds nothing.
        self.loop.call_soon(self.free_some, context=Context())

    def __del__(self) -> None:
        if self._is_holding:
            FULL_COLLECTIONS.let_go()


@final
class _OfThread(threading.local):
    """The deferred deallocation on the event loop of this thread, if there is any."""

    deferred: weakref.ref[_DeferredDeallocation] | None = None


_OF_THREAD = _OfThread()


def defer_deallocation(node: NodeLike) -> None:
    """Leave what a node leads to, which is being destroyed, to the event loop, if one runs and the graph is deep."""
    loop = asyncio._get_running_loop()
    if loop is None or loop.is_closed():
        return
    reference = _OF_THREAD.deferred
    deferred = None if reference is None else reference()
    if deferred is None or deferred.loop is not loop:
        if not _is_deep(node.next_nodes):
            return
        deferred = _DeferredDeallocation(loop)
        _OF_THREAD.deferred = weakref.ref(deferred)
    deferred.take(node.next_nodes)


def _is_deep(nodes: tuple[NodeLike | None, ...]) -> bool:
    """Tell whether as many nodes hang on these as lie between two boundaries."""
    stack: list[Any] = [node for node in nodes if node is not None]
    reached = set(stack)
    while stack and len(reached) < DEALLOCATION_INTERVAL:
        for target in stack.pop().next_nodes:
            if target is not None and target not in reached:
                reached.add(target)
                stack.append(target)
    return len(reached) >= DEALLOCATION_INTERVAL
