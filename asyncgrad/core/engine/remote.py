"""Work in another thread: Jobs, which a device with workers runs, and Jobs whose sender awaits their end.

A sender never goes on before its Job has ended, not even when it is cancelled. So no array is touched after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import enum
import functools
import threading
import weakref
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, final

from ...errors import DeviceError
from ..arrays.current_devices import coroutine_on_device
from ..settings.awaiting import call
from ..settings.context import BLOCKING, CURRENT_GRAPH_TASK, DEFAULT_DEVICE
from .eager_task import EagerTask
from .loops import OneShotEvent, running_loop, wait_through_cancellation
from .notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context


__all__ = ["FunctionJob", "CoroutineJob", "Job", "Mailbox", "call_on", "join", "send", "submit", "worker_died_error"]


@final
class _Here(threading.local):
    """Whether this thread runs jobs, which others may wait for."""

    runs_jobs = False


_HERE = _Here()


class Job:
    """Abstract: a piece of work that is sent to a device, which calls `run()` once, in a thread of its own.

    Args:
        priority: of the jobs that wait, the one with the lowest runs first; equal ones first in, first out.
    """

    __slots__ = ("priority",)

    def __init__(self, priority: tuple[int, int]) -> None:
        self.priority: tuple[int, int] = priority

    def run(self) -> asyncio.Future[object] | None:
        """Do the work, or its first step; work that suspends goes on as a task of the loop of this thread.

        The sender gets the result or the error. Does nothing if the work has been withdrawn.

        Returns:
            The task; None where nothing is left to do.

        Raises:
            SystemExit, KeyboardInterrupt: the work raised it. The sender has been told, and the thread is to end.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement run()")

    def refuse(self, error: BaseException) -> None:
        """End the work with `error` before it has run, for example when the device is closed. Never raises."""
        raise NotImplementedError(f"{type(self).__name__} must implement refuse(error)")

    def abandon(self, error: BaseException) -> None:
        """End work that has suspended with `error`, when the thread that ran it is gone."""
        raise NotImplementedError(f"{type(self).__name__} must implement abandon(error)")


def worker_died_error(device: object, cause: BaseException | None) -> DeviceError:
    """Return the error for jobs whose worker thread has died.

    Args:
        device: the device of the worker.
        cause: what ended the thread; None where its event loop was stopped.
    """
    what = "its event loop was stopped" if cause is None else repr(cause)
    error = DeviceError(
        f"the worker of {str(device)!r} died ({what}), and the jobs that it ran and that waited for it have ended: "
        "later jobs get a new worker"
    )
    error.__cause__ = cause
    return error


