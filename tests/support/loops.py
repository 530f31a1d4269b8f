"""The event loops that tests run on, each of which tells what a test leaves behind.

A test that is an `async def` runs on each kind of `LOOP_KINDS`, by the hooks in `tests/conftest.py`; one with the mark
`one_loop` runs on the kind that `ag.run` uses alone. A test that begins and ends loops itself has the mark
`on_each_loop`, which gives it `run`.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, final

import pytest

__all__ = [
    "LOOP_FACTORIES",
    "LOOP_KINDS",
    "NEW_LOOPS",
    "NewLoops",
    "loop_factory",
    "on_each_loop",
    "one_loop",
    "run_on",
]

T = TypeVar("T")
Factory = Callable[[], asyncio.AbstractEventLoop]


def _eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  # mypy looks from Python 3.11 too
    return loop


def _uvloop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


def _factories() -> dict[str, Factory]:
    """What makes a loop of each kind that is here.

    Eager is asyncio's with tasks that run their first step at once, which it has from Python 3.12 on.
    """
    found: dict[str, Factory] = {"asyncio": asyncio.new_event_loop}
    if importlib.util.find_spec("uvloop") is not None:
        found["uvloop"] = _uvloop
    if sys.version_info >= (3, 12):
        found["eager"] = _eager_loop
    return found


_FACTORIES = _factories()
#: The kinds of event loops that are here.
LOOP_KINDS = tuple(_FACTORIES)


def loop_factory(kind: str) -> Factory:
    """Return what makes a loop of that kind, of which nobody looks at what is left behind."""
    return _FACTORIES[kind]


@final
class NewLoops:
    """The loops that a test has been given, and what their exception handlers have been told."""

    def __init__(self) -> None:
        self._loops: list[asyncio.AbstractEventLoop] = []
        self._problems: list[dict[str, Any]] = []

    def make(self, kind: str) -> asyncio.AbstractEventLoop:
        """Return a new loop of a kind."""
        loop = _FACTORIES[kind]()
        loop.set_exception_handler(self._note)
        self._loops.append(loop)
        return loop

    def _note(self, loop: asyncio.AbstractEventLoop, problem: dict[str, Any]) -> None:
        """Keep what an exception handler is told; where the test has taken too long, end its loop.

        A signal says so, whose handler raises. uvloop waits on, as asyncio does where a callback is interrupted: they
        tell their exception handler.
        """
        self._problems.append(problem)
        if isinstance(problem.get("exception"), pytest.fail.Exception):
            loop.stop()

    def begin(self) -> None:
        """Put asyncio's own loops into debug mode, which the plugin that runs a test has switched off."""
        for loop in self._loops:
            if type(loop).__module__.startswith("asyncio.") and loop.get_task_factory() is None:
                loop.set_debug(True)

    def settle(self, turns: int = 100) -> None:
        """Let the loops turn, so often at most, until no task is left."""
        for loop in self._loops:
            for _ in range(turns):
                if loop.is_closed() or not asyncio.all_tasks(loop):
                    break
                loop.run_until_complete(asyncio.sleep(0))

    def check_tasks(self) -> None:
        """Raise if tasks have been left behind: what closes a loop would cancel them in silence."""
        left = [task for loop in self._loops if not loop.is_closed() for task in asyncio.all_tasks(loop)]
        assert not left, f"tasks left behind: {left}"

    def check_problems(self) -> None:
        """Raise if a loop has been told of what nobody handled, such as an error that was not fetched."""
        problems = list(self._problems)
        self._problems.clear()
        assert not problems, problems

    def forget(self) -> None:
        """Begin anew, for the next test."""
        self._loops.clear()


NEW_LOOPS = NewLoops()
#: By kind, what makes a loop for a test.
LOOP_FACTORIES: dict[str, Factory] = {kind: functools.partial(NEW_LOOPS.make, kind) for kind in LOOP_KINDS}

#: For a law in which the kind of the loop plays no part, or whose test takes long.
one_loop = pytest.mark.asyncio(loop_factories=["uvloop" if "uvloop" in LOOP_KINDS else "asyncio"])


def run_on(kind: str, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new loop of that kind, asyncio's in debug mode; no task is left behind, no error lost."""
    loops = NewLoops()

    async def checked() -> T:
        try:
            return await main
        finally:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks left behind: {left}"

    with asyncio.Runner(debug=kind == "asyncio", loop_factory=lambda: loops.make(kind)) as runner:
        result = runner.run(checked())
    loops.check_problems()
    return result


#: For tests that begin and end loops themselves, in threads or in the midst of plain code: `run(coroutine)` does so.
on_each_loop = pytest.mark.parametrize("run", [functools.partial(run_on, kind) for kind in LOOP_KINDS], ids=LOOP_KINDS)
