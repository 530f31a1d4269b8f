"""Careful steps: nodes that a compiled function has run by a NodeTask, at their place in the order.

These are all that are more than a plain call: hooks, kept gradients, bodies of users, async bodies, what hooks have
packed. The function stands still meanwhile and holds no gradient of theirs; the driver runs the node as it runs any
such.
"""

from __future__ import annotations

import types
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, final

from ...errors import GraphError
from ...graph.naming import identify

if TYPE_CHECKING:
    from ...graph.node import Node

__all__ = ["CarefulTurn", "captured_at", "careful", "changed_edges"]


@final
class CarefulTurn:
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
def careful(node: Node, grads: list[Any], others: int = 0) -> Generator[CarefulTurn, float, tuple[Any, float]]:
    """Suspend a compiled function until a node has run; return its gradients, and the next deadline."""
    turn = CarefulTurn(node, grads, others, True)
    deadline = yield turn
    # Nobody else is to hold them: a leaf takes over an array that it gets alone.
    outputs, turn.outputs = turn.outputs, None
    return outputs, deadline


@types.coroutine
def captured_at(node: Node, grads: list[Any], others: int = 0) -> Generator[CarefulTurn, float, float]:
    """Suspend a compiled function until what is captured at a node has been; return the next deadline."""
    return (yield CarefulTurn(node, grads, others, False))


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
