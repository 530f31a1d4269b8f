"""The summary of a graph: what kinds of nodes there are, what they keep, and what waits, at a glance."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from .facts import byte_text, hooks_of, is_async, joined_counts, leaf_of, number_text, saved_arrays
from .html import facts, panel
from .naming import identify
from .walk import names_of_leaves, nodes_below, roots_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .facts import SavedArray
    from .node import Node

__all__ = ["GraphSummary", "LeafSummary", "summary"]

#: What fits into a terminal.
_WIDTH = 100
_NUMBER = re.compile(r"\d+")
#: Where a line may break: not within a shape.
_BREAK = re.compile(r"(?<=[,;:]) (?![^(]*\))")


@final
@dataclass(frozen=True, slots=True)
class LeafSummary:
    """A leaf of a graph: one tensor or value whose gradient a backward computes.

    Attributes:
        name: the user's name, if `params` gave it one; else "".
        shape: the shape of the tensor; () of a value.
        dtype: its dtype; the name of the type of a value.
        device: the name of its device.
        nbytes: its bytes.
        is_value: whether it is a value, which is no array.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    nbytes: int
    is_value: bool = False

    def _look(self, name: str) -> str:
        return " ".join(filter(None, (name, "" if self.is_value else str(self.shape), self.dtype)))


@final
@dataclass(frozen=True, slots=True, repr=False)
class GraphSummary:
    """What `ag.graph.summary` found in a graph. A terminal shows it as lines of text, a notebook as a table.

    Attributes:
        roots: the names of the nodes that the graph begins at.
        kinds: how many nodes there are of each name, without leaves; the most frequent first.
        edges: the number of edges that lead to a node.
        depth: the number of nodes on the longest path.
        leaves: the leaves, in the order in which the graph names them.
        saved_bytes: the bytes of all saved arrays, each counted once, without what hooks have packed.
        saved_leaf_bytes: of these, the bytes of leaves, which live without the graph as well.
        saved_arrays: how many arrays that are.
        largest_saved: the largest, as (bytes, shape, dtype, node); None where nothing is saved.
        packed_bytes: the bytes, unpacked, of the tensors that saved-tensor hooks have packed.
        packed: how many tensors that are.
        released: how many nodes have released what they had saved.
        hooks: how many hooks there are, by kind.
        devices: how many nodes there are on each device.
        async_kinds: how many nodes there are of each name that may wait: whose rule or a hook is an `async def`, or
            that has to await saved tensors. Leaves with such a hook are among them.
    """

    roots: tuple[str, ...]
    kinds: Mapping[str, int]
    edges: int
    depth: int
    leaves: tuple[LeafSummary, ...]
    saved_bytes: int
    saved_leaf_bytes: int
    saved_arrays: int
    largest_saved: tuple[int, tuple[int, ...], str, str] | None
    packed_bytes: int
    packed: int
    released: int
    hooks: Mapping[str, int]
    devices: Mapping[str, int]
    async_kinds: Mapping[str, int]

    @property
    def nodes(self) -> int:
        """The number of nodes, without leaves."""
        return sum(self.kinds.values())

    @property
    def title(self) -> str:
        """The first line: what the graph is of, and how large it is."""
        names = ", ".join(self.roots[:3]) + (f", … {len(self.roots) - 3} more" if len(self.roots) > 3 else "")
        return f"Graph of {names}"

    def lines(self) -> list[tuple[str, str]]:
        """Return what is said of each thing, as pairs of text."""
        found = [
            (
                "size",
                ", ".join(
                    [
                        number_text(self.nodes, "node"),
                        number_text(self.edges, "edge"),
                        number_text(len(self.leaves), "leaf", "leaves"),
                        f"depth {self.depth:,}",
                    ]
                ),
            ),
            ("nodes", joined_counts(self.kinds.items()) or "none"),
            ("leaves", self._leaves()),
            ("saved", self._saved()),
        ]
        if self.packed:
            packed = f"{number_text(self.packed, 'tensor')} by hooks, {byte_text(self.packed_bytes)} unpacked"
            found.append(("packed", packed))
        if self.released:
            found.append(("released", f"{number_text(self.released, 'node')}, by a backward"))
        found.append(("hooks", ", ".join(number_text(count, kind) for kind, count in self.hooks.items()) or "none"))
        found.append(("devices", joined_counts(self.devices.items())))
        found.append(("async", joined_counts(self.async_kinds.items()) or "none: no rule and no hook waits"))
        return found

    def _leaves(self) -> str:
        if not self.leaves:
            return "none"
        elements = f"{byte_text(sum(leaf.nbytes for leaf in self.leaves))}: "
        # Names that differ in their numbers alone, as those of layers do, are counted together.
        looks = [leaf._look(_NUMBER.sub("*", leaf.name)) for leaf in self.leaves]
        if len(set(looks)) == len(looks):
            looks = [leaf._look(leaf.name) for leaf in self.leaves]
        return elements + joined_counts(Counter(looks).most_common())

    def _saved(self) -> str:
        if self.largest_saved is None:
            return "nothing"
        nbytes, shape, dtype, node = self.largest_saved
        leaves = f", {byte_text(self.saved_leaf_bytes)} of it leaves" if self.saved_leaf_bytes else ""
        return (
            f"{byte_text(self.saved_bytes)} in {number_text(self.saved_arrays, 'array')}{leaves}; "
            f"the largest {byte_text(nbytes)}, {shape} {dtype}, by {node}"
        )

    def __str__(self) -> str:
        return "\n".join([self.title, *(line for name, text in self.lines() for line in _wrapped(name, text))])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return panel(self.title, facts(self.lines()))


