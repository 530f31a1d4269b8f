"""How work on an event loop lets the loop breathe."""

from __future__ import annotations

import asyncio

__all__ = ["breathe"]


async def breathe() -> None:
    """Let the loop run everything else that is ready.

    Three turns, since a timer takes one to fire, one to set its future and one to wake its task
    (measured: with one turn the median lateness of a 1 ms ticker is five times as high).
    """
    for _ in range(3):
        await asyncio.sleep(0)
