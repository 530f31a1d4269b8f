"""The directory of a model that survives crashes: a checkpoint, and a journal of the examples learned since.

`journal` has one line for each step, in order (`lines.py`). A line is on the disk before its examples are acknowledged.
A crash can leave only the last line incomplete; its examples were not acknowledged, and it is cut off. A line that has
all its bytes and a wrong checksum may have been acknowledged; it is an error.

`checkpoint.npz` has the whole state after some number of examples (`checkpoint_file.py`), the name of the journal that
goes on from it, and that of the one before. It is replaced atomically, then the journal is emptied; after a crash in
between, the lines of the journal before are skipped. There is a file of the journal always, if only an empty one.

Lines have numbers, their positions, which only rise: `position` of a checkpoint or a version is that of the line that
follows it. `versions/` has named checkpoints (`versions.py`), and `history/` lines of former journals that a rollback
may have learned again (`history.py`); both are made when there is something for them.

`journal.cut-NAME-SIZE` says that what follows the first bytes of a journal was refused, and could not be removed: the
disk took no write, but a name. `lock` is held by the writing process, and says which: one that finds another's name
there acknowledges nothing more, as after a machine that seemed dead comes back to a file system of the network.
`fenced` says that the model goes on in another directory.

A journal has what users sent, and a checkpoint what was learned from it: what is made here is for its owner alone, and
what is there already keeps its permissions (test_what_a_learner_makes_is_for_its_owner_alone).
"""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

from ..core.settings.files import make_folders, missing_folders, sync_folder
from ..errors import JournalError, ModelDirectoryError
from ..memory.offload.forking import reset_in_children
from .checkpoint_file import OWN, read_checkpoint, write_checkpoint
from .history import History
from .lines import Record, is_torn, line_of, record_of
from .positions import Positions
from .versions import VERSIONS, Version, VersionFiles

