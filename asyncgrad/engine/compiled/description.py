"""What a compiled backward is made from: the nodes that a backward runs, in their order, and how they hang together.

A description holds no node. Two graphs with equal descriptions are run by the same compiled function.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...graph.compiled_args import CompiledArgs
from ...graph.leaf import AccumulateGrad, GraphRoot
from ...graph.node import LEAF_ORDER
from ..device import is_elsewhere
from .traced import is_traced, traced_source

if TYPE_CHECKING:
    from ...graph.compiled_args import BodySource
    from ...graph.metadata import InputMetadata
    from ...graph.node import Node
    from ..exec_info import ExecInfos

__all__ = [
    "MOST_NODES",
    "Cannot",
    "Description",
    "LeafPlace",
    "Step",
    "Target",
    "describe",
    "give_sources",
    "reason_of",
    "token_of",
]

#: Larger graphs are left to the engine: compiling one would take seconds.
MOST_NODES = 20_000


@final
class Cannot(Exception):
    """Raised where a graph is left to the engine; its argument is the reason that statistics show."""


class Target(NamedTuple):
    """Where an edge leads: to a step or to a leaf, by number, and to which of its inputs."""

    is_leaf: bool
    number: int
    input_nr: int
    #: Whether this backward runs, or captures, what it leads to.
    is_wanted: bool


class LeafPlace(NamedTuple):
    """A leaf's AccumulateGrad."""

    shape: tuple[int, ...]
    dtype: Any
    #: Whether its gradient is accumulated, and as which results it is captured; None where no inputs are given.
    limits: tuple[bool, tuple[tuple[int, int], ...]] | None
    #: Whether a NodeTask runs it.
    is_careful: bool
    #: How many lead there.
    edges: int


@final
class Step:
    """One node of a description."""

    __slots__ = (
        "body",
        "is_careful",
        "is_special",
        "is_traced",
        "key",
        "limits",
        "metadata",
        "name",
        "node_class",
        "runs_body",
        "shape",
        "targets",
        "token",
    )

    def __init__(self, node: Node, limits: Any) -> None:
        self.name = node.name
        self.node_class = type(node)
        self.shape = node.shape
        self.runs_body: bool = limits is None or limits[0]
        #: Whether it has a Special.
        self.is_special = node.special is not None
        #: Whether it is called as it is all the same.
        self.is_traced = self.is_special and self.runs_body and is_traced(node)
        #: Whether a NodeTask runs it, which finds out for itself what hooks there are.
        self.is_careful = self.is_special and not self.is_traced and not isinstance(node, GraphRoot)
        #: Of each input.
        self.metadata: tuple[InputMetadata | None, ...] = node.input_metadata
        self.key: tuple[Any, ...] = self.metadata
        if not self.is_careful:
            args = CompiledArgs()
            node.compiled_args(args)
            self.key = args.structure
        #: Set by `give_sources`; None where the step is careful, or only captures.
        self.body: BodySource | None = None
        self.limits = limits
        self.targets: tuple[Target | None, ...] = ()
        self.token = token_of(node)

    def identity(self) -> tuple[Any, ...]:
        """Return all that makes this step what it is."""
        return self.token[0], self.is_careful, self.key, self.limits, self.targets


