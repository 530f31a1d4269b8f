"""The same random graph twice, in asyncgrad and in PyTorch, node for node."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag

torch = pytest.importorskip("torch")

__all__ = ["Twins", "chosen", "together", "torch", "twins"]


class OurPair(ag.Function):
    """x + y and 2 x."""

    @staticmethod
    def forward(ctx, x, y):
        return x.numpy() + y.numpy(), x.numpy() * 2.0

    @staticmethod
    def backward(ctx, first, second):
        return first.numpy() + 2.0 * second.numpy(), first.numpy()


class TheirPair(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """The same."""

    @staticmethod
    def forward(ctx, x, y):
        return x + y, x * 2.0

    @staticmethod
    def backward(ctx, first, second):
        return first + 2.0 * second, first


class Twins(NamedTuple):
    """Tensors of one number in both: leaves first, then what each step made."""

    ours: list[ag.Tensor]
    theirs: list[Any]
    leaves: int

    def nodes(self) -> list[tuple[Any, Any]]:
        """The nodes of both, once each: those of the leaves, then of the steps in their order."""
        pairs = {}
        for our, their in zip(self.ours, self.theirs, strict=True):
            mine, yours = ag.graph.get_gradient_edge(our).node, torch.autograd.graph.get_gradient_edge(their).node
            pairs.setdefault(mine, (mine, yours))
        return list(pairs.values())


def twins(seed: int) -> Twins:
    """Grow one random graph in both, of operations with one or two inputs and one or two outputs."""
    randomness, leaves = random.Random(seed), 3
    ours: list[Any] = [ag.tensor(np.ones(2), requires_grad=True) for _ in range(leaves)]
    theirs: list[Any] = [torch.ones(2, dtype=torch.double, requires_grad=True) for _ in range(leaves)]
    for _ in range(14):
        kind = randomness.choice(["add", "add", "double", "pair"])
        # Late ones more often, so that the graph grows deep.
        i, j = (max(randomness.randrange(len(ours)), randomness.randrange(len(ours))) for _ in range(2))
        if kind == "add":
            ours.append(np.add(ours[i], ours[j]))
            theirs.append(theirs[i] + theirs[j])
        elif kind == "double":
            ours.append(np.multiply(ours[i], 2.0))
            theirs.append(theirs[i] * 2.0)
        else:
            ours.extend(OurPair.apply(ours[i], ours[j]))
            theirs.extend(TheirPair.apply(theirs[i], theirs[j]))
    return Twins(ours, theirs, leaves)


def chosen(made: Twins, seed: int) -> tuple[list[int], list[int]]:
    """Some roots and some inputs: late values and any values, one or several, now and then one of them twice."""
    randomness = random.Random(seed)
    count = len(made.ours)
    roots = [randomness.randrange(count // 2, count) for _ in range(randomness.choice([1, 1, 2, 3]))]
    inputs = [randomness.randrange(count) for _ in range(randomness.choice([1, 2, 3]))]
    return roots, inputs


def together(order: list[int], leaves: int) -> list[Any]:
    """Return an order of numbers in which leaves that come one right after the other are a set.

    PyTorch leaves their order open: they have one priority, and its queue is a heap.
    """
    grouped: list[Any] = []
    for number in order:
        if number >= leaves:
            grouped.append(number)
        elif grouped and isinstance(grouped[-1], set):
            grouped[-1].add(number)
        else:
            grouped.append({number})
    return grouped
