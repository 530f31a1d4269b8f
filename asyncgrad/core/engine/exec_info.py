"""ExecInfo: which nodes a backward with given inputs runs, and which gradients it captures at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..arrays import values
from ..arrays.ownership import private_copy
from ..graph.node import LEAF_ORDER
from .queues import ReadyQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..graph.node import Edge, Node

__all__ = [
    "Capture",
    "ExecInfo",
    "ExecInfos",
    "MAX_COUNTED",
    "STEP",
    "as_tensors",
    "count_edges",
    "count_reachable",
    "execution_order",
    "init_if_whole",
    "init_to_execute",
    "nodes_below",
    "init_stepwise",
]

#: A walk through a graph pauses after this many nodes, so that the caller may yield to the event loop.
STEP = 256


class Capture(NamedTuple):
    """Gradient `input_nr` of a node is result `result_nr` of the backward."""

    input_nr: int
    result_nr: int


@final
class ExecInfo:
    """What a backward with given inputs does at one node: run its body, capture gradients, both or neither."""

    __slots__ = ("captures", "needed")

    def __init__(self, needed: bool = False) -> None:
        #: Whether the node's body runs.
        self.needed: bool = needed
        self.captures: list[Capture] = []

    @property
    def should_execute(self) -> bool:
        """Whether the node runs or captures."""
        return self.needed or bool(self.captures)

    def __repr__(self) -> str:
        return f"ExecInfo(needed={self.needed}, captures={self.captures})"


@final
class ExecInfos(dict["Node", ExecInfo]):
    """The ExecInfo of each node of a backward with given inputs.

    Looking up a node without an entry makes one, so that a body can have the node run after all. A node without an
    entry runs if it is `whole`; most nodes that run are, and all but the root get entries only in `hand_out`.
    """

    __slots__ = ("executed", "handed_out", "horizon", "whole")

    def __init__(self) -> None:
        #: The `order` of the oldest of the inputs' nodes: no path leads to an input from an older node (see
        #: `_is_past_horizon`). None where that is unknown.
        self.horizon: int | None = None
        #: How often `hand_out` was called; its callers may have changed entries.
        self.handed_out: int = 0
        #: The nodes that run as in a backward without `inputs`: they capture nothing, and all their gradients are used.
        #: Empty after `hand_out`.
        self.whole: set[Node] = set()
        #: How many nodes run or capture.
        self.executed: int = 0

    def executes(self, node: Node) -> bool:
        """Tell whether a node runs or captures."""
        info = self.get(node)
        return node in self.whole if info is None else info.should_execute

    def runs(self, node: Node) -> bool:
        """Tell whether a node's body runs."""
        info = self.get(node)
        return node in self.whole if info is None else info.needed

    def only_runs(self, node: Node) -> bool:
        """Tell whether a node runs and captures nothing."""
        info = self.get(node)
        return node in self.whole if info is None else info.needed and not info.captures

    def hand_out(self) -> ExecInfos:
        """Return this for a caller that may change it, with an entry for each node that runs or captures."""
        self.handed_out += 1
        for node in self.whole:
            self.setdefault(node, ExecInfo(True))
        self.whole.clear()
        return self

    def __missing__(self, node: Node) -> ExecInfo:
        info = self[node] = ExecInfo(node in self.whole)
        return info


def _is_past_horizon(node: Node, horizon: int | None) -> bool:
    """Tell whether a node and all nodes that it leads to are older than `horizon`.

    Edges lead to older nodes. Only a node with a NodeMeta may have other edges, set by hand.
    """
    return horizon is not None and node.order > horizon and node.meta is None


def as_tensors(captured: list[Any], exec_info: ExecInfos | None) -> list[Any]:
    """Return copies of captured gradients as tensors, each on the device of the node that captured it."""
    tensors = list(captured)
    for node, info in () if exec_info is None else list(exec_info.items()):
        for _, result_nr in info.captures:
            tensors[result_nr] = values.wrap(private_copy(tensors[result_nr]), node.device)
    return tensors


def init_to_execute(root: Node, inputs: Sequence[Edge], accumulate: bool) -> ExecInfos:
    """Find the nodes between `root` and `inputs`.

    Args:
        root: the node that the backward starts from.
        inputs: the edges whose gradients are wanted; their nodes are not None.
        accumulate: whether the inputs' own nodes run (leaves accumulate), rather than capture their gradients.

    Returns:
        The ExecInfo of each node; the root always has an entry.

    Source: GraphTask::init_to_execute of PyTorch.
    """
    exec_info = ExecInfos()
    for _ in init_stepwise(exec_info, root, inputs, accumulate):
        pass
    return exec_info


def init_if_whole(root: Node, inputs: Sequence[Edge], accumulate: bool) -> ExecInfos | None:
    """Return what `init_to_execute` does if the graph is small and all paths in it end at `inputs`, else None.

    So it is in most transforms, whose inputs are new leaves. Then all nodes below the root run, and one walk, in any
    order, finds them.
    """
    exec_info = ExecInfos()
    for index, (node, input_nr) in enumerate(inputs):
        if node is None or node.next_nodes:
            return None
        info = exec_info.get(node)
        if info is None:
            info = exec_info[node] = ExecInfo(accumulate)
        if not accumulate:
            info.captures.append(Capture(input_nr, index))
    whole, stack = {root}, [root]
    while stack:
        leads_on = False
        for target in stack.pop().next_nodes:
            if target is None:
                continue
            leads_on = True
            if target not in whole and target not in exec_info:
                whole.add(target)
                stack.append(target)
        # A leaf that is not wanted, or a root that is an input.
        if not leads_on or len(whole) > STEP:
            return None
    exec_info.executed = len(whole) + len(exec_info)
    exec_info[root] = ExecInfo(True)
    exec_info.whole = whole
    return exec_info


