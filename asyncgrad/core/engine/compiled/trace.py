"""Trace: the nodes that a backward runs, in their order, from which it is compiled.

A trace holds no node. One compiled function runs all graphs with equal traces.

Tracing and compiling are generators, so that the event loop can run in between (`Slices`). The work may pause at each
`yield`, for any time. The value yielded is an estimate of the seconds that the next slice takes, or 0 if it is short.
So the work itself reads no clock and knows no event loop.
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
from ...graph.value_metadata import ValueMetadata
from ..device import home_of, needs_node_task
from ..notes import add_note
from .calls import is_traced, traced_source

if TYPE_CHECKING:
    from ...graph.lowering import BodySource
    from ...graph.metadata import InputMetadata
    from ...graph.node import Node
    from ..exec_info import ExecInfos

__all__ = [
    "CHANGED_MEANWHILE",
    "SEVERAL_DEVICES",
    "Unsupported",
    "Trace",
    "LeafSpec",
    "MAX_NODES",
    "NodeSnapshot",
    "Slices",
    "Op",
    "Target",
    "run_to_end",
    "trace_backward",
    "add_sources",
    "unsupported_reason",
    "token_of",
]

T = TypeVar("T")

#: Work in slices, which returns a T: see the module docstring.
Slices = Generator[float, None, T]


def run_to_end(work: Generator[float, Any, T]) -> T:
    """Run all slices without a pause; return the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


#: The reason why a backward on several devices of a library is not compiled: each would have to be made current.
SEVERAL_DEVICES = "several devices"


@final
class Unsupported(Exception):
    """Raised for a graph that cannot be compiled; its argument is the reason in CompiledStats."""


class Target(NamedTuple):
    """What an edge leads to: an input of an op or of a leaf."""

    is_leaf: bool
    #: The number of the op or the leaf; -1 if it is not wanted.
    number: int
    input_nr: int
    #: Whether this backward runs the node there, or captures its gradient.
    is_wanted: bool


class LeafSpec(NamedTuple):
    """The AccumulateGrad of one leaf of a trace."""

    shape: tuple[int, ...]
    dtype: Any
    #: Whether its gradient is accumulated, and its captures as pairs of input and result; None without `inputs`.
    limits: tuple[bool, tuple[tuple[int, int], ...]] | None
    #: Whether it runs as a NodeTask.
    runs_node_task: bool
    #: How many edges lead there.
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
        self.name: str = node.name
        self.node_class: type[Node] = type(node)
        self.shape: tuple[int, ...] | None = node.shape
        self.runs_body: bool = limits is None or limits[0]
        #: Whether it has a NodeMeta.
        self.has_meta: bool = node.meta is not None
        #: Whether its body is called directly although it has a NodeMeta.
        self.is_traced: bool = self.has_meta and self.runs_body and is_traced(node)
        #: Whether it runs as a NodeTask, which reads its hooks when it runs.
        self.runs_node_task: bool = self.has_meta and not self.is_traced and not isinstance(node, GraphRoot)
        #: By input.
        self.metadata: tuple[InputMetadata | ValueMetadata | None, ...] = node.input_metadata
        self.key: tuple[Any, ...] = self.metadata
        if not self.runs_node_task:
            args = CompiledArgs()
            node.compiled_args(args)
            self.key = args.structure
        #: Set by `add_sources`; None if the op runs as a NodeTask, or only captures.
        self.body: BodySource | None = None
        self.limits: Any | None = limits
        self.targets: tuple[Target | None, ...] = ()
        self.token: tuple[Any, ...] = token_of(node)

    def identity(self) -> tuple[Any, ...]:
        """Return everything that two ops must have in common to be run by the same source."""
        return self.token[0], self.runs_node_task, self.key, self.limits, self.targets


