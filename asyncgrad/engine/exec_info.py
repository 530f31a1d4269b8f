"""ExecInfo: which nodes a backward with given inputs has to run, and what it captures where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..graph import values
from ..graph.node import LEAF_ORDER
from .queues import ReadyQueue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..graph.node import Edge, Node

__all__ = [
    "Capture",
    "ExecInfo",
    "ExecInfos",
    "STEP",
    "as_tensors",
    "count_edges",
    "execution_order",
    "init_to_execute",
    "is_behind",
    "nodes_below",
    "stepwise",
]

#: After so many nodes a walk through a graph asks whether the event loop is to have a turn.
STEP = 256


class Capture(NamedTuple):
    """Gradient `input_nr` of a node is result `result_nr` of the backward."""

    input_nr: int
    result_nr: int


@final
class ExecInfo:
    """What a backward with given inputs does at one node."""

    __slots__ = ("captures", "needed")

    def __init__(self, needed: bool = False) -> None:
        #: Whether the node's body runs.
        self.needed = needed
        self.captures: list[Capture] = []

    @property
    def should_execute(self) -> bool:
        """Whether anything at all happens at the node."""
        return self.needed or bool(self.captures)

    def __repr__(self) -> str:
        return f"ExecInfo(needed={self.needed}, captures={self.captures})"


@final
class ExecInfos(dict["Node", ExecInfo]):
    """What to do at each node of a backward with given inputs; one that is not in it is not run.

    Asked for a node that is not in it, it gives that node an entry, so that a body can have the node run after all.
    Until somebody asks, there are no entries of the many nodes that are `whole`.

    """

    __slots__ = ("executed", "handed_out", "horizon", "whole")

    def __init__(self) -> None:
        super().__init__()
        #: The `order` of the oldest of the inputs' nodes: no path leads to an input from a node that is older (see
        #: `is_behind`). None where nothing is known.
        self.horizon: int | None = None
        #: How often somebody has been given this, who may have changed it.
        self.handed_out = 0
        #: Nodes that run as if nothing were limited: nothing is captured there, and all their gradients are of use.
        #: Empty once this has been handed out.
        self.whole: set[Node] = set()
        #: At how many nodes something happens.
        self.executed = 0

    def executes(self, node: Node) -> bool:
        """Tell whether anything at all happens at a node."""
        info = self.get(node)
        return node in self.whole if info is None else info.should_execute

    def only_runs(self, node: Node) -> bool:
        """Tell whether a node's body runs and nothing is captured there."""
        info = self.get(node)
        return node in self.whole if info is None else info.needed and not info.captures

    def hand_out(self) -> ExecInfos:
        """Return this for somebody who may change it, with an entry for each node at which something happens."""
        self.handed_out += 1
        for node in self.whole:
            self.setdefault(node, ExecInfo(True))
        self.whole.clear()
        return self

    def __missing__(self, node: Node) -> ExecInfo:
        info = self[node] = ExecInfo(node in self.whole)
        return info


def is_behind(node: Node, horizon: int | None) -> bool:
    """Tell whether no path from a node leads to what is not older than `horizon`.

    What a node leads to is older than the node, unless its edges were set by hand since; then it has a NodeMeta.
    """
    return horizon is not None and node.order > horizon and node.meta is None


def as_tensors(captured: list[Any], exec_info: ExecInfos | None) -> list[Any]:
    """Return what has been captured as tensors, each on the device of the node where that was."""
    tensors = list(captured)
    for node, info in () if exec_info is None else list(exec_info.items()):
        for _, result_nr in info.captures:
            tensors[result_nr] = values.wrap(tensors[result_nr], node.device)
    return tensors


def init_to_execute(root: Node, inputs: Sequence[Edge], accumulate: bool) -> ExecInfos:
    """Find the nodes between `root` and `inputs`.

    Args:
        root: where the backward starts.
        inputs: the edges whose gradients are wanted; their nodes are not None.
        accumulate: True where the inputs' own nodes run (leaves accumulate), False where their incoming
            gradient is captured.

    Returns:
        What to do, by node; nodes that are not in it are not run. The root always is.

    Source: GraphTask::init_to_execute of PyTorch.
    """
    exec_info = ExecInfos()
    for _ in stepwise(exec_info, root, inputs, accumulate):
        pass
    return exec_info


def stepwise(exec_info: ExecInfos, root: Node, inputs: Sequence[Edge], accumulate: bool) -> Iterator[None]:
    """Fill an empty ExecInfos with what `init_to_execute` returns, with a pause after every STEP nodes."""
    if all(node is not None and node.meta is None and node.order != LEAF_ORDER for node, _ in inputs):
        # Of a node with a NodeMeta the order may have been set by hand.
        exec_info.horizon = max(node.order for node, _ in inputs if node is not None)
    exec_info[root] = ExecInfo()
    for index, (node, input_nr) in enumerate(inputs):
        assert node is not None
        info = exec_info[node]
        if accumulate:
            info.needed = True
        else:
            info.captures.append(Capture(input_nr, index))
    whole = exec_info.whole
    #: The nodes at which something happens.
    executed = {node for node, info in exec_info.items() if info.should_execute}
    for node in _targets_first(root, exec_info.horizon):
        if node is None:
            yield
            continue
        is_needed, is_whole = False, True
        for target in node.next_nodes:
            if target in executed:
                is_needed = True
            elif target is not None:
                is_whole = False
        if is_needed:
            executed.add(node)
            if is_whole and node not in exec_info:
                whole.add(node)
            else:
                exec_info[node].needed = True
    exec_info.executed = len(executed)


def _targets_first(root: Node, horizon: int | None) -> Iterator[Node | None]:
    """Give the nodes with edges that `root` leads to on this side of the horizon, each behind all it leads to.

    Among them None, whenever there has been work for STEP nodes.
    """
    #: None stands behind what the last of `entered` leads to.
    stack: list[Node | None] = [root]
    entered: list[Node] = []
    reached: set[Node | None] = {None}
    steps = 0
    while stack:
        node = stack.pop()
        steps += 1
        if not steps % STEP:
            yield None
        if node is None:
            yield entered.pop()
        elif node not in reached:
            reached.add(node)
            entered.append(node)
            stack.append(None)
            for target in node.next_nodes:
                if target not in reached:
                    assert target is not None
                    if not target.next_nodes:
                        reached.add(target)
                    # As in `is_behind`, where a call would take as long as all else here.
                    elif horizon is None or target.order <= horizon or target.meta is not None:
                        stack.append(target)


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
