"""describe_running: what every running backward of this process waits for, as a record that prints itself.

It reads the state that the engine has anyway, so nothing is kept for it while a backward runs. A backward that has
suspended is in `SUSPENDED`. One that has not is driven by a thread, on whose stack the frame of its driver is.

No lock is taken, since a signal handler may call it in the middle of any line. Other threads go on meanwhile: each
fact was true when it was read, and a node that changes just then may be left out.
"""

from __future__ import annotations

import html
import linecache
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from traceback import FrameSummary
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, final

from ..arrays.values import counted
from ..graph.anomaly import line_of
from ..graph.naming import HIGHEST_NUMBER, identify
from ..settings.callers import is_own_file
from ..settings.context import CURRENT_GRAPH_TASK
from ..settings.scheduling import CLOCK
from .await_stack import is_asyncio, local_of, named_wait, suspended_frames, tasks_behind
from .body import Body
from .dependency_executor import DependencyExecutor
from .device import open_devices
from .device_limit import acquire_permit
from .driver import DRIVING
from .exec_info import MAX_COUNTED, count_reachable
from .graph_task import all_suspended
from .node_lock import acquire
from .remote import join
from .workers import WORKER_POOL

if TYPE_CHECKING:
    from ..graph.node import Node
    from .graph_task import GraphTask

__all__ = [
    "BackwardDescription",
    "EngineDescription",
    "LockDescription",
    "NodeDescription",
    "QueueDescription",
    "describe_running",
    "described",
]

T = TypeVar("T")

#: The names that a list shows; the rest is counted.
SHOWN = 6
#: If more backward passes run, no graph is walked to count its nodes.
MAX_WALKED = 100

