"""How the edges and the inputs of a node are set by hand, and what that must not break.

The edges of a node are fixed once a node leads to it: what that one leads to, and its topological number, never
change, all of it is older than that one, and a cycle is impossible.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ArgumentTypeError, GraphError, IndexRangeError
from .metadata import InputMetadata
from .naming import identify
from .tracked import Tracked
from .values import counted, describe

if TYPE_CHECKING:
    from .node import Node, Special

__all__ = ["Edge", "WithEdges", "checked_edge", "output_indices"]


class Edge(NamedTuple):
    """Where a gradient flows: to input `input_nr` of `node`; a None node drops it.

    Example:
        >>> from asyncgrad.graph import Edge
        >>> Edge(None, 0).node is None
        True
    """

    node: Node | None
    input_nr: int


class WithEdges:
    """Abstract base of Node: its edges, and the methods that set them and add to its inputs."""

    __slots__ = ("has_parent", "input_nrs", "next_nodes")

    #: For each edge, the node it leads to (None drops the gradient) and which of its inputs.
    next_nodes: tuple[Node | None, ...]
    input_nrs: tuple[int, ...]
    #: True once a node that leads here has been made; not there before, to cost nothing.
    has_parent: bool

    device: Any
    special: Special | None

    @property
    def next_edges(self) -> tuple[Edge, ...]:
        """For each forward input, where its gradient flows."""
        return tuple(map(Edge, self.next_nodes, self.input_nrs))

    @property
    def topological_nr(self) -> int:
        """The length of the longest path from here: no path leads to a node with as high a number.

        Counted when it is asked for, in a time that grows with the graph.
        """
        numbers: dict[Any, int] = {}
        stack: list[Any] = [self]
        while stack:
            node = stack[-1]
            targets = [target for target in node.next_nodes if target is not None]
            missing = [target for target in targets if target not in numbers]
            if missing:
                stack += missing
            else:
                numbers[stack.pop()] = max((numbers[target] + 1 for target in targets), default=0)
        return numbers[self]

    def is_held(self) -> bool:
        """Tell whether a node has ever been made that leads to this one; then its edges cannot change any more."""
        return getattr(self, "has_parent", False)

    def set_next_edge(self, index: int, edge: Edge | None) -> None:
        """Let the gradient of forward input `index` flow along another edge.

        Args:
            index: which forward input.
            edge: an Edge or a GradientEdge; None drops the gradient.

        Raises:
            GraphError: the node has a parent already, or has no gradient for that input to give.

        Source: Node::set_next_edge of PyTorch.
        """
        index = _index(self, index)
        self._set_edges({index: edge}, len(self.next_nodes))

    def set_next_edges(self, edges: Iterable[Edge | None]) -> None:
        """Replace all edges: one for each forward input.

        Args:
            edges: Edges or GradientEdges; None drops a gradient. As many as the body returns gradients; only a node
                of your own may get another number of them.

        Raises:
            GraphError: the node has a parent already, or cannot have these edges.

        Source: Node::set_next_edges of PyTorch.
        """
        given = dict(enumerate(edges))
        if len(given) != len(self.next_nodes):
            self._must_be_own(f"get {counted(len(given), 'edge')} in place of {len(self.next_nodes)}")
        self._set_edges(given, len(given))

    def add_next_edge(self, edge: Edge | None) -> None:
        """Add an edge behind the others of a node of your own, whose body returns one more gradient for it.

        Raises:
            GraphError: the node has a parent already, or an operation made it.

        Source: Node::add_next_edge of PyTorch.
        """
        self._must_be_own("get one more edge")
        count = len(self.next_nodes)
        self._set_edges({count: edge}, count + 1)

    def add_input_metadata(self, metadata: InputMetadata | Tracked | None) -> int:
        """Add an input to a node of your own, for one more forward output; return which input it is.

        Args:
            metadata: what its gradient must look like: an InputMetadata, or a tensor that it is to fit. None accepts
                anything; `InputMetadata()` is a slot for an output that has no gradient, and accepts nothing.

        Raises:
            GraphError: an operation made the node.

        Source: Node::add_input_metadata of PyTorch.
        """
        self._must_be_own("get one more input")
        if isinstance(metadata, Tracked):
            metadata = InputMetadata(metadata._data.shape, metadata._data.dtype, metadata._device)
        elif metadata is not None and not isinstance(metadata, InputMetadata):
            raise ArgumentTypeError(
                f"an input is described by an InputMetadata or a tensor, not {describe(metadata)}: "
                "write InputMetadata(shape, dtype, device), or None for one that accepts anything"
            )
        special = self.special
        assert special is not None
        inputs = special.input_metadata
        assert inputs is not None
        special.input_metadata = (*inputs, metadata)
        if self.device is None and metadata is not None:
            self.device = metadata.device
        return len(inputs)

    def computes_output(self, index: int) -> bool:
        """Tell whether the body can give a gradient for forward input `index`, were an edge to lead on from it."""
        return True

    def _must_be_own(self, change: str) -> None:
        if self.special is None or self.special.input_metadata is None:
            raise GraphError(
                f"{identify(self)} cannot {change}: the operation that made it settles what it takes and returns. "
                "Put a node of your own, a subclass of ag.extend.Node, before or behind it"
            )

    def _set_edges(self, changed: dict[int, Edge | None], count: int) -> None:
        """Set some of the edges, of which there are `count` afterwards, and all that follows from them."""
        if self.is_held():
            raise GraphError(
                f"the edges of {identify(self)} are fixed: a node leads to it, and relies on where this one "
                "leads. Set edges before any node leads here"
            )
        nodes, input_nrs = list(self.next_nodes[:count]), list(self.input_nrs[:count])
        nodes += [None] * (count - len(nodes))
        input_nrs += [0] * (count - len(input_nrs))
        for index, edge in changed.items():
            nodes[index], input_nrs[index] = checked_edge(edge)
            if nodes[index] is self:
                raise GraphError(f"an edge of {identify(self)} cannot lead to the node itself")
            if nodes[index] is not None and not self.computes_output(index):
                raise GraphError(
                    f"{identify(self)} was recorded without a gradient for input {index}, which did not require grad: "
                    "let that input require grad when the operation is called"
                )
        # An edge to a newer node is against the order that the engine's fast path trusts. No node leads here
        # yet: those that will are newer still, so that path comes here, and sees this, before it runs anything below.
        self.make_special()
        self.connect(tuple(nodes), tuple(input_nrs))

    def connect(self, nodes: tuple[Node | None, ...], input_nrs: tuple[int, ...]) -> None:
        """Take these for edges, unchecked."""
        self.next_nodes, self.input_nrs = nodes, input_nrs
        for node in nodes:
            if node is not None:
                node.has_parent = True

    def make_special(self) -> Special:
        """Return what few nodes have, made now if this node had none."""
        raise NotImplementedError


def checked_edge(edge: Any) -> tuple[Node | None, int]:
    """Return what an edge leads to.

    Raises:
        ArgumentTypeError: it is no edge.
        IndexRangeError: its node has no such input.
    """
    if edge is None:
        return None, 0
    if not isinstance(edge, tuple) or len(edge) != 2 or not isinstance(edge[0], WithEdges | None):
        raise ArgumentTypeError(
            f"an edge is an Edge, a GradientEdge or None, not {describe(edge)}: write Edge(node, input_nr), or "
            "ag.graph.get_gradient_edge(tensor)"
        )
    node, input_nr = edge
    if type(input_nr) is not int:
        raise ArgumentTypeError(f"the input_nr of an edge is an int, not {describe(input_nr)}: write Edge(node, 0)")
    if node is not None and not 0 <= input_nr < node.num_inputs:
        raise IndexRangeError(
            f"an edge leads to input {input_nr} of {identify(node)}, which has {counted(node.num_inputs, 'input')}"
        )
    return node, input_nr


def output_indices(node: WithEdges, given: Iterable[Any]) -> Iterator[int]:
    """Give the indices of edges that ints, pairs `(start, end)`, and sequences of these name.

    Raises:
        IndexRangeError: the node has no such edge.
        ArgumentTypeError: something else is among them.
    """
    count = len(node.next_nodes)
    for item in given:
        if hasattr(item, "__index__"):
            yield _index(node, item)
        elif not isinstance(item, Iterable) or isinstance(item, str):
            raise ArgumentTypeError(
                f"forward inputs are named by an index or a pair (start, end), not {describe(item)}: "
                "write should_compute_output(0) or should_compute_output((0, 2))"
            )
        elif isinstance(item, tuple) and len(item) == 2 and all(hasattr(bound, "__index__") for bound in item):
            start, end = map(operator.index, item)
            if not 0 <= start <= end <= count:
                raise IndexRangeError(
                    f"({start}, {end}) is no range among the {counted(count, 'edge')} of {identify(node)}"
                )
            yield from range(start, end)
        else:
            yield from output_indices(node, item)


def _index(node: WithEdges, index: Any) -> int:
    if not hasattr(index, "__index__") or isinstance(index, bool):
        raise ArgumentTypeError(f"an edge is named by an int, not {describe(index)}: write node.set_next_edge(0, edge)")
    count = len(node.next_nodes)
    if not 0 <= (number := operator.index(index)) < count:
        raise IndexRangeError(f"{identify(node)} has {counted(count, 'edge')}, and none of them is number {number}")
    return number
