"""The functions that a compiled function calls for an op whose body is not inlined.

- A node with hooks, retained gradients, a user's body, an async body or packed saved tensors runs as a NodeTask. The
  compiled function is suspended meanwhile and holds none of the node's gradients; the driver runs the node as it does
  for any other executor.
- A traceable body is called directly. It consists of differentiable functions, never branches on values and reads no
  state that changes. So a direct call cannot be told from a NodeTask with its lock and its context, and the body may be
  called a second time: if it returns an awaitable, the engine calls it again, and its node is a NodeTask op from then
  on.
- A body that may be heavy is measured, or left to a worker.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, final
from weakref import WeakSet

from ....errors import GraphError
from ...arrays import values
from ...arrays.ownership import make_all_private, prepare_all_to_lend
from ...graph.lowering import BodySource
from ...graph.metadata import no_tuple_error
from ...graph.naming import identify
from ...graph.packed import Packed, abandon
from ..body import prefers_worker, run_here
from ..dependency_executor import gradient_count_error
from ..device import needs_node_task
from .program import NeedsAwait

if TYPE_CHECKING:
    from ...graph.node import Node
    from ..graph_task import GraphTask

__all__ = [
    "CompiledTurn",
    "capture_at",
    "run_node_task",
    "changed_edges_error",
    "should_offload",
    "is_traced",
    "run_measured",
    "run_traced",
    "traced_source",
]


def should_offload(node: Any, grad: Any) -> bool:
    """Tell whether a worker should run a plain node; `grad` is its gradient, or the list of its gradients."""
    return node.plan.may_be_heavy(node, grad) and prefers_worker(node, grad)


def run_measured(node: Any, grad: Any) -> Any:
    """Run a plain node in this thread; a body that may be heavy is run by its device, and measured."""
    return run_here(node, grad) if node.plan.may_be_heavy(node, grad) else node.plan.run_here(node, grad)


@final
class CompiledTurn:
    """The turn of a node that runs as a NodeTask while a compiled function is suspended.

    Args:
        node: the node.
        grads: the gradients that have arrived at its inputs; the NodeTask takes over the list.
        ready_count: how many further nodes are ready, and could run beside it.
        has_body: whether its body has to run, and not only hooks and captures.
    """

    __slots__ = ("edges", "grads", "has_body", "is_running", "node", "outputs", "ready_count")

    def __init__(self, node: Node, grads: list[Any], ready_count: int, has_body: bool) -> None:
        self.node: Node = node
        self.grads: list[Any] = grads
        self.ready_count: int = ready_count
        self.has_body: bool = has_body
        #: The edges of the node when its turn began, which the function has checked.
        self.edges: tuple[tuple[Node | None, ...], tuple[int, ...]] = node.next_nodes, node.input_nrs
        self.is_running: bool = True
        #: The gradients that the node returned; None until it has ended, and where its body did not run.
        self.outputs: tuple[Any, ...] | None = None

    def is_as_expected(self) -> bool:
        """Tell whether a node that has ended returned gradients if it had to, and hooks have not changed its edges."""
        nodes, input_nrs = self.edges
        node = self.node
        return (self.outputs is not None) is self.has_body and node.next_nodes is nodes and node.input_nrs is input_nrs


@types.coroutine
def run_node_task(
    node: Node, grads: list[Any], ready_count: int = 0
) -> Generator[CompiledTurn, float, tuple[Any, float]]:
    """Suspend a compiled function until a node has run; return the node's gradients and the next deadline."""
    turn = CompiledTurn(node, grads, ready_count, True)
    deadline = yield turn
    # The turn drops its reference: a leaf takes over an array only if there is no other reference to it.
    outputs, turn.outputs = turn.outputs, None
    return outputs, deadline


@types.coroutine
def capture_at(node: Node, grads: list[Any], ready_count: int = 0) -> Generator[CompiledTurn, float, float]:
    """Suspend a compiled function until the gradients of a node have been captured; return the next deadline."""
    return (yield CompiledTurn(node, grads, ready_count, False))


def changed_edges_error(node: Node, before: dict[Node, int], now: dict[Node, int]) -> GraphError | None:
    """Return the error for edges that were changed while a backward ran through them; None if there are none.

    Args:
        node: the node at which the change was found.
        before: the result of `nodes_below` at the beginning of the backward.
        now: its result now.
    """
    for target in now:
        if now[target] > before.get(target, 0):
            return GraphError(
                f"{identify(node)} delivered to {target.name}, which waits for nothing: "
                "an edge was changed while a backward ran through it. Change a graph before or after its backward"
            )
    for target in before:
        if now.get(target, 0) < before[target]:
            return GraphError(
                f"gradients have reached {target.name}, and others that it waits for never came: "
                "an edge was changed while a backward ran through it. Change a graph before or after its backward"
            )
    return None


#: The Functions and classes of nodes of which a body has returned an awaitable although it is not an `async def`.
_RETURNING_AWAITABLES: WeakSet[type] = WeakSet()


def _body_class(node: Any) -> type:
    """Return the class that defines the body of a node: its Function, or its own class."""
    function: type = getattr(node, "function", type(node))
    return function


def is_traced(node: Any) -> bool:
    """Tell whether the body of a node with a NodeMeta may be called directly: it is traceable, and no hook sees it."""
    meta = node.meta
    return (
        meta is not None
        and node.is_traceable
        # A NodeTask looks whether it has answered already.
        and not node.is_memoized
        # One of several rows that run together waits there for the others.
        and not node.takes_rows
        and not node.is_async
        and not (meta.pre_hooks or meta.post_hooks or meta.tensor_pre_hooks or meta.retains_grad_hooks)
        and meta.holder is None
        and meta.stream is None
        and not needs_node_task(node.device)
        and not any(isinstance(entry, Packed) for entry in node.saved_entries() or ())
        and not (_RETURNING_AWAITABLES and _body_class(node) in _RETURNING_AWAITABLES)
    )


def run_traced(task: GraphTask, node: Any, grads: list[Any]) -> list[Any] | None:
    """Run a traceable body; return an array for each edge, or None if the body returned an awaitable.

    Raises:
        GradientTypeError: the body did not return a tuple.
        InvalidGradientError: it returned too few gradients, or too many.
    """
    if not task.keep_graph:
        node.will_release_variables()
    if node.is_users:
        # As in a NodeTask.
        prepare_all_to_lend(grads)
    outputs = run_here(node, grads)
    if not isinstance(outputs, (tuple, list)) and inspect.isawaitable(outputs):
        _RETURNING_AWAITABLES.add(_body_class(node))
        abandon(outputs)
        return None
    if not isinstance(outputs, (tuple, list)):
        raise no_tuple_error(node, outputs)
    if len(outputs) != len(node.next_nodes):
        raise gradient_count_error(node, tuple(outputs))
    results = [values.raw(output) for output in outputs]
    if node.is_users:
        del outputs
        make_all_private(results)
    return results


def traced_source() -> BodySource:
    """Return the source of a call of `run_traced`."""
    return BodySource(
        "$s0",
        # Checked when the turn of the node comes, since hooks may be added until then.
        unpacking=(
            "if not $is_traced($node): raise GuardFailed",
            "if $prefers_worker($node, $grads): raise OffloadSignal",
        ),
        statements=("$s0 = $run_traced(task, $node, $grads)", "if $s0 is None: raise $NeedsAwait"),
        release=("$node.release_variables()",),
        constants={
            "run_traced": run_traced,
            "is_traced": is_traced,
            "prefers_worker": prefers_worker,
            "NeedsAwait": NeedsAwait,
        },
        names=1,
    )
