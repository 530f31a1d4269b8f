"""RunDirectory: a folder for the files of one process, which the next process removes if this one has crashed.

Each folder `asyncgrad-run-…` holds a file `owner.lock`. It names the process that owns the folder and its host. That
process keeps it locked until it ends, for whatever reason. The lock is taken before anything is written into the file.
So a process that reads a complete `owner.lock` of a process that has ended, and gets its lock, may remove the folder. A
folder without that file, or with half of one, may just be being created, and is left alone; so are the folders of other
hosts and users.

Only files whose names show that a store wrote them are removed, and folders that are empty afterwards.
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

#: The suffix of the files of saved tensors.
SUFFIX = ".tensor"

_PREFIX, _OWNER = "asyncgrad-run-", "owner.lock"
_FOLDER = re.compile(rf"{_PREFIX}\d+-[0-9a-f]{{16}}")
_FILE = re.compile(rf"[A-Za-z0-9-]+{re.escape(SUFFIX)}")
#: No owner file is as large as this.
_MAX_OWNER_BYTES = 4096

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


@final
class RunDirectory:
    """A new folder that only its owner can read; removed by `remove()`, when this object is dropped, or at exit.

    Args:
        parent: an existing directory to create it in.

    Raises:
        OSError: it cannot be created.
    """

    __slots__ = ("__weakref__", "_finalizer", "path")

    def __init__(self, parent: Path) -> None:
        self.path: Path = parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        self.path.mkdir(mode=0o700)
        try:
            lock = _write_owner(self.path)
        except BaseException:
            _remove_files(self.path)
            raise
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder and its files. A second call, or one in a child process, does nothing."""
        self._finalizer()


def _write_owner(folder: Path) -> int:
    """Write the owner file of a folder, locked; return its descriptor."""
    lock = os.open(folder / _OWNER, os.O_CREAT | os.O_EXCL | os.O_RDWR | _CLOEXEC, 0o600)
    try:
        if fcntl is not None:
            # On a file system without locks no process gets one, and so none removes this folder.
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
    """Remove the files of a store in a folder, and the folder if there is nothing else.

    The owner file is removed last: without it no process would look for the remaining files.
    """
    with contextlib.suppress(OSError):
        files = [path for path in folder.iterdir() if _FILE.fullmatch(path.name)]
        for path in (*files, folder / _OWNER):
            path.unlink(missing_ok=True)
        folder.rmdir()


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of processes of this user and host that have ended without removing them."""
    if fcntl is None:
        return
    for path in parent.iterdir():
        if _FOLDER.fullmatch(path.name):
            # Another process may be removing it as well.
            with contextlib.suppress(OSError):
                _remove_if_abandoned(path)


def _remove_if_abandoned(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    path = folder / _OWNER
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | _CLOEXEC)
    try:
        if _is_abandoned(folder, os.fstat(lock), os.read(lock, _MAX_OWNER_BYTES)) and _try_lock(lock, path):
            _remove_files(folder)
    finally:
        os.close(lock)


def _is_abandoned(folder: Path, found: os.stat_result, data: bytes) -> bool:
    """Return whether an owner file names a process of this user and host that has ended."""
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


def _try_lock(lock: int, path: Path) -> bool:
    """Try to lock a file; return whether it is locked and still the file at its path."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.path.samestat(os.fstat(lock), path.lstat())


def _is_alive(process: int, start: object) -> bool:
    """Return whether a process that started at a given time still runs; its number may belong to a new process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # It belongs to another user, so it did not create the folder: its start time differs, if the system shows it.
        pass
    return start is None or _start_time(process) in (None, start)


@functools.cache
def _this_process(process: int) -> dict[str, Any]:
    """Return what identifies this process among the processes of all hosts since each was booted."""
    return {
        "host": [socket.gethostname(), _read_text("/etc/machine-id")],
        "boot": _read_text("/proc/sys/kernel/random/boot_id"),
        "process": process,
        "start": _start_time(process),
    }


def _start_time(process: int) -> str | None:
    """Return when a process was started, in ticks since the host was booted; None if the system does not show it."""
    text = _read_text(f"/proc/{process}/stat")
    # The name of the program comes first, in parentheses, and may hold any character.
    return None if text is None else text.rpartition(")")[2].split()[19]


def _read_text(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None
