"""The background tasks of a loop: what has to end before a loop that was made for one backward does."""

from __future__ import annotations

import asyncio
import functools
import weakref

__all__ = ["BACKGROUND_TASKS", "finish_background"]

#: The background tasks that have not ended, among others.
BACKGROUND_TASKS: weakref.WeakSet[asyncio.Future[object]] = weakref.WeakSet()


async def finish_background() -> None:
    """Wait until nothing runs in the background of this loop any more; whether it fails is asked elsewhere."""
    loop = asyncio.get_running_loop()
    for task in asyncio.all_tasks():
        if task in BACKGROUND_TASKS and not task.done():
            ended: asyncio.Future[None] = loop.create_future()
            task.add_done_callback(functools.partial(_note, ended))
            await ended


def _note(ended: asyncio.Future[None], task: asyncio.Future[object]) -> None:
    if not ended.done():
        ended.set_result(None)
