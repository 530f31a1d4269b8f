"""JointCommit: backward passes of one call, such as the rows of a Jacobian, which succeed or fail together."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar, final

from .driver import run_to_end
from .failure_callbacks import complete_with_error, note_failure

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from .graph_task import GraphTask

__all__ = ["JointCommit"]

T = TypeVar("T")


@final
class JointCommit:
    """The end of backward passes that succeed or fail together.

    Final callbacks are called once all have run their nodes. If one of all these fails, changes to gradients are rolled
    back, and failure callbacks called, in all of them.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        #: Those that have run all their nodes, or failed, and have something to commit or to take back.
        self._open: list[GraphTask] = []

    def takes(self, graph_task: GraphTask, error: BaseException | None = None) -> bool:
        """Take over the end of a backward, which has run its nodes or failed; return False where it may end at once."""
        completion = graph_task.completion
        is_taken = completion is not None or bool(graph_task.changes) or graph_task.to_release is not None
        graph_task.ends_with_others = is_taken
        if completion is not None:
            # Where it runs: warnings are told in the order of the rows.
            if error is None:
                completion.warnings.replay()
            else:
                completion.warnings.replay_beside(error)
        if is_taken:
            self._open.append(graph_task)
        return is_taken

    async def after(self, backwards: Coroutine[object, None, T]) -> T:
        """Await what runs the backward passes, commit what they have left, and return its result."""
        try:
            result = await backwards
            # In the order in which they began.
            self._open.sort(key=attrgetter("id"))
            for graph_task in self._open:
                graph_task.ends_with_others = False
                await run_to_end(graph_task)
            for graph_task in self._open:
                if graph_task.completion is not None:
                    graph_task.completion.warnings.replay()
            for graph_task in self._open:
                graph_task.succeed()
        except BaseException as error:
            await self._fail(error)
            raise
        else:
            for graph_task in self._open:
                graph_task.conclude()
            return result
        finally:
            for graph_task in self._open:
                graph_task.close()
            self._open.clear()

    async def _fail(self, error: BaseException) -> None:
        """Roll all back, and then call their failure callbacks, the last one first."""
        self._open.sort(key=attrgetter("id"))
        for graph_task in self._open:
            note_failure(graph_task, error)
            if graph_task.completion is not None:
                graph_task.completion.warnings.replay_beside(error)
        interrupted: asyncio.CancelledError | None = None
        try:
            for graph_task in reversed(self._open):
                if graph_task.completion is None:
                    continue
                try:
                    await complete_with_error(graph_task.completion, error)
                except asyncio.CancelledError as again:
                    interrupted = again
            if interrupted is not None:
                raise interrupted
        finally:
            # The traceback of the error refers to this frame: leave no cycle.
            del error, interrupted
