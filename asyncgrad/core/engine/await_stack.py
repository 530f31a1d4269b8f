"""What a suspended coroutine waits for: its frames, and the tasks behind the future that it awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

__all__ = ["NAMED_WAITS", "STEPPED", "is_asyncio", "local_of", "named_wait", "suspended_frames", "tasks_behind"]

#: By the code of a function that waits, the local variable whose str says for what. Modules above add theirs.
NAMED_WAITS: dict[CodeType, str] = {}
#: By the code of a generator that steps a coroutine by itself, the local variable that has the coroutine.
STEPPED: dict[CodeType, str] = {}

_ASYNCIO = asyncio.__file__.removesuffix("__init__.py")


def suspended_frames(awaited: Any) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine and of what it awaits, outermost first."""
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(awaited, f"{kind}_frame", None)
            if frame is not None:
                yield frame
                if frame.f_code in STEPPED:
                    awaited = local_of(frame, STEPPED[frame.f_code])
                else:
                    awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await", None)
                break
        else:
            return


def named_wait(frame: FrameType) -> str | None:
    """Return what a suspended frame waits for, if its function is one of NAMED_WAITS."""
    variable = NAMED_WAITS.get(frame.f_code)
    return None if variable is None else str(local_of(frame, variable))


def local_of(frame: FrameType, name: str) -> Any:
    """Return a local variable of a frame, and leave no second reference to the others."""
    variables = frame.f_locals
    found = variables.get(name)
    if type(variables) is dict:
        # Before Python 3.13 the frame keeps this copy, which would hold gradients for as long as the frame lives.
        variables.clear()
    return found


def is_asyncio(frame: Any) -> bool:
    """Tell whether a frame, or the summary of one, is of asyncio's own code."""
    name = frame.filename if hasattr(frame, "filename") else frame.f_code.co_filename
    return bool(name.startswith(_ASYNCIO))


def tasks_behind(waiter: Any) -> list[Any]:
    """Return the pending tasks that a future stands for: itself, or the children of a `gather`."""
    candidates = [waiter, *getattr(waiter, "_children", ())]
    return [each for each in candidates if hasattr(each, "get_coro") and not each.done()]
