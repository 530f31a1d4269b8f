"""Functions by which a body, a hook or a callback reaches the backward that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import GraphError
from ..graph.node import Node
from ..settings.arguments import check_callable, takes
from ..settings.context import CURRENT_GRAPH_TASK

if TYPE_CHECKING:
    from collections.abc import Callable

    from .graph_task import GraphTask

__all__ = [
    "calling_backward",
    "current_execution_order",
    "current_graph_task",
    "current_graph_task_id",
    "outermost_of",
    "queue_callback",
    "will_execute",
]


def current_graph_task() -> GraphTask | None:
    """Return the GraphTask whose body, hook or callback runs here; None outside of a backward.

    Example:
        >>> import asyncgrad as ag
        >>> ag.engine.current_graph_task() is None
        True
    """
    task = calling_backward()
    if task is not None:
        # The caller may ask the task for its future after the end.
        task.complete_with().is_wanted = True
    return task


def current_graph_task_id() -> int:
    """Return the id of the current GraphTask, unique in this process; -1 outside of a backward.

    Example:
        >>> import asyncgrad as ag
        >>> ag.engine.current_graph_task_id()
        -1
    """
    task = calling_backward()
    return -1 if task is None else task.id


def current_execution_order() -> list[Node]:
    """Return the nodes that the current backward runs or captures at, in order, with those that have run.

    It is their order where no body suspends: while a body is suspended, later nodes run.

    Raises:
        GraphError: no backward runs here.

    Source: torch._C._current_graph_task_execution_order, which is right from the first node only.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> handle = x.register_hook(lambda grad: print(ag.engine.current_execution_order()))
        >>> ag.sync.backward((x * 2).sum())
        [<SumBackward>, <MultiplyBackward>, <AccumulateGrad>]
    """
    return _running("current_execution_order()").execution_order()


def queue_callback(callback: Callable[[], object], on_failure: Callable[..., object] | None = None) -> None:
    """Have `callback()` called when the current backward has run all its nodes, before it returns.

    Callbacks run one after the other in the order in which they were queued, in the backward's context. A callback may
    queue more, and may run a backward. If one raises, the rest do not run and the backward fails with that error. None
    runs in a backward that has failed.

    If the backward fails or is cancelled, `on_failure` is called: instead of `callback`, or after it where a later
    callback failed. So one can prepare in a hook, commit in `callback`, and roll back in `on_failure`: a commit in two
    phases, which docs/engine.md shows with a database. `on_failure` runs after all bodies have ended and all gradients
    have been rolled back, in the context of the caller, before the error is raised; the last one queued runs first. It
    runs to its end even if the caller is cancelled meanwhile, so it has to limit its own time. Its error becomes a note
    of the backward's. A nested backward that succeeds leaves it to the outer one, whose failure takes back what the
    nested one did. The rows of a Jacobian, or of `is_grads_batched`, succeed or fail together: callbacks run once all
    rows have run all nodes, in the order of the rows.

    Args:
        callback: a function without arguments, or an `async def`, which is awaited.
        on_failure: a function or an `async def`, which is awaited, without arguments; or with one, which is the
            exception.

    Raises:
        GraphError: no backward runs here.
        HookTypeError: one of them is not callable.

    Source: Variable._execution_engine.queue_callback of PyTorch, which has no `on_failure`.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor(1.0, requires_grad=True)
        >>> def hook(grad):
        ...     ag.engine.queue_callback(lambda: print("committed"), on_failure=lambda: print("rolled back"))
        >>> handle = x.register_hook(hook)
        >>> ag.sync.backward(x * 2)
        committed
    """
    task = _running("queue_callback(...)")
    check_callable(callback, "a final callback", "without arguments")
    if on_failure is not None:
        check_callable(on_failure, "on_failure", "without arguments or with the exception")
    completion = task.complete_with()
    completion.callbacks.append(callback)
    if on_failure is not None:
        completion.failure_callbacks.append(on_failure)


def will_execute(node: Node) -> bool:
    """Tell whether the current backward runs `node`, or has run it.

    Raises:
        GraphError: no backward runs here; or the node belongs to a leaf whose gradient `ag.grad` captures.
        TypeError: it is not a Node.

    Source: torch._C._will_engine_execute_node, which returns False for the root.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> y = x * 2
        >>> handle = x.register_hook(lambda grad: print(ag.engine.will_execute(y.grad_fn)))
        >>> ag.sync.backward(y.sum())
        True
    """
    if not isinstance(node, Node):
        raise TypeError(takes("will_execute", "a node, such as tensor.grad_fn", node))
    return _running("will_execute(node)").will_execute(node)


def calling_backward() -> GraphTask | None:
    """Return the backward in whose body, hook or callback this is called, if there is one."""
    running: Any = CURRENT_GRAPH_TASK.get()
    # The caller may be a task that a body has started and that has outlived the backward of that body.
    return running if running is not None and running.is_running else None


def outermost_of(task: GraphTask) -> GraphTask:
    """Return the outermost running backward in which one was begun: itself, where it was begun in none."""
    while task.outer is not None and task.outer.is_running:
        task = task.outer
    return task


def _running(what: str) -> GraphTask:
    task = calling_backward()
    if task is None:
        raise GraphError(
            f"{what} works inside a body, a hook or a callback of a backward, and no backward runs here: call it there"
        )
    return task
