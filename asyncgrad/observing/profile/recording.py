"""Recorder: collects what happens in forward and backward, cheaply; `events.py` makes records of it.

A forward call, and the run of a plain node, add a few numbers to a list. No graph and no array lives longer because it
is profiled. One call of `extend` is atomic, so threads need no lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import inf
from sys import _getframe
from threading import get_ident
from time import perf_counter
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

from ...core.arrays import call_times  # noqa: F401  # it times the functions of operations for whoever is put among CALLS
from ...core.arrays.device_work import recorders_in_use
from ...core.arrays.tensor_base import TensorBase
from ...core.engine.instruments import is_cancellation
from ...core.graph.node import LEAF_ORDER, next_order
from ...core.ops.dispatch import call_function, call_ufunc
from ...core.recording.plan import Plan
from ...core.settings.callers import is_own_file
from ...core.settings.observers import StepObserver
from .device_work import DeviceRecorder
from .lateness import watch_loop

if TYPE_CHECKING:
    from ...core.engine.executor import Executor
    from ...core.engine.graph_task import GraphTask
    from ...core.settings.scheduling import Clock

__all__ = [
    "BEGIN",
    "BackwardRecord",
    "ForwardCall",
    "NodeFacts",
    "NodeRun",
    "OptimizerRun",
    "PLAIN_CALL",
    "ProgramRun",
    "Recorder",
    "Spec",
    "TIMED_CALL",
    "WorkerRun",
]

#: The shape and dtype of an array; None where there is none, or they are not known.
Spec: TypeAlias = tuple[tuple[int, ...], Any] | None

#: Stands for the order of a node where a stretch of plain nodes begins.
BEGIN = LEAF_ORDER
#: How many entries a call has in `Recorder.plain_calls`, besides one for each argument that may be a tensor.
PLAIN_CALL = 10
#: How many entries a call has in `Recorder.timed_calls`.
TIMED_CALL = 4


class NodeFacts(NamedTuple):
    """What is known of a node of any kind."""

    name: str
    key: int
    #: The id of the node, by which edges lead to it.
    address: int
    #: For each edge, the id of the node that it leads to; None for none.
    edges: tuple[int | None, ...]
    #: Of the outputs of the forward call.
    outputs: tuple[Spec, ...]
    device: str | None
    stream: str | None
    plan: Any
    #: The spec of each value that a plain node has saved; a number, string or tuple stands for itself.
    saved: tuple[Any, ...] | None


class ForwardCall(NamedTuple):
    """A call that made a node, recorded in full."""

    facts: NodeFacts
    #: Where it was called: a code object, and the number of the instruction.
    code: CodeType | None
    instruction: int
    thread: int
    #: None where the time at which it began is unknown.
    began: float | None
    ended: float
    #: Of the arguments that require grad; added when the records are read.
    inputs: Sequence[Spec] = ()


class WorkerRun(NamedTuple):
    """The part of a run that a worker thread did, or another process."""

    #: The id of the thread, or the address of the process.
    thread: int | str
    began: float
    ended: float


class ProgramRun(NamedTuple):
    """A run of the program of a compiled function, or a part of one."""

    #: That of the function.
    program: str
    #: What has run.
    name: str
    thread: int
    began: float
    ended: float
    is_whole: bool


@final
class OptimizerRun:
    """A step of an optimizer: when it began after its closure, waited, and ended."""

    __slots__ = ("began", "ended", "name", "resumed", "status", "suspended", "thread", "workers")

    def __init__(self, name: str, began: float) -> None:
        self.name: str = name
        self.thread: int = get_ident()
        self.began: float = began
        self.suspended: list[float] = []
        self.resumed: list[float] = []
        self.workers: list[WorkerRun] = []
        self.ended: float = began
        self.status: str = "done"


@final
class NodeRun:
    """A run of a node that is recorded in full: as a NodeTask, of a leaf, or of a heavy node."""

    __slots__ = (
        "admitted",
        "began",
        "ended",
        "facts",
        "grads",
        "outputs",
        "resumed",
        "status",
        "suspended",
        "thread",
        "waited_for",
        "workers",
    )

    def __init__(self, facts: NodeFacts, grads: tuple[Spec, ...], began: float) -> None:
        self.facts: NodeFacts = facts
        self.grads: tuple[Spec, ...] = grads
        self.outputs: tuple[Spec, ...] = ()
        self.thread: int = get_ident()
        self.suspended: list[float] = []
        self.resumed: list[float] = []
        self.workers: list[WorkerRun] = []
        self.admitted: float | None = None
        #: When it was about to wait for something that has a name, and for what.
        self.waited_for: list[tuple[float, str]] = []
        self.began: float = began
        self.ended: float | None = None
        self.status: str = "running"


@final
class BackwardRecord:
    """What is recorded of one backward."""

    __slots__ = (
        "began",
        "depth",
        "ended",
        "id",
        "keep_graph",
        "kept",
        "nodes",
        "outer",
        "outer_key",
        "runs",
        "skipped",
        "status",
        "thread",
        "times",
        "until_success",
    )

    def __init__(self, graph_task: GraphTask, began: float) -> None:
        self.id: int = graph_task.id
        self.outer: int | None = None if graph_task.outer is None else graph_task.outer.id
        self.outer_key = None if graph_task.outer_node is None else key_of(graph_task.outer_node)
        self.depth: int = graph_task.reentrant_depth
        self.keep_graph: bool = graph_task.keep_graph
        self.until_success: bool = graph_task.until_success
        self.thread: int = graph_task.thread_id
        self.began: float = began
        self.ended: float | None = None
        self.status: str = "running"
        #: The plain nodes in the order in which they ended, each of which began at the time before; None where a
        #: stretch begins. Empty once the backward has ended: until then it holds its graph anyway.
        self.nodes: list[Any] = []
        #: Their orders and plans, once it has ended.
        self.kept: tuple[list[Any], list[Any]] | None = None
        #: When each of them ended, or the stretch began.
        self.times: list[float] = []
        #: By place in `nodes`, the order of a node that is in `runs`: a stretch goes on after it from the place before.
        self.skipped: dict[int, int] = {}
        self.runs: list[NodeRun] = []

    def plain_runs(self) -> list[tuple[int, float, Any]]:
        """Return the order, the end and the plan of each plain node; BEGIN, the time and None for that of a stretch."""
        # In this order, since it may be ending in another thread.
        nodes = self.nodes
        orders, plans = self.kept or _orders_and_plans(list(nodes))
        return list(zip(orders, self.times, plans, strict=False))


def _orders_and_plans(nodes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    orders = [BEGIN if node is None else node.order for node in nodes]
    return orders, [None if node is None else node.plan for node in nodes]


@final
class OlderNodes:
    """What is known of plain nodes that had been made before a profile began, a list for each attribute.

    A tuple for each node would cost three times as much.
    """

    __slots__ = ("addresses", "counts", "devices", "dtypes", "edges", "orders", "plans", "shapes")

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.plans: list[Any] = [node.plan for node in nodes]
        self.orders: list[int] = [node.order for node in nodes]
        self.addresses: list[int] = list(map(id, nodes))
        self.shapes: list[Any] = [node.shape for node in nodes]
        self.dtypes: list[Any] = [node.dtype for node in nodes]
        self.devices: list[Any] = [node.device for node in nodes]
        edges = [node.next_nodes for node in nodes]
        #: How many edges each has, and the ids of the nodes that the edges of all lead to.
        self.counts: list[int] = list(map(len, edges))
        self.edges: list[int] = list(map(id, chain.from_iterable(edges)))

    def facts(self) -> Iterator[NodeFacts]:
        """Yield what is known of each."""
        begin, nothing = 0, id(None)
        specs = zip(self.shapes, self.dtypes, strict=True)
        columns = zip(self.plans, self.orders, self.addresses, specs, self.devices, self.counts, strict=True)
        for plan, order, address, spec, device, count in columns:
            edges = tuple([None if edge == nothing else edge for edge in self.edges[begin : begin + count]])
            begin += count
            yield NodeFacts(
                plan.primitive.node_name,
                order,
                address,
                edges,
                (spec,),
                None if device is None else str(device),
                None,
                plan,
                None,
            )


def _has_more(plan: Any) -> bool:
    """Tell whether there is more to know of the nodes of a plan than OlderNodes does."""
    return plan.__class__ is not Plan or plan.primitive.superlinear


@final
class Recorder:
    """What one profile has recorded so far.

    Args:
        clock: returns the time in seconds.
    """

    __slots__ = (
        "__weakref__",
        "_is_open",
        "_last_older",
        "_pending",
        "backwards",
        "bystanders",
        "caller",
        "calls",
        "clock",
        "closed_at",
        "created",
        "files",
        "first",
        "last_code",
        "lateness",
        "leaves",
        "loops",
        "older",
        "older_facts",
        "older_nodes",
        "optimizer_runs",
        "own_files",
        "plain_calls",
        "programs",
        "threads",
        "timed_calls",
        "work",
    )

    def __init__(self, clock: Clock) -> None:
        self.clock: Clock = clock
        #: Calls of functions whose nodes are plain: see NodeRecorder.
        self.plain_calls: list[Any] = []
        #: The functions of operations, with their times: see CallRecorder.
        self.timed_calls: list[Any] = []
        #: All other calls.
        self.calls: list[ForwardCall] = []
        #: The orders of the plain nodes that earlier backward passes have run.
        self.older: set[int] = set()
        #: Those of the last one, which are not among them yet.
        self._last_older: list[int] = []
        #: What is known of these nodes, those of one backward after the other; or in full, if one needs that.
        self.older_nodes: list[OlderNodes] = []
        self.older_facts: list[NodeFacts] = []
        #: The order of a node that is newer than all of them.
        self.first: int = 0
        self.files: set[str] = set()
        #: The names of files that are asyncgrad's own, as far as they have been met.
        self.own_files: set[str] = set()
        self.last_code: list[CodeType | None] = [None]
        #: (time, id of the AccumulateGrad, spec) for each leaf that was used for the first time.
        self.leaves: list[tuple[float, int, Spec]] = []
        self.backwards: list[BackwardRecord] = []
        #: Runs of programs, each after its parts.
        self.programs: list[ProgramRun] = []
        #: Steps of optimizers that have ended.
        self.optimizer_runs: list[OptimizerRun] = []
        #: (time, thread, name of the event loop that runs in it from then on).
        self.loops: list[tuple[float, int, str]] = []
        self.threads: dict[int, str] = {}
        #: The names of all threads there are at the end: a wrapper notes which thread called it, and no name.
        self.bystanders: dict[int | None, str] = {}
        #: When the profile ended. Backward passes that run then are still recorded, and that is left out.
        self.closed_at: float = inf
        #: (time, thread, seconds) for each timer that has fired late.
        self.lateness: list[tuple[float, int, float]] = []
        #: A list of one, which `created` refers to.
        self._is_open = [False]
        #: What devices do.
        self.work: DeviceRecorder = DeviceRecorder(clock, self._is_open, (self.plain_calls, self.calls))
        #: The calls that have begun and not ended, by the id of their node.
        self._pending: dict[int, tuple[CodeType | None, int, float]] = {}
        self.caller = _make_caller(self)
        self.created = _make_created(self)

    @property
    def is_open(self) -> bool:
        """Whether the profile is recording."""
        return self._is_open[0]

    def open(self) -> None:
        """Begin to record."""
        self.first = next_order()
        self._is_open[0] = True
        self.note_thread()

    def close(self) -> None:
        """End recording; tasks made meanwhile still have this recorder in their contexts."""
        self._is_open[0] = False
        self.closed_at = self.clock()
        self.bystanders = {one.ident: one.name for one in threading.enumerate()}
        # Wrappers record only calls from there: see `_make_caller`.
        self.last_code[0] = None

    # For the forward: see NodeRecorder.

    def note(self, node: Any) -> None:
        """Note where and when the call of a Function, or of anything else that makes a node, began."""
        if self.is_open and node.order != LEAF_ORDER:
            self._pending[id(node)] = (*_users_line(self.caller, _getframe(1)), self.clock())
            if recorders_in_use[0]:
                self.work.note(node)

    def announce(self, node: Any) -> None:
        """Record a call that has ended."""
        if recorders_in_use[0]:
            self.work.announce(node)
        found = self._pending.pop(id(node), None)
        if found is None:
            self.created(node)
            return
        code, instruction, began = found
        ended = self.clock()
        self.calls.append(ForwardCall(facts_of(node), code, instruction, get_ident(), began, ended))

    # For the backward: see Instrument.

    def note_older(self, nodes: Sequence[Any]) -> None:
        """Note what is known of those plain nodes that had been made before the profile began; they have run."""
        first, known = self.first, self.older
        # Only now, since a profile of one backward needs no set.
        known.update(self._last_older)
        older = [node for node in nodes if node is not None and node.order > first]
        if known:
            older = [node for node in older if node.order not in known]
        if not older:
            return
        found = OlderNodes(older)
        self._last_older = found.orders
        if any(_has_more(plan) for plan in set(found.plans)) or None in found.shapes:
            self.older_facts += [facts_of(node) for node in older]
        else:
            self.older_nodes.append(found)

    def backward_begins(self, graph_task: GraphTask) -> StepObserver | None:
        """Return what records a backward, as long as the profile is open."""
        if not self.is_open:
            return None
        self.note_thread()
        record = BackwardRecord(graph_task, self.clock())
        self.backwards.append(record)
        return _RecordedBackward(self, record)

    def program_ran(
        self, name: str, phase: str, began: float, parts: Sequence[tuple[str, float]], ended: float
    ) -> None:
        """Note that a program has run: see ProgramRecorder."""
        if not self.is_open:
            return
        self.note_thread()
        thread, begin = get_ident(), began
        found = []
        for what, end in parts:
            found.append(ProgramRun(name, what, thread, begin, end, False))
            begin = end
        self.programs.extend([*found, ProgramRun(name, f"{phase} of {name}", thread, began, ended, True)])

    # For optimizers: see OptimizerRecorder.

    def step_begins(self, name: str) -> OptimizerRun:
        """Note the time, and return the run."""
        self.note_thread()
        return OptimizerRun(name, self.clock())

    def step_suspends(self, token: OptimizerRun) -> None:
        """Note the time."""
        token.suspended.append(self.clock())

    def step_resumes(self, token: OptimizerRun) -> None:
        """Note the time."""
        token.resumed.append(self.clock())

    def step_in_worker(self, token: OptimizerRun, update: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that also notes which thread has run the update, and when."""
        return in_worker(update, token, self)

    def step_ends(self, token: OptimizerRun, status: str) -> None:
        """Keep the run, if the profile has not ended meanwhile."""
        token.ended, token.status = self.clock(), status
        if self.is_open:
            self.optimizer_runs.append(token)

    def note_thread(self) -> None:
        """Note the name of this thread, and of the loop that runs in it."""
        thread, loop = get_ident(), running_loop_name()
        self.threads[thread] = threading.current_thread().name
        if loop is not None and (not self.loops or self.loops[-1][1:] != (thread, loop)):
            is_new = all(name != loop for _, _, name in self.loops)
            self.loops.append((self.clock(), thread, loop))
            if is_new and self.clock is perf_counter:
                watch_loop(self)

    def note_lateness(self, seconds: float) -> None:
        """Note how late a timer has fired in this thread."""
        self.lateness.append((self.clock(), get_ident(), seconds))


