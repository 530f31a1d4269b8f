"""The nodes below tensors, in the order of a backward, and the names that a user has for their leaves."""

from __future__ import annotations

import heapq
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...errors import ArgumentTypeError, RequiresGradError
from ..arrays.tensor_base import TensorBase
from ..settings.arguments import describe
from ..tree.structure import flatten, paths
from .leaf import Leaf, gradient_edge
from .node import GradientEdge, Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..tree.structure import TreeStructure

__all__ = ["names_of_leaves", "nodes_below", "roots_of"]


def roots_of(target: Any, function: str) -> list[Node]:
    """Return the nodes that a tensor, a Node, a GradientEdge or a tree of them stands for, each once.

    Args:
        target: what the user passed.
        function: the name of the user's function in errors.

    Raises:
        ArgumentTypeError: there is something else in `target`, or nothing.
        RequiresGradError: a tensor has no history and does not require grad.
    """
    found, structure = flatten(target, _is_root)
    roots = dict.fromkeys(_root(each, path, function) for each, path in zip(found, paths(structure, "t"), strict=True))
    if not roots:
        raise ArgumentTypeError(f"{function} takes a tensor, a Node or a tree of them, and {describe(target)} has none")
    return list(roots)


def _is_root(value: Any) -> bool:
    return isinstance(value, (TensorBase, Node, GradientEdge))


def _root(value: Any, path: str, function: str) -> Node:
    if isinstance(value, Node):
        return value
    if isinstance(value, GradientEdge):
        return value.node
    if not isinstance(value, TensorBase):
        raise ArgumentTypeError(
            f"{function} takes a tensor, a Node, a GradientEdge or a tree of them, and {path} is {describe(value)}"
        )
    edge = gradient_edge(value)
    if edge is None or edge.node is None:
        raise RequiresGradError(
            f"{path}, a tensor of shape {value._data.shape}, has no graph: nothing that it was computed from requires "
            "grad, or it was computed under no_grad() or detached. Make a leaf with requires_grad=True, and compute "
            f"anew before {function}"
        )
    return edge.node


def nodes_below(roots: Sequence[Node]) -> list[Node]:
    """Return the roots and all nodes that they lead to: each before those that it leads to, and leaves last.

    The order is that of a backward in which nothing suspends, except that leaves come last.
    """
    seen = dict.fromkeys(roots)
    stack = list(roots)
    while stack:
        for target in stack.pop().next_nodes:
            if target is not None and target not in seen:
                seen[target] = None
                stack.append(target)
    leaves = [node for node in seen if isinstance(node, Leaf)]
    inner = [node for node in seen if not isinstance(node, Leaf)]
    inner.sort(key=attrgetter("order"))
    place = {node: index for index, node in enumerate(inner)}
    is_ordered = all(
        target is None or place.get(target, index + 1) > index
        for index, node in enumerate(inner)
        for target in node.next_nodes
    )
    return [*(inner if is_ordered else _by_dependencies(inner)), *leaves]


def _by_dependencies(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield each node after all that lead to it, where a user has set numbers or edges that break the usual order."""
    waiting = dict.fromkeys(nodes, 0)
    for node in nodes:
        for target in node.next_nodes:
            if target in waiting:
                waiting[target] += 1
    ready = [(node.order, index, node) for index, node in enumerate(nodes) if not waiting[node]]
    heapq.heapify(ready)
    count = len(nodes)
    while ready:
        node = heapq.heappop(ready)[2]
        yield node
        for target in node.next_nodes:
            if target is not None and target in waiting:
                waiting[target] -= 1
                if not waiting[target]:
                    count += 1
                    heapq.heappush(ready, (target.order, count, target))


def names_of_leaves(params: Any) -> dict[int, str]:
    """Return the user's names of tensors, by the id of each.

    Args:
        params: a Module, or a tree of tensors such as `{"w": w}`; each tensor has its path, such as "layers.0.weight".
            None is no tensors.
    """
    if hasattr(params, "named_parameters"):
        return {id(tensor): path for path, tensor in params.named_parameters()}
    if params is None:
        return {}
    tensors, structure = flatten(params)
    names: dict[int, str] = {}
    for tensor, path, name in zip(tensors, paths(structure, "params"), _dotted(structure), strict=True):
        if not isinstance(tensor, TensorBase):
            raise ArgumentTypeError(
                f"params is a Module or a tree of tensors, such as {{'w': w}}, and {path} is {describe(tensor)}"
            )
        names.setdefault(id(tensor), name)
    return names


def _dotted(structure: TreeStructure, path: str = "") -> Iterator[str]:
    """Yield the path of each leaf, such as `layers.0.weight`."""
    if structure.kind is None:
        yield path
    for label, child in zip(structure.labels, structure.children, strict=True):
        yield from _dotted(child, f"{path}.{label}" if path else str(label))
