"""`run_with_seed` and `explore`: run a coroutine function on one schedule, or on many.

See `schedule_loop` for how schedules differ, and for the errors that they can find.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar, final

from ..core.settings.arguments import truth, whole_number
from ..core.settings.scheduling import LOOP_BUDGET
from ..errors import ArgumentError, AsyncgradError, BlockingError
from .numbered_task import qualified_name
from .schedule_loop import Order, ScheduleLoop

__all__ = ["Exploration", "Schedule", "explore", "run_with_seed"]

T = TypeVar("T")

#: How many steps before a failure are shown with it.
_STEPS_SHOWN = 12


@final
@dataclass(frozen=True, slots=True)
class Schedule(Generic[T]):
    """One run of a coroutine function: the seed and the order, the result, and the steps that ran.

    Example:
        >>> import asyncio
        >>> from asyncgrad.testing import run_with_seed
        >>> async def child():
        ...     await asyncio.sleep(0)
        >>> async def main():
        ...     await asyncio.gather(child(), child())
        >>> run_with_seed(main, 0).trace[:3]
        ('main#1', 'child#2', 'child#3')
    """

    #: Decides the schedule, together with `order`.
    seed: int
    order: Order
    #: The value that the coroutine returned.
    result: T
    #: The steps until it returned: `ask#3` is a step of the third task, whose coroutine is `ask`.
    trace: tuple[str, ...]
    #: Virtual seconds.
    elapsed: float


@final
@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of an exploration.

    Example:
        >>> from asyncgrad.testing import explore
        >>> async def main():
        ...     return 42
        >>> explore(main, seeds=10)
        Exploration(schedules=10, distinct=1)
    """

    #: How many schedules were run.
    schedules: int
    #: How many different schedules were among them, by their steps and the order of these.
    distinct: int


@dataclass(slots=True)
@final
class _Problem:
    """A call of a loop's exception handler, perhaps after the schedule had ended."""

    seed: int
    message: str
    error: BaseException | None


def run_with_seed(
    main: Callable[[], Coroutine[object, None, T]], seed: int, *, order: Order = "fifo", debug: bool = False
) -> Schedule[T]:
    """Run a coroutine function on the schedule that a seed decides; the same seed always gives the same schedule.

    As with `asyncio.run`, remaining tasks are cancelled at the end and async generators closed. Errors that were never
    awaited, which asyncio only logs, are raised. A backward yields to the loop either after each of its nodes (odd
    seeds) or never (even seeds), unless `main` sets a loop budget: otherwise real time would decide.

    Args:
        main: called without arguments; it may depend only on the schedule and on its seed, which is
            `asyncio.get_running_loop().seed`.
        seed: decides the schedule; not negative.
        order: "fifo" keeps the order that asyncio promises; "shuffled" keeps none, and so may find failures that no
            real loop has.
        debug: asyncio's debug mode, which is slower and reports where objects were created.

    Returns:
        The result of `main`, the steps that ran, and the virtual time that passed.

    Raises:
        BlockingError: an event loop is running in this thread.
        DeadlockError: tasks are waiting, and nothing can wake them.
        Exception: an exception of `main`, with a note that says how to run this schedule again.

    Example:
        >>> import asyncio
        >>> from asyncgrad.testing import run_with_seed
        >>> async def main():
        ...     await asyncio.sleep(3600)
        ...     return "awake"
        >>> schedule = run_with_seed(main, 17)
        >>> schedule.result, schedule.elapsed
        ('awake', 3600.0)
    """
    _refuse_nesting("run_with_seed", main)
    return _run(main, seed, order, debug, [])


