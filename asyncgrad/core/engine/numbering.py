"""The numbers of recorded nodes: a backward that waits gives them once more, by the graph and not by its waits.

A later backward adds gradients in the order of these numbers, on which rounding depends. Nodes that wait record as
their waits end, which is in another order each time. So at the end the nodes that were recorded are numbered in the
order in which a walk leaves them that begins at the results: each after all that it leads to.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..arrays.tensor_base import TensorBase
from ..graph.leaf import Leaf, gradient_edge
from ..graph.node import next_order
from .exec_info import STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..graph.node import Node
    from .graph_task import GraphTask

__all__ = ["number_again", "number_rows"]


def number_again(graph_task: GraphTask) -> Iterator[None]:
    """Number what a backward has recorded, which has run all its nodes; a generator that pauses after STEP nodes."""
    assert graph_task.recorded_since is not None
    grads, steps = graph_task.captured, 0
    if not grads:
        grads = []
        for node in _leaving_order([graph_task.root], lambda node: True):
            steps += 1
            if not steps % STEP:
                yield
            if isinstance(node, Leaf) and (meta := node.variable._meta) is not None:
                grads.append(meta.grad)
    yield from number_rows(graph_task.recorded_since, [grads], by_graph=True)


def number_rows(begin: int, rows: Iterable[Iterable[Any]], *, by_graph: bool) -> Iterator[None]:
    """Number what rows have recorded that run together as that of rows one by one; a generator that pauses.

    Args:
        begin: `next_order()` as it was before the first row.
        rows: the gradients of each.
        by_graph: whether the nodes of each row are numbered by the graph; otherwise they keep their order.
    """
    end = next_order()
    made: list[Node] = []
    seen: set[Node] = set()
    for grads in rows:
        first = len(made)
        edges = [gradient_edge(grad) for grad in grads if isinstance(grad, TensorBase)]
        roots = [edge.node for edge in edges if edge is not None and edge.node is not None]
        # A node that is no newer than `begin` leads to older ones alone, unless a user has set its number.
        for node in _leaving_order(roots, lambda node: end < node.order < begin and node not in seen):
            made.append(node)
            if not len(made) % STEP:
                yield
        seen.update(made[first:])
        if not by_graph:
            made[first:] = sorted(made[first:], key=attrgetter("order"), reverse=True)
    # A hook, say, may have kept a tensor that leads to one of these nodes, and keeps its own number; others may have
    # recorded in the pauses, too. Two of the numbers since `begin` are taken here.
    is_all = len(made) == begin - next_order() - 2
    for node in made:
        if not is_all:
            # As where a user sets the number: the engine does not trust it then.
            node.make_meta()
        node.order = next_order()


def _leaving_order(roots: Iterable[Node], enters: Callable[[Node], bool]) -> Iterator[Node]:
    """Yield the nodes below `roots` in the order in which a walk leaves them, through those that it enters."""
    seen: set[Node] = set()
    stack = [(root, False) for root in roots]
    stack.reverse()
    while stack:
        node, is_left = stack.pop()
        if is_left:
            yield node
        elif node not in seen and enters(node):
            seen.add(node)
            stack.append((node, True))
            stack += [(target, False) for target in reversed(node.next_nodes) if target is not None]
