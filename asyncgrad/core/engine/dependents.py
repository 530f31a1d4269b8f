"""Who cannot go on before somebody else has, as far as asyncgrad itself makes them wait.

A context may hold what others wait for: a place of a limit, or the request that several callers wait for. Each of those
that wait has a context too, whose body has the lock of its node, and may hold more. So the search goes from context to
context, and by way of the bodies that a backward runs inside of.
"""

from __future__ import annotations

from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from ..settings.context import CALLERS, CURRENT_GRAPH_TASK, CURRENT_NODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..graph.node import Node
    from ..settings.context import CallerLike

__all__ = ["HELD", "Held", "callers_of", "dependents_of", "has_dependents", "hold", "let_go"]


class Held(Protocol):
    """What a context holds that others may wait for."""

    @property
    def is_held(self) -> bool:
        """Whether it is held still."""

    def dependents(self) -> Iterable[Context]:
        """Return the contexts of those who wait for it now; takes no lock."""


#: What this context, or one that it is a copy of, has taken; also what has been let go elsewhere.
HELD: ContextVar[tuple[Held, ...]] = ContextVar("asyncgrad_held", default=())


def hold(what: Held) -> None:
    """Note that this context holds what others may wait for."""
    HELD.set((*(one for one in HELD.get() if one.is_held), what))


def let_go(what: Held) -> None:
    """Note that this context does not hold it any more."""
    HELD.set(tuple(one for one in HELD.get() if one is not what))


def callers_of(context: Context) -> list[CallerLike]:
    """Return those who wait for the request that runs in a context; none where none does."""
    # A list, since the loop of the request may change them meanwhile.
    return list(context.get(CALLERS, ()))


def has_dependents(context: Context) -> bool:
    """Tell whether anybody may wait for a body in this context, other than by the lock of its node."""
    graph_task: Any = context.get(CURRENT_GRAPH_TASK)
    is_nested = graph_task is not None and graph_task.outer is not None
    return is_nested or bool(_held(context)) or bool(callers_of(context))


def dependents_of(context: Context) -> Iterator[Context]:
    """Yield the contexts that cannot go on before the body, or the request, that runs in one of them has."""
    # By id, since contexts have no hash; and each is kept, so that no other gets its id.
    seen: dict[int, Context] = {id(context): context}
    bodies: set[tuple[Any, Any]] = set()
    stack = [context]
    while stack:
        one = stack.pop()
        for other in (*_waiting_for_held(one), *_waiting_for_locks(one, bodies)):
            if id(other) not in seen:
                seen[id(other)] = other
                stack.append(other)
                yield other


def _waiting_for_held(context: Context) -> Iterator[Context]:
    for held in _held(context):
        if held.is_held:
            yield from held.dependents()
    for caller in callers_of(context):
        yield caller.context


def _held(context: Context) -> tuple[Held, ...]:
    found: tuple[Held, ...] = context.get(HELD) or ()
    return found


def _waiting_for_locks(context: Context, seen: set[tuple[Any, Any]]) -> Iterator[Context]:
    """Yield the contexts of the backward passes that wait for a lock of a body which this context runs inside of."""
    backward: Any = context.get(CURRENT_GRAPH_TASK)
    bodies = [(backward, context.get(CURRENT_NODE))]
    # The call of a rule for several rows has a lock as the body of a node does.
    bodies += [(caller.backward, caller.node) for caller in callers_of(context)]
    while bodies:
        backward, node = bodies.pop()
        if backward is None or not backward.is_running or (backward, node) in seen:
            continue
        seen.add((backward, node))
        for waiter in _lock_waiters(node):
            yield waiter.task.context
        if backward.outer is not None:
            bodies.append((backward.outer, backward.outer_node))


def _lock_waiters(node: Node | None) -> list[Any]:
    """Return those who wait for the lock of a node."""
    contention: Any = None if node is None or node.meta is None else node.meta.contention
    return [] if contention is None else list(contention.waiters)
