"""Functions of the user may be plain or async: calls that await the result where it is an awaitable.

What counts as one is what `inspect.isawaitable` says, everywhere. No tensor is one. `finish` and `call` are for those
who are async themselves. `pass_through` and `run_steps` are for a call that is async only if one of the functions in it
is: they return an awaitable then, and the result itself otherwise.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterable
from typing import Any

from .loop_turn import keep_pace

__all__ = ["NEVER_AWAITED", "call", "finish", "is_cancelled", "pass_through", "run_steps", "wake"]

#: Types of which no object is an awaitable, for speed: to ask takes ten times as long. Tensor is added.
NEVER_AWAITED: set[type] = {type(None), tuple}


async def finish(result: Any) -> Any:
    """Return what a function has returned, awaited if it is an awaitable."""
    return await result if inspect.isawaitable(result) else result


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return the result of a call, awaited if it is an awaitable."""
    return await finish(function(*args, **kwargs))


def wake(waiter: asyncio.Future[None]) -> None:
    """Resolve a future, unless it was cancelled."""
    if not waiter.done():
        waiter.set_result(None)


def is_cancelled(error: BaseException) -> bool:
    """Tell whether an error is a cancellation of this task, and was not raised by what it awaits by itself."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


def pass_through(functions: Iterable[Callable[[Any], Any]], value: Any) -> Any:
    """Return what becomes of a value in one function after the other; an awaitable if one of them returns one.

    Example:
        >>> from asyncgrad.core.settings.awaiting import pass_through
        >>> pass_through([abs, str], -2)
        '2'
    """
    rest = iter(functions)
    for function in rest:
        value = function(value)
        if type(value) not in NEVER_AWAITED and inspect.isawaitable(value):
            steps = _steps_through(value, rest)
            return _await_rest(steps, next(steps))
    return value


def _steps_through(value: Any, functions: Iterable[Callable[[Any], Any]]) -> Generator[Any, Any, Any]:
    value = yield value
    for function in functions:
        value = yield function(value)
    return value


def run_steps(steps: Generator[Any, Any, Any]) -> Any:
    """Return what a generator returns, which gets back each value that it yields, awaited if it is an awaitable.

    The generator runs up to the first awaitable at once; if it yields one, the result is an awaitable itself. What one
    raises is raised where it was yielded.

    Example:
        >>> from asyncgrad.core.settings.awaiting import run_steps
        >>> def steps():
        ...     return (yield 1) + (yield 2)
        >>> run_steps(steps())
        3
    """
    try:
        result = next(steps)
        while type(result) in NEVER_AWAITED or not inspect.isawaitable(result):
            result = steps.send(result)
    except StopIteration as end:
        return end.value
    return _await_rest(steps, result)


async def _await_rest(steps: Generator[Any, Any, Any], result: Any) -> Any:
    """Go on with a generator from the first awaitable that it has yielded."""
    try:
        while True:
            if type(result) not in NEVER_AWAITED and inspect.isawaitable(result):
                try:
                    result = await result
                    # Not before: a coroutine that is cancelled there would never have been awaited.
                    await keep_pace()
                except BaseException as error:
                    result = steps.throw(error)
                    continue
            result = steps.send(result)
    except StopIteration as end:
        return end.value
