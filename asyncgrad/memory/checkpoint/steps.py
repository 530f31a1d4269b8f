"""One source for plain and async functions: a generator that yields what may be awaitable, and what runs it.

A yielded awaitable is awaited and its result sent back; any other value is sent back as it is. So a computation that
awaits nothing is a plain call, and one that awaits something is a coroutine.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, final

from ...core.settings.awaiting import finish
from ...core.settings.without_suspending import run_without_suspending
from ...errors import BlockingError

__all__ = ["ContextAwaitable", "Steps", "run_nested", "run_steps", "run_steps_async"]

#: A generator that `run_steps` or `run_steps_async` runs.
Steps = Generator[Any, Any, Any]


def run_steps(steps: Steps) -> Any:
    """Run a generator and return its result, or, from the first awaitable it yields on, a coroutine of the result."""
    try:
        step = next(steps)
        while not inspect.isawaitable(step):
            step = steps.send(step)
    except StopIteration as end:
        return end.value
    return _run_from(steps, step)


async def run_steps_async(steps: Steps) -> Any:
    """Run a generator and return its result; nothing runs before this coroutine is awaited."""
    return await finish(run_steps(steps))


async def _run_from(steps: Steps, step: Any) -> Any:
    try:
        while True:
            if inspect.isawaitable(step):
                try:
                    step = await step
                except BaseException as error:
                    step = steps.throw(error)
                    continue
            step = steps.send(step)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


def run_nested(coroutine: Coroutine[object, None, Any]) -> Any:
    """Run a backward inside a blocking one, which cannot wait for it, and return its result.

    Raises:
        BlockingError: it suspended.
    """
    return run_without_suspending(coroutine, _suspension_error)


def _suspension_error() -> BlockingError:
    return BlockingError(
        "a nested backward suspended inside a blocking one: write await ag.backward(...) instead of asyncgrad.sync"
    )


@final
class ContextAwaitable:
    """Wraps an awaitable so that each of its steps runs in `context` and inside `around`.

    asyncio runs every step of a task in the task's own context. A recomputation is awaited by the task of the backward
    and has to see the context variables of its forward instead.

    Args:
        awaitable: what is awaited.
        context: what its steps run in.
        around: called with a function and its arguments; calls the function.
    """

    __slots__ = ("_around", "_awaitable", "_context")

    def __init__(self, awaitable: Awaitable[Any], context: Context, around: Callable[..., Any]) -> None:
        self._awaitable = awaitable
        self._context = context
        self._around = around

    def __await__(self) -> Generator[Any, Any, Any]:
        run, around = self._context.run, self._around
        inner = run(self._awaitable.__await__)
        step: Any = inner.__next__
        arguments: tuple[Any, ...] = ()
        while True:
            try:
                awaited = run(around, step, *arguments)
            except StopIteration as end:
                return end.value
            try:
                sent = yield awaited
                step, arguments = getattr(inner, "send", _send_by_next(inner)), (sent,)
            except GeneratorExit:
                run(around, _close, inner)
                raise
            except BaseException as error:
                step, arguments = getattr(inner, "throw", _raise), (error,)


# `__await__` may return any iterator; only a generator has `send`, `throw` and `close`.


def _send_by_next(inner: Any) -> Callable[[Any], Any]:
    return lambda sent: next(inner)


def _raise(error: BaseException) -> Any:
    raise error


def _close(inner: Any) -> None:
    close = getattr(inner, "close", None)
    if close is not None:
        close()
