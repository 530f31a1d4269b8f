"""SavingNode, the base of nodes that keep their saved tensors in a FunctionContext."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..arrays.values import wrap
from ..graph.node import Node
from ..settings.awaiting import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ..graph.packed import Packed
    from ..graph.saved import Saved
    from .function_context import FunctionContext

__all__ = ["SavingNode"]


class SavingNode(Node):
    """Abstract: a node that keeps its saved tensors in a FunctionContext."""

    __slots__ = ("ctx",)

    ctx: FunctionContext

    def saved_entries(self) -> Sequence[Saved | Packed] | None:
        """Return the saved entries, without unpacking; None once released."""
        return self.ctx._saved

    def keep_packed(self, index: int, packed: Packed) -> None:
        """Replace a saved tensor by what a hook has packed."""
        saved = self.ctx._saved
        assert saved is not None
        self.ctx._saved = (*saved[:index], packed, *saved[index + 1 :])

    def release_variables(self) -> None:
        """Release the saved tensors, if there are any; other attributes of the context stay."""
        if self.ctx._saved:
            self.ctx._saved = None

    def apply_with_saved(self, grads: tuple[Any, ...], saved: Sequence[Any]) -> Any:
        """Return what `apply(grads)` does, with `saved` in place of the tensors that `ctx.save_for_backward` saved."""
        loaded = tuple(wrap(value, self.device) for value in saved)
        before, self.ctx._loaded = self.ctx._loaded, loaded
        try:
            result = self.apply(grads)
        finally:
            self.ctx._loaded = before
        return self._await_with(result, loaded) if inspect.isawaitable(result) else result

    async def _await_with(self, result: Awaitable[Any], loaded: tuple[Any, ...]) -> Any:
        before, self.ctx._loaded = self.ctx._loaded, loaded
        try:
            return await result
        finally:
            self.ctx._loaded = before

    def run_backward(self, backward: Callable[[], Any]) -> Any:
        """Return the result of a plain `backward`; load saved tensors first if their unpacking must be awaited."""
        if not self.waits_for_saved():
            return backward()
        return _load_ahead(self.ctx, backward)


async def _load_ahead(ctx: FunctionContext, backward: Callable[[], Any]) -> Any:
    loaded, before = await ctx.load_saved(), ctx._loaded
    # Nothing else runs until a plain backward has returned, except backward passes that it calls itself.
    ctx._loaded = loaded
    try:
        result = backward()
    finally:
        ctx._loaded = before
    return await finish(result)
