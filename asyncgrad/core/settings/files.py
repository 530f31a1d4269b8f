"""Files that take the place of others whole or not at all, and that are on the disk once they have."""

from __future__ import annotations

import errno
import functools
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["make_folders", "missing_folders", "replacing", "sync_folder"]


@contextmanager
def replacing(path: Path, beside: Path | None = None, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a new file, which takes the place of another one at the end of the block; if that raises, nothing changes.

    It has the permissions of the file that it replaces, or else those of `mode` that the umask leaves. No link is
    followed: one at `path` is replaced, and what it leads to stays as it is.

    Args:
        path: the name of the file.
        beside: the name that it has until then. What has that name is removed first: nobody else may use it. None
            makes one up.
        mode: the permissions of a file that replaces none.

    Raises:
        OSError: it could not be written, or is perhaps not on the disk.
    """
    if beside is None:
        beside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    else:
        beside.unlink(missing_ok=True)
    kept = _mode_of(path)
    # Where the file that is replaced is private, the new one is from the beginning.
    opener = functools.partial(os.open, mode=mode if kept is None else 0o600)
    try:
        # "x" follows no link that somebody made meanwhile: test_a_link_in_the_place_of_a_new_file_is_not_followed.
        with open(beside, "xb+", opener=opener) as file:  # Path.open takes no opener
            if kept is None:
                kept = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            yield file
        # By the name: whoever writes by `file.name`, as safetensors does, may have put a file of their own there.
        beside.chmod(kept)
        with beside.open("rb+") as written:
            os.fsync(written.fileno())
        os.replace(beside, path)  # noqa: PTH105  # the call that tests let fail
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    sync_folder(path.parent)


def _mode_of(path: Path) -> int | None:
    """Return the permissions of a file; None where there is none, or something else."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None


def sync_folder(path: Path) -> None:
    """Have the names in a folder on the disk: a file that was made or renamed may else be gone after a power cut."""
    if os.name == "nt":
        return  # Windows opens no folders
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems keep names by themselves, and know no such call.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def missing_folders(path: Path) -> list[Path]:
    """Return those of a folder and its parents that are not there, the innermost first."""
    return [each for each in (path, *path.parents) if not each.exists()]


def make_folders(missing: list[Path], *, mode: int = 0o777) -> None:
    """Make what `missing_folders` returned, each on the disk before the next, with what the umask leaves of `mode`."""
    for folder in reversed(missing):
        folder.mkdir(mode, exist_ok=True)
        sync_folder(folder.parent)
