"""Eight branches of three matrix products and tanh: measures how well one backward uses two processors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, final

import numpy as np

import asyncgrad as ag

from .peers import Array
from .runner import Benchmark

__all__ = ["BENCHMARKS", "Branches"]

BRANCHES, DEPTH, WORKERS = 8, 3, 2


@final
class Branches(Benchmark):
    """asyncgrad with two workers and with none (inline); NumPy by hand on two threads and on one (the floor).

    The speed-up of asyncgrad is `inline` over `asyncgrad`; the possible one is `floor` over `two threads`.
    """

    title = "8 branches of 3 × (matmul, tanh), {0} × {0}, float32"
    section = (
        "Eight branches of three matrix products and tanh: asyncgrad with two workers, with none (inline), and the "
        "same arithmetic by hand on two threads and on one (the floor)."
    )
    params = (("asyncgrad", "inline", "two threads", "floor"), (64, 256, 512))
    _pool: ClassVar[ThreadPoolExecutor] = ThreadPoolExecutor(WORKERS)

    def setup(self, peer: str, size: int) -> None:
        """Create a weight for each layer of each branch."""
        random = np.random.default_rng(0)
        self.peer = peer
        self.x = random.standard_normal((size, size), dtype=np.float32)
        scale = np.float32(size**-0.5)
        self.weights = random.standard_normal((BRANCHES, DEPTH, size, size), dtype=np.float32) * scale
        self.start = np.ones((size, size), np.float32)
        self.leaves = [[ag.tensor(weight, requires_grad=True) for weight in branch] for branch in self.weights]
        self.found: list[list[Array]] = []

    def gradients(self) -> list[Array]:
        """Return the gradient of each weight."""
        if self.peer in ("asyncgrad", "inline"):
            return [leaf.grad.numpy() for branch in self.leaves for leaf in branch if leaf.grad is not None]
        return [gradient for branch in self.found for gradient in branch]

    def prepare_backward(self) -> None:
        """Run the forward."""
        if self.peer in ("asyncgrad", "inline"):
            self.roots = []
            for branch in self.leaves:
                y: Any = self.x
                for leaf in branch:
                    leaf.grad = None
                    y = np.tanh(y @ leaf)
                self.roots.append(y)
            return
        self.saved = []
        for branch in self.weights:
            y, kept = self.x, []
            for weight in branch:
                out = np.tanh(y @ weight)
                kept.append((y, weight, out))
                y = out
            self.saved.append(kept)

    async def time_backward(self) -> None:
        """Time the backward of all branches."""
        starts = [self.start] * BRANCHES
        if self.peer == "asyncgrad":
            with ag.workers(WORKERS):
                await ag.backward(self.roots, starts)
        elif self.peer == "inline":
            with ag.workers(0):
                await ag.backward(self.roots, starts)
        elif self.peer == "two threads":
            self.found = list(self._pool.map(self._pull_back, self.saved))
        else:
            self.found = [self._pull_back(kept) for kept in self.saved]

    def _pull_back(self, kept: list[tuple[Array, Array, Array]]) -> list[Array]:
        gradients, g = [], self.start
        for place, (y, weight, out) in reversed(list(enumerate(kept))):
            g = g * (1 - out * out)
            gradients.append(y.T @ g)
            if place:
                g = g @ weight.T
        return gradients[::-1]


BENCHMARKS = [Branches]
