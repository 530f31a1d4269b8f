"""A graph that has something to lose, and ways in which it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import sync
from tests.core.engine.states import graph_state, state_of
from tests.support.functions import calling
from tests.support.graphs import nodes_below
from tests.support.leaves import leaf

__all__ = ["FailingGraph"]


class FailingGraph:
    """All that a backward can change; it has changed it by the time the body of `bad`, the oldest node, runs."""

    def __init__(self, bad: Callable[[ag.Tensor], Any]) -> None:
        self.fresh, self.used, self.last = leaf(1.0), leaf(2.0), leaf(3.0)
        sync.backward(np.multiply(self.used, 7.0))
        self.bad = bad(self.last)
        self.kept = np.multiply(self.fresh, self.used)
        self.kept.retain_grad()
        self.out = np.add(calling(np.multiply(self.kept, 2.0), lambda grad: None), self.bad)
        self.before = self.state()

    def state(self) -> list[Any]:
        tensors = state_of(self.fresh, self.used, self.last, self.kept)
        return [tensors, graph_state(nodes_below(self.out))]

    def has_not_happened(self) -> bool:
        return self.state() == self.before
