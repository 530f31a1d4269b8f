"""In which order a backward runs its nodes, told beforehand from the graph alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .exec_info import STEP, is_behind
from .ready_queue import ReadyQueue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..graph.node import Node
    from .exec_info import ExecInfos

__all__ = ["count_edges", "execution_order", "nodes_below"]


def nodes_below(root: Node, horizon: int | None = None) -> dict[Node, int]:
    """Return the nodes that `root` leads to, and for each how many edges lead to it.

    Args:
        root: where to start; it is in the result only if an edge leads to it.
        horizon: see ExecInfos: nodes behind it are reached and not passed.
    """
    edges: dict[Node, int] = {}
    if not is_behind(root, horizon):
        for _ in count_edges([root], edges, horizon):
            pass
    return edges


def count_edges(sources: list[Node], edges: dict[Node, int], horizon: int | None = None) -> Iterator[None]:
    """Add to `edges` how many lead to each node below `sources`, with a pause after every STEP nodes.

    Args:
        sources: where to start, each once; taken over.
        edges: by the node that they lead to.
        horizon: see ExecInfos: nodes behind it are reached and not passed.
    """
    stack, seen, steps = sources, set(sources), 0
    while stack:
        for target in stack.pop().next_nodes:
            if target is not None:
                edges[target] = edges.get(target, 0) + 1
                if target not in seen and (horizon is None or not is_behind(target, horizon)):
                    seen.add(target)
                    stack.append(target)
        steps += 1
        if not steps % STEP:
            yield


def execution_order(graph_roots: Sequence[Node], root: Node, limits: ExecInfos | None) -> list[Node]:
    """Return the nodes that a backward runs or captures at, in the order of an engine that never waits.

    Args:
        graph_roots: the nodes that the caller started from.
        root: the node that the engine starts from: that of the only root, or a GraphRoot, which is left out.
        limits: what runs; None runs all.

    Source: get_current_graph_task_execution_order of PyTorch, which is right from the first node only.
    """
    waiting = nodes_below(root)
    ready: ReadyQueue[Node] = ReadyQueue()
    ready.push(root, root)
    order = []
    while ready:
        node = ready.pop()
        # The only root has its tensor hooks run even where nothing leads from it to an input.
        if node is not root or node in graph_roots:
            order.append(node)
        for target in node.next_nodes:
            if target is None:
                continue
            waiting[target] -= 1
            if not waiting[target] and (limits is None or limits.executes(target)):
                ready.push(target, target)
    return order
