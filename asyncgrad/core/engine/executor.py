"""Executor: the Protocol of what decides which node of a backward runs next, and the reasons for which one stops.

There are three side by side: `FastPath`, `DependencyExecutor` and `CompiledExecutor`. `Engine` chooses the one that a
backward starts with. One that cannot go on gives the GraphTask another executor and returns HANDED_OVER.
"""

from __future__ import annotations

import enum
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from ..graph.node import Node
    from ..settings.scheduling import Clock

__all__ = ["Executor", "NodeTurn", "Stop", "TurnExecutor"]


class Stop(enum.Enum):
    """Why an executor has stopped, if not for a NodeTurn."""

    DRAINED = "nothing is ready to run"
    BUDGET_SPENT = "the time budget is spent"
    HANDED_OVER = "another executor has replaced it"


class NodeTurn(NamedTuple):
    """A node that needs more than a plain call, and the gradients that have arrived at its inputs.

    The driver runs it as a NodeTask, and gives its gradients by `end_turn` to the executor of the task: the one that
    returned the turn, or the one that has replaced it. Both are TurnExecutors.
    """

    node: Node
    grads: list[Any]


class Executor(Protocol):
    """Runs the nodes of one GraphTask, in the task's context. It never awaits.

    Its length is the number of nodes that are queued or running.
    """

    #: The node that runs now, or whose gradients are being delivered. An error is reported for it.
    node: Node | None

    @property
    def leaves_last(self) -> bool:
        """Whether leaves get their gradients in `finish` alone, so that only final callbacks can see them change."""

    def __len__(self) -> int: ...

    def run(self, deadline: float, clock: Clock = perf_counter) -> Stop | NodeTurn:
        """Run ready nodes until none is ready, `clock` passes `deadline`, or one needs more than a plain call."""

    def recheck(self) -> None:
        """Check for changes, such as new hooks, that other tasks made while the event loop ran them."""

    def finish(self) -> None:
        """Do what is left to do once nothing is ready and nothing runs; calling it again does nothing.

        Raises:
            GraphError: a gradient waits at a node that will never be ready.
        """

    def clear(self) -> None:
        """Drop all pending gradients after a failure; nodes that run still count."""

    def is_waiting(self) -> bool:
        """Tell whether certainly no node is ready, so that `run` would do nothing before a NodeTask ends."""

    def prepare_to_wait(self) -> None:
        """Do what can be done while nodes wait that have been started, and has to be before the first of them ends."""

    def ready(self) -> list[Node]:
        """Return the nodes that are queued, the next one first where that is known; from any thread."""


class TurnExecutor(Executor, Protocol):
    """An executor whose `run` may return a NodeTurn."""

    def end_turn(self, node: Node, outputs: tuple[Any, ...] | None) -> None:
        """Take the gradients of a node whose turn has ended, or None where its body did not run."""

    def on_suspend(self) -> None:
        """Note that a NodeTask has suspended, so that further nodes may run beside it."""

    def mark_ended(self, node: Node) -> None:
        """Note that a node has ended after a failure, when `end_turn` is not called any more."""