@final
class Trace:
    """The ops of a backward in the order in which they run, and its leaves in the order in which they are reached."""

    __slots__ = (
        "_arrived",
        "_last_edges",
        "_leaf_edges",
        "_leaves_after",
        "_path_end",
        "input_nr",
        "leaves",
        "length",
        "ops",
        "runs_node_task",
    )

    def __init__(self, ops: list[Op], input_nr: int) -> None:
        self.ops: list[Op] = ops
        self.leaves: list[LeafSpec] = []
        #: The input of the first op at which the backward begins.
        self.input_nr: int = input_nr
        #: Whether any op or leaf runs as a NodeTask.
        self.runs_node_task: bool = False
        #: The depth of the graph along the first edge of each op that leads anywhere.
        self.length: int = 0
        #: The last op on that path so far.
        self._path_end = 0
        #: By op or leaf, the op and the edge that deliver to it last, in the order of delivery.
        self._last_edges: dict[tuple[bool, int], tuple[int, int]] = {}
        self._leaves_after: dict[int, list[int]] = {}
        #: By leaf, how many edges lead there.
        self._leaf_edges: Counter[int] = Counter()
        #: The op and the input of each gradient that arrives at an op.
        self._arrived: set[tuple[int, int]] = set()

    def add_edges(self, index: int) -> None:
        """Record the targets of an op, which have been set; call it for each op, in order.

        Raises:
            Unsupported: an edge leads to a newer node, a gradient arrives at an input that takes none, or several
                arrive at an input of unknown shape.
        """
        op = self.ops[index]
        self.runs_node_task = self.runs_node_task or op.runs_node_task
        if index == self._path_end:
            first = next((target for target in op.targets if target is not None), None)
            if first is not None and not first.is_leaf and first.number >= 0:
                self._path_end = first.number
                self.length += 1
        for edge, target in enumerate(op.targets):
            if target is None or not target.is_wanted:
                continue
            key = target.is_leaf, target.number
            self._last_edges.pop(key, None)
            self._last_edges[key] = index, edge
            if target.is_leaf:
                self._leaf_edges[target.number] += 1
            else:
                self._check_input(target, index)

    def _check_input(self, target: Target, index: int) -> None:
        key = target.number, target.input_nr
        if target.number <= index:
            raise Unsupported("an edge leads to a newer node")
        inputs = self.ops[target.number].metadata
        metadata = inputs[target.input_nr] if target.input_nr < len(inputs) else None
        if target.input_nr >= len(inputs) or (metadata is not None and metadata.was_default_constructed):
            raise Unsupported("a gradient at an input that takes none")
        if metadata is None and key in self._arrived:
            raise Unsupported("a sum of gradients of unknown shape")
        self._arrived.add(key)

    def add_leaves(self, leaves: Iterable[LeafSpec]) -> Slices[None]:
        """Add the leaves, in order, after the edges of all ops."""
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
        """Return the number of the op that delivers the last gradient to op number `op`; -1 for the first op."""
        return self._last_edges.get((False, op), (-1, 0))[0]

    def leaves_after(self, op: int) -> list[int]:
        """Return the leaves whose last gradient an op delivers, in the order of delivery."""
        return self._leaves_after.get(op, [])

    def token_at(self, path: tuple[int, ...]) -> tuple[Any, ...] | None:
        """Return the token of the node that a path of edges leads to from the root; None if it leads nowhere."""
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
        """Return a path of edges from the root to an op, by the first parent of each op."""
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
        """Return the number of the first op that differs between two traces; of the last common op if none differs."""
        last = 0
        for number, (op, other_op) in enumerate(zip(self.ops, other.ops, strict=False)):
            yield 0.0
            last = number
            if _differ(op, other_op):
                break
        return last

    def matches(self, other: Trace) -> Slices[bool]:
        """Tell whether another trace has the same structure, shapes and dtypes."""
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
    """Return a description of a node that is quick to read: plan or class, shape, dtype, whether it has no NodeMeta."""
    plan = getattr(node, "plan", None)
    return (type(node) if plan is None else plan), node.shape, node.dtype, node.meta is None


#: The engine runs larger graphs: compiling one would take seconds.
MAX_NODES = 20_000
#: How many nodes are sorted in one slice; the sorted chunks are merged.
SORT_CHUNK = 512

#: The reason in CompiledStats for a graph that was changed between two slices.
CHANGED_MEANWHILE = "a graph that was changed while it was compiled"


@final
class NodeSnapshot(NamedTuple):
    """A node as it was when the walk read it."""

    node: Node
    order: int
    op: Op
    meta: Any
    #: Both tuples are never changed in place: another tuple means that the edges were changed.
    next_nodes: tuple[Node | None, ...]
    input_nrs: tuple[int, ...]
    #: By edge, whether this backward runs the node there, or captures its gradient; empty if the body does not run.
    wanted: tuple[bool, ...]

    @classmethod
    def of(cls, node: Node, node_limits: Any, limits: ExecInfos | None) -> NodeSnapshot:
        """Return the snapshot of a node; `node_limits` is the result of `_limits_of`."""
        nodes, input_nrs = node.next_nodes, node.input_nrs
        if node_limits is not None and not node_limits[0]:
            nodes, input_nrs = (), ()
        wanted = tuple([limits is None or (target is not None and limits.executes(target)) for target in nodes])
        return cls(node, node.order, Op(node, node_limits), node.meta, nodes, input_nrs, wanted)

    def has_changed(self) -> bool:
        """Tell whether the node has another NodeMeta or other edges now; its body must run in this backward."""
        node = self.node
        return (
            node.meta is not self.meta or node.next_nodes is not self.next_nodes or node.input_nrs is not self.input_nrs
        )