def summary(t: object, *, params: object = None) -> GraphSummary:
    """Return what the graph of `t` is made of: its nodes, leaves, saved bytes, hooks, devices and async rules.

    Nothing runs and nothing is unpacked. The graph may have a million nodes, and a backward may have released it.

    Args:
        t: a tensor, a Node, a GradientEdge, or a tree of them.
        params: a Module or a tree of tensors, which names the leaves.

    Raises:
        RequiresGradError: a tensor has no graph.
        ArgumentTypeError: `t` or `params` is something else.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> w = ag.tensor(np.ones((3, 2)), requires_grad=True)
        >>> loss = np.tanh(ag.tensor(np.ones((4, 3))) @ w).sum()
        >>> print(ag.graph.summary(loss, params={"w": w}))
        Graph of SumBackward
          size     3 nodes, 3 edges, 1 leaf, depth 4
          nodes    SumBackward × 1, TanhBackward × 1, MatmulBackward × 1
          leaves   48 B: w (3, 2) float64 × 1
          saved    160 B in 2 arrays; the largest 96 B, (4, 3) float64, by MatmulBackward (node #...)
          hooks    none
          devices  cpu × 4
          async    none: no rule and no hook waits
    """
    roots = roots_of(t, "ag.graph.summary")
    names = names_of_leaves(params)
    nodes = nodes_below(roots)
    inner = [node for node in nodes if leaf_of(node) is None]
    kept, released = _kept_by(nodes)
    memory = {array.key: (array, node) for array, node in kept if array.origin != "packed"}
    packed = [array for array, _ in kept if array.origin == "packed"]
    largest = max(memory.values(), key=lambda pair: pair[0].nbytes, default=None)
    hooks: Counter[str] = Counter()
    for node in nodes:
        hooks.update(hooks_of(node))
    return GraphSummary(
        roots=tuple(root.name for root in roots),
        kinds=_counted([node.name for node in inner]),
        edges=sum(target is not None for node in nodes for target in node.next_nodes),
        depth=_depth(nodes),
        leaves=tuple(_leaf(leaf, names) for leaf in map(leaf_of, nodes) if leaf is not None),
        saved_bytes=sum(array.nbytes for array, _ in memory.values()),
        saved_leaf_bytes=sum(array.nbytes for array, _ in memory.values() if array.origin == "leaf"),
        saved_arrays=len(memory),
        largest_saved=None
        if largest is None
        else (largest[0].nbytes, largest[0].shape, str(largest[0].dtype), identify(largest[1])),
        packed_bytes=sum(array.nbytes for array in packed),
        packed=len(packed),
        released=released,
        hooks=MappingProxyType(dict(hooks.most_common())),
        devices=_counted([str(node.device) if node.device is not None else "none" for node in nodes]),
        async_kinds=_counted([node.name for node in nodes if is_async(node)]),
    )


def _wrapped(name: str, text: str) -> Iterator[str]:
    """Yield `name  text` in lines that fit into a terminal."""
    line = f"  {name:<9}"
    is_empty = True
    for part in _BREAK.split(text):
        if not is_empty and len(line) + 1 + len(part) > _WIDTH:
            yield line
            line, is_empty = " " * 11, True
        line += part if is_empty else f" {part}"
        is_empty = False
    yield line


def _kept_by(nodes: Sequence[Node]) -> tuple[list[tuple[SavedArray, Node]], int]:
    """Return what all nodes have saved, each with its node; and how many nodes have released that."""
    kept: list[tuple[SavedArray, Node]] = []
    released = 0
    for node in nodes:
        arrays = saved_arrays(node)
        if arrays is None:
            released += 1
        else:
            kept += [(array, node) for array in arrays]
    return kept, released


def _counted(names: Sequence[str]) -> Mapping[str, int]:
    return MappingProxyType(dict(Counter(names).most_common()))


def _leaf(leaf: Any, names: Mapping[int, str]) -> LeafSummary:
    kind = leaf._value_metadata
    if kind is not None:
        nbytes = kind.type.nbytes(leaf.value)
        return LeafSummary(names.get(id(leaf), ""), kind.shape, kind.type.name, str(leaf._device), nbytes, True)
    data = leaf._data
    nbytes = getattr(data, "nbytes", 0)
    return LeafSummary(names.get(id(leaf), ""), data.shape, str(data.dtype), str(leaf._device), nbytes)


def _depth(nodes: Sequence[Node]) -> int:
    depths: dict[Node, int] = {}
    for node in reversed(nodes):
        depths[node] = 1 + max((depths[target] for target in node.next_nodes if target is not None), default=0)
    return max(depths.values())
