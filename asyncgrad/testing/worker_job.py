"""WorkerJob: a function that was given to a worker thread, and is run inside the loop instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, final

__all__ = ["WorkerJob"]


@final
class WorkerJob:
    """A function, its arguments, and the future of its result."""

    __slots__ = ("_error", "_result", "args", "func", "future", "last_call")

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], future: asyncio.Future[Any]) -> None:
        self.func: Callable[..., Any] = func
        self.args: tuple[Any, ...] = args
        self.future: asyncio.Future[Any] = future
        #: When its last call_soon_threadsafe arrives; its result must not arrive earlier.
        self.last_call = (0, 0.0)
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the function, and store its result or error."""
        try:
            self._result = self.func(*self.args)
        except KeyboardInterrupt:
            # Ctrl-C is meant for the main thread, and unlike a real worker this runs there.
            raise
        except BaseException as error:
            self._error = error

    def deliver(self) -> None:
        """Resolve the future, unless it has been cancelled."""
        error, self._error = self._error, None
        if self.future.done():
            return
        if error is None:
            self.future.set_result(self._result)
        else:
            self.future.set_exception(error)
