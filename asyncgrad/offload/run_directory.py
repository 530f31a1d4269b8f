"""RunDirectory: a folder for the files of one process, which the next process removes if this one has crashed.

In each folder `asyncgrad-run-…` lies `owner.lock`. It says which process owns the folder, on which host, and that
process holds it locked until it ends, however it ends. The lock is taken before the first word is written: who reads a
whole `owner.lock` of a process that has ended, and gets its lock, may remove the folder. A folder without one, or with
half of one, may just be being made, and is left alone; so is what other hosts and users have made.

Only files that a store has written are ever removed, which their names tell, and folders that are empty then.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import secrets
import socket
import stat
import weakref
from pathlib import Path
from typing import Any, final

try:
    import fcntl
except ImportError:  # pragma: no cover  # Windows, where the files of a crashed run stay
    fcntl = None  # type: ignore[assignment]

__all__ = ["SUFFIX", "RunDirectory", "remove_leftovers"]

#: What the names of files of saved tensors end with.
SUFFIX = ".tensor"

_PREFIX, _OWNER = "asyncgrad-run-", "owner.lock"
_FOLDER = re.compile(rf"{_PREFIX}\d+-[0-9a-f]{{16}}")
_FILE = re.compile(rf"[A-Za-z0-9-]+{re.escape(SUFFIX)}")
#: More bytes than an owner's file can have.
_MOST = 4096

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


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
        self.path = parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        self.path.mkdir(mode=0o700)
        try:
            lock = _sign(self.path)
        except BaseException:
            _remove_files(self.path)
            raise
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder and the files that were written there; in a child process, and again, nothing is done."""
        self._finalizer()


def _sign(folder: Path) -> int:
    """Say in a folder whose it is; return the descriptor of the file that says so, which is locked."""
    lock = os.open(folder / _OWNER, os.O_CREAT | os.O_EXCL | os.O_RDWR | _CLOEXEC, 0o600)
    try:
        if fcntl is not None:
            # Where the file system has no locks, nobody else gets one either, and nobody removes what is left.
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(lock, "w", encoding="utf-8", closefd=False) as file:
            json.dump({"folder": folder.name, **_this_process(os.getpid())}, file)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _remove(folder: Path, lock: int, process: int) -> None:
    if os.getpid() != process:
        return
    _remove_files(folder)
    os.close(lock)


def _remove_files(folder: Path) -> None:
    """Remove what a store has made in a folder, and the folder if there is nothing else.

    What says whose it is goes last: else files might be left that nobody looks for.
    """
    with contextlib.suppress(OSError):
        files = [path for path in folder.iterdir() if _FILE.fullmatch(path.name)]
        for path in (*files, folder / _OWNER):
            path.unlink(missing_ok=True)
        folder.rmdir()


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of this user's processes on this host that have ended without doing so."""
    if fcntl is None:
        return
    for path in parent.iterdir():
        if _FOLDER.fullmatch(path.name):
            # Another process may do the same.
            with contextlib.suppress(OSError):
                _remove_if_left(path)


def _remove_if_left(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    path = folder / _OWNER
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | _CLOEXEC)
    try:
        if _is_left(folder, os.fstat(lock), os.read(lock, _MOST)) and _locks(lock, path):
            _remove_files(folder)
    finally:
        os.close(lock)


def _is_left(folder: Path, found: os.stat_result, data: bytes) -> bool:
    """Tell whether what says whose a folder is names a process of this user and host that has ended."""
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return False
    try:
        owner: Any = json.loads(data)
    except (ValueError, RecursionError):
        return False
    # A copy of a folder has another name.
    if not isinstance(owner, dict) or owner.get("folder") != folder.name:
        return False
    process, here = owner.get("process"), _this_process(os.getpid())
    if type(process) is not int or not 0 < process < 2**31 or owner.get("host") != here["host"]:
        return False
    return owner.get("boot") != here["boot"] or not _is_alive(process, owner.get("start"))


def _locks(lock: int, path: Path) -> bool:
    """Lock a file; tell whether that is done, and the file still the one at its path."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.path.samestat(os.fstat(lock), path.lstat())


def _is_alive(process: int, start: object) -> bool:
    """Tell whether a process runs, which began at a time; another one may have got its number since."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # It is another user's: not the one that made the folder, unless the system hides when it was started.
        pass
    return start is None or _start_of(process) in (None, start)


@functools.cache
def _this_process(process: int) -> dict[str, Any]:
    """Return what names this process among those of all hosts, and of all times since they were started."""
    return {
        "host": [socket.gethostname(), _text("/etc/machine-id")],
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "process": process,
        "start": _start_of(process),
    }


def _start_of(process: int) -> str | None:
    """Return when a process was started, in ticks since the host was; None where the system does not tell."""
    text = _text(f"/proc/{process}/stat")
    # The name of the program comes before, in parentheses, and may hold anything.
    return None if text is None else text.rpartition(")")[2].split()[19]


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None
