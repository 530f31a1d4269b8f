"""Tracked: the state of a tensor as the graph sees it, without any mathematics.

Graph, engine and derivative rules know this class alone; `Tensor` is its one final subclass and adds
what users call. A tensor that takes no part in a graph is its array and a few empty slots; everything
that only leaves (or observed tensors) have lives in an `AutogradMeta`, made on first need.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    import weakref

    from .grad_change import GradChange
    from .hooks import HookList
    from .node import Node

__all__ = ["AutogradMeta", "Tracked", "VersionCounter"]


@final
class VersionCounter:
    """Counts the in-place writes into one piece of memory; a base and all its views share one."""

    __slots__ = ("has_views", "value")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        #: Whether a view operation has been called on a tensor in this memory.
        self.has_views = False


@final
class AutogradMeta:
    """What only leaves and observed tensors have: the flag, the gradient, the accumulator, the hooks."""

    __slots__ = (
        "accumulator",
        "changes",
        "grad",
        "hooks",
        "lock",
        "post_accumulate_hooks",
        "requires_grad",
        "retains_grad",
    )

    def __init__(self) -> None:
        #: True only on leaves; a tensor with a grad_fn requires grad by having one.
        self.requires_grad = False
        self.retains_grad = False
        self.grad: Any = None
        #: What backward passes that may still fail have added to `grad`, in order.
        self.changes: list[GradChange] = []
        #: Guards the read-add-write of `grad` between event loops in several threads.
        self.lock = threading.Lock()
        #: Weak: the graph holds the AccumulateGrad, and it holds the tensor.
        self.accumulator: weakref.ref[Any] | None = None
        #: Tensor hooks. For a non-leaf the same list object hangs on its node.
        self.hooks: HookList | None = None
        self.post_accumulate_hooks: HookList | None = None


class Tracked:
    """Abstract base of `Tensor`: an array with a place in a graph."""

    __slots__ = ("__weakref__", "_counter", "_data", "_device", "_grad_fn", "_is_view", "_meta", "_output_nr")

    #: Set on views only: an operation need not spend time on setting it on each of its results.
    _is_view: bool

    def __init__(self, data: Any, grad_fn: Node | None = None, output_nr: int = 0, device: Any = None) -> None:
        self._data = data
        self._grad_fn = grad_fn
        self._output_nr = output_nr
        self._meta: AutogradMeta | None = None
        #: None until the first in-place write, or until the memory is shared with another tensor.
        self._counter: VersionCounter | None = None
        self._device = device

    def _requires_grad(self) -> bool:
        if self._grad_fn is not None:
            return True
        meta = self._meta
        return meta is not None and meta.requires_grad

    def _autograd_meta(self) -> AutogradMeta:
        meta = self._meta
        if meta is None:
            meta = self._meta = AutogradMeta()
        return meta

    def _shared_version(self) -> VersionCounter:
        """Return the counter of this memory, made now if this is the first to ask."""
        version = self._counter
        if version is None:
            version = self._counter = VersionCounter()
        return version

    def _become_view_of(self, base: Tracked) -> None:
        """Share the version counter of `base` if the memory is shared.

        A result of reshape, or of indexing with arrays, may have a base and still be a copy.
        """
        data, of = self._data, base._data
        root = data.base
        if data is of or root is of or root is of.base or np.may_share_memory(data, of):
            counter = self._counter = base._shared_version()
            counter.has_views = self._is_view = True

    def _bump_version(self) -> None:
        self._shared_version().value += 1
