"""ScheduleLoop: an event loop whose schedule is decided by a seed, whose time is virtual, and which detects deadlocks.

Two things decide how a program runs on a real event loop: asyncio, which runs callbacks given to `call_soon` first in,
first out, and the outside world, which decides when a wait ends. On this loop the outside world is a random generator.
These last a random number of turns, up to thousands:

- a bare yield, such as `asyncio.sleep(0)`, which stands for a wait for something outside, for example a reply;
- timers that are due at exactly the same time;
- the way of a function to a worker thread (`asyncio.to_thread`, `run_in_executor`), and of its result back. The
  function itself runs inside the loop, without interruption.

Everything else keeps asyncio's order: callbacks given to `call_soon`, and so the tasks that a future, a lock or a queue
wakes, and the order in which tasks start. So a failure in the order "fifo" also happens on a real loop if replies
arrive in that order; one seed in eight gives asyncio's own order. To let two tasks start in either order, begin each
with `await asyncio.sleep(0)`, which stands for the arrival of a request.

The order "shuffled" makes every callback wait a random number of turns. It finds code that depends on the order in
which asyncio calls back. asyncio promises that order, so such a failure may be impossible on a real loop.

It cannot find errors between two awaits, since only an await lets other tasks run; races between threads (a function
for a worker runs alone, and must not wait for another one or for the loop); errors that depend on how long work takes,
since the clock stands still while anything can run; nor errors of the network, which it refuses.
A schedule is replayed exactly if only its seed varies. These vary as well: the hash of objects, and so the order of
sets of them (`asyncio.as_completed` starts bare coroutines in such an order; sets of this loop's tasks are safe), real
time, real threads, and `id()`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextvars import Context
from heapq import heappop
from math import inf
from operator import index
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeVar, TypeVarTuple, final

from ..errors import ArgumentError, DeadlockError
from .numbered_task import Labels, NumberedTask, qualified_name
from .outside import Outside
from .waiting import describe_waiting
from .worker_job import WorkerJob

if TYPE_CHECKING:
    from collections.abc import Coroutine


__all__ = ["Order", "ScheduleLoop"]

Order = Literal["fifo", "shuffled"]
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: After this many turns in which something was always ready, time passes anyway: a task may be polling a flag that a
#: timer sets.
_PATIENCE = 10_000
#: How many seconds a loop with nothing to do waits for a call from another thread, if there is one.
_THREAD_PATIENCE = 1.0


#: The methods of a loop that need real input, by what they need. Real input would make a schedule unrepeatable.
_NEEDS = {
    "network": (
        "connect_accepted_socket create_connection create_datagram_endpoint create_server create_unix_connection "
        "create_unix_server getaddrinfo getnameinfo sendfile start_tls"
    ),
    "sockets": (
        "sock_accept sock_connect sock_recv sock_recv_into sock_recvfrom sock_recvfrom_into sock_sendall "
        "sock_sendfile sock_sendto"
    ),
    "file descriptors": "add_reader add_writer remove_reader remove_writer",
    "pipes": "connect_read_pipe connect_write_pipe",
    "subprocesses": "subprocess_exec subprocess_shell",
    "signals": "add_signal_handler remove_signal_handler",
}


@final
class ScheduleLoop(asyncio.BaseEventLoop):
    """An event loop on which a seed decides everything that the outside world decides on a real one.

    Pass it to `asyncio.Runner(loop_factory=...)` to run a coroutine on one schedule; `run_with_seed` and `explore` are
    shorter. The module's docstring says what varies, and which errors it can find. The clock starts at 0; when nothing
    can run, it jumps to the next timer.

    Args:
        seed: decides the schedule; not negative.
        order: "fifo" keeps the order that asyncio promises, "shuffled" keeps none.
        max_turns: after this many turns the loop raises, with the same report as for a deadlock.

    Raises:
        ArgumentError: the seed is negative, or the order unknown.
        DeadlockError: raised by the call that runs the loop, if tasks are waiting and nothing can wake them.

    Example:
        >>> import asyncio
        >>> from asyncgrad.testing import ScheduleLoop
        >>> async def main():
        ...     await asyncio.sleep(86400)
        ...     return asyncio.get_running_loop().time()
        >>> with asyncio.Runner(loop_factory=lambda: ScheduleLoop(7)) as runner:
        ...     runner.run(main())
        86400.0
    """

    #: True until the loop is set up: one whose arguments are refused has nothing to close.
    _closed = True
    _current_handle: asyncio.Handle | None
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool
    _thread_id: int | None
    _timer_cancelled_count: int
    _check_callback: Callable[[object, str], None]
    _check_closed: Callable[[], None]
    _check_default_executor: Callable[[], None]

    def __init__(self, seed: int, *, order: Order = "fifo", max_turns: int = 1_000_000) -> None:
        seed = index(seed)
        if seed < 0:
            raise ArgumentError(f"seed must be 0 or more, not {seed}")
        if not (isinstance(order, str) and order in ("fifo", "shuffled")):
            raise ArgumentError(f'order must be "fifo" or "shuffled", not {order!r}')
        super().__init__()
        #: A test may draw from it, as in `Random(asyncio.get_running_loop().seed)`: a replay draws the same.
        self.seed = seed
        self._outside = Outside(seed, shuffled=order == "shuffled")
        self._shuffled = order == "shuffled"
        self._max_turns: float = max_turns
        self._now = 0.0
        self._turns_taken = 0
        self._turns_busy = 0
        self._from_threads: SimpleQueue[asyncio.Handle] = SimpleQueue()
        self._job: WorkerJob | None = None
        self._jobs = 0
        self._no_jobs = asyncio.Event()
        self._no_jobs.set()
        self._labels = Labels()
        self._trace: list[str] = []

    @property
    def trace(self) -> tuple[str, ...]:
        """The steps so far: `ask#3` is a step of the third task, whose coroutine is `ask`.

        A callback is shown by its name, a function for a worker as `worker: load` and `result: load`.
        """
        return tuple(self._trace)

    def time(self) -> float:
        """Return the virtual time in seconds since the loop was created."""
        return self._now

    # --- tasks and callbacks ----------------------------------------------------------------------

    def create_task(
        self, coro: Generator[object, None, T] | Coroutine[object, None, T], **kwargs: Any
    ) -> asyncio.Task[T]:
        """Create a task whose name and hash are the same in each run of this schedule."""
        if self.get_task_factory() is not None:
            return super().create_task(coro, **kwargs)
        self._check_closed()
        number = self._labels.next_number()
        if kwargs.get("name") is None:
            kwargs["name"] = f"Task-{number}"
        return NumberedTask(coro, number=number, pace=self._outside.draw_pace(), loop=self, **kwargs)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call after all earlier callbacks of `call_soon`; a task's bare yield lasts a random number of turns."""
        self._check_closed()
        owner = getattr(callback, "__self__", None)
        if type(owner) is not NumberedTask:
            self._check_callback(callback, "call_soon")
        if self._job is not None or (self._thread_id is not None and threading.get_ident() != self._thread_id):
            raise RuntimeError(
                f"{self._labels.of_callback(callback)} was given to call_soon from a worker thread, which asyncio "
                "does not allow: use loop.call_soon_threadsafe"
            )
        handle = asyncio.Handle(callback, args, self, context)
        if self._shuffled:
            self._wait_outside(handle, owner)
        elif owner is not None and owner is asyncio.current_task(self) and (turns := self._outside.draw_wait(owner)):
            self._outside.wait(handle, turns)
        else:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call a callback from a thread, in the order of the calls; from a worker's function, after a random wait.

        A call from a real thread works, but its time depends on that thread, so that a seed cannot replay it.
        """
        self._check_closed()
        if self._job is None and threading.get_ident() == self._thread_id:
            return self.call_soon(callback, *args, context=context)
        self._check_callback(callback, "call_soon_threadsafe")
        handle = asyncio.Handle(callback, args, self, context)
        if self._job is not None and threading.get_ident() == self._thread_id:
            self._job.last_call = self._outside.wait(handle, self._outside.draw_wait(None), after=self._job.last_call)
        else:
            self._from_threads.put(handle)
        return handle

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run a function inside the loop in a random later turn; its result arrives in another one.

        `executor` is ignored. As in a worker thread, no event loop counts as running during the function, and the
        function has a new, empty context.
        """
        self._check_closed()
        self._check_callback(func, "run_in_executor")
        if executor is None:
            self._check_default_executor()
        future: asyncio.Future[T] = self.create_future()
        self._jobs += 1
        self._no_jobs.clear()
        self._wait_outside(asyncio.Handle(self._run_job, (WorkerJob(func, args, future),), self, Context()))
        return future

    def _run_job(self, job: WorkerJob) -> None:
        if job.future.cancelled():
            # A pool drops a function that is cancelled before it has begun.
            self._end_job()
            return
        self._trace[-1] = f"worker: {qualified_name(job.func)}"
        self._job = job
        asyncio._set_running_loop(None)
        try:
            job.run()
        except KeyboardInterrupt:
            self._end_job()
            raise
        finally:
            asyncio._set_running_loop(self)
            self._job = None
        handle = asyncio.Handle(self._deliver, (job,), self, Context())
        self._outside.wait(handle, self._outside.draw_wait(None), after=job.last_call)

    def _deliver(self, job: WorkerJob) -> None:
        self._trace[-1] = f"result: {qualified_name(job.func)}"
        job.deliver()
        self._end_job()

    def _end_job(self) -> None:
        self._jobs -= 1
        if not self._jobs:
            self._no_jobs.set()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's signature
        """Wait until every function that was given to a worker has run."""
        self._executor_shutdown_called = True
        await self._no_jobs.wait()

    def _wait_outside(self, handle: asyncio.Handle, owner: object = None) -> None:
        self._outside.wait(handle, self._outside.draw_wait(owner))

    # --- the turns of the loop --------------------------------------------------------------------

    def _run_once(self) -> None:
        """Run the handles that are ready at the start of this turn, first in, first out; called by `run_forever`."""
        self._poll()
        ready = self._ready
        for _ in range(len(ready)):
            handle: Any = ready.popleft()
            if not handle._cancelled:
                self._trace.append(self._labels.of_callback(handle._callback))
                # Shown in asyncio's report if the callback fails.
                self._current_handle = handle
                handle._run()
            # The traceback of an error refers to this frame, and the handle to the task that holds the error: no cycle.
            del handle
        self._current_handle = None

    def _poll(self) -> None:
        """Make ready what comes from outside: calls from threads, due timers, and waits that end in this turn."""
        self._outside.next_turn()
        self._turns_taken += 1
        self._turns_busy += 1
        ready, outside = self._ready, self._outside
        while not self._from_threads.empty():
            ready.append(self._from_threads.get_nowait())
        if self._turns_busy > _PATIENCE:
            self._advance_clock()
        if self._scheduled:
            for timer in self._due_timers():
                self._let_in(timer)
        if not ready and not self._stopping:
            if not outside:
                self._idle()
            if not ready:
                outside.skip_turns()
        outside.let_in(ready)
        if self._turns_taken > self._max_turns:
            # Raised once: the tasks need more turns to be cancelled.
            self._max_turns = inf
            raise DeadlockError(f"no end after {self._turns_taken} turns of the loop{self._waiting()}")

    def _let_in(self, handle: asyncio.Handle) -> None:
        if self._shuffled:
            self._wait_outside(handle)
        else:
            self._ready.append(handle)

    def _idle(self) -> None:
        """Pass the time to the next timer; without one, wait for another thread, or report a deadlock."""
        self._turns_busy = 0
        if self._advance_clock():
            timers = self._due_timers()
            for timer in timers:
                # asyncio does not promise which of two timers for the same time is first.
                if len(timers) > 1:
                    self._wait_outside(timer)
                else:
                    self._ready.append(timer)
            return
        # Without another thread, no call can come.
        patience = _THREAD_PATIENCE if threading.active_count() > 1 else 0.0
        try:
            self._ready.append(self._from_threads.get(timeout=patience))
        except Empty:
            # A signal handler may have scheduled a callback meanwhile.
            if not self._ready:
                raise DeadlockError(f"nothing is ready and no timer is set{self._waiting()}") from None

    def _advance_clock(self) -> bool:
        """Move the clock to the next timer; return whether there is one. A timer at infinity does not count."""
        while self._scheduled and self._scheduled[0]._cancelled:
            self._pop_timer()
        if not self._scheduled or self._scheduled[0].when() == inf:
            return False
        self._turns_busy = 0
        self._now = max(self._now, self._scheduled[0].when())
        return True

    def _due_timers(self) -> list[asyncio.TimerHandle]:
        due = []
        while self._scheduled and self._scheduled[0].when() <= self._now:
            due.append(self._pop_timer())
        return due

    def _pop_timer(self) -> asyncio.TimerHandle:
        timer: Any = heappop(self._scheduled)
        # asyncio's bookkeeping of its heap; TimerHandle.cancel() reads it.
        timer._scheduled = False
        self._timer_cancelled_count -= timer._cancelled
        popped: asyncio.TimerHandle = timer
        return popped

    def _waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=self._labels.number_of_task)
        if not tasks:
            return "; no task waits"
        how_many = "1 task waits" if len(tasks) == 1 else f"{len(tasks)} tasks wait"
        return f"; {how_many}:" + describe_waiting(tasks, self._labels.of_task)

    def close(self) -> None:
        """Close the loop, and drop all waits for the outside world."""
        if not self.is_closed() and not self.is_running():
            self._outside.clear()
            task: Any
            for task in asyncio.all_tasks(self):
                # It did not end when it was cancelled. That has been reported already.
                task._log_destroy_pending = False
        super().close()


def _refusal(name: str, need: str) -> Callable[..., Any]:
    def refuse(self: ScheduleLoop, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__}.{name}: this loop has no {need}, since real input would "
            "decide the schedule. Give the code under test a stand-in, such as a coroutine that sleeps"
        )

    refuse.__name__ = name
    refuse.__qualname__ = f"{ScheduleLoop.__name__}.{name}"
    refuse.__doc__ = f"Refuse: a schedule has no {need}."
    return refuse


for _need, _names in _NEEDS.items():
    for _name in _names.split():
        setattr(ScheduleLoop, _name, _refusal(_name, _need))
