"""What follows the failure of a backward: its roll-back, and what `queue_callback(..., on_failure=...)` has called."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from typing import TYPE_CHECKING, Any

from ..settings.awaiting import finish
from ..settings.callers import shorten_traceback
from ..settings.context import BLOCKING
from ..settings.without_suspending import run_without_suspending
from .driver import suspension_error
from .eager_task import EagerTask
from .loops import OneShotEvent, loop_is_running, run_on_own_loop, running_loop, wait_through_cancellation
from .notes import add_later_error
from .released import explain_release, remember_release

if TYPE_CHECKING:
    from collections.abc import Callable

    from .completion import Completion
    from .graph_task import GraphTask

__all__ = ["complete_with_error", "note_failure"]


def note_failure(graph_task: GraphTask, error: BaseException) -> None:
    """Roll a backward back after a failure, and show its observers the error."""
    # The driver has done this already if it failed, but a warnings filter may have raised a delayed warning.
    graph_task.roll_back()
    if not graph_task.has_error:
        graph_task.failed_node = None
        graph_task.captured = [None] * len(graph_task.captured)
    graph_task.has_error = True
    graph_task.to_release = None
    explain_release(graph_task, error)
    remember_release(graph_task, error, graph_task.failed_node)
    if graph_task.observation is not None:
        graph_task.observation.fail(error)
    if isinstance(error, Exception):
        shorten_traceback(error)


async def complete_with_error(completion: Completion, error: BaseException) -> None:
    """Run the failure callbacks of a backward, the last one first, and give its future the error.

    Errors of the callbacks become notes. Each runs to its end, as a `finally` does that must not be left half-done: a
    cancellation that arrives meanwhile is raised once all have ended.

    Args:
        completion: that of the backward, whose changes to gradients have been rolled back.
        error: why it has failed.

    Raises:
        CancelledError: the caller was cancelled meanwhile, and `error` is not its cancellation.
    """
    interrupted: asyncio.CancelledError | None = None
    try:
        while completion.failure_callbacks:
            callback = completion.failure_callbacks.pop()
            # That of the caller: the backward has ended, and what is called here is not part of it.
            context = contextvars.copy_context()
            if isinstance(error, GeneratorExit) or BLOCKING.get():
                later = _run_blocking(callback, error, context)
            else:
                later, again = await _run_to_its_end(callback, error, context)
                interrupted = again or interrupted
            if later is not None:
                add_later_error(error, later, None, "while it was told of the failure")
                later = None
        if interrupted is not None and not isinstance(error, asyncio.CancelledError):
            raise interrupted
    finally:
        completion.fail(error)
        # The traceback of the error refers to this frame: leave no cycle.
        del error, interrupted


async def _call(callback: Callable[..., Any], error: BaseException) -> None:
    """Call a failure callback, with the error if it wants that, and await its result if that is awaitable."""
    try:
        result = callback(error) if _wants_argument(callback) else callback()
    finally:
        del error
    await finish(result)


def _wants_argument(callback: Callable[..., Any]) -> bool:
    """Tell whether a function has a positional parameter without a default; a default may hold what a loop bound."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return any(one.kind in positional and one.default is one.empty for one in parameters)


async def _run_to_its_end(
    callback: Callable[..., Any], error: BaseException, context: contextvars.Context
) -> tuple[BaseException | None, asyncio.CancelledError | None]:
    """Run a callback in a task of its own; return its error, and the last cancellation of the caller meanwhile."""
    loop, interrupted = running_loop(), None
    ended = OneShotEvent(loop)

    def wake(_: EagerTask) -> None:
        ended.set()

    def wait() -> OneShotEvent:
        nonlocal ended
        # One whose wait was cancelled cannot be set.
        ended = OneShotEvent(loop)
        return ended

    task = EagerTask(
        _call(callback, error),
        loop=loop,
        context=context,
        name="failure callback of a backward",
        on_end=wake,
    )
    try:
        task.start()
        interrupted = await wait_through_cancellation(task.done, wait)
        return task.cancelled_by if task.cancelled() else task.exception(), interrupted
    finally:
        # As in EagerTask.start().
        del task, error, interrupted


def _run_blocking(
    callback: Callable[..., Any], error: BaseException, context: contextvars.Context
) -> BaseException | None:
    """Run a callback where the caller cannot await: in a blocking backward, or one that is being closed.

    Without a loop in this thread, one is run for a callback that is awaited. Return its error.
    """
    try:
        if loop_is_running() or isinstance(error, GeneratorExit):
            context.run(run_without_suspending, _call(callback, error), suspension_error, "a failure callback")
        else:
            context.run(run_on_own_loop, _call(callback, error))
    except Exception as later:
        return later
    finally:
        del error
    return None
