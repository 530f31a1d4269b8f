"""Checksums: what comes back from a store is what was put there, or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

try:
    # The same CRC-32, by instructions that most builds of zlib do without: about ten times as fast.
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

from ..errors import StoreError

if TYPE_CHECKING:
    from .store import Store

__all__ = ["CheckedStore", "Checksum", "crc32"]


@final
class Checksum(NamedTuple):
    """How many bytes were put, and their CRC-32: kept in memory, and not where the bytes are."""

    size: int
    crc: int

    @staticmethod
    def of(data: memoryview) -> Checksum:
        """Return that of bytes which are to be put."""
        return Checksum(len(data), crc32(data))

    def check_size(self, size: int, where: str) -> None:
        """Raise if another number of bytes came back; the message ends with `where` they were.

        Raises:
            StoreError: it is another number.
        """
        if size != self.size:
            raise StoreError(f"{size} bytes came back, and {self.size} were put {where}")

    def check(self, data: memoryview, what: str) -> None:
        """Raise if these are other bytes; `what` is the message.

        Raises:
            StoreError: they are.
        """
        if crc32(data) != self.crc:
            raise StoreError(what)


@final
class CheckedStore:
    """A store of a user's, of which each array comes back as it was put, or not at all.

    Args:
        store: where the bytes are; it need not look at them.
    """

    __slots__ = ("_checksums", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checksums: dict[str, Checksum] = {}

    def __repr__(self) -> str:
        return repr(self._store)

    async def put(self, key: str, data: memoryview) -> None:
        """Have the store keep a copy, and note its checksum."""
        self._checksums[key] = Checksum.of(data)
        try:
            await self._store.put(key, data)
        except BaseException:
            # It stays in memory, and is never deleted from the store.
            del self._checksums[key]
            raise

    async def get(self, key: str) -> memoryview:
        """Return the bytes that were put.

        Raises:
            StoreError: others came back.
        """
        data = memoryview(await self._store.get(key)).cast("B")
        checksum = self._checksums[key]
        checksum.check_size(len(data), f"under the key {key!r}")
        checksum.check(data, f"other bytes came back than were put under the key {key!r}: the store has changed them")
        return data

    async def delete(self, key: str) -> None:
        """Have the store forget what is under the key."""
        self._checksums.pop(key, None)
        await self._store.delete(key)
