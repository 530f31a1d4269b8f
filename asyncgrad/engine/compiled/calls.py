"""What a compiled function calls for an op that it does not write out: a NodeTask, a traceable body, a worker.

These are all that are more than a plain call: hooks, kept gradients, bodies of users, async bodies, what hooks have
packed. The function stands still meanwhile and holds no gradient of theirs; the driver runs the node as it runs any
such.

Such a body is made of differentiable functions alone, takes no decision by values, and reads no state that changes. So
nobody can tell whether it runs as a NodeTask, behind a lock and in a context of its own, or is called; nor whether it
is called again, as one is that turns out to return something to wait for. Bodies like that are NodeTask ops from then
on.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, final
from weakref import WeakSet

from ...errors import GraphError
from ...graph import values
from ...graph.lowering import BodySource
from ...graph.metadata import no_tuple_error
from ...graph.naming import identify
from ...graph.packed import Packed, abandon
from ..body import prefers_worker, run_here
from ..dependency_executor import wrong_count
from ..device import needs_care
from .program import NeedsAwait

if TYPE_CHECKING:
    from ...graph.node import Node
    from ..graph_task import GraphTask

__all__ = [
    "CompiledTurn",
    "captured_at",
    "run_node_task",
    "changed_edges",
    "is_for_a_worker",
    "is_traced",
    "run_measured",
    "run_traced",
    "traced_source",
]


def is_for_a_worker(node: Any, grad: Any) -> bool:
    """Tell whether a worker is to run a plain node; `grad` is its gradient, or the list of them."""
    return node.plan.may_be_heavy(node, grad) and prefers_worker(node, grad)


def run_measured(node: Any, grad: Any) -> Any:
    """Run a plain node here, as its device has it run where it may take long."""
    return run_here(node, grad) if node.plan.may_be_heavy(node, grad) else node.plan.run_here(node, grad)


@final
class CompiledTurn:
    """The turn of a node that a compiled function waits for.

    Args:
        node: the node.
        grads: what has arrived at its inputs; the NodeTask is to own the list.
        others: how many further nodes are ready, and could run beside it.
        has_body: whether its body is to run, and not only hooks and captures.
    """

    __slots__ = ("edges", "grads", "has_body", "is_running", "node", "others", "outputs")

    def __init__(self, node: Node, grads: list[Any], others: int, has_body: bool) -> None:
        self.node = node
        self.grads = grads
        self.others = others
        self.has_body = has_body
        #: Where its gradients are expected to go.
        self.edges = node.next_nodes, node.input_nrs
        self.is_running = True
        #: Its gradients, once it has ended.
        self.outputs: tuple[Any, ...] | None = None

    def is_as_expected(self) -> bool:
        """Tell whether a node that has ended gave gradients where it was to, and hooks have left its edges alone."""
        nodes, input_nrs = self.edges
        node = self.node
        return (self.outputs is not None) is self.has_body and node.next_nodes is nodes and node.input_nrs is input_nrs


@types.coroutine
def run_node_task(node: Node, grads: list[Any], others: int = 0) -> Generator[CompiledTurn, float, tuple[Any, float]]:
    """Suspend a compiled function until a node has run; return its gradients, and the next deadline."""
    turn = CompiledTurn(node, grads, others, True)
    deadline = yield turn
    # Nobody else is to hold them: a leaf takes over an array that it gets alone.
    outputs, turn.outputs = turn.outputs, None
    return outputs, deadline


@types.coroutine
def captured_at(node: Node, grads: list[Any], others: int = 0) -> Generator[CompiledTurn, float, float]:
    """Suspend a compiled function until what is captured at a node has been; return the next deadline."""
    return (yield CompiledTurn(node, grads, others, False))


def changed_edges(node: Node, before: dict[Node, int], now: dict[Node, int]) -> GraphError | None:
    """Return the error for edges that were changed while a backward ran through them; None where none was.

    Args:
        node: the one at whose edges that was seen.
        before: what `nodes_below` gave at the beginning.
        now: what it gives now.
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


#: Of whose bodies one has returned something to wait for, although it is no `async def`: Functions and nodes' classes.
_WAITING: WeakSet[type] = WeakSet()


def _written_by(node: Any) -> type:
    """Return what says what the body of a node is: its Function, or its class."""
    function: type = getattr(node, "function", type(node))
    return function


def is_traced(node: Any) -> bool:
    """Tell whether a node that has a NodeMeta may be called as it is: traceable, and watched by nobody."""
    meta = node.meta
    return (
        meta is not None
        and node.is_traceable
        and not node.is_async
        and not (meta.pre_hooks or meta.post_hooks or meta.tensor_pre_hooks or meta.retains_grad_hooks)
        and meta.holder is None
        and meta.stream is None
        and not needs_care(node.device)
        and not any(isinstance(entry, Packed) for entry in node.saved_entries() or ())
        and not (_WAITING and _written_by(node) in _WAITING)
    )


def run_traced(task: GraphTask, node: Any, grads: list[Any]) -> list[Any] | None:
    """Return what the body gives, an array for each edge; None where it is to be waited for.

    Raises:
        GradientTypeError: it gives no tuple.
        InvalidGradientError: it gives too few gradients, or too many.
    """
    if not task.keep_graph:
        node.will_release_variables()
    outputs = run_here(node, grads)
    if not isinstance(outputs, (tuple, list)) and inspect.isawaitable(outputs):
        _WAITING.add(_written_by(node))
        abandon(outputs)
        return None
    if not isinstance(outputs, (tuple, list)):
        raise no_tuple_error(node, outputs)
    if len(outputs) != len(node.next_nodes):
        raise wrong_count(node, tuple(outputs))
    return [values.raw(output) for output in outputs]


def traced_source() -> BodySource:
    """Return the source of a call of `run_traced`."""
    return BodySource(
        "$s0",
        # At its turn, since hooks may be added until then.
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
