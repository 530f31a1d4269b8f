"""What a compiled backward is made from: the nodes that a backward runs, in their order, found by a walk in slices.

It is written as generators. Each `yield` is a place where the work may rest, for as long as whoever runs it likes; what
is yielded is how many seconds the part that follows takes, where that is long, and 0 elsewhere. So the work itself
knows neither clock nor event loop.

A trace holds no node. Two graphs with equal traces are run by the same compiled function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

from ...graph.leaf import AccumulateGrad, GraphRoot
from ...graph.lowering import CompiledArgs
from ...graph.naming import place_of
from ...graph.node import LEAF_ORDER
from ..device import needs_care
from ..notes import add_note
from .calls import is_traced, traced_source

if TYPE_CHECKING:
    from ...graph.lowering import BodySource
    from ...graph.metadata import InputMetadata
    from ...graph.node import Node
    from ..exec_info import ExecInfos

__all__ = [
    "CHANGED_MEANWHILE",
    "Unsupported",
    "Trace",
    "LeafPlace",
    "MOST_NODES",
    "NodeSnapshot",
    "Slices",
    "Op",
    "Target",
    "at_once",
    "describe",
    "give_sources",
    "reason_of",
    "token_of",
]

T = TypeVar("T")

#: A generator of such places, which returns a T.
Slices = Generator[float, None, T]


def at_once(work: Generator[float, Any, T]) -> T:
    """Do all of it without a rest; return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


@final
class Unsupported(Exception):
    """Raised where a graph is left to the engine; its argument is the reason that statistics show."""


class Target(NamedTuple):
    """Where an edge leads: to an op or to a leaf, by number, and to which of its inputs."""

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
    runs_node_task: bool
    #: How many lead there.
    edges: int


@final
class Op:
    """One node of a trace."""

    __slots__ = (
        "body",
        "has_meta",
        "is_traced",
        "key",
        "limits",
        "metadata",
        "name",
        "node_class",
        "runs_body",
        "runs_node_task",
        "shape",
        "targets",
        "token",
    )

    def __init__(self, node: Node, limits: Any) -> None:
        self.name = node.name
        self.node_class = type(node)
        self.shape = node.shape
        self.runs_body: bool = limits is None or limits[0]
        #: Whether it has a NodeMeta.
        self.has_meta = node.meta is not None
        #: Whether it is called as it is all the same.
        self.is_traced = self.has_meta and self.runs_body and is_traced(node)
        #: Whether a NodeTask runs it, which finds out for itself what hooks there are.
        self.runs_node_task = self.has_meta and not self.is_traced and not isinstance(node, GraphRoot)
        #: Of each input.
        self.metadata: tuple[InputMetadata | None, ...] = node.input_metadata
        self.key: tuple[Any, ...] = self.metadata
        if not self.runs_node_task:
            args = CompiledArgs()
            node.compiled_args(args)
            self.key = args.structure
        #: Set by `give_sources`; None where the op runs as a NodeTask, or only captures.
        self.body: BodySource | None = None
        self.limits = limits
        self.targets: tuple[Target | None, ...] = ()
        self.token = token_of(node)

    def identity(self) -> tuple[Any, ...]:
        """Return all that makes this op what it is."""
        return self.token[0], self.runs_node_task, self.key, self.limits, self.targets


