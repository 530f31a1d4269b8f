"""Calls that wait at the same time, and end together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results of calls that wait at the same time; if one fails, the others are cancelled and have ended."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
