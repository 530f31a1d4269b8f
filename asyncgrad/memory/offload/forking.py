"""Forking: objects that own threads or files reset themselves in a child process, which has neither."""

from __future__ import annotations

import weakref
from typing import Protocol

from ...core.settings.process import call_in_forked_children

__all__ = ["reset_in_children"]


class Resettable(Protocol):
    """An object that resets itself in a child process."""

    def reset_in_child(self) -> None:
        """Drop the threads, locks and files, which are the parent's."""


_REGISTERED: weakref.WeakSet[Resettable] = weakref.WeakSet()


def reset_in_children(one: Resettable) -> None:
    """Call `one.reset_in_child()` in each child that is forked from now on."""
    _REGISTERED.add(one)


def _after_fork() -> None:
    for one in list(_REGISTERED):
        one.reset_in_child()


call_in_forked_children(_after_fork)
