"""Variable: what a tensor and a value have in common for those who compute gradients, hooks and flags."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Literal, Self

from ..errors import HookError, RequiresGradError
from .arrays.hooks import HookList, RemovableHandle
from .arrays.tensor_base import TensorBase
from .backward import begin_backward
from .settings.arguments import truth
from .settings.callers import shorten_traceback

if TYPE_CHECKING:
    from collections.abc import Callable

    from .arrays.array_like import TensorLike
    from .engine.device import Device
    from .graph.node import Node

__all__ = ["Variable"]


class Variable(TensorBase):
    """Abstract: what gradients flow to, a tensor or a value that is no array."""

    __slots__ = ()

    _device: Device

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor: it is a leaf that asks for them, or was computed from one."""
        return self._requires_grad()

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Make this leaf require grad, or not; return it.

        Raises:
            RequiresGradError: its dtype is not floating or complex, or it is not a leaf and `requires_grad` is False.
            ArgumentTypeError: `requires_grad` is no truth value.
        """
        if requires_grad is not True:
            requires_grad = truth(requires_grad, "requires_grad")
        if requires_grad and self._value_metadata is None and self._data.dtype.kind not in "fc":
            raise RequiresGradError(
                f"only floating and complex tensors can require grad, and this one has dtype {self._data.dtype}: "
                "convert it first, for example t.astype(float)"
            )
        node = self._history()
        if node is not None:
            if not requires_grad:
                raise RequiresGradError(
                    f"this tensor was computed by {node.name} and cannot stop requiring grad: use t.detach()"
                )
        elif requires_grad or self._meta is not None:
            meta = self._autograd_meta()
            meta.requires_grad = requires_grad
            meta.has_required_grad = meta.has_required_grad or requires_grad
        return self

    def _describe(self) -> str:
        """Return what errors call it."""
        raise NotImplementedError(f"{type(self).__name__} must implement _describe()")

    @property
    def grad_fn(self) -> Node | None:
        """The node that turns this tensor's gradient into those of what it was computed from; None on a leaf.

        That of a view is made anew where the memory of its base was written into since.

        Raises:
            InPlaceError: it was written into, and the view was made where its history cannot be made anew.
        """
        node: Node | None = self._history()
        return node

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self._history() is None

    @property
    def output_nr(self) -> int:
        """Which output of its `grad_fn` this tensor is."""
        self._history()
        return self._output_nr

    @property
    def device(self) -> Device:
        """Where the array lives."""
        return self._device

    async def backward(
        self,
        gradient: TensorLike | None = None,
        *,
        retain_graph: bool | Literal["until_success"] | None = None,
        create_graph: bool = False,
        inputs: object = None,
    ) -> None:
        """Add the gradients of this tensor with respect to the leaves of its graph to the leaves' `.grad`.

        Args:
            gradient: what to start from, of this tensor's shape; None (ones) where it has one element.
            retain_graph: as in `ag.backward`, like all the rest.
            create_graph: record the backward itself.
            inputs: accumulate into these tensors only.

        Example:
            >>> import asyncgrad as ag
            >>> async def main():
            ...     x = ag.tensor(3.0, requires_grad=True)
            ...     await (x * x).backward()
            ...     return x.grad.item()
            >>> ag.run(main())
            6.0

            A second try:

            >>> import asyncio
            >>> async def never(grad):
            ...     await asyncio.Event().wait()
            >>> async def main():
            ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
            ...     loss = (x * x).sum()
            ...     handle = x.register_hook(never)
            ...     try:
            ...         async with asyncio.timeout(0.01):
            ...             await loss.backward(retain_graph="until_success")
            ...     except TimeoutError:
            ...         handle.remove()
            ...         await loss.backward(retain_graph="until_success")
            ...     return x.grad.tolist()
            >>> ag.run(main())
            [2.0, 4.0]
        """
        try:
            await begin_backward(self, gradient, retain_graph, create_graph, inputs)
        except Exception as error:
            shorten_traceback(error)
            raise

    def retain_grad(self) -> None:
        """Keep this tensor's gradient in `.grad`, though it is no leaf. Leaves always do.

        Raises:
            RequiresGradError: it does not require grad.
        """
        self._needs_grad("retain_grad()")
        node = self._history()
        if node is None or self.retains_grad:
            return
        node.make_meta().retains_grad_hooks[self._output_nr] = weakref.ref(self)
        self._autograd_meta().retains_grad = True

    @property
    def retains_grad(self) -> bool:
        """Whether a backward keeps this non-leaf's gradient."""
        return self._meta is not None and self._meta.retains_grad

    def register_hook(self, hook: Callable[[Any], object]) -> RemovableHandle:
        """Call `hook(grad)` whenever a backward has computed this tensor's gradient, before it is used.

        Args:
            hook: a function or an `async def`. It may return another gradient of the same shape and dtype. What it
                writes into `grad` in place before it returns is as if it returned that; what it keeps is its own, and a
                later write changes nothing.

        Raises:
            RequiresGradError: this tensor does not require grad.
        """
        self._needs_grad("register_hook()")
        node = self._history()
        meta = self._autograd_meta()
        if meta.hooks is None:
            hooks = HookList()
            if node is not None:
                node.make_meta().tensor_pre_hooks.append((self._output_nr, hooks))
            else:
                self._mark_accumulator()
            meta.hooks = hooks
        return meta.hooks.add(hook)

    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Self], object], *, overlap: bool = True
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

    # Python names it where a coroutine is not awaited.
    backward.__qualname__ = "Tensor.backward"

    def _needs_no_history(self, done: str) -> None:
        node = self._history()
        if node is not None:
            raise RequiresGradError(
                f"only a leaf can be {done}, and {self._describe()} was computed by {node.name}: use t.detach()"
            )