def trace_backward(root: Node, limits: ExecInfos | None, input_nr: int = 0) -> Slices[tuple[Trace, list[NodeSnapshot]]]:
    """Return the trace of a backward that starts at an input of `root`, and the snapshots of the nodes of its ops.

    Each node is read once. So the trace is consistent even if the graph is changed between two slices.

    Raises:
        Unsupported: the graph cannot be compiled.
    """
    nodes, leaves = yield from _walk_graph(root, limits)
    numbers = {}
    for index, snapshot in enumerate(nodes):
        yield 0.0
        numbers[snapshot.node] = index
    trace = Trace([snapshot.op for snapshot in nodes], input_nr)
    leaf_numbers: dict[Node, int] = {}
    for index, snapshot in enumerate(nodes):
        yield 0.0
        snapshot.op.targets = tuple(
            [
                None if target is None else _target(target, nr, wanted, leaves, leaf_numbers, numbers)
                for target, nr, wanted in zip(snapshot.next_nodes, snapshot.input_nrs, snapshot.wanted, strict=True)
            ]
        )
        trace.add_edges(index)
    yield from trace.add_leaves(leaves[leaf] for leaf in leaf_numbers)
    return trace, nodes


def _target(
    target: Node,
    input_nr: int,
    is_wanted: bool,
    leaves: dict[Node, LeafSpec],
    leaf_numbers: dict[Node, int],
    numbers: dict[Node, int],
) -> Target:
    if not is_wanted:
        return Target(False, -1, input_nr, False)
    if target in leaves:
        return Target(True, leaf_numbers.setdefault(target, len(leaf_numbers)), input_nr, True)
    return Target(False, numbers[target], input_nr, True)


def add_sources(trace: Trace, nodes: list[NodeSnapshot], limits: ExecInfos | None) -> Slices[None]:
    """Get the source of each op from its node.

    Raises:
        Unsupported: a node has none, or has changed since the walk.
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
    """Return whether a node is needed, and its captures as pairs of input and result; None without `inputs`."""
    if limits is None:
        return None
    info = limits[node]
    return info.needed, tuple((capture.input_nr, capture.result_nr) for capture in info.captures)


def _walk_graph(root: Node, limits: ExecInfos | None) -> Slices[tuple[list[NodeSnapshot], dict[Node, LeafSpec]]]:
    """Return snapshots of the nodes that this backward runs or captures at, newest first, and its leaves."""
    chunks: list[list[NodeSnapshot]] = []
    chunk: list[NodeSnapshot] = []
    count = 0
    leaves: dict[Node, LeafSpec] = {}
    stack, seen = [root], {root}
    home = home_of(root)
    while stack:
        yield 0.0
        node = stack.pop()
        _check_supported(node)
        if node.device is not home and getattr(node.device, "switch", None) is not None:
            raise Unsupported(SEVERAL_DEVICES)
        node_limits = _limits_of(node, limits)
        if node.order == LEAF_ORDER:
            leaves[node] = LeafSpec(node.shape or (), node.dtype, node_limits, node.meta is not None, 0)
            continue
        try:
            snapshot = NodeSnapshot.of(node, node_limits, limits)
        except Exception as error:
            add_note(error, f"in {node.name} ({place_of(node)}), which was asked what its run depends on")
            raise
        chunk.append(snapshot)
        count += 1
        if count > MAX_NODES:
            raise Unsupported("too many nodes")
        if len(chunk) == SORT_CHUNK:
            chunk.sort(key=_order)
            chunks.append(chunk)
            chunk = []
        for target, is_wanted in zip(snapshot.next_nodes, snapshot.wanted, strict=True):
            if target is None:
                continue
            if snapshot.order >= target.order != LEAF_ORDER:
                raise Unsupported("an edge leads to a newer node")
            if is_wanted and target not in seen:
                seen.add(target)
                stack.append(target)
    chunk.sort(key=_order)
    nodes: list[NodeSnapshot] = []
    for snapshot in merge(*chunks, chunk, key=_order) if chunks else chunk:
        yield 0.0
        if nodes and nodes[-1].order == snapshot.order:
            raise Unsupported("nodes with equal sequence numbers")
        nodes.append(snapshot)
    return nodes, leaves


def _order(snapshot: NodeSnapshot) -> int:
    return snapshot.order


def _check_supported(node: Any) -> None:
    """Raise Unsupported unless a compiled function may run a node, itself or as a NodeTask."""
    if isinstance(node, GraphRoot):
        return
    meta = node.meta
    if needs_node_task(node.device) or (meta is not None and meta.stream is not None):
        raise Unsupported(unsupported_reason(node))
    for metadata in node.input_metadata:
        if isinstance(metadata, ValueMetadata):
            raise Unsupported("a gradient that is no array")
        # A node with a NodeMeta may have an input of unknown shape, or one that takes no gradient.
        if meta is not None and (metadata is None or metadata.was_default_constructed):
            continue
        if getattr(None if metadata is None else metadata.dtype, "isbuiltin", 0) != 1:
            raise Unsupported("a dtype that is not one of NumPy's own")


def unsupported_reason(node: Any) -> str:
    """Return the reason why a backward with such a node is not compiled."""
    return "a device that needs NodeTasks" if needs_node_task(node.device) else "streams"
