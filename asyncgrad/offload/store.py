"""Store: where saved tensors can go while nobody needs them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["Store"]


@runtime_checkable
class Store(Protocol):
    """Keeps bytes under a key: a disk, an object store, another host. `ag.graph.save_to_store` saves tensors in one.

    The methods run on an event loop in a thread of its own, since the forward, which is no coroutine, waits for them
    where too much is on its way. Several calls overlap, of one key only `get` and `get`. A session or a connection is
    best opened in the first call. They may raise anything: what could not be put stays in memory, and what could not
    be got fails the backward.

    `asyncgrad.testing.check_store` tells whether a store keeps to this.

    Example:
        >>> import asyncgrad as ag
        >>> class Shelf:
        ...     def __init__(self):
        ...         self.books = {}
        ...     async def put(self, key, data):
        ...         self.books[key] = bytes(data)
        ...     async def get(self, key):
        ...         return self.books[key]
        ...     async def delete(self, key):
        ...         self.books.pop(key, None)
        >>> isinstance(Shelf(), ag.graph.Store)
        True
        >>> ag.run(ag.testing.check_store(Shelf))
    """

    async def put(self, key: str, data: memoryview) -> None:
        """Keep a copy of `data`, one-dimensional and of bytes, which is not kept beyond the end of the call.

        Args:
            key: letters, digits and hyphens; each is used once.
            data: of any length, none included.
        """

    async def get(self, key: str) -> bytes | bytearray | memoryview:
        """Return the bytes that were put; the caller owns them, and does without a copy if they can be written into.

        Raises:
            LookupError: or an OSError, where there is nothing under that key.
        """

    async def delete(self, key: str) -> None:
        """Forget what is under the key, if there is anything."""
