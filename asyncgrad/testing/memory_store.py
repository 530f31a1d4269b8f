"""MemoryStore: a store for tests whose calls can be made to wait or to fail."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from typing import TYPE_CHECKING, final

from ..core.settings.awaiting import wake

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["MemoryStore"]


@final
class MemoryStore:
    """A store in memory for tests of offloading, whose calls can be made to wait or to fail.

    Its calls run in another thread than the test. All methods may be called from any thread and any loop.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> store = ag.testing.MemoryStore()
        >>> store.fail("put", OSError(28, "No space left on device"))
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     async with ag.graph.save_to_store(store, min_bytes=1):
        ...         loss = np.exp(x).sum()
        >>> try:
        ...     ag.run(main())
        ... except ag.errors.StoreError as error:
        ...     print(error.errno)
        28
    """

    def __init__(self) -> None:
        #: The stored bytes, by key, in the order of the puts.
        self.data: dict[str, bytes] = {}
        #: The calls in the order in which they began, such as `("put", key)`.
        self.calls: list[tuple[str, str]] = []
        self._changed = threading.Condition(threading.RLock())
        self._errors: dict[str, BaseException] = {}
        self._held: set[str] = set()
        self._begun: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self.data)}>"

    async def put(self, key: str, data: memoryview) -> None:
        """Store a copy of the data."""
        async with self._call("put", key):
            self.data[key] = bytes(data)

    async def get(self, key: str) -> bytearray:
        """Return a copy of the data; raises KeyError if there is nothing under the key."""
        async with self._call("get", key):
            return bytearray(self.data[key])

    async def delete(self, key: str) -> None:
        """Delete the data under the key, if there is any."""
        async with self._call("delete", key):
            self.data.pop(key, None)

    def hold(self, method: str) -> None:
        """Make calls of a method (`"put"`, `"get"` or `"delete"`) wait until `let_go` is called."""
        with self._changed:
            self._held.add(method)

    def let_go(self, method: str) -> None:
        """Let waiting and later calls of a method go on."""
        with self._changed:
            self._held.discard(method)
            going = [each for each in self._waiting if each[0] == method]
            self._waiting = [each for each in self._waiting if each[0] != method]
        for _, loop, waiter in going:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake, waiter)

    def fail(self, method: str, error: BaseException) -> None:
        """Make calls of a method raise `error` until `mend` is called; waiting calls raise it when they go on."""
        with self._changed:
            self._errors[method] = error

    def mend(self, method: str) -> None:
        """Let calls of a method succeed again."""
        with self._changed:
            self._errors.pop(method, None)

    def wait_for_begun(self, method: str, count: int = 1, timeout: float = 30) -> None:
        """Block until `count` calls of a method have begun; raises TimeoutError after `timeout` seconds."""
        self._wait(self._begun, method, count, timeout)

    def wait_for_ended(self, method: str, count: int = 1, timeout: float = 30) -> None:
        """Block until `count` calls of a method have ended; raises TimeoutError after `timeout` seconds."""
        self._wait(self._ended, method, count, timeout)

    def _wait(self, counter: Counter[str], method: str, count: int, timeout: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: counter[method] >= count, timeout):
                raise TimeoutError(f"waited for {count} calls of {method} and saw {counter[method]}")

    @contextlib.asynccontextmanager
    async def _call(self, method: str, key: str) -> AsyncIterator[None]:
        loop, waiter = asyncio.get_running_loop(), None
        with self._changed:
            self.calls.append((method, key))
            self._begun[method] += 1
            self._changed.notify_all()
            if method in self._held:
                waiter = loop.create_future()
                self._waiting.append((method, loop, waiter))
        try:
            if waiter is not None:
                await waiter
            with self._changed:
                error = self._errors.get(method)
            if error is not None:
                raise error
            yield
        finally:
            with self._changed:
                self._ended[method] += 1
                self._changed.notify_all()
