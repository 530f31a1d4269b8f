"""LoopThread: an event loop in a thread of its own, for work that goes on while the caller's thread stands still."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from contextvars import Context
from typing import TYPE_CHECKING, Any, final

from .running import run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["LoopThread"]


@final
class LoopThread:
    """A daemon thread that runs an event loop, from the first coroutine that it is given until `stop()`.

    Args:
        name: of the thread.
    """

    __slots__ = ("_lock", "_loop", "_name", "_stopping", "_tasks", "_thread")

    def __init__(self, name: str) -> None:
        self._name = name
        #: One thread may take it twice: the garbage collector may submit at any line.
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        #: Strong references: asyncio itself holds tasks weakly.
        self._tasks: set[asyncio.Task[Any]] = set()

    def submit(self, coroutine: Coroutine[Any, Any, None]) -> bool:
        """Run a coroutine on the loop, in an empty context; from any thread. False where there is no loop (any more).

        What it raises goes to the loop's exception handler, which by default logs it.
        """
        try:
            with self._lock:
                if self._thread is None:
                    self._start()
            if self._loop is None:
                raise RuntimeError("the thread has ended before its loop has begun")
            self._loop.call_soon_threadsafe(self._begin, coroutine, context=Context())
        except RuntimeError:
            # No further thread can be started, or the loop has been closed.
            coroutine.close()
            return False
        return True

    def is_alive(self) -> bool:
        """Tell whether the loop runs."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Have what runs on the loop cancelled, and the thread end; from any thread. Does not wait for that."""
        if self._loop is None or self._stopping is None:
            return
        # Where it has been closed before, nothing runs.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stopping.set)

    def _start(self) -> None:
        serving = threading.Event()

        async def serve() -> None:
            self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
            serving.set()
            await self._stopping.wait()

        arguments = (_serve, serve, serving)
        thread = threading.Thread(target=Context().run, args=arguments, name=self._name, daemon=True)
        thread.start()
        self._thread = thread
        serving.wait()

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"what {self._name} ran has failed", "exception": error, "task": task}
            )


def _serve(serve: Callable[[], Coroutine[Any, Any, None]], serving: threading.Event) -> None:
    try:
        run(serve())
    finally:
        # Where no loop could be made, who waits for it goes on without.
        serving.set()
