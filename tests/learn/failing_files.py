"""A layer below a learner's files that fails: the calls of the system of one kind, from one of them on."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy as np

__all__ = ["CALLS", "FailingFiles"]

#: What reaches the disk, by name: where its function is.
CALLS: dict[str, Any] = {
    "write": os,
    "fsync": os,
    "ftruncate": os,
    "replace": os,
    "open": os,
    "savez": np,
}


@final
class FailingFiles:
    """Counts the calls for files below a folder, and has some of them fail.

    Args:
        folder: the folder.
        names: which calls fail.
        first: the number of the first call that fails, from 0, of those names; None lets all succeed.
        for_good: whether all later ones of those names fail too.
        is_done: whether a call does what it is asked to before it fails.

    Attributes:
        counts: how often each was called.
        failed: how many calls have failed.
    """

    def __init__(
        self, folder: Path, names: tuple[str, ...], first: int | None, for_good: bool = False, is_done: bool = False
    ) -> None:
        self.counts: dict[str, int] = dict.fromkeys(CALLS, 0)
        self.failed: int = 0
        self._folder, self._names, self._first = str(folder), names, first
        self._for_good, self._is_done = for_good, is_done

    def install(self, monkeypatch: Any) -> None:
        """Take the place of the calls."""
        for name, module in CALLS.items():
            monkeypatch.setattr(module, name, self._wrapped(name, getattr(module, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(which: Any, *given: Any, **options: Any) -> Any:
            if not self._is_ours(which) or (name == "open" and not given[0] & os.O_CREAT):
                return real(which, *given, **options)
            number = sum(self.counts[one] for one in self._names)
            self.counts[name] += 1
            if name not in self._names or self._first is None or number < self._first:
                return real(which, *given, **options)
            if number > self._first and not self._for_good:
                return real(which, *given, **options)
            self.failed += 1
            if self._is_done:
                result = real(which, *given, **options)
                if name == "open":
                    os.close(result)
            raise OSError(errno.EIO, f"{name} fails")

        return call

    def _is_ours(self, which: Any) -> bool:
        if isinstance(which, int):
            path = f"/proc/self/fd/{which}"
            which = os.readlink(path) if os.path.lexists(path) else ""  # noqa: PTH115
        name = which if isinstance(which, (str, os.PathLike)) else getattr(which, "name", "")
        return str(name).startswith(self._folder)
