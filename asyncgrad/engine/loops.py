"""Event loops: how a coroutine is run to its end on one, here, on another stack or in a thread; how one breathes."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
import weakref
from collections.abc import Awaitable, Coroutine
from contextvars import Context
from importlib.util import find_spec
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar, final

from ..arguments import truth
from ..context import BLOCKING, LOOP_BELOW, LoopBelow
from ..errors import ArgumentTypeError, BlockingError, GraphError
from ..scheduling import CLOCK, LOOP_BUDGET
from .shell import is_interactive, run_in_a_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = [
    "BACKGROUND_TASKS",
    "LoopThread",
    "NESTED_ON_ONE_STACK",
    "Pace",
    "yield_to_loop",
    "finish_background",
    "loop_is_running",
    "loop_thread",
    "on_a_new_stack",
    "run",
    "run_apart",
    "running_loop",
]

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

    Where an interactive shell runs an event loop already, as a notebook and `python -m asyncio` do, the coroutine runs
    on a loop in another thread, and the shell waits for its end. (There `await main()` does without.)

    Args:
        main: the coroutine.
        debug: asyncio's debug mode; None leaves asyncio's own default.

    Raises:
        BlockingError: an event loop is already running in this thread, and no user types what runs.
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
    is_beside = loop_is_running()
    if is_beside and not is_interactive():
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
    if is_beside:
        return run_in_a_thread(main, debug, factory)
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


#: The background tasks that have not ended, among others.
BACKGROUND_TASKS: weakref.WeakSet[asyncio.Future[object]] = weakref.WeakSet()


async def finish_background() -> None:
    """Wait until nothing runs in the background of this loop any more; whether it fails is asked elsewhere."""
    loop = asyncio.get_running_loop()
    for task in asyncio.all_tasks():
        if task in BACKGROUND_TASKS and not task.done():
            ended: asyncio.Future[None] = loop.create_future()
            task.add_done_callback(functools.partial(_note, ended))
            await ended


def _note(ended: asyncio.Future[None], task: asyncio.Future[object]) -> None:
    if not ended.done():
        ended.set_result(None)


#: A call inside of a call of its own kind runs on the same stack, until so many are nested: the next one begins a new
#: stack.
NESTED_ON_ONE_STACK = 16


def on_a_new_stack(work: Callable[[], T]) -> T:
    """Return what `work()` does, called in a copy of this context on a thread of its own, which this one waits for.

    Python's stack is bounded, and nesting is to be bounded by memory alone. PyTorch changes threads too.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    begun, running = threading.Lock(), threading.Lock()
    running.acquire()

    def work_in_thread() -> None:
        if not begun.acquire(blocking=False):
            # The caller was interrupted before this, and has gone.
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
        # Where it was interrupted.
        if not (results or errors) and not begun.acquire(blocking=False):
            _wait_for_the_end(running, results, errors)
    if errors:
        raise errors.pop()
    return results.pop()


def _wait_for_the_end(running: threading.Lock, *outcomes: list[Any]) -> None:
    """Wait for the end of what a thread does, however often that is interrupted; raise the interruption then.

    Neither by Thread.join() nor by an Event, which interruptions put into disorder.
    """
    try:
        running.acquire()
    finally:
        if not any(outcomes):
            _wait_for_the_end(running, *outcomes)


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


async def yield_to_loop() -> None:
    """Let the loop run everything else that is ready; nothing where the loop is none of asyncio's.

    Three turns, since a timer takes one to fire, one to set its future and one to wake its task
    (measured: with one turn the median lateness of a 1 ms ticker is five times as high).
    """
    if asyncio._get_running_loop() is None:
        return
    for _ in range(3):
        await asyncio.sleep(0)


@final
class Pace:
    """Lets the event loop breathe between pieces of work that are short, many, and do not suspend themselves."""

    __slots__ = ("_clock", "_deadline")

    def __init__(self) -> None:
        self._clock = CLOCK.get()
        self._deadline = self._clock() + LOOP_BUDGET.get()

    async def keep(self) -> None:
        """Suspend if the time budget is spent; never in a blocking call."""
        if self._clock() < self._deadline or BLOCKING.get():
            return
        await yield_to_loop()
        self._deadline = self._clock() + LOOP_BUDGET.get()
