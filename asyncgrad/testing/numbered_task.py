"""NumberedTask, and the names of what a schedule runs, which are the same in every run of a seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from itertools import count
from typing import Any, final
from weakref import WeakKeyDictionary

__all__ = ["Labels", "NumberedTask", "qualified_name"]


@final
class NumberedTask(asyncio.Task[Any]):
    """A task that is hashed by its number, so that sets of tasks have the same order in each run of a schedule.

    asyncio keeps tasks in sets: a TaskGroup cancels its children in the order of one. Tasks are hashed by address by
    default, and so would be cancelled in an order that depends on the layout of memory.

    Args:
        coro: the coroutine.
        number: its number among the tasks of its loop; it must not change while the task lives.
        pace: how long its waits may last, as drawn by `Outside.draw_pace`.
        kwargs: as for `asyncio.Task`.
    """

    def __init__(self, coro: Any, *, number: int, pace: int, **kwargs: Any) -> None:
        # Set before super().__init__, in which an eager task already runs.
        self.number = number
        self.pace = pace
        self.label: str = f"{qualified_name(coro)}#{number}"
        super().__init__(coro, **kwargs)

    def __hash__(self) -> int:
        return self.number

    # Equality stays identity; only __hash__ differs.
    def __eq__(self, other: object) -> bool:
        return self is other


@final
class Labels:
    """The names of what a loop runs: `ask#3` for a step of its third task, `tick` for a callback of that name.

    Tasks are numbered per loop, so that the names are the same in each run of a schedule.
    """

    __slots__ = ("_counter", "_of_others")

    def __init__(self) -> None:
        self._counter = count(1)
        #: The names of tasks that the loop did not create: those of asyncgrad, and those of a task factory.
        self._of_others: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def next_number(self) -> int:
        """Return the number for a new task."""
        return next(self._counter)

    def of_task(self, task: Any) -> str:
        """Return the name of a task; number it if it has no number yet."""
        if type(task) is NumberedTask:
            return task.label
        label = self._of_others.get(task)
        if label is None:
            label = self._of_others[task] = f"{qualified_name(task.get_coro())}#{self.next_number()}"
        return label

    def number_of_task(self, task: Any) -> int:
        """Return the number in a task's name."""
        return int(self.of_task(task).rpartition("#")[2])

    def of_callback(self, callback: Callable[..., Any]) -> str:
        """Return the name of the task that a callback steps, or of the callback if it steps none."""
        owner = getattr(callback, "__self__", None)
        if type(owner) is NumberedTask:
            return owner.label
        if isinstance(owner, asyncio.Future) and hasattr(owner, "get_coro"):
            return self.of_task(owner)
        return qualified_name(callback)


def qualified_name(called: Any) -> str:
    """Return the qualified name of a function or coroutine, without enclosing functions.

    For a partial, it is the name of the function that is called in the end.
    """
    while isinstance(called, partial):
        # asyncio.to_thread passes on a partial of Context.run.
        runs_in_context = called.args and isinstance(getattr(called.func, "__self__", None), Context)
        called = called.args[0] if runs_in_context else called.func
    name = getattr(called, "__qualname__", None)
    return name.rpartition("<locals>.")[2] if isinstance(name, str) else type(called).__qualname__
