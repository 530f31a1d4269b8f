"""Hooks: ordered, removable, each a function or an `async def`."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, final

from ..errors import HookTypeError
from .values import describe

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HookList", "RemovableHandle"]

_next_id = itertools.count().__next__


@final
class HookList:
    """Hooks in order of registration. What runs is a snapshot: changes made meanwhile hold from the next run on."""

    __slots__ = ("__weakref__", "_hooks")

    def __init__(self) -> None:
        self._hooks: dict[int, Callable[..., Any]] = {}

    def add(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Append a hook; return the handle that removes it.

        Raises:
            HookTypeError: it cannot be called.
        """
        if not callable(hook):
            raise HookTypeError(f"a hook must be callable, not {describe(hook)}: pass a function or an async def")
        key = _next_id()
        self._hooks[key] = hook
        return RemovableHandle(self, key)

    def snapshot(self) -> tuple[Callable[..., Any], ...]:
        """Return the hooks as they stand now."""
        return tuple(self._hooks.values())

    def remove(self, key: int) -> None:
        """Remove a hook, if it is still there."""
        self._hooks.pop(key, None)

    def __len__(self) -> int:
        return len(self._hooks)


@final
class RemovableHandle:
    """Removes its hook by `remove()`, any number of times, or at the end of a `with` block.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> with x.register_hook(print):
        ...     pass
    """

    __slots__ = ("_hooks", "_key")

    def __init__(self, hooks: HookList, key: int) -> None:
        self._hooks = weakref.ref(hooks)
        self._key = key

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.remove(self._key)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()