@final
class Description:
    """The steps of a backward in the order in which they run, and its leaves in that in which they are reached."""

    __slots__ = ("_identity", "_last_edges", "_leaves_after", "input_nr", "is_careful", "leaves", "steps")

    def __init__(self, steps: list[Step], leaves: list[LeafPlace], input_nr: int) -> None:
        self.steps = steps
        self.leaves = leaves
        #: At which input of the first step the backward begins.
        self.input_nr = input_nr
        self.is_careful = any(step.is_careful for step in steps) or any(leaf.is_careful for leaf in leaves)
        self._identity = (tuple(step.identity() for step in steps), tuple(leaves), input_nr)
        #: By step and by leaf, the step and the edge that deliver last.
        self._last_edges: dict[tuple[bool, int], tuple[int, int]] = {}
        for number, step in enumerate(steps):
            for edge, target in enumerate(step.targets):
                if target is not None and target.is_wanted:
                    self._last_edges[target.is_leaf, target.number] = number, edge
        self._leaves_after: dict[int, list[int]] = {}
        for (is_leaf, number), (last, _) in sorted(self._last_edges.items(), key=lambda item: item[1]):
            if is_leaf:
                self._leaves_after.setdefault(last, []).append(number)

    def ready_after(self, step: int) -> int:
        """Return the number of the step after which this one has got all its gradients."""
        return self._last_edges.get((False, step), (-1, 0))[0]

    def leaves_after(self, step: int) -> list[int]:
        """Return the leaves that have got all their gradients after a step, in the order in which they do."""
        return self._leaves_after.get(step, [])

    def token_at(self, path: tuple[int, ...]) -> tuple[Any, ...] | None:
        """Return the token of the node that a row of edges leads to from the root; None where they lead nowhere."""
        step = self.steps[0]
        for edge in path:
            target = step.targets[edge] if edge < len(step.targets) else None
            if target is None or (target.number < 0):
                return None
            if target.is_leaf:
                leaf = self.leaves[target.number]
                return AccumulateGrad, leaf.shape, leaf.dtype, not leaf.is_careful
            step = self.steps[target.number]
        return step.token

    def length(self) -> int:
        """Return how many steps follow each other by the first edge that leads anywhere."""
        step, length = self.steps[0], 0
        while (target := next((target for target in step.targets if target is not None), None)) is not None:
            if target.is_leaf or target.number < 0:
                break
            step = self.steps[target.number]
            length += 1
        return length

    def path_to(self, index: int) -> tuple[int, ...]:
        """Return the edges that lead from the root to a step, the first way in the order of steps."""
        parents: dict[int, tuple[int, int]] = {}
        for number, step in enumerate(self.steps[:index]):
            for edge, target in enumerate(step.targets):
                if target is not None and not target.is_leaf and target.number not in parents:
                    parents[target.number] = number, edge
        path: list[int] = []
        while index:
            index, edge = parents[index]
            path.append(edge)
        return tuple(reversed(path))

    def is_like(self, other: Description) -> bool:
        """Tell whether the other one is of the same structure, with the same shapes and dtypes."""
        return self._identity == other._identity


def token_of(node: Any) -> tuple[Any, ...]:
    """Return what tells one node from another at a glance."""
    plan = getattr(node, "plan", None)
    return (type(node) if plan is None else plan), node.shape, node.dtype, node.special is None


def describe(root: Node, limits: ExecInfos | None, input_nr: int = 0) -> Description:
    """Return the description of a backward that starts at an input of `root`.

    Raises:
        Cannot: the graph holds something that a compiled backward cannot carry.
    """
    nodes, leaves = _reached(root, limits)
    numbers = {node: index for index, node in enumerate(nodes)}
    places: dict[Node, int] = {}
    edges: Counter[Node] = Counter()
    steps = []
    for node in nodes:
        state = _limits_of(node, limits)
        step = Step(node, state)
        steps.append(step)
        if state is None or state[0]:
            step.targets = tuple(
                [
                    None if target is None else _target(target, input_nr, leaves, places, numbers, limits)
                    for target, input_nr in zip(node.next_nodes, node.input_nrs, strict=True)
                ]
            )
            edges.update(target for target in node.next_nodes if target in leaves)
    found = [
        LeafPlace(leaf.shape or (), leaf.dtype, _limits_of(leaf, limits), leaf.special is not None, edges[leaf])
        for leaf in places
    ]
    _check_inputs(steps)
    return Description(steps, found, input_nr)


