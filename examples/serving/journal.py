"""A crash-safe directory for a model: a snapshot, and a journal of the sequences learned since.

`journal` has one line for each learned sequence, in order: a checksum, and JSON. A line is on the disk before its
sequence is acknowledged. A crash can leave only the last line incomplete; that sequence was not acknowledged, and the
line is cut off. A complete line with a wrong checksum may have been acknowledged; it is an error.
`snapshot.npz` has the whole model after some number of sequences. It is replaced atomically, then the journal is
emptied; after a crash in between, lines that the snapshot contains are skipped. `lock` is held by the writing process.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shlex
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, final

import numpy as np

from examples.serving.network import Sequence


class DirectoryError(Exception):
    """A directory cannot be used; the message says why, and what to do."""


class JournalError(Exception):
    """A sequence could not be written; the journal is unchanged, or accepts no further lines."""


@final
class Directory:
    """The files of one model, held by one process at a time. All methods block: call them in a thread.

    Raises:
        DirectoryError: another process holds the directory, or it cannot be created or written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = 0
        self.torn = 0
        self._size = 0
        self._broken: OSError | None = None
        #: The open files: the lock and the journal.
        self._files = ExitStack()
        self._is_held = False
        #: The directories that are created here, the innermost first.
        self._made: list[Path] = []
        try:
            self._made = [each for each in (path, *path.parents) if not each.exists()]
            path.mkdir(parents=True, exist_ok=True)
            lock = self._files.enter_context((path / "lock").open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(lock.fileno()), (path / "lock").stat()):
                raise BlockingIOError("the process that held the lock has removed it, and there may be a new one")
            self._is_held = True
            self._journal = os.open(path / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._files.callback(os.close, self._journal)
        except BlockingIOError as error:
            self.close()
            raise DirectoryError(f"{path} is in use by another process: give each its own --directory") from error
        except OSError as error:
            self._remove_new()
            raise DirectoryError(f"{path} cannot be written to: {error}") from error

    @property
    def broken(self) -> OSError | None:
        """The error after which the journal is no longer written, since the content of the disk is unknown; or None."""
        return self._broken

    def close(self) -> None:
        """Release the directory for other processes; a second call does nothing."""
        self._files.close()

    def snapshot(self) -> dict[str, Any] | None:
        """Return the arrays of the last snapshot by name; None if the directory is new.

        Raises:
            DirectoryError: the snapshot cannot be read, or there is a journal without a snapshot.
        """
        path = self.path / "snapshot.npz"
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except FileNotFoundError:
            if os.fstat(self._journal).st_size == 0:
                return None
            raise DirectoryError(f"{self.path} has a journal but no {path.name}: restore it from a copy") from None
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DirectoryError(f"{path} cannot be read ({error}): restore it from a copy") from error

    def begin(self, state: dict[str, Any]) -> None:
        """Save the first snapshot.

        Raises:
            DirectoryError: it could not be written; a directory that was created for it is removed.
        """
        try:
            self.save_snapshot(state)
        except OSError as error:
            self._remove_new()
            raise DirectoryError(f"{self.path} cannot be written to: {error}") from error

    def _remove_new(self) -> None:
        """Remove what was created for a model that was never saved: empty files and new directories."""
        with suppress(OSError):
            # Without the lock, the files belong to another process.
            if self._is_held and not (self.path / "snapshot.npz").exists():
                if (self.path / "journal").exists() and not (self.path / "journal").stat().st_size:
                    (self.path / "journal").unlink()
                if not (self.path / "journal").exists():
                    (self.path / "lock").unlink()
            for made in self._made:
                made.rmdir()
        self.close()

    def save_snapshot(self, state: dict[str, Any]) -> None:
        """Replace the snapshot, then empty the journal, whose lines the new snapshot contains.

        Raises:
            OSError: it could not be written; the directory still holds the same model.
        """
        beside = self.path / "snapshot.npz.new"
        try:
            with beside.open("wb") as file:
                np.savez(file, **state)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path / "snapshot.npz")
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
        self.records, self._size = 0, 0

    def append(self, learned: int, sequence: Sequence) -> None:
        """Write the line of a sequence, the `learned`-th one; return when it is on the disk.

        Raises:
            JournalError: it could not be written. Unless `broken` is set, a later one may be.
        """
        if self._broken is not None:
            raise JournalError(f"the journal takes no more since it failed: {self._broken}")
        line = _line(learned, sequence)
        try:
            _write(self._journal, line)
            os.fsync(self._journal)
        except OSError as error:
            self._roll_back(error)
            raise JournalError(f"the journal could not be written: {error}") from error
        self.records += 1
        self._size += len(line)

    def _roll_back(self, error: OSError) -> None:
        """Cut off a line that could not be written completely."""
        try:
            os.ftruncate(self._journal, self._size)
            os.fsync(self._journal)
        except OSError:
            # The content of the disk is unknown. A further line could follow an incomplete one.
            self._broken = error

    def replay(self, learned: int) -> Iterator[Sequence]:
        """Yield the sequences after the first `learned` ones, in order; cut off an incomplete last line.

        Raises:
            DirectoryError: a line is damaged, or some are missing.
        """
        path = self.path / "journal"
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if _is_torn(line):
                        self._cut_off(line)
                        return
                    record = _record(line)
                    if record is None:
                        raise self._damaged(path, number, is_last=not file.read(1))
                    self.records += 1
                    self._size += len(line)
                    which, sequence = record
                    if which > learned + 1:
                        missing = f"{learned + 1} to {which - 1}"
                        raise DirectoryError(f"{path} lacks what was learned as {missing}: restore it from a copy")
                    if which == learned + 1:
                        learned = which
                        yield sequence
        except OSError as error:
            raise DirectoryError(f"{path} cannot be read, or a torn last line be cut off: {error}") from error

    def _cut_off(self, line: bytes) -> None:
        os.ftruncate(self._journal, self._size)
        os.fsync(self._journal)
        self.torn = len(line)

    def _damaged(self, path: Path, number: int, is_last: bool) -> DirectoryError:
        what = f"line {number} of {path} is damaged"
        if not is_last:
            return DirectoryError(f"{what}, and not the last: restore it from a copy")
        # Its end is there or differs in one bit: a crash rarely causes that, but a failing disk does.
        return DirectoryError(
            f"{what}, and somebody may have been told that it was learned: restore it from a copy, "
            f"or give it up by truncate -s {self._size} {shlex.quote(str(path))}"
        )