@final
class Trace:
    """The ops of a backward in the order in which they run, and its leaves in that in which they are reached."""

    __slots__ = (
        "_arrived",
        "_last_edges",
        "_leaf_edges",
        "_leaves_after",
        "_measured",
        "input_nr",
        "leaves",
        "length",
        "ops",
        "runs_node_task",
    )

    def __init__(self, ops: list[Op], input_nr: int) -> None:
        self.ops = ops
        self.leaves: list[LeafPlace] = []
        #: At which input of the first op the backward begins.
        self.input_nr = input_nr
        self.runs_node_task = False
        #: How many ops follow each other by the first edge that leads anywhere; and the last of them.
        self.length = 0
        self._measured = 0
        #: By op and by leaf, the op and the edge that deliver last, in the order in which they do.
        self._last_edges: dict[tuple[bool, int], tuple[int, int]] = {}
        self._leaves_after: dict[int, list[int]] = {}
        #: By leaf, how many edges lead there.
        self._leaf_edges: Counter[int] = Counter()
        #: The inputs of ops that a gradient arrives at.
        self._arrived: set[tuple[int, int]] = set()

    def take_edges(self, index: int) -> None:
        """Take note of where the edges of an op lead, now that it is known; the ops come in their order.

        Raises:
            Unsupported: a gradient arrives at an input that says nothing of it, or that takes none.
        """
        op = self.ops[index]
        self.runs_node_task = self.runs_node_task or op.runs_node_task
        if index == self._measured:
            first = next((target for target in op.targets if target is not None), None)
            if first is not None and not first.is_leaf and first.number >= 0:
                self._measured = first.number
                self.length += 1
        for edge, target in enumerate(op.targets):
            if target is None or not target.is_wanted:
                continue
            place = target.is_leaf, target.number
            self._last_edges.pop(place, None)
            self._last_edges[place] = index, edge
            if target.is_leaf:
                self._leaf_edges[target.number] += 1
            else:
                self._check_input(target, index)

    def _check_input(self, target: Target, index: int) -> None:
        place = target.number, target.input_nr
        if target.number <= index:
            raise Unsupported("an edge leads to a newer node")
        inputs = self.ops[target.number].metadata
        metadata = inputs[target.input_nr] if target.input_nr < len(inputs) else None
        if target.input_nr >= len(inputs) or (metadata is not None and metadata.was_default_constructed):
            raise Unsupported("a gradient where an output has none")
        if metadata is None and place in self._arrived:
            raise Unsupported("a sum of gradients of unknown shape")
        self._arrived.add(place)

    def take_leaves(self, leaves: Iterable[LeafPlace]) -> Slices[None]:
        """Take what is known of the leaves, in their order, now that all edges are."""
        for number, leaf in enumerate(leaves):
            yield 0.0
            self.leaves.append(leaf._replace(edges=self._leaf_edges[number]))
            self.runs_node_task = self.runs_node_task or leaf.runs_node_task
        for (is_leaf, number), (last, _) in self._last_edges.items():
            yield 0.0
            if is_leaf:
                self._leaves_after.setdefault(last, []).append(number)
        self._arrived.clear()

    def ready_after(self, op: int) -> int:
        """Return the number of the op after which this one has got all its gradients."""
        return self._last_edges.get((False, op), (-1, 0))[0]

    def leaves_after(self, op: int) -> list[int]:
        """Return the leaves that have got all their gradients after an op, in the order in which they do."""
        return self._leaves_after.get(op, [])

    def token_at(self, path: tuple[int, ...]) -> tuple[Any, ...] | None:
        """Return the token of the node that a row of edges leads to from the root; None where they lead nowhere."""
        op = self.ops[0]
        for edge in path:
            target = op.targets[edge] if edge < len(op.targets) else None
            if target is None or (target.number < 0):
                return None
            if target.is_leaf:
                leaf = self.leaves[target.number]
                return AccumulateGrad, leaf.shape, leaf.dtype, not leaf.runs_node_task
            op = self.ops[target.number]
        return op.token

    def path_to(self, index: int) -> tuple[int, ...]:
        """Return the edges that lead from the root to an op, the first way in the order of ops."""
        parents: dict[int, tuple[int, int]] = {}
        for number, op in enumerate(self.ops[:index]):
            for edge, target in enumerate(op.targets):
                if target is not None and not target.is_leaf and target.number not in parents:
                    parents[target.number] = number, edge
        path: list[int] = []
        while index:
            index, edge = parents[index]
            path.append(edge)
        return tuple(reversed(path))

    def first_difference(self, other: Trace) -> Slices[int]:
        """Return the number of the first op that is another one there; the last one of both if there is none."""
        last = 0
        for number, (op, other_op) in enumerate(zip(self.ops, other.ops, strict=False)):
            yield 0.0
            last = number
            if _differ(op, other_op):
                break
        return last

    def is_like(self, other: Trace) -> Slices[bool]:
        """Tell whether the other one is of the same structure, with the same shapes and dtypes."""
        if (len(self.ops), len(self.leaves), self.input_nr) != (len(other.ops), len(other.leaves), other.input_nr):
            return False
        for op, other_op in zip(self.ops, other.ops, strict=True):
            yield 0.0
            if _differ(op, other_op):
                return False
        for leaf, other_leaf in zip(self.leaves, other.leaves, strict=True):
            yield 0.0
            if leaf != other_leaf:
                return False
        return True


