"""ag.run starts an event loop, uvloop's where it is installed, and none inside of another."""

from __future__ import annotations

import asyncio

import pytest

import asyncgrad as ag
from asyncgrad.errors import BlockingError


def test_run_returns_the_result_and_raises_what_the_coroutine_raises():
    async def returns():
        return 42

    async def raises():
        raise KeyError("this one")

    assert ag.run(returns()) == 42
    with pytest.raises(KeyError, match="this one"):
        ag.run(raises())


def test_run_uses_uvloop_where_it_is_installed():
    uvloop = pytest.importorskip("uvloop")

    async def main():
        return asyncio.get_running_loop()

    assert isinstance(ag.run(main()), uvloop.Loop)


def test_run_uses_asyncio_where_uvloop_is_not_installed(monkeypatch):
    monkeypatch.setattr("asyncgrad.engine.loops.find_spec", lambda name: None)

    async def main():
        return type(asyncio.get_running_loop()).__module__

    assert ag.run(main()).startswith("asyncio.")


def test_run_sets_the_debug_mode_of_the_loop():
    async def main():
        return asyncio.get_running_loop().get_debug()

    assert [ag.run(main(), debug=debug) for debug in (False, True)] == [False, True]


def test_run_inside_of_a_running_loop_is_refused_with_the_line_to_await(run):
    async def inner(): ...

    async def main():
        with pytest.raises(BlockingError, match=r"ag\.run\(inner\(\.\.\.\)\) .* await inner\(\.\.\.\)"):
            ag.run(inner())

    run(main())


def test_run_of_a_function_is_told_to_call_it():
    async def main(): ...

    with pytest.raises(TypeError, match=r"call it, as in ag\.run\(main\(\)\)"):
        ag.run(main)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"ag\.run runs a coroutine, and this is 42"):
        ag.run(42)  # type: ignore[arg-type]
