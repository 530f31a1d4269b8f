"""History: the lines of former journals, for as long as a rollback may have them learned again.

`history/` has a file for each journal that a checkpoint has emptied since the first version was named: its acknowledged
lines, byte for byte. Its name is the position of the first. One that no version and no kept example needs is removed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import final

from ..core.settings.files import make_folders, missing_folders, replacing, sync_folder
from .positions import Positions

__all__ = ["History"]

OWN = 0o600


@final
class History:
    """The files of former journals. All methods block.

    Args:
        path: their folder, which is made when it is needed.

    Attributes:
        firsts: the positions of the first line of each, in order.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.firsts: list[int] = []
        if path.is_dir():
            self.firsts = sorted(int(each.name) for each in path.iterdir() if each.name.isdecimal())

    def file(self, first: int) -> Path:
        """Return the name of the file that begins with the line of that position."""
        return self.path / f"{first:016d}"

    def add(self, first: int, size: int, parts: Iterable[bytes]) -> None:
        """Write a file, in the place of one with fewer of the same lines.

        One with more is from a later time than a checkpoint that was restored: versions of that time need it.

        Args:
            first: the position of its first line.
            size: how many bytes there are.
            parts: the bytes.

        Raises:
            OSError: it could not be written.
        """
        if first in self.firsts and self.file(first).stat().st_size >= size:
            return
        make_folders(missing_folders(self.path), mode=0o700)
        with replacing(self.file(first), self.path / "new", mode=OWN) as file:
            for part in parts:
                file.write(part)
        if first not in self.firsts:
            self.firsts = sorted([*self.firsts, first])

    def find(self, position: int) -> int | None:
        """Return the first position of the file that has a line; None if none does."""
        at = bisect_right(self.firsts, position)
        return self.firsts[at - 1] if at else None

    def end(self) -> int:
        """Return the position after the last line of all; 0 without any. Reads the last file."""
        if not self.firsts:
            return 0
        with self.file(self.firsts[-1]).open("rb") as file:
            return self.firsts[-1] + sum(1 for _ in file)

    def prune(self, needed: Positions, end: int) -> None:
        """Remove the files that have no line that is needed.

        Args:
            needed: the lines.
            end: the position after the last line of the last file.
        """
        if not self.firsts:
            return
        left = []
        for first, after in zip(self.firsts, [*self.firsts[1:], end], strict=True):
            if needed & Positions([(first, max(first, after))]):
                left.append(first)
                continue
            # One that cannot be removed now is found by the next start.
            with suppress(OSError):
                self.file(first).unlink(missing_ok=True)
        if len(left) < len(self.firsts):
            with suppress(OSError):
                sync_folder(self.path)
        self.firsts = left
