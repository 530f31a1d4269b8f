"""Going on, on the stack of another thread, with what is nested too deep for the stack that there is."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from ..context import LOOP_BELOW, LoopBelow
from .running import loop_thread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NESTED_ON_ONE_STACK", "on_a_new_stack"]

T = TypeVar("T")

#: A call inside of a call of its own kind runs on the same stack, until so many are nested: the next one begins a new
#: stack.
NESTED_ON_ONE_STACK = 16


def on_a_new_stack(work: Callable[[], T]) -> T:
    """Return what `work()` does, called in a copy of this context on a thread of its own, which this one waits for.

    Python's stack is bounded, and nesting is to be bounded by memory alone. PyTorch changes threads too.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    begun, running = threading.Lock(), threading.Lock()
    running.acquire()

    def work_in_thread() -> None:
        if not begun.acquire(blocking=False):
            # The caller was interrupted before this, and has gone.
            return
        LOOP_BELOW.set(None if loop is None else LoopBelow(threading.get_ident(), loop))
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            running.release()

    loop = loop_thread()
    try:
        threading.Thread(target=contextvars.copy_context().run, args=(work_in_thread,)).start()
        running.acquire()
    finally:
        # Where it was interrupted.
        if not (results or errors) and not begun.acquire(blocking=False):
            _wait_for_the_end(running, results, errors)
    if errors:
        raise errors.pop()
    return results.pop()


def _wait_for_the_end(running: threading.Lock, *outcomes: list[Any]) -> None:
    """Wait for the end of what a thread does, however often that is interrupted; raise the interruption then.

    Neither by Thread.join() nor by an Event, which interruptions put into disorder.
    """
    try:
        running.acquire()
    finally:
        if not any(outcomes):
            _wait_for_the_end(running, *outcomes)
