"""How a deep graph that nobody refers to any more is destroyed: in slices, where an event loop runs.

The last reference to a graph of a million nodes takes a third of a second to go, and an event loop would stand still
for as long. So one of MILESTONE_DISTANCE nodes is a milestone: when that is destroyed, and a deep graph hangs on it,
what it leads to is not destroyed with it but left to the loop, which goes on to the next milestone in a turn of its
own. A graph of fewer nodes is gone at once, and so is any graph where no loop runs in the thread.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from contextvars import Context
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

from ..scheduling import FULL_COLLECTIONS, LOOP_BUDGET

if TYPE_CHECKING:
    from .node_like import NodeLike

__all__ = ["MILESTONE_DISTANCE", "take_apart"]

#: Of so many nodes that are made one after the other, one is a milestone. A prime, so that a graph that repeats itself
#: has one in each of its threads.
MILESTONE_DISTANCE = 1021

#: A loop that has not turned for as many budgets is one that nobody lets turn.
_STANDSTILL = 100

#: What part of the time that the rest of a turn took may be spent on remains, where that is more than the budget: to
#: free a node takes a seventh of what it takes to make one, so that memory is given back as fast as it is taken.
_SHARE = 0.25


@final
class _Remains:
    """What is left of destroyed graphs, on one event loop, which owns it as long as something is left.

    Args:
        loop: the loop, which runs in this thread.
    """

    __slots__ = ("__weakref__", "_budget", "_is_freeing", "_is_holding", "_last", "_parts", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._budget = LOOP_BUDGET.get()
        self._parts: deque[Any] = deque()
        self._is_freeing = False
        self._last = perf_counter()
        # Once more for what is left: it may be a million objects.
        self._is_holding = FULL_COLLECTIONS.hold_on()
        self._go_on()

    def take(self, nodes: tuple[NodeLike | None, ...]) -> None:
        """Take over nodes from one that is being destroyed, if a deep graph hangs on them."""
        if not self._is_freeing:
            if not _is_deep(nodes):
                return
            if perf_counter() - self._last > _STANDSTILL * self._budget:
                # Who never lets the loop turn would be left without memory.
                self._free(float("inf"))
        self._parts.append(nodes)

    def free_some(self) -> None:
        """Destroy what the time budget is enough for; the rest in a later turn."""
        now = perf_counter()
        self._free(now + max(self._budget, (now - self._last) * _SHARE))
        self._last = perf_counter()
        if self._parts:
            self._go_on()

    def _free(self, deadline: float) -> None:
        parts = self._parts
        self._is_freeing = True
        try:
            while parts:
                # The next milestone below adds to the parts.
                parts.popleft()
                if perf_counter() > deadline:
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
    """The remains on the event loop of this thread, if there are any."""

    remains: weakref.ref[_Remains] | None = None


_OF_THREAD = _OfThread()


def take_apart(node: NodeLike) -> None:
    """Leave what a node leads to, which is being destroyed, to the event loop, if one runs and the graph is deep."""
    loop = asyncio._get_running_loop()
    if loop is None or loop.is_closed():
        return
    reference = _OF_THREAD.remains
    remains = None if reference is None else reference()
    if remains is None or remains.loop is not loop:
        if not _is_deep(node.next_nodes):
            return
        remains = _Remains(loop)
        _OF_THREAD.remains = weakref.ref(remains)
    remains.take(node.next_nodes)


def _is_deep(nodes: tuple[NodeLike | None, ...]) -> bool:
    """Tell whether as many nodes hang on these as lie between two milestones."""
    stack: list[Any] = [node for node in nodes if node is not None]
    reached = set(stack)
    while stack and len(reached) < MILESTONE_DISTANCE:
        for target in stack.pop().next_nodes:
            if target is not None and target not in reached:
                reached.add(target)
                stack.append(target)
    return len(reached) >= MILESTONE_DISTANCE
