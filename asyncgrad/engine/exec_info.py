"""ExecInfo: which nodes a backward with given inputs has to run, and what it captures where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..graph import values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..graph.node import Edge, Node

__all__ = ["Capture", "ExecInfo", "ExecInfos", "as_tensors", "init_to_execute", "should_execute"]


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

    Args:
        lowest: the smallest topological number among the inputs' nodes; below it no path leads to an input.
    """

    __slots__ = ("lowest",)

    def __init__(self, lowest: int = 0) -> None:
        super().__init__()
        self.lowest = lowest

    def __missing__(self, node: Node) -> ExecInfo:
        info = self[node] = ExecInfo()
        return info


def should_execute(exec_info: ExecInfos, node: Node) -> bool:
    """Tell whether gradients that flow to `node` are of any use to this backward."""
    info = exec_info.get(node)
    return info is not None and info.should_execute


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
    lowest = min((node.topological_nr for node, _ in inputs if node is not None), default=0)
    exec_info = ExecInfos(lowest)
    exec_info[root] = ExecInfo()
    for index, (node, input_nr) in enumerate(inputs):
        assert node is not None
        info = exec_info[node]
        if accumulate:
            info.needed = True
        else:
            info.captures.append(Capture(input_nr, index))
    stack, reached = [root], {root}
    while stack:
        for target in stack.pop().next_nodes:
            # A path only leads to smaller topological numbers: below the lowest input there is none.
            if target is not None and target not in reached and target.topological_nr >= lowest:
                reached.add(target)
                stack.append(target)
    for node in sorted(reached, key=lambda node: node.topological_nr):
        if any(target is not None and should_execute(exec_info, target) for target in node.next_nodes):
            exec_info[node].needed = True
    return exec_info
