"""DiskStore: saved tensors in files of a temporary folder."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import io
import os
import stat
import tempfile
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, final

import numpy as np

from ..arguments import describe
from ..errors import ArgumentError, ArgumentTypeError, StoreError
from .activation import store_error
from .checksum import Checksum
from .forking import begin_anew_in_children
from .run_directory import SUFFIX, RunDirectory, remove_leftovers

__all__ = ["DiskStore", "check_directory"]

#: How many files are read or written at the same time.
THREADS = 4

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: To open what may have taken the place of a file: a link is not followed, and a FIFO is not waited for.
_TO_READ = _FLAGS | os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

#: Whether a file that is open can lose its name; on Windows it cannot.
_LOSES_NAME = os.name == "posix"
#: What to say of files that are not what they were.
_CHANGED = "something else has changed it, or the disk fails"
#: What else there can be at a path, in words.
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: From so many bytes on the memory of a removed file is freed in the background. (Measured: 90 µs for each MiB.)
_LARGE = 2**20
#: So many removed files may wait for that: each takes a descriptor, and its room on the disk.
MOST_REMOVED = 4


@final
class DiskStore:
    """Keeps each tensor in a file, in a folder of this process: what `ag.graph.save_to_disk` saves to.

    The folder is there while there are files or `open_folder()` asks for it, and is removed at the latest when the
    process exits. What a crashed process has left is removed by the next that stores something in the same directory.
    A child process reads what its parent has stored, and removes only what it has stored itself. What comes back is
    held against a checksum that stays in memory.

    Args:
        directory: made if it is not there. None is a folder of this user in `tempfile.gettempdir()`, which nobody
            else can read.

    Raises:
        ArgumentTypeError: the directory is no path.

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
        "_begun",
        "_directory",
        "_files",
        "_freeing",
        "_is_private",
        "_lock",
        "_mine",
        "_opened",
        "_pool",
        "_removed",
        "_run",
    )

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        check_directory("DiskStore", directory)
        self._is_private = directory is None
        name = f"asyncgrad-{os.getuid() if hasattr(os, 'getuid') else getpass.getuser()}"
        self._directory = Path(tempfile.gettempdir()) / name if directory is None else Path(directory).absolute()
        #: Where each key is, and what was written there.
        self._files: dict[str, tuple[Path, Checksum]] = {}
        #: The descriptors of files that have lost their names, and whose memory is to be freed.
        self._removed: deque[int] = deque()
        self._begin()
        begin_anew_in_children(self)

    def _begin(self) -> None:
        # Of both: the garbage collector may release at any line.
        self._lock = threading.RLock()
        #: Held while the memory of removed files is freed.
        self._freeing = threading.RLock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="asyncgrad-disk")
        self._run: RunDirectory | None = None
        #: The keys whose files this process has written, or is to write.
        self._mine: set[str] = set()
        #: The files that are being written.
        self._begun: dict[str, Path] = {}
        self._opened = 0

    def begin_anew(self) -> None:
        """Part from the parent's folder and threads, in a child process."""
        self._begin()
        self._free_removed()

    def __repr__(self) -> str:
        return f"DiskStore({str(self._directory)!r})"

    def open_folder(self) -> None:
        """Make this process's folder, and keep it until `leave_folder()`.

        Raises:
            StoreError: that cannot be done.
        """
        try:
            with self._lock:
                self._folder()
                self._opened += 1
        except OSError as error:
            what = f"no folder for saved tensors can be made in {str(self._directory)!r}"
            raise store_error(error, what, "name another one, as in save_to_disk(directory)") from error

    def leave_folder(self) -> None:
        """Take back an `open_folder()`: the folder goes when it is empty."""
        with self._lock:
            self._opened -= 1
            self._tidy()

    async def put(self, key: str, data: memoryview) -> None:
        """Write a file.

        Raises:
            OSError: the disk is full, or fails, or the folder is gone.
        """
        with self._lock:
            self._mine.add(key)
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._write, key, data)
        except BaseException:
            self.release(key)
            raise

    async def get(self, key: str) -> memoryview:
        """Return what the file holds.

        Raises:
            KeyError: there is none under that key.
            StoreError: it does not hold what was written.
            OSError: it cannot be read.
        """
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, key)

    async def delete(self, key: str) -> None:
        """Remove the file, if there is one."""
        self.release(key)

    def release(self, key: str) -> bool:
        """Remove the file, if there is one, without a turn of the loop: that takes a few system calls.

        One that is being written, or is yet to be, is not seen any more either. False where there is none, or the
        system keeps the name of a file that is open: then it is to be released again when it has been written.
        """
        with self._lock:
            path, checksum = self._files.pop(key, (None, None))
            if key not in self._mine:
                return False
            if path is None and (path := self._begun.get(key)) is not None and not _LOSES_NAME:
                return False
            self._mine.discard(key)
            # It may have been removed by somebody else. What cannot be removed goes with the folder, at the latest.
            with contextlib.suppress(OSError):
                if path is not None:
                    self._remove(path, 0 if checksum is None else checksum.size)
            self._tidy()
            return True

    def _remove(self, path: Path, size: int) -> None:
        """Take away the name of a file. The memory of a large one is freed by the thread that reads next, or writes.

        That takes longer than the rest. It is not given to the pool here: the garbage collector may call this while
        the same thread gives the pool something else. The caller holds the lock.
        """
        if size >= _LARGE and _LOSES_NAME and len(self._removed) < MOST_REMOVED:
            # It loses its name below, and its memory when this is closed.
            with contextlib.suppress(OSError):
                self._removed.append(os.open(path, _TO_READ))
        path.unlink(missing_ok=True)

    def _free_removed(self, wait: bool = False) -> None:
        """Free the memory of removed files, in any thread, unless another one is at it.

        Who holds the store's lock must not wait: the other may need it, for the garbage collector.
        """
        if not self._freeing.acquire(blocking=wait):
            return
        try:
            while self._removed:
                os.close(self._removed.popleft())
        finally:
            self._freeing.release()

    def _write(self, key: str, data: memoryview) -> None:
        # What was removed before is to take no room any more.
        self._free_removed(wait=True)
        checksum = Checksum.of(data)
        with self._lock:
            if key not in self._mine:
                # It has been released meanwhile.
                return
            path = self._folder() / (key + SUFFIX)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
            self._begun[key] = path
        try:
            try:
                while data:
                    data = data[os.write(file, data) :]
            finally:
                os.close(file)
        finally:
            with self._lock:
                del self._begun[key]
                if key in self._mine:
                    self._files[key] = path, checksum

    def _read(self, key: str) -> memoryview:
        with self._lock:
            path, checksum = self._files[key]
        with _opened(path) as file:
            # Before so much memory is asked for.
            checksum.check_size(os.fstat(file.fileno()).st_size, f"into {str(path)!r}")
            # Not zeroed, as a bytearray would be.
            data = np.empty(checksum.size, np.uint8).data
            left = data
            while left and (count := file.readinto(left)):
                left = left[count:]
        checksum.check_size(len(data) - len(left), f"into {str(path)!r}")
        checksum.check(data, f"{str(path)!r} does not hold the bytes that were written into it: {_CHANGED}")
        self._free_removed()
        return data

    def _folder(self) -> Path:
        """Return the folder of this process, made now if there is none. The caller holds the lock."""
        if self._run is None:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_private:
                _check_private(self._directory)
            remove_leftovers(self._directory)
            self._run = RunDirectory(self._directory)
        return self._run.path

    def _tidy(self) -> None:
        """Remove the folder if it is of no use. The caller holds the lock."""
        if self._run is not None and not self._opened and not self._mine:
            self._run.remove()
            self._run = None
            # Nothing may be read or written for long.
            self._free_removed()