@final
class _RecordedBackward(StepObserver):
    """Records the runs of the nodes of one backward."""

    __slots__ = ("_clock", "_record", "_recorder", "_running")

    observes_by_clock = True

    def __init__(self, recorder: Recorder, record: BackwardRecord) -> None:
        self._recorder = recorder
        self._record = record
        self._clock = recorder.clock
        #: The runs of NodeTasks that have not ended, by node.
        self._running: dict[Any, NodeRun] = {}

    def timer(self, executor: Executor, clock: Clock) -> Clock:
        """Return a clock that also appends when each plain node has ended; reading the time twice would cost more."""
        now, nodes, times = self._clock, self._record.nodes, self._record.times
        nodes.append(None)
        times.append(now())

        def tick() -> float:
            # The executor reads the clock after a node, which has no NodeMeta.
            ended = now()
            nodes.append(executor.node)
            times.append(ended)
            return ended

        def tick_for_another_clock() -> float:
            tick()
            return clock()

        return tick if clock is now else tick_for_another_clock

    def restarts(self, node: Any) -> None:
        """Append the time; the clock is read for that node next, or not at all."""
        record = self._record
        record.nodes.append(None)
        record.times.append(self._clock())
        record.skipped[len(record.nodes)] = node.order

    def begins(self, node: Any, grads: Sequence[Any]) -> NodeRun:
        """Append a run that has begun."""
        run = NodeRun(facts_of(node), specs_of(grads), self._clock())
        if run.thread not in self._recorder.threads:
            self._recorder.note_thread()
        self._running[node] = run
        self._record.runs.append(run)
        return run

    def suspends(self, token: NodeRun) -> None:
        """Note the time."""
        token.suspended.append(self._clock())

    def resumes(self, token: NodeRun) -> None:
        """Note the time."""
        token.resumed.append(self._clock())

    def ends(self, token: NodeRun, outputs: Sequence[Any] | None, error: BaseException | None) -> None:
        """Note the time, the gradients, and what became of the run."""
        token.ended = self._clock()
        token.status = "done" if error is None else _status(error)
        token.outputs = specs_of(outputs or ())

    def in_worker(self, node: Any, body: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that also notes which worker thread ran the body, and when."""
        return in_worker(body, self._running.get(node), self._recorder)

    def admitted(self, node: Any) -> None:
        """Note the time."""
        run = self._running.get(node)
        if run is not None:
            run.admitted = self._clock()

    def waits_for(self, node: Any, what: str) -> None:
        """Note the time, and what it is."""
        run = self._running.get(node)
        if run is not None:
            run.waited_for.append((self._clock(), what))

    def ran_elsewhere(self, node: Any, where: str, seconds: float, waited: float) -> None:
        """Note where and when: in the middle of the wait, since nothing is known of the way there and back."""
        run = self._running.get(node)
        if run is not None:
            ended = self._clock() - max(waited - seconds, 0.0) / 2
            run.workers.append(WorkerRun(where, ended - seconds, ended))

    def fails(self, node: Any, error: BaseException | None) -> None:
        """Record the failure of a plain node, which has not ended."""
        run = self._running.get(node)
        if node is None or (run is not None and run.status != "running"):
            return
        now, times = self._clock(), self._record.times
        run = NodeRun(facts_of(node), (), times[-1] if times else now)
        run.ended, run.status = now, "failed" if error is None else _status(error)
        self._record.runs.append(run)

    def closes(self, has_error: bool) -> None:
        """Note the end of the backward."""
        record, recorder = self._record, self._recorder
        record.ended = self._clock()
        record.status = "failed" if has_error else "done"
        nodes = record.nodes
        orders, _ = record.kept = _orders_and_plans(nodes)
        record.nodes = []
        if max(orders, default=BEGIN) > recorder.first:
            recorder.note_older(nodes)
        self._running.clear()


def in_worker(body: Callable[[], Any], run: NodeRun | OptimizerRun | None, recorder: Recorder) -> Callable[[], Any]:
    """Return a function that does what `body` does, and notes in a run which thread has done it, and when."""
    clock, threads = recorder.clock, recorder.threads

    def work() -> Any:
        began, thread = clock(), get_ident()
        try:
            return body()
        finally:
            threads[thread] = threading.current_thread().name
            if run is not None:
                run.workers.append(WorkerRun(thread, began, clock()))

    return work


def _make_caller(recorder: Recorder) -> Callable[[FrameType, CodeType], FrameType | None]:
    """Return the function that finds the user's frame: see `NodeRecorder.caller`."""
    # A closure of these alone, since a bound method in a slot of the recorder would refer to it: a cycle.
    is_open, threads, last = recorder._is_open, recorder.threads, recorder.last_code
    files, own = recorder.files, recorder.own_files
    ufuncs, functions = call_ufunc.__code__, call_function.__code__

    def caller(frame: FrameType, code: CodeType) -> FrameType | None:
        found: FrameType | None = frame
        if code is ufuncs or code is functions:
            # It has been called by the method of the protocol, which is asyncgrad's own.
            back = frame.f_back
            found = None if back is None else back.f_back
            if found is not None and found.f_code is last[0]:
                return found
        thread = get_ident()
        if thread not in threads:
            threads[thread] = threading.current_thread().name
        while found is not None:
            code = found.f_code
            if code is last[0]:
                return found
            name = code.co_filename
            if name not in own:
                if name in files or not is_own_file(name):
                    break
                own.add(name)
            found = found.f_back
        else:
            return None
        files.add(name)
        last[0] = code
        if not is_open[0]:
            # Only now, since another thread may have ended the profile meanwhile.
            last[0] = None
            return None
        return found

    return caller


def _make_created(recorder: Recorder) -> Callable[[Any], None]:
    """Return the function that records a new node of any kind."""
    calls, leaves, clock, is_open = recorder.calls, recorder.leaves, recorder.clock, recorder._is_open
    caller, extend = recorder.caller, recorder.plain_calls.extend

    def created(node: Any) -> None:
        if not is_open[0]:
            return
        if node.order == LEAF_ORDER:
            leaves.append((clock(), id(node), (node.shape, node.dtype)))
            return
        # What calls this function is asyncgrad's own.
        code, instruction = _users_line(caller, _getframe(2))
        if (entry := _plain_entry(node, code, instruction, clock)) is not None:
            extend(entry)
        else:
            calls.append(ForwardCall(facts_of(node), code, instruction, get_ident(), None, clock()))

    return created


def _users_line(
    caller: Callable[[FrameType, CodeType], FrameType | None], frame: FrameType
) -> tuple[CodeType | None, int]:
    """Return the code and the instruction of the innermost frame that is not asyncgrad's own."""
    found = caller(frame, frame.f_code)
    return (None, 0) if found is None else (found.f_code, found.f_lasti)


def _status(error: BaseException) -> str:
    return "cancelled" if is_cancellation(error) else "failed"


def key_of(node: Any) -> int:
    """Return the key of a node: its order, 0 or less; for a leaf, whose order all leaves share, its id."""
    return id(node) if node.order == LEAF_ORDER else node.order


def edges_of(node: Any) -> tuple[int | None, ...]:
    """Return for each edge the id of the node that it leads to; None for none."""
    return tuple([None if target is None else id(target) for target in node.next_nodes])


def specs_of(arrays: Sequence[Any]) -> tuple[Spec, ...]:
    """Return the shape and dtype of each array; None for what is no array."""
    return tuple([_spec(array) for array in arrays])


def _spec(array: Any) -> Spec:
    data = array._data if isinstance(array, TensorBase) else array
    shape, dtype = getattr(data, "shape", None), getattr(data, "dtype", None)
    return None if shape is None or dtype is None else (shape, dtype)


def facts_of(node: Any) -> NodeFacts:
    """Return what can be known of a node of any kind."""
    plan, meta = getattr(node, "plan", None), node.meta
    if not isinstance(plan, Plan):
        plan = None
    outputs = [None if one is None or one.shape is None else (one.shape, one.dtype) for one in node.input_metadata]
    saved = _specs_of_saved(node) if plan is not None and plan.primitive.superlinear else None
    return NodeFacts(
        node.name,
        key_of(node),
        id(node),
        edges_of(node),
        tuple(outputs),
        None if node.device is None else str(node.device),
        None if meta is None or meta.stream is None else repr(meta.stream),
        plan,
        saved,
    )


def _plain_entry(node: Any, code: CodeType | None, instruction: int, clock: Clock) -> list[Any] | None:
    """Return what `NodeRecorder.plain_calls` holds of a node; None where it does not fit in there."""
    plan = getattr(node, "plan", None)
    if plan.__class__ is not Plan or node.shape is None or node.meta is not None:
        return None
    saved: tuple[Any, ...] = ()
    if plan.primitive.superlinear:
        # Gradients do not tell the shape of an argument that requires none, and how much work there is.
        saved = (_specs_of_saved(node) if None in node.next_nodes else None,)
    return [
        *(plan, node.order, id(node), node.shape, node.dtype, node.device, code, instruction),
        *(get_ident(), clock(), *map(id, node.next_nodes), *saved),
    ]


def _specs_of_saved(node: Any) -> tuple[Any, ...] | None:
    if node.saved is None:
        return None
    return tuple([_spec(value) or (value if isinstance(value, (int, str, tuple)) else None) for value in node.saved])


def running_loop_name() -> str | None:
    """Return a name for the event loop that runs in this thread; None where there is none."""
    loop = asyncio._get_running_loop()
    return None if loop is None else f"{type(loop).__name__} {id(loop):#x}"
