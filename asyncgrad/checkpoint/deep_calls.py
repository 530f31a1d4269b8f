"""Calls of checkpointed functions inside one another, to a depth that is bounded by memory alone."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from ..engine.loops import NESTED_ON_ONE_STACK, on_a_new_stack
from ..graph.background import background

__all__ = ["NESTED", "called"]

#: How many checkpointed functions are being called, each inside of the one before.
NESTED: ContextVar[int] = ContextVar("asyncgrad_nested_checkpoints", default=0)


def called(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return what `fn(*args, **kwargs)` does; deep inside of others it begins a new stack."""
    depth = NESTED.get() + 1
    NESTED.set(depth)
    try:
        if depth % NESTED_ON_ONE_STACK:
            result = fn(*args, **kwargs)
        else:
            result = on_a_new_stack(functools.partial(fn, *args, **kwargs))
    finally:
        NESTED.set(depth - 1)
    return _awaited(result, depth) if inspect.isawaitable(result) else result


async def _awaited(result: Awaitable[Any], depth: int) -> Any:
    before = NESTED.get()
    NESTED.set(depth)
    try:
        if depth % NESTED_ON_ONE_STACK:
            return await result
        work = background().start(
            _in_the_next_turn(result), contextvars.copy_context(), "a checkpointed function", _ignore
        )
        try:
            await work.wait()
        except BaseException as error:
            await background().end_all([work], error)
            raise
        return work.take()
    finally:
        NESTED.set(before)


async def _in_the_next_turn(result: Awaitable[Any]) -> Any:
    # Which the loop begins on a stack of its own.
    await asyncio.sleep(0)
    return await result


def _ignore(work: Any) -> None:
    """Nobody is to be told: the caller waits."""
