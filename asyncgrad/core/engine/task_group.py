"""NodeTaskGroup: the NodeTasks of one GraphTask that have suspended on an event loop, and the wake-up of their driver.

The first step of a NodeTask runs at once, in the driver's own step. Only a NodeTask that suspends goes on as an asyncio
task, and the driver goes on with the next ready node meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import threading
import weakref
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, final

from ..arrays.current_devices import several_devices
from ..settings.awaiting import finish
from ..settings.context import CURRENT_NODE, ROW
from ..settings.loop_turn import keep_pace, next_turn
from ..settings.process import hold_in_forks
from ..settings.scheduling import CLOCK
from .device import is_elsewhere
from .eager_task import EagerTask, current_task
from .executor import NodeTurn
from .graph_task import SUSPENDED
from .loops import MAX_NESTED_ON_STACK, OneShotEvent, wait_through_cancellation
from .node_task import NodeTask
from .notes import add_later_error
from .remote import CoroutineJob, Mailbox, join, submit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..graph.node import Node
    from ..settings.scheduling import Clock
    from .device import Device
    from .eager_task import Named
    from .executor import Stop, TurnExecutor
    from .graph_task import GraphTask
    from .remote import FunctionJob

__all__ = [
    "DepthScheduler",
    "NodeTaskGroup",
    "call_and_await",
    "forget_job",
    "job_for_worker",
    "note_suspended",
]

#: Bound once: a method of an imported name is looked up and bound anew at each call.
_clock = CLOCK.get

#: Guards the counts of pauses, which hooks in several threads may change.
_PAUSE_LOCK = hold_in_forks(threading.Lock())


def note_suspended(graph_task: GraphTask) -> None:
    """Note that a backward suspends, in the task that awaits it; does something the first time only."""
    if graph_task.driver is None and (loop := asyncio._get_running_loop()) is not None:
        task = current_task(loop)
        graph_task.driver = None if task is None else weakref.ref(task)
        SUSPENDED[graph_task.id] = weakref.ref(graph_task)


async def call_and_await(callback: Callable[[], Any]) -> None:
    """Call a final callback, and await its result if that is awaitable."""
    CURRENT_NODE.set(None)
    await finish(callback())


def job_for_worker(node_task: NodeTask, mailbox: Mailbox | None) -> CoroutineJob:
    """Return the job of a NodeTask for the worker of its device, to which it is to be submitted.

    Args:
        node_task: the run of one node.
        mailbox: the mailbox of the loop that waits for the end; None where a thread blocks for it.
    """
    graph_task, node = node_task.graph_task, node_task.node
    node_task.is_sent = True
    device: Device = node.device
    priority = (-graph_task.reentrant_depth, node.order)
    job = CoroutineJob(node_task.begin(), node_task.name, priority, graph_task.context.copy(), mailbox, device)
    if graph_task.remote_jobs is None:
        graph_task.remote_jobs = {}
    graph_task.remote_jobs[node] = job
    return job


def forget_job(job: CoroutineJob, node_task: NodeTask) -> None:
    """Drop a job that has ended from its GraphTask, which the job's context refers to: leave no cycle.

    A job whose sender is gone may still run. It stays, for the lock of its node to find.
    """
    remote_jobs = node_task.graph_task.remote_jobs
    if remote_jobs is not None and job.has_ended():
        remote_jobs.pop(node_task.node, None)


def _cancels_of_driver(loop: asyncio.AbstractEventLoop) -> int:
    driver = current_task(loop)
    return 0 if driver is None else driver.cancelling()


@final
class RemoteTaskGroup:
    """What a NodeTask in another thread may ask of its NodeTaskGroup.

    The reference is weak: when the driving loop is closed and dropped the group is collected, which ends this NodeTask.
    """

    __slots__ = ("_group",)

    def __init__(self, group: NodeTaskGroup) -> None:
        self._group = weakref.ref(group)

    def pause(self) -> None:
        """Start no further node until `resume()`."""
        group = self._group()
        if group is not None:
            group.pause()

    def resume(self) -> None:
        """End one `pause()`."""
        group = self._group()
        if group is not None:
            group.resume()


@final
class NodeTaskGroup:
    """The suspended NodeTasks of one GraphTask, and the wake-up of its driver."""

    __slots__ = (
        "__weakref__",
        "_cancels_before",
        "_graph_task",
        "_home",
        "_is_awake",
        "_loop",
        "_raised",
        "_scheduler",
        "_told",
        "_wake",
        "finished",
        "mailbox",
        "pauses",
        "running",
    )

    def __init__(self, graph_task: GraphTask, loop: asyncio.AbstractEventLoop) -> None:
        self._graph_task = graph_task
        self._loop = loop
        #: For NodeTasks and bodies that run in other threads.
        self.mailbox: Mailbox = Mailbox(loop)
        #: Those that have ended, whose gradients the driver has yet to `collect`.
        self.finished: deque[EagerTask] = deque()
        #: Done when the driver is to go on; there only while it waits.
        self._wake: asyncio.Future[None] | None = None
        #: Strong references: asyncio itself holds tasks weakly. The node is None for a final callback.
        self.running: dict[EagerTask, Node | None] = {}
        graph_task.group = weakref.ref(self)
        #: How many hooks and bodies run that no further node may overlap: while any does, none starts.
        self.pauses = 0
        #: Shared with the enclosing backward passes on the same loop, so that they let deeper ones go first.
        outer = graph_task.outer
        scheduler = None if outer is None else outer.scheduler
        if scheduler is None or scheduler.loop is not loop:
            row = graph_task.context.get(ROW)
            scheduler = DepthScheduler(loop, None if row is None or not row.is_here() else row.scheduler)
        graph_task.scheduler = self._scheduler = scheduler
        #: Whether the scheduler counts this driver.
        self._is_awake = False
        self._cancels_before = _cancels_of_driver(loop)
        #: The error of a body that the driver raises.
        self._raised: BaseException | None = None
        #: The device of the last node that runs here wherever this is, since it has no worker: most nodes are of one.
        self._home: Any = None
        #: The executor that knows that a NodeTask has suspended.
        self._told: TurnExecutor | None = None

    def start_ready(
        self, turn: NodeTurn, in_context: Callable[..., Any], deadline: float, clock: Clock
    ) -> Stop | NodeTurn:
        """Start a node, and those that are ready beside it; return why no further one is started.

        That is what the executor has said; or the turn of the last node, where one has ended or pauses the others, or
        `clock` has passed `deadline`.

        Args:
            turn: that of the first node.
            in_context: calls a function in the context of the backward.
            deadline: when the time budget ends.
            clock: what measures it.
        """
        graph_task, finished = self._graph_task, self.finished
        while True:
            self._start(turn)
            if finished or self.pauses or clock() > deadline:
                return turn
            step: Stop | NodeTurn = in_context(graph_task.executor.run, deadline, clock)
            if not isinstance(step, NodeTurn):
                return step
            turn = step

    def _start(self, turn: NodeTurn) -> None:
        """Run the first step of a node's NodeTask; one that suspends goes on as an asyncio task."""
        graph_task, (node, grads) = self._graph_task, turn
        node_task = NodeTask(graph_task, node, grads, self)
        is_seen = graph_task.observation is not None or graph_task.observed_steps is not None
        if node.device is self._home and not is_seen and not several_devices[0]:
            # As it begins nearly always.
            coroutine = node_task.run()
        else:
            coroutine = self._begin(node_task)
        if self._step(coroutine, node_task, node) and graph_task.executor is not self._told:
            executor: TurnExecutor = graph_task.executor  # type: ignore[assignment]  # it gave the turn
            executor.on_suspend()
            # One that no other may overlap, on a worker, records before all others.
            graph_task.is_out_of_order = graph_task.is_out_of_order or (graph_task.create_graph and not self.pauses)
            self._told = executor
        # A later error is none of this node's.
        graph_task.executor.node = None

    def _begin(self, node_task: NodeTask) -> Coroutine[object, None, Any]:
        """Return the coroutine that runs a NodeTask where its device runs bodies, seen by observers."""
        graph_task, node = self._graph_task, node_task.node
        device, observation = node.device, graph_task.observation
        is_away = is_elsewhere(device)
        if not is_away and not getattr(device, "has_worker", True):
            self._home = device
        begin = functools.partial(self._run_on_worker, node_task) if is_away else node_task.begin
        return begin() if observation is None else observation.run_node(graph_task, node, begin)

    async def _run_on_worker(self, node_task: NodeTask) -> Any:
        """Run a NodeTask on the worker of its device; suspends until it has ended.

        Under create_graph bodies record nodes, whose order must be the same in each run. So no further node starts
        meanwhile, unless this one may suspend: then it may wait for something that another node does.
        """
        is_exclusive = node_task.graph_task.create_graph and not node_task.may_suspend()
        node_task.group = RemoteTaskGroup(self)
        job = job_for_worker(node_task, self.mailbox)
        try:
            return await self.result_of(job, is_exclusive, functools.partial(submit, job, node_task.node.device))
        finally:
            forget_job(job, node_task)
            # The traceback of an error refers to this frame: leave no cycle.
            del job, node_task

    async def result_of(self, job: FunctionJob | CoroutineJob, is_exclusive: bool, submit: Callable[[], object]) -> Any:
        """Run a job in another thread and return its result; if exclusive, no further node starts meanwhile."""
        if is_exclusive:
            self.pause()
        try:
            return await join(job, submit)
        finally:
            if is_exclusive:
                self.resume()
            # As in EagerTask.start().
            del job, submit

    def _step(self, coroutine: Coroutine[object, None, Any], name: str | Named, node: Node | None) -> bool:
        """Run the first step of a coroutine; tell whether it has suspended, and goes on as an asyncio task."""
        graph_task = self._graph_task
        # By position: names would take a hundredth of the time of a node that waits.
        task = EagerTask(coroutine, self._loop, graph_task.context.copy(), name, self._on_end)
        self.running[task] = node
        try:
            if (graph_task.reentrant_depth + 1) % MAX_NESTED_ON_STACK == 0:
                task.start_later()
                # Until its first step has run, this backward counts as ready.
                self._scheduler.wake(graph_task.reentrant_depth)
                self._loop.call_soon(self._scheduler.leave, graph_task.reentrant_depth)
            elif task.start():
                return False
            task.since = _clock()()
            if graph_task.driver is None:
                note_suspended(graph_task)
            return True
        finally:
            # As in EagerTask.start().
            del task

    def _on_end(self, task: EagerTask) -> None:
        self.finished.append(task)
        if self._graph_task.has_error:
            self._mark_ended(task)
        # Most often others that have ended in the same turn have woken it.
        if not self._is_awake:
            self._wake_driver()

    def _mark_ended(self, task: EagerTask) -> None:
        """Note the end of a NodeTask after a failure, when `collect` is not called any more."""
        node = self.running[task]
        if node is not None:
            executor: TurnExecutor = self._graph_task.executor  # type: ignore[assignment]  # it gave the turn
            executor.mark_ended(node)

    def _wake_driver(self) -> None:
        # Once awake, it collects all that end before it goes on.
        if not self._is_awake and self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
            self._is_awake = True
            self._scheduler.wake(self._graph_task.reentrant_depth)

    def pause(self) -> None:
        """Start no further node until `resume()`: a hook or a body begins that none may overlap. Pauses nest."""
        with _PAUSE_LOCK:
            self.pauses += 1

    def resume(self) -> None:
        """End one `pause()`; from any thread."""
        with _PAUSE_LOCK:
            self.pauses -= 1
            is_free = not self.pauses
        if not is_free:
            return
        if threading.get_ident() == self._graph_task.thread_id:
            self._wake_driver()
            return
        # The call comes from the worker of a device.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake_driver)

    async def wait(self) -> None:
        """Wait until a NodeTask has ended or the last pause has, and deeper backward passes have had their turn."""
        depth = self._graph_task.reentrant_depth
        self._graph_task.executor.prepare_to_wait()
        try:
            if self.finished:
                self._is_awake = True
                self._scheduler.wake(depth)
            else:
                self._wake = self._loop.create_future()
                try:
                    await self._wake
                finally:
                    self._wake = None
            if not self._scheduler.is_alone():
                await self._scheduler.turn(depth)
        finally:
            if self._is_awake:
                self._is_awake = False
                self._scheduler.leave(depth)

    async def next_turn(self, clock: Clock, budget: float) -> None:
        """Let the loop run everything else that is ready, except the drivers of the enclosing backward passes."""
        depth = self._graph_task.reentrant_depth
        self._scheduler.wake(depth)
        try:
            await next_turn(clock, budget, True)
            await self._scheduler.turn(depth)
        finally:
            self._scheduler.leave(depth)

    def collect(self) -> None:
        """Give the gradients of the NodeTasks that have ended to the executor; raise the first error among them."""
        graph_task, finished = self._graph_task, self.finished
        while finished:
            task = finished.popleft()
            graph_task.executor.node = node = self.running.pop(task)
            try:
                if task.cancelled() or task.exception() is not None:
                    self._raise_error(task, node)
                outputs = task.result()
            finally:
                # As in EagerTask.start().
                del task
            if node is not None:
                # As `GraphTask.end_turn`, nearly always.
                executor: TurnExecutor = graph_task.executor  # type: ignore[assignment]  # it gave the turn
                if graph_task.create_graph:
                    graph_task.end_turn(node, outputs)
                else:
                    executor.end_turn(node, outputs)
            # A leaf takes over the array of a gradient only if there is no other reference to it.
            del outputs
        graph_task.executor.node = None

    async def run_callbacks(self) -> None:
        """Run the final callbacks one after the other, with those that are queued meanwhile."""
        completion = self._graph_task.completion
        while completion is not None and (callback := completion.next_callback()) is not None:
            self._step(call_and_await(callback), f"final callback of backward {self._graph_task.id}", None)
            while self.running:
                await self.wait()
                self.collect()
            # There may be many callbacks, and each may queue another.
            await keep_pace()

    async def deliver_cancellation(self) -> None:
        """Suspend once, to raise CancelledError, if the driver's task has been cancelled since the bodies began.

        A body may have cancelled the task without suspending. The task counts as cancelled, so the backward must as
        well.
        """
        if _cancels_of_driver(self._loop) > self._cancels_before:
            await asyncio.sleep(0)

    def _raise_error(self, task: EagerTask, node: Node | None) -> None:
        """Raise the error that a NodeTask has ended with: the one that its coroutine raised, itself."""
        if task.cancelled():
            what = "a final callback" if node is None else f"the body of {node.name}"
            error: BaseException | None = task.cancelled_by or asyncio.CancelledError(f"{what} was cancelled")
        else:
            error = task.exception()
        assert error is not None
        self._raised = error
        try:
            raise error
        finally:
            # As in EagerTask.start().
            del task, error

    async def end_all(self, error: BaseException) -> None:
        """End the bodies that still run when the backward has failed with `error`; their errors become notes of it."""
        is_closed = isinstance(error, GeneratorExit) and error is not self._raised
        # The traceback of the error refers to this object: leave no cycle.
        self._raised = None
        for ended in self.finished:
            self._mark_ended(ended)
        try:
            # A driver that is being closed may not await: its loop is gone.
            if not is_closed:
                await self._cancel_all(error)
        finally:
            self.finished.clear()
            # Nothing is left here unless the driver is closed, or was closed during that wait.
            self._close_all(error)

    def _close_all(self, error: BaseException) -> None:
        """Close the coroutines that still run, without the event loop.

        Raises:
            BaseException: the first error that closing one raised, once all are closed.
        """
        refused: BaseException | None = None
        while self.running:
            task, node = self.running.popitem()
            try:
                later = task.close()
            except BaseException as raised:
                # Most often a coroutine that awaits something in its clean-up.
                refused = refused or raised
                later = raised
            if later is not None:
                add_later_error(refused or error, later, node, "while it was being closed")
        if refused is None:
            return
        try:
            raise refused
        finally:
            # As in EagerTask.start().
            del error, refused, later, task

    async def _cancel_all(self, error: BaseException) -> None:
        """Cancel the bodies that still run and wait for their end."""
        failed = {task for task in self.running if task.done()}
        for task in self.running:
            # A loop that ends cancels bodies and driver alike; a second request would interrupt a body's clean-up.
            if not (task.cancelling() and isinstance(error, asyncio.CancelledError)):
                task.cancel()

        def have_ended() -> bool:
            self.finished.clear()
            return all(task.done() for task in self.running)

        interrupted = await wait_through_cancellation(have_ended, self.wait)
        for task, node in self.running.items():
            if not task.cancelled() and (later := task.exception()) is not None:
                when = "before it could be cancelled" if task in failed else "while it was being cancelled"
                add_later_error(error, later, node, when)
        self.running.clear()
        if interrupted is None or isinstance(error, asyncio.CancelledError):
            return
        try:
            raise interrupted
        finally:
            # As in EagerTask.start().
            del error, interrupted


