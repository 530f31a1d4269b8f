"""The lock of a node: no two backward passes run its body, its hooks and its release at the same time.

Several backward passes may run one graph at once: from tasks of one loop, from loops in several threads, or blocking
beside a loop. Only nodes that run as NodeTasks are locked. The body of a plain node is a pure function of what it
saved, so that running it twice at a time makes no difference.

The lock is part of the node's `NodeMeta`. Taking a free lock reads and sets one field under a mutex; it neither
suspends nor allocates. A NodeTask that finds the lock taken queues, first come first served, unless its wait could not
end:

- A body that holds the lock calls a backward that runs through the same node, itself or by a request that it waits for:
  the inner NodeTask gets the lock as well.
- Two bodies each wait, in a backward of their own, for the node that the other one holds: the later one gets the lock.
  Both bodies are suspended at an `await` then, as in the first case.
- A node that is `concurrent` admits together all backward passes that keep the graph, and one whose rule takes several
  rows those that run together. One that releases the graph waits for all of them, and has the lock alone.
- A blocking backward would block the event loop that is to run the holder's body: it raises a BlockingError.
- The holder's event loop was closed in mid-backward, or it runs in the process that this one was forked from: that body
  never goes on, and the lock counts as free.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, final

from ...errors import BlockingError
from ..graph.naming import identify
from ..settings.context import BLOCKING, LOOP_BELOW, ROW
from ..settings.process import hold_in_forks
from .dependents import callers_of
from .device_limit import lend_to_dependencies
from .loops import OneShotEvent, loop_thread, running_loop

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from contextvars import Context

    from ..graph.node import Node, NodeMeta
    from .graph_task import GraphTask

__all__ = ["acquire", "forget_earlier", "release", "try_acquire"]

#: Guards the fields of all locks; held for a few lines at a time, and never while anything waits. Reentrant: the
#: garbage collector may close an abandoned body, which releases its lock, at any line.
_MUTEX = hold_in_forks(threading.RLock())


@final
class _LockTable:
    """What all locks share, guarded by the mutex."""

    __slots__ = ("deferred", "first_id", "is_busy", "waiters_by_blocked")

    def __init__(self) -> None:
        #: The id of the first backward of this process; those before run in the one that it was forked from.
        self.first_id = 0
        #: Whether the thread that holds the mutex is changing the queue of a lock.
        self.is_busy = False
        #: Locks that the same thread has to release once it has finished that change.
        self.deferred: deque[tuple[NodeMeta, GraphTask]] = deque()
        #: The waiters, by what cannot go on before them: each body that they run inside of, as a GraphTask and a node
        #: of it, and each thread that they block.
        self.waiters_by_blocked: dict[Hashable, list[LockWaiter]] = {}


_LOCK_TABLE = _LockTable()


@final
class Contention:
    """The queue and the further holders of a lock; a lock has one while several GraphTasks want it."""

    __slots__ = ("co_holders", "shared", "waiters")

    def __init__(self) -> None:
        #: GraphTasks that got the lock although another one holds it, in order. Keys of a dict, for fast removal: a
        #: backward may nest through one node thousands of levels deep.
        self.co_holders: dict[GraphTask, None] = {}
        self.waiters: deque[LockWaiter] = deque()
        #: What all holders share the lock by; None where one of them has it alone.
        self.shared: object = None


@final
class LockWaiter:
    """A NodeTask that waits for its node's lock, in a task of a loop or in a thread that it blocks.

    The node does not keep the event, and so no task of a loop that is dropped.

    Args:
        task: its backward.
        node: the node.
        event: what it awaits; None where it blocks its thread.
    """

    __slots__ = (
        "_event",
        "_thread_event",
        "blocked_threads",
        "enclosing_bodies",
        "is_queued",
        "node",
        "shared",
        "task",
    )

    def __init__(self, task: GraphTask, node: Node, event: OneShotEvent | None) -> None:
        self.task: GraphTask = task
        self.node: Node = node
        self.is_queued: bool = False
        #: Whom it shares the lock with; None where it has to have it alone.
        self.shared: object = _shared_by(task, node)
        #: The bodies that this NodeTask runs inside of; they cannot go on before it has ended. Found once: those who
        #: wait for a request may go before it has ended.
        self.enclosing_bodies: dict[tuple[GraphTask, Node | None], None] = dict.fromkeys(_bodies_around(task))
        #: The threads that this wait blocks, with all bodies and event loops in them: its own if it blocks, and those
        #: that block for a backward which this NodeTask runs inside of.
        self.blocked_threads: set[int] = set() if event is not None else {loop_thread() or threading.get_ident()}
        for around in (task, *(body for body, _ in self.enclosing_bodies)):
            if around.scheduler is None:
                self.blocked_threads.add(_driving_thread(around))
        self._event = None if event is None else weakref.ref(event)
        self._thread_event = threading.Event() if event is None else None

    def blocks(self) -> Iterator[Hashable]:
        """Yield the bodies and threads that cannot go on before this NodeTask has ended."""
        yield from self.enclosing_bodies
        yield from self.blocked_threads

    def wake(self) -> bool:
        """End the wait, from any thread; return False where the loop that waits is closed, or has been collected."""
        if self._thread_event is not None:
            self._thread_event.set()
            return True
        assert self._event is not None
        event = self._event()
        return event is not None and event.set_threadsafe()

    async def wait(self) -> None:
        """Wait until this NodeTask has the lock: suspends, or blocks where the caller may not suspend."""
        if self._thread_event is not None:
            self._thread_event.wait()
        else:
            # The caller keeps it meanwhile.
            assert self._event is not None
            event = self._event()
            assert event is not None
            await event


def _bodies_around(task: GraphTask) -> Iterator[tuple[GraphTask, Node | None]]:
    """Yield the bodies that a backward runs inside of: those that have called it, and those that wait for a request."""
    stack, seen = [task], {task}
    while stack:
        inner = stack.pop()
        if inner.outer is not None:
            callers: list[tuple[GraphTask, Node | None]] = [(inner.outer, inner.outer_node)]
        else:
            callers = list(_bodies_that_ask(inner.context))
        for backward, node in callers:
            yield backward, node
            if backward not in seen:
                seen.add(backward)
                stack.append(backward)


def _bodies_that_ask(context: Context) -> Iterator[tuple[GraphTask, Node | None]]:
    """Yield the bodies that wait for the request that runs in a context, also by a request that has made it."""
    contexts = [context]
    seen: set[int] = set()
    while contexts:
        for place in callers_of(contexts.pop()):
            if place.backward is not None:
                yield place.backward, place.node
            elif id(place) not in seen:
                seen.add(id(place))
                contexts.append(place.context)


def forget_earlier(first_id: int) -> None:
    """Have backward passes with a lower id hold no lock and wait for none: in a forked child they never go on."""
    _LOCK_TABLE.first_id = first_id


def try_acquire(meta: NodeMeta, task: GraphTask, node: Node | None = None) -> bool:
    """Take the lock for `task` if it is free, or if those that hold it share it; tell whether so. Never suspends.

    Args:
        meta: has the lock.
        task: the backward.
        node: the node of the lock; None to share it with nobody.
    """
    with _MUTEX:
        # A holder that no longer runs was interrupted between the end of its body and the release of the lock.
        if meta.holder is None or not meta.holder.is_running:
            meta.holder = task
            return True
    return node is not None and _share(meta, node, task)


async def acquire(meta: NodeMeta, node: Node, task: GraphTask) -> None:
    """Wait for a lock that another task holds, and take it; suspends until then.

    The caller must `release` the lock even if this raises: a task that is cancelled may have got it meanwhile.

    Raises:
        BlockingError: the caller blocks this thread's event loop, which must run before the lock can be released.
    """
    if _share(meta, node, task):
        return
    event = None if BLOCKING.get() else OneShotEvent(running_loop())
    waiter = LockWaiter(task, node, event)
    try:
        if not _acquire_or_queue(waiter, meta):
            lend_to_dependencies(node)
            await waiter.wait()
    except BaseException:
        _leave_queue(waiter, meta)
        raise


def _shared_by(task: GraphTask, node: Node) -> object:
    """Return what a backward shares the lock of a node by, with all others that share it by the same; None for nobody.

    One that releases the graph writes into the node, as one that remembers its answer does.
    """
    is_concurrent = node.concurrent
    if not (is_concurrent or node.takes_rows) or not task.keep_graph or (node.is_memoized and task.until_success):
        return None
    if is_concurrent:
        return True
    row = task.context.get(ROW)
    return None if row is None or not row.is_here() else row.together


def _share(meta: NodeMeta, node: Node, task: GraphTask) -> bool:
    """Take the lock together with those that hold it, if nobody else waits for it; tell whether it was taken."""
    shared = _shared_by(task, node)
    if shared is None:
        return False
    # As in `_editing_queues`, without a generator: at each rule all rows of a Jacobian come by here, and by `release`.
    with _MUTEX:
        before, _LOCK_TABLE.is_busy = _LOCK_TABLE.is_busy, True
        try:
            contention: Any = meta.contention
            if contention is None:
                holder = meta.holder
                if holder is None or not holder.is_running or _shared_by(holder, node) != shared:
                    return False
                contention = meta.contention = Contention()
                contention.shared = shared
            if contention.waiters or contention.shared != shared:
                return False
            contention.co_holders[task] = None
            return True
        finally:
            _LOCK_TABLE.is_busy = before
            if _LOCK_TABLE.deferred:
                _end_edit(before)


def release(meta: NodeMeta, task: GraphTask) -> None:
    """Release the lock if `task` holds it, and give it to the first waiter. Never suspends."""
    with _MUTEX:
        contention: Any = meta.contention
        if contention is None:
            if meta.holder is task:
                meta.holder = None
        elif _LOCK_TABLE.is_busy:
            _LOCK_TABLE.deferred.append((meta, task))
        elif not contention.waiters and task in contention.co_holders:
            # Nearly all rows of a Jacobian. What is set is whole after each line, whatever the garbage collector runs.
            del contention.co_holders[task]
            if not contention.co_holders:
                meta.contention = None
        else:
            before, _LOCK_TABLE.is_busy = _LOCK_TABLE.is_busy, True
            try:
                _remove_holder(meta, contention, task)
                _grant_to_next(meta, contention)
            finally:
                _end_edit(before)


@contextlib.contextmanager
def _editing_queues() -> Iterator[None]:
    """Hold the mutex while queues change; releases by the garbage collector meanwhile are deferred to the end."""
    with _MUTEX:
        before, _LOCK_TABLE.is_busy = _LOCK_TABLE.is_busy, True
        try:
            yield
        finally:
            _end_edit(before)


def _end_edit(before: bool) -> None:
    """Note that a change of queues has ended, in one that had begun before or not; the caller holds the mutex."""
    _LOCK_TABLE.is_busy = before
    while _LOCK_TABLE.deferred and not _LOCK_TABLE.is_busy:
        release(*_LOCK_TABLE.deferred.popleft())


def _acquire_or_queue(waiter: LockWaiter, meta: NodeMeta) -> bool:
    """Take the lock if it is free or the wait could not end, and otherwise queue; tell whether it was taken."""
    fresh = Contention()
    with _editing_queues():
        # Set first: from here on `release` of this lock takes the slow path, through the queue.
        contention: Any = meta.contention
        if contention is None:
            contention = meta.contention = fresh
            if meta.holder is not None:
                contention.shared = _shared_by(meta.holder, waiter.node)
        try:
            for holder in _holders(meta):
                if _cannot_continue(holder, waiter.node):
                    _remove_holder(meta, contention, holder)
            _grant_to_next(meta, contention)
            meta.contention = contention
            if meta.holder is None:
                meta.holder = waiter.task
                return True
            cycle = _find_cycle(waiter, meta)
            if cycle is Cycle.THROUGH_A_BODY:
                contention.co_holders[waiter.task] = None
                contention.shared = None
                return True
            if cycle is Cycle.THROUGH_A_THREAD:
                raise _stall_error(waiter.node)
            waiter.is_queued = True
            contention.waiters.append(waiter)
            for blocked in waiter.blocks():
                _LOCK_TABLE.waiters_by_blocked.setdefault(blocked, []).append(waiter)
            return False
        finally:
            _drop_if_unused(meta, contention)


def _remove_holder(meta: NodeMeta, contention: Any, task: GraphTask) -> None:
    if task in contention.co_holders:
        del contention.co_holders[task]
    elif meta.holder is task:
        meta.holder = contention.co_holders.popitem()[0] if contention.co_holders else None


def _grant_to_next(meta: NodeMeta, contention: Any) -> None:
    """Give a free lock to the first waiter that can still be woken, and to those behind it that share it with that."""
    while contention.waiters:
        waiter = contention.waiters[0]
        if waiter.task.id < _LOCK_TABLE.first_id:
            # Not woken: its loop shares a pipe with that of the parent.
            _unqueue(waiter, contention)
            continue
        if meta.holder is not None and (waiter.shared is None or waiter.shared != contention.shared):
            break
        _unqueue(waiter, contention)
        if not waiter.wake():
            continue
        if meta.holder is None:
            meta.holder, contention.shared = waiter.task, waiter.shared
        else:
            contention.co_holders[waiter.task] = None
    _drop_if_unused(meta, contention)


def _drop_if_unused(meta: NodeMeta, contention: Any) -> None:
    if not contention.waiters and not contention.co_holders:
        meta.contention = None


def _leave_queue(waiter: LockWaiter, meta: NodeMeta) -> None:
    with _editing_queues():
        contention: Any = meta.contention
        if waiter.is_queued:
            _unqueue(waiter, contention)
            # Those behind it may share the lock with those who hold it.
            _grant_to_next(meta, contention)


def _unqueue(waiter: LockWaiter, contention: Any) -> None:
    waiter.is_queued = False
    contention.waiters.remove(waiter)
    for blocked in waiter.blocks():
        waiting = _LOCK_TABLE.waiters_by_blocked[blocked]
        waiting.remove(waiter)
        if not waiting:
            del _LOCK_TABLE.waiters_by_blocked[blocked]


def _cannot_continue(holder: GraphTask, node: Node) -> bool:
    """Tell whether a body that holds a lock never goes on."""
    if holder.id < _LOCK_TABLE.first_id:
        return True
    job = None if holder.remote_jobs is None else holder.remote_jobs.get(node)
    if job is not None and not job.has_ended():
        # It goes on in the thread of a device, even if the loop that drives its backward is closed.
        return False
    scheduler = holder.scheduler
    return not holder.is_running or (scheduler is not None and scheduler.loop.is_closed())


def _holders(meta: NodeMeta) -> list[GraphTask]:
    contention: Any = meta.contention
    holders = [] if meta.holder is None else [meta.holder]
    return holders if contention is None else [*holders, *contention.co_holders]


def _holds(meta: NodeMeta, task: GraphTask) -> bool:
    contention: Any = meta.contention
    return meta.holder is task or (contention is not None and task in contention.co_holders)


def _driving_thread(holder: GraphTask) -> int:
    """Return the thread that drives a backward."""
    below = holder.context.get(LOOP_BELOW)
    return holder.thread_id if below is None or below.stack != holder.thread_id else below.loop


def _thread_of_body(holder: GraphTask, node: Node | None) -> int | None:
    """Return the thread that runs the body of `node` for `holder`; None where the body has not begun."""
    job = None if holder.remote_jobs is None or node is None else holder.remote_jobs.get(node)
    return _driving_thread(holder) if job is None else job.thread


@final
class Cycle(Enum):
    """Whether a wait for a lock is part of a cycle, and of which kind."""

    NONE = "the wait can end"
    THROUGH_A_BODY = "a body that holds the lock cannot end before the waiter has run"
    THROUGH_A_THREAD = "a body that holds the lock has to go on in a thread that the waiter blocks"


def _find_cycle(waiter: LockWaiter, meta: NodeMeta) -> Cycle:
    """Tell whether the holders of the lock wait, directly or through other waiters, for `waiter` itself."""
    if any(node is waiter.node and _holds(meta, task) for task, node in waiter.enclosing_bodies):
        return Cycle.THROUGH_A_BODY
    around = waiter.enclosing_bodies
    if not around and not waiter.blocked_threads:
        return Cycle.NONE
    found = Cycle.NONE
    stack = [(holder, waiter.node) for holder in _holders(meta)]
    seen = set(stack)
    while stack:
        body = stack.pop()
        if body in around:
            return Cycle.THROUGH_A_BODY
        thread = _thread_of_body(*body)
        if thread in waiter.blocked_threads:
            found = Cycle.THROUGH_A_THREAD
        # The body waits for every waiter inside of it or in its thread, and each of those for the holders of its lock.
        for blocked in (body, thread):
            for other in _LOCK_TABLE.waiters_by_blocked.get(blocked, ()):
                held_by = other.node.meta
                assert held_by is not None
                for holder in _holders(held_by):
                    if (holder, other.node) not in seen:
                        seen.add((holder, other.node))
                        stack.append((holder, other.node))
    return found


def _stall_error(node: Node) -> BlockingError:
    return BlockingError(
        f"{identify(node)} is being run by another backward that needs the event loop of "
        "this thread, and a blocking backward cannot wait for that. Await it instead: await ag.backward(...)"
    )
