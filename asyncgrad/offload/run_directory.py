"""RunDirectory: a folder for the files of one process, which the next process removes if this one has crashed.

Beside each folder `run-…` lies a file `run-….lock`, which the process that owns the folder holds locked until it ends,
however it ends. Who gets the lock of another one's folder may remove it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import weakref
from pathlib import Path
from typing import final

try:
    import fcntl
except ImportError:  # pragma: no cover  # Windows, where the files of a crashed run stay
    fcntl = None  # type: ignore[assignment]

__all__ = ["RunDirectory", "remove_leftovers"]

_PREFIX, _LOCK = "run-", ".lock"


@final
class RunDirectory:
    """A new folder, readable by its owner alone; removed by `remove()`, when this is dropped, and at exit.

    Args:
        parent: where to make it; it exists.

    Raises:
        OSError: it cannot be made.
    """

    __slots__ = ("__weakref__", "_finalizer", "path")

    def __init__(self, parent: Path) -> None:
        name, lock = _locked(parent)
        self.path = parent / name
        try:
            self.path.mkdir(mode=0o700)
        except BaseException:
            _remove(self.path, lock, os.getpid())
            raise
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder and all in it; a second call, and one in a child process, does nothing."""
        self._finalizer()


def _locked(parent: Path) -> tuple[str, int]:
    """Return a new name, and the descriptor of its lock file, which is locked."""
    while True:
        name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        path = parent / (name + _LOCK)
        lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            if _locks(lock, path):
                return name, lock
            # Another process has looked at it between the two steps, and taken it for a leftover.
            os.close(lock)
        except BaseException:
            os.close(lock)
            path.unlink(missing_ok=True)
            raise


def _locks(lock: int, path: Path) -> bool:
    """Lock a lock file; tell whether that is done, and the file still the one at its path."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(lock).st_ino == path.stat().st_ino
    except (BlockingIOError, FileNotFoundError):
        return False


def _remove(path: Path, lock: int, process: int) -> None:
    if os.getpid() != process:
        return
    shutil.rmtree(path, ignore_errors=True)
    # The lock file goes last, and before the lock: else a folder might be left that nobody looks for.
    with contextlib.suppress(OSError):
        path.with_name(path.name + _LOCK).unlink(missing_ok=True)
    os.close(lock)


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of processes that have ended without doing so."""
    if fcntl is None:
        return
    for path in parent.glob(f"{_PREFIX}*{_LOCK}"):
        # Another process may do the same, or may have made it under another user.
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _locks(lock, path):
                    shutil.rmtree(path.with_name(path.name.removesuffix(_LOCK)), ignore_errors=True)
                    path.unlink(missing_ok=True)
            finally:
                os.close(lock)
