"""`ag.limit`: how many requests run at a time, and how many start in a time, for all who share the limit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Never, ParamSpec, Self, TypeVar, final

from ...errors import ArgumentError, ArgumentTypeError
from ..settings.arguments import describe, must_be, number, shorten, whole_number
from ..settings.context import is_kind
from .hedging import Hedged
from .line import Line

__all__ = ["LimitStatistics", "limit", "statistics_of"]

P = ParamSpec("P")
R = TypeVar("R")

#: What to write in place of 0.
_ANY = "leave it out for any number"
#: In how many seconds `rate` requests may start, where nobody says.
_PER = 1.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStatistics:
    """What a limit has let through, and who waits for it now.

    Attributes:
        name: what descriptions call it: its name, or what it allows.
        started: requests that have started so far.
        mean_wait: the seconds that each of these had waited for its place, on average; 0 before the first.
        longest_wait: the most seconds that one had waited.
        running: requests that run now.
        waiting: requests that wait to start.
        oldest: the seconds that the oldest of those has waited; 0 where there is none.

    Example:
        >>> import asyncgrad as ag
        >>> ag.limit(requests=4).statistics().started
        0
    """

    name: str
    started: int
    mean_wait: float
    longest_wait: float
    running: int
    waiting: int
    oldest: float


@final
class limit:
    """At most so many requests at a time, and at most so many starts in a time, for all who share the limit.

    It is an async context manager, and a decorator of async functions, `ag.batched` ones among them. One object is
    shared by all that it is used for, on all event loops and threads, and by the copies of a model that has it. One
    that is pickled allows as much again: each process has its own. A request that fails or is cancelled gives its
    place back, and one that is cancelled while it waits leaves nothing behind. Of those that wait, that of the deepest
    backward starts next, then that of the oldest one; `ag.engine.describe_running()` and profiles say who waits.

    Do not hold it while you await a backward whose rules need it, too: they would wait for you. One that needs a device
    whose places are taken by bodies that wait for you is lent these, if you have begun it while you hold the limit.

    Args:
        requests: how many run at a time; None for any number.
        rate: how many start in any `per` seconds; None for any number.
        per: see `rate`.
        name: what descriptions call it.
        hedge_after: the seconds after which a call that has no answer is made a second time. The first answer counts,
            and the other request is cancelled. Both take places, and both are starts. For decorated functions alone.

    Raises:
        ArgumentError: a number is 0 or negative, all of `requests`, `rate` and `hedge_after` are missing, or there is a
            `per` without a `rate`.
        ArgumentTypeError: an argument is no number, or what is decorated is no async function.

    Example:
        >>> import asyncio, asyncgrad as ag
        >>> solver = ag.limit(requests=2, name="solver")
        >>> running = []
        >>> @solver
        ... async def solve(x):
        ...     running.append(solver.statistics().running)
        ...     await asyncio.sleep(0)
        ...     return 2 * x
        >>> async def main():
        ...     async with solver:
        ...         return await asyncio.gather(*(solve(x) for x in range(4)))
        >>> ag.run(main()), max(running)
        ([0, 2, 4, 6], 2)
    """

    __slots__ = ("_hedge_after", "_line", "_options", "name")

    def __init__(
        self,
        *given: Never,
        requests: int | None = None,
        rate: int | None = None,
        per: float = _PER,
        name: str | None = None,
        hedge_after: float | None = None,
    ) -> None:
        if given:
            raise ArgumentTypeError(
                f"ag.limit takes its numbers by name, and got {', '.join(map(describe, given))}: write "
                "ag.limit(requests=4) for how many run at a time, or ag.limit(rate=10, per=1.0) for how many start"
            )
        requests = None if requests is None else whole_number(requests, "requests", 1, _ANY)
        rate = None if rate is None else whole_number(rate, "rate", 1, _ANY)
        if (per := number(per, "per")) <= 0.0:
            raise ArgumentError(must_be("per", "a number of seconds above 0", per))
        if name is not None and not isinstance(name, str):
            raise ArgumentTypeError(must_be("name", "a str", name))
        self._hedge_after = None if hedge_after is None else number(hedge_after, "hedge_after", 0.0)
        if rate is None and per != _PER:
            raise ArgumentError(
                f"per={per:g} says in how many seconds `rate` requests may start, and there is no rate: write "
                f"ag.limit(rate=10, per={per:g})"
            )
        if requests is rate is hedge_after is None:
            raise ArgumentError("ag.limit() limits nothing: write ag.limit(requests=4), or ag.limit(rate=10, per=1.0)")
        self.name = name
        self._options: dict[str, Any] = {"requests": requests, "rate": rate, "per": per, "name": name}
        self._options["hedge_after"] = hedge_after
        self._line = Line(_title(name, requests, rate, per, hedge_after), requests, rate, per)

    async def __aenter__(self) -> None:
        """Take a place; suspends until it is the caller's turn."""
        if self._hedge_after is not None:
            raise ArgumentError(
                "hedge_after= starts a call a second time, and a block cannot be: decorate a function, as in @limit, "
                "or share a limit without hedge_after="
            )
        await self._line.enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Give the place back."""
        self._line.leave()

    def __call__(self, function: Callable[P, Coroutine[object, None, R]], /) -> Callable[P, Coroutine[object, None, R]]:
        """Return an async function each of whose calls is a request."""
        if not is_kind(inspect.iscoroutinefunction, function):
            hint = "write async def" if callable(function) else "write @limit above an async def"
            if is_kind(inspect.isasyncgenfunction, function):
                hint = "write async with limit: inside of it, around each request"
            if isinstance(function, (classmethod, staticmethod)):
                hint = f"put @{type(function).__name__} above @limit"
            raise ArgumentTypeError(must_be("what ag.limit(...) decorates", "an async function", function, hint))
        line, after = self._line, self._hedge_after
        name = getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]

        @functools.wraps(function)
        async def limited(*args: P.args, **kwargs: P.kwargs) -> R:
            if after is not None:
                result: R = await Hedged(name, line, functools.partial(function, *args, **kwargs), after).result()
                return result
            await line.enter()
            try:
                return await function(*args, **kwargs)
            finally:
                line.leave()

        return limited

    def statistics(self) -> LimitStatistics:
        """Return what has started so far, and what runs and waits now; from any thread.

        Example:
            >>> import asyncgrad as ag
            >>> @(solver := ag.limit(rate=10))
            ... async def solve(x):
            ...     return 2 * x
            >>> ag.run(solve(1)), solver.statistics().started
            (2, 1)
        """
        return statistics_of(self._line)

    def __copy__(self) -> Self:
        """Return this limit: what it protects is not copied with the model that asks."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[[], limit], tuple[()]]:
        # Where it is read nobody has a place, or waits.
        return functools.partial(limit, **self._options), ()

    def __repr__(self) -> str:
        return f"<{self._line.title}: {self._line.in_use} running, {self._line.waiting} waiting>"


def statistics_of(line: Line) -> LimitStatistics:
    """Return the statistics of the limit that a line belongs to; from any thread."""
    waits = line.waits()
    return LimitStatistics(
        name=line.title,
        started=line.started,
        mean_wait=line.waited / line.started if line.started else 0.0,
        longest_wait=line.longest_wait,
        running=line.in_use,
        waiting=line.waiting,
        oldest=max(waits, default=0.0),
    )


def _title(name: str | None, requests: int | None, rate: int | None, per: float, hedge_after: float | None) -> str:
    """Return what descriptions call a limit."""
    if name is not None:
        return f"limit {name!r}"
    facts = [] if requests is None else [f"requests={shorten(requests)}"]
    facts += [] if rate is None else [f"rate={shorten(rate)}", f"per={per:g}"]
    facts += [] if hedge_after is None else [f"hedge_after={hedge_after:g}"]
    return f"limit({', '.join(facts)})"
