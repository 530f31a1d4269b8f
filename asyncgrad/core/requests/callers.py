"""Who makes a request: the backward that waits for it, how urgent that is, and what profiles are told."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from ..settings.context import CURRENT_GRAPH_TASK, CURRENT_NODE

if TYPE_CHECKING:
    from ..engine.graph_task import GraphTask

__all__ = [
    "URGENCY",
    "Urgency",
    "calling_backward",
    "current_urgency",
    "most_urgent",
    "most_urgent_of",
    "tell_profiles",
    "urgency_of",
]


class Urgency(NamedTuple):
    """How urgent a request is: of those that wait, the one with the lowest is next."""

    #: The reentrant depth of the backward, negated; 0 outside of all.
    depth: int
    #: The id of that backward; None outside of all.
    backward: int | None


#: How urgent the callers are for whom this context works; None where it works for itself.
URGENCY: ContextVar[Urgency | None] = ContextVar("asyncgrad_urgency", default=None)


def calling_backward() -> GraphTask | None:
    """Return the backward in whose body, hook or callback this is called; None outside of one."""
    graph_task: Any = CURRENT_GRAPH_TASK.get()
    # The caller may be a task that a body has started and that has outlived the backward.
    return graph_task if graph_task is not None and graph_task.is_running else None


def current_urgency() -> Urgency:
    """Return how urgent a request of this context is."""
    return urgency_of(calling_backward(), URGENCY.get())


def urgency_of(graph_task: GraphTask | None, given: Urgency | None) -> Urgency:
    """Return how urgent a request is that a backward, if any, has made, for callers of that urgency, if any."""
    own = Urgency(0, None) if graph_task is None else Urgency(-graph_task.reentrant_depth, graph_task.id)
    return own if given is None else most_urgent((own, given))


def most_urgent_of(callers: Iterable[tuple[GraphTask | None, Urgency | None]]) -> Urgency:
    """Return how urgent a request is for several callers: see `urgency_of`. A request of rows has one for each row."""
    depth, backward = 0, None
    urgencies = []
    for graph_task, given in callers:
        if graph_task is None or given is not None:
            urgencies.append(urgency_of(graph_task, given))
        elif backward is None or (-graph_task.reentrant_depth, graph_task.id) < (depth, backward):
            depth, backward = -graph_task.reentrant_depth, graph_task.id
    if backward is not None:
        urgencies.append(Urgency(depth, backward))
    return most_urgent(urgencies)


def most_urgent(urgencies: Iterable[Urgency]) -> Urgency:
    """Return the most urgent: the deepest, then the oldest backward, and a caller outside of all comes last."""
    return min(urgencies, key=_rank)


def _rank(urgency: Urgency) -> tuple[int, bool, int]:
    return urgency.depth, urgency.backward is None, urgency.backward or 0


def tell_profiles(what: object) -> None:
    """Tell those who observe the node that runs here, if any, that it is about to wait for something."""
    graph_task, node = calling_backward(), CURRENT_NODE.get()
    if graph_task is not None and node is not None and graph_task.observed_steps is not None:
        graph_task.observed_steps.waits_for(node, str(what))
