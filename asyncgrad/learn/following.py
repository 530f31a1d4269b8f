"""Following: the journal of a learner in another process is applied to a replica, line by line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, final

from ..errors import ModelDirectoryError
from .journal_reader import CHECKSUM_SIZE, JournalPart, JournalSource, Position
from .lines import Record, record_of
from .replica import Replica

__all__ = ["Following"]

#: How often the checkpoint may be replaced while it is loaded, until that is told.
MOST_LOADS = 5


class _Lines(NamedTuple):
    """The whole lines at the beginning of some bytes: what each says, where it ends, and its checksum."""

    records: list[tuple[Record, int, bytes]]
    #: What keeps the next line from being read; None if nothing does.
    error: ValueError | None


@final
class Following:
    """Reads a journal on, and does what its lines say; loads the checkpoint where that alone leads on.

    Only one task at a time may await `read_on`.

    Attributes:
        loads: how many checkpoints and versions were loaded.
        lag_bytes: how many bytes of the journal were not applied yet, at the last look.
        level_at: when all of the journal was last known to be applied, by `perf_counter`.

    Args:
        source: where the journal is.
        replica: the model.
        place: names the journal's place in errors.
    """

    def __init__(self, source: JournalSource, replica: Replica, place: Path | str) -> None:
        self._source, self._replica, self._place = source, replica, place
        self.loads: int = 0
        self.lag_bytes: int = 0
        self.level_at: float = perf_counter()
        self._position: Position | None = None
        #: Whether the journal has changed the model since the checkpoint was loaded.
        self._has_applied = False

    def begin_anew(self) -> None:
        """Have the next `read_on` load the checkpoint: the model may be another one."""
        self._position = None

    async def read_on(self) -> None:
        """Apply what the journal has.

        Raises:
            ModelDirectoryError: the directory is damaged, or holds another model; or the key is wrong.
            OSError: it, or the learner's machine, cannot be reached.
        """
        loads, asked_at = 0, perf_counter()
        while True:
            if self._position is None:
                if loads == MOST_LOADS:
                    raise ModelDirectoryError(
                        f"the checkpoint was replaced {loads} times while it was loaded: raise checkpoint_every"
                    )
                await self._load()
                loads += 1
                continue
            asked_at = perf_counter()
            position = self._position
            part = await self._read(position)
            if part is None:
                # Lines of the journal before, which were skipped, are gone: nothing of the new one was applied.
                can_begin_again = position.offset and not self._has_applied
                self._position = Position(position.journal) if can_begin_again else None
                self._has_applied = True
            elif not await self._apply(part):
                break
        if self.lag_bytes == 0:
            self.level_at = asked_at

    async def _read(self, position: Position) -> JournalPart | None:
        """Return what follows a position, a whole line at least where there is one."""
        part = await self._source.read(position)
        while part is not None and part.data and b"\n" not in part.data:
            longer = part.position._replace(offset=part.position.offset + len(part.data))
            rest = await self._source.read(longer)
            if rest is None or not rest.data or rest.position != longer:
                break  # the learner is writing it
            part = part._replace(data=part.data + rest.data, size=rest.size)
        return part

    async def _load(self) -> None:
        """Go on from the checkpoint."""
        content = await self._source.checkpoint()
        state, replica = content.get("state", {}), self._replica
        try:
            replica.state.publish(replica.recorded.load(state))
            replica.recorded.take_rest(state)
        except Exception as error:
            raise ModelDirectoryError(
                f"the checkpoint of {self._place} does not fit this model or optimizer: {error}"
            ) from error
        self.loads += 1
        self._position, self._has_applied = Position(content.get("journal")), False

    async def _apply(self, part: JournalPart) -> bool:
        """Do what the whole lines of a part say; return whether there is more to read at once."""
        if part.position.journal != (self._position and self._position.journal):
            self._has_applied = False
        self._position = position = part.position
        self.lag_bytes = part.size - position.offset
        if not part.data:
            # So is nearly every look, of which there are twenty in a second.
            return False
        lines = await asyncio.to_thread(_lines_of, part.data)
        for record, end, checksum in lines.records:
            if record.journal == position.journal:
                await self._do(record)
            if self._position is None:
                return True
            begin = self._position.offset
            self._position = Position(position.journal, position.offset + end, begin, checksum)
            self.lag_bytes = part.size - self._position.offset
        if lines.error is not None:
            place = self._position.offset
            raise ModelDirectoryError(
                f"the journal of {self._place} has a damaged line at byte {place}: {lines.error}"
            ) from lines.error
        return bool(lines.records)

    async def _do(self, record: Record) -> None:
        """Do what a line says, as the learner has done it; or have the checkpoint be loaded, which leads on."""
        self._has_applied = True
        version = None
        if record.rollback is not None:
            version = await self._version_of(record.rollback)
            if version is None:
                # It was removed since, which happens only after a checkpoint that contains what followed.
                self._position = None
                return
        elif record.learned != self._replica.state.learned:
            # Another history than the one that was applied: that of a directory restored from a copy, say.
            self._position = None
            return
        try:
            await self._replica.replay.apply(record, self._place, version)
        except BaseException:
            # Options may have changed already.
            self._position = None
            raise
        if version is not None:
            self.loads += 1

    async def _version_of(self, rollback: dict[str, Any]) -> Any:
        """Return the state of the version that a line goes back to; None if it is there no more."""
        found = await self._source.version(rollback["to"])
        if found is None or found.get("version", {}).get("id") != rollback["id"]:
            return None
        return found["state"]


def _lines_of(data: bytes) -> _Lines:
    found: list[tuple[Record, int, bytes]] = []
    begin = 0
    while (end := data.find(b"\n", begin) + 1) > 0:
        line = data[begin:end]
        try:
            found.append((record_of(line), end, line[:CHECKSUM_SIZE]))
        except ValueError as error:
            return _Lines(found, error)
        begin = end
    return _Lines(found, None)
