"""A chain of writes into a view of a larger array, `v *= a; v += b`: measures the cost of a write in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np

from .peers import PEERS, Array, Models, Problem
from .runner import StepBenchmark

__all__ = ["BENCHMARKS", "InPlace", "InPlaceOfAll"]

#: Two writes each.
ITERATIONS = 2_000
SIZE = 10_000
#: The part of the base that the view shows.
PART = slice(SIZE // 2, SIZE // 2 + SIZE)

#: Peers that cannot run this, with the reason.
LACKS = {"HIPS": "its arrays cannot be written into"}
WRITERS = tuple(peer for peer in PEERS if peer not in LACKS)


def chain(a: Any, b: Any, x: Any) -> Any:
    """Return the base after all writes; the same model for every peer that can write in place."""
    y = x * 1.0
    v = y[PART]
    for _ in range(ITERATIONS):
        v *= a
        v += b
    return y


def floor(a: Array, b: Array, x: Array) -> tuple[Array, Callable[[Array], list[Array]]]:
    """Return the base after all writes, and a function for the gradient of `x`, by hand."""
    y = chain(a, b, x)

    def pullback(g: Array) -> list[Array]:
        g = g.copy()
        v = g[PART]
        for _ in range(ITERATIONS):
            v *= a
        return [g]

    return y, pullback


def floor_of_all(a: Array, b: Array, x: Array) -> tuple[Array, Callable[[Array], list[Array]]]:
    """Return the base after all writes, and a function for the gradients of all three arguments, by hand."""
    y = x * 1.0
    v = y[PART]
    saved = []
    for _ in range(ITERATIONS):
        saved.append(v.copy())
        v *= a
        v += b

    def pullback(g: Array) -> list[Array]:
        g = g.copy()
        v = g[PART]
        da, db = np.zeros_like(a), np.zeros_like(b)
        while saved:
            db += v
            da += v * saved.pop()
            v *= a
        return [da, db, g]

    return y, pullback


def operands() -> tuple[Array, Array, Array]:
    """Return `a` near 1 and a small `b`, so that the values neither vanish nor explode, and `x`."""
    return np.linspace(0.999, 1.001, SIZE), np.linspace(-1e-3, 1e-3, SIZE), np.linspace(0.1, 0.9, 2 * SIZE)


@final
class InPlace(StepBenchmark):
    """Only the array that is written into requires grad, float64."""

    title = "4,000 writes into a view of 10,000"
    params = (WRITERS,)
    lacks = LACKS
    models: ClassVar[Models] = {"asyncgrad": chain, "torch": chain, "MyGrad": chain, "floor": floor}

    @staticmethod
    def problem() -> Problem:
        """Return the operands as constants, and the array."""
        a, b, x = operands()
        return Problem(constants=[a, b], variables=[x], start=np.ones(2 * SIZE))


@final
class InPlaceOfAll(StepBenchmark):
    """The operands require grad as well, so that the old value of each product must be saved."""

    title = "4,000 writes of leaves into a view of 10,000"
    params = (WRITERS,)
    lacks = LACKS
    models: ClassVar[Models] = {"asyncgrad": chain, "torch": chain, "MyGrad": chain, "floor": floor_of_all}

    @staticmethod
    def problem() -> Problem:
        """Return the operands and the array, all as variables."""
        return Problem(constants=[], variables=operands(), start=np.ones(2 * SIZE))


BENCHMARKS = [InPlace, InPlaceOfAll]
