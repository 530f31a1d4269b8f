"""The graphs: nodes are calls of a model, each of which takes the answers of earlier ones, or the prompt."""

from __future__ import annotations

import itertools
from typing import NamedTuple

__all__ = ["GRAPHS", "PROMPT", "Graph", "layered"]

#: Stands for the prompt, the only leaf, among the inputs of a node.
PROMPT = -1


class Graph(NamedTuple):
    """A graph with one leaf, which is learned, and one output, the last node."""

    title: str
    #: Of each node, the nodes whose answers it takes.
    nodes: tuple[tuple[int, ...], ...]

    @property
    def layers(self) -> list[list[int]]:
        """The nodes by the length of the longest path from the prompt; those of a layer need not wait for another."""
        depths: list[int] = []
        for inputs in self.nodes:
            depths.append(1 + max((depths[index] for index in inputs if index != PROMPT), default=-1))
        return [[node for node, depth in enumerate(depths) if depth == layer] for layer in range(max(depths) + 1)]

    @property
    def depth(self) -> int:
        """How many nodes the longest path has: so many critiques wait for each other at least."""
        return len(self.layers)

    @property
    def critiques(self) -> int:
        """How many critiques a backward needs: one for each input of each node."""
        return sum(map(len, self.nodes))


def layered(*sizes: int) -> Graph:
    """Return a graph of layers. The first one takes the prompt; each node of a later one takes two neighbours.

    The last node takes all of the layer before.
    """
    nodes: list[tuple[int, ...]] = [(PROMPT,)] * sizes[0]
    begin = 0
    for before, size in itertools.pairwise(sizes):
        nodes += [(begin + place % before, begin + (place + 1) % before) for place in range(size)]
        begin += before
    nodes.append(tuple(range(begin, len(nodes))))
    return Graph(f"{len(nodes)} nodes", tuple(nodes))


#: Drafts of one prompt, comparisons of two of them each, and a verdict; and the same with a further layer.
GRAPHS = (layered(5, 6), layered(6, 7, 6))
