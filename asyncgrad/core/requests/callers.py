"""Who makes a request: the backward that waits for it, how urgent that is, and what profiles are told."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextvars import ContextVar
from itertools import starmap
from typing import TYPE_CHECKING

from ..engine.current import calling_backward
from ..settings.context import CURRENT_NODE

if TYPE_CHECKING:
    from ..engine.graph_task import GraphTask

__all__ = [
    "URGENCY",
    "Urgency",
    "current_urgency",
    "most_urgent_of",
    "tell_profiles",
]


#: How urgent a request is: of those that wait, the lowest is next. The depth of the backward that makes it, negated, so
#: that the deepest comes first; then its id, so that the oldest does. Outside of all backward passes: 0, and infinite.
Urgency = tuple[int, float]

_OUTSIDE: Urgency = (0, math.inf)

#: How urgent the callers are for whom this context works; None where it works for itself.
URGENCY: ContextVar[Urgency | None] = ContextVar("asyncgrad_urgency", default=None)


def current_urgency() -> Urgency:
    """Return how urgent a request of this context is."""
    return _urgency_of(calling_backward(), URGENCY.get())


def most_urgent_of(callers: Iterable[tuple[GraphTask | None, Urgency | None]]) -> Urgency:
    """Return how urgent a request is for several callers: for each its backward, if any, and for whom that works."""
    return min(starmap(_urgency_of, callers))


def _urgency_of(graph_task: GraphTask | None, given: Urgency | None) -> Urgency:
    """Return how urgent a request is that a backward, if any, has made, for callers of that urgency, if any."""
    own = _OUTSIDE if graph_task is None else (-graph_task.reentrant_depth, graph_task.id)
    return own if given is None else min(own, given)


def tell_profiles(what: object) -> None:
    """Tell those who observe the node that runs here, if any, that it is about to wait for something."""
    graph_task, node = calling_backward(), CURRENT_NODE.get()
    if graph_task is not None and node is not None and graph_task.observed_steps is not None:
        graph_task.observed_steps.waits_for(node, str(what))