def _write(descriptor: int, data: bytes) -> None:
    """Write all of the data: one call of os.write may write only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _line(learned: int, sequence: Sequence) -> bytes:
    """Return the line of a sequence; its numbers are base64 of little-endian float64, inputs before targets."""
    numbers = b"".join(part.astype("<f8").tobytes() for part in sequence)
    shapes = [part.shape for part in sequence]
    text = json.dumps({"learned": learned, "shapes": shapes, "data": base64.b64encode(numbers).decode()}).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _text(line: bytes) -> bytes | None:
    """Return the text after the checksum of a line (without its newline), or None if the checksum is wrong."""
    checksum, _, text = line.partition(b" ")
    return text if checksum == b"%08x" % zlib.crc32(text) else None


def _is_torn(line: bytes) -> bool:
    """Return whether a line is incomplete. A line that is right except for its last character counts as complete."""
    return not line.endswith(b"\n") and _text(line[:-1]) is None


def _record(line: bytes) -> tuple[int, Sequence] | None:
    """Return the number and the sequence of a line, or None if it is damaged."""
    text = _text(line.removesuffix(b"\n"))
    if text is None:
        return None
    record = json.loads(text)
    inputs, targets = record["shapes"]
    numbers = np.frombuffer(base64.b64decode(record["data"]), "<f8").astype(np.float64)
    first, second = np.split(numbers, [inputs[0] * inputs[1]])
    return record["learned"], Sequence(first.reshape(inputs), second.reshape(targets))
