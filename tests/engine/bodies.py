"""Functions whose backward the test writes, and what tests wait with."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad.engine.compiled.api import COMPILED_AFTER
from asyncgrad.scheduling import LOOP_BUDGET

__all__ = [
    "Calling",
    "Cubed",
    "Held",
    "Split",
    "address",
    "awaiting",
    "calling",
    "leaf",
    "loop_budget",
    "node_by_node",
    "on_a_small_stack",
    "settle",
    "split",
    "told_of_itself",
]


class Cubed(ag.Function):
    """x ** 3."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return np.power(x, 3.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3.0 * x * x


class Calling(ag.Function):
    """A copy of x whose backward calls `callback(grad)`; what that returns, if anything, is the gradient."""

    @staticmethod
    def forward(ctx, x, callback):
        ctx.callback = callback
        return x.numpy().copy()

    @staticmethod
    def backward(ctx, grad):
        result = ctx.callback(grad)
        return (grad if result is None else result), None


class Awaiting(ag.Function):
    """A copy of x whose backward awaits `callback(grad)`; what that returns, if anything, is the gradient."""

    @staticmethod
    def forward(ctx, x, callback):
        ctx.callback = callback
        return x.numpy().copy()

    @staticmethod
    async def backward(ctx, grad):
        result = await ctx.callback(grad)
        return (grad if result is None else result), None


class Split(ag.Function):
    """Two copies of x; the backward gets what arrived at each, None where nothing did."""

    @staticmethod
    def forward(ctx, x, callback):
        ctx.callback = callback
        ctx.set_materialize_grads(False)
        return x.numpy().copy(), x.numpy().copy()

    @staticmethod
    def backward(ctx, first, second):
        return ctx.callback(first, second), None


def calling(x: ag.Tensor, callback: Callable[[Any], Any]) -> Any:
    return Calling.apply(x, callback)


def awaiting(x: ag.Tensor, callback: Callable[[Any], Awaitable[Any]]) -> Any:
    return Awaiting.apply(x, callback)


def split(x: ag.Tensor, callback: Callable[[Any, Any], Any]) -> Any:
    return Split.apply(x, callback)


def leaf(*values: float) -> ag.Tensor:
    """A leaf of whole numbers that requires grad."""
    return ag.tensor(np.array(values, dtype=np.float64), requires_grad=True)


class Held:
    """A body that says when it has begun, and waits to be let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()
        self.ended = False
        self.cancelled = False

    async def __call__(self, grad: Any) -> None:
        self.begun.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        self.ended = True


def address(array: Any) -> int:
    """Where the memory of an array or a tensor begins."""
    bare: np.ndarray = array.numpy() if isinstance(array, ag.Tensor) else array
    return bare.__array_interface__["data"][0]


@contextlib.contextmanager
def loop_budget(seconds: float) -> Iterator[None]:
    """Let the loop breathe after so many seconds: after every node where they are negative."""
    token = LOOP_BUDGET.set(seconds)
    try:
        with node_by_node() if seconds < 0 else contextlib.nullcontext():
            yield
    finally:
        LOOP_BUDGET.reset(token)


@contextlib.contextmanager
def node_by_node() -> Iterator[None]:
    """Have no backward compiled: a compiled function looks at the clock after several short nodes, not after each."""
    token = COMPILED_AFTER.set(None)
    try:
        yield
    finally:
        COMPILED_AFTER.reset(token)


async def settle() -> None:
    """Let everything that is ready run, until nothing changes without an event."""
    for _ in range(60):
        await asyncio.sleep(0)


def told_of_itself(task: Any) -> dict[str, Any]:
    """What every backward shows, whatever it runs."""
    return {
        "id": task.id,
        "reentrant_depth": task.reentrant_depth,
        "owner": task.owner,
        "keep_graph": task.keep_graph,
        "has_error": task.has_error,
        "exit_on_error": task.exit_on_error,
        "graph_roots": task.graph_roots,
        "nodes_in_graph": task.nodes_in_graph,
        "exec_info": dict(task.exec_info),
        "captured_grads": task.captured_grads,
        "leaf_streams": task.leaf_streams,
        "can_checkpoint": task.can_checkpoint(),
    }


def on_a_small_stack(work: Callable[[], Any]) -> None:
    """Run a function in a thread with a stack of 2 MB; raise what it raised."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    before = threading.stack_size(2 * 1024 * 1024)
    try:
        thread = threading.Thread(target=guarded)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    if errors:
        raise errors[0]
