"""Hooks: ordered, removable, each a function or an `async def`."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, final

from ...errors import HookTypeError
from ..settings.arguments import check_callable, must_be

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HookList", "RemovableHandle"]

_next_id = itertools.count().__next__


@final
class HookList:
    """Hooks in order of registration. A run uses a snapshot: a change made during a run holds from the next one on."""

    __slots__ = ("__weakref__", "_hooks", "_not_overlapping")

    def __init__(self) -> None:
        self._hooks: dict[int, Callable[..., Any]] = {}
        #: The keys of the hooks registered with `overlap=False`.
        self._not_overlapping: set[int] = set()

    def add(self, hook: Callable[..., Any], *, overlap: bool = True, prepend: bool = False) -> RemovableHandle:
        """Append a hook; return the handle that removes it.

        Args:
            hook: a function or an `async def`.
            overlap: whether other nodes may start while the hook is suspended.
            prepend: put it before all others instead.

        Raises:
            HookTypeError: it cannot be called, or an option is no bool.
        """
        check_callable(hook, "a hook")
        for name, option in (("overlap", overlap), ("prepend", prepend)):
            if not isinstance(option, bool):
                raise HookTypeError(must_be(name, "True or False", option))
        key = _next_id()
        if prepend:
            self._hooks = {key: hook, **self._hooks}
        else:
            self._hooks[key] = hook
        if not overlap:
            self._not_overlapping.add(key)
        return RemovableHandle(self, key)

    def snapshot(self) -> tuple[Callable[..., Any], ...]:
        """Return the current hooks."""
        return tuple(self._hooks.values())

    def snapshot_with_overlap(self) -> tuple[tuple[Callable[..., Any], bool], ...]:
        """Return the current hooks, each with whether other nodes may start while it is suspended."""
        return tuple((hook, key not in self._not_overlapping) for key, hook in self._hooks.items())

    def remove(self, key: int) -> None:
        """Remove a hook, if it is still there."""
        self._hooks.pop(key, None)
        self._not_overlapping.discard(key)

    def __len__(self) -> int:
        return len(self._hooks)


@final
class RemovableHandle:
    """Removes its hook, by `remove()` or at the end of a `with` block.

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
