"""What another process reads of a model's directory: the checkpoint, and the journal from a position on.

The process that learns writes meanwhile, and knows nothing of who reads. It replaces the checkpoint first and empties
the journal then, so what was read belongs to a checkpoint if that is in its place still after the reading. Only the
last line of a journal may be taken back; then another one may have its place. So a position has its checksum.
"""

from __future__ import annotations

import asyncio
import json
import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from ..errors import ModelDirectoryError
from .checkpoint_file import read_checkpoint
from .directory import CHECKPOINT
from .versions import version_path

__all__ = [
    "CHECKSUM_SIZE",
    "DirectorySource",
    "JournalPart",
    "JournalReader",
    "JournalSource",
    "Position",
]

#: How many bytes of a line tell it from another one: its checksum.
CHECKSUM_SIZE = 8

#: The most bytes that are read at a time.
PART_SIZE = 4 << 20


class Position(NamedTuple):
    """How far a journal was read."""

    #: The name of the journal; None in the first format.
    journal: str | None
    #: How many bytes were read.
    offset: int = 0
    #: Where the last whole line of these begins.
    last: int = 0
    #: The checksum of that line, as it stands there; empty if there is none.
    checksum: bytes = b""


class JournalPart(NamedTuple):
    """What a journal has from a position on."""

    #: Where `data` begins: the position that was asked for, or the beginning of the journal that goes on from it.
    position: Position
    data: bytes
    #: How many bytes the journal has now.
    size: int


class JournalSource(Protocol):
    """Abstract: where a follower reads: a directory, or the routes of another machine's learner."""

    async def checkpoint(self) -> dict[str, Any]:
        """Return the content of the checkpoint.

        Raises:
            ModelDirectoryError: there is none, or it is damaged.
            OSError: it cannot be read now.
        """

    async def version(self, name: str) -> dict[str, Any] | None:
        """Return the content of a version; None if there is none of that name any more."""

    async def read(self, position: Position) -> JournalPart | None:
        """Return what follows a position; None if only a checkpoint leads on from there."""

    async def fence(self) -> bool:
        """Have the learner acknowledge nothing more, before another takes its place; return whether it knows of it.

        Raises:
            ModelDirectoryError, OSError: it was told, and could not.
        """

    async def close(self) -> None:
        """Read no more."""


class _Head(NamedTuple):
    """What a checkpoint says of journals, and which file it is."""

    identity: tuple[int, int, int]
    journal: str | None
    replaces: str | None
    ended: int | None


@final
class JournalReader:
    """Reads a directory that another process may write. All methods block: call them in a thread.

    Args:
        path: the directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._head: _Head | None = None

    def checkpoint(self) -> dict[str, Any]:
        """Return the content of the checkpoint.

        Raises:
            ModelDirectoryError: there is none, or it is damaged.
        """
        try:
            return read_checkpoint(self.path / CHECKPOINT)
        except FileNotFoundError:
            raise ModelDirectoryError(
                f"{self.path} has no {CHECKPOINT} to follow: start its learner first, with directory="
            ) from None

    def version(self, name: str) -> dict[str, Any] | None:
        """Return the content of a version; None if there is none of that name."""
        try:
            return read_checkpoint(version_path(self.path, name))
        except FileNotFoundError:
            return None

    def read(
        self, position: Position, most: int = PART_SIZE, confirmed: tuple[str | None, int] | None = None
    ) -> JournalPart | None:
        """Return what follows a position; None if only a checkpoint leads on from there.

        Args:
            position: where to begin.
            most: the most bytes.
            confirmed: the name of the journal and how many of its bytes may be read; None for all.

        Raises:
            ModelDirectoryError: there is no checkpoint.
            OSError: something cannot be read.
        """
        while True:
            head = self._read_head()
            begin = position
            if head.journal != position.journal:
                if (head.replaces, head.ended) != (position.journal, position.offset):
                    return None
                begin = Position(head.journal)
            limit = None if confirmed is None else confirmed[1] if confirmed[0] == head.journal else 0
            part = self._read_journal(begin, most, limit)
            if self._read_head().identity == head.identity:
                return part

    def _read_head(self) -> _Head:
        try:
            with (self.path / CHECKPOINT).open("rb") as file:
                found = os.fstat(file.fileno())
                identity = found.st_ino, found.st_mtime_ns, found.st_size
                if self._head is None or self._head.identity != identity:
                    with np.load(file, allow_pickle=False) as arrays:
                        tree = json.loads(str(arrays["tree"]))
                    self._head = _Head(identity, tree.get("journal"), tree.get("replaces"), tree.get("ended"))
                return self._head
        except FileNotFoundError:
            raise ModelDirectoryError(f"{self.path} has no {CHECKPOINT} any more: restore it from a copy") from None
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ModelDirectoryError(f"{self.path / CHECKPOINT} cannot be read: {error}") from error

    def _read_journal(self, position: Position, most: int, limit: int | None) -> JournalPart | None:
        with (self.path / "journal").open("rb") as file:
            limits = [os.fstat(file.fileno()).st_size, *self._cuts(position.journal)]
            size = min(limits if limit is None else [*limits, limit])
            if size < position.offset:
                return None
            if position.checksum:
                file.seek(position.last)
                if file.read(CHECKSUM_SIZE) != position.checksum:
                    return None
            file.seek(position.offset)
            return JournalPart(position, file.read(min(most, size - position.offset)), size)

    def _cuts(self, journal: str | None) -> list[int]:
        """Return the sizes that a disk which took no write has left: what follows them was refused."""
        beginning = f"journal.cut-{journal or ''}-"
        with os.scandir(self.path) as entries:
            sizes = [one.name.rpartition("-")[2] for one in entries if one.name.startswith(beginning)]
        return [int(size) for size in sizes if size.isdecimal()]


@final
class DirectorySource:
    """The directory of a learner on this machine, or on a file system that it shares.

    Args:
        path: the directory.
    """

    def __init__(self, path: Path) -> None:
        self._reader = JournalReader(path)

    async def checkpoint(self) -> dict[str, Any]:
        """Return the content of the checkpoint."""
        return await asyncio.to_thread(self._reader.checkpoint)

    async def version(self, name: str) -> dict[str, Any] | None:
        """Return the content of a version; None if there is none of that name any more."""
        return await asyncio.to_thread(self._reader.version, name)

    async def read(self, position: Position) -> JournalPart | None:
        """Return what follows a position; None if only a checkpoint leads on from there."""
        return await asyncio.to_thread(self._reader.read, position)

    async def fence(self) -> bool:
        """Do nothing: the lock of the directory keeps others away."""
        return True

    async def close(self) -> None:
        """Do nothing: no file stays open."""
