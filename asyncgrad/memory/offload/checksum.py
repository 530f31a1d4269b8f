"""Checksums: a store returns the bytes that were put there, or an error is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

try:
    # The same CRC-32 by processor instructions that most builds of zlib do not use: about ten times as fast.
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

from ...errors import StoreError

if TYPE_CHECKING:
    from .store import Store

__all__ = ["CheckedStore", "Checksum", "crc32"]


@final
class Checksum(NamedTuple):
    """The number of bytes that were put, and their CRC-32. It stays in memory, apart from the bytes."""

    size: int
    crc: int

    @staticmethod
    def of(data: memoryview) -> Checksum:
        """Return the checksum of bytes."""
        return Checksum(len(data), crc32(data))

    def check_size(self, size: int, where: str) -> None:
        """Raise if another number of bytes came back; `where` ends the message.

        Raises:
            StoreError: the numbers differ.
        """
        if size != self.size:
            raise StoreError(f"{size} bytes came back, but {self.size} were put {where}")

    def check(self, data: memoryview, what: str) -> None:
        """Raise if other bytes came back; `what` is the message.

        Raises:
            StoreError: the checksums differ.
        """
        if crc32(data) != self.crc:
            raise StoreError(what)


@final
class CheckedStore:
    """A wrapper of a user's store that raises if the store returns other bytes than were put.

    Args:
        store: holds the bytes; it need not check them.
    """

    __slots__ = ("_checksums", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checksums: dict[str, Checksum] = {}

    def __repr__(self) -> str:
        return repr(self._store)

    async def put(self, key: str, data: memoryview) -> None:
        """Put a copy into the store, and remember its checksum."""
        self._checksums[key] = Checksum.of(data)
        try:
            await self._store.put(key, data)
        except BaseException:
            # The array stays in memory then, and `delete` is never called for it.
            del self._checksums[key]
            raise

    async def get(self, key: str) -> memoryview:
        """Return the bytes that were put.

        Raises:
            StoreError: other bytes came back.
        """
        data = memoryview(await self._store.get(key)).cast("B")
        checksum = self._checksums[key]
        checksum.check_size(len(data), f"under the key {key!r}")
        checksum.check(data, f"other bytes came back than were put under the key {key!r}: the store changed them")
        return data

    async def delete(self, key: str) -> None:
        """Delete the bytes under the key from the store."""
        self._checksums.pop(key, None)
        await self._store.delete(key)
