"""ObservedTensor: what looks at a tensor's gradient, hooks and the gradient that a non-leaf keeps."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .arguments import truth
from .array_methods import ArrayMethods
from .errors import HookError, RequiresGradError
from .graph.hooks import HookList, RemovableHandle

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ObservedTensor"]


class ObservedTensor(ArrayMethods):
    """Abstract base of Tensor: an array whose gradient can be watched."""

    __slots__ = ()

    def retain_grad(self) -> None:
        """Keep this tensor's gradient in `.grad`, though it is no leaf. Leaves always do.

        Raises:
            RequiresGradError: it does not require grad.
        """
        self._needs_grad("retain_grad()")
        node = self._history()
        if node is None or self.retains_grad:
            return
        self._autograd_meta().retains_grad = True
        node.make_meta().retains_grad_hooks[self._output_nr] = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether a backward keeps this non-leaf's gradient."""
        return self._meta is not None and self._meta.retains_grad

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call `hook(grad)` whenever a backward has computed this tensor's gradient, before it is used.

        Args:
            hook: a function or an `async def`. It may return another gradient of the same shape and dtype.

        Raises:
            RequiresGradError: this tensor does not require grad.
        """
        self._needs_grad("register_hook()")
        node = self._history()
        meta = self._autograd_meta()
        if meta.hooks is None:
            meta.hooks = HookList()
            if node is not None:
                node.make_meta().tensor_pre_hooks.append((self._output_nr, meta.hooks))
            else:
                self._mark_accumulator()
        return meta.hooks.add(hook)

    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Any], Any], *, overlap: bool = True
    ) -> RemovableHandle:
        """Call `hook(self)` whenever a backward has added to this leaf's `.grad`.

        Args:
            hook: a function or an `async def`, returning None.
            overlap: whether the rest of the backward goes on while an async hook waits, and waits for it only at its
                end; False starts no further node before the hook has ended.

        Raises:
            HookError: this tensor is no leaf.
        """
        overlap = truth(overlap, "overlap")
        self._needs_grad("register_post_accumulate_grad_hook()")
        node = self._history()
        if node is not None:
            raise HookError(f"a post-accumulate-grad hook belongs on a leaf, and {node.name} made this tensor")
        meta = self._autograd_meta()
        if meta.post_accumulate_hooks is None:
            meta.post_accumulate_hooks = HookList()
            self._mark_accumulator()
        return meta.post_accumulate_hooks.add(hook, overlap=overlap)

    def _mark_accumulator(self) -> None:
        meta = self._meta
        accumulator = None if meta is None or meta.accumulator is None else meta.accumulator()
        if accumulator is not None:
            accumulator.make_meta()

    def _needs_grad(self, what: str) -> None:
        if not self._requires_grad():
            raise RequiresGradError(f"{what} needs a tensor that requires grad: call .requires_grad_() on it first")
