"""Waiting for turns of the event loop, and bodies that wait until a test lets them go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

__all__ = ["Held", "at_once", "one_turn", "settle", "turns", "turns_given"]


async def at_once(*arguments: Any) -> None:
    """An async body, or hook, that never suspends."""


async def one_turn(*arguments: Any) -> None:
    """An async body, hook or callback that waits for one turn of the loop."""
    await asyncio.sleep(0)


async def turns(count: int = 10) -> None:
    """Wait for so many turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def settle() -> None:
    """Let everything that is ready run, until nothing changes without an event."""
    await turns(60)


async def turns_given(work: Awaitable[Any]) -> int:
    """Await `work`; return how many turns of the loop others got meanwhile."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticker = asyncio.ensure_future(tick())
    await asyncio.sleep(0)
    before = ticks
    await work
    given = ticks - before
    ticker.cancel()
    await asyncio.wait([ticker])
    return given


class Held:
    """A body that says when it has begun, and waits to be let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()
        self.ended = False
        self.cancelled = False

    async def __call__(self, grad: Any) -> None:
        self.begun.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        self.ended = True
