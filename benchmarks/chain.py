"""A chain of small operations, `y = y*x + x`: measures the engine's own cost per node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np

from .peers import PEERS, Array, Models, Problem
from .runner import RepeatedBenchmark

__all__ = ["BENCHMARKS", "Chain"]

#: Two nodes each.
ITERATIONS = 2_000


def chain(x: Any) -> Any:
    """Return the end of the chain; the same model for every peer that overloads operators."""
    y = x
    for _ in range(ITERATIONS):
        y = y * x + x
    return y


def floor(x: Array) -> tuple[Array, Callable[[Array], list[Array]]]:
    """Return the end of the chain, and a function for its gradient, by hand."""
    saved = []
    y = x
    for _ in range(ITERATIONS):
        saved.append(y)
        y = y * x + x

    def pullback(g: Array) -> list[Array]:
        total = np.zeros_like(x)
        while saved:
            total += g
            total += g * saved.pop()
            g = g * x
        return [total + g]

    return y, pullback


@final
class Chain(RepeatedBenchmark):
    """4,000 nodes, float64."""

    title = "chain of 4,000 nodes, size {}"
    params = (tuple(PEERS), (16, 10_000))
    models: ClassVar[Models] = {"asyncgrad": chain, "torch": chain, "HIPS": chain, "MyGrad": chain, "floor": floor}

    @staticmethod
    def problem(size: int) -> Problem:
        """Return an x below 1, for which the chain converges.

        Its 2,000th power is no denormal number: XLA takes those for zero, the others compute with them, at a hundred
        times the cost.
        """
        return Problem(constants=[], variables=[np.linspace(0.75, 0.95, size)], start=np.ones(size))

    def prepare_forward(self) -> None:
        """Drop the previous chain, so that its deallocation is not part of the time."""
        self.peer.clear()

    def time_forward(self) -> None:
        """Time the recording."""
        self.peer.forward()


BENCHMARKS = [Chain]
