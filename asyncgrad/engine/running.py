"""Running a coroutine to its end on a new event loop: uvloop's where it is installed, else asyncio's."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["run"]

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """Run a coroutine on uvloop where it is installed, else on asyncio; return its result.

    Args:
        main: the coroutine.
        debug: asyncio's debug mode; None leaves asyncio's own default.

    Raises:
        RuntimeError: an event loop is already running in this thread.

    Example:
        >>> import asyncgrad as ag
        >>> async def main():
        ...     return 42
        >>> ag.run(main())
        42
    """
    factory = None
    if find_spec("uvloop") is not None:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(debug=debug, loop_factory=factory) as runner:
        return runner.run(main)
