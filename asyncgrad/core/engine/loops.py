"""Event loops: running a coroutine to its end, on this stack, another one or in a thread; waking it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Coroutine
from contextvars import Context
from importlib.util import find_spec
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar, final

from ...errors import ArgumentTypeError, BlockingError, GraphError
from ..settings.arguments import takes, truth
from ..settings.called_with import note_what_to_write
from ..settings.context import BLOCKING, LOOP_BELOW, LoopBelow
from .shell import is_interactive, run_in_a_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = [
    "BACKGROUND_TASKS",
    "LoopThread",
    "MAX_NESTED_ON_STACK",
    "OneShotEvent",
    "loop_is_running",
    "loop_thread",
    "run_on_new_stack",
    "run",
    "run_on_own_loop",
    "running_loop",
    "wait_through_cancellation",
]

T = TypeVar("T")


def loop_is_running() -> bool:
    """Tell whether an event loop runs in this thread, or in the thread that blocks until this one has finished."""
    return loop_thread() is not None


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the asyncio event loop that runs in this thread, for a caller that has to wait.

    Raises:
        GraphError: no asyncio loop runs here; another library's loop, such as trio's, may.
    """
    loop = asyncio._get_running_loop()
    if loop is None:
        raise GraphError(
            "asyncgrad waits on an asyncio event loop, and none is running in this thread: await this under "
            "ag.run(main()) or asyncio.run(main()). Under another library's loop, such as trio's, run the blocking "
            "form in a thread: await trio.to_thread.run_sync(ag.sync.backward, loss)"
        )
    return loop


def loop_thread() -> int | None:
    """Return the thread of the event loop that cannot run while this thread blocks; None where there is none."""
    if asyncio._get_running_loop() is not None:
        return get_ident()
    below = LOOP_BELOW.get()
    # The context may have been copied to a thread that no event loop waits for.
    return None if below is None or below.stack != get_ident() else below.loop


