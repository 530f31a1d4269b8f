"""Reports what suspended tasks wait for, one line per task."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from typing import Any

from ..core.engine.await_stack import is_asyncio, suspended_frames, tasks_behind

__all__ = ["describe_waiting"]


def describe_waiting(tasks: Iterable[Any], label: Callable[[Any], str]) -> str:
    """Return a line for each task: its name, the line of code in which it waits, and for what.

    Args:
        tasks: suspended tasks of asyncio, or objects with the same protocol.
        label: returns the name of a task.
    """
    return "".join(f"\n  {_describe(task, label)}" for task in tasks)


def _describe(task: Any, label: Callable[[Any], str]) -> str:
    name = task.get_name()
    parts = [label(task) if name.startswith("Task-") else f"{label(task)} ({name})"]
    frames = list(suspended_frames(task.get_coro()))
    own = next((frame for frame in reversed(frames) if not is_asyncio(frame)), None)
    if own is not None:
        line = linecache.getline(own.f_code.co_filename, own.f_lineno).strip()
        parts.append(f"at {own.f_code.co_filename}:{own.f_lineno}" + (f", `{line}`" if line else ""))
    if frames and is_asyncio(frames[-1]):
        parts.append(f"in asyncio's {frames[-1].f_code.co_qualname}")
    waiter = getattr(task, "_fut_waiter", None)
    if others := [label(other) for other in tasks_behind(waiter)]:
        parts.append("for " + ", ".join(others))
    elif waiter is not None and not (frames and is_asyncio(frames[-1])):
        parts.append(f"for a {type(waiter).__name__.removeprefix('_')}")
    if task.cancelling():
        parts.append("cancelled, and has not ended")
    return ", ".join(parts)
