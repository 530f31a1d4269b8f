"""The bodies of one GraphTask that an event loop runs, and the wake-up of its driver. Nothing else makes asyncio tasks.

A NodeTask is stepped where it stands; only one that suspends goes on as a task of its own, and the driver goes on
with the next ready node meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import threading
import weakref
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, final

from ..context import CURRENT_NODE
from .device import is_elsewhere
from .eager_task import EagerTask
from .loops import NESTED_ON_ONE_STACK, Pace, yield_to_loop
from .node_task import NodeTask
from .notes import add_later_error
from .remote import CoroutineJob, Mailbox, join, submit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..graph.node import Node
    from .device import Device
    from .executor import NodeTurn, TurnExecutor
    from .graph_task import GraphTask
    from .remote import FunctionJob

__all__ = ["NodeTaskGroup", "DepthScheduler", "called", "forget", "send_away"]

#: Held while hooks that hold up further nodes are counted, since they may run in several threads.
_HOLDING_UP = threading.Lock()


async def called(callback: Callable[[], Any]) -> None:
    """Call a final callback, and wait for what it returns if that can be awaited."""
    CURRENT_NODE.set(None)
    result = callback()
    if inspect.isawaitable(result):
        await result


def send_away(node_task: NodeTask, mailbox: Mailbox | None) -> CoroutineJob:
    """Have the worker of its device run a NodeTask, when its turn comes there.

    Args:
        node_task: the run of one node.
        mailbox: of the loop that waits for the end; None where a thread blocks for it.
    """
    graph_task, node = node_task.graph_task, node_task.node
    node_task.is_sent = True
    device: Device = node.device
    priority = (-graph_task.reentrant_depth, node.order)
    job = CoroutineJob(node_task.run(), node_task.name, priority, graph_task.context.copy(), mailbox, device)
    if graph_task.away is None:
        graph_task.away = {}
    graph_task.away[node] = job
    submit(job, device)
    return job


def forget(job: CoroutineJob, node_task: NodeTask) -> None:
    """Let a GraphTask forget the job of a NodeTask, if that has ended: its context leads back, and would be a cycle.

    One whose sender is gone may still run, and whoever waits for the node's lock is to know.
    """
    away = node_task.graph_task.away
    if away is not None and job.has_ended():
        away.pop(node_task.node, None)


def _cancels_of_driver(loop: asyncio.AbstractEventLoop) -> int:
    driver = asyncio.current_task(loop)
    return 0 if driver is None else driver.cancelling()


@final
class RemoteTaskGroup:
    """What a NodeTask in another thread may ask of those that run beside it.

    Weak: where the loop that drives them is closed and forgotten, they are to end, and this NodeTask with them.
    """

    __slots__ = ("_group",)

    def __init__(self, group: NodeTaskGroup) -> None:
        self._group = weakref.ref(group)

    def hold_up(self) -> None:
        """Start no further node until `let_go()`."""
        group = self._group()
        if group is not None:
            group.hold_up()

    def let_go(self) -> None:
        """Note that a hook has ended that held up further nodes."""
        group = self._group()
        if group is not None:
            group.let_go()


@final
class NodeTaskGroup:
    """The suspended bodies of one GraphTask, and the wake-up of its driver."""

    __slots__ = (
        "__weakref__",
        "_awake",
        "_cancels_before",
        "_finished",
        "_graph_task",
        "_holding_up",
        "_is_awake",
        "_loop",
        "_raised",
        "_wake",
        "mailbox",
        "running",
    )

    def __init__(self, graph_task: GraphTask, loop: asyncio.AbstractEventLoop) -> None:
        self._graph_task = graph_task
        self._loop = loop
        #: For bodies that run in other threads.
        self.mailbox = Mailbox(loop)
        self._finished: deque[EagerTask] = deque()
        self._wake: asyncio.Future[None] | None = None
        #: Strong references: asyncio itself holds tasks weakly. The node is None for a final callback.
        self.running: dict[EagerTask, Node | None] = {}
        #: How many hooks run that no further node is to overlap.
        self._holding_up = 0
        #: Shared with the backward passes around this one on the same loop: those let deeper ones go first.
        outer = graph_task.outer
        shared = None if outer is None else outer.awake
        if shared is None or shared.loop is not loop:
            shared = DepthScheduler(loop)
        graph_task.awake = self._awake = shared
        self._is_awake = False
        self._cancels_before = _cancels_of_driver(loop)
        #: What a body raised, and the driver with it.
        self._raised: BaseException | None = None

    def start(self, turn: NodeTurn) -> None:
        """Step the node whose turn it is; what suspends goes on as a task of its own."""
        graph_task, node = self._graph_task, turn.node
        node_task = NodeTask(graph_task, node, turn.grads, self)
        coroutine = self._sent(node_task) if is_elsewhere(node.device) else node_task.run()
        stepped = self._step(coroutine, node_task.name, node)
        if not stepped.done():
            executor: TurnExecutor = graph_task.executor  # type: ignore[assignment]  # it gave the turn
            executor.suspended()
        # As in EagerTask.start().
        del stepped

    async def _sent(self, node_task: NodeTask) -> Any:
        """Have the worker of its device run a NodeTask; suspends until that has ended.

        Under create_graph bodies record nodes, whose order is to be the same in each run. So no further node starts
        meanwhile, unless this one may suspend: then it may wait for what another one does.
        """
        is_alone = node_task.graph_task.create_graph and not node_task.may_suspend()
        node_task.group = RemoteTaskGroup(self)
        job = send_away(node_task, self.mailbox)
        try:
            return await self.result_of(job, is_alone)
        finally:
            forget(job, node_task)
            # The traceback of an error leads back here: leave no cycle.
            del job, node_task

    async def result_of(self, job: FunctionJob | CoroutineJob, is_alone: bool) -> Any:
        """Return the result of what runs in another thread, at its end; if alone, no further node starts meanwhile."""
        if is_alone:
            self.hold_up()
        try:
            return await join(job)
        finally:
            if is_alone:
                self.let_go()
            # As in EagerTask.start().
            del job

    def _step(self, coroutine: Coroutine[Any, Any, Any], name: str, node: Node | None) -> EagerTask:
        graph_task = self._graph_task
        stepped = EagerTask(
            coroutine, loop=self._loop, context=graph_task.context.copy(), name=name, on_end=self._on_end
        )
        self.running[stepped] = node
        if (graph_task.reentrant_depth + 1) % NESTED_ON_ONE_STACK == 0:
            stepped.start_later()
            # Until its first step has been run, this backward has something ready.
            self._awake.wake(graph_task.reentrant_depth)
            self._loop.call_soon(self._awake.leave, graph_task.reentrant_depth)
        else:
            stepped.start()
        try:
            return stepped
        finally:
            # As in EagerTask.start().
            del stepped

    def _on_end(self, stepped: EagerTask) -> None:
        self._finished.append(stepped)
        if self._graph_task.has_error:
            self._discount(stepped)
        self._wake_driver()

    def _discount(self, stepped: EagerTask) -> None:
        """Count a body that has ended as no longer running, since after a failure nobody collects it."""
        node = self.running[stepped]
        if node is not None:
            executor: TurnExecutor = self._graph_task.executor  # type: ignore[assignment]  # it gave the turn
            executor.discount(node)

    def _wake_driver(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
            self._is_awake = True
            self._awake.wake(self._graph_task.reentrant_depth)

    def hold_up(self) -> None:
        """Start no further node until `let_go()`: a hook begins that none is to overlap."""
        with _HOLDING_UP:
            self._holding_up += 1

    def let_go(self) -> None:
        """Note that a hook has ended that held up further nodes."""
        with _HOLDING_UP:
            self._holding_up -= 1
            is_free = not self._holding_up
        if not is_free:
            return
        if threading.get_ident() == self._graph_task.thread_id:
            self._wake_driver()
            return
        # The hook of a node on a device with a worker.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake_driver)

    def is_held_up(self) -> bool:
        """Tell whether the next node has to wait for a hook that runs."""
        return self._holding_up > 0

    async def wait(self) -> None:
        """Wait until a body has ended or lets others start, and until deeper backward passes have got their turn."""
        depth = self._graph_task.reentrant_depth
        try:
            if self._finished:
                self._is_awake = True
                self._awake.wake(depth)
            else:
                self._wake = self._loop.create_future()
                try:
                    await self._wake
                finally:
                    self._wake = None
            await self._awake.turn(depth)
        finally:
            if self._is_awake:
                self._is_awake = False
                self._awake.leave(depth)

    async def yield_to_loop(self) -> None:
        """Let the loop run everything else that is ready, save the drivers of the backward passes around this one."""
        depth = self._graph_task.reentrant_depth
        self._awake.wake(depth)
        try:
            await yield_to_loop()
            await self._awake.turn(depth)
        finally:
            self._awake.leave(depth)

    def collect(self) -> None:
        """Hand the gradients of the bodies that have ended to the GraphTask; raise what the first one raised."""
        while self._finished:
            node, outputs = self._outcome(self._finished.popleft())
            if node is not None:
                executor: TurnExecutor = self._graph_task.executor  # type: ignore[assignment]  # it gave the turn
                executor.end_turn(node, outputs)
            # A leaf takes over an array that nobody else holds.
            del outputs
        self._graph_task.executor.node = None

    async def run_callbacks(self) -> None:
        """Run the final callbacks, also those that are queued meanwhile, one after the other."""
        completion, pace = self._graph_task.completion, Pace()
        while completion is not None and (callback := completion.next_callback()) is not None:
            stepped = self._step(called(callback), f"final callback of backward {self._graph_task.id}", None)
            # As in EagerTask.start().
            del stepped
            while self.running:
                await self.wait()
                self.collect()
            # They may be many, and each may queue another.
            await pace.keep()

    async def let_a_cancellation_in(self) -> None:
        """Suspend if the driver's task has been cancelled since the bodies began, and has not been told.

        A body may have done so without suspending. The task counts as cancelled then, so the backward must too.
        """
        if _cancels_of_driver(self._loop) > self._cancels_before:
            await asyncio.sleep(0)

    def _outcome(self, stepped: EagerTask) -> tuple[Node | None, tuple[Any, ...] | None]:
        node = self.running.pop(stepped)
        self._graph_task.executor.node = node
        if stepped.cancelled():
            what = "a final callback" if node is None else f"the body of {node.name}"
            error: BaseException | None = stepped.cancelled_by or asyncio.CancelledError(f"{what} was cancelled")
        else:
            error = stepped.exception()
        if error is None:
            return node, stepped.result()
        self._raised = error
        try:
            raise error
        finally:
            # As in EagerTask.start().
            del stepped, error

    async def end_all(self, error: BaseException) -> None:
        """End the bodies that still run, since the backward has failed with `error`; theirs become notes of it."""
        is_closed = isinstance(error, GeneratorExit) and error is not self._raised
        # The traceback of the error leads back here: leave no cycle.
        self._raised = None
        for ended in self._finished:
            self._discount(ended)
        try:
            # A driver that is itself being closed may not await: there is no loop any more.
            if not is_closed:
                await self._cancel_all(error)
        finally:
            self._finished.clear()
            # Also where the driver was closed while it waited for their end.
            self._close_all(error)

    def _close_all(self, error: BaseException) -> None:
        """Close the bodies that still run, without a turn of the loop.

        Raises:
            BaseException: what the first body raised that did not want to be closed, once all others are.
        """
        refused: BaseException | None = None
        while self.running:
            stepped, node = self.running.popitem()
            try:
                later = stepped.close()
            except BaseException as raised:
                # As of any coroutine that is closed; most often it awaited something in its clean-up.
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
            del error, refused, later, stepped

    async def _cancel_all(self, error: BaseException) -> None:
        """Cancel the bodies that still run and wait for their end."""
        failed = {stepped for stepped in self.running if stepped.done()}
        for stepped in self.running:
            # Where a loop that ends cancels bodies and driver alike, a body's clean-up is not cancelled in turn.
            if not (stepped.cancelling() and isinstance(error, asyncio.CancelledError)):
                stepped.cancel()
        interrupted: asyncio.CancelledError | None = None
        while not all(stepped.done() for stepped in self.running):
            try:
                self._finished.clear()
                await self.wait()
            except asyncio.CancelledError as again:
                interrupted = again
        for stepped, node in self.running.items():
            if not stepped.cancelled() and (later := stepped.exception()) is not None:
                when = "before it could be cancelled" if stepped in failed else "while it was being cancelled"
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
    """The drivers that are about to go on, of one outermost backward on one loop and of all nested in it.

    A driver is counted from when it is woken until it goes on. One that finds a deeper one counted waits until that
    has gone on. Twenty thousand may wake up at once: each step costs the logarithm of that.

    Args:
        loop: the loop that runs the drivers.
    """

    __slots__ = ("_counts", "_depths", "_next_arrival", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        #: How many drivers are counted, by their reentrant depth; of each depth in `_depths`.
        self._counts: dict[int, int] = {}
        #: A heap of the negatives of those depths.
        self._depths: list[int] = []
        #: A heap of those that wait, the deepest first and then the first to come.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._next_arrival = itertools.count().__next__

    def __len__(self) -> int:
        """Return how many drivers are counted."""
        return sum(self._counts.values())

    def wake(self, depth: int) -> None:
        """Count a driver that is about to go on."""
        if depth not in self._counts:
            self._counts[depth] = 0
            heappush(self._depths, -depth)
        self._counts[depth] += 1

    async def turn(self, depth: int) -> None:
        """Wait until no deeper driver is about to go on, nor one as deep that came before; suspends only if one is."""
        is_behind = bool(self._waiting) and -self._waiting[0][0] >= depth
        while is_behind or self._deepest() > depth:
            is_behind = False
            future = self.loop.create_future()
            heappush(self._waiting, (-depth, self._next_arrival(), future))
            await future

    def leave(self, depth: int) -> None:
        """Count a driver no longer: it goes on now, or it has been cancelled."""
        self._counts[depth] -= 1
        if self._waiting and not self.loop.is_closed():
            # Later, since the driver goes on only once this has returned. It may be closed in any thread.
            self.loop.call_soon_threadsafe(self._let_next_go)

    def _deepest(self) -> int:
        depths, counts = self._depths, self._counts
        while depths and not counts[-depths[0]]:
            del counts[-heappop(depths)]
        return -depths[0] if depths else -1

    def _let_next_go(self) -> None:
        waiting = self._waiting
        while waiting and waiting[0][2].done():
            heappop(waiting)
        if waiting and -waiting[0][0] >= self._deepest():
            heappop(waiting)[2].set_result(None)
