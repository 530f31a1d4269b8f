"""Running a coroutine in a blocking call: without an event loop if it does not suspend, else on its own loop."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from ..core.engine.loops import loop_is_running, run
from ..core.settings.awaiting import finish
from ..core.settings.callers import shorten_traceback
from ..core.settings.context import BLOCKING, is_kind, switch_back
from ..core.settings.without_suspending import run_without_suspending
from ..errors import BlockingError
from ..transforms.recipes import innermost, remember

__all__ = [
    "bind",
    "choose_driver",
    "run_on_own_loop",
    "run_blocking",
    "make_blocking",
    "suspension_error",
]

T = TypeVar("T")


def run_blocking(coroutine: Coroutine[object, None, T], name: str) -> T:
    """Return the result of a coroutine that does not suspend while BLOCKING is set.

    Raises:
        BlockingError: the coroutine would have to suspend.
    """
    try:
        return run_without_suspending(coroutine, suspension_error, name)
    except Exception as error:
        shorten_traceback(error)
        # The engine's message names the node, but can only advise to await ag.backward or ag.grad.
        if isinstance(error, BlockingError) and f"ag.{name}(" not in str(error):
            error.add_note(f"in asyncgrad.sync.{name}(...): await ag.{name}(...) instead")
        raise


def run_on_own_loop(coroutine: Coroutine[object, None, T], name: str) -> T:
    """Return the result of a coroutine that may suspend, run on an event loop of its own.

    Raises:
        BlockingError: an event loop is running in this thread.
    """
    if loop_is_running():
        coroutine.close()
        raise suspension_error(name)
    before = copy_context()
    try:
        BLOCKING.set(False)
        return run(coroutine)
    finally:
        switch_back(before)


def make_blocking(fn: Any, name: str) -> Callable[..., Any]:
    """Return the user's function, wrapped to run with BLOCKING off and to wait for an awaitable that it returns."""

    @functools.wraps(fn)
    def blocking(*args: Any, **kwargs: Any) -> Any:
        before = BLOCKING.get()
        try:
            # Tasks that the function starts copy this context, and they may suspend.
            BLOCKING.set(False)
            result = fn(*args, **kwargs)
        finally:
            BLOCKING.set(before)
        if not inspect.isawaitable(result):
            return result
        return run_on_own_loop(result if inspect.iscoroutine(result) else finish(result), name)

    return blocking


def choose_driver(fn: Any, name: str) -> tuple[Callable[[Coroutine[object, None, Any], str], Any], Any]:
    """Return the function that runs the coroutines of a transform of `fn`, and the function to transform."""
    if is_kind(inspect.iscoroutinefunction, fn):
        return run_on_own_loop, fn
    blocking = make_blocking(fn, name)
    if getattr(type(innermost(fn)), "is_compiled", False):
        # What a transform makes of it runs by one program.
        remember(blocking, fn, lambda other: make_blocking(other, name), "blocking")
    return run_blocking, blocking


def bind(
    signature: inspect.Signature, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    """Bind the arguments of a call.

    Raises:
        TypeError: they do not fit; names the function, which `Signature.bind` does not.
    """
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"asyncgrad.sync.{name}() {error}") from None


def suspension_error(name: str) -> BlockingError:
    """Return the error for a call that would have to suspend, which says what to await instead."""
    return BlockingError(
        f"asyncgrad.sync.{name}(...) would have to suspend, which would block the event loop that is running in "
        f"this thread. Await it instead: await ag.{name}(...)"
    )
