"""Work in another thread: Jobs, which a device with workers is sent, and those whose sender awaits their end.

The sender never goes on before what runs in the other thread has ended, not even when it is cancelled: no array is
touched any more after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import enum
import inspect
import threading
import weakref
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, final

from ..context import BLOCKING, CURRENT_GRAPH_TASK, DEFAULT_DEVICE
from ..errors import DeviceError
from .eager_task import EagerTask
from .loops import running_loop
from .notes import add_note

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from contextvars import Context


__all__ = ["FunctionJob", "CoroutineJob", "Job", "Mailbox", "call_on", "join", "send", "submit", "worker_died"]


class Job:
    """Abstract: a piece of work that is sent to a device, which calls `run()` once, in a thread of its own.

    Args:
        priority: of what waits, the lowest runs first; equals in the order of their coming.
    """

    __slots__ = ("priority",)

    def __init__(self, priority: tuple[int, int]) -> None:
        self.priority = priority

    def run(self) -> asyncio.Future[Any] | None:
        """Do the work, or its first step: what suspends goes on as a task of the loop that runs in this thread.

        How the work ends is told to who sent it. Does nothing if the work has been withdrawn.

        Returns:
            That task; None where nothing is left to do.

        Raises:
            SystemExit, KeyboardInterrupt: the work raised it. Its sender has been told, and the thread is to end.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement run()")

    def refuse(self, error: BaseException) -> None:
        """Let the work end with `error` without having run, as when the device is closed. Never raises."""
        raise NotImplementedError(f"{type(self).__name__} must implement refuse(error)")

    def abandon(self, error: BaseException) -> None:
        """Let work that has suspended end with `error` where it stands, since the thread that ran it is gone."""
        raise NotImplementedError(f"{type(self).__name__} must implement abandon(error)")


def worker_died(device: object, cause: BaseException | None) -> DeviceError:
    """Return the error of work whose worker's thread has died of `cause`; None where its event loop was stopped."""
    what = "its event loop was stopped" if cause is None else repr(cause)
    error = DeviceError(
        f"the worker of {str(device)!r} died ({what}), and with it all that it ran and that waited for it: later work "
        "gets a new one"
    )
    error.__cause__ = cause
    return error