def _differ(op: Op, other: Op) -> bool:
    try:
        return op.identity() != other.identity()
    except Exception as error:
        add_note(error, f"in {op.name}, whose compiled_args collects what cannot be compared")
        raise


def token_of(node: Any) -> tuple[Any, ...]:
    """Return what tells one node from another at a glance."""
    plan = getattr(node, "plan", None)
    return (type(node) if plan is None else plan), node.shape, node.dtype, node.meta is None


#: Larger graphs are left to the engine: compiling one would take seconds.
MOST_NODES = 20_000
#: So many nodes are sorted in one go, and then merged with others.
SORTED_AT_A_TIME = 512

#: Why a graph that was about to be compiled is left to the engine.
CHANGED_MEANWHILE = "a graph that was changed while it was compiled"


@final
class NodeSnapshot(NamedTuple):
    """A node as it was when it was looked at."""

    node: Node
    order: int
    op: Op
    meta: Any
    #: Of these as of a tuple that is never changed, for a change puts another one in its place.
    next_nodes: tuple[Node | None, ...]
    input_nrs: tuple[int, ...]
    #: For each edge, whether this backward runs, or captures, what it leads to; no edge where the body does not run.
    wanted: tuple[bool, ...]

    @classmethod
    def of(cls, node: Node, state: Any, limits: ExecInfos | None) -> NodeSnapshot:
        """Look at a node; `state` is what given inputs make of it."""
        nodes, input_nrs = node.next_nodes, node.input_nrs
        if state is not None and not state[0]:
            nodes, input_nrs = (), ()
        wanted = tuple([limits is None or (target is not None and limits.executes(target)) for target in nodes])
        return cls(node, node.order, Op(node, state), node.meta, nodes, input_nrs, wanted)

    def has_changed(self) -> bool:
        """Tell whether a node whose body runs has other edges now, or is watched by others."""
        node = self.node
        return (
            node.meta is not self.meta or node.next_nodes is not self.next_nodes or node.input_nrs is not self.input_nrs
        )


def describe(root: Node, limits: ExecInfos | None, input_nr: int = 0) -> Slices[tuple[Trace, list[NodeSnapshot]]]:
    """Return the trace of a backward that starts at an input of `root`, and the nodes of its ops.

    Each node is looked at once. So the trace is one of some graph even if this one is changed between two slices.

    Raises:
        Unsupported: the graph holds something that a compiled backward cannot carry.
    """
    nodes, leaves = yield from _seen(root, limits)
    numbers = {}
    for index, snapshot in enumerate(nodes):
        yield 0.0
        numbers[snapshot.node] = index
    trace = Trace([snapshot.op for snapshot in nodes], input_nr)
    places: dict[Node, int] = {}
    for index, snapshot in enumerate(nodes):
        yield 0.0
        snapshot.op.targets = tuple(
            [
                None if target is None else _target(target, nr, wanted, leaves, places, numbers)
                for target, nr, wanted in zip(snapshot.next_nodes, snapshot.input_nrs, snapshot.wanted, strict=True)
            ]
        )
        trace.take_edges(index)
    yield from trace.take_leaves(leaves[leaf] for leaf in places)
    return trace, nodes


def _target(
    target: Node,
    input_nr: int,
    is_wanted: bool,
    leaves: dict[Node, LeafPlace],
    places: dict[Node, int],
    numbers: dict[Node, int],
) -> Target:
    if not is_wanted:
        return Target(False, -1, input_nr, False)
    if target in leaves:
        return Target(True, places.setdefault(target, len(places)), input_nr, True)
    return Target(False, numbers[target], input_nr, True)


