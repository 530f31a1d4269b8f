"""Nodes with bodies of their own that a compiled function calls directly: those that say that they are traceable.

Such a body is made of differentiable functions alone, takes no decision by values, and reads no state that changes. So
nobody can tell whether it runs as a NodeTask, behind a lock and in a context of its own, or is called; nor whether it
is called again, as one is that turns out to return something to wait for. Bodies like that are careful steps from then
on.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ...errors import GradientTypeError
from ...graph import values
from ...graph.compiled_args import BodySource
from ...graph.naming import identify
from ...graph.packed import Packed, abandon
from ..body import prefers_worker, run_here
from ..dependency_executor import wrong_count
from ..device import needs_care
from .program import Waits

if TYPE_CHECKING:
    from ..graph_task import GraphTask

__all__ = ["is_traced", "run_traced", "traced_source"]

#: Of whose bodies one has returned something to wait for, although it is no `async def`: Functions and nodes' classes.
_WAITING: WeakSet[type] = WeakSet()


def _written_by(node: Any) -> type:
    """Return what says what the body of a node is: its Function, or its class."""
    function: type = getattr(node, "function", type(node))
    return function


def is_traced(node: Any) -> bool:
    """Tell whether a node that has a Special may be called as it is: traceable, and watched by nobody."""
    special = node.special
    return (
        special is not None
        and node.is_traceable
        and not node.is_async
        and not (special.pre_hooks or special.post_hooks or special.tensor_pre_hooks or special.retains_grad_hooks)
        and special.holder is None
        and special.stream is None
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
        raise GradientTypeError(
            f"{identify(node)} returned {values.describe(outputs)}: "
            "apply must return a tuple with a gradient for each input"
        )
    if len(outputs) != len(node.next_nodes):
        raise wrong_count(node, tuple(outputs))
    return [values.raw(output) for output in outputs]


def traced_source() -> BodySource:
    """Return the source of a call of `run_traced`."""
    return BodySource(
        "$s0",
        # At its turn, since hooks may be added until then.
        unpacking=(
            "if not $is_traced($node): raise Differs",
            "if $prefers_worker($node, $grads): raise Heavy",
        ),
        statements=("$s0 = $run_traced(task, $node, $grads)", "if $s0 is None: raise $Waits"),
        release=("$node.release_variables()",),
        constants={
            "run_traced": run_traced,
            "is_traced": is_traced,
            "prefers_worker": prefers_worker,
            "Waits": Waits,
        },
        names=1,
    )
