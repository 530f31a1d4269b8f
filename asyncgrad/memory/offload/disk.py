"""DiskStore: saved tensors in files of a temporary folder."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import io
import logging
import os
import stat
import tempfile
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, final

import numpy as np

from ...core.settings.arguments import must_be
from ...errors import ArgumentError, ArgumentTypeError, StoreError
from .activation import store_error
from .checksum import Checksum
from .forking import reset_in_children
from .run_directory import SUFFIX, RunDirectory, remove_leftovers

__all__ = ["DiskStore", "check_directory"]

LOG = logging.getLogger("asyncgrad.memory.offload")

#: How many files are read or written at the same time.
THREADS = 4

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Something else may have taken the place of a file: do not follow a link, and do not wait for a FIFO.
_READ_FLAGS = _FLAGS | os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

#: Whether an open file can be unlinked; on Windows it cannot.
_CAN_UNLINK_OPEN = os.name == "posix"
#: The advice for a file whose content or kind has changed.
_CORRUPTED = "another program has changed it, or the disk fails"
#: What can be at a path instead of a regular file.
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: The memory of a removed file of at least this size is freed in the background. (Measured: 90 µs for each MiB.)
_LARGE = 2**20
#: How many removed files may wait for that: each takes a descriptor, and its space on the disk.
MAX_REMOVED = 4


@final
class DiskStore:
    """Keeps each tensor in a file, in a folder of this process; `ag.graph.save_to_disk` uses it.

    The folder exists while it holds files or `open_folder()` asks for it, and is removed at the latest when the
    process exits. The files of a crashed process are removed by the next process that stores something in the same
    directory. A child process can read the files of its parent, and removes only its own. The bytes that are read are
    compared with a checksum that stays in memory.

    Args:
        directory: created if it does not exist. None is a folder of this user in `tempfile.gettempdir()`, which no
            other user can read.

    Raises:
        ArgumentTypeError: the directory is not a path.

    Example:
        >>> import tempfile
        >>> import asyncgrad as ag
        >>> async def main(directory):
        ...     store = ag.graph.DiskStore(directory)
        ...     await store.put("first", memoryview(b"some bytes"))
        ...     return bytes(await store.get("first"))
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     ag.run(main(directory))
        b'some bytes'
    """

    __slots__ = (
        "__weakref__",
        "_being_written",
        "_directory",
        "_files",
        "_freeing",
        "_is_private",
        "_lock",
        "_open_count",
        "_own_keys",
        "_pool",
        "_removed",
        "_run",
    )

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        check_directory("DiskStore", directory)
        self._is_private = directory is None
        name = f"asyncgrad-{os.getuid() if hasattr(os, 'getuid') else getpass.getuser()}"
        self._directory = Path(tempfile.gettempdir()) / name if directory is None else Path(directory).absolute()
        #: The path of each key, and the checksum of what was written there.
        self._files: dict[str, tuple[Path, Checksum]] = {}
        #: The descriptors of unlinked files whose memory is still to be freed.
        self._removed: deque[int] = deque()
        self._reset()
        reset_in_children(self)

    def _reset(self) -> None:
        # Both locks are reentrant: the garbage collector may call `release` at any line.
        self._lock = threading.RLock()
        #: Held while the memory of removed files is freed.
        self._freeing = threading.RLock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="asyncgrad-disk")
        self._run: RunDirectory | None = None
        #: The keys whose files this process has written, or will write.
        self._own_keys: set[str] = set()
        #: The files that are being written.
        self._being_written: dict[str, Path] = {}
        self._open_count = 0

    def reset_in_child(self) -> None:
        """Drop the parent's folder and threads, in a child process."""
        self._reset()
        self._free_removed()

    def __repr__(self) -> str:
        return f"DiskStore({str(self._directory)!r})"

    def open_folder(self) -> None:
        """Create the folder of this process, and keep it until `leave_folder()`.

        Raises:
            StoreError: the folder cannot be created.
        """
        try:
            with self._lock:
                self._folder()
                self._open_count += 1
        except OSError as error:
            what = f"no folder for saved tensors can be created in {str(self._directory)!r}"
            raise store_error(error, what, "name another one, as in save_to_disk(directory)") from error

    def leave_folder(self) -> None:
        """Undo one `open_folder()`: the folder is removed when it is empty."""
        with self._lock:
            self._open_count -= 1
            self._remove_unused_folder()

    async def put(self, key: str, data: memoryview) -> None:
        """Write a file.

        Raises:
            OSError: the disk is full or fails, or the folder is gone.
        """
        with self._lock:
            self._own_keys.add(key)
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._write, key, data)
        except BaseException:
            self.release(key)
            raise

    async def get(self, key: str) -> memoryview:
        """Return the content of the file.

        Raises:
            KeyError: there is no file under that key.
            StoreError: the file does not hold what was written.
            OSError: the file cannot be read.
        """
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, key)

    async def delete(self, key: str) -> None:
        """Remove the file, if there is one."""
        self.release(key)

    def release(self, key: str) -> bool:
        """Remove the file, if there is one, at once and without an event loop; return whether it is gone.

        A file that is being written, or is not written yet, is removed as well. False if there is no file, or if the
        system cannot unlink an open one: then call `release` again once it has been written.
        """
        with self._lock:
            path, checksum = self._files.pop(key, (None, None))
            if key not in self._own_keys:
                return False
            if path is None and (path := self._being_written.get(key)) is not None and not _CAN_UNLINK_OPEN:
                return False
            self._own_keys.discard(key)
            # Another program may have removed it. If it cannot be removed now, it goes with the folder.
            with contextlib.suppress(OSError):
                if path is not None:
                    self._remove(path, 0 if checksum is None else checksum.size)
            self._remove_unused_folder()
            return True

    def _remove(self, path: Path, size: int) -> None:
        """Unlink a file. The memory of a large one is freed by the next thread that reads or writes.

        Freeing it takes longer than the rest. It is not submitted to the pool here: the garbage collector may call this
        while the same thread submits something else to the pool. The caller holds the lock.
        """
        if size >= _LARGE and _CAN_UNLINK_OPEN and len(self._removed) < MAX_REMOVED:
            # It is unlinked below; its memory is freed when this descriptor is closed.
            with contextlib.suppress(OSError):
                self._removed.append(os.open(path, _READ_FLAGS))
        path.unlink(missing_ok=True)

    def _free_removed(self, wait: bool = False) -> None:
        """Free the memory of removed files, unless another thread is doing so.

        A caller that holds the store's lock must not wait: the other thread may need that lock, since the garbage
        collector can call `release` there.
        """
        if not self._freeing.acquire(blocking=wait):
            return
        try:
            while self._removed:
                os.close(self._removed.popleft())
        finally:
            self._freeing.release()

    def _write(self, key: str, data: memoryview) -> None:
        # Removed files must not take space on the disk that this one needs.
        self._free_removed(wait=True)
        checksum = Checksum.of(data)
        with self._lock:
            if key not in self._own_keys:
                # The key has been released meanwhile.
                return
            path = self._folder() / (key + SUFFIX)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
            self._being_written[key] = path
        try:
            try:
                while data:
                    data = data[os.write(file, data) :]
            finally:
                os.close(file)
        finally:
            with self._lock:
                del self._being_written[key]
                if key in self._own_keys:
                    self._files[key] = path, checksum

    def _read(self, key: str) -> memoryview:
        with self._lock:
            path, checksum = self._files[key]
        with _open_regular(path) as file:
            # Checked before that much memory is allocated.
            checksum.check_size(os.fstat(file.fileno()).st_size, f"into {str(path)!r}")
            # Not zeroed, as a bytearray would be.
            data = np.empty(checksum.size, np.uint8).data
            left = data
            while left and (count := file.readinto(left)):
                left = left[count:]
        checksum.check_size(len(data) - len(left), f"into {str(path)!r}")
        checksum.check(data, f"{str(path)!r} does not hold the bytes that were written into it: {_CORRUPTED}")
        self._free_removed()
        return data

    def _folder(self) -> Path:
        """Return the folder of this process; create it if there is none. The caller holds the lock."""
        if self._run is None:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_private:
                _check_private(self._directory)
            remove_leftovers(self._directory)
            self._run = RunDirectory(self._directory)
            LOG.debug("opened a store of saved tensors in %s", self._run.path)
        return self._run.path

    def _remove_unused_folder(self) -> None:
        """Remove the folder if it is not used. The caller holds the lock."""
        if self._run is not None and not self._open_count and not self._own_keys:
            self._run.remove()
            self._run = None
            # There may be no read or write soon that would free it.
            self._free_removed()


