"""Who observes what: one list of observers for each thing that is observed, put and taken in one way for all.

| what happens | list | what an observer is |
|---|---|---|
| a call makes a node | NEW_NODES | NodeRecorder |
| a function of arrays is called | CALLS | CallRecorder |
| the same, as users see it | CREATION_HOOKS | CreationHook |
| a backward begins and ends | BACKWARDS | BackwardObserver |
| a backward runs a node | STEPS | Instrument, which gives a StepObserver for each backward |
| work is put on the stream of a device | DEVICE_WORK | WorkRecorder |
| a compiled function runs as a program | PROGRAMS | ProgramRecorder |
| an optimizer steps | OPTIMIZER_STEPS | OptimizerRecorder |

An observer is put for a context or for all of the process, by `put` and `take`, or for a block, by an ObserverBlock.
What has to be made ready where something observes is done by the module in which the thing happens, by `when_changed`;
so nothing is paid where nothing observes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from math import inf
from threading import RLock
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, final

from .context import Mode

if TYPE_CHECKING:
    from .scheduling import Clock

__all__ = [
    "BACKWARDS",
    "CALLS",
    "CREATION_HOOKS",
    "DEVICE_WORK",
    "NEW_NODES",
    "OPTIMIZER_STEPS",
    "PROGRAMS",
    "STEPS",
    "BackwardObserver",
    "CallRecorder",
    "CreationHook",
    "Instrument",
    "NodeRecorder",
    "ObserverBlock",
    "Observers",
    "OptimizerRecorder",
    "ProgramRecorder",
    "StepObserver",
    "WorkRecorder",
]

T = TypeVar("T")


@final
class Observers(Generic[T]):
    """The observers of one thing: those of all of the process, then those of this context, outermost first.

    Args:
        name: what they observe, for the name of the context variable.
    """

    __slots__ = ("_changed", "_lock", "_of_context", "all_put", "of_context", "of_process")

    def __init__(self, name: str) -> None:
        self._of_context: ContextVar[tuple[T, ...]] = ContextVar(f"asyncgrad_observers_of_{name}", default=())
        #: Returns those of this context alone. The method of the variable itself: each function that a profile times
        #: asks for them.
        self.of_context: Callable[[], tuple[T, ...]] = self._of_context.get
        #: Those of all of the process. A tuple, so that a thread that goes through it is not disturbed by another one
        #: that puts or takes.
        self.of_process: tuple[T, ...] = ()
        #: All that have been put and not taken, in any context.
        self.all_put: list[T] = []
        self._changed: list[Callable[[bool], object]] = []
        # An RLock: the garbage collector may close a generator here, which takes its observer.
        self._lock = RLock()

    def when_changed(self, function: Callable[[bool], object]) -> None:
        """Have a function called after each change, which gets whether that was one of the process.

        It is called in the context that has changed. No other change happens meanwhile.
        """
        self._changed.append(function)

    def put(self, observer: T, whole_process: bool) -> None:
        """Have an observer see what happens from now on, in this context or in all of the process."""
        with self._lock:
            self.all_put.append(observer)
            if whole_process:
                self.of_process = (*self.of_process, observer)
            else:
                self._of_context.set((*self._of_context.get(), observer))
            self._tell(whole_process)

    def take(self, observer: T, whole_process: bool) -> None:
        """End what `put` has begun; does nothing for an observer that is not there."""
        with self._lock:
            self.all_put = _without(self.all_put, observer)
            if whole_process:
                self.of_process = tuple(_without(self.of_process, observer))
            else:
                self._of_context.set(tuple(_without(self._of_context.get(), observer)))
            self._tell(whole_process)

    def found(self) -> tuple[T, ...]:
        """Return those that see what happens in this context."""
        return self.of_process + self._of_context.get()

    def replace(self, observers: tuple[T, ...]) -> None:
        """Have these alone be the observers of this context, as an ObserverBlock does at its begin and its end."""
        with self._lock:
            self._of_context.set(observers)
            self._tell(False)

    def are_put(self) -> bool:
        """Tell whether any observer has been put and not taken, in whatever context."""
        return bool(self.all_put)

    def _tell(self, whole_process: bool) -> None:
        for function in self._changed:
            function(whole_process)


def _without(observers: Sequence[T], observer: T) -> list[T]:
    """Return observers without one of them, where it was put last."""
    # By identity: an observer may compare equal to another one.
    places = [place for place, one in enumerate(observers) if one is observer]
    return [one for place, one in enumerate(observers) if place not in places[-1:]]


class ObserverBlock(Mode):
    """Abstract base of the modes inside of which something is observed: `_value` returns the observers of the block."""

    __slots__ = ()

    #: The list that the observers stand in.
    _observers: Observers[Any]

    def _get(self) -> Any:
        return self._observers.of_context()

    def _set(self, value: Any, /) -> None:
        self._observers.replace(value)


# The forward.


class NodeRecorder(Protocol):
    """Sees each new node, with the line of the call, and when it was made: a profile."""

    #: Takes a node that has its edges and all its saved tensors, while the user's line is on the call stack.
    created: Callable[[Any], None]
    #: For each node, one after the other: its plan, order and id, the shape, dtype and device of its result, the code
    #: object and the instruction of the call, its thread (a bool is the main thread), the time, and the id of the node
    #: of each argument; then, for a superlinear function, the specs of what it has saved, or None. They do not stand in
    #: tuples, which the garbage collector would visit.
    plain_calls: list[Any]
    #: A list of one: the code object of the user's that has called last. None once the profile has ended.
    last_code: list[CodeType | None]
    #: Takes a frame and its code; returns the innermost frame, from that one on, that is not asyncgrad's own. None
    #: where `created` is to be called instead.
    caller: Callable[[FrameType, CodeType], FrameType | None]
    #: Returns the time.
    clock: Callable[[], float]

    def note(self, node: Any) -> None:
        """Note that the call has begun that makes the node; the user's line is on the call stack."""

    def announce(self, node: Any) -> None:
        """Note that the call has ended, and that the node has saved everything."""


