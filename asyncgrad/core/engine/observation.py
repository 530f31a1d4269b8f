"""Observers of backward passes: progress displays, traces and the log see each begin and end, and look in between.

A backward is observed if its context or the process has an observer, or the log is at level DEBUG. That is decided
once, at its begin. None of it costs anything per node: what an observer wants to know it reads from the GraphTask.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from math import inf
from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary

from ..graph.anomaly import line_of
from ..graph.naming import identify
from ..settings.context import BLOCKING
from ..settings.observers import BACKWARDS, STEPS, BackwardObserver
from ..settings.process import silence_unconfigured_logs
from ..settings.scheduling import CLOCK
from .exec_info import count_reachable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..graph.node import Node
    from .graph_task import GraphTask

__all__ = [
    "LOG",
    "LOG_IS_ENABLED",
    "NODES_ELSEWHERE",
    "Observation",
    "observe",
    "observe_process",
    "observers_in_use",
    "warn_of_stall",
]

#: What the engine logs: backward passes, compilations, workers, and nodes that stall a loop.
LOG = logging.getLogger("asyncgrad.engine")
#: By level, whether LOG is enabled for it, where it has been asked since levels were last set: its own cache, since
#: each backward looks, and asking LOG takes 1,300 instructions. What is not in it is to be asked.
LOG_IS_ENABLED: dict[int, bool] = getattr(LOG, "_cache", {})
# So that a program that configures no logging sees nothing, as Python asks of libraries.
silence_unconfigured_logs()


#: By a node that runs a graph of another process, how many nodes that has.
NODES_ELSEWHERE: WeakKeyDictionary[Node, int] = WeakKeyDictionary()

#: Whether there has been an observer; as long as there has been none, a backward looks for none.
observers_in_use: list[bool] = [False]


def _note_use(whole_process: bool) -> None:
    observers_in_use[0] = True


BACKWARDS.when_changed(_note_use)
STEPS.when_changed(_note_use)


def observe_process(observer: BackwardObserver, is_on: bool) -> None:
    """Show an observer all backward passes of the process that begin from now on, or none any more."""
    # Taken first: it is shown each backward once, however often it is asked for.
    BACKWARDS.take(observer, True)
    if is_on:
        BACKWARDS.put(observer, True)


@final
class _LogObserver(BackwardObserver):
    """Logs the begin and the end of each backward at level DEBUG."""

    __slots__ = ()

    def begin(self, graph_task: GraphTask) -> None:
        """Log how many nodes it has, from what root, and inside of what."""
        limits = graph_task.limits
        count = count_reachable([graph_task.root], limits)
        nodes = "very many" if count is None else f"{count:,}"
        outer = "" if graph_task.outer is None else f", inside of backward {graph_task.outer.id}"
        LOG.debug("backward %d begins: %s nodes from %s%s", graph_task.id, nodes, identify(graph_task.root), outer)

    def end(self, graph_task: GraphTask, error: BaseException | None) -> None:
        """Log how it ended, and how long it took."""
        since = getattr(graph_task, "since", None)
        took = "before it was driven" if since is None else f"after {CLOCK.get()() - since:.6f} s"
        if error is None:
            LOG.debug("backward %d ended %s", graph_task.id, took)
        elif isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            LOG.debug("backward %d was cancelled %s", graph_task.id, took)
        else:
            LOG.debug("backward %d failed %s: %r", graph_task.id, took, error)


_LOG_OBSERVER = _LogObserver()


@final
class Observation:
    """The observers of one backward, and the time of their next look."""

    __slots__ = ("_clock", "_error", "_timer", "counts_nodes", "due", "interval", "observers")

    def __init__(self, observers: list[BackwardObserver]) -> None:
        self.observers: list[BackwardObserver] = observers
        self.counts_nodes: bool = any(observer.counts_nodes for observer in observers)
        self.interval: float = min(observer.interval for observer in observers)
        self._clock = CLOCK.get()
        #: When they look next.
        self.due: float = inf if self.interval == inf else self._clock() + self.interval
        self._timer: asyncio.TimerHandle | None = None
        self._error: BaseException | None = None

    def begin(self, graph_task: GraphTask) -> None:
        """Tell all that the backward begins."""
        self._tell("begin", graph_task)

    def start_timer(self, graph_task: GraphTask) -> None:
        """Have them look by a timer of the loop that awaits the backward, also while all its nodes wait."""
        loop = asyncio._get_running_loop()
        if self.interval < inf and loop is not None and self._timer is None and not BLOCKING.get():
            self._timer = loop.call_later(self.interval, self._tick, graph_task, loop)

    def _tick(self, graph_task: GraphTask, loop: asyncio.AbstractEventLoop) -> None:
        if graph_task.is_running:
            self._tell("look", graph_task)
            self._timer = loop.call_later(self.interval, self._tick, graph_task, loop)

    def look_if_due(self, graph_task: GraphTask) -> None:
        """Have them look if it is time to, in a blocking backward."""
        if self._clock() > self.due:
            self.due = self._clock() + self.interval
            self._tell("look", graph_task)

    def run_node(
        self, graph_task: GraphTask, node: Node, run: Callable[[], Coroutine[object, None, Any]]
    ) -> Coroutine[object, None, Any]:
        """Return the coroutine that runs a node."""
        for observer in self.observers:
            run = functools.partial(observer.run_node, graph_task, node, run)
        return run()

    def ran_elsewhere(self, graph_task: GraphTask, count: int) -> None:
        """Tell all that so many nodes of another process have ended."""
        self._tell("ran_elsewhere", graph_task, count)

    def fail(self, error: BaseException) -> None:
        """Note the error that the backward ends with."""
        self._error = error

    def end(self, graph_task: GraphTask) -> None:
        """Tell all that the backward has ended."""
        # The traceback of the error refers to the frames of this backward: leave no cycle.
        error, self._error = self._error, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._tell("end", graph_task, error)
        finally:
            del error

    def _tell(self, event: str, graph_task: GraphTask, *details: Any) -> None:
        for observer in tuple(self.observers):
            try:
                getattr(observer, event)(graph_task, *details)
            except Exception:
                LOG.exception("%s failed at the %s of backward %d", type(observer).__name__, event, graph_task.id)
                self.observers.remove(observer)


def observe() -> Observation | None:
    """Return the Observation of a backward that this context begins; None if nothing observes it."""
    observers = [*BACKWARDS.found()]
    if LOG.isEnabledFor(logging.DEBUG):
        observers.append(_LOG_OBSERVER)
    return Observation(observers) if observers else None


def warn_of_stall(graph_task: GraphTask, node: Node | None, seconds: float) -> None:
    """Log that a node has kept the event loop waiting for too long: as long as asyncio itself takes for slow."""
    if seconds > getattr(asyncio._get_running_loop(), "slow_callback_duration", inf):
        name = "a compiled function" if node is None else identify(node)
        line = None if node is None else line_of(node)
        where = "" if line is None else f" ({line})"
        LOG.warning("%s%s of backward %d blocked the event loop for %.3f s", name, where, graph_task.id, seconds)
