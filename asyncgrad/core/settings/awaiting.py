"""Functions of the user may be plain or async: calls that await the result where it is an awaitable.

What counts as one is what `inspect.isawaitable` says, everywhere. No tensor is one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["call", "finish"]


async def finish(result: Any) -> Any:
    """Return what a function has returned, awaited if it is an awaitable."""
    return await result if inspect.isawaitable(result) else result


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return the result of a call, awaited if it is an awaitable."""
    return await finish(function(*args, **kwargs))
