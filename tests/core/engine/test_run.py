"""ag.run starts an event loop, uvloop's where it is installed, and none inside of another."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from importlib.machinery import ModuleSpec

import pytest

import asyncgrad as ag
from asyncgrad.core.engine.shell import run_in_a_thread
from asyncgrad.errors import BlockingError
from tests.support.loops import on_each_loop


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
    monkeypatch.setattr("asyncgrad.core.engine.loops.find_spec", lambda name: None)

    async def main():
        return type(asyncio.get_running_loop()).__module__

    assert ag.run(main()).startswith("asyncio.")


def test_run_sets_the_debug_mode_of_the_loop():
    async def main():
        return asyncio.get_running_loop().get_debug()

    assert [ag.run(main(), debug=debug) for debug in (False, True)] == [False, True]


@on_each_loop
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
    with pytest.raises(TypeError, match=r"ag\.run takes a coroutine, not int 42"):
        ag.run(42)  # type: ignore[arg-type]


# In an interactive shell, whose loop runs already.


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)


@on_each_loop
def test_run_in_a_shell_with_a_running_loop_gives_the_result_from_a_loop_in_another_thread(run, shell):
    async def inner():
        return asyncio.get_running_loop(), threading.get_ident()

    async def main():
        loop, thread = ag.run(inner())
        return loop is not asyncio.get_running_loop(), thread != threading.get_ident(), loop.is_closed()

    assert run(main()) == (True, True, True)


@on_each_loop
def test_a_shell_that_sets_no_prompt_is_known_by_the_module_that_runs(run, monkeypatch):
    """`python -m asyncio` of Python 3.13 on a terminal."""
    monkeypatch.delattr(sys, "ps1", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("asyncio.__main__", None))

    async def main():
        return ag.run(inner())

    async def inner():
        return "from another thread"

    assert run(main()) == "from another thread"


@on_each_loop
def test_run_in_a_shell_raises_what_the_coroutine_raises(run, shell):
    async def inner():
        raise KeyError("this one")

    async def main():
        ag.run(inner())

    with pytest.raises(KeyError, match="this one"):
        run(main())


@on_each_loop
def test_run_in_a_shell_sees_the_modes_of_the_context(run, shell):
    async def inner():
        return ag.is_grad_enabled()

    async def main():
        with ag.no_grad():
            return ag.run(inner())

    assert run(main()) is False


@on_each_loop
def test_an_interrupt_of_run_in_a_shell_cancels_the_coroutine_and_comes_out_after_its_end(run, shell):
    began, ended = threading.Event(), threading.Event()

    async def inner():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def interrupt(shell_thread):
        began.wait()
        signal.pthread_kill(shell_thread, signal.SIGINT)

    async def main():
        interrupting = threading.Thread(target=interrupt, args=(threading.get_ident(),))
        interrupting.start()
        try:
            ag.run(inner())
        except KeyboardInterrupt:
            return ended.is_set()
        finally:
            interrupting.join()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with asyncio.Runner() as runner:
            assert runner.get_loop().run_until_complete(main())
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_of_run_in_a_shell_before_its_loop_is_there_cancels_the_coroutine():
    came = threading.Event()

    def interrupt(*_):
        came.set()
        raise KeyboardInterrupt

    def loop_factory():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        came.wait()
        return asyncio.new_event_loop()

    async def inner():
        await asyncio.Event().wait()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_a_thread(inner(), None, loop_factory)
    finally:
        signal.signal(signal.SIGINT, before)
