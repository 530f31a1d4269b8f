"""What every test may ask for: an event loop of each kind, and hypothesis with the same examples in every run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import settings

settings.register_profile("asyncgrad", derandomize=True, deadline=None, database=None, print_blob=False)
settings.load_profile("asyncgrad")

T = TypeVar("T")


def loop_kinds() -> list[str]:
    """The event loops that are installed; `run` runs each test on all of them."""
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return ["asyncio"]
    return ["asyncio", "uvloop"]


def loop_factory(kind: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes a loop of that kind; None makes asyncio's own."""
    if kind == "asyncio":
        return None
    import uvloop

    return uvloop.new_event_loop


def run_on(kind: str, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new loop of that kind, asyncio's in debug mode; no task is left behind, no error lost."""
    problems: list[dict[str, Any]] = []

    async def checked() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda loop, problem: problems.append(problem))
        try:
            return await main
        finally:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks left behind: {left}"

    with asyncio.Runner(debug=kind == "asyncio", loop_factory=loop_factory(kind)) as runner:
        result = runner.run(checked())
    assert not problems, problems
    return result


@pytest.fixture(params=loop_kinds(), scope="session")
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine to its end; a test that asks for this runs on asyncio (debug mode) and on uvloop."""
    kind: str = request.param

    def runner(main: Coroutine[Any, Any, T]) -> T:
        return run_on(kind, main)

    return runner