def explore(
    main: Callable[[], Coroutine[object, None, object]],
    *,
    seeds: int = 1000,
    first_seed: int = 0,
    order: Order = "fifo",
    debug: bool = False,
) -> Exploration:
    """Run a coroutine function on many schedules, and raise the first exception.

    Args:
        main: as for `run_with_seed`; called once per schedule.
        seeds: how many schedules.
        first_seed: the first seed; the others follow it.
        order: as for `run_with_seed`.
        debug: as for `run_with_seed`.

    Raises:
        ArgumentError: `seeds` is less than 1.
        BlockingError: an event loop is running in this thread.
        DeadlockError: tasks are waiting, and nothing can wake them.
        Exception: an exception of `main`, with a note that says how to run that schedule alone.

    Example:
        >>> import asyncio
        >>> from asyncgrad.testing import explore
        >>> async def main():
        ...     counter = 0
        ...     async def increment():
        ...         nonlocal counter
        ...         seen = counter
        ...         await asyncio.sleep(0)
        ...         counter = seen + 1
        ...     await asyncio.gather(increment(), increment())
        ...     assert counter == 2, "an update was lost"
        >>> explore(main, seeds=100)
        Traceback (most recent call last):
        AssertionError: an update was lost
        ...
    """
    seeds, first_seed = whole_number(seeds, "seeds"), whole_number(first_seed, "first_seed")
    if seeds < 1:
        raise ArgumentError(f"seeds={seeds} explores nothing: ask for at least 1")
    _refuse_nesting("explore", main)
    traces: set[int] = set()
    problems: list[_Problem] = []
    for seed in range(first_seed, first_seed + seeds):
        traces.add(hash(_run(main, seed, order, debug, problems).trace))
    return Exploration(schedules=seeds, distinct=len(traces))


def _refuse_nesting(name: str, main: object) -> None:
    if not callable(main):
        if isinstance(main, Coroutine):
            main.close()
        raise TypeError(
            f"{name} takes a coroutine function, which it calls itself, not {main!r}: pass main, not main()"
        )
    if asyncio._get_running_loop() is not None:
        raise BlockingError(
            f"{name}({qualified_name(main)}, ...) creates an event loop of its own, but one is running in this thread "
            "already: call it from a plain function"
        )


def _run(
    main: Callable[[], Coroutine[object, None, T]], seed: int, order: Order, debug: bool, problems: list[_Problem]
) -> Schedule[T]:
    debug, seed = truth(debug, "debug"), whole_number(seed, "seed")
    loop = ScheduleLoop(seed, order=order)
    loop.set_exception_handler(lambda loop, context: problems.append(_problem(seed, context)))
    trace: tuple[str, ...] | None = None
    try:
        with asyncio.Runner(debug=debug, loop_factory=lambda: loop) as runner:
            context = contextvars.copy_context()
            context.run(LOOP_BUDGET.set, -inf if seed % 2 else inf)
            coroutine = context.run(main)
            if not isinstance(coroutine, Coroutine):
                raise TypeError(
                    f"{qualified_name(main)}() returned {coroutine!r}, not a coroutine: make it an async def"
                )
            try:
                result = runner.run(coroutine, context=context)
            finally:
                trace, elapsed = loop.trace, loop.time()
        # asyncio reports an error that was never awaited when its task is collected: collect it here.
        gc.collect(1)
    except BaseException as error:
        _add_note(error, main, seed, order, trace)
        for problem in problems:
            error.add_note(
                f"also reported to the loop's exception handler, with seed {problem.seed}: {problem.message}"
            )
        raise
    if problems:
        _raise(problems[0], main, order, trace)
    return Schedule(seed, order, result, trace, elapsed)


def _problem(seed: int, context: dict[str, Any]) -> _Problem:
    return _Problem(seed, context["message"], context.get("exception"))


def _raise(problem: _Problem, main: object, order: Order, trace: tuple[str, ...]) -> None:
    error = problem.error
    if error is None:
        error = AsyncgradError(problem.message)
    else:
        error.add_note(f"reported to the loop's exception handler: {problem.message}")
    _add_note(error, main, problem.seed, order, trace)
    raise error


def _add_note(error: BaseException, main: object, seed: int, order: Order, trace: tuple[str, ...] | None) -> None:
    options = "" if order == "fifo" else f", order={order!r}"
    call = f"asyncgrad.testing.run_with_seed({qualified_name(main)}, {seed}{options})"
    note = f"on the schedule of seed {seed}; replay it with {call}"
    if trace:
        note += "\nits last steps: " + ("... " if len(trace) > _STEPS_SHOWN else "") + ", ".join(trace[-_STEPS_SHOWN:])
    error.add_note(note)
