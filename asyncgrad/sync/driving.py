"""How a plain call drives a coroutine to its end: without a loop where it does not suspend, else on one of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..context import BLOCKING, is_kind
from ..engine.loops import loop_is_running, run
from ..errors import BlockingError

__all__ = ["driver_of", "on_a_loop", "step", "without_suspension", "suspension_error"]

T = TypeVar("T")


def step(coroutine: Coroutine[Any, Any, T], name: str) -> T:
    """Return the result of a coroutine that does not suspend while BLOCKING is set."""
    before = BLOCKING.get()
    try:
        # Inside the try, since an interrupt may come as soon as it is set.
        BLOCKING.set(True)
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    except BlockingError as error:
        # The engine names the node, and knows only of backward and grad.
        if f"ag.{name}(" not in str(error):
            error.add_note(f"in asyncgrad.sync.{name}(...): await ag.{name}(...) instead")
        raise
    finally:
        BLOCKING.set(before)
    coroutine.close()
    raise suspension_error(name)


def on_a_loop(coroutine: Coroutine[Any, Any, T], name: str) -> T:
    """Return the result of a coroutine that may suspend, run on an event loop of its own."""
    if loop_is_running():
        coroutine.close()
        raise suspension_error(name)
    token = BLOCKING.set(False)
    try:
        return run(coroutine)
    finally:
        BLOCKING.reset(token)


def without_suspension(fn: Any, name: str) -> Callable[..., Any]:
    """Return the user's function, made to run outside of the blocking call and to wait for what it returns."""

    @functools.wraps(fn)
    def plain(*args: Any, **kwargs: Any) -> Any:
        # Tasks that the function starts copy this context, and they may suspend.
        token = BLOCKING.set(False)
        try:
            result = fn(*args, **kwargs)
        finally:
            BLOCKING.reset(token)
        if not inspect.isawaitable(result):
            return result
        return on_a_loop(result if inspect.iscoroutine(result) else _await_it(result), name)

    return plain


def driver_of(fn: Any, name: str) -> tuple[Callable[[Coroutine[Any, Any, Any], str], Any], Any]:
    """Return how the coroutines of a transform of this function are driven, and the function to transform."""
    if is_kind(inspect.iscoroutinefunction, fn):
        return on_a_loop, fn
    return step, without_suspension(fn, name)


async def _await_it(awaitable: Any) -> Any:
    return await awaitable


def suspension_error(name: str) -> BlockingError:
    """Return the error that names the line to await instead."""
    return BlockingError(
        f"asyncgrad.sync.{name}(...) would have to suspend, and an event loop is running in this thread, which that "
        f"would stall. Await it instead: await ag.{name}(...)"
    )
