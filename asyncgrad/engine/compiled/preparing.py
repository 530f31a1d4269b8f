"""The gait of a GraphTask whose function has still to be found, or compiled: that comes before the first node."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, final

from ..gait import Gait

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...graph.node import Node
    from ..graph_task import GraphTask
    from .gait import CompiledGait
    from .slices import Slices

__all__ = ["CompilingGait"]


@final
class CompilingGait:
    """Finds the compiled function of a backward, in slices; has the methods of PlainGait.

    Nothing of the backward has run before there is another gait in its place. Given up in the middle, it leaves nothing
    behind.

    Args:
        work: returns what makes the compiled gait, of a gradient; None where the engine is to run the backward.
        grad: what arrives at the root.
        input_nr: at which of its inputs.
    """

    __slots__ = ("_grad", "_input_nr", "_work", "node")

    def __init__(self, work: Slices[Callable[..., CompiledGait] | None], grad: Any, input_nr: int) -> None:
        self._work = work
        self._grad = grad
        self._input_nr = input_nr
        #: No node runs here.
        self.node: Node | None = None

    def __len__(self) -> int:
        """Return how many nodes have been reached and have not run to their end: the root waits."""
        return 1

    def run(self, task: GraphTask, deadline: float) -> Gait:
        """Work until the clock is about to pass `deadline`; at the end let the gait run that is found."""
        try:
            while perf_counter() + next(self._work) <= deadline:
                pass
        except StopIteration as end:
            make = end.value
        else:
            return Gait.BREATHE
        if make is None:
            task.start_in_engine(self._grad, self._input_nr)
        else:
            task.plain = make(grad=self._grad)
        # A leaf takes over an array that nobody else holds.
        self._grad = None
        return task.run_plain(deadline)

    def look_again(self, task: GraphTask) -> None:
        """Let it be: whoever goes on looks at what others have changed."""

    def finish(self, task: GraphTask) -> None:
        """Do nothing, for there are no gradients of leaves."""

    def clear(self) -> None:
        """Give up; others may compile the same from now on."""
        self._grad = None
        self._work.close()
