"""Recorder: collects what happens in forward and backward, cheaply; `events.py` makes records of it.

A forward call, and the run of a plain node, add a few numbers to a list. No graph and no array lives longer because it
is profiled. One call of `extend` is atomic, so threads need no lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from math import inf
from sys import _getframe
from threading import get_ident
from time import perf_counter
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

from ..engine.instruments import StepObserver, is_cancellation
from ..graph.callers import is_own_file
from ..graph.node import LEAF_ORDER, next_order
from ..graph.tensor_base import TensorBase
from ..ops.plan import Plan
from .lateness import watch_loop

if TYPE_CHECKING:
    from ..engine.executor import Executor
    from ..engine.graph_task import GraphTask
    from ..scheduling import Clock

__all__ = ["BackwardRecord", "ForwardCall", "NodeFacts", "NodeRun", "PLAIN_CALL", "Recorder", "Spec", "WorkerRun"]

#: The shape and dtype of an array; None where there is none, or they are not known.
Spec: TypeAlias = tuple[tuple[int, ...], Any] | None

#: How many entries a call has in `Recorder.plain_calls`, besides one for each argument that may be a tensor.
PLAIN_CALL = 10


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


@final
class NodeRun:
    """A run of a node that is recorded in full: as a NodeTask, of a leaf, or of a heavy node."""

    __slots__ = ("began", "ended", "facts", "grads", "outputs", "resumed", "status", "suspended", "thread", "workers")

    def __init__(self, facts: NodeFacts, grads: tuple[Spec, ...], began: float) -> None:
        self.facts: NodeFacts = facts
        self.grads: tuple[Spec, ...] = grads
        self.outputs: tuple[Spec, ...] = ()
        self.thread: int = get_ident()
        self.suspended: list[float] = []
        self.resumed: list[float] = []
        self.workers: list[WorkerRun] = []
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
        "outer",
        "outer_key",
        "plain",
        "root_key",
        "runs",
        "status",
        "thread",
    )

    def __init__(self, graph_task: GraphTask, began: float) -> None:
        self.id: int = graph_task.id
        self.outer: int | None = None if graph_task.outer is None else graph_task.outer.id
        self.outer_key = None if graph_task.outer_node is None else key_of(graph_task.outer_node)
        self.root_key: int = key_of(graph_task.root)
        self.depth: int = graph_task.reentrant_depth
        self.keep_graph: bool = graph_task.keep_graph
        self.thread: int = graph_task.thread_id
        self.began: float = began
        self.ended: float | None = None
        self.status: str = "running"
        #: For each plain node that has ended its order, the time, and its plan; it began at the time before. Three
        #: entries for each: None, the time and None where a stretch begins; None, the time and an order where one goes
        #: on after a node that is in `runs`. They do not stand in tuples, which the garbage collector would visit.
        self.plain: list[Any] = []
        self.runs: list[NodeRun] = []


@final
class Recorder:
    """What one profile has recorded so far.

    Args:
        clock: returns the time in seconds.
    """

    __slots__ = (
        "__weakref__",
        "_is_open",
        "_pending",
        "backwards",
        "bystanders",
        "calls",
        "clock",
        "closed_at",
        "created",
        "files",
        "first",
        "lateness",
        "leaves",
        "loops",
        "older",
        "older_calls",
        "older_facts",
        "older_plans",
        "own_files",
        "plain_calls",
        "threads",
    )

    def __init__(self, clock: Clock) -> None:
        self.clock: Clock = clock
        #: Calls of functions whose nodes are plain: see ForwardRecorder.
        self.plain_calls: list[Any] = []
        #: All other calls.
        self.calls: list[ForwardCall] = []
        #: The orders of the plain nodes that earlier backward passes have run.
        self.older: set[int | None] = set()
        #: Plans whose nodes fit into `plain_calls`, of those that were made before the profile began.
        self.older_plans: set[Any] = set()
        #: What is known of these nodes, as in `plain_calls`, and of those that do not fit in there.
        self.older_calls: list[Any] = []
        self.older_facts: list[NodeFacts] = []
        #: The order of a node that is newer than all of them.
        self.first: int = 0
        self.files: set[str] = set()
        #: The names of files that are asyncgrad's own, as far as they have been met.
        self.own_files: set[str] = set()
        #: (time, id of the AccumulateGrad, spec) for each leaf that was used for the first time.
        self.leaves: list[tuple[float, int, Spec]] = []
        self.backwards: list[BackwardRecord] = []
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
        #: The calls that have begun and not ended, by the id of their node.
        self._pending: dict[int, tuple[CodeType | None, int, float]] = {}
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
        # Wrappers record only calls from these.
        self.files.clear()

    # For the forward: see ForwardRecorder.

    def note(self, node: Any) -> None:
        """Note where and when the call of a Function, or of anything else that makes a node, began."""
        if self.is_open and node.order != LEAF_ORDER:
            code, instruction = _users_line(_getframe(1), self.files, self.own_files)
            self._pending[id(node)] = (code, instruction, self.clock())

    def announce(self, node: Any) -> None:
        """Record a call that has ended."""
        found = self._pending.pop(id(node), None)
        if found is None:
            self.created(node)
            return
        code, instruction, began = found
        ended = self.clock()
        self.calls.append(ForwardCall(facts_of(node), code, instruction, get_ident(), began, ended))

    # For the backward: see Instrument.

    def note_older(self, node: Any) -> None:
        """Note what is known of a plain node that has run, and had been made before the profile began."""
        if isinstance(node.plan, Plan) and not node.plan.primitive.superlinear:
            self.older_plans.add(node.plan)
        if (entry := _plain_entry(node, None, 0, _no_time)) is not None:
            self.older_calls.extend(entry)
        else:
            self.older_facts.append(facts_of(node))

    def backward_begins(self, graph_task: GraphTask) -> StepObserver | None:
        """Return what records a backward, as long as the profile is open."""
        if not self.is_open:
            return None
        self.note_thread()
        record = BackwardRecord(graph_task, self.clock())
        self.backwards.append(record)
        return _RecordedBackward(self, record)

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
        recorder, now = self._recorder, self._clock
        extend, older, first = self._record.plain.extend, recorder.older, recorder.first
        plans, note, note_older = recorder.older_plans, recorder.older_calls.extend, recorder.note_older
        extend((None, now(), None))

        def tick() -> float:
            # The executor reads the clock after a node, which has no NodeMeta.
            ended = now()
            node: Any = executor.node
            order, plan = node.order, node.plan
            extend((order, ended, plan))
            if order > first and order not in older:
                if plan in plans:
                    # As _plain_entry does, whose call costs a small node too much.
                    spec = node.shape, node.dtype, node.device
                    note([plan, order, id(node), *spec, None, 0, True, 0.0, *map(id, node.next_nodes)])
                else:
                    note_older(node)
            return ended

        def tick_for_another_clock() -> float:
            tick()
            return clock()

        return tick if clock is now else tick_for_another_clock

    def restarts(self, node: Any) -> None:
        """Append the time; the clock is read for that node next, or not at all."""
        self._record.plain.extend((None, self._clock(), node.order))

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
        run, clock, threads = self._running.get(node), self._clock, self._recorder.threads

        def work() -> Any:
            began, thread = clock(), get_ident()
            try:
                return body()
            finally:
                threads[thread] = threading.current_thread().name
                if run is not None:
                    run.workers.append(WorkerRun(thread, began, clock()))

        return work

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
        now, plain = self._clock(), self._record.plain
        run = NodeRun(facts_of(node), (), plain[-2] if plain else now)
        run.ended, run.status = now, "failed" if error is None else _status(error)
        self._record.runs.append(run)

    def closes(self, has_error: bool) -> None:
        """Note the end of the backward."""
        self._record.ended = self._clock()
        self._record.status = "failed" if has_error else "done"
        self._recorder.older.update(self._record.plain[::3])
        self._running.clear()


def _make_created(recorder: Recorder) -> Callable[[Any], None]:
    """Return the function that records a new node of any kind."""
    # A closure of these alone, since a bound method in a slot of the recorder would refer to it: a cycle.
    calls, leaves, clock, is_open = recorder.calls, recorder.leaves, recorder.clock, recorder._is_open
    threads, files, own, extend = recorder.threads, recorder.files, recorder.own_files, recorder.plain_calls.extend

    def created(node: Any) -> None:
        if not is_open[0]:
            return
        if node.order == LEAF_ORDER:
            leaves.append((clock(), id(node), (node.shape, node.dtype)))
            return
        # As in _users_line, whose call costs a small node too much. What calls this function is asyncgrad's own.
        frame: Any = _getframe(2)
        code: Any = frame.f_code
        name = code.co_filename
        while name in own:
            frame = frame.f_back
            code = None if frame is None else frame.f_code
            name = None if frame is None else code.co_filename
        if name in files:
            instruction = frame.f_lasti
        else:
            code, instruction = _users_line(frame, files, own)
        thread = get_ident()
        if thread not in threads:
            threads[thread] = threading.current_thread().name
        plan = getattr(node, "plan", None)
        if plan.__class__ is Plan and not plan.primitive.superlinear and node.meta is None and node.shape is not None:
            extend(
                [
                    plan,
                    node.order,
                    id(node),
                    node.shape,
                    node.dtype,
                    node.device,
                    code,
                    instruction,
                    thread,
                    clock(),
                    *map(id, node.next_nodes),
                ]
            )
        elif (entry := _plain_entry(node, code, instruction, clock)) is not None:
            extend(entry)
        else:
            calls.append(ForwardCall(facts_of(node), code, instruction, thread, None, clock()))

    return created


def _users_line(frame: Any, files: set[str], own: set[str]) -> tuple[CodeType | None, int]:
    """Return the code and the instruction of the innermost frame that is not asyncgrad's own.

    Args:
        frame: where to begin.
        files: the names of files that are known not to be asyncgrad's own.
        own: the names of files that are known to be.
    """
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if name in files:
            return code, frame.f_lasti
        if name not in own:
            if not is_own_file(name):
                files.add(name)
                return code, frame.f_lasti
            own.add(name)
        frame = frame.f_back
    return None, 0


def _no_time() -> float:
    return 0.0


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
    """Return what `ForwardRecorder.plain_calls` holds of a node; None where it does not fit in there."""
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