def check_directory(name: str, directory: object) -> None:
    """Raise if the argument `directory` of the function `name` is not a path.

    Raises:
        ArgumentTypeError: it is something else.
        ArgumentError: it holds a null character, which no path can.
    """
    if directory is None:
        return
    path = os.fspath(directory) if isinstance(directory, os.PathLike) else directory
    if not isinstance(path, str):
        raise ArgumentTypeError(
            must_be(
                f"directory of {name}",
                "a path, a str or a pathlib.Path",
                directory,
                f"write {name}('/scratch'), or {name}() for a folder of this user in tempfile.gettempdir()",
            )
        )
    if "\0" in path:
        raise ArgumentError(f"directory of {name} has a null character in it: {path!r}")


def _open_regular(path: Path) -> io.FileIO:
    """Open a regular file.

    Raises:
        StoreError: something else has taken its place.
        OSError: it cannot be opened.
    """
    try:
        file = os.open(path, _READ_FLAGS)
    except OSError:
        # Some systems report a link or a socket only as something that cannot be opened.
        _check_kind(path, path.lstat().st_mode)
        raise
    try:
        _check_kind(path, os.fstat(file).st_mode)
        return io.FileIO(file)
    except BaseException:
        os.close(file)
        raise


def _check_kind(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise StoreError(f"{str(path)!r} was a file and is now {kind}: {_CORRUPTED}")


def _check_private(directory: Path) -> None:
    """Raise if a folder in a directory that all users share can be reached by another user."""
    found: Any = directory.lstat()
    if hasattr(os, "getuid") and (
        not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o77
    ):
        raise PermissionError(f"{str(directory)!r} is not a folder of this user alone")
