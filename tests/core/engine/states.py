"""What a backward that failed may not have changed, taken down bit by bit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import asyncgrad as ag
from asyncgrad.graph import Node

__all__ = ["graph_state", "state_of"]


def state_of(*tensors: ag.Tensor) -> list[Any]:
    """Take down each gradient (the object, its array, bits, layout, version, history) and what watches the tensor.

    What is taken down is held, so that an object made later cannot pass for one that is gone.
    """
    return [_state(tensor) for tensor in tensors]


def _state(tensor: ag.Tensor) -> list[Any]:
    meta = tensor._autograd_meta()
    hooks = [None if each is None else each.snapshot() for each in (meta.hooks, meta.post_accumulate_hooks)]
    # No change that a backward may still take back, and nobody who holds the lock.
    state: list[Any] = [tensor.retains_grad, tensor._version, hooks, len(meta.changes), meta.lock.locked()]
    grad = tensor.grad
    if grad is None:
        return [*state, None]
    data = grad.numpy()
    fine = [data.tobytes(), data.strides, data.dtype, grad._version, grad.requires_grad, _Same(grad.grad_fn)]
    return [*state, _Same(grad), _Same(grad._data), *fine]


class _Same:
    """Equals what holds the very same object."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"the {type(self.held).__name__} at {id(self.held):#x}"


def graph_state(nodes: Iterable[Node]) -> list[Any]:
    """Take down the hooks of each node, and that its lock is free."""
    states = []
    for node in nodes:
        meta = node.meta
        if meta is None:
            states.append(None)
            continue
        lists = [meta.pre_hooks, meta.post_hooks, *[hooks for _, hooks in meta.tensor_pre_hooks]]
        hooks = [None if each is None else each.snapshot() for each in lists]
        is_held = meta.holder is not None and meta.holder.is_running
        states.append([hooks, sorted(meta.retains_grad_hooks), is_held, meta.contention])
    return states