def check_directory(name: str, directory: object) -> None:
    """Raise if what the function of this name was given is no path.

    Raises:
        ArgumentTypeError: it is something else.
        ArgumentError: no system can have a file of that name.
    """
    if directory is None:
        return
    path = os.fspath(directory) if isinstance(directory, os.PathLike) else directory
    if not isinstance(path, str):
        raise ArgumentTypeError(
            f"directory of {name} is a path, a str or a pathlib.Path, not {describe(directory)}: "
            f"write {name}('/scratch'), or {name}() for a folder of this user in tempfile.gettempdir()"
        )
    if "\0" in path:
        raise ArgumentError(f"directory of {name} has a null character in it: {path!r}")


def _opened(path: Path) -> io.FileIO:
    """Open a file of the store's.

    Raises:
        StoreError: something else has taken its place.
        OSError: it cannot be opened.
    """
    try:
        file = os.open(path, _TO_READ)
    except OSError:
        # Some systems say of a link or a socket only that it cannot be opened.
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
        raise StoreError(f"{str(path)!r} is {kind} now, and was a file: {_CHANGED}")


def _check_private(directory: Path) -> None:
    """Raise if a folder in a place that all users share is not ours alone."""
    found: Any = directory.lstat()
    if hasattr(os, "getuid") and (
        not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o77
    ):
        raise PermissionError(f"{str(directory)!r} is not a folder of this user alone")
