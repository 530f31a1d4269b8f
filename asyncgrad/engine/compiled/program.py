"""A compiled backward: its functions, its source, and what is known of each of its lines.

The functions keep their state in local names alone. Where one is left in the middle (it has found the graph to be
another one, or the loop is to run, or a body has raised), the line that it stands at says which op that is, and
the tables here say which names hold the nodes reached by then and their gradients.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, NamedTuple, final

from ...graph.cost import watch_changes

__all__ = ["GuardFailed", "SourceMapEntry", "LineKind", "Segment", "Place", "Program", "Slot", "NeedsAwait", "pause"]


class GuardFailed(Exception):
    """Raised by a compiled function, and caught at once: the graph is not the one that it was made from."""


class NeedsAwait(GuardFailed):
    """Raised by a compiled function, and caught at once: a body that was called is one that is to be waited for."""


@types.coroutine
def pause() -> Generator[None, float, float]:
    """Suspend a compiled function so that the event loop can run; return the next deadline."""
    return (yield)


class LineKind(Enum):
    """What an error in a line of a compiled function means."""

    #: The node has not begun: an error says that the graph is another one.
    GUARD = 1
    #: The node's body runs: an error is its own.
    BODY = 2
    #: A gradient is looked at: an AttributeError says that it is no array.
    EDGE = 3
    #: Everything up to the op before has ended.
    BREAK = 4
    #: A node runs as a NodeTask: an error comes from elsewhere.
    NODE_TASK = 5


class SourceMapEntry(NamedTuple):
    """What a line of source belongs to."""

    op: int
    kind: LineKind
    edge: int = -1
    #: Of a line that runs a leaf, which of its segment's.
    leaf: int = -1


#: A moment of a run: the number of an op, and of the edge that delivers, -1 before the op begins. The leaves that
#: run after an op are counted on from its edges.
Place = tuple[int, int]


class Slot(NamedTuple):
    """Where the gradient of one input is kept."""

    name: str
    #: When it is first there.
    first: Place
    #: From when on it is a sum, and so an array of our own; None where it never is.
    owned: Place | None


@final
class Segment(NamedTuple):
    """What is known of one function. Ops are counted from the first that it runs, `base` of the whole."""

    #: By op, the name of its node; of those that the function runs, and of those that it hands on.
    node_names: dict[int, str]
    #: By op, where the gradients of its inputs are kept.
    slots: dict[int, tuple[Slot | None, ...]]
    #: The names of what the node of an op returned, for the ops whose gradients are looked at.
    outputs: dict[int, tuple[str | None, ...]]
    #: Of the leaves that it meets, and of those that had been met and not run before.
    leaf_names: list[str]
    leaf_slots: list[Slot | None]
    #: When they run; None where that is in a later function, or at the end.
    leaf_ends: list[Place | None]
    #: The ops, and the leaves, that are expected to have a NodeMeta.
    ops_with_meta: frozenset[int]
    leaves_with_meta: frozenset[int]


@final
class Program:
    """A compiled backward.

    Args:
        filename: what tracebacks call it.
        lines: by line number, less one, what a line belongs to.
        plans: those of its ops, each with the number of elements, that may turn out to take long.
        runs_node_task: whether some of its nodes run as NodeTasks, so that others may look on.
    """

    __slots__ = (
        "__weakref__",
        "_changes",
        "_is_measured",
        "filename",
        "last_used",
        "lines",
        "plans",
        "run",
        "runs_node_task",
        "segments",
        "text",
    )

    def __init__(
        self,
        filename: str,
        lines: list[SourceMapEntry | None],
        plans: frozenset[tuple[Any, int]] = frozenset(),
        runs_node_task: bool = False,
    ) -> None:
        #: The coroutine function: of the GraphTask, a clock, a deadline, the root and its gradient. It returns the
        #: AccumulateGrads and, in reverse, their gradients.
        self.run: Callable[..., Any] = None  # type: ignore[assignment]
        #: The lines of the source.
        self.text: list[str] = []
        self.filename = filename
        self.lines = lines
        #: The larger, the later.
        self.last_used = 0
        self.segments: dict[types.CodeType, Segment] = {}
        self.plans = plans
        self.runs_node_task = runs_node_task
        self._changes = -1
        self._is_measured = False

    @property
    def source(self) -> str:
        """What was compiled."""
        return "".join(self.text)

    def is_measured(self) -> bool:
        """Tell whether one of its ops has kept a thread for long, so that the engine is to measure those like it."""
        if self._changes != watch_changes[0]:
            self._changes = watch_changes[0]
            self._is_measured = any(plan.watches(elements) for plan, elements in self.plans)
        return self._is_measured
