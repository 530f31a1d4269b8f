"""Instruments see each step of a backward, the run of a node: profiles and step callbacks are instruments.

A backward without one pays nothing. The Engine asks once for each backward whether there is an instrument, which gives
a StepObserver for this backward. Then the GraphTask has ObservedSteps: it is not compiled, and its NodeTasks run inside
`ObservedSteps.watch`. Its executors run plain nodes by `ObservedSteps.apply`, or, where all observers do with the time
at which each node ends, as ever, but with a clock of the observers: they read the clock after each node anyway.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

from ..arrays.tensor_base import TensorBase
from ..graph.body_signals import OffloadSignal
from ..settings.observers import STEPS, StepObserver
from .await_stack import STEPPED
from .body import run_here

if TYPE_CHECKING:
    from ..settings.scheduling import Clock
    from .executor import Executor

__all__ = ["ObservedSteps", "is_cancellation", "observe_steps"]

#: Runs a plain node: takes the node, its gradient, and whether to release it; returns the gradients for its edges.
RunPlain: TypeAlias = Callable[[Any, Any, bool], Any]


class NodeTaskLike(Protocol):
    """The part of a NodeTask that is observed."""

    node: Any
    grads: list[Any]

    async def run(self) -> Any:
        """Run the node."""


class ObservableBackward(Protocol):
    """The part of a GraphTask that its ObservedSteps call."""

    create_graph: bool
    limits: Any

    def apply(self, node: Any, grad: Any, release: bool) -> Any:
        """Run a plain node under `create_graph` or with `inputs`."""

    def run_leaf(self, leaf: Any, grads: list[Any]) -> None:
        """Run an AccumulateGrad without hooks."""


@final
class ObservedSteps:
    """The observers of one backward, and the functions by which it runs its nodes.

    Args:
        graph_task: the backward.
        observers: at least one; the first sees the run of a node begin first and end last.
    """

    __slots__ = ("_graph_task", "_observers", "_runs_plan", "apply")

    def __init__(self, graph_task: ObservableBackward, observers: Sequence[StepObserver]) -> None:
        self._graph_task = graph_task
        self._observers = tuple(observers)
        around = [observer for observer in self._observers if not observer.observes_by_clock]
        #: Whether executors may call `plan.run` themselves.
        self._runs_plan = not around and not graph_task.create_graph
        run: RunPlain = _run_limited(graph_task) if around else graph_task.apply
        for observer in reversed(around):
            run = _around_plain(observer, run)
        #: Runs a plain node: the body alone, as `plan.run` and `GraphTask.apply` do.
        self.apply: RunPlain = run

    def plain_runs(self, executor: Executor, clock: Clock) -> tuple[bool, Any, Clock]:
        """Return how an executor runs plain nodes: whether by `plan.run`, by what otherwise, and the clock to read."""
        for observer in self._observers:
            clock = observer.timer(executor, clock)
        return self._runs_plan, self.apply, clock

    def fail(self, node: Any) -> None:
        """Tell the observers that the backward has failed with the error that is being handled."""
        error = sys.exception()
        for observer in self._observers:
            observer.fails(node, error)

    def run_leaf(self, leaf: Any, grads: list[Any]) -> None:
        """Run an AccumulateGrad without hooks; takes its gradient out of the list."""
        graph_task = self._graph_task
        if graph_task.limits is not None and not graph_task.limits[leaf].needed:
            # It only captures, and does not run.
            graph_task.run_leaf(leaf, grads)
            return
        self._run_between(leaf, grads, graph_task.run_leaf, leaf, grads)

    def run_here(self, node: Any, grad: Any) -> Any:
        """Run a plain node that may be heavy in this thread."""
        return self._run_between(node, grad if node.shape is None else (grad,), run_here, node, grad)

    def _run_between(self, node: Any, grads: Sequence[Any], run: Callable[..., Any], *args: Any) -> Any:
        tokens = self._begin(node, grads)
        try:
            outputs = run(*args)
        except BaseException as error:
            self._end(tokens, None, error)
            raise
        self._end(tokens, outputs, None)
        for observer in self._observers:
            observer.restarts(node)
        return outputs

    async def watch(self, node_task: NodeTaskLike) -> Any:
        """Run a NodeTask; suspends where that does."""
        tokens = self._begin(node_task.node, node_task.grads)
        try:
            outputs = await _Steps(self, tokens, node_task.run)
        except BaseException as error:
            self._end(tokens, None, error)
            raise
        self._end(tokens, outputs, None)
        return outputs

    def in_worker(self, node: Any, body: Callable[[], Any]) -> Callable[[], Any]:
        """Return the function that a worker thread calls in place of the body of a node."""
        for observer in reversed(self._observers):
            body = observer.in_worker(node, body)
        return body

    def admit(self, node: Any) -> None:
        """Tell the observers that the body of a node begins now on a device that limits how many do at a time."""
        for observer in self._observers:
            observer.admitted(node)

    def waits_for(self, node: Any, what: str) -> None:
        """Tell the observers what the body of a node is about to wait for."""
        for observer in self._observers:
            observer.waits_for(node, what)

    def ran_elsewhere(self, node: Any, where: str, seconds: float, waited: float) -> None:
        """Tell the observers that another process has run a part of a node."""
        for observer in self._observers:
            observer.ran_elsewhere(node, where, seconds, waited)

    def suspend(self, tokens: Sequence[Any]) -> None:
        """Tell the observers that a run suspends."""
        for observer, token in zip(self._observers, tokens, strict=True):
            observer.suspends(token)

    def resume(self, tokens: Sequence[Any]) -> None:
        """Tell the observers that a run goes on."""
        for observer, token in zip(self._observers, tokens, strict=True):
            observer.resumes(token)

    def _begin(self, node: Any, grads: Sequence[Any]) -> list[Any]:
        return [observer.begins(node, grads) for observer in self._observers]

    def _end(self, tokens: Sequence[Any], outputs: Any, error: BaseException | None) -> None:
        for observer, token in reversed(list(zip(self._observers, tokens, strict=True))):
            observer.ends(token, outputs, error)

    def close(self, has_error: bool) -> None:
        """End the observation. The functions refer to the GraphTask: a cycle would wait for the garbage collector."""
        del self.apply
        for observer in self._observers:
            observer.closes(has_error)


@final
class _Steps:
    """An awaitable that steps a coroutine, and tells the observers where it suspends."""

    __slots__ = ("_observed", "_run", "_tokens")

    def __init__(self, observed: ObservedSteps, tokens: Sequence[Any], run: Callable[[], Any]) -> None:
        self._observed = observed
        self._tokens = tokens
        self._run = run

    def __await__(self) -> Generator[Any, Any, Any]:
        observed, tokens, coroutine = self._observed, self._tokens, self._run()
        step, argument = coroutine.send, None
        try:
            while True:
                awaited = step(argument)
                observed.suspend(tokens)
                try:
                    argument = yield awaited
                    step = coroutine.send
                except GeneratorExit:
                    coroutine.close()
                    raise
                except BaseException as error:
                    step, argument = coroutine.throw, error
                observed.resume(tokens)
                del awaited
        except StopIteration as end:
            return end.value
        finally:
            # The traceback of an error refers to this frame: leave no cycle.
            del step, argument, coroutine


STEPPED[_Steps.__await__.__code__] = "coroutine"


def observe_steps(graph_task: ObservableBackward) -> ObservedSteps | None:
    """Return the observation of a backward that is about to begin; None if no observer wants it."""
    found = []
    for observer in STEPS.found():
        one = observer.backward_begins(graph_task)
        if one is not None:
            found.append(one)
    return ObservedSteps(graph_task, found) if found else None


def _around_plain(observer: StepObserver, run: RunPlain) -> RunPlain:
    """Return a function that runs a plain node by `run`, and tells an observer."""

    def observed(node: Any, grad: Any, release: bool) -> Any:
        if not isinstance(grad, TensorBase) and node.plan.may_be_heavy(node, grad):
            # Before the observer sees the node begin, which then runs elsewhere.
            raise OffloadSignal
        token = observer.begins(node, grad if node.shape is None else (grad,))
        try:
            outputs = run(node, grad, release)
        except BaseException as error:
            observer.ends(token, None, error)
            raise
        observer.ends(token, outputs, None)
        return outputs

    return observed


def _run_limited(graph_task: ObservableBackward) -> RunPlain:
    """Return what runs a plain node of a backward that nothing observes."""
    if graph_task.create_graph:
        return graph_task.apply
    limits = graph_task.limits
    if limits is None:
        return _run_whole

    def run(node: Any, grad: Any, release: bool) -> Any:
        return (_run_whole if node in limits.whole else graph_task.apply)(node, grad, release)

    return run


def _run_whole(node: Any, grad: Any, release: bool) -> Any:
    """Do what `plan.run` does, without its signals: what may be heavy has been looked for, and nothing is added."""
    outputs = node.plan.run_here(node, grad)
    if release:
        node.release_variables()
    return outputs


def is_cancellation(error: BaseException) -> bool:
    """Tell whether an error that ended a run is a cancellation rather than a failure."""
    return isinstance(error, (asyncio.CancelledError, GeneratorExit))
