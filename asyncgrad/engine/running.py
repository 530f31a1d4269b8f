"""Running a coroutine to its end on a new event loop: uvloop's where it is installed, else asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from importlib.util import find_spec
from threading import get_ident
from typing import Any, TypeVar

from ..arguments import truth
from ..context import BLOCKING, LOOP_BELOW
from ..errors import ArgumentTypeError, BlockingError, GraphError
from .leftovers import finish_background

__all__ = ["loop_is_running", "loop_thread", "run", "run_apart", "running_loop"]

T = TypeVar("T")


def loop_is_running() -> bool:
    """Tell whether an event loop runs in this thread, or in the one that waits for this one to go on for it."""
    return loop_thread() is not None


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs in this thread, for somebody who has to wait.

    Raises:
        GraphError: there is none, since the loop is that of another library, say.
    """
    loop = asyncio._get_running_loop()
    if loop is None:
        raise GraphError(
            "this has to wait, and asyncgrad waits on an asyncio event loop, of which none is running: await it under "
            "ag.run(main()) or asyncio.run(main()). Under another library's loop, such as trio's, have a thread run "
            "the blocking form: await trio.to_thread.run_sync(ag.sync.backward, loss)"
        )
    return loop


def loop_thread() -> int | None:
    """Return the thread of the event loop that stands still while this thread blocks; None where none does."""
    if asyncio._get_running_loop() is not None:
        return get_ident()
    below = LOOP_BELOW.get()
    # A context may be copied to a thread that nobody waits for.
    return None if below is None or below.stack != get_ident() else below.loop


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """Run a coroutine on uvloop where it is installed, else on asyncio; return its result.

    Args:
        main: the coroutine.
        debug: asyncio's debug mode; None leaves asyncio's own default.

    Raises:
        BlockingError: an event loop is already running in this thread.
        TypeError: `main` is no coroutine.

    Example:
        >>> import asyncgrad as ag
        >>> async def main():
        ...     return 42
        >>> ag.run(main())
        42
    """
    if not isinstance(main, Coroutine):
        hint = ": call it, as in ag.run(main())" if callable(main) else ""
        raise TypeError(f"ag.run runs a coroutine, and this is {main!r}{hint}")
    if loop_is_running():
        main.close()
        name = getattr(main, "__name__", "main")
        raise BlockingError(
            f"ag.run({name}(...)) would start an event loop, and one is running in this thread already. "
            f"Await it instead: await {name}(...)"
        )
    if debug is not None:
        try:
            debug = truth(debug, "debug")
        except ArgumentTypeError:
            main.close()
            raise
    factory = None
    if find_spec("uvloop") is not None:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(debug=debug, loop_factory=factory) as runner:
        return runner.run(main)


def run_apart(awaitable: Awaitable[T]) -> T:
    """Return the result of what a blocking backward has to wait for, from an event loop of its own.

    Raises:
        BlockingError: an event loop is already running in this thread.
    """
    results: list[T] = []
    errors: list[Exception] = []

    async def on_the_loop() -> None:
        BLOCKING.set(False)
        try:
            results.append(await awaitable)
            # A loop that ends cancels what it runs, and packs of what has been recorded may still run.
            await finish_background()
        except Exception as error:
            # The loop's task would keep it, and its traceback would keep the loop's task.
            errors.append(error)

    run(on_the_loop())
    if errors:
        raise errors.pop()
    return results.pop()
