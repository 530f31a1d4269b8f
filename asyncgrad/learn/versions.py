"""Versions: named checkpoints of a model, which a learner goes back to, or serves beside the model."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from ..core.settings.arguments import must_be
from ..core.settings.files import make_folders, missing_folders, sync_folder
from ..errors import ArgumentError, ArgumentTypeError, ModelDirectoryError
from .checkpoint_file import read_checkpoint, read_part, write_checkpoint
from .lineage import Lineage
from .positions import Positions
from .settings import Settings

__all__ = ["CURRENT", "VERSIONS", "Version", "VersionFiles", "check_name", "version_path"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")

#: What the model itself is called beside versions.
CURRENT = "current"
#: The folder of the versions in a model's directory.
VERSIONS = "versions"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@final
@dataclass(frozen=True, kw_only=True)
class Version:
    """A named checkpoint, and what it learned from.

    Attributes:
        name: its name.
        created: when it was written, in UTC, by the clock of the machine.
        learned: how many examples it has learned.
        steps: in how many steps.
        position: how many lines the journal had then, counted from the first of the directory.
        lines: the lines that it learned from: pairs of the position of the first and of the last. There is a gap for
            lines of something else, and for what a rollback has left out.
        options: the options of each group of the optimizer.
        id: what tells it from another one of that name.
    """

    name: str
    created: datetime
    learned: int
    steps: int
    position: int
    lines: tuple[tuple[int, int], ...]
    options: tuple[Mapping[str, object], ...]
    id: str


def check_name(name: Any) -> str:
    """Return the name of a version; raise unless it can be the name of a file on any system.

    Raises:
        ArgumentTypeError: it is no string.
        ArgumentError: it has other characters, or is that of the model itself.
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(must_be("the name of a version", "a string", name))
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            f"the name of a version has up to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit, "
            f"not {name!r}"
        )
    if name == CURRENT:
        raise ArgumentError(f"{CURRENT!r} is the model itself: give the version another name")
    return name


def version_path(directory: Path, name: str) -> Path:
    """Return the file of a version of the model in a directory.

    Raises:
        ModelDirectoryError: no version has such a name; none that has leads out of the directory.
    """
    if not _NAME.fullmatch(name):
        raise ModelDirectoryError(f"{name!r} names no version: a name has letters, digits, '_', '.' and '-'")
    return _file_of(directory / VERSIONS, name)


def _file_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"


@final
class VersionFiles:
    """The files of the versions in a directory. Only `write`, `check_is_new`, `read` and `remove` block.

    Args:
        path: their folder, which is made with the first of them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Version] = {}
        self._lineages: dict[str, Lineage] = {}
        #: Whether there is one that cannot be read: what a copy of it may need is kept.
        self._is_damaged = False
        if not path.is_dir():
            return
        for file in path.glob("*.npz"):
            try:
                self._add(file.stem, read_part(file, "position"), read_part(file, "version"))
            except (ModelDirectoryError, OSError, TypeError, KeyError, ValueError) as error:
                self._is_damaged = True
                log.error("%s is left out, and cannot be gone back to: %s", file, error)

    def _add(self, name: str, position: int, info: Mapping[str, Any]) -> Version:
        lineage = Lineage.of_tree(info["lineage"])
        version = Version(
            name=name,
            created=datetime.fromtimestamp(info["time"], UTC),
            learned=info["learned"],
            steps=info["steps"],
            position=position,
            lines=tuple((begin, end - 1) for begin, end in lineage.learned.ranges),
            options=tuple(Settings.of_text(info["settings"]).groups),
            id=info["id"],
        )
        self._found[name], self._lineages[name] = version, lineage
        return version

    def all(self) -> dict[str, Version]:
        """Return the versions by their names, the oldest first: by their positions, since a clock may be set back."""
        ordered = sorted(self._found.values(), key=lambda each: (each.position, each.created, each.name))
        return {each.name: each for each in ordered}

    def find(self, name: str) -> Version:
        """Return a version.

        Raises:
            ArgumentError: there is none of that name.
        """
        if name not in self._found:
            known = ", ".join(map(repr, self.all())) or "none"
            raise ArgumentError(f"there is no version {name!r}: there are {known}")
        return self._found[name]

    def newest(self) -> str | None:
        """Return the name of the version that was written last; None if there is none."""
        return next(reversed(self.all()), None)

    def learned(self) -> list[Positions]:
        """Return the lines that each version has learned from; none, for one that cannot be read."""
        return [*(each.learned for each in self._lineages.values()), *([Positions()] if self._is_damaged else [])]

    def _file(self, name: str) -> Path:
        return _file_of(self._path, name)

    def write(self, name: str, position: int, state: Mapping[str, Any]) -> Version:
        """Write a version, which is never written again.

        Raises:
            ArgumentError: there is one of that name.
            OSError: it could not be written, and there is none.
        """
        self.check_is_new(name)
        info = {
            "id": secrets.token_hex(8),
            "time": time.time(),
            "learned": state["learned"],
            "steps": state["steps"],
            "settings": state["settings"],
            "lineage": state["lineage"],
        }
        make_folders(missing_folders(self._path), mode=0o700)
        try:
            write_checkpoint(self._file(name), {"position": position, "version": info, "state": state})
        except OSError:
            # It may have its name, and perhaps not for long.
            with suppress(OSError):
                self._file(name).unlink(missing_ok=True)
            raise
        return self._add(name, position, info)

    def check_is_new(self, name: str) -> None:
        """Raise an ArgumentError if there is a version of that name, or its file."""
        if name in self._found or self._file(name).exists():
            raise ArgumentError(
                f"there is a version {name!r} already: give another name, or await learner.forget({name!r}) first"
            )

    def read(self, name: str, which: str | None = None) -> Any:
        """Return the state of a version.

        Args:
            name: its name.
            which: the `id` of the one that is meant; None for the one of that name.

        Raises:
            ArgumentError: there is none of that name.
            ModelDirectoryError: it is damaged, or another one.
        """
        path = self._file(name)
        try:
            content = read_checkpoint(path)
        except FileNotFoundError:
            self.find(name)
            raise ModelDirectoryError(f"{path} was removed: restore it from a copy") from None
        found = content["version"]["id"]
        if found != (self.find(name).id if which is None else which):
            raise ModelDirectoryError(f"{path} is another version than the one of that name: restore it from a copy")
        return content["state"]

    def remove(self, name: str) -> None:
        """Remove the file of a version.

        Raises:
            OSError: it could not be removed.
        """
        self._file(name).unlink(missing_ok=True)
        self._found.pop(name, None)
        self._lineages.pop(name, None)
        sync_folder(self._path)
