"""Step callbacks: functions that are called where each run of a node begins and ends, in all of the process."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...errors import ArgumentError, HookTypeError
from ..settings.arguments import check_callable, must_be
from ..settings.context import is_kind
from ..settings.observers import STEPS, StepObserver

if TYPE_CHECKING:
    from types import TracebackType

    from ..graph.node import Node
    from .graph_task import GraphTask

__all__ = ["Step", "StepCallbackHandle", "add_step_callback"]

_LOGGER = logging.getLogger("asyncgrad.engine")
#: Whether a step callback is being called, so that a backward in it calls none.
_IS_CALLING: ContextVar[bool] = ContextVar("asyncgrad_calling_step_callback", default=False)


@final
class Step(NamedTuple):
    """What a step callback gets: one run of a node, which begins or has ended.

    Attributes:
        phase: "start" or "end".
        node: the node.
        graph_task: the backward that runs it.
        context: what the callback has returned for the start; None at the start.
        error: the exception with which the run has ended; None at the start, and where it has succeeded.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> def show(step):
        ...     print(step.phase, step.node.name)
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.engine.add_step_callback(show):
        ...     ag.sync.backward(np.tanh(x).sum())
        start SumBackward
        end SumBackward
        start TanhBackward
        end TanhBackward
        start AccumulateGrad
        end AccumulateGrad
    """

    phase: str
    node: Node
    graph_task: GraphTask
    context: object = None
    error: BaseException | None = None


def add_step_callback(fn: Callable[[Step], object], *, sampling: float = 1.0) -> StepCallbackHandle:
    """Have `fn(step)` called where each run of a node begins and where it ends, in every backward of the process.

    What it returns at the start is `step.context` at the end of the same run. It is called in the thread in which the
    node runs. A callback that raises is logged, by the logger `asyncgrad.core.engine.step_callbacks`, and removed; the
    backward goes on. Backward passes that begin while there is a callback are not compiled.

    Args:
        fn: a plain function. A backward inside of it calls no step callbacks.
        sampling: the share of the runs that it is called for, at random: from 0 to 1.

    Returns:
        A handle with `remove()`, which also is a context manager.

    Raises:
        HookTypeError: `fn` cannot be called, or is an `async def`.
        ArgumentError: `sampling` is not a number from 0 to 1.

    Source: at::addGlobalCallback and at::RecordFunctionCallback of PyTorch.

    Example:
        >>> import time, asyncgrad as ag
        >>> def measure(step):
        ...     if step.phase == "start":
        ...         return time.perf_counter()
        ...     seconds.append(time.perf_counter() - step.context)
        >>> seconds = []
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> handle = ag.engine.add_step_callback(measure)
        >>> ag.sync.backward((x * x).sum())
        >>> handle.remove()
        >>> len(seconds)
        3
    """
    check_callable(fn, "a step callback", instead="pass a function")
    if is_kind(inspect.iscoroutinefunction, fn):
        raise HookTypeError("a step callback is called where nothing can be awaited: pass a plain function")
    if isinstance(sampling, bool) or not isinstance(sampling, (int, float)) or not 0 <= sampling <= 1:
        raise ArgumentError(must_be("sampling", "the share of runs to be called for, from 0 to 1", sampling))
    callback = _StepCallback(fn, float(sampling))
    STEPS.put(callback, True)
    return StepCallbackHandle(callback)


@final
class StepCallbackHandle:
    """Removes its step callback, by `remove()` or at the end of a `with` block.

    Example:
        >>> import asyncgrad as ag
        >>> handle = ag.engine.add_step_callback(lambda step: None)
        >>> handle.remove()
    """

    __slots__ = ("_callback",)

    def __init__(self, callback: _StepCallback) -> None:
        self._callback = callback

    def remove(self) -> None:
        """Remove the callback; a second call does nothing. A run that has begun does not call it at its end."""
        self._callback.remove()

    def __enter__(self) -> StepCallbackHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.remove()


@final
class _StepCallback:
    """A callback, as an observer of all backward passes."""

    __slots__ = ("_fn", "_random", "_sampling", "is_removed")

    def __init__(self, fn: Callable[[Step], Any], sampling: float) -> None:
        self._fn = fn
        self._sampling = sampling
        # Its own, so that what a program draws does not change.
        self._random = Random()  # not for secrets
        self.is_removed: bool = False

    def backward_begins(self, graph_task: GraphTask) -> StepObserver | None:
        """Return what calls the callback for the nodes of a backward."""
        return None if _IS_CALLING.get() else _BackwardSteps(self, graph_task)

    def is_chosen(self) -> bool:
        """Tell whether it is to be called for one more run."""
        return not self.is_removed and (self._sampling == 1.0 or self._random.random() < self._sampling)

    def call(self, step: Step) -> Any:
        """Call the callback; remove it if it raises."""
        if self.is_removed:
            return None
        token = _IS_CALLING.set(True)
        try:
            return self._fn(step)
        except Exception:
            _LOGGER.exception("the step callback %r raised at %s, and has been removed", self._fn, step.node.name)
            self.remove()
            return None
        finally:
            _IS_CALLING.reset(token)

    def remove(self) -> None:
        """Call it no more."""
        self.is_removed = True
        STEPS.take(self, True)


@final
class _BackwardSteps(StepObserver):
    """Calls a step callback for the nodes of one backward."""

    __slots__ = ("_callback", "_graph_task")

    def __init__(self, callback: _StepCallback, graph_task: GraphTask) -> None:
        self._callback = callback
        self._graph_task: GraphTask | None = graph_task

    def begins(self, node: Any, grads: Sequence[Any]) -> Any:
        """Call it for the start of a run; return the node and what it returned, or None if it is not called."""
        graph_task = self._graph_task
        if graph_task is None or not self._callback.is_chosen():
            return None
        return node, self._callback.call(Step("start", node, graph_task))

    def ends(self, token: Any, outputs: Sequence[Any] | None, error: BaseException | None) -> None:
        """Call it for the end of a run."""
        graph_task = self._graph_task
        if token is not None and graph_task is not None:
            node, context = token
            self._callback.call(Step("end", node, graph_task, context, error))

    def closes(self, has_error: bool) -> None:
        """Drop the GraphTask, which refers to this: a cycle."""
        self._graph_task = None
