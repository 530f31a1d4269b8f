"""A directory that survives a crash: what was learned since the last snapshot, line by line, and that snapshot.

`journal` has one line for each sequence learned, in the order of learning: a checksum, and JSON. A line is on the disk
before anybody is told that its sequence was learned. A crash can tear the last line only, and nobody was told of that.
`snapshot.npz` has the whole model after some number of sequences. It is replaced as a whole, then the journal begins
anew; after a crash in between, lines that the snapshot contains are passed over. `lock` is held by the process that
writes.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from examples.serving.network import Sequence


class DirectoryError(Exception):
    """A directory cannot be used as it is; the message says why, and what to do."""


class JournalError(Exception):
    """A sequence could not be written to the journal; the journal is as it was, or takes no more."""


@final
class Directory:
    """The files of one model, held by one process at a time. All methods block: call them in a thread.

    Raises:
        DirectoryError: another process holds the directory, or it cannot be made or written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = 0
        self.torn = 0
        self._size = 0
        self._broken: OSError | None = None
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / "lock").open("ab")
        except OSError as error:
            raise DirectoryError(f"{path} cannot be written to: {error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._journal = os.open(path / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except BlockingIOError as error:
            self._lock.close()
            raise DirectoryError(f"{path} is in use by another process: give each its own --directory") from error
        except OSError as error:
            self._lock.close()
            raise DirectoryError(f"{path} cannot be written to: {error}") from error

    @property
    def broken(self) -> OSError | None:
        """What ended the journal: after a failure that leaves unknown what is on the disk, nothing more is written."""
        return self._broken

    def close(self) -> None:
        """Let another process have the directory."""
        os.close(self._journal)
        self._lock.close()

    def snapshot(self) -> dict[str, Any] | None:
        """Return the arrays of the last snapshot by name; None where the directory is new.

        Raises:
            DirectoryError: the snapshot cannot be read, or is missing beside a journal.
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

    def save_snapshot(self, state: dict[str, Any]) -> None:
        """Replace the snapshot, then empty the journal, whose lines it contains.

        Raises:
            OSError: it could not be written; the old snapshot, or the journal, is as it was.
        """
        beside = self.path / "snapshot.npz.new"
        with beside.open("wb") as file:
            np.savez(file, **state)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path / "snapshot.npz")
        folder = os.open(self.path, os.O_RDONLY)
        try:
            # The new name, and on the first time the journal's too, are on the disk only when the folder is.
            os.fsync(folder)
        finally:
            os.close(folder)
        os.ftruncate(self._journal, 0)
        self.records, self._size = 0, 0

    def append(self, learned: int, sequence: Sequence) -> None:
        """Write a line that says: this was learned, as the one of this number; return when it is on the disk.

        Raises:
            JournalError: it could not be written. The next one may be, unless `broken` says otherwise.
        """
        if self._broken is not None:
            raise JournalError(f"the journal takes no more since it failed: {self._broken}")
        line = _line(learned, sequence)
        try:
            _write(self._journal, line)
            os.fsync(self._journal)
        except OSError as error:
            self._take_back(error)
            raise JournalError(f"the journal could not be written: {error}") from error
        self.records += 1
        self._size += len(line)

    def _take_back(self, error: OSError) -> None:
        """Cut off what may have been written of a line that was not to be."""
        try:
            os.ftruncate(self._journal, self._size)
            os.fsync(self._journal)
        except OSError:
            # Unknown is what a restart would find. To write after that could make a torn line one in the middle.
            self._broken = error

    def replay(self, learned: int) -> Iterator[Sequence]:
        """Yield what was learned after the first `learned` sequences, in order; cut off a torn last line.

        Raises:
            DirectoryError: a line that is not the last is damaged, or some are missing.
        """
        with (self.path / "journal").open("rb") as file:
            for number, line in enumerate(file, 1):
                record = _record(line)
                if record is None:
                    self._cut_off(file, number, line)
                    return
                self.records += 1
                self._size += len(line)
                which, sequence = record
                if which > learned + 1:
                    missing = f"{learned + 1} to {which - 1}"
                    raise DirectoryError(f"{file.name} lacks what was learned as {missing}: restore it from a copy")
                if which == learned + 1:
                    learned = which
                    yield sequence

    def _cut_off(self, file: BinaryIO, number: int, line: bytes) -> None:
        if file.read(1):
            raise DirectoryError(f"line {number} of {file.name} is damaged, and not the last: restore it from a copy")
        os.ftruncate(self._journal, self._size)
        os.fsync(self._journal)
        self.torn = len(line)


def _write(descriptor: int, data: bytes) -> None:
    """Write all of it: one call may take a part only."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _line(learned: int, sequence: Sequence) -> bytes:
    """Return the line for one sequence; numbers as base64 of 64 bits each, little-endian, inputs before targets."""
    numbers = b"".join(part.astype("<f8").tobytes() for part in sequence)
    shapes = [part.shape for part in sequence]
    text = json.dumps({"learned": learned, "shapes": shapes, "data": base64.b64encode(numbers).decode()}).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _record(line: bytes) -> tuple[int, Sequence] | None:
    """Return what a line says; None if it is not whole."""
    checksum, _, text = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
        return None
    record = json.loads(text)
    inputs, targets = record["shapes"]
    numbers = np.frombuffer(base64.b64decode(record["data"]), "<f8").astype(np.float64)
    first, second = np.split(numbers, [inputs[0] * inputs[1]])
    return record["learned"], Sequence(first.reshape(inputs), second.reshape(targets))
