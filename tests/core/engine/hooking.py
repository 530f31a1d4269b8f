"""What the tests of hooks share: hooks of every kind, both drivers, and a journal that PyTorch can keep too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.functions import calling
from tests.support.graphs import node_of
from tests.support.leaves import leaf
from tests.support.turns import Held

__all__ = [
    "Branches",
    "Journal",
    "KINDS",
    "Ours",
    "Torchs",
    "as_kind",
    "backward",
    "both_drives",
    "every_kind",
    "grad",
    "number",
    "product_or_leaf",
    "register",
    "waiting",
]

#: What a hook may be: a function, an async def that ends at once, one that suspends, a function that returns something
#: to wait for.
KINDS = ["function", "async def", "suspending", "awaitable"]

every_kind = pytest.mark.parametrize("kind", KINDS)
both_drives = pytest.mark.parametrize("drive", ["awaited", "blocking"])


def as_kind(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook of that kind that does what `function` does."""

    async def at_once(*args: Any) -> Any:
        return function(*args)

    async def suspending(*args: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args)

    return {
        "function": function,
        "async def": at_once,
        "suspending": suspending,
        "awaitable": lambda *args: suspending(*args),
    }[kind]


async def backward(drive: str, *args: Any, **options: Any) -> None:
    """Run a backward, awaited or blocking."""
    if drive == "awaited":
        await ag.backward(*args, **options)
    else:
        # In a thread without a loop, where what suspends gets one of its own.
        await asyncio.to_thread(sync.backward, *args, **options)


async def grad(drive: str, *args: Any, **options: Any) -> Any:
    """Return gradients, of a backward that is awaited or blocks."""
    if drive == "awaited":
        return await ag.grad(*args, **options)
    return await asyncio.to_thread(sync.grad, *args, **options)


def register(where: str, tensor: Any, hook: Callable[..., Any]) -> Any:
    """Put a hook on a tensor, or on its node."""
    if where == "tensor hook":
        return tensor.register_hook(hook)
    if where == "post-accumulate hook":
        return tensor.register_post_accumulate_grad_hook(hook)
    return getattr(node_of(tensor), {"pre-hook": "register_prehook", "post-hook": "register_hook"}[where])(hook)


def number(value: Any) -> Any:
    """A gradient, or a tuple of them, as plain Python: what two libraries can agree on."""
    if isinstance(value, tuple):
        return tuple(number(each) for each in value)
    return None if value is None else value.tolist()


def waiting(held: Held) -> Any:
    """A hook of any sort that waits to be let go."""

    async def hook(*args: Any) -> None:
        await held(None)

    return hook


def product_or_leaf(where: str) -> tuple[Any, Any]:
    """A tensor that may have a hook `where`, and what to run backward from."""
    tensor = leaf(2.0) if where == "post-accumulate hook" else np.multiply(leaf(2.0), leaf(3.0))
    return tensor, np.multiply(tensor, tensor)


class Ours:
    """asyncgrad, as far as `Journal` goes."""

    @staticmethod
    def leaf(*values: float) -> Any:
        return ag.tensor(np.array(values), requires_grad=True)

    @staticmethod
    def split(tensor: Any) -> list[Any]:
        return np.split(tensor, 2)

    node = staticmethod(node_of)
    grad = staticmethod(sync.grad)
    backward = staticmethod(sync.backward)


class Torchs:
    """PyTorch, by the same names."""

    def __init__(self) -> None:
        self.torch = pytest.importorskip("torch")
        self.grad = self.torch.autograd.grad
        self.backward = self.torch.autograd.backward

    def leaf(self, *values: float) -> Any:
        return self.torch.tensor(values, dtype=self.torch.float64, requires_grad=True)

    def split(self, tensor: Any) -> list[Any]:
        return list(self.torch.split(tensor, 1))

    def node(self, tensor: Any) -> Any:
        return self.torch.autograd.graph.get_gradient_edge(tensor).node


class Branches:
    """A sum of products, one for each leaf; their nodes run from the last leaf to the first."""

    def __init__(self, count: int) -> None:
        self.leaves = [leaf(1.0) for _ in range(count)]
        self.ran: list[int] = []
        self.out: Any = None
        for index, x in enumerate(self.leaves):
            branch = calling(x, lambda grad, index=index: self.ran.append(index))
            self.out = branch if self.out is None else np.add(self.out, branch)

    def start(self) -> asyncio.Future[None]:
        return asyncio.ensure_future(self.out.backward())

    def grads(self) -> list[Any]:
        return [None if x.grad is None else x.grad.item() for x in self.leaves]


class Journal:
    """Puts hooks on tensors of either library, and notes what they saw."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.entries: list[Any] = []
        self._nodes: list[Any] = []

    def watch(self, name: str, tensor: Any, where: str, kind: str = "function", change: Any = None) -> Any:
        """Put a hook somewhere that notes what it sees, and returns what `change` makes of that."""

        def note(*args: Any) -> Any:
            seen = () if where == "post-accumulate hook" else tuple(number(each) for each in args)
            self.entries.append((name, where, *seen))
            return None if change is None else change(*args)

        hook = as_kind(kind, note)
        if where == "tensor hook":
            return tensor.register_hook(hook)
        if where == "post-accumulate hook":
            return tensor.register_post_accumulate_grad_hook(hook)
        node = self.library.node(tensor)
        self._nodes.append(node)
        return node.register_prehook(hook) if where == "pre-hook" else node.register_hook(hook)

    def watch_all(self, **tensors: Any) -> None:
        """Put a hook of each sort on each tensor, in the order opposite to that in which they run."""
        for name, tensor in tensors.items():
            for where in ("post-accumulate hook", "post-hook", "pre-hook", "tensor hook"):
                if tensor.is_leaf or where != "post-accumulate hook":
                    self.watch(name, tensor, where)

    def order(self) -> list[str]:
        """What ran, without what it saw."""
        return [f"{name}: {where}" for name, where, *_ in self.entries]