@final
class Mailbox:
    """Tells a loop of the ends of Jobs: those that end at about the same time wake it once.

    Args:
        loop: where the senders wait.
    """

    __slots__ = ("_ended", "_is_due", "is_abandoned", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        #: Whether the loop is gone. Nothing that is to be told here begins any more.
        self.is_abandoned = False
        self._ended: deque[_Sent] = deque()
        self._is_due = False

    def put(self, job: _Sent) -> None:
        """Note in any thread that a job has ended."""
        self._ended.append(job)
        if self._is_due:
            return
        self._is_due = True
        # Where the loop has been closed nobody waits any more.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # First of all: what is put from now on asks for another turn.
        self._is_due = False
        while self._ended:
            self._ended.popleft().resolve()


class _JobState(enum.Enum):
    """How far a job has come."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    ENDED = enum.auto()


class _Sent(Job):
    """Abstract: a job with a sender that waits for its end."""

    __slots__ = ("_blocked", "_lock", "_mailbox", "_state", "context", "error", "result", "thread", "waiter")

    def __init__(self, priority: tuple[int, int], context: Context, mailbox: Mailbox | None) -> None:
        super().__init__(priority)
        self.context = context
        self.result: Any = None
        self.error: BaseException | None = None
        self._mailbox = mailbox
        self._lock = threading.Lock()
        self._state = _JobState.WAITING
        #: The thread that runs it, once it has begun.
        self.thread: int | None = None
        #: What the sender awaits, on its loop. Weak: a sender whose loop is closed and forgotten is forgotten too, and
        #: withdraws this.
        self.waiter: weakref.ref[asyncio.Future[None]] | None = None
        #: What a sender waits for that blocks its thread.
        self._blocked: threading.Lock | None = None

    def has_ended(self) -> bool:
        """Tell whether nothing of it will run any more."""
        return self._state is _JobState.ENDED

    def is_waiting(self) -> bool:
        """Tell whether nothing of it has run yet."""
        return self._state is _JobState.WAITING

    def _begin(self) -> bool:
        """Tell whether it is to run now: False where it has been withdrawn."""
        with self._lock:
            if self._state is not _JobState.WAITING:
                return False
            if self._mailbox is not None and self._mailbox.is_abandoned:
                self._state = _JobState.ENDED
                return False
            self._state = _JobState.RUNNING
            self.thread = threading.get_ident()
            return True

    def withdraw(self) -> bool:
        """Let it never run, if it has not begun; tell whether that is so. The sender need not wait then."""
        with self._lock:
            if self._state is _JobState.RUNNING:
                return False
            self._state = _JobState.ENDED
            return True

    def _end(self) -> None:
        with self._lock:
            self._state = _JobState.ENDED
            blocked = self._blocked
        if blocked is not None:
            blocked.release()
        if self._mailbox is not None:
            self._mailbox.put(self)

    def refuse(self, error: BaseException) -> None:
        """End with `error` without having run."""
        if self._begin():
            self.error = error
            self._end()

    def lose_sender(self) -> None:
        """Let it end soon, since the sender's loop is gone; what else that loop waits for never begins."""
        # The garbage collector closes the senders of one loop in any order.
        if self._mailbox is not None:
            self._mailbox.is_abandoned = True
        self.cancel()

    def cancel(self, message: Any = None) -> None:
        """Let it end soon, in any thread: withdraw it, or cancel it as far as that is possible."""
        self.withdraw()

    def resolve(self) -> None:
        """Wake the sender, on its loop."""
        waiter = None if self.waiter is None else self.waiter()
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def block_until_ended(self) -> None:
        """Wait for the end in a thread that has nothing else to do. Interrupted, it may be called again."""
        blocked = threading.Lock()
        blocked.acquire()
        with self._lock:
            if self._state is _JobState.ENDED:
                return
            self._blocked = blocked
        blocked.acquire()


@final
class FunctionJob(_Sent):
    """A plain function without arguments, run to its end by a worker, in `context`."""

    __slots__ = ("function", "seconds")

    def __init__(
        self, function: Callable[[], Any], priority: tuple[int, int], context: Context, mailbox: Mailbox | None
    ) -> None:
        super().__init__(priority, context, mailbox)
        self.function = function
        #: How long it ran.
        self.seconds = 0.0

    def run(self) -> None:
        """Call the function."""
        if not self._begin():
            return
        began = perf_counter()
        try:
            self.result = self.context.run(self.function)
        except BaseException as error:
            self.error = error
        self.seconds = perf_counter() - began
        self._end()


class JobTarget(Protocol):
    """A device, as far as jobs are concerned; see Device."""

    @property
    def has_worker(self) -> bool:
        """Whether jobs run in threads of the device's own."""

    @property
    def name(self) -> str:
        """As it is asked for."""

    def is_here(self) -> bool:
        """Tell whether this thread is one of the device's own."""

    def submit(self, job: Any) -> None:
        """Have `job.run()` called once in a thread of the device."""


@final
class CoroutineJob(_Sent):
    """A coroutine, run by a worker that has an event loop, in `context`.

    Args:
        coroutine: what to run.
        name: for debuggers.
        device: whose worker runs it; None where the sender's own loop does.
    """

    __slots__ = ("_cancel_message", "_is_cancelled", "_loop", "_task", "coroutine", "device", "name")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        name: str,
        priority: tuple[int, int],
        context: Context,
        mailbox: Mailbox | None,
        device: JobTarget | None = None,
    ) -> None:
        super().__init__(priority, context, mailbox)
        self.coroutine = coroutine
        self.name = name
        self.device = device
        self._task: EagerTask | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_cancelled = False
        self._cancel_message: Any = None

    def run(self) -> asyncio.Future[Any] | None:
        """Run the first step, on the loop of this thread."""
        if not self._begin():
            self.coroutine.close()
            return None
        self._loop = asyncio.get_running_loop()
        task = EagerTask(self.coroutine, loop=self._loop, context=self.context, name=self.name, on_end=self._on_end)
        with self._lock:
            self._task = task
        if self._is_cancelled:
            task.cancel(self._cancel_message)
        try:
            return None if task.start() else task
        finally:
            # As in EagerTask.start().
            del task

    def _on_end(self, task: EagerTask) -> None:
        if task.cancelled():
            self.error = task.cancelled_by or asyncio.CancelledError()
        else:
            self.error = task.exception()
            if self.error is None:
                self.result = task.result()
            elif self.device is not None and isinstance(self.error, (SystemExit, KeyboardInterrupt)):
                # It ends the thread that it was raised in, as it would anywhere, and not the sender's.
                self.error = worker_died(self.device, self.error)
        self._task = None
        self._end()

    def withdraw(self) -> bool:
        """Let it never run, if it has not begun; tell whether that is so."""
        withdrawn = super().withdraw()
        if withdrawn:
            self.coroutine.close()
        return withdrawn

    def refuse(self, error: BaseException) -> None:
        """End with `error` without having run."""
        is_waiting = self.is_waiting()
        super().refuse(error)
        if is_waiting:
            self.coroutine.close()

    def cancel(self, message: Any = None) -> None:
        """Withdraw it, or throw CancelledError into it where it is suspended next."""
        if self.withdraw():
            return
        self._cancel_message = message
        self._is_cancelled = True
        with self._lock:
            task = self._task
        if task is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(task.cancel, message)

    def abandon(self, error: BaseException) -> None:
        """End with `error` in mid-run, since the thread that ran it is gone."""
        with self._lock:
            task, self._task = self._task, None
        if task is None:
            return
        try:
            task.close()
        except BaseException as refused:
            add_note(error, f"and its body did not want to be closed: {refused!r}")
        self.error = error
        self._end()


