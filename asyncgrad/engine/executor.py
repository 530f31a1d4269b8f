"""Executor: what decides which node of a backward runs next, and the reasons for which it stops.

There are three, side by side: `FastPath`, `DependencyExecutor` and `CompiledExecutor`. `Engine` chooses the one that a
backward begins with; one that cannot go on puts another in its place and says HANDED_OVER.
"""

from __future__ import annotations

import enum
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from ..graph.node import Node
    from ..scheduling import Clock

__all__ = ["Executor", "NodeTurn", "Stop", "TurnExecutor"]


class Stop(enum.Enum):
    """Why an executor has stopped, where it is not for the turn of a node."""

    DRAINED = "nothing is ready to run"
    BUDGET_SPENT = "the time budget is spent"
    HANDED_OVER = "another executor goes on in its place"


class NodeTurn(NamedTuple):
    """A node that needs more than a plain call, and the gradients that have arrived at its inputs.

    The driver runs it as a NodeTask, and tells the executor of the task by `end_turn` what it gave: the one that gave
    the turn, or the one that has taken over from it. Both are TurnExecutors.
    """

    node: Node
    grads: list[Any]


class Executor(Protocol):
    """Runs the nodes of one GraphTask, in the task's context. It never awaits.

    Its length is the number of nodes that are queued or running.
    """

    #: The node that runs now, or whose gradients are handed on: an error belongs to it.
    node: Node | None

    @property
    def leaves_last(self) -> bool:
        """Whether leaves get their gradients in `finish` alone, so that nothing but callbacks sees them change."""

    def __len__(self) -> int: ...

    def run(self, deadline: float, clock: Clock = perf_counter) -> Stop | NodeTurn:
        """Run ready nodes until none is ready, `clock` passes `deadline`, or one needs more than a plain call."""

    def recheck(self) -> None:
        """Look again at what others may have changed while the event loop ran them."""

    def finish(self) -> None:
        """Do what is left at the end, now that nothing is ready and nothing runs; once more does no harm.

        Raises:
            GraphError: a gradient has got stuck on its way.
        """

    def clear(self) -> None:
        """Let go of all gradients under way, since the backward has failed; what runs is still counted."""


class TurnExecutor(Executor, Protocol):
    """An executor whose `run` may return a NodeTurn."""

    def end_turn(self, node: Node, outputs: tuple[Any, ...] | None) -> None:
        """Take what a node in its turn gave: its gradients, or None where its body did not run."""

    def suspended(self) -> None:
        """Note that a NodeTask has suspended, so that further nodes may run beside it."""

    def discount(self, node: Node) -> None:
        """Count a node as no longer running, since after a failure nobody collects it."""
