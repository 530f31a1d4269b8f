"""Running a coroutine that must not suspend, since nothing would go on with it: it is stepped once, where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from .context import BLOCKING, switch_back

__all__ = ["run_without_suspending"]

T = TypeVar("T")


def run_without_suspending(coroutine: Coroutine[object, None, T], error: Callable[..., Exception], *args: Any) -> T:
    """Return the result of a coroutine, run with BLOCKING set, so that what it awaits of asyncgrad does not suspend.

    Args:
        coroutine: what is run; it is closed if it suspends.
        error: returns what is raised if it suspends.
        args: what `error` is called with.

    Raises:
        Exception: the coroutine suspended.
    """
    before, was_blocking = copy_context(), BLOCKING.get()
    try:
        try:
            # Inside the try, since an interrupt may come as soon as it is set.
            BLOCKING.set(True)
            awaited = coroutine.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            BLOCKING.set(was_blocking)
    except BaseException:
        switch_back(before)
        raise
    if asyncio.isfuture(awaited):
        # It may gather tasks that the user's code has started. Nobody else retrieves its exception.
        # test_what_a_coroutine_waited_for_is_cancelled
        awaited.add_done_callback(_retrieve_exception)
        awaited.cancel()
    coroutine.close()
    raise error(*args)


def _retrieve_exception(ended: Any) -> Any:
    return ended.cancelled() or ended.exception()