def run(main: Coroutine[object, None, T], *, debug: bool | None = None) -> T:
    """Run a coroutine on uvloop where it is installed, else on asyncio; return its result.

    In an interactive shell whose event loop is already running, such as a notebook or `python -m asyncio`, the
    coroutine runs on a loop in another thread, and the shell waits for its end. `await main()` needs no thread there.

    Args:
        main: the coroutine.
        debug: asyncio's debug mode; None leaves asyncio's own default.

    Raises:
        BlockingError: an event loop is already running in this thread, and this is no interactive shell.
        TypeError: `main` is not a coroutine.

    Example:
        >>> import asyncgrad as ag
        >>> async def main():
        ...     return 42
        >>> ag.run(main())
        42
    """
    if not isinstance(main, Coroutine):
        hint = "call it, as in ag.run(main())" if callable(main) else ""
        if hasattr(main, "dtype"):
            hint = "it has been computed, without a loop; to run a backward, write ag.run(t.backward())"
        raise TypeError(takes("ag.run", "a coroutine", main, hint))
    is_beside = loop_is_running()
    if is_beside and not is_interactive():
        main.close()
        name = getattr(main, "__name__", "main")
        raise BlockingError(
            f"ag.run({name}(...)) cannot start an event loop: one is already running in this thread. "
            f"Await the coroutine instead: await {name}(...)"
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
    try:
        if is_beside:
            return run_in_a_thread(main, debug, factory)
        with asyncio.Runner(debug=debug, loop_factory=factory) as runner:
            return runner.run(main)
    except (TypeError, AttributeError) as error:
        note_what_to_write(error)
        raise


def run_on_own_loop(awaitable: Awaitable[T]) -> T:
    """Run an awaitable that a blocking backward has to wait for on a new event loop; return its result.

    Raises:
        BlockingError: an event loop is already running in this thread.
    """
    results: list[T] = []
    errors: list[Exception] = []

    async def on_the_loop() -> None:
        BLOCKING.set(False)
        try:
            results.append(await awaitable)
            # A loop that ends cancels its tasks, and pack hooks of the tensors just recorded may still be running.
            await _finish_background()
        except Exception as error:
            # Raised here, it would be kept by the loop's task, which its traceback refers to: a cycle.
            errors.append(error)

    run(on_the_loop())
    if errors:
        raise errors.pop()
    return results.pop()


#: Tasks of background work; those that have ended stay until they are collected.
BACKGROUND_TASKS: weakref.WeakSet[asyncio.Future[object]] = weakref.WeakSet()


async def _finish_background() -> None:
    """Wait until all background work of this loop has ended; its errors are reported elsewhere."""
    loop = asyncio.get_running_loop()
    for task in asyncio.all_tasks():
        if task in BACKGROUND_TASKS and not task.done():
            ended = OneShotEvent(loop)
            task.add_done_callback(functools.partial(_set, ended))
            await ended


def _set(event: OneShotEvent, _: asyncio.Future[object]) -> None:
    event.set()


@final
class OneShotEvent:
    """An event that one coroutine awaits and that is set once, on the coroutine's loop or from any thread.

    Args:
        loop: the loop on which the event is awaited.
    """

    __slots__ = ("__weakref__", "_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] = loop.create_future()

    def set(self) -> bool:
        """Wake the coroutine; called on its loop. Return False where it was set before or the wait was cancelled."""
        if self._future.done():
            return False
        self._future.set_result(None)
        return True

    def set_threadsafe(self) -> bool:
        """Wake the coroutine; called in any thread. Return False where its loop is closed, so that it never wakes."""
        try:
            self._loop.call_soon_threadsafe(self.set)
        except RuntimeError:
            return False
        return True

    def is_done(self) -> bool:
        """Tell whether the event has been set, or the wait for it cancelled."""
        return self._future.done()

    def __await__(self) -> Generator[Any, None, None]:
        return self._future.__await__()


async def wait_through_cancellation(
    is_over: Callable[[], bool], wait: Callable[[], Awaitable[Any]]
) -> asyncio.CancelledError | None:
    """Await `wait()` until `is_over()`, however often the caller is cancelled; return the last cancellation."""
    interrupted: asyncio.CancelledError | None = None
    try:
        while not is_over():
            try:
                await wait()
            except asyncio.CancelledError as again:
                interrupted = again
        return interrupted
    finally:
        # As in EagerTask.start().
        del interrupted


#: How many backward passes, or checkpointed calls, may nest on one stack; the next one begins a new stack.
MAX_NESTED_ON_STACK = 16


def run_on_new_stack(work: Callable[[], T]) -> T:
    """Call `work()` in a copy of this context on a new thread, and return its result; this thread waits.

    Python's stack is bounded, and nesting is to be bounded by memory alone. PyTorch switches threads as well.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    begun, running = threading.Lock(), threading.Lock()
    running.acquire()

    def work_in_thread() -> None:
        if not begun.acquire(blocking=False):
            # The caller was interrupted before this thread began, and no longer waits.
            return
        LOOP_BELOW.set(None if loop is None else LoopBelow(threading.get_ident(), loop))
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            running.release()

    loop = loop_thread()
    try:
        threading.Thread(target=contextvars.copy_context().run, args=(work_in_thread,)).start()
        running.acquire()
    finally:
        # If this wait was interrupted.
        if not (results or errors) and not begun.acquire(blocking=False):
            _wait_for_the_end(running, results, errors)
    if errors:
        raise errors.pop()
    return results.pop()


def _wait_for_the_end(running: threading.Lock, *outcomes: list[Any]) -> None:
    """Wait until a thread has finished, however often the wait is interrupted; raise the interruption then.

    A lock, since Thread.join() and threading.Event may be left inconsistent by an interruption.
    """
    try:
        running.acquire()
    finally:
        if not any(outcomes):
            _wait_for_the_end(running, *outcomes)


@final
class LoopThread:
    """A daemon thread with an event loop. It starts with the first coroutine submitted.

    After `stop()` it ends once every coroutine has ended. A coroutine submitted later starts it once more: the garbage
    collector may drop the owner, which stops it, before the objects that submit the last work.

    Args:
        name: the name of the thread.
    """

    __slots__ = ("_changed", "_is_stopped", "_lock", "_loop", "_name", "_submitted", "_tasks", "_thread")

    def __init__(self, name: str) -> None:
        self._name = name
        #: Reentrant: the garbage collector may call `submit` at any line.
        self._lock = threading.RLock()
        #: None while no loop runs. The loop is not closed as long as it stands here.
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Set on the loop after each change that may begin a task or end the thread.
        self._changed: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        #: The coroutines that have not begun.
        self._submitted: deque[Coroutine[object, None, None]] = deque()
        #: Strong references: asyncio itself holds tasks weakly.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_stopped = False

    def submit(self, coroutine: Coroutine[object, None, None]) -> bool:
        """Run a coroutine on the loop, in an empty context; from any thread. Return False where no loop can be started.

        An exception, also a SystemExit, goes to the loop's exception handler, which by default logs it.
        """
        try:
            with self._lock:
                if self._thread is None:
                    self._start()
                if self._loop is None:
                    raise RuntimeError("the thread ended before its event loop started")
                self._submitted.append(coroutine)
                self._note_change()
        except RuntimeError:
            # No thread or no loop can be started.
            coroutine.close()
            return False
        return True

    def is_alive(self) -> bool:
        """Tell whether the loop runs."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def stop(self) -> None:
        """Have the thread end once all coroutines have ended, without waiting for that; from any thread."""
        with self._lock:
            self._is_stopped = True
            self._note_change()

    def _note_change(self) -> None:
        """Wake the loop. The caller holds the lock."""
        if self._loop is not None and self._changed is not None:
            self._loop.call_soon_threadsafe(self._changed.set)

    def _start(self) -> None:
        serving = threading.Event()
        arguments = (self._run, serving)
        thread = threading.Thread(target=Context().run, args=arguments, name=self._name, daemon=True)
        thread.start()
        self._thread = thread
        serving.wait()

    def _run(self, serving: threading.Event) -> None:
        try:
            run(self._serve(serving))
        finally:
            # Also where no loop could be made, so that the thread that waits for it goes on.
            serving.set()
            self._leave()

    def _leave(self) -> None:
        """Forget a loop that a coroutine has stopped, which is closed now; what waits for it begins on another one."""
        with self._lock:
            if self._thread is threading.current_thread():
                self._loop = self._changed = self._thread = None
                if self._submitted:
                    self._start()

    async def _serve(self, serving: threading.Event) -> None:
        changed = asyncio.Event()
        self._loop, self._changed = asyncio.get_running_loop(), changed
        serving.set()
        while not self._has_ended():
            while self._submitted:
                task = asyncio.get_running_loop().create_task(_contained(self._submitted.popleft()))
                self._tasks.add(task)
                task.add_done_callback(self._end)
            await changed.wait()
            changed.clear()

    def _has_ended(self) -> bool:
        """Tell whether the loop may end; the next coroutine then starts another thread."""
        with self._lock:
            if not self._is_stopped or self._submitted or self._tasks:
                return False
            self._loop = self._changed = self._thread = None
            return True

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        with self._lock:
            self._note_change()
        if not task.cancelled() and (error := task.exception() or task.result()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a task of {self._name} failed", "exception": error, "task": task}
            )


async def _contained(coroutine: Coroutine[object, None, None]) -> BaseException | None:
    """Await a coroutine; return a SystemExit or KeyboardInterrupt that it raises, which would end the whole loop."""
    try:
        await coroutine
    except (SystemExit, KeyboardInterrupt) as stop:
        return stop
    return None
