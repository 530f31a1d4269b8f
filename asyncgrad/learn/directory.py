"""The directory of a model that survives crashes: a checkpoint, and a journal of the examples learned since.

`journal` has one line for each step, in order: a checksum, and JSON. A line is on the disk before its examples are
acknowledged. A crash can leave only the last line incomplete; its examples were not acknowledged, and it is cut off. A
complete line with a wrong checksum may have been acknowledged; it is an error. `checkpoint.npz` has the whole state
after some number of examples. It is replaced atomically, then the journal is emptied; after a crash in between, lines
that the checkpoint contains are skipped. `lock` is held by the writing process.
"""

from __future__ import annotations

import json
import os
import shlex
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, final

import numpy as np

from ..errors import JournalError, ModelDirectoryError
from .encoding import array_as_text, array_of_text, decode, encode

__all__ = ["ModelDirectory"]

CHECKPOINT = "checkpoint.npz"

#: The version of the format of both files.
FORMAT = 1


@final
class ModelDirectory:
    """The files of one model, held by one process at a time. All methods block: call them in a thread.

    Attributes:
        records: how many lines the journal has.
        torn: how many bytes of an incomplete last line were cut off.
        broken: the error after which the journal is no longer written, since what is on the disk is unknown; or None.

    Raises:
        ModelDirectoryError: another process holds the directory, or it cannot be created or written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: int = 0
        self.torn: int = 0
        self.broken: OSError | None = None
        self._size = 0
        #: The size before the last line that was appended.
        self._size_before = 0
        #: The open files: the lock and the journal.
        self._files = ExitStack()
        self._is_held = False
        #: The directories that are created here, the innermost first.
        self._made: list[Path] = []
        try:
            self._made = [each for each in (path, *path.parents) if not each.exists()]
            path.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._journal = os.open(path / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._files.callback(os.close, self._journal)
        except BlockingIOError as error:
            self.close()
            raise ModelDirectoryError(f"{path} is in use by another process: give each its own directory") from error
        except OSError as error:
            self._remove_new()
            raise ModelDirectoryError(f"{path} cannot be written to: {error}") from error

    def _take_lock(self) -> None:
        try:
            fcntl: Any = import_module("fcntl")
        except ModuleNotFoundError:
            raise ModelDirectoryError(
                "a model's directory needs the file locks of Linux or macOS: on this system, leave out directory="
            ) from None
        lock = self._files.enter_context((self.path / "lock").open("ab"))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock.fileno()), (self.path / "lock").stat()):
            raise BlockingIOError("the process that held the lock has removed it, and there may be a new one")
        self._is_held = True

    def close(self) -> None:
        """Release the directory for other processes; a second call does nothing."""
        self._files.close()

    def checkpoint(self) -> Any:
        """Return what was last given to `save_checkpoint`; None if the directory is new.

        Raises:
            ModelDirectoryError: the checkpoint cannot be read, or there is a journal without one.
        """
        path = self.path / CHECKPOINT
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                tree = json.loads(str(arrays["tree"]))
                if tree["format"] != FORMAT:
                    raise ValueError(f"its format is {tree['format']}, and this version of asyncgrad writes {FORMAT}")
                return decode(tree["state"], lambda name: arrays[name])
        except FileNotFoundError:
            if os.fstat(self._journal).st_size == 0:
                return None
            raise ModelDirectoryError(f"{self.path} has a journal but no {path.name}: restore it from a copy") from None
        except (OSError, KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ModelDirectoryError(f"{path} cannot be read ({error}): restore it from a copy") from error

    def begin(self, state: Any) -> None:
        """Save the first checkpoint.

        Raises:
            ModelDirectoryError: it could not be written; a directory that was created for it is removed.
        """
        try:
            self.save_checkpoint(state)
        except OSError as error:
            self._remove_new()
            raise ModelDirectoryError(f"{self.path} cannot be written to: {error}") from error

    def _remove_new(self) -> None:
        """Remove what was created for a model that was never saved: empty files and new directories."""
        with suppress(OSError):
            # Without the lock, the files belong to another process.
            if self._is_held and not (self.path / CHECKPOINT).exists():
                if (self.path / "journal").exists() and not (self.path / "journal").stat().st_size:
                    (self.path / "journal").unlink()
                if not (self.path / "journal").exists():
                    (self.path / "lock").unlink()
            for made in self._made:
                made.rmdir()
        self.close()

    def save_checkpoint(self, state: Any) -> None:
        """Replace the checkpoint, then empty the journal, whose lines the new checkpoint contains.

        Args:
            state: a tree, as `encode` takes it.

        Raises:
            OSError: it could not be written; the directory still holds the same model.
        """
        arrays: dict[str, Any] = {}

        def put(array: Any) -> str:
            name = f"array{len(arrays)}"
            arrays[name] = array
            return name

        tree = json.dumps({"format": FORMAT, "state": encode(state, put, "state")})
        beside = self.path / f"{CHECKPOINT}.new"
        try:
            with beside.open("wb") as file:
                np.savez(file, tree=np.array(tree), **arrays)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path / CHECKPOINT)
        except OSError:
            # The journal may need the space on the disk.
            with suppress(OSError):
                beside.unlink()
            raise
        folder = os.open(self.path, os.O_RDONLY)
        try:
            # The new name is on the disk only when the folder is; so is the name of a new journal.
            os.fsync(folder)
        finally:
            os.close(folder)
        os.ftruncate(self._journal, 0)
        self.records = self._size = 0

    def append(self, learned: int, examples: list[Any]) -> None:
        """Write the line of a step; return when it is on the disk.

        Args:
            learned: how many examples were learned before it.
            examples: those of the step, each a tree as `encode` takes it.

        Raises:
            JournalError: it could not be written. Unless `broken` is set, a later one may be.
        """
        if self.broken is not None:
            raise JournalError(f"the journal takes no more since it failed: {self.broken}")
        line = _line(learned, examples)
        self._size_before = self._size
        try:
            _write(self._journal, line)
            os.fsync(self._journal)
        except OSError as error:
            self._cut_to(self._size, error)
            raise JournalError(f"the journal could not be written: {error}") from error
        self.records += 1
        self._size += len(line)

    def take_back(self) -> None:
        """Remove the line that was appended last: its step has failed."""
        self._cut_to(self._size_before, OSError("a step failed after its line was written"))
        if self.broken is None:
            self._size = self._size_before
            self.records -= 1

    def _cut_to(self, size: int, error: OSError) -> None:
        try:
            os.ftruncate(self._journal, size)
            os.fsync(self._journal)
        except OSError:
            # The content of the disk is unknown. A further line could follow an incomplete one.
            self.broken = error

    def replay(self, learned: int) -> Iterator[list[Any]]:
        """Yield the examples of each step after the first `learned` examples; cut off an incomplete last line.

        Raises:
            ModelDirectoryError: a line is damaged, or some are missing.
        """
        path = self.path / "journal"
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if _is_torn(line):
                        os.ftruncate(self._journal, self._size)
                        os.fsync(self._journal)
                        self.torn = len(line)
                        return
                    record = _record(line)
                    if record is None:
                        raise self._damaged(path, number, is_last=not file.read(1))
                    self.records += 1
                    self._size += len(line)
                    before, examples = record
                    if before > learned:
                        missing = f"{learned + 1} to {before}"
                        raise ModelDirectoryError(f"{path} lacks what was learned as {missing}: restore it from a copy")
                    if before == learned:
                        learned += len(examples)
                        yield examples
        except OSError as error:
            raise ModelDirectoryError(f"{path} cannot be read, or a torn last line be cut off: {error}") from error

    def _damaged(self, path: Path, number: int, is_last: bool) -> ModelDirectoryError:
        what = f"line {number} of {path} is damaged"
        if not is_last:
            return ModelDirectoryError(f"{what}, and not the last: restore it from a copy")
        # Its end is there or differs in one bit: a crash rarely causes that, but a failing disk does.
        return ModelDirectoryError(
            f"{what}, and somebody may have been told that it was learned: restore it from a copy, "
            f"or give it up by truncate -s {self._size} {shlex.quote(str(path))}"
        )


def _write(descriptor: int, data: bytes) -> None:
    """Write all of the data: one call of os.write may write only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _line(learned: int, examples: list[Any]) -> bytes:
    encoded = [encode(example, array_as_text, "example") for example in examples]
    text = json.dumps({"learned": learned, "examples": encoded}).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _text(line: bytes) -> bytes | None:
    """Return the text after the checksum of a line (without its newline), or None if the checksum is wrong."""
    checksum, _, text = line.partition(b" ")
    return text if checksum == b"%08x" % zlib.crc32(text) else None


def _is_torn(line: bytes) -> bool:
    """Return whether a line is incomplete. A line that is right except for its last character counts as complete."""
    return not line.endswith(b"\n") and _text(line[:-1]) is None


def _record(line: bytes) -> tuple[int, list[Any]] | None:
    """Return how many examples were learned before a line, and its examples; None if it is damaged."""
    text = _text(line.removesuffix(b"\n"))
    if text is None:
        return None
    record = json.loads(text)
    return record["learned"], [decode(example, array_of_text) for example in record["examples"]]
