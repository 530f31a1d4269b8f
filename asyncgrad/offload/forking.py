"""Forking: what has threads or files of its own begins anew in a child process, which has neither."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["begin_anew_in_children"]


class Forked(Protocol):
    """What begins anew in a child."""

    def begin_anew(self) -> None:
        """Forget threads, locks and files, which are the parent's."""


_ALIVE: weakref.WeakSet[Forked] = weakref.WeakSet()


def begin_anew_in_children(one: Forked) -> None:
    """Call `one.begin_anew()` in each child that is forked from now on."""
    _ALIVE.add(one)


def _after_fork() -> None:
    for one in list(_ALIVE):
        one.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