__all__ = ["ModelDirectory"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")

CHECKPOINT = "checkpoint.npz"

#: Says that the model goes on elsewhere.
FENCED = "fenced"

#: No link is followed: what it leads to is not the model's. Windows, which lacks the flag, lacks the locks too.
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


@final
class ModelDirectory:
    """The files of one model, held by one process at a time. All methods block: call them in a thread.

    Attributes:
        records: how many lines the journal has.
        position: how many lines the directory has had since it was made; the number of the next one.
        versions: the named checkpoints.
        torn: how many bytes of an incomplete last line were cut off.
        broken: the error after which the journal is no longer written, since what is on the disk is unknown; or None.
            A checkpoint mends it, since a new journal begins with it.
        confirmed: the name of the journal, and how many of its bytes are of steps that were made: what may be sent on.
        retains: up to so many bytes of the journal before are kept in memory, for who follows it over HTTP.
        retained: its name and its bytes; None without any.

    Args:
        path: the directory.
        takes_over: whether the next checkpoint begins a journal in a file of its own. A process that had the directory
            before, and is not as dead as it seemed, writes into one that nobody reads.

    Raises:
        ModelDirectoryError: another process holds the directory, it has no journal, or it cannot be created or written
            to.
    """

    def __init__(self, path: Path, *, takes_over: bool = False) -> None:
        self.path = path
        self._takes_over = takes_over
        self.confirmed: tuple[str | None, int] = (None, 0)
        self.retains: int = 0
        self.retained: tuple[str | None, bytes] | None = None
        self.records: int = 0
        self.position: int = 0
        self.torn: int = 0
        self.broken: OSError | None = None
        self._size = 0
        #: The size before the last line that was appended.
        self._size_before = 0
        #: Where the lines of this journal begin, after those of the one before that a crash has left; and the position
        #: of the first of them.
        self._start = self._first = 0
        #: Where a line was read: the first position of its file, the position of the line that follows, and its place.
        self._cursor = (-1, 0, 0)
        #: The names of the journal and of the one before, as the checkpoint has them; None in the first format.
        self._name: str | None = None
        self._name_before: str | None = None
        #: The name of the journal of a checkpoint that has its place, but is perhaps not on the disk; None without one.
        self._following: str | None = None
        #: The open files: the lock and the journal, whose descriptor is None while it is not open.
        self._files = ExitStack()
        self._journal: Any = None
        self._lock: Any = None
        #: What the lock says while this process has it.
        self._epoch = b""
        #: A thread may write when the files are closed, and a later file would get their numbers.
        self._writing = threading.RLock()
        self._is_held = False
        #: Why the journal is not mended by a checkpoint; None if it is.
        self._fenced: OSError | None = None
        #: The directories that are created here, the innermost first.
        self._made: list[Path] = []
        try:
            self._made = missing_folders(path)
            make_folders(self._made, mode=0o700)
            self._take_lock()
            if os.path.lexists(path / FENCED):
                raise ModelDirectoryError(
                    f"the model of {path} goes on elsewhere: a follower was promoted, and learns. Follow that one; if "
                    f"it was given up, rm {shlex.quote(str(path / FENCED))}"
                )
            self._journal = self._open_journal()
            self.versions: VersionFiles = VersionFiles(path / VERSIONS)
            self._history = History(path / "history")
        except BlockingIOError as error:
            self.close()
            raise ModelDirectoryError(f"{path} is in use by another process: give each its own directory") from error
        except OSError as error:
            self._remove_new()
            raise ModelDirectoryError(f"{path} cannot be written to: {error}") from error
        except BaseException:
            self.close()
            raise
        reset_in_children(self)

    def fence(self) -> None:
        """Acknowledge nothing more, also after a restart: the model goes on in another directory.

        Raises:
            OSError: a restart will not know of it.
        """
        with self._writing:
            self._fenced = self.broken = OSError("the model goes on elsewhere, where a follower was promoted")
            os.close(os.open(self.path / FENCED, _FLAGS | os.O_CREAT, OWN))
            sync_folder(self.path)

    def _take_lock(self) -> None:
        try:
            fcntl: Any = import_module("fcntl")
        except ModuleNotFoundError:
            raise ModelDirectoryError(
                "a model's directory needs the file locks of Linux or macOS: on this system, leave out directory="
            ) from None
        lock = self._opened("lock", _FLAGS | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock), (self.path / "lock").stat()):
            raise BlockingIOError("the process that held the lock has removed it, and there may be a new one")
        self._is_held = True
        self._lock = lock
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        """Write into the lock who has it: a process that had it before finds another's name there."""
        number, _, _ = os.pread(self._lock, 64, 0).partition(b" ")
        epoch = b"%d %s\n" % (int(number) + 1 if number.isdigit() else 1, secrets.token_hex(8).encode())
        os.ftruncate(self._lock, 0)
        try:
            _write(self._lock, epoch)
        except OSError as error:
            # A learner starts on a full disk, too. What is empty is none of those before.
            log.warning("%s: the lock cannot be written to: %s", self.path, error)
            os.ftruncate(self._lock, 0)
        self._epoch = os.pread(self._lock, 64, 0)

    def _check_epoch(self) -> None:
        """Raise an OSError if another process has the directory now; it is `broken` then."""
        # Neither takes a descriptor, of which there may be none.
        is_own = os.pread(self._lock, 64, 0) == self._epoch
        with suppress(FileNotFoundError):
            is_own = is_own and os.path.samestat(os.fstat(self._lock), (self.path / "lock").stat())
        if not is_own:
            self.broken = OSError("another process has taken over the directory, and this one has none any more")
            raise self.broken

    def _open_journal(self) -> int:
        if not os.path.lexists(self.path / CHECKPOINT):
            return self._opened("journal", _FLAGS | os.O_CREAT)
        try:
            return self._opened("journal", _FLAGS)
        except FileNotFoundError:
            # It is there from before the first checkpoint on: somebody has removed it.
            journal = self.path / "journal"
            raise ModelDirectoryError(
                f"{self.path} has a {CHECKPOINT} but no journal, in which what was learned since is: restore it from a "
                f"copy, or give up what it had by touch {shlex.quote(str(journal))}"
            ) from None

    def _opened(self, name: str, flags: int) -> int:
        descriptor = os.open(self.path / name, flags, OWN)
        self._files.callback(os.close, descriptor)
        return descriptor

    def close(self) -> None:
        """Release the directory for other processes, after the call that writes; a second call does nothing."""
        with self._writing:
            self._close_files()

    def _close_files(self) -> None:
        self._journal = self._lock = None
        self._files.close()

    def reset_in_child(self) -> None:
        """Leave the directory to the parent, in a process that was forked from it.

        While the child had the files open, too, the lock would outlive the parent:
        test_a_fork_of_the_process_does_not_hold_the_directory.
        """
        self.broken = OSError("this process was forked from the one that has the directory")
        # Another thread may have had the lock.
        self._writing = threading.RLock()
        self._close_files()

    def checkpoint(self) -> Any:
        """Return what was last given to `save_checkpoint`; None if the directory is new.

        Raises:
            ModelDirectoryError: the checkpoint cannot be read, or there is a journal without one.
        """
        path = self.path / CHECKPOINT
        try:
            content = read_checkpoint(path)
        except FileNotFoundError:
            if os.fstat(self._journal).st_size == 0:
                return None
            raise ModelDirectoryError(f"{self.path} has a journal but no {path.name}: restore it from a copy") from None
        self._name, self._name_before = content.get("journal"), content.get("replaces")
        # Directories of older versions have numbered no lines.
        self.position = self._first = content.get("position", 0)
        if content.get("state") is None:
            raise ModelDirectoryError(f"{path} cannot be read (it has no state): restore it from a copy")
        return content["state"]

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
            if self._is_held and not os.path.lexists(self.path / CHECKPOINT):
                if self._journal is not None and not os.fstat(self._journal).st_size:
                    (self.path / "journal").unlink()
                if not os.path.lexists(self.path / "journal"):
                    (self.path / "lock").unlink()
            for made in self._made:
                made.rmdir()
        self.close()

    def save_checkpoint(self, state: Any, needed: Positions = Positions()) -> None:  # noqa: B008  # it is immutable
        """Replace the checkpoint, then empty the journal, whose lines the new checkpoint contains.

        Args:
            state: a tree, as `encode` takes it.
            needed: the lines that may be read again, and so go on in the history.

        Raises:
            OSError: it could not be written; the directory still holds the same model.
        """
        with self._writing:
            if self._journal is None:
                raise OSError(f"no checkpoint is written: {self.broken or 'the directory was closed'}")
            self._check_epoch()
            self._settle()
            if needed & Positions([(self._first, self.position)]):
                self._history.add(self._first, self._size - self._start, self._own_lines())
            self._replace_checkpoint(state)
            self._history.prune(needed, self.position)

    def skip_taken(self) -> bool:
        """Leave out the positions of lines that are no more, and that versions and the history know; tell if there are.

        They are those of a later time than the checkpoint's, which was restored from a copy, or of a journal that
        somebody has given up. A checkpoint must follow, since lines of one journal follow each other.

        Raises:
            ModelDirectoryError: the history cannot be read.
        """
        taken = [version.position for version in self.versions.all().values()]
        if self._history.firsts and self._history.firsts[-1] >= self._first:
            try:
                taken.append(self._history.end())
            except OSError as error:
                raise ModelDirectoryError(f"{self.path} has a history that cannot be read: {error}") from error
        before, self.position = self.position, max(self.position, *taken, 0)
        return self.position > before

    def _own_lines(self) -> Iterator[bytes]:
        """Yield the acknowledged lines of this journal, in parts."""
        place = self._start
        while place < self._size:
            part = os.pread(self._journal, min(self._size - place, 1 << 20), place)
            if not part:
                raise OSError(f"the journal has {place} bytes, of {self._size} that were written")
            place += len(part)
            yield part

    def save_version(self, name: str, state: Mapping[str, Any]) -> Version:
        """Write a version: the model after the lines that the journal has now.

        Raises:
            ArgumentError: there is one of that name.
            OSError: it could not be written, and there is none.
        """
        with self._writing:
            if self._journal is None:
                raise OSError(f"no version is written: {self.broken or 'the directory was closed'}")
            self._check_epoch()
            return self.versions.write(name, self.position, state)

    def remove_version(self, name: str) -> None:
        """Remove a version, which no line of the journal goes back to.

        Raises:
            OSError: it could not be removed.
        """
        with self._writing:
            if self._journal is None:
                raise OSError(f"no version is removed: {self.broken or 'the directory was closed'}")
            self._check_epoch()
            self.versions.remove(name)

    def examples_at(self, position: int) -> list[Any]:
        """Return the examples of a line of this journal, or of the history.

        Raises:
            ModelDirectoryError: it is missing, or damaged.
        """
        with self._writing:
            first = self._first if position >= self._first else self._history.find(position)
            if self._journal is None or first is None or position >= self.position:
                raise ModelDirectoryError(
                    f"{self.path} has no line {position} any more: restore its history from a copy"
                )
            is_own = first == self._first
            path = self.path / "journal" if is_own else self._history.file(first)
            try:
                line = self._line_at(path, first, position, self._start if is_own else 0)
                record = record_of(line)
                if record.position not in (None, position):
                    raise ValueError(f"it has line {record.position} in the place of {position}")
            except (OSError, ValueError) as error:
                raise ModelDirectoryError(f"{path} cannot be read at line {position}: {error}") from error
        return record.examples

    def _line_at(self, path: Path, first: int, position: int, start: int) -> bytes:
        """Read a line; one that follows the line before it costs no search."""
        known, at, place = self._cursor
        if known != first or at > position:
            at, place = first, 0
        with path.open("rb") as file:
            file.seek(start + place)
            for _ in range(at, position):
                place += len(file.readline())
            line = file.readline()
        # From the first line of its own on, a journal has the bytes that it has in the history.
        self._cursor = (first, position + 1, place + len(line))
        return line

    def _replace_checkpoint(self, state: Any) -> None:
        path = self.path / CHECKPOINT
        name, before = secrets.token_hex(8), _identity(path)
        try:
            # Who has read so much of the journal goes on with the next one, without this checkpoint.
            places = {"journal": name, "replaces": self._name, "ended": self._size, "position": self.position}
            write_checkpoint(path, {**places, "state": state})
        except BaseException:
            # Also a call that failed may have replaced it.
            if _identity(path) != before:
                self._following = name
            raise
        self._following = name
        self._go_over(name)

    def _settle(self) -> None:
        """Go over to the journal of a checkpoint that has its place; do nothing if that is done.

        Raises:
            OSError: it cannot be done yet. A line that was written now would belong to neither of two checkpoints.
        """
        if self._following is not None:
            sync_folder(self.path)
            self._go_over(self._following)

    def _go_over(self, name: str) -> None:
        self._retain()
        if self._takes_over:
            beside = self.path / "journal.new"
            journal = self._opened(beside.name, _FLAGS | os.O_CREAT | os.O_TRUNC)
            os.replace(beside, self.path / "journal")  # noqa: PTH105  # by the name that it has at any moment
            sync_folder(self.path)
            self._journal, self._takes_over = journal, False
        elif self._is_removed():
            self._journal = self._opened("journal", _FLAGS | os.O_CREAT)
            sync_folder(self.path)
        os.ftruncate(self._journal, 0)
        self._name, self._name_before, self._following = name, self._name, None
        self.records = self._size = self._start = 0
        self._first = self.position
        self.broken = self._fenced
        self.confirm()

    def _retain(self) -> None:
        self.retained = None
        if 0 < self._size <= self.retains:
            # What cannot be read is loaded with the checkpoint.
            with suppress(OSError):
                data = os.pread(self._journal, self._size, 0)
                self.retained = (self._name, data) if len(data) == self._size else None

    def confirm(self) -> None:
        """Note that what all lines say has been done."""
        self.confirmed = self._name, self._size

    def append(self, learned: int, examples: list[Any], more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Write a line; return when it is on the disk.

        Args:
            learned: how many examples were learned before it.
            examples: those of the step, each a tree as `encode` takes it.
            more: other fields of the `Record`.

        Raises:
            JournalError: it could not be written. Unless `broken` is set, a later one may be.
        """
        with self._writing:
            if self._fenced is not None:
                raise JournalError(f"{self._fenced}: send examples there")
            if self.broken is not None:
                raise JournalError(f"the journal takes no more since it failed: {self.broken}")
            if self._journal is None:
                raise JournalError("the journal takes no more since the directory was closed")
            try:
                self._check_epoch()
                self._settle()
            except OSError as error:
                raise JournalError(f"the journal could not be written: {error}") from error
            self._append_line(line_of(Record(self._name, learned, examples, position=self.position, **more)))

    def _is_removed(self) -> bool:
        """Return whether somebody has removed the journal: what is written into it is gone once it is closed."""
        return os.fstat(self._journal).st_nlink == 0

    def _append_line(self, line: bytes) -> None:
        if self._is_removed():
            self.broken = OSError("its file was removed, and what was learned since the last checkpoint is in memory")
            raise JournalError(f"the journal could not be written: {self.broken}: await learner.checkpoint() saves it")
        self._size_before = self._size
        try:
            _write(self._journal, line)
            os.fsync(self._journal)
        except OSError as error:
            if self._cut_to(self._size, error):
                raise JournalError(f"the journal could not be written: {error}") from error
            raise JournalError(
                f"the journal could not be written, and its last line not be taken back, so that a restart may still "
                f"learn it: {error}"
            ) from error
        try:
            # Whoever has taken over since then has read this line. Whoever does so now reads it.
            self._check_epoch()
        except OSError as error:
            raise JournalError(f"the journal could not be written: {error}") from error
        self.records += 1
        self.position += 1
        self._size += len(line)

    def take_back(self) -> None:
        """Remove the line that was appended last: its step has failed."""
        with self._writing:
            if not self._cut_to(self._size_before, OSError("a step failed after its line was written")):
                log.error("the journal of %s has the line of a step that failed: a restart may learn it", self.path)
            if self.broken is None:
                self._size = self._size_before
                self.records -= 1
                self.position -= 1

    def _cut_to(self, size: int, error: OSError) -> bool:
        """Remove what follows so many bytes of the journal; return whether a start will not find it."""
        if self._journal is None:
            return False
        try:
            self._check_epoch()
        except OSError:
            return False  # what follows may be another's
        try:
            os.ftruncate(self._journal, size)
            os.fsync(self._journal)
        except OSError:
            # The content of the disk is unknown. A further line could follow an incomplete one.
            self.broken = error
        else:
            return True
        try:
            # An empty file takes no write: test_what_was_refused_is_not_learned_after_a_restart.
            os.close(os.open(self.path / f"journal.cut-{self._name or ''}-{size}", _FLAGS | os.O_CREAT, OWN))
            sync_folder(self.path)
        except OSError:
            return False
        return True

    def _apply_cuts(self) -> None:
        """Remove what `_cut_to` could not remove."""
        for marker in self.path.glob("journal.cut-*-*"):
            _, name, size = marker.name.rsplit("-", 2)
            if not size.isdecimal():
                continue  # of somebody else
            if name == (self._name or "") and int(size) < os.fstat(self._journal).st_size:
                os.ftruncate(self._journal, int(size))
                os.fsync(self._journal)
                log.warning("%s: what followed byte %s of the journal was refused, and is cut off", self.path, size)
            # Before a line follows that it would take for the one that was refused.
            marker.unlink()
            sync_folder(self.path)

    def replay(self, learned: int) -> Iterator[Record]:
        """Yield what each line after the first `learned` examples says; cut off an incomplete last line.

        Raises:
            ModelDirectoryError: a line is damaged, or some are missing.
        """
        path = self.path / "journal"
        try:
            self._apply_cuts()
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if is_torn(line):
                        self._cut_off(line)
                        break
                    try:
                        record = record_of(line)
                    except ValueError as error:
                        raise self._damaged(path, number, is_last=not file.read(1)) from error
                    self.records += 1
                    self._size += len(line)
                    if self._is_next(record, learned, number):
                        learned += len(record.examples)
                        if record.rollback is not None:
                            learned = record.rollback["learned"]
                        self.position += 1
                        yield record
                    else:
                        self._start = self._size
            self._remove_lines_before()
        except OSError as error:
            raise ModelDirectoryError(f"{path} cannot be read, or a torn last line be cut off: {error}") from error

    def _remove_lines_before(self) -> None:
        """Empty the journal of lines of the one before, if it has no others.

        The next checkpoint does not know that one, so after another crash between the two no start would:
        test_a_crash_between_checkpoint_and_journal_may_come_twice.
        """
        if not 0 < self._start == self._size:
            return
        try:
            os.ftruncate(self._journal, 0)
        except OSError as error:
            log.warning("%s: lines that the checkpoint contains cannot be removed: %s", self.path, error)
            return
        self.records = self._size = self._start = 0
        # The next line is on the disk only if this is.
        with suppress(OSError):
            os.fsync(self._journal)

    def _is_next(self, record: Record, learned: int, number: int) -> bool:
        """Return whether a line is to be learned now, and not part of the checkpoint already."""
        line = f"line {number} of {self.path / 'journal'}"
        if record.journal != self._name:
            # What is refused has the number of the next example, and may be there still when a checkpoint is written.
            one, other = (record.learned, learned) if record.position is None else (record.position, self.position)
            if record.journal == self._name_before and one <= other:
                return False
            raise ModelDirectoryError(
                f"{line} belongs to another checkpoint than the {CHECKPOINT} beside it: restore both from the same copy"
            )
        if record.position not in (None, self.position) and record.learned == learned:
            what = "repeats what came" if record.position < self.position else "lacks what was written"
            raise ModelDirectoryError(
                f"{line} {what} before it: it is number {record.position} of the directory's, in the place of number "
                f"{self.position}: restore it from a copy"
            )
        if record.learned > learned:
            missing = f"{learned + 1} to {record.learned}"
            raise ModelDirectoryError(
                f"{self.path / 'journal'} lacks what was learned as {missing}: restore it from a copy"
            )
        if record.learned < learned and self._name is not None:
            raise ModelDirectoryError(f"{line} repeats what was learned before it: restore it from a copy")
        # In the first format, lines that the checkpoint contains have no other name.
        return record.learned == learned

    def _cut_off(self, line: bytes) -> None:
        os.ftruncate(self._journal, self._size)
        os.fsync(self._journal)
        self.torn = len(line)
        log.warning(
            "%s: the last line of the journal, of %d bytes, is incomplete and was cut off: a crash has left it, and "
            "nobody was told that it was learned",
            self.path,
            len(line),
        )

    def _damaged(self, path: Path, number: int, is_last: bool) -> ModelDirectoryError:
        what = f"line {number} of {path} is damaged"
        if not is_last:
            return ModelDirectoryError(f"{what}, and not the last: restore it from a copy")
        # All its bytes are there: a crash rarely changes some, but a failing disk does.
        return ModelDirectoryError(
            f"{what}, and somebody may have been told that it was learned: restore it from a copy, "
            f"or give it up by truncate -s {self._size} {shlex.quote(str(path))}"
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from the one that it replaces; None where there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _write(descriptor: int, data: bytes) -> None:
    """Write all of the data: one call of os.write may write only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
