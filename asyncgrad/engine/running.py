"""Running a coroutine to its end on a new event loop: uvloop's where it is installed, else asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

from ..errors import BlockingError

__all__ = ["run"]

T = TypeVar("T")


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
    if asyncio._get_running_loop() is not None:
        main.close()
        name = getattr(main, "__name__", "main")
        raise BlockingError(
            f"ag.run({name}(...)) would start an event loop, and one is running in this thread already. "
            f"Await it instead: await {name}(...)"
        )
    factory = None
    if find_spec("uvloop") is not None:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(debug=debug, loop_factory=factory) as runner:
        return runner.run(main)
