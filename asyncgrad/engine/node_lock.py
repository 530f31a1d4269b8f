"""The lock of a node: a body, its hooks and its release never run twice at the same time.

Several backward calls may run one graph at once, from tasks of one loop, from loops in several threads, or blocking
beside a loop. Only nodes that run as NodeTasks are locked: the body of a plain node is a pure function of what it
saved, so that nobody can tell whether it runs alone.

The lock lies in the node's `NodeMeta`. Free, it costs a look under a mutex that is held for nothing else; it neither
suspends nor allocates. Who finds it taken queues, first come first served, unless waiting could not end:

- A backward called in the body that holds the lock runs through that body's node: it enters.
- Two bodies each wait, in a backward of their own, for the node that the other one holds: the later one enters. Both
  bodies stand at an `await` of theirs then, as in the case above.
- A blocking backward would stall the very loop that is to run the holder's body: it raises.
- The holder's loop was closed in mid-backward: that body will never go on, and the lock is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, final

from ..context import BLOCKING, LOOP_BELOW
from ..errors import BlockingError
from ..graph.naming import identify
from .loops import loop_thread, running_loop

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from ..graph.node import Node, NodeMeta
    from .graph_task import GraphTask

__all__ = ["acquire", "release", "try_acquire"]

#: Guards the fields of all locks; held for a few lines at a time, and never over anything that waits. One thread may
#: take it twice: the garbage collector may close an abandoned body, which gives its lock back, at any line.
_MUTEX = threading.RLock()


@final
class _Desk:
    """What all locks share, under the mutex."""

    __slots__ = ("is_occupied", "late", "waiting_inside")

    def __init__(self) -> None:
        #: Whether a thread is changing the queue of a lock.
        self.is_occupied = False
        #: Locks that were given back in the midst of that, by the same thread.
        self.late: deque[tuple[NodeMeta, GraphTask]] = deque()
        #: Who waits, by what they hold up: each body that they run inside of, as a GraphTask and a node of it, and
        #: the thread that they block.
        self.waiting_inside: dict[Hashable, list[LockWaiter]] = {}


_DESK = _Desk()


@final
class Contention:
    """What a lock has while more than one GraphTask is concerned with it."""

    __slots__ = ("also_inside", "waiters")

    def __init__(self) -> None:
        #: GraphTasks that entered although another one was inside, in order. As keys, since a backward may nest
        #: through one node thousands of levels deep.
        self.also_inside: dict[GraphTask, None] = {}
        self.waiters: deque[LockWaiter] = deque()


@final
class LockWaiter:
    """A NodeTask that waits for its node's lock, in a task of a loop or in a thread that blocks."""

    __slots__ = ("_future", "_loop", "_woken", "is_queued", "node", "stalled", "task")

    def __init__(self, task: GraphTask, node: Node, loop: asyncio.AbstractEventLoop | None) -> None:
        self.task = task
        self.node = node
        self.is_queued = False
        #: The threads whose bodies, and whose event loops if they have any, stand still for as long as this waits: its
        #: own where it blocks, and those that block for what this runs inside of.
        self.stalled = set() if loop is not None else {loop_thread() or threading.get_ident()}
        around: GraphTask | None = task
        while around is not None:
            if around.awake is None:
                self.stalled.add(_driver_of(around))
            around = around.outer
        self._loop = loop
        self._future: asyncio.Future[None] | None = None if loop is None else loop.create_future()
        self._woken = threading.Event() if loop is None else None

    def bodies_around(self) -> Iterator[tuple[GraphTask, Node | None]]:
        """Give the bodies that this NodeTask runs inside of, and that cannot go on before it has ended."""
        task = self.task
        while task.outer is not None:
            yield task.outer, task.outer_node
            task = task.outer

    def holds_up(self) -> Iterator[Hashable]:
        """Give what cannot go on before this NodeTask has ended."""
        yield from self.bodies_around()
        yield from self.stalled

    def wake(self) -> bool:
        """Tell the one that waits to look; False where its loop is closed."""
        if self._woken is not None:
            self._woken.set()
            return True
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._resolve)
        except RuntimeError:
            return False
        return True

    def _resolve(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        """Wait until the lock is ours: suspends, or blocks where the caller may not suspend."""
        if self._woken is not None:
            self._woken.wait()
        else:
            assert self._future is not None
            await self._future


def try_acquire(meta: NodeMeta, task: GraphTask) -> bool:
    """Take a free lock for `task`; tell whether it was free. Never suspends."""
    with _MUTEX:
        # An interrupt may have come between a body's end and its release; then all of that backward has ended.
        if meta.holder is None or not meta.holder.is_running:
            meta.holder = task
            return True
        return False


async def acquire(meta: NodeMeta, node: Node, task: GraphTask) -> None:
    """Take a lock that was found taken, when it is this task's turn; suspends until then.

    Whatever it raises, `release` is to follow: a task that is cancelled may have been given the lock meanwhile.

    Raises:
        BlockingError: the caller blocks this thread's event loop, and the lock will not be free before that loop runs.
    """
    waiter = LockWaiter(task, node, None if BLOCKING.get() else running_loop())
    try:
        if not _enter(waiter, meta):
            await waiter.wait()
    except BaseException:
        _leave_queue(waiter, meta)
        raise


def release(meta: NodeMeta, task: GraphTask) -> None:
    """Give a lock back, if it is this task's, and hand it to the one that has waited longest. Never suspends."""
    with _MUTEX:
        contention: Any = meta.contention
        if contention is None:
            if meta.holder is task:
                meta.holder = None
        elif _DESK.is_occupied:
            _DESK.late.append((meta, task))
        else:
            with _at_the_desk():
                _step_out(meta, contention, task)
                _hand_on(meta, contention)


@contextlib.contextmanager
def _at_the_desk() -> Iterator[None]:
    """Change queues in peace: what the garbage collector makes this thread give back meanwhile waits until then."""
    with _MUTEX:
        before, _DESK.is_occupied = _DESK.is_occupied, True
        try:
            yield
        finally:
            _DESK.is_occupied = before
            while _DESK.late and not _DESK.is_occupied:
                release(*_DESK.late.popleft())


def _enter(waiter: LockWaiter, meta: NodeMeta) -> bool:
    """Take the lock if it is free or waiting for it could not end, and else queue; tell which."""
    fresh = Contention()
    with _at_the_desk():
        # First of all: from now on whoever gives this lock back comes to the desk.
        contention: Any = meta.contention
        if contention is None:
            contention = meta.contention = fresh
        try:
            for holder in _holders(meta):
                if _is_gone(holder, waiter.node):
                    _step_out(meta, contention, holder)
            _hand_on(meta, contention)
            meta.contention = contention
            if meta.holder is None:
                meta.holder = waiter.task
                return True
            cycle = _find_cycle(waiter, meta)
            if cycle is Cycle.THROUGH_A_BODY:
                contention.also_inside[waiter.task] = None
                return True
            if cycle is Cycle.THROUGH_A_THREAD:
                raise _would_stall(waiter.node)
            waiter.is_queued = True
            contention.waiters.append(waiter)
            for held_up in waiter.holds_up():
                _DESK.waiting_inside.setdefault(held_up, []).append(waiter)
            return False
        finally:
            _tidy(meta, contention)


def _step_out(meta: NodeMeta, contention: Any, task: GraphTask) -> None:
    if task in contention.also_inside:
        del contention.also_inside[task]
    elif meta.holder is task:
        meta.holder = contention.also_inside.popitem()[0] if contention.also_inside else None


def _hand_on(meta: NodeMeta, contention: Any) -> None:
    """Give a lock that is free to the first waiter that can still be woken."""
    while meta.holder is None and contention.waiters:
        waiter = contention.waiters[0]
        _unqueue(waiter, contention)
        if waiter.wake():
            meta.holder = waiter.task
    _tidy(meta, contention)


def _tidy(meta: NodeMeta, contention: Any) -> None:
    if not contention.waiters and not contention.also_inside:
        meta.contention = None


def _leave_queue(waiter: LockWaiter, meta: NodeMeta) -> None:
    with _at_the_desk():
        contention: Any = meta.contention
        if waiter.is_queued:
            _unqueue(waiter, contention)
            _tidy(meta, contention)


def _unqueue(waiter: LockWaiter, contention: Any) -> None:
    waiter.is_queued = False
    contention.waiters.remove(waiter)
    for held_up in waiter.holds_up():
        waiting = _DESK.waiting_inside[held_up]
        waiting.remove(waiter)
        if not waiting:
            del _DESK.waiting_inside[held_up]


def _is_gone(holder: GraphTask, node: Node) -> bool:
    """Tell whether a body that has a lock will never go on."""
    job = None if holder.away is None else holder.away.get(node)
    if job is not None and not job.has_ended():
        # It goes on in the thread of a device, whatever has become of the loop that drives its backward.
        return False
    awake = holder.awake
    return not holder.is_running or (awake is not None and awake.loop.is_closed())


def _holders(meta: NodeMeta) -> list[GraphTask]:
    contention: Any = meta.contention
    holders = [] if meta.holder is None else [meta.holder]
    return holders if contention is None else [*holders, *contention.also_inside]


def _holds(meta: NodeMeta, task: GraphTask) -> bool:
    contention: Any = meta.contention
    return meta.holder is task or (contention is not None and task in contention.also_inside)


def _driver_of(holder: GraphTask) -> int:
    """Return the thread that drives a backward."""
    below = holder.context.get(LOOP_BELOW)
    return holder.thread_id if below is None or below.stack != holder.thread_id else below.loop


def _thread_of(holder: GraphTask, node: Node | None) -> int | None:
    """Return the thread that is to go on with the body of a node that `holder` runs; None where it has not begun."""
    job = None if holder.away is None or node is None else holder.away.get(node)
    return _driver_of(holder) if job is None else job.thread


@final
class Cycle(Enum):
    """Why a wait could not end."""

    NONE = "it can"
    THROUGH_A_BODY = "a body that has the lock cannot end before the one that waits has run"
    THROUGH_A_THREAD = "a body that has the lock is to go on in the thread that the one that waits blocks"


def _find_cycle(waiter: LockWaiter, meta: NodeMeta) -> Cycle:
    """Tell whether what `waiter` waits for waits in turn, perhaps by way of others, for `waiter`."""
    if any(node is waiter.node and _holds(meta, task) for task, node in waiter.bodies_around()):
        return Cycle.THROUGH_A_BODY
    around = set(waiter.bodies_around())
    if not around and not waiter.stalled:
        return Cycle.NONE
    found = Cycle.NONE
    stack = [(holder, waiter.node) for holder in _holders(meta)]
    seen = set(stack)
    while stack:
        body = stack.pop()
        if body in around:
            return Cycle.THROUGH_A_BODY
        thread = _thread_of(*body)
        if thread in waiter.stalled:
            found = Cycle.THROUGH_A_THREAD
        # The body is held up by what waits inside of it or blocks its thread, and that by who holds what it waits for.
        for held_up in (body, thread):
            for other in _DESK.waiting_inside.get(held_up, ()):
                held_by = other.node.meta
                assert held_by is not None
                for holder in _holders(held_by):
                    if (holder, other.node) not in seen:
                        seen.add((holder, other.node))
                        stack.append((holder, other.node))
    return found


def _would_stall(node: Node) -> BlockingError:
    return BlockingError(
        f"{identify(node)} is being run by another backward that needs the event loop of "
        "this thread, and a blocking backward cannot wait for that. Await it instead: await ag.backward(...)"
    )
