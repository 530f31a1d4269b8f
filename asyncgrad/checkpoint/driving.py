"""One text for functions of both kinds: a generator that yields what may have to be awaited, and what drives it.

What is yielded is sent back as it is where it is no awaitable, and its result otherwise. So a recomputation that has
nothing to wait for is a call, and one that has is a coroutine.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, final

from ..errors import BlockingError

__all__ = ["Guided", "Steps", "blocked", "driven", "driven_later"]

Steps = Generator[Any, Any, Any]


def driven(steps: Steps) -> Any:
    """Return what the steps return; or a coroutine of that, from the first thing on that has to be awaited."""
    try:
        step = next(steps)
        while not inspect.isawaitable(step):
            step = steps.send(step)
    except StopIteration as end:
        return end.value
    return _driven_from(steps, step)


async def driven_later(steps: Steps) -> Any:
    """Return what the steps return; nothing runs before this is awaited."""
    result = driven(steps)
    return await result if inspect.isawaitable(result) else result


async def _driven_from(steps: Steps, step: Any) -> Any:
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


def blocked(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that does not suspend where the caller blocks."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise BlockingError(
        "a nested backward suspended in a blocking one: await ag.backward(...) in place of asyncgrad.sync"
    )


@final
class Guided:
    """An awaitable of what another one gives, each step of which runs in `context`, and inside of `around`.

    Args:
        awaitable: what is awaited.
        context: what its steps run in.
        around: called with a function and its arguments, which it calls.
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
                step, arguments = getattr(inner, "send", _only_none(inner)), (sent,)
            except GeneratorExit:
                run(around, _close, inner)
                raise
            except BaseException as error:
                step, arguments = getattr(inner, "throw", _raised), (error,)


def _only_none(inner: Any) -> Callable[[Any], Any]:
    return lambda sent: next(inner)


def _raised(error: BaseException) -> Any:
    raise error


def _close(inner: Any) -> None:
    close = getattr(inner, "close", None)
    if close is not None:
        close()