async def join(job: Any) -> Any:
    """Return the result of a job that has been submitted, once it has ended; raise what it raised.

    Suspends. Cancelled, it cancels the job, and goes on only once that has ended.
    """
    loop = running_loop()
    cancelled: asyncio.CancelledError | None = None
    error: BaseException | None = None
    try:
        while not job.has_ended():
            waiter = loop.create_future()
            job.waiter = weakref.ref(waiter)
            # It may have ended just before, and then nobody resolves this one.
            if job.has_ended():
                break
            try:
                await waiter
            except asyncio.CancelledError as interrupt:
                cancelled = interrupt
                job.cancel(*interrupt.args[:1])
        error, job.error = job.error, None
        if cancelled is not None and (error is None or isinstance(error, asyncio.CancelledError)):
            raise cancelled
        if error is not None:
            raise error
        # A leaf takes over a gradient that nobody else holds.
        result, job.result = job.result, None
        return result
    except GeneratorExit:
        # The loop is gone. What suspends can be told to end; what computes is waited for.
        job.lose_sender()
        if isinstance(job, FunctionJob):
            job.block_until_ended()
        raise
    finally:
        # The traceback of an error leads back here: leave no cycle.
        job.waiter = None
        del job, cancelled, error


async def call_on(device: JobTarget, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function, plain or async, in a copy of this context, on the device's worker where it has one."""
    context = contextvars.copy_context()
    context.run(_enter, device)
    around = CURRENT_GRAPH_TASK.get()
    job = CoroutineJob(
        _called(function, args, kwargs),
        getattr(function, "__qualname__", repr(function)),
        (0 if around is None else -1 - around.reentrant_depth, 0),
        context,
        Mailbox(running_loop()),
        device,
    )
    send(job, device)
    return await join(job)


def submit(job: CoroutineJob, device: JobTarget) -> None:
    """Have the worker of a device run a job; where the device raises, the job ends with that."""
    try:
        device.submit(job)
    except Exception as error:
        job.refuse(error)


def send(job: CoroutineJob, device: JobTarget) -> None:
    """Have a job run where the device runs its work: by its worker, or here and now."""
    if device.has_worker and not device.is_here():
        submit(job, device)
    else:
        job.device = None
        job.run()


def _enter(device: JobTarget) -> None:
    BLOCKING.set(False)
    DEFAULT_DEVICE.set(device)


async def _called(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    result = function(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result
