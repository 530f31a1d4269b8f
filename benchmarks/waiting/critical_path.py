"""A thousand nodes that each wait for 10 ms: measures how close a backward comes to its critical path.

The graph is layered and random: every node takes the outputs of one or two nodes of the previous layer. So the longest
path has one node of each layer, and the backward takes at least the sum of the waits along it.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, final

import numpy as np

import asyncgrad as ag

from ..peers import Array
from .loops import LOOPS, OnEachLoop

__all__ = ["CriticalPath"]

NODES, DEPTH, SECONDS = 1_000, 21, 0.010


@final
class Wait(ag.Function):
    """The sum of its inputs. Its backward waits, as if for an answer from another machine."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        """Add up the inputs."""
        ctx.count = len(inputs)
        return sum(tensor.numpy() for tensor in inputs)

    @staticmethod
    async def backward(ctx: Any, g: Any) -> Any:
        """Return the gradient after 10 ms."""
        await asyncio.sleep(SECONDS)
        return (g,) * ctx.count


def layers() -> list[list[tuple[int, ...]]]:
    """Return, for each node of each layer, the nodes of the previous layer that it takes."""
    random = np.random.default_rng(0)
    sizes = [NODES // DEPTH + (layer < NODES % DEPTH) for layer in range(DEPTH)]
    graph: list[list[tuple[int, ...]]] = [[(0,)] * sizes[0]]
    for before, size in itertools.pairwise(sizes):
        first = np.resize(random.permutation(before), size)
        second = random.integers(0, before, size)
        graph.append([tuple(sorted({int(one), int(other)})) for one, other in zip(first, second, strict=True)])
    return graph


@final
class ByHand:
    """The same backward by hand: each node is a task, which starts when those that take its output have ended.

    Args:
        graph: what `layers` returns.
    """

    def __init__(self, graph: list[list[tuple[int, ...]]]) -> None:
        self._graph = graph
        self._uses = [[0] * len(layer) for layer in graph]
        self._grads = [[0.0] * len(layer) for layer in graph]
        self._found = 0.0

    async def run(self) -> float:
        """Return the gradient of the leaf."""
        for below, layer in enumerate(self._graph[1:]):
            for index in itertools.chain.from_iterable(layer):
                self._uses[below][index] += 1
        async with asyncio.TaskGroup() as self._group:
            for depth, counts in enumerate(self._uses):
                for index, uses in enumerate(counts):
                    if not uses:
                        self._grads[depth][index] = 1.0
                        self._group.create_task(self._run_node(depth, index))
        return self._found

    async def _run_node(self, depth: int, index: int) -> None:
        await asyncio.sleep(SECONDS)
        grad = self._grads[depth][index]
        if not depth:
            self._found += grad
            return
        for target in self._graph[depth][index]:
            self._grads[depth - 1][target] += grad
            self._uses[depth - 1][target] -= 1
            if not self._uses[depth - 1][target]:
                self._group.create_task(self._run_node(depth - 1, target))


@final
class CriticalPath(OnEachLoop):
    """asyncgrad, the nominal critical path, and the same graph of tasks by hand (the floor)."""

    title = f"{NODES:,} nodes of {1000 * SECONDS:.0f} ms in a random graph of depth {DEPTH}, on {{}}"
    params = (("asyncgrad", "critical path", "floor"), LOOPS)
    peer: str
    by_hand: ByHand
    found: float
    x: ag.Tensor
    roots: list[ag.Tensor]

    def setup(self, peer: str, loop: str) -> None:
        """Create the leaf of the graph."""
        self.peer = peer
        self.x = ag.tensor(1.0, requires_grad=True)

    def gradients(self) -> list[Array]:
        """Return the gradient of the leaf: the number of paths, counted layer by layer for the critical path."""
        if self.peer == "asyncgrad":
            assert self.x.grad is not None
            return [self.x.grad.numpy()]
        if self.peer == "floor":
            return [np.array(self.found)]
        outputs = [1.0]
        total = 0.0
        for layer in layers():
            unused = set(range(len(outputs))) - {index for inputs in layer for index in inputs}
            total += sum(outputs[index] for index in unused)
            outputs = [sum(outputs[index] for index in inputs) for inputs in layer]
        return [np.array(total + sum(outputs))]

    def prepare_backward(self) -> None:
        """Run the forward, which does not wait."""
        if self.peer != "asyncgrad":
            self.by_hand = ByHand(layers())
            return
        self.x.grad = None
        self.roots = []
        outputs = [self.x]
        for layer in layers():
            used = {index for inputs in layer for index in inputs}
            self.roots += [output for index, output in enumerate(outputs) if index not in used]
            outputs = [Wait.apply(*(outputs[index] for index in inputs)) for inputs in layer]
        self.roots += outputs

    async def time_backward(self) -> float | None:
        """Time the backward; the time of the nominal critical path is known without a measurement."""
        if self.peer == "critical path":
            return DEPTH * SECONDS
        if self.peer == "floor":
            self.found = await self.by_hand.run()
        else:
            await ag.backward(self.roots, [np.ones(())] * len(self.roots))
        return None