class CallRecorder(Protocol):
    """Sees how long the functions of operations take, without what asyncgrad does before and after: a profile."""

    #: Returns the time.
    clock: Callable[[], float]
    #: For each call, one after the other: the name of the function, the thread, and the times before and after.
    timed_calls: list[Any]


class CreationHook(Protocol):
    """Sees each new node, when it has saved everything: a function of the user's, or `ag.warn_on_promotion`."""

    def __call__(self, node: Any, /) -> object:
        """Look at the node; return None, and make no node."""


# The backward.


class BackwardObserver:
    """Abstract: sees backward passes begin and end: progress displays, traces, the log.

    Its methods are called in the thread that drives the backward, and must not wait. What it raises is logged, and it
    sees nothing of that backward any more.
    """

    __slots__ = ()

    #: Whether it needs to know how many nodes there are and have ended: `DependencyExecutor.counts`.
    counts_nodes = False
    #: The seconds between two calls of `look`.
    interval = inf

    def begin(self, graph_task: Any) -> None:
        """Note that a backward begins, in the context of its caller."""

    def look(self, graph_task: Any) -> None:
        """Look at a backward that runs; called about every `interval` seconds."""

    def ran_elsewhere(self, graph_task: Any, count: int) -> None:
        """Note that so many nodes of another process, for which a node here stands, have ended."""

    def run_node(
        self, graph_task: Any, node: Any, run: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that awaits `run()`, the run of a node that needs a NodeTask, and returns its result."""
        return run()

    def end(self, graph_task: Any, error: BaseException | None) -> None:
        """Note that a backward has ended, by an error if there is one."""


class Instrument(Protocol):
    """Sees each run of a node: a profile, a step callback. It is asked once for each backward."""

    def backward_begins(self, graph_task: Any) -> StepObserver | None:
        """Return what observes this backward, which is about to begin; None if nothing is to."""


class StepObserver:
    """Abstract: observes one backward. Its methods are called by the threads in which the nodes run."""

    __slots__ = ()

    #: Whether it sees plain nodes by `timer` alone, which costs less; otherwise by `begins` and `ends`.
    observes_by_clock = False

    def timer(self, executor: Any, clock: Clock) -> Clock:
        """Return the clock for a stretch of plain nodes; the executor reads it after each, with that as its `node`."""
        return clock

    def restarts(self, node: Any) -> None:
        """Note that a node which `begins` and `ends` have told of ran in such a stretch, which goes on from now."""

    def fails(self, node: Any, error: BaseException | None) -> None:
        """Note that the backward has failed, at a node, or outside of all nodes."""

    def begins(self, node: Any, grads: Sequence[Any]) -> Any:
        """Note that a run of a node begins; return a token of the run. `grads` are the gradients that have arrived."""
        raise NotImplementedError(f"{type(self).__name__} must implement begins(node, grads)")

    def suspends(self, token: Any) -> None:
        """Note that the run suspends."""

    def resumes(self, token: Any) -> None:
        """Note that the run goes on."""

    def ends(self, token: Any, outputs: Sequence[Any] | None, error: BaseException | None) -> None:
        """Note that the run has ended with the gradients for its edges, or with an error."""
        raise NotImplementedError(f"{type(self).__name__} must implement ends(token, outputs, error)")

    def in_worker(self, node: Any, body: Callable[[], Any]) -> Callable[[], Any]:
        """Return the function that a worker thread calls in place of the body of a node."""
        return body

    def admitted(self, node: Any) -> None:
        """Note that the body of a node begins now on a device that limits how many do at a time."""

    def waits_for(self, node: Any, what: str) -> None:
        """Note what the body of a node is about to wait for, where that has a name, as in `limit 'solver'`."""

    def ran_elsewhere(self, node: Any, where: str, seconds: float, waited: float) -> None:
        """Note that another process has run a part of a node.

        Args:
            node: the node, whose run has not ended.
            where: the address of the process.
            seconds: how long that part took there.
            waited: how long ago it was asked for.
        """

    def closes(self, has_error: bool) -> None:
        """Note the end of the backward, after which nothing of it runs."""


# Devices.


class WorkRecorder(Protocol):
    """Sees the work that is put on the streams of asynchronous devices: a profile."""

    def begins(self, name: str, kind: str, stream: Any, size: int | None = None) -> Any:
        """Note the work that is put on a stream from now on; return a token of it.

        Args:
            name: what is done.
            kind: "forward", "backward", "copy" or "optimizer".
            stream: the stream.
            size: the bytes that a copy copies.
        """

    def ends(self, work: Any) -> None:
        """Note that all of the work has been put on its stream; not called where that has failed."""


# Programs.


class ProgramRecorder(Protocol):
    """Sees the programs of compiled functions run: a profile."""

    #: Returns the time.
    clock: Callable[[], float]

    def program_ran(
        self, name: str, phase: str, began: float, parts: Sequence[tuple[str, float]], ended: float
    ) -> None:
        """Note that a program has run.

        Args:
            name: that of the compiled function.
            phase: "forward" or "backward".
            began: the time before.
            parts: what it consists of, one after the other, and the time after each.
            ended: the time after all.
        """


# Optimizers.


class OptimizerRecorder(Protocol):
    """Sees the steps of optimizers: a profile."""

    def step_begins(self, name: str) -> Any:
        """Note that a step begins, after the closure that it was given; return a token of it."""

    def step_suspends(self, token: Any) -> None:
        """Note that the step waits: for its closure again, or for a worker."""

    def step_resumes(self, token: Any) -> None:
        """Note that the step goes on."""

    def step_in_worker(self, token: Any, update: Callable[[], Any]) -> Callable[[], Any]:
        """Return the function that a worker thread calls in place of `update`."""

    def step_ends(self, token: Any, status: str) -> None:
        """Note that the step is "done", "failed" or "cancelled"."""


#: What records new nodes: `core/graph/creation.py`.
NEW_NODES: Observers[NodeRecorder] = Observers("new_nodes")
#: What times the functions of operations: `core/arrays/call_times.py`.
CALLS: Observers[CallRecorder] = Observers("calls")
#: The creation hooks; they are called after the recorders: `core/graph/creation.py`.
CREATION_HOOKS: Observers[CreationHook] = Observers("creation_hooks")
#: The observers of backward passes, each as a whole: `core/engine/observation.py`.
BACKWARDS: Observers[BackwardObserver] = Observers("backward_passes")
#: Those of the steps of backward passes: `core/engine/instruments.py`.
STEPS: Observers[Instrument] = Observers("steps")
#: What records the work on devices: `core/arrays/device_work.py`.
DEVICE_WORK: Observers[WorkRecorder] = Observers("device_work")
#: What records runs of programs: `tracing/watching.py`.
PROGRAMS: Observers[ProgramRecorder] = Observers("programs")
#: What records the steps of optimizers: `optim/recorded_steps.py`.
OPTIMIZER_STEPS: Observers[OptimizerRecorder] = Observers("optimizer_steps")