def init_stepwise(exec_info: ExecInfos, root: Node, inputs: Sequence[Edge], accumulate: bool) -> Iterator[None]:
    """Fill an empty ExecInfos as `init_to_execute` does; a generator that pauses after every STEP steps."""
    horizon = exec_info.horizon = _horizon(inputs)
    exec_info[root] = ExecInfo()
    #: The nodes that run or capture.
    executed: set[Node | None] = set()
    for index, (node, input_nr) in enumerate(inputs):
        assert node is not None
        info = exec_info[node]
        if accumulate:
            info.needed = True
        else:
            info.captures.append(Capture(input_nr, index))
        executed.add(node)
    # The walk is in postorder. A None marks the end of the nodes that the last of `entered` leads to.
    stack: list[Node | None] = [root]
    entered: list[Node] = []
    reached: set[Node | None] = {None}
    steps = 0
    while stack:
        node = stack.pop()
        steps += 1
        if not steps % STEP:
            yield
        if node is None:
            _note_needed(entered.pop(), exec_info, executed)
        elif node not in reached:
            reached.add(node)
            entered.append(node)
            stack.append(None)
            for target in node.next_nodes:
                if target not in reached:
                    assert target is not None
                    if not target.next_nodes:
                        reached.add(target)
                    # As in `_is_past_horizon`, inlined: a call would double the time of this loop.
                    elif horizon is None or target.order <= horizon or target.meta is not None:
                        stack.append(target)
    exec_info.executed = len(executed)


def _horizon(inputs: Sequence[Edge]) -> int | None:
    """Return the `order` of the oldest node of the inputs; None where that says nothing of what leads to them."""
    oldest = None
    for node, _ in inputs:
        # The order of a node with a NodeMeta may have been set by hand.
        if node is None or node.meta is not None or node.order == LEAF_ORDER:
            return None
        oldest = node.order if oldest is None or node.order > oldest else oldest
    return oldest


def _note_needed(node: Node, exec_info: ExecInfos, executed: set[Node | None]) -> None:
    """Note that a node runs if one that it leads to does; all of those have been noted."""
    is_needed, is_whole = False, True
    for target in node.next_nodes:
        if target in executed:
            is_needed = True
        elif target is not None:
            is_whole = False
    if is_needed:
        executed.add(node)
        # The root and the nodes of the inputs have entries already.
        has_entry = node in exec_info
        if not is_whole or has_entry:
            exec_info[node].needed = True
        if is_whole and not (has_entry and exec_info[node].captures):
            exec_info.whole.add(node)


def nodes_below(root: Node, horizon: int | None = None) -> dict[Node, int]:
    """Return the nodes that `root` leads to, and for each how many edges lead to it.

    Args:
        root: the first node; it is in the result only if an edge leads to it.
        horizon: see ExecInfos; the walk reaches nodes beyond it and does not go on from them.
    """
    edges: dict[Node, int] = {}
    if not _is_past_horizon(root, horizon):
        for _ in count_edges([root], edges, horizon):
            pass
    return edges


def count_edges(sources: list[Node], edges: dict[Node, int], horizon: int | None = None) -> Iterator[None]:
    """Count the edges to each node below `sources`; a generator that pauses after every STEP nodes.

    Args:
        sources: the first nodes, each once; the list is consumed.
        edges: the counts, by the node that the edges lead to; they are added to.
        horizon: see ExecInfos; the walk reaches nodes beyond it and does not go on from them.
    """
    stack, seen, steps = sources, set(sources), 0
    while stack:
        for target in stack.pop().next_nodes:
            if target is not None:
                edges[target] = edges.get(target, 0) + 1
                if target not in seen and (horizon is None or not _is_past_horizon(target, horizon)):
                    seen.add(target)
                    stack.append(target)
        steps += 1
        if not steps % STEP:
            yield


#: How many nodes `count_reachable` counts at most: a fifth of a second.
MAX_COUNTED = 200_000


def count_reachable(nodes: Iterable[Node], limits: ExecInfos | None, most: int = MAX_COUNTED) -> int | None:
    """Return how many nodes these lead to, themselves included; None if there are more than `most`."""
    stack = list(nodes)
    seen = set(stack)
    while stack:
        for target in stack.pop().next_nodes:
            if target is not None and target not in seen and (limits is None or limits.executes(target)):
                seen.add(target)
                stack.append(target)
        if len(seen) > most:
            return None
    return len(seen)


def execution_order(graph_roots: Sequence[Node], root: Node, limits: ExecInfos | None) -> list[Node]:
    """Return the nodes that a backward runs or captures at, in their order where no body suspends.

    Args:
        graph_roots: the nodes of the roots that the caller gave.
        root: the node that the engine starts from: that of the only root, or a GraphRoot, which is left out.
        limits: the nodes that run; None runs all.

    Source: get_current_graph_task_execution_order of PyTorch, which is right from the first node only.
    """
    waiting = nodes_below(root)
    ready: ReadyQueue[Node] = ReadyQueue()
    ready.push(root, root)
    order = []
    while ready:
        node = ready.pop()
        # The tensor hooks of a single root run even if no path leads from it to an input.
        if node is not root or node in graph_roots:
            order.append(node)
        for target in node.next_nodes:
            if target is None:
                continue
            waiting[target] -= 1
            if not waiting[target] and (limits is None or limits.executes(target)):
                ready.push(target, target)
    return order
