"""`ag.run` inside an interactive shell whose event loop is already running: a notebook, or `python -m asyncio`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["is_interactive", "run_in_a_thread"]

T = TypeVar("T")


def is_interactive() -> bool:
    """Tell whether this process is an interactive shell: those set `sys.ps1`, their prompt."""
    # On a terminal, `python -m asyncio` of Python 3.13 sets none.
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return hasattr(sys, "ps1") or getattr(main, "name", None) == "asyncio.__main__"


def run_in_a_thread(
    main: Coroutine[object, None, T], debug: bool | None, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> T:
    """Run a coroutine on a new event loop in a new thread, in a copy of this context; return its result.

    Blocks this thread and its event loop until the coroutine has ended. A KeyboardInterrupt cancels the coroutine, and
    is raised once that has ended.
    """
    ended: Future[T] = Future()
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    interrupted = threading.Event()

    async def noted() -> T:
        task = asyncio.current_task()
        assert task is not None
        started.append((task.get_loop(), task))
        if interrupted.is_set():
            task.cancel()
        return await main

    def work() -> None:
        try:
            with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
                result = runner.run(noted())
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(result)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="ag.run")
    try:
        thread.start()
        _wait_for(ended)
    except KeyboardInterrupt:
        interrupted.set()
        for loop, task in started:
            # RuntimeError: the coroutine has ended, and its loop is closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        _wait_for(ended)
        raise
    return ended.result()


def _wait_for(ended: Future[Any]) -> None:
    """Wait until a coroutine has ended; an interrupt is raised within a tenth of a second."""
    # A signal that arrives just before a wait without a timeout does not interrupt it. Not `Thread.join`: Python 3.11
    # takes a thread for finished if an interrupt comes during its join.
    while not ended.done():
        wait([ended], timeout=0.1)