def give_sources(trace: Trace, nodes: list[NodeSnapshot], limits: ExecInfos | None) -> Slices[None]:
    """Fetch the source of each op from its node.

    Raises:
        Unsupported: a node has none.
    """
    arriving: dict[int, set[int]] = {}
    for index, (op, snapshot) in enumerate(zip(trace.ops, nodes, strict=True)):
        yield 0.0
        for target in op.targets:
            if target is not None and target.is_wanted and not target.is_leaf:
                arriving.setdefault(target.number, set()).add(target.input_nr)
        inputs = arriving.pop(index, set())
        if op.runs_node_task or not op.runs_body:
            continue
        node: Any = snapshot.node
        if snapshot.has_changed():
            raise Unsupported(CHANGED_MEANWHILE)
        wanted = None
        if limits is not None:
            wanted = [target is not None and target.is_wanted for target in op.targets]
        if op.is_traced:
            op.body = traced_source()
        else:
            defined = [input_nr in inputs or op.shape is not None for input_nr in range(len(op.metadata))]
            op.body = node.body_source(wanted, defined)
        if op.body is None:
            raise Unsupported(f"{node.name} cannot be compiled")


def _limits_of(node: Node, limits: ExecInfos | None) -> Any:
    if limits is None:
        return None
    info = limits[node]
    return info.needed, tuple((capture.input_nr, capture.result_nr) for capture in info.captures)


def _seen(root: Node, limits: ExecInfos | None) -> Slices[tuple[list[NodeSnapshot], dict[Node, LeafPlace]]]:
    """Return the nodes that this backward runs or captures at, newest first, and the leaves."""
    rows: list[list[NodeSnapshot]] = []
    row: list[NodeSnapshot] = []
    count = 0
    leaves: dict[Node, LeafPlace] = {}
    stack, seen = [root], {root}
    while stack:
        yield 0.0
        node = stack.pop()
        _check(node)
        state = _limits_of(node, limits)
        if node.order == LEAF_ORDER:
            leaves[node] = LeafPlace(node.shape or (), node.dtype, state, node.meta is not None, 0)
            continue
        try:
            snapshot = NodeSnapshot.of(node, state, limits)
        except Exception as error:
            add_note(error, f"in {node.name} ({place_of(node)}), which was asked what its run depends on")
            raise
        row.append(snapshot)
        count += 1
        if count > MOST_NODES:
            raise Unsupported("more nodes than are compiled")
        if len(row) == SORTED_AT_A_TIME:
            row.sort(key=_order)
            rows.append(row)
            row = []
        for target, is_wanted in zip(snapshot.next_nodes, snapshot.wanted, strict=True):
            if target is None:
                continue
            if snapshot.order >= target.order != LEAF_ORDER:
                raise Unsupported("an edge leads to a newer node")
            if is_wanted and target not in seen:
                seen.add(target)
                stack.append(target)
    row.sort(key=_order)
    nodes: list[NodeSnapshot] = []
    for snapshot in merge(*rows, row, key=_order) if rows else row:
        yield 0.0
        if nodes and nodes[-1].order == snapshot.order:
            raise Unsupported("nodes of one sequence number")
        nodes.append(snapshot)
    return nodes, leaves


def _order(snapshot: NodeSnapshot) -> int:
    return snapshot.order


def _check(node: Any) -> None:
    """Raise unless a compiled function may run this node, or have it run."""
    if isinstance(node, GraphRoot):
        return
    meta = node.meta
    if needs_care(node.device) or (meta is not None and meta.stream is not None):
        raise Unsupported(reason_of(node))
    for metadata in node.input_metadata:
        # An input that says nothing of its gradients, or that takes none.
        if meta is not None and (metadata is None or metadata.was_default_constructed):
            continue
        if getattr(None if metadata is None else metadata.dtype, "isbuiltin", 0) != 1:
            raise Unsupported("a dtype that is not one of NumPy's own")


def reason_of(node: Any) -> str:
    """Say why a node is left to the engine."""
    return "a device with a way of its own" if needs_care(node.device) else "streams"
