"""HostMemory: a store of what devices have copied into the host's memory."""

from __future__ import annotations

from typing import final

__all__ = ["HostMemory"]


@final
class HostMemory:
    """A store that keeps the memory that it is given: that of copies which nobody else writes into."""

    __slots__ = ("__weakref__", "_data")

    def __init__(self) -> None:
        self._data: dict[str, memoryview] = {}

    def __repr__(self) -> str:
        return "the host's memory"

    async def put(self, key: str, data: memoryview) -> None:
        """Keep the data."""
        self._data[key] = data

    async def get(self, key: str) -> memoryview:
        """Return the data."""
        return self._data[key]

    async def delete(self, key: str) -> None:
        """Let go of the data."""
        self.release(key)

    def release(self, key: str) -> bool:
        """Let go of the data; return True, since nothing is left to wait for."""
        self._data.pop(key, None)
        return True
