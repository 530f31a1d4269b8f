"""Nodes of the tests' own."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncgrad as ag
from asyncgrad.core.graph.node import NodeMeta
from asyncgrad.graph import Edge, Node
from tests.support.graphs import edge_to

__all__ = ["IdleNode", "PassingNode", "SumNode", "async_double"]


class IdleNode(Node):
    """A node that is never run."""

    def __init__(self, *targets: Node | None, inputs: int = 1) -> None:
        super().__init__([None if target is None else Edge(target, 0) for target in targets], [None] * inputs)


class PassingNode(Node):
    """Hands on what it gets."""

    def apply(self, grads: tuple[Any, ...]) -> Any:
        return grads


class SumNode(Node):
    """Hands its gradients' sum to every edge."""

    def apply(self, grads: tuple[Any, ...]) -> Any:
        given = [grad for grad in grads if grad is not None]
        return (sum(given[1:], given[0]) if given else None,) * self.num_outputs


class AsyncDouble(Node):
    """A node whose body suspends: doubles, and doubles the gradient."""

    __slots__ = ("calls",)
    is_async = True

    def __init__(self, x: ag.Tensor, calls: list[int]) -> None:
        self._connect([edge_to(x)])
        self.shape, self.dtype, self.device = x.shape, x.dtype, x.device
        self.meta = NodeMeta()
        self.calls = calls

    async def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        self.calls.append(1)
        await asyncio.sleep(0)
        return (None if grads[0] is None else grads[0] * 2,)


def async_double(x: ag.Tensor, calls: list[int] | None = None) -> ag.Tensor:
    """Twice a tensor; `calls` gets an entry whenever the body runs."""
    return ag.Tensor(x.numpy() * 2, AsyncDouble(x, [] if calls is None else calls), 0, x.device)