#: What reading the state of another thread may raise while that changes it.
_RACES = (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


@final
@dataclass(frozen=True, slots=True)
class LockDescription:
    """The lock of a node that a backward waits for.

    Attributes:
        holders: the ids of the backward passes that hold it.
        waiting: how many wait for it.
    """

    holders: tuple[int, ...]
    waiting: int

    def __str__(self) -> str:
        held = " and ".join(f"backward {holder}" for holder in self.holders) or "nobody now"
        return f"the lock of this node, held by {held}; {self.waiting} waiting"


@final
@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node that has begun and not ended, or a final callback.

    Attributes:
        name: such as `ScaleBackward (node #7)`.
        number: its sequence number; None for a leaf or a callback.
        device: the name of the device of its gradients.
        state: "suspended", "running" or "queued".
        thread: the name of the thread that runs it now; None where none does.
        waits_for: what it waits for, where that is known.
        seconds: how long ago it began; None where that is unknown.
        line: the line of its forward call, if that ran in anomaly mode, or else the line of a body of the user's.
        lock: the lock that it waits for.
        stack: where its body is now, outermost call first.
    """

    name: str
    number: int | None
    device: str | None
    state: str
    thread: str | None
    waits_for: str | None
    seconds: float | None
    line: str | None
    lock: LockDescription | None
    stack: tuple[FrameSummary, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        where = [self.state]
        if self.thread is not None:
            where.append(f"in thread {self.thread}")
        if self.device not in (None, "cpu"):
            where.append(f"device '{self.device}'")
        if self.seconds is not None:
            where.append(f"for {self.seconds:.3g} s")
        line = f"; {self.line}" if self.line else ""
        yield f"{self.name}: {', '.join(where)}{line}"
        if self.waits_for is not None:
            yield f"  waits for {self.waits_for}"
        yield from _stack_lines(self.stack)


@final
@dataclass(frozen=True, slots=True)
class BackwardDescription:
    """A backward that is running.

    Attributes:
        id: that of its GraphTask.
        parent: that of the GraphTask whose body or hook called it; None where none did.
        depth: its reentrant depth.
        root: the name of the node that it started from.
        state: "running", "suspended", or "abandoned" where its event loop is closed.
        task: the name of the asyncio task that awaits it; None where none is known, as for a blocking one.
        thread: the name of the thread that drives it.
        seconds: how long ago it began.
        nodes_done: how many nodes have ended; None where that is unknown.
        nodes: how many nodes it runs in all; None where that is unknown.
        running: the nodes that have begun and not ended.
        ready: the names of the first nodes that are ready and have not begun.
        ready_count: how many nodes are ready and have not begun.
        stack: the line that called it, and its callers, outermost call first.
    """

    id: int
    parent: int | None
    depth: int
    root: str
    state: str
    task: str | None
    thread: str | None
    seconds: float | None
    nodes_done: int | None
    nodes: int | None
    running: tuple[NodeDescription, ...]
    ready: tuple[str, ...]
    ready_count: int
    stack: tuple[FrameSummary, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        facts = [self.state, f"depth {self.depth}"]
        if self.parent is not None:
            facts.append(f"inside of backward {self.parent}")
        if self.nodes_done is not None and self.nodes is not None:
            facts.append(f"{self.nodes_done:,} of {counted(self.nodes, 'node')} done")
        if self.seconds is not None:
            facts.append(f"for {self.seconds:.3g} s")
        yield f"backward {self.id} from {self.root}: {', '.join(facts)}"
        owner = f"thread {self.thread}" if self.task is None else f"task {self.task} in thread {self.thread}"
        yield f"  called by {owner}"
        yield from _stack_lines(self.stack)
        for node in self.running:
            yield from (f"  {line}" for line in node._lines())
        if self.ready_count:
            yield f"  ready: {_listed(self.ready, self.ready_count)}"


@final
@dataclass(frozen=True, slots=True)
class QueueDescription:
    """What runs and what waits at one place: the worker threads, or a device with a thread of its own.

    Attributes:
        place: "worker threads", or the name of the device.
        running: what runs there now; only for worker threads.
        queued: what waits there, the next one first for a device.
    """

    place: str
    running: tuple[str, ...]
    queued: tuple[str, ...]

    def __str__(self) -> str:
        facts = []
        if self.running:
            facts.append(f"running {_listed(self.running[:SHOWN], len(self.running))}")
        if self.queued:
            facts.append(f"queued {_listed(self.queued[:SHOWN], len(self.queued))}")
        return f"{self.place}: {'; '.join(facts)}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class EngineDescription:
    """What the running backward passes of a process wait for. It prints itself.

    Attributes:
        backwards: those that are running, oldest first.
        queues: the places at which something runs or waits.
    """

    backwards: tuple[BackwardDescription, ...]
    queues: tuple[QueueDescription, ...]

    def __str__(self) -> str:
        if not self.backwards and not self.queues:
            return "No backward is running in this process."
        count = len(self.backwards)
        head = "1 backward is running" if count == 1 else f"{count} backward passes are running"
        return "\n".join([f"{head} in this process.", *map(str, self.backwards), *map(str, self.queues)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(str(self).partition(chr(10))[0])}</p>"]
        for each in (*self.backwards, *self.queues):
            head, _, rest = html.escape(str(each)).partition("\n")
            parts.append(f"<details open><summary>{head}</summary><pre>{rest}</pre></details>")
        return "".join(parts)


def describe_running() -> EngineDescription:
    """Return what every running backward of this process waits for, as a record that prints itself.

    It names the nodes that have begun, where each is suspended or which thread runs it, the locks that nodes wait for
    and who holds them, and what is queued where. It may be called in any thread, in the event loop itself, in a hook,
    and in a signal handler; it never waits. The rest of the process goes on meanwhile, so two facts of one record may
    be a moment apart.

    Example:
        >>> import asyncio, asyncgrad as ag
        >>> async def main():
        ...     has_begun = asyncio.Event()
        ...     async def slow(grad):
        ...         has_begun.set()
        ...         await asyncio.Event().wait()
        ...     x = ag.tensor(2.0, requires_grad=True)
        ...     x.register_hook(slow)
        ...     task = asyncio.create_task((x * x).backward())
        ...     await has_begun.wait()
        ...     (backward,) = ag.engine.describe_running().backwards
        ...     task.cancel()
        ...     return backward.running[0].name, backward.running[0].waits_for
        >>> ag.run(main())
        ('AccumulateGrad (leaf of shape ())', "asyncio's Event.wait")
    """
    return described()[0]


def described(most: int | None = None, budget: int | None = None) -> tuple[EngineDescription, int]:
    """Return what `describe_running` returns, and how many backward passes are running.

    Args:
        most: how many of them are described, the oldest ones; None for all.
        budget: how many nodes are walked to count them, of all that are described; None for MAX_COUNTED of each.
    """
    stacks = _Stacks()
    try:
        # One that has ended is there as long as somebody holds it.
        found = {task.id: task for task in (*all_suspended(), *stacks.drivers) if task.is_running}
        for task in list(found.values()):
            outer = task.outer
            while outer is not None and outer.id not in found:
                found[outer.id] = outer
                outer = outer.outer
        oldest = sorted(found)[:most]
        if budget is not None:
            most_nodes = budget // max(len(oldest), 1)
        else:
            most_nodes = MAX_COUNTED if len(found) <= MAX_WALKED else 0
        backwards = [_describe(found[number], stacks, most_nodes) for number in oldest]
        return EngineDescription(tuple(one for one in backwards if one is not None), tuple(_queues())), len(found)
    finally:
        # It holds the frame of this function: leave no cycle.
        stacks.clear()


def _count_nodes(graph_task: GraphTask, most: int) -> tuple[int, int] | None:
    """Return how many nodes of a backward have ended, and how many there are; None where they cannot be counted.

    Where the executor has not counted them, a walk does, if there are no more than `most`.
    """
    executor, limits = graph_task.executor, graph_task.limits
    counts = None
    if isinstance(executor, DependencyExecutor):
        counts = executor.counts()
        if counts is not None and executor.is_whole:
            return counts
    if not most:
        return None
    total = count_reachable([graph_task.root], limits, most)
    if total is None:
        return None
    if counts is not None:
        remaining: int | None = counts[1] - counts[0]
    else:
        # A compiled function does not say which node it has suspended for:
        # test_a_compiled_node_that_waits_has_not_ended.
        begun = [node for node in (executor.node, *graph_task.node_tasks().values()) if node is not None]
        remaining = count_reachable(dict.fromkeys([*executor.ready(), *begun]), limits, most)
    return None if remaining is None else (total - remaining, total)


@final
class _Stacks:
    """The stacks of all threads."""

    __slots__ = ("drivers", "frames", "thread_of")

    def __init__(self) -> None:
        #: By thread, its frames, innermost first.
        self.frames: dict[int, list[FrameType]] = {}
        self.thread_of: dict[FrameType, int] = {}
        #: The backward passes that are driven now, each with the frame of its driver.
        self.drivers: dict[GraphTask, FrameType] = {}
        for thread, top in sys._current_frames().items():
            stack = self.frames[thread] = list(_outwards(top))
            for frame in stack:
                self.thread_of[frame] = thread
                if frame.f_code in DRIVING and (task := local_of(frame, "graph_task")) is not None:
                    self.drivers.setdefault(task, frame)
            del stack, top

    def inside(self, frame: FrameType) -> list[FrameType]:
        """Return the frames that a frame has called, outermost first, without those of a nested backward."""
        found: list[FrameType] = []
        for inner in reversed(self._part(frame, inner=True)):
            if inner.f_code in DRIVING:
                break
            found.append(inner)
        return found

    def around(self, frame: FrameType) -> list[FrameType]:
        """Return the frames that have called a frame, outermost first."""
        return self._part(frame, inner=False)[::-1]

    def _part(self, frame: FrameType, inner: bool) -> list[FrameType]:
        stack = self.frames[self.thread_of[frame]]
        index = stack.index(frame)
        return stack[:index] if inner else stack[index + 1 :]

    def clear(self) -> None:
        """Drop all frames."""
        self.frames.clear()
        self.thread_of.clear()
        self.drivers.clear()


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _try(function: Callable[..., T], *args: Any) -> T | None:
    """Return what a function does; None where what it reads was changed under its hands."""
    try:
        return function(*args)
    except _RACES:
        return None


def _describe(task: GraphTask, stacks: _Stacks, most: int) -> BackwardDescription | None:
    """Describe a backward; None if it has ended meanwhile."""
    if not task.is_running:
        return None
    frame = stacks.drivers.get(task)
    ready = _try(lambda: task.executor.ready()) or []
    counts = _try(_count_nodes, task, most) or (None, None)
    driver = None if task.driver is None else task.driver()
    driven_by = stacks.thread_of[frame] if frame is not None else task.thread_id
    around = stacks.around(frame) if frame is not None else _awaiting(driver)
    scheduler = task.scheduler
    state = "suspended" if frame is None else "running"
    # One that has not reached a node that suspends has no scheduler: it waits for the loop to turn.
    loop = scheduler.loop if scheduler is not None else None if driver is None else driver.get_loop()
    if loop is not None and loop.is_closed():
        state = "abandoned"
    if not task.is_running:
        return None
    return BackwardDescription(
        id=task.id,
        parent=None if task.outer is None else task.outer.id,
        depth=task.reentrant_depth,
        root=identify(task.root),
        state=state,
        task=None if driver is None else driver.get_name(),
        thread=_thread_name(driven_by),
        seconds=_seconds_since(task, getattr(task, "since", None)),
        nodes_done=counts[0],
        nodes=counts[1],
        running=tuple(_nodes(task, stacks, frame)),
        ready=tuple(_name(node) for node in ready[:SHOWN]),
        ready_count=len(ready),
        stack=_summaries(around),
    )


def _awaiting(driver: Any) -> list[FrameType]:
    """Return the frames of a suspended asyncio task down to the driver of a backward, outermost first."""
    found: list[FrameType] = []
    for frame in suspended_frames(None if driver is None else driver.get_coro()):
        if frame.f_code in DRIVING:
            return found
        found.append(frame)
    return found


def _nodes(task: GraphTask, stacks: _Stacks, frame: FrameType | None) -> Iterator[NodeDescription]:
    """Yield the nodes of a backward that have begun and not ended."""
    shown: set[Node | None] = set()
    for node_task, node in task.node_tasks().items():
        described = None if node_task.done() else _try(_describe_node_task, task, node_task, node, stacks)
        if described is not None:
            shown.add(node)
            yield described
    executor = getattr(task, "executor", None)
    node = None if executor is None else executor.node
    if frame is not None and node is not None and node not in shown:
        thread = _thread_name(stacks.thread_of[frame])
        yield _describe_node(task, node, "running", thread, None, stacks.inside(frame), None)


def _describe_node_task(task: GraphTask, node_task: Any, node: Node | None, stacks: _Stacks) -> NodeDescription:
    """Describe a NodeTask that has suspended once: it may run now, also in another thread."""
    since = getattr(node_task, "since", None)
    coroutine, waiter = node_task.get_coro(), node_task._fut_waiter
    job = None if task.remote_jobs is None or node is None else task.remote_jobs.get(node)
    if job is not None:
        if job.is_waiting():
            return _describe_node(task, node, "queued", None, since, [], f"a turn on device '{job.device}'")
        coroutine, waiter = job.coroutine, getattr(job._task, "_fut_waiter", None)
    frames = list(suspended_frames(coroutine))
    thread = next((stacks.thread_of[frame] for frame in frames if frame in stacks.thread_of), None)
    if thread is not None:
        inside = [frames[0], *stacks.inside(frames[0])]
        return _describe_node(task, node, "running", _thread_name(thread), since, inside, None)
    for is_queued, jobs in enumerate(WORKER_POOL.jobs()):
        for pooled in jobs:
            if isinstance(pooled.function, Body) and pooled.function.node is node and _task_of(pooled) is task:
                if is_queued:
                    return _describe_node(task, node, "queued", None, since, [], "a worker thread")
                inside = stacks.frames.get(pooled.thread or 0, [])[::-1]
                return _describe_node(task, node, "running", _thread_name(pooled.thread), since, inside, None)
    return _describe_node(task, node, "suspended", None, since, frames, _waited_for(frames, waiter))


def _describe_node(
    task: GraphTask,
    node: Node | None,
    state: str,
    thread: str | None,
    since: float | None,
    frames: list[FrameType],
    waits_for: str | None,
) -> NodeDescription:
    lock = None if node is None else _try(_lock_of, task, node)
    return NodeDescription(
        name=_name(node),
        number=None if node is None or node.sequence_nr >= HIGHEST_NUMBER else node.sequence_nr,
        device=None if node is None or node.device is None else str(node.device),
        state=state,
        thread=thread,
        waits_for=waits_for if lock is None else str(lock),
        seconds=_seconds_since(task, since),
        line=None if node is None else _try(line_of, node),
        lock=lock,
        stack=_summaries(frames),
    )


def _lock_of(task: GraphTask, node: Node) -> LockDescription | None:
    """Return the lock of a node if a backward waits for it."""
    contention: Any = None if node.meta is None else node.meta.contention
    if contention is None or node.meta is None:
        return None
    waiters = list(contention.waiters)
    if not any(waiter.task is task for waiter in waiters):
        return None
    holders = [*(() if node.meta.holder is None else (node.meta.holder,)), *list(contention.co_holders)]
    return LockDescription(tuple(holder.id for holder in holders), len(waiters))


def _waited_for(frames: list[FrameType], waiter: Any) -> str | None:
    """Return what suspended frames wait for, outermost first, as far as that is known."""
    for frame in reversed(frames):
        if frame.f_code in DRIVING and (nested := local_of(frame, "graph_task")) is not None:
            return f"backward {nested.id}"
        if frame.f_code is acquire_permit.__code__:
            return f"a permit of device '{local_of(frame, 'device')}'"
        if frame.f_code is acquire.__code__:
            return "the lock of this node"
        if frame.f_code is join.__code__:
            return "a worker thread"
        if (named := named_wait(frame)) is not None:
            return named
    others = [f"task {other.get_name()}{_place(other)}" for other in tasks_behind(waiter)]
    if others:
        return _listed(others[:SHOWN], len(others))
    if frames and is_asyncio(frames[-1]):
        return f"asyncio's {frames[-1].f_code.co_qualname}"
    return None if waiter is None else f"a {type(waiter).__name__.removeprefix('_')}"


def _place(task: Any) -> str:
    """Return where another task is suspended."""
    frames = [frame for frame in suspended_frames(task.get_coro()) if not is_asyncio(frame)]
    return f" at {frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else ""


def _queues() -> Iterator[QueueDescription]:
    running, queued = WORKER_POOL.jobs()
    if running or queued:
        yield QueueDescription("worker threads", tuple(map(_job_name, running)), tuple(map(_job_name, queued)))
    for device in open_devices():
        names = tuple(map(_job_name, _try(device.waiting_jobs) or ()))
        if names:
            yield QueueDescription(str(device), (), names)


def _job_name(job: Any) -> str:
    function = getattr(job, "function", None)
    name = str(getattr(job, "name", None) or getattr(function, "__qualname__", type(job).__name__))
    if isinstance(function, Body):
        name = identify(function.node)
    task = _task_of(job)
    return name if task is None else f"{name} of backward {task.id}"


def _task_of(job: Any) -> Any:
    """Return the backward that a job belongs to."""
    context = getattr(job, "context", None)
    return None if context is None else context.get(CURRENT_GRAPH_TASK)


def _name(node: Node | None) -> str:
    return "a final callback" if node is None else identify(node)


def _thread_name(number: int | None) -> str | None:
    if number is None:
        return None
    module: Any = threading
    thread = module._active.get(number)
    return f"{number}" if thread is None else str(thread.name)


def _seconds_since(task: GraphTask, since: float | None) -> float | None:
    return None if since is None else task.context.get(CLOCK, perf_counter)() - since


def _summaries(frames: Iterable[FrameType]) -> tuple[FrameSummary, ...]:
    return tuple(
        FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname, lookup_line=False)
        for frame in frames
    )


def _stack_lines(stack: tuple[FrameSummary, ...]) -> Iterator[str]:
    """Yield the lines of the user's calls in a stack: those of libraries and of asyncgrad tell nothing."""
    users = [frame for frame in stack if not is_own_file(frame.filename) and not is_asyncio(frame)]
    for frame in users[-SHOWN:]:
        text = linecache.getline(frame.filename, frame.lineno or 0).strip()
        yield f"    at {frame.filename}:{frame.lineno}, in {frame.name}" + (f": `{text}`" if text else "")


def _listed(names: Iterable[str], count: int) -> str:
    shown = list(names)
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
