"""Program, a compiled backward: its functions, its source, and the source map that deoptimisation needs.

The functions keep their state in local variables alone. When a function stops before its end, because a guard fails, a
body raises or the event loop has to run, its current line tells which op it has reached. The tables of its Segment
tell which local variables hold the nodes reached by then and their gradients.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, NamedTuple, final

from ...graph.cost import watch_changes

__all__ = [
    "GuardFailed",
    "SourceMapEntry",
    "LineKind",
    "Segment",
    "ProgramPoint",
    "Program",
    "Slot",
    "NeedsAwait",
    "pause",
]


class GuardFailed(Exception):
    """Raised by a compiled function when the graph is not like the one that it was compiled from.

    CompiledExecutor catches it.
    """


class NeedsAwait(GuardFailed):
    """Raised by a compiled function when a body that it called has returned an awaitable.

    CompiledExecutor catches it.
    """


@types.coroutine
def pause() -> Generator[None, float, float]:
    """Suspend a compiled function so that the event loop can run; return the next deadline."""
    return (yield)


class LineKind(Enum):
    """What a line of a compiled function does, and so what an error in it means."""

    #: It checks the graph before the body of a node: an error means that the graph is another one.
    GUARD = 1
    #: It runs the body of a node: an error is that of the body.
    BODY = 2
    #: It checks a gradient: an AttributeError means that the gradient is not an array.
    EDGE = 3
    #: It reads the clock between two ops: no node runs.
    CLOCK = 4
    #: It waits for a NodeTask: the error is that of the NodeTask.
    NODE_TASK = 5


class SourceMapEntry(NamedTuple):
    """What a line of source belongs to: the number of an op, and those of an edge and a leaf; -1 for none."""

    #: Counted from the first op of the segment.
    op: int
    kind: LineKind
    edge: int = -1
    #: For a line that runs a leaf, the number of the leaf in its segment.
    leaf: int = -1


#: A point of a run: the number of an op, and the number of the edge that delivers, -1 before the op begins. A leaf that
#: runs after an op has a number of its own, counted on from that of the last edge of the op.
ProgramPoint = tuple[int, int]


class Slot(NamedTuple):
    """The local variable that holds the gradient of one input."""

    name: str
    #: The point at which the first gradient arrives.
    first: ProgramPoint
    #: The point from which on it holds a sum: an array that the function made and may write into. None for no sum.
    owned: ProgramPoint | None


@final
class Segment(NamedTuple):
    """The tables of one function, which count ops from its first op, number `base` of the whole backward."""

    #: By op, the local variable of its node, for the ops that the function runs and those that it passes on.
    node_names: dict[int, str]
    #: By op, the slots of its inputs.
    slots: dict[int, tuple[Slot | None, ...]]
    #: By op, the local variables of the gradients that its node returned, for the ops whose gradients are checked.
    outputs: dict[int, tuple[str | None, ...]]
    #: The local variables of the leaves that have been reached before the function and not run, and of those that it
    #: reaches itself.
    leaf_names: list[str]
    #: The slots of these leaves.
    leaf_slots: list[Slot | None]
    #: The points at which these leaves run; None for a leaf that runs in a later function, or at the end.
    leaf_ends: list[ProgramPoint | None]
    #: The ops and the leaves that have a NodeMeta in the trace.
    ops_with_meta: frozenset[int]
    leaves_with_meta: frozenset[int]


@final
class Program:
    """A compiled backward.

    Args:
        filename: the name of the source in tracebacks.
        text: the lines of the source.
        source_map: the entry of each line, by line number less one.
        plans: the plans of its ops, each with the number of elements of its gradient; their bodies may prove heavy.
        runs_node_task: whether some of its nodes run as NodeTasks, so that user code runs before its end.
    """

    __slots__ = (
        "__weakref__",
        "_changes",
        "_is_measured",
        "filename",
        "last_used",
        "plans",
        "run",
        "runs_node_task",
        "segments",
        "source_map",
        "text",
    )

    def __init__(
        self,
        filename: str,
        text: list[str],
        source_map: list[SourceMapEntry | None],
        plans: frozenset[tuple[Any, int]] = frozenset(),
        runs_node_task: bool = False,
    ) -> None:
        #: The coroutine function. It takes the GraphTask, a clock, a deadline, the root and its gradient, and returns
        #: the AccumulateGrads that have not run and, in reverse order, their gradients.
        self.run: Callable[..., Any] = None  # type: ignore[assignment]
        self.text: list[str] = text
        self.filename: str = filename
        self.source_map: list[SourceMapEntry | None] = source_map
        #: The number of its last use; the cache drops the function with the least.
        self.last_used: int = 0
        #: By code object of a function, its tables.
        self.segments: dict[types.CodeType, Segment] = {}
        self.plans: frozenset[tuple[Any, int]] = plans
        self.runs_node_task: bool = runs_node_task
        self._changes = -1
        self._is_measured = False

    @property
    def source(self) -> str:
        """The whole source."""
        return "".join(self.text)

    def is_measured(self) -> bool:
        """Tell whether bodies like that of one of its ops are measured, so that the engine has to run the backward."""
        if self._changes != watch_changes[0]:
            self._changes = watch_changes[0]
            self._is_measured = any(plan.watches(elements) for plan, elements in self.plans)
        return self._is_measured
