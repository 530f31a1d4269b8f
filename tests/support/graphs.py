"""Finding one's way in a graph: the node and the edge of a tensor, all nodes below it, and what errors call a node."""

from __future__ import annotations

from typing import Any

from asyncgrad.graph import Edge, GradientEdge, Node, get_gradient_edge

__all__ = ["edge_to", "name_in_note", "node_of", "nodes_below"]


def edge_to(tensor: Any) -> Edge:
    """The edge along which the gradient of a tensor flows."""
    return Edge(*get_gradient_edge(tensor))


def node_of(tensor: Any) -> Any:
    """The node that takes the gradient of a tensor of ours. A leaf's lives only as long as somebody holds it."""
    return get_gradient_edge(tensor).node


def nodes_below(*roots: Any) -> list[Node]:
    """All nodes that tensors, or gradient edges, lead to."""
    found: dict[Node, None] = {}
    stack = [root.node if isinstance(root, GradientEdge) else root.grad_fn for root in roots]
    while stack:
        node = stack.pop()
        if node is not None and node not in found:
            found[node] = None
            stack.extend(node.next_nodes)
    return list(found)


def name_in_note(tensor: Any) -> str:
    """What the note of an error says of the node of a tensor."""
    node = tensor.grad_fn
    return f"in {node.name} (node #{node.sequence_nr}, device 'cpu')"
