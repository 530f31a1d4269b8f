"""Work in the background of an event loop: a pack hook that goes on beside the forward, unpack hooks side by side."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any, final

from ..context import BLOCKING
from ..errors import BlockingError, GraphError
from .eager_task import EagerTask
from .loops import BACKGROUND_TASKS, loop_is_running, run_apart, running_loop
from .notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from contextvars import Context

__all__ = ["BackgroundWork", "LoopBackground"]

#: Guards who waits for works, which several threads may do. One thread may take it twice: the garbage collector may
#: cancel abandoned work at any line.
_MUTEX = threading.RLock()


@final
class BackgroundWork:
    """A coroutine that runs on an event loop, and what it gave.

    Args:
        name: of what runs, for errors.
        on_end: called with this at its end.
    """

    __slots__ = (
        "__weakref__",
        "_error",
        "_loop",
        "_name",
        "_on_end",
        "_result",
        "_task",
        "_waiting",
        "is_ended",
        "is_reported",
    )

    def __init__(self, name: str, on_end: Callable[[BackgroundWork], object] | None = None) -> None:
        self._name = name
        self._on_end = on_end
        self._task: EagerTask | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self.is_ended = False
        #: Whether nobody needs to be told any more how it ended.
        self.is_reported = False

    def start(self, coroutine: Coroutine[Any, Any, Any], context: Context, loop: asyncio.AbstractEventLoop) -> None:
        """Run the first step now, and the others when the loop comes to them."""
        self._loop = loop
        # The traceback of an error leads to what is called at the end, and the error is kept by this: leave no cycle.
        on_end = functools.partial(_end, weakref.ref(self))
        self._task = EagerTask(coroutine, loop=loop, context=context, name=self._name, on_end=on_end)
        BACKGROUND_TASKS.add(self._task)
        _ = self._task.start()

    def run(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> None:
        """Run the coroutine to its end, on an event loop of its own."""
        self._result = context.run(run_apart, coroutine)
        self.is_ended = True

    def note_end(self, task: EagerTask) -> None:
        """Keep how the task ended, and wake who waits for that."""
        if task.cancelled():
            self.is_reported = True
            self._error = GraphError(
                f"{self._name} was cancelled before it had ended. Event loops cancel what runs when they end: let "
                "`async with ag.graph.saved_tensors_hooks(...)` wait for the packs of its block"
            )
        else:
            self._error = task.exception()
            if self._error is None:
                self._result = task.result()
        with _MUTEX:
            self.is_ended, self._task = True, None
            waiting, self._waiting = self._waiting, []
        for loop, waiter in waiting:
            if loop is self._loop:
                _wake(waiter)
            else:
                # Who waited on a loop that has been closed does not wait any more.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(_wake, waiter)
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(self)

    async def wait(self) -> None:
        """Wait for the end, whatever that is; from any event loop.

        Raises:
            GraphError: the event loop on which it runs does not run itself.
        """
        await _first_end([self])

    def wake_at_end(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> bool:
        """Let the end wake who waits on `loop`; False where there has been an end. The caller holds the mutex."""
        if self.is_ended:
            return False
        assert self._loop is not None
        if not self._loop.is_running():
            raise GraphError(
                f"{self._name} has not ended, and the event loop that it runs on has stopped: let "
                "`async with ag.graph.saved_tensors_hooks(...)` wait for the packs of its block"
            )
        self._waiting.append((loop, waiter))
        return True

    def has_failed(self) -> bool:
        """Tell whether it has ended, and not by returning."""
        return self._error is not None

    def take(self) -> Any:
        """Return the result, or raise the error, now that there is an end. The error is raised once, as it is."""
        error = self._error
        if error is None:
            return self._result
        # The error is not kept: its traceback leads to who keeps this.
        text = f"{self._name} failed, and its error has been raised before: {error!r}"
        self._error = GraphError(str(error) if self.is_reported else text)
        self.is_reported = True
        try:
            raise error
        finally:
            # Its traceback leads back here: leave no cycle.
            del error

    def cancel(self) -> None:
        """Let it be cancelled, if it has not ended; from any thread."""
        task, loop = self._task, self._loop
        if task is None or loop is None:
            return
        if asyncio._get_running_loop() is loop:
            task.cancel()
        else:
            # A loop that has been closed runs nothing any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)

    def __del__(self) -> None:
        # As asyncio does for a task whose error nobody asked for.
        loop, error = self._loop, self._error
        if loop is not None and error is not None and not self.is_reported:
            message = f"{self._name} failed, and no backward has asked how it ended"
            loop.call_exception_handler({"message": message, "exception": error})


def _end(reference: weakref.ref[BackgroundWork], task: EagerTask) -> None:
    work = reference()
    if work is not None:
        work.note_end(task)


async def _first_end(works: Sequence[BackgroundWork]) -> None:
    """Wait until one of them has ended."""
    loop = running_loop()
    waiter = loop.create_future()
    with _MUTEX:
        if not all(work.wake_at_end(loop, waiter) for work in works):
            return
    await waiter


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@final
class LoopBackground:
    """What runs coroutines in the background of the loop that runs."""

    __slots__ = ()

    def start(
        self,
        coroutine: Coroutine[Any, Any, Any],
        context: Context,
        name: str,
        on_end: Callable[[BackgroundWork], object],
    ) -> BackgroundWork:
        """Run a coroutine on the running loop, its first step now; where no loop runs, to its end on one of its own.

        Raises:
            BlockingError: the loop that runs stands still, below in a blocking call.
        """
        loop = asyncio._get_running_loop()
        if loop is not None:
            work = BackgroundWork(name, on_end)
            work.start(coroutine, context, loop)
            return work
        if loop_is_running():
            coroutine.close()
            raise BlockingError(
                f"{name} would have to suspend in a blocking backward that is nested deep, and an event loop is "
                "running below it: await ag.backward(...) in place of asyncgrad.sync"
            )
        work = BackgroundWork(name)
        work.run(coroutine, context)
        return work

    async def together(self, coroutines: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        """Return the results of coroutines that run side by side; the first error cancels the others.

        In a blocking backward they run one after the other, since none may suspend.
        """
        if len(coroutines) == 1 or BLOCKING.get():
            return await _one_by_one(coroutines)
        loop = running_loop()
        works = []
        for coroutine, name in zip(coroutines, names, strict=True):
            work = BackgroundWork(name)
            work.start(coroutine, contextvars.copy_context(), loop)
            works.append(work)
        try:
            while not any(work.has_failed() for work in works) and (left := [w for w in works if not w.is_ended]):
                await _first_end(left)
            for work in works:
                if work.has_failed():
                    work.take()
            return [work.take() for work in works]
        except GeneratorExit:
            for work in works:
                work.cancel()
            raise
        except BaseException as error:
            await self.end_all(works, error)
            raise

    async def end_all(self, works: Iterable[BackgroundWork], error: BaseException | None) -> None:
        """Wait for the end of all; where `error` has been raised, cancel them first, and note in it what they raise.

        Raises:
            BaseException: what the first of them raised, where there was no error before; later ones are its notes.
        """
        works = list(works)
        first, interrupted = error, None
        for work in works:
            if error is not None:
                work.cancel()
        for work in works:
            while not work.is_ended:
                try:
                    await work.wait()
                except asyncio.CancelledError as cancelled:
                    interrupted = interrupted or cancelled
                    for other in works:
                        other.cancel()
        for work in works:
            if work.is_reported and first is not None:
                continue
            try:
                work.take()
            except BaseException as raised:
                if first is None:
                    first = raised
                else:
                    add_note(first, f"later error: {raised!r}")
        try:
            if interrupted is not None:
                raise interrupted
            if first is not None and error is None:
                raise first
        finally:
            # Their tracebacks lead back here: leave no cycle.
            del first, error, interrupted


async def _one_by_one(coroutines: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    try:
        return [await coroutine for coroutine in coroutines]
    finally:
        # After an error the rest is not run; closing what has run does nothing.
        for coroutine in coroutines:
            coroutine.close()
