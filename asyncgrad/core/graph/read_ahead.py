"""ReadAhead: prefetches saved tensors that a backward will unpack, before the nodes that need them are ready."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol, final

from ..settings.context import CURRENT_GRAPH_TASK, CURRENT_NODE

if TYPE_CHECKING:
    from .node_like import NodeLike


__all__ = ["NO_ROOM", "claim"]

#: A prefetch hook returns this if it has no room for the tensor yet; it is called for that tensor again later.
NO_ROOM = object()

#: A prefetched tensor is dropped once this many times `ahead` later tensors have been unpacked before it.
OVERTAKEN = 4


def claim(packed: Prefetchable) -> Any:
    """Note that the running backward unpacks `packed` now, and prefetch the next tensors; return the hook's result.

    Outside of a backward nothing is prefetched.
    """
    graph_task = CURRENT_GRAPH_TASK.get()
    if graph_task is None or not graph_task.is_running:
        return None
    ahead = getattr(graph_task, "read_ahead", None)
    if ahead is None:
        ahead = graph_task.read_ahead = ReadAhead(graph_task, CURRENT_NODE.get())
    return ahead.claim(packed)


class Prefetchable(Protocol):
    """A saved tensor that can be fetched ahead of need: see Packed."""

    @property
    def ahead(self) -> int:
        """How many tensors may be fetched and not unpacked when this one comes next."""

    def prefetch(self) -> Any:
        """Return what the prefetch hook does."""


@final
class ReadAhead:
    """The tensors that one backward has yet to unpack, in execution order, and those already prefetched.

    The order is that of a backward in which nothing suspends. If bodies overlap, a node may run earlier than that, when
    its tensors are not prefetched yet, or later, when they are kept until then.

    Args:
        graph_task: the backward.
        node: the node that runs; what comes before it has been unpacked.
    """

    __slots__ = ("_asked", "_lock", "_shares", "_upcoming")

    def __init__(self, graph_task: Any, node: NodeLike | None) -> None:
        #: Bodies may run in several threads, and one thread may be interrupted in here by the garbage collector.
        self._lock = threading.RLock()
        order: list[NodeLike] = graph_task.execution_order()
        start = next((place for place, each in enumerate(order) if each is node), 0)
        #: With the place in the order of each.
        self._upcoming: dict[Prefetchable, int] = {}
        for upcoming in order[start:]:
            if upcoming.meta is not None:
                for packed in upcoming.needed_packed():
                    if packed.ahead:
                        self._upcoming[packed] = len(self._upcoming)
        #: What has been asked for and not unpacked, with its place and what the hook returned; in order.
        self._asked: dict[Prefetchable, tuple[int, Any]] = {}
        #: How many of those share what the hook returned, by its id: together they count as one.
        self._shares: Counter[int] = Counter()

    def claim(self, packed: Prefetchable) -> Any:
        """Return what the prefetch hook of `packed` returned and forget it; prefetch the next tensors."""
        with self._lock:
            place = self._upcoming.pop(packed, None)
            if place is None:
                place, given = self._forget(packed)
            else:
                # First in the queue: it is needed now.
                given = packed.prefetch()
            self._ask(place, given)
            return given

    def _ask(self, place: int, current: Any) -> None:
        upcoming, asked = self._upcoming, self._asked
        while upcoming:
            packed = next(iter(upcoming))
            if len(self._shares) - (id(current) in self._shares) >= packed.ahead:
                oldest = next(iter(asked))
                # So many tensors overtake one only if no gradient reaches its node. A node that is merely late, since
                # its branch is suspended, is overtaken by fewer.
                if place - asked[oldest][0] < OVERTAKEN * packed.ahead:
                    return
                self._forget(oldest)
            given = packed.prefetch()
            if given is NO_ROOM:
                return
            position = upcoming.pop(packed)
            if given is not None:
                asked[packed] = position, given
                self._shares[id(given)] += 1

    def _forget(self, packed: Prefetchable) -> tuple[int, Any]:
        place, given = self._asked.pop(packed, (-1, None))
        shares = self._shares[id(given)] - 1
        if shares > 0:
            self._shares[id(given)] = shares
        else:
            del self._shares[id(given)]
        return place, given