@final
class DepthScheduler:
    """Lets deeper drivers go on first, among those of one outermost backward on one loop and of all nested in it.

    A driver is counted from when it is woken until it goes on. While a deeper one is counted, it waits. Thousands of
    drivers may wake at once, so each operation takes logarithmic time.

    Args:
        loop: the loop that runs the drivers.
        whole: what counts all of these as one driver as long as one of them is counted.
    """

    __slots__ = ("_awake", "_counts", "_depths", "_next_arrival", "_waiting", "_whole", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, whole: DepthScheduler | None = None) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self._whole = whole
        #: How many drivers are counted, and how many at each reentrant depth.
        self._awake = 0
        self._counts: dict[int, int] = {}
        #: A heap of the keys of `_counts`, negated.
        self._depths: list[int] = []
        #: A heap of the drivers that wait, the deepest first, then first in, first out.
        self._waiting: list[tuple[int, int, OneShotEvent | _Sleeper]] = []
        self._next_arrival = itertools.count().__next__

    def __len__(self) -> int:
        """Return how many drivers are counted."""
        return self._awake

    def wake(self, depth: int) -> None:
        """Count a driver that is about to go on."""
        if depth not in self._counts:
            self._counts[depth] = 0
            heappush(self._depths, -depth)
        self._counts[depth] += 1
        self._awake += 1
        if self._awake == 1 and self._whole is not None:
            self._whole.wake(0)

    async def turn(self, depth: int) -> None:
        """Wait until no deeper driver is counted, and none as deep waited before; suspends only if one does."""
        is_behind = bool(self._waiting) and -self._waiting[0][0] >= depth
        while is_behind or self._deepest() > depth:
            is_behind = False
            event = OneShotEvent(self.loop)
            heappush(self._waiting, (-depth, self._next_arrival(), event))
            await event

    def is_alone(self) -> bool:
        """Tell whether one that is counted goes on at once: nobody waits, or is counted at another depth."""
        return not self._waiting and len(self._counts) == 1

    def when_asleep(self, callback: Callable[[], object]) -> None:
        """Call `callback()` once, on the loop, as soon as no driver is counted: each of them sleeps or has ended.

        At least one is counted now. It is called after the driver that was counted last has run as far as it could.
        """
        # Behind all drivers, whose depths are 0 and more.
        heappush(self._waiting, (1, self._next_arrival(), _Sleeper(callback)))

    def leave(self, depth: int) -> None:
        """Stop counting a driver: it goes on now, or it has been cancelled."""
        self._counts[depth] -= 1
        self._awake -= 1
        if not self._awake and self._whole is not None:
            self._whole.leave(0)
        if not self._waiting or -self._waiting[0][0] < self._deepest():
            return
        # Not at once, since the driver goes on only after this returns. The garbage collector may close a driver in any
        # thread; on the loop's own, `call_soon_threadsafe` would cost two calls of the system.
        if asyncio._get_running_loop() is self.loop:
            self.loop.call_soon(self._wake_next)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._wake_next)

    def _deepest(self) -> int:
        depths, counts = self._depths, self._counts
        while depths and not counts[-depths[0]]:
            del counts[-heappop(depths)]
        return -depths[0] if depths else -1

    def _wake_next(self) -> None:
        waiting = self._waiting
        while waiting and waiting[0][2].is_done():
            heappop(waiting)
        while waiting and -waiting[0][0] >= self._deepest():
            _, _, next_one = heappop(waiting)
            next_one.set()
            if isinstance(next_one, OneShotEvent):
                # A driver, after which this is called again.
                return


@final
class _Sleeper:
    """What waits, like the drivers, for those that are deeper: for all of them."""

    __slots__ = ("set",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.set: Callable[[], object] = callback

    def is_done(self) -> bool:
        """Tell whether it waits no more: it always does."""
        return False
