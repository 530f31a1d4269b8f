"""Waiting for coroutines that run at the same time, or that a worker may never end; and starting what nobody awaits."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from math import inf
from typing import Any

from ..core.engine.eager_task import EagerTask, start_task
from ..core.engine.measured_calls import ALWAYS_ON_WORKER
from ..core.engine.offloading import call_on_worker
from ..core.settings.awaiting import wake

__all__ = [
    "compute",
    "retrieve",
    "run_patiently",
    "run_together",
    "start_lasting",
    "start_unawaited",
    "wait_until_done",
]

#: From how many bytes on they are summed and looked at on a worker thread, where the loop has other clients.
_LARGE = 1 << 18


async def compute(work: Callable[[], Any], size: float = inf) -> Any:
    """Return what a function returns: on a worker thread if it looks at many bytes, or nobody knows how long it takes.

    Only where somebody is told by the turns of the loop whether this process is alive.
    """
    return await call_on_worker(work) if size > _LARGE and ALWAYS_ON_WORKER.get() else work()


async def run_together(coroutines: Iterable[Coroutine[object, None, Any]], name: str) -> list[Any]:
    """Return the results of coroutines that run at the same time.

    If one fails, or this is cancelled, the others are cancelled, and have ended when the first error is raised.
    """
    errors: list[BaseException] = []
    tasks: list[EagerTask] = []

    def note_end(task: EagerTask) -> None:
        error = task.cancelled_by if task.cancelled() else task.exception()
        if error is not None:
            errors.append(error)
            cancel_all()

    def cancel_all() -> None:
        for task in tasks:
            task.cancel()

    try:
        for coroutine in coroutines:
            if errors:
                coroutine.close()
            else:
                tasks.append(start_task(coroutine, contextvars.copy_context(), name, note_end))
        for task in tasks:
            while not task.done():
                try:
                    await wait_until_done(task)
                except asyncio.CancelledError as cancelled:
                    errors.append(cancelled)
                    cancel_all()
        if errors:
            raise errors[0]
        return [task.result() for task in tasks]
    finally:
        # Their tracebacks refer to this frame: leave no cycle.
        errors.clear()
        tasks.clear()


async def wait_until_done(task: EagerTask) -> None:
    """Wait until a task has ended, in whatever way. Whoever waits may be cancelled, and the task goes on."""
    if not task.done():
        ended = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda _: wake(ended))
        await ended


async def run_patiently(
    exchange: Coroutine[object, None, Any], check: Callable[[], Awaitable[None]], patience: float, name: str
) -> Any:
    """Return the result of a coroutine, however long it takes; `check` is awaited whenever it is silent for long.

    Args:
        exchange: sends a request and waits for the reply.
        check: raises if whoever is asked has gone; `exchange` is cancelled then.
        patience: the seconds of silence before a check.
        name: what errors call the task.
    """
    task = start_task(exchange, contextvars.copy_context(), name)
    try:
        while not task.done():
            try:
                async with asyncio.timeout(patience):
                    await wait_until_done(task)
            except TimeoutError:
                await check()
    except BaseException:
        if not task.cancel():
            # It may have failed by itself meanwhile, and nobody else looks at its error.
            retrieve(task)
        raise
    return task.result()


def start_lasting(coroutine: Coroutine[object, None, Any], name: str) -> EagerTask:
    """Return a task in this context, whose first step has been run, and that goes on if all who wait are cancelled."""
    task = start_task(coroutine, contextvars.copy_context(), name)
    if not task.done():
        # Nobody else looks at its error then.
        task.add_done_callback(retrieve)
    return task


def start_unawaited(coroutine: Coroutine[object, None, Any], running: set[EagerTask], name: str) -> None:
    """Start a coroutine that nobody awaits, in an empty context; `running` refers to its task until it has ended."""
    task = start_task(coroutine, contextvars.Context(), name, retrieve)
    if not task.done():
        running.add(task)
        task.add_done_callback(running.discard)


def retrieve(task: EagerTask) -> None:
    """Take the error of a task that has ended, if any, so that asyncio does not report it where nobody waits for it."""
    if not task.cancelled():
        task.exception()
