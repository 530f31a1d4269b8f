"""What tests of worker threads hold bodies with: each says in any thread that it has begun, and waits to be let go."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import asyncgrad as ag
from asyncgrad.core.settings.context import is_kind
from tests.support.functions import awaiting, calling

__all__ = ["HeldInThread", "HeldOnLoop", "T0", "T1", "leaf_on", "seen_by_all"]

T0, T1 = "thread:0", "thread:1"


class HeldInThread:
    """A plain body or function that blocks its thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.begun = asyncio.Event()
        self.let_go = threading.Event()
        self.ended = False

    def __call__(self, *_: Any) -> None:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.let_go.wait(60)
        self.ended = True


class HeldOnLoop:
    """An async body or function that suspends, on whatever loop runs it."""

    def __init__(self) -> None:
        self._home = asyncio.get_running_loop()
        self.begun = asyncio.Event()
        self.ended = self.cancelled = False

    async def __call__(self, *_: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._go: asyncio.Future[None] = self._loop.create_future()
        self._home.call_soon_threadsafe(self.begun.set)
        try:
            await self._go
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        self.ended = True

    def let_go(self) -> None:
        self._loop.call_soon_threadsafe(self._go.set_result, None)


def leaf_on(device: str, callback: Any, *numbers: float) -> Any:
    """A leaf on a device, and a tensor whose backward calls or awaits `callback` there."""
    x = ag.tensor(list(numbers or (1.0,)), device=device, requires_grad=True)
    return x, (awaiting if is_kind(inspect.iscoroutinefunction, callback) else calling)(x, callback)


async def seen_by_all(*devices: str) -> None:
    """Wait until the workers have begun all that had been sent to them before."""
    for device in devices:
        await ag.device(device).call(int)
