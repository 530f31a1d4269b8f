"""Calls of a model or a loss: here while they are short, on a worker once they are known to take long."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from time import perf_counter
from typing import Any, final

from ..settings.awaiting import call
from ..settings.scheduling import LOOP_BUDGET
from .offloading import compute_on_worker

__all__ = ["ALWAYS_ON_WORKER", "MeasuredCalls"]

#: Whether a worker makes each call, also where those before were short: where somebody is told by the loop's turns
#: whether this process is alive, one long call is too many.
ALWAYS_ON_WORKER: ContextVar[bool] = ContextVar("asyncgrad_always_on_worker", default=False)


@final
class MeasuredCalls:
    """Calls functions of one kind. If those before took longer than `ag.loop_budget` in the mean, a worker makes them.

    So a small model is not slowed down by the way to a worker and back, and a large one does not keep the event loop.
    What an async function awaits is awaited on the loop.
    """

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        # Nothing is known of the first call.
        self._seconds = float("inf")

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return `function(*args)`."""
        timed = functools.partial(self._timed, function)
        if self._seconds > LOOP_BUDGET.get() or ALWAYS_ON_WORKER.get():
            return await compute_on_worker(timed, *args)
        return await call(timed, *args)

    def _timed(self, function: Callable[..., Any], *args: Any) -> Any:
        began = perf_counter()
        try:
            return function(*args)
        finally:
            seconds = perf_counter() - began
            known = self._seconds if self._seconds < float("inf") else seconds
            self._seconds = (known + seconds) / 2
