"""From a graph to its description, a node at a time."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...graph.leaf import GraphRoot
from ...graph.naming import place_of
from ...graph.node import LEAF_ORDER
from ..device import needs_care
from ..notes import add_note
from .description import Cannot, Description, LeafPlace, Step, Target
from .traced import traced_source

if TYPE_CHECKING:
    from ...graph.node import Node
    from ..exec_info import ExecInfos
    from .slices import Slices

__all__ = ["CHANGED_MEANWHILE", "MOST_NODES", "Sight", "describe", "give_sources", "reason_of"]

#: Larger graphs are left to the engine: compiling one would take seconds.
MOST_NODES = 20_000
#: So many nodes are sorted in one go, and then merged with others.
SORTED_AT_A_TIME = 512

#: Why a graph that was about to be compiled is left to the engine.
CHANGED_MEANWHILE = "a graph that was changed while it was compiled"


@final
class Sight(NamedTuple):
    """A node as it was when it was looked at."""

    node: Node
    order: int
    step: Step
    special: Any
    #: Of these as of a tuple that is never changed, for a change puts another one in its place.
    next_nodes: tuple[Node | None, ...]
    input_nrs: tuple[int, ...]
    #: For each edge, whether this backward runs, or captures, what it leads to; no edge where the body does not run.
    wanted: tuple[bool, ...]

    @classmethod
    def of(cls, node: Node, state: Any, limits: ExecInfos | None) -> Sight:
        """Look at a node; `state` is what given inputs make of it."""
        nodes, input_nrs = node.next_nodes, node.input_nrs
        if state is not None and not state[0]:
            nodes, input_nrs = (), ()
        wanted = tuple([limits is None or (target is not None and limits.executes(target)) for target in nodes])
        return cls(node, node.order, Step(node, state), node.special, nodes, input_nrs, wanted)

    def has_changed(self) -> bool:
        """Tell whether a node whose body runs has other edges now, or is watched by others."""
        node = self.node
        return (
            node.special is not self.special
            or node.next_nodes is not self.next_nodes
            or node.input_nrs is not self.input_nrs
        )


def describe(root: Node, limits: ExecInfos | None, input_nr: int = 0) -> Slices[tuple[Description, list[Sight]]]:
    """Return the description of a backward that starts at an input of `root`, and the nodes of its steps.

    Each node is looked at once. So the description is one of some graph even if this one is changed between two slices.

    Raises:
        Cannot: the graph holds something that a compiled backward cannot carry.
    """
    nodes, leaves = yield from _seen(root, limits)
    numbers = {}
    for index, sight in enumerate(nodes):
        yield 0.0
        numbers[sight.node] = index
    description = Description([sight.step for sight in nodes], input_nr)
    places: dict[Node, int] = {}
    for index, sight in enumerate(nodes):
        yield 0.0
        sight.step.targets = tuple(
            [
                None if target is None else _target(target, nr, wanted, leaves, places, numbers)
                for target, nr, wanted in zip(sight.next_nodes, sight.input_nrs, sight.wanted, strict=True)
            ]
        )
        description.take_edges(index)
    yield from description.take_leaves(leaves[leaf] for leaf in places)
    return description, nodes


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


def give_sources(description: Description, nodes: list[Sight], limits: ExecInfos | None) -> Slices[None]:
    """Fetch the source of each step from its node.

    Raises:
        Cannot: a node has none.
    """
    arriving: dict[int, set[int]] = {}
    for index, (step, sight) in enumerate(zip(description.steps, nodes, strict=True)):
        yield 0.0
        for target in step.targets:
            if target is not None and target.is_wanted and not target.is_leaf:
                arriving.setdefault(target.number, set()).add(target.input_nr)
        inputs = arriving.pop(index, set())
        if step.is_careful or not step.runs_body:
            continue
        node: Any = sight.node
        if sight.has_changed():
            raise Cannot(CHANGED_MEANWHILE)
        wanted = None
        if limits is not None:
            wanted = [target is not None and target.is_wanted for target in step.targets]
        if step.is_traced:
            step.body = traced_source()
        else:
            defined = [input_nr in inputs or step.shape is not None for input_nr in range(len(step.metadata))]
            step.body = node.body_source(wanted, defined)
        if step.body is None:
            raise Cannot(f"{node.name} cannot be compiled")


def _limits_of(node: Node, limits: ExecInfos | None) -> Any:
    if limits is None:
        return None
    info = limits[node]
    return info.needed, tuple((capture.input_nr, capture.result_nr) for capture in info.captures)


def _seen(root: Node, limits: ExecInfos | None) -> Slices[tuple[list[Sight], dict[Node, LeafPlace]]]:
    """Return the nodes that this backward runs or captures at, newest first, and the leaves."""
    rows: list[list[Sight]] = []
    row: list[Sight] = []
    count = 0
    leaves: dict[Node, LeafPlace] = {}
    stack, seen = [root], {root}
    while stack:
        yield 0.0
        node = stack.pop()
        _check(node)
        state = _limits_of(node, limits)
        if node.order == LEAF_ORDER:
            leaves[node] = LeafPlace(node.shape or (), node.dtype, state, node.special is not None, 0)
            continue
        try:
            sight = Sight.of(node, state, limits)
        except Exception as error:
            add_note(error, f"in {node.name} ({place_of(node)}), which was asked what its run depends on")
            raise
        row.append(sight)
        count += 1
        if count > MOST_NODES:
            raise Cannot("more nodes than are compiled")
        if len(row) == SORTED_AT_A_TIME:
            row.sort(key=_order)
            rows.append(row)
            row = []
        for target, is_wanted in zip(sight.next_nodes, sight.wanted, strict=True):
            if target is None:
                continue
            if sight.order >= target.order != LEAF_ORDER:
                raise Cannot("an edge leads to a newer node")
            if is_wanted and target not in seen:
                seen.add(target)
                stack.append(target)
    row.sort(key=_order)
    nodes: list[Sight] = []
    for sight in merge(*rows, row, key=_order) if rows else row:
        yield 0.0
        if nodes and nodes[-1].order == sight.order:
            raise Cannot("nodes of one sequence number")
        nodes.append(sight)
    return nodes, leaves


def _order(sight: Sight) -> int:
    return sight.order


def _check(node: Any) -> None:
    """Raise unless a compiled function may run this node, or have it run."""
    if isinstance(node, GraphRoot):
        return
    special = node.special
    if needs_care(node.device) or (special is not None and special.stream is not None):
        raise Cannot(reason_of(node))
    for metadata in node.input_metadata:
        # An input that says nothing of its gradients, or that takes none.
        if special is not None and (metadata is None or metadata.was_default_constructed):
            continue
        if getattr(None if metadata is None else metadata.dtype, "isbuiltin", 0) != 1:
            raise Cannot("a dtype that is not one of NumPy's own")


def reason_of(node: Any) -> str:
    """Say why a node is left to the engine."""
    return "a device with a way of its own" if needs_care(node.device) else "streams"
