"""Graphs whose bodies, hooks and releases notice when another one runs at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad.core.engine import node_lock
from asyncgrad.graph import Edge, GradientEdge, InputMetadata, Node
from tests.support.functions import awaiting, calling
from tests.support.graphs import nodes_below

__all__ = ["AwaitingNode", "GRAPHS", "Watch", "WatchedNode", "is_at_rest", "saving"]


class Watch:
    """Counts who is inside; one of these belongs to one node."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self.runs = 0
        self.overlaps: list[str] = []

    @contextmanager
    def running(self, what: str) -> Iterator[None]:
        self.runs += 1
        self.inside.append(threading.get_ident())
        if len(self.inside) > 1:
            self.overlaps.append(what)
        try:
            yield
        finally:
            self.inside.pop()
            if self.inside:
                self.overlaps.append(what)

    def call(self, grad: Any) -> None:
        with self.running("body"):
            # Time enough for another thread to get its turn: a switch comes at a jump back.
            for _ in range(50):
                pass

    async def wait(self, grad: Any) -> None:
        with self.running("body"):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def released(self) -> None:
        if self.inside:
            self.overlaps.append("release")


class WatchedNode(Node):
    """Doubles the gradient; needs what it saved, and lets go of it on release."""

    def __init__(self, x: ag.Tensor, watch: Watch) -> None:
        super().__init__([Edge(*ag.graph.get_gradient_edge(x))], [InputMetadata(x.shape, x.dtype, x.device)])
        self.watch = watch

    def apply(self, grads: tuple[Any, ...]) -> Any:
        self.watch.call(None)
        return (grads[0] * 2,)

    def release_variables(self) -> None:
        self.watch.released()


class AwaitingNode(WatchedNode):
    async def apply(self, grads: tuple[Any, ...]) -> Any:
        await self.watch.wait(None)
        return (grads[0] * 2,)


class SavingFunction(ag.Function):
    """Multiplies by what it saved."""

    @staticmethod
    def forward(ctx, x, y, watch):
        ctx.save_for_backward(y)
        ctx.watch = watch
        return x.numpy() * y.numpy()

    @staticmethod
    def backward(ctx, grad):
        ctx.watch.call(grad)
        (y,) = ctx.saved_tensors
        return np.multiply(grad, y), None, None


class SavingAsyncFunction(SavingFunction):
    @staticmethod
    async def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        await ctx.watch.wait(grad)
        return np.multiply(grad, y), None, None


def saving(x: ag.Tensor, watch: Watch, *, awaits: bool = False) -> ag.Tensor:
    """Return x * 2, made by a Function that saves the 2."""
    return (SavingAsyncFunction if awaits else SavingFunction).apply(x, ag.tensor(np.full(x.shape, 2.0)), watch)


def _of_node(kind: type[WatchedNode]) -> Callable[[ag.Tensor, Watch], Any]:
    return lambda x, watch: GradientEdge(kind(np.multiply(x, 1.0), watch), 0)


def _hooked(how: str, which: str) -> Callable[[ag.Tensor, Watch], Any]:
    def make(x: ag.Tensor, watch: Watch) -> Any:
        hook = getattr(watch, which)
        middle = np.multiply(x, 2.0)
        if how == "tensor":
            middle.register_hook(hook)
        elif how == "pre":
            middle.grad_fn.register_prehook(hook)
        elif how == "post":
            call = (lambda outputs, inputs: hook(inputs)) if which == "call" else _awaits(hook)
            middle.grad_fn.register_hook(call)
        elif how == "leaf":
            x.register_hook(hook)
        else:
            x.register_post_accumulate_grad_hook(hook)
        return np.multiply(middle, 1.0)

    return make


def _awaits(hook: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    async def call(outputs: Any, inputs: Any) -> None:
        await hook(inputs)

    return call


#: By name, a graph that gives 2 * grad to its leaf, with one node that is watched.
GRAPHS: dict[str, Callable[[ag.Tensor, Watch], Any]] = {
    "Function": lambda x, watch: np.multiply(calling(np.multiply(x, 2.0), watch.call), 1.0),
    "async Function": lambda x, watch: np.multiply(awaiting(np.multiply(x, 2.0), watch.wait), 1.0),
    "Node": _of_node(WatchedNode),
    "async Node": _of_node(AwaitingNode),
    **{f"{how} hook": _hooked(how, "call") for how in ("tensor", "pre", "post", "leaf", "post-accumulate")},
    **{f"async {how} hook": _hooked(how, "wait") for how in ("tensor", "pre", "post", "leaf", "post-accumulate")},
}


def is_at_rest(*roots: Any) -> bool:
    """Tell whether nobody holds or waits for a lock of these graphs, and nothing is left of who did."""
    table = node_lock._LOCK_TABLE
    if table.waiters_by_blocked or table.deferred or table.is_busy:
        return False
    specials = [node.meta for node in nodes_below(*roots) if node.meta is not None]
    return all(meta.holder is None and meta.contention is None for meta in specials)
