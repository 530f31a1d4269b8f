"""Running a coroutine where an interactive shell runs an event loop already: a notebook, `python -m asyncio`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["is_interactive", "run_in_a_thread"]

T = TypeVar("T")


def is_interactive() -> bool:
    """Tell whether a user types what runs: a shell sets `sys.ps1`, its prompt."""
    # On a terminal, `python -m asyncio` of Python 3.13 sets none.
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return hasattr(sys, "ps1") or getattr(main, "name", None) == "asyncio.__main__"


def run_in_a_thread(
    main: Coroutine[Any, Any, T], debug: bool | None, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> T:
    """Return the result of a coroutine, run on a new event loop in a thread of its own, in a copy of this context.

    Blocks until it has ended, and with it the loop of this thread. An interrupt cancels the coroutine, and is raised
    once that has ended.
    """
    ended: Future[T] = Future()
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def noted() -> T:
        task = asyncio.current_task()
        assert task is not None
        started.append((task.get_loop(), task))
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
    thread.start()
    try:
        return ended.result()
    except KeyboardInterrupt:
        for loop, task in started:
            # It may have ended meanwhile, and its loop be closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
