"""`run_with_seed` and `explore`: a coroutine function run on one schedule, or on many.

See `schedule_loop` for what differs between schedules, and for what they can find.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar, final

from ..arguments import truth, whole_number
from ..errors import ArgumentError, AsyncgradError, BlockingError
from ..scheduling import LOOP_BUDGET
from .numbered_task import qualified_name
from .schedule_loop import Order, ScheduleLoop

__all__ = ["Exploration", "Schedule", "explore", "run_with_seed"]

T = TypeVar("T")

#: So many steps before a failure are shown with it.
_STEPS_SHOWN = 12


@final
@dataclass(frozen=True, slots=True)
class Schedule(Generic[T]):
    """One run of a coroutine function: what decided it, what it returned, and what ran.

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

    #: What decides the schedule, together with `order`.
    seed: int
    order: Order
    #: What the coroutine returned.
    result: T
    #: Each step until it returned: `ask#3` is one of the third task, whose coroutine is `ask`.
    trace: tuple[str, ...]
    #: Virtual seconds.
    elapsed: float


@final
@dataclass(frozen=True, slots=True)
class Exploration:
    """What an exploration saw.

    Example:
        >>> from asyncgrad.testing import explore
        >>> async def main():
        ...     return 42
        >>> explore(main, seeds=10)
        Exploration(schedules=10, distinct=1)
    """

    #: How many schedules were run.
    schedules: int
    #: How many of them differed, in the steps they took or their order.
    distinct: int


@dataclass(slots=True)
@final
class _Problem:
    """What a loop's exception handler was told, perhaps after its schedule had ended."""

    seed: int
    message: str
    error: BaseException | None


def run_with_seed(
    main: Callable[[], Coroutine[Any, Any, T]], seed: int, *, order: Order = "fifo", debug: bool = False
) -> Schedule[T]:
    """Run a coroutine function on the schedule that a seed decides: the same one each time.

    As with `asyncio.run`, tasks that are left at the end are cancelled and async generators closed. An error
    that nobody awaited, which asyncio only logs, is raised. A backward breathes either after each of its nodes
    (odd seeds) or never (even seeds), unless `main` sets a loop budget, since real time would decide otherwise.

    Args:
        main: called without arguments; what it does may depend on nothing but the schedule, and on its seed, which
            is `asyncio.get_running_loop().seed`.
        seed: decides the schedule; not negative.
        order: "fifo" keeps what asyncio promises; "shuffled" keeps no order, and may find what no real loop does.
        debug: asyncio's debug mode, which is slower and tells where things were made.

    Returns:
        What `main` returned, the steps that ran, and how long that took in virtual time.

    Raises:
        BlockingError: an event loop is running in this thread.
        DeadlockError: tasks wait, and nothing is left that could wake them.
        Exception: whatever `main` raises, with a note that says how to run this schedule again.

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
    main: Callable[[], Coroutine[Any, Any, Any]],
    *,
    seeds: int = 1000,
    first_seed: int = 0,
    order: Order = "fifo",
    debug: bool = False,
) -> Exploration:
    """Run a coroutine function on as many schedules as asked for, and raise what the first bad one raises.

    Args:
        main: as for `run_with_seed`; called anew for each schedule.
        seeds: how many schedules.
        first_seed: the first seed; the others follow it.
        order: as for `run_with_seed`.
        debug: as for `run_with_seed`.

    Raises:
        ArgumentError: no schedule would run.
        BlockingError: an event loop is running in this thread.
        DeadlockError: tasks wait, and nothing is left that could wake them.
        Exception: whatever `main` raises, with a note that says how to run that schedule alone.

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
        raise TypeError(f"{name} takes a coroutine function, since it calls it itself, and this is {main!r}")
    if asyncio._get_running_loop() is not None:
        raise BlockingError(
            f"{name}({qualified_name(main)}, ...) makes an event loop of its own, and one is running in this thread "
            "already. Call it from a plain function"
        )


def _run(
    main: Callable[[], Coroutine[Any, Any, T]], seed: int, order: Order, debug: bool, problems: list[_Problem]
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
                raise TypeError(f"{qualified_name(main)}() is {coroutine!r}, not a coroutine: make it an async def")
            try:
                result = runner.run(coroutine, context=context)
            finally:
                trace, elapsed = loop.trace, loop.time()
        # An error that nobody awaited is reported when its task is collected; that is to be soon.
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
