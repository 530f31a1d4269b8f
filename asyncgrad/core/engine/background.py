"""Background work on an event loop: pack hooks that run beside the forward, and unpack hooks that run side by side."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any, final

from ...errors import BlockingError, GraphError
from ..settings.context import BLOCKING
from ..settings.process import hold_in_forks
from .eager_task import EagerTask
from .loops import BACKGROUND_TASKS, OneShotEvent, loop_is_running, run_on_own_loop, running_loop
from .notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from contextvars import Context

__all__ = ["BackgroundWork", "LoopBackground"]

#: Guards the lists of waiters, which several threads may change. Reentrant: the garbage collector may cancel abandoned
#: work at any line.
_MUTEX = hold_in_forks(threading.RLock())


@final
class BackgroundWork:
    """A coroutine that runs on an event loop, and its result.

    Args:
        name: what error messages call it.
        on_end: called with this object when the coroutine has ended.
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
        self._waiting: list[tuple[asyncio.AbstractEventLoop, OneShotEvent]] = []
        self.is_ended: bool = False
        #: Whether its result has been retrieved, or need not be.
        self.is_reported: bool = False

    def start(self, coroutine: Coroutine[object, None, Any], context: Context, loop: asyncio.AbstractEventLoop) -> None:
        """Run the first step now, and the others as tasks of the loop."""
        self._loop = loop
        # Weak: this object keeps the error, and its traceback refers to the callback. That would be a cycle.
        on_end = functools.partial(_end, weakref.ref(self))
        self._task = EagerTask(coroutine, loop=loop, context=context, name=self._name, on_end=on_end)
        BACKGROUND_TASKS.add(self._task)
        _ = self._task.start()

    def run(self, coroutine: Coroutine[object, None, Any], context: Context) -> None:
        """Run the coroutine to its end on a new event loop."""
        self._result = context.run(run_on_own_loop, coroutine)
        self.is_ended = True

    def note_end(self, task: EagerTask) -> None:
        """Store the outcome of the task, and wake everything that waits for it."""
        if task.cancelled():
            self.is_reported = True
            self._error = GraphError(
                f"{self._name} was cancelled before it had ended. An event loop that ends cancels its tasks: write "
                "`async with ag.graph.saved_tensors_hooks(...)`, which waits for the packs of its block"
            )
        else:
            self._error = task.exception()
            if self._error is None:
                self._result = task.result()
        with _MUTEX:
            self.is_ended, self._task = True, None
            waiting, self._waiting = self._waiting, []
        for loop, ended in waiting:
            if loop is self._loop:
                ended.set()
            else:
                ended.set_threadsafe()
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(self)

    async def wait(self) -> None:
        """Wait until the coroutine has ended, on any event loop; raise nothing of what it raised.

        Raises:
            GraphError: the event loop that is to run the coroutine has stopped.
        """
        await _wait_first([self])

    def wake_at_end(self, loop: asyncio.AbstractEventLoop, ended: OneShotEvent) -> bool:
        """Have `ended`, an event of `loop`, set at the end; False if that is past. The caller holds the mutex."""
        if self.is_ended:
            return False
        assert self._loop is not None
        if not self._loop.is_running():
            raise GraphError(
                f"{self._name} has not ended, and the event loop that it runs on has stopped: write "
                "`async with ag.graph.saved_tensors_hooks(...)`, which waits for the packs of its block"
            )
        self._waiting.append((loop, ended))
        return True

    def has_failed(self) -> bool:
        """Tell whether it has ended with an error, or was cancelled."""
        return self._error is not None

    def take(self) -> Any:
        """Return the result of work that has ended, or raise its error; a second call raises a GraphError instead."""
        error = self._error
        if error is None:
            return self._result
        # The error is not kept: its traceback refers to the frames that keep this object.
        text = f"{self._name} failed, and its error has been raised before: {error!r}"
        self._error = GraphError(str(error) if self.is_reported else text)
        self.is_reported = True
        try:
            raise error
        finally:
            # Its traceback refers to this frame: leave no cycle.
            del error

    def cancel(self) -> None:
        """Cancel the coroutine if it has not ended; from any thread."""
        task, loop = self._task, self._loop
        if task is None or loop is None:
            return
        if asyncio._get_running_loop() is loop:
            task.cancel()
        else:
            # RuntimeError: the loop is closed, and the coroutine never goes on.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)

    def __del__(self) -> None:
        # asyncio reports a task whose exception was never retrieved in the same way.
        loop, error = self._loop, self._error
        if loop is not None and error is not None and not self.is_reported:
            message = f"{self._name} failed, and no backward has retrieved its error"
            loop.call_exception_handler({"message": message, "exception": error})


def _end(reference: weakref.ref[BackgroundWork], task: EagerTask) -> None:
    work = reference()
    if work is not None:
        work.note_end(task)


async def _wait_first(works: Sequence[BackgroundWork]) -> None:
    """Wait until one of them has ended."""
    loop = running_loop()
    ended = OneShotEvent(loop)
    with _MUTEX:
        if not all(work.wake_at_end(loop, ended) for work in works):
            return
    await ended


@final
class LoopBackground:
    """Runs coroutines in the background of the running event loop."""

    __slots__ = ()

    def start(
        self,
        coroutine: Coroutine[object, None, Any],
        context: Context,
        name: str,
        on_end: Callable[[BackgroundWork], object],
    ) -> BackgroundWork:
        """Run a coroutine on the running loop, its first step now; without one, to its end on a new event loop.

        Raises:
            BlockingError: the thread that waits for this one runs an event loop, which a blocking call blocks.
        """
        loop = asyncio._get_running_loop()
        if loop is not None:
            work = BackgroundWork(name, on_end)
            work.start(coroutine, context, loop)
            return work
        if loop_is_running():
            coroutine.close()
            raise BlockingError(
                f"{name} would have to suspend in a deeply nested blocking backward, which blocks the event loop that "
                "called it: await ag.backward(...) in place of asyncgrad.sync"
            )
        work = BackgroundWork(name)
        work.run(coroutine, context)
        return work

    async def together(self, coroutines: Sequence[Coroutine[object, None, Any]], names: Sequence[str]) -> list[Any]:
        """Return the results of coroutines that run side by side; the first error cancels the others.

        In a blocking backward they run one after the other, since none may suspend.
        """
        if len(coroutines) == 1 or BLOCKING.get():
            return await _run_sequentially(coroutines)
        loop = running_loop()
        works = []
        for coroutine, name in zip(coroutines, names, strict=True):
            work = BackgroundWork(name)
            work.start(coroutine, contextvars.copy_context(), loop)
            works.append(work)
        try:
            while not any(work.has_failed() for work in works) and (left := [w for w in works if not w.is_ended]):
                await _wait_first(left)
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
        """Wait until all have ended; where there is an `error`, cancel them first, and add what they raise as notes.

        Raises:
            BaseException: without `error`, the first exception of `works`; the later ones are added to it as notes.
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
            # Their tracebacks refer to this frame: leave no cycle.
            del first, error, interrupted


async def _run_sequentially(coroutines: Sequence[Coroutine[object, None, Any]]) -> list[Any]:
    try:
        return [await coroutine for coroutine in coroutines]
    finally:
        # After an error the rest does not run; closing a coroutine that has ended does nothing.
        for coroutine in coroutines:
            coroutine.close()