def _check_inputs(steps: list[Step]) -> None:
    """Raise where a gradient arrives at an input that says nothing of it, or that takes none."""
    arrived: set[tuple[int, int]] = set()
    for step in steps:
        for target in step.targets:
            if target is None or not target.is_wanted or target.is_leaf:
                continue
            place = target.number, target.input_nr
            inputs = steps[target.number].metadata
            metadata = inputs[target.input_nr] if target.input_nr < len(inputs) else None
            if target.input_nr >= len(inputs) or (metadata is not None and metadata.was_default_constructed):
                raise Cannot("a gradient where an output has none")
            if metadata is None and place in arrived:
                raise Cannot("a sum of gradients of unknown shape")
            arrived.add(place)


def _target(
    target: Node,
    input_nr: int,
    leaves: dict[Node, None],
    places: dict[Node, int],
    numbers: dict[Node, int],
    limits: ExecInfos | None,
) -> Target:
    if limits is not None and not limits.executes(target):
        return Target(False, -1, input_nr, False)
    if target in leaves:
        return Target(True, places.setdefault(target, len(places)), input_nr, True)
    return Target(False, numbers[target], input_nr, True)


def give_sources(description: Description, root: Node, limits: ExecInfos | None) -> None:
    """Fetch the source of each step from the nodes of the graph that `description` has just been made of.

    Raises:
        Cannot: a node has none.
    """
    nodes, _ = _reached(root, limits)
    arriving = [{0} if step.shape is not None else set[int]() for step in description.steps]
    for step, node, inputs in zip(description.steps, nodes, arriving, strict=True):
        for target in step.targets:
            if target is not None and target.is_wanted and not target.is_leaf:
                arriving[target.number].add(target.input_nr)
        if step.is_careful or not step.runs_body:
            continue
        wanted = None
        if limits is not None:
            wanted = [target is not None and target.is_wanted for target in step.targets]
        if step.is_traced:
            step.body = traced_source()
        else:
            step.body = node.body_source(wanted, [input_nr in inputs for input_nr in range(len(step.metadata))])
        if step.body is None:
            raise Cannot(f"{node.name} cannot be compiled")


def _limits_of(node: Node, limits: ExecInfos | None) -> Any:
    if limits is None:
        return None
    info = limits[node]
    return info.needed, tuple((capture.input_nr, capture.result_nr) for capture in info.captures)


def _reached(root: Node, limits: ExecInfos | None) -> tuple[list[Any], dict[Node, None]]:
    """Return the nodes that this backward runs or captures at, newest first, and the leaves."""
    nodes: list[Any] = []
    leaves: dict[Node, None] = {}
    stack, seen = [root], {root}
    while stack:
        node = stack.pop()
        _check(node)
        if node.order == LEAF_ORDER:
            leaves[node] = None
            continue
        nodes.append(node)
        if len(nodes) > MOST_NODES:
            raise Cannot("more nodes than are compiled")
        if limits is not None and not limits[node].needed:
            continue
        for target in node.next_nodes:
            if target is None:
                continue
            if node.order >= target.order != LEAF_ORDER:
                raise Cannot("an edge leads to a newer node")
            if target in seen:
                continue
            if limits is None or limits.executes(target):
                seen.add(target)
                stack.append(target)
    nodes.sort(key=lambda node: node.order)
    if any(node.order == after.order for node, after in pairwise(nodes)):
        raise Cannot("nodes of one sequence number")
    return nodes, leaves


def _check(node: Any) -> None:
    """Raise unless a compiled function may run this node, or have it run."""
    if isinstance(node, GraphRoot):
        return
    special = node.special
    if is_elsewhere(node.device) or (special is not None and special.stream is not None):
        raise Cannot(reason_of(node))
    for metadata in node.input_metadata:
        # An input that says nothing of its gradients, or that takes none.
        if special is not None and (metadata is None or metadata.was_default_constructed):
            continue
        if getattr(None if metadata is None else metadata.dtype, "isbuiltin", 0) != 1:
            raise Cannot("a dtype that is not one of NumPy's own")


def reason_of(node: Any) -> str:
    """Say why a node is left to the engine."""
    return "a device with a worker" if is_elsewhere(node.device) else "streams"
