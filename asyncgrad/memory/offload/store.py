"""Store: the protocol of what can hold saved tensors outside of memory."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["Store"]


@runtime_checkable
class Store(Protocol):
    """Keeps bytes under keys: a disk, an object store, another host. `ag.graph.save_to_store` saves tensors in one.

    The methods run on an event loop in a thread of its own, since the forward, which is not a coroutine, may have to
    wait for them. Several calls may overlap; of two overlapping calls with the same key, both are `get`. Open a session
    or a connection in the first call. The methods may raise any error: if `put` fails, the tensor stays in memory; if
    `get` fails, the backward fails.

    `asyncgrad.testing.check_store` checks that a store follows these rules.

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
        """Store a copy of `data`, a one-dimensional memoryview of bytes that is valid only during the call.

        Args:
            key: letters, digits and hyphens; each key is used once.
            data: of any length, zero included.
        """

    async def get(self, key: str) -> bytes | bytearray | memoryview:
        """Return the bytes that were put. The caller owns them, and makes no copy if they are writeable.

        Raises:
            LookupError: or an OSError, if there is nothing under that key.
        """

    async def delete(self, key: str) -> None:
        """Delete the bytes under the key, if there are any."""