@final
class Mailbox:
    """Tells an event loop which Jobs have ended; Jobs that end at about the same time wake it once.

    Args:
        loop: the loop on which the senders wait.
    """

    __slots__ = ("_ended", "_is_due", "is_abandoned", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        #: Whether the loop is gone; then none of its Jobs begins any more.
        self.is_abandoned: bool = False
        self._ended: deque[_AwaitedJob] = deque()
        self._is_due = False

    def put(self, job: _AwaitedJob) -> None:
        """Note that a job has ended; from any thread."""
        self._ended.append(job)
        if self._is_due:
            return
        self._is_due = True
        # RuntimeError: the loop is closed, and no sender waits any more.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # Reset first: a job that is put from here on schedules another delivery.
        self._is_due = False
        while self._ended:
            self._ended.popleft().resolve()


class _JobState(enum.Enum):
    """How far a job has come."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    ENDED = enum.auto()


class _AwaitedJob(Job):
    """Abstract: a Job whose sender waits for its end."""

    __slots__ = ("_end_lock", "_lock", "_mailbox", "_state", "context", "error", "result", "thread", "waiter")

    def __init__(self, priority: tuple[int, int], context: Context, mailbox: Mailbox | None) -> None:
        super().__init__(priority)
        self.context: Context = context
        self.result: Any = None
        self.error: BaseException | None = None
        self._mailbox = mailbox
        self._lock = threading.Lock()
        self._state = _JobState.WAITING
        #: The thread that runs it, once it has begun.
        self.thread: int | None = None
        #: The event that the sender awaits. Weak: a sender whose loop is closed and dropped is collected, and withdraws
        #: the job.
        self.waiter: weakref.ref[OneShotEvent] | None = None
        #: Released at the end; a sender that blocks its thread acquires it.
        self._end_lock: threading.Lock | None = None

    def has_ended(self) -> bool:
        """Tell whether the job has ended or been withdrawn."""
        return self._state is _JobState.ENDED

    def is_waiting(self) -> bool:
        """Tell whether the job has not begun."""
        return self._state is _JobState.WAITING

    def _begin(self) -> bool:
        """Mark the job as running; return False where it has been withdrawn and must not run."""
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
        """Keep the job from running if it has not begun; return True if it has not, so that nobody need wait for it."""
        with self._lock:
            if self._state is _JobState.RUNNING:
                return False
            self._state = _JobState.ENDED
            return True

    def _end(self) -> None:
        with self._lock:
            self._state = _JobState.ENDED
            end_lock = self._end_lock
        if end_lock is not None:
            end_lock.release()
        if self._mailbox is not None:
            self._mailbox.put(self)

    def refuse(self, error: BaseException) -> None:
        """End the job with `error` before it has run."""
        if self._begin():
            self.error = error
            self._end()

    def lose_sender(self) -> None:
        """End the job soon, since the sender's loop is gone; no other job of that loop begins any more."""
        # The garbage collector closes the senders of one loop in any order, so the others are told here.
        if self._mailbox is not None:
            self._mailbox.is_abandoned = True
        self.cancel()

    def cancel(self, message: Any = None) -> None:
        """Withdraw the job, or cancel it as far as that is possible; from any thread."""
        self.withdraw()

    def resolve(self) -> None:
        """Wake the sender, on its loop."""
        waiter = None if self.waiter is None else self.waiter()
        if waiter is not None:
            waiter.set()

    def block_until_ended(self) -> None:
        """Block this thread until the job has ended. After an interruption it may be called again."""
        end_lock = threading.Lock()
        end_lock.acquire()
        with self._lock:
            if self._state is _JobState.ENDED:
                return
            self._end_lock = end_lock
        end_lock.acquire()


@final
class FunctionJob(_AwaitedJob):
    """A plain function without arguments that a worker runs to its end, in `context`."""

    __slots__ = ("function", "seconds")

    result: Any
    error: BaseException | None

    def __init__(
        self, function: Callable[[], Any], priority: tuple[int, int], context: Context, mailbox: Mailbox | None
    ) -> None:
        super().__init__(priority, context, mailbox)
        self.function: Callable[[], Any] = function
        #: How many seconds it ran.
        self.seconds: float = 0.0

    def run(self) -> None:
        """Call the function."""
        if not self._begin():
            return
        before, _HERE.runs_jobs = _HERE.runs_jobs, True
        began = perf_counter()
        try:
            self.result = self.context.run(self.function)
        except BaseException as error:
            self.error = error
        finally:
            _HERE.runs_jobs = before
        self.seconds = perf_counter() - began
        self._end()


class JobTarget(Protocol):
    """The part of Device that jobs need."""

    #: How to make the device the current one of its library in a thread; None for most.
    switch: Any

    @property
    def has_worker(self) -> bool:
        """Whether the device runs jobs in threads of its own."""

    @property
    def name(self) -> str:
        """The name that `ag.device` finds it by."""

    def is_here(self) -> bool:
        """Tell whether this thread belongs to the device."""

    def submit(self, job: Any) -> None:
        """Have `job.run()` called once in a thread of the device."""


@final
class CoroutineJob(_AwaitedJob):
    """A coroutine that a worker with an event loop runs, in `context`.

    Args:
        coroutine: the coroutine.
        name: the name of its task, for debuggers.
        priority: see Job.
        context: what every step runs in.
        mailbox: that of the loop on which the sender waits; None where the sender blocks its thread.
        device: the device whose worker runs it; None where the sender's own loop does.
    """

    __slots__ = ("_cancel_message", "_is_cancelled", "_loop", "_task", "coroutine", "device", "name")

    result: Any
    error: BaseException | None

    def __init__(
        self,
        coroutine: Coroutine[object, None, Any],
        name: str,
        priority: tuple[int, int],
        context: Context,
        mailbox: Mailbox | None,
        device: JobTarget | None = None,
    ) -> None:
        super().__init__(priority, context, mailbox)
        self.coroutine: Coroutine[object, None, Any] = coroutine
        self.name: str = name
        self.device: JobTarget | None = device
        self._task: EagerTask | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_cancelled = False
        self._cancel_message: Any = None

    def run(self) -> asyncio.Future[Any] | None:
        """Run the first step, on the loop of this thread."""
        if not self._begin():
            self.coroutine.close()
            return None
        if self.device is not None and threading.current_thread() is not threading.main_thread():
            # For good: later steps are run by the loop of the worker.
            _HERE.runs_jobs = True
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
                # It ends the worker's thread, as it ends any thread that raises it, and not the sender's.
                self.error = worker_died_error(self.device, self.error)
        self._task = None
        self._end()

    def withdraw(self) -> bool:
        """Keep the coroutine from running if it has not begun; return True if it has not."""
        withdrawn = super().withdraw()
        if withdrawn:
            self.coroutine.close()
        return withdrawn

    def refuse(self, error: BaseException) -> None:
        """End the job with `error` before it has run."""
        is_waiting = self.is_waiting()
        super().refuse(error)
        if is_waiting:
            self.coroutine.close()

    def cancel(self, message: Any = None) -> None:
        """Withdraw the job, or throw CancelledError into the coroutine where it is suspended next."""
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
        """End the suspended coroutine with `error`, when the thread that ran it is gone."""
        with self._lock:
            task, self._task = self._task, None
        if task is None:
            return
        try:
            task.close()
        except BaseException as refused:
            add_note(error, f"closing its body raised {refused!r}")
        self.error = error
        self._end()


async def join(job: Any, submit: Callable[[], object] | None = None) -> Any:
    """Wait until a submitted job has ended; return its result or raise its error.

    Suspends. If it is cancelled, or interrupted, it cancels the job, and goes on only once the job has ended.

    Args:
        job: the job.
        submit: submits it. An interrupt that comes when that has been called finds the job known here.
    """
    loop = running_loop()
    cancelled: asyncio.CancelledError | None = None
    error: BaseException | None = None
    try:
        if submit is not None:
            submit()
        while not job.has_ended():
            ended = OneShotEvent(loop)
            job.waiter = weakref.ref(ended)
            # It may have ended just before, and then nothing sets this event.
            if job.has_ended():
                break
            try:
                await ended
            except asyncio.CancelledError as interrupt:
                cancelled = interrupt
                job.cancel(*interrupt.args[:1])
        error, job.error = job.error, None
        if cancelled is not None and (error is None or isinstance(error, asyncio.CancelledError)):
            raise cancelled
        if error is not None:
            raise error
        # A leaf takes over the array of a gradient only if there is no other reference to it.
        result, job.result = job.result, None
        return result
    except GeneratorExit:
        # The loop is gone. A coroutine can be cancelled; a function that computes is waited for, unless the garbage
        # collector closes this in a thread that runs jobs: that of the function itself, or one whose own job has taken
        # what the function waits for (test_a_worker_may_collect_the_sender_of_any_job).
        job.lose_sender()
        if isinstance(job, FunctionJob) and not _HERE.runs_jobs:
            job.block_until_ended()
        raise
    except (KeyboardInterrupt, SystemExit):
        # A signal, at any line; or the error of the job, which has ended then.
        await _end_job(job, loop)
        raise
    finally:
        # The traceback of an error refers to this frame: leave no cycle.
        job.waiter = submit = None
        del job, cancelled, error


async def _end_job(job: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Cancel a job unless it has ended, and wait for its end, however often the caller is cancelled."""

    async def wait() -> None:
        ended = OneShotEvent(loop)
        job.waiter = weakref.ref(ended)
        if not job.has_ended():
            await ended

    if not job.has_ended():
        job.cancel()
    await wait_through_cancellation(job.has_ended, wait)


async def call_on(device: JobTarget, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function, plain or async, in a copy of this context, on the device's worker if it has one."""
    context = contextvars.copy_context()
    context.run(_enter, device)
    around = CURRENT_GRAPH_TASK.get()
    called = call(function, *args, **kwargs)
    job = CoroutineJob(
        called if device.switch is None else coroutine_on_device(called, device),
        getattr(function, "__qualname__", repr(function)),
        (0 if around is None else -1 - around.reentrant_depth, 0),
        context,
        Mailbox(running_loop()),
        device,
    )
    return await join(job, functools.partial(send, job, device))


def submit(job: CoroutineJob, device: JobTarget) -> None:
    """Submit a job to the worker of a device; an error that the device raises becomes the job's."""
    try:
        device.submit(job)
    except Exception as error:
        job.refuse(error)


def send(job: CoroutineJob, device: JobTarget) -> None:
    """Run a job where the device runs its work: on its worker, or at once in this thread."""
    if device.has_worker and not device.is_here():
        submit(job, device)
    else:
        job.device = None
        job.run()


def _enter(device: JobTarget) -> None:
    BLOCKING.set(False)
    DEFAULT_DEVICE.set(device)
