"""What a suspended coroutine waits for: its frames, and the tasks behind the future that it awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = ["is_asyncio", "suspended_frames", "tasks_behind"]

_ASYNCIO = asyncio.__file__.removesuffix("__init__.py")


def suspended_frames(awaited: Any) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine and of what it awaits, outermost first."""
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(awaited, f"{kind}_frame", None)
            if frame is not None:
                yield frame
                awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await", None)
                break
        else:
            return


def is_asyncio(frame: Any) -> bool:
    """Tell whether a frame, or the summary of one, is of asyncio's own code."""
    name = frame.filename if hasattr(frame, "filename") else frame.f_code.co_filename
    return bool(name.startswith(_ASYNCIO))


def tasks_behind(waiter: Any) -> list[Any]:
    """Return the pending tasks that a future stands for: itself, or the children of a `gather`."""
    candidates = [waiter, *getattr(waiter, "_children", ())]
    return [each for each in candidates if hasattr(each, "get_coro") and not each.done()]
