"""LoopThread: coroutines run on, while the thread that submitted them stands still."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from typing import Any

import pytest

from asyncgrad.engine.loops import LoopThread

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")


@pytest.fixture
def thread() -> Any:
    one = LoopThread("asyncgrad-test")
    yield one
    one.stop()


def test_coroutines_run_side_by_side_while_the_caller_stands_still(thread: LoopThread):
    second_came, both_ended = threading.Event(), threading.Event()
    seen: list[str] = []
    gates: list[asyncio.Event] = []

    async def first() -> None:
        gates.append(asyncio.Event())
        await gates[0].wait()
        seen.append("first")
        both_ended.set()

    async def second() -> None:
        seen.append("second")
        second_came.set()
        gates[0].set()

    assert not thread.is_alive()
    assert thread.submit(first())
    assert thread.submit(second())
    assert second_came.wait(30)
    assert both_ended.wait(30)

    assert seen == ["second", "first"]
    assert thread.is_alive()


def test_a_coroutine_runs_in_an_empty_context_of_a_thread_of_its_own(thread: LoopThread):
    found: list[Any] = []
    ended = threading.Event()

    async def look() -> None:
        found.extend([VARIABLE.get(), threading.current_thread().name])
        ended.set()

    VARIABLE.set("set")
    thread.submit(look())
    assert ended.wait(30)

    assert found == ["none", "asyncgrad-test"]


def test_an_error_is_logged_and_the_next_coroutine_runs(thread: LoopThread, caplog: pytest.LogCaptureFixture):
    ended = threading.Event()

    async def fail() -> None:
        raise ZeroDivisionError

    async def go_on() -> None:
        # The error is told in a turn of its own.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ended.set()

    with caplog.at_level(logging.ERROR):
        thread.submit(fail())
        thread.submit(go_on())
        assert ended.wait(30)

    assert "a task of asyncgrad-test failed" in caplog.text


def test_what_runs_is_cancelled_by_stop_and_nothing_runs_afterwards(thread: LoopThread):
    begun, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def late() -> None:
        raise AssertionError("ran")

    thread.submit(wait())
    assert begun.wait(30)
    thread.stop()
    assert cancelled.wait(30)
    inner = thread._thread
    assert inner is not None
    inner.join(30)

    assert not thread.is_alive()
    assert not thread.submit(late())
    thread.stop()


def test_where_no_thread_can_be_started_nothing_is_run(monkeypatch: pytest.MonkeyPatch):
    def start(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    async def never() -> None:
        raise AssertionError("ran")

    monkeypatch.setattr(threading.Thread, "start", start)
    thread = LoopThread("asyncgrad-test")

    assert not thread.submit(never())
    thread.stop()


def test_a_coroutine_that_comes_after_the_end_was_asked_for_is_closed_and_never_left_pending(thread: LoopThread):
    ran, stopped = threading.Event(), threading.Event()
    late: list[Any] = []

    async def never() -> None:
        ran.set()

    async def stop_from_within() -> None:
        # All three stand in one turn of the loop: the stop, then the coroutine that comes too late.
        thread.stop()
        late.append(never())
        thread.submit(late[0])
        stopped.set()

    assert thread.submit(stop_from_within())
    assert stopped.wait(10)
    assert thread._thread is not None
    thread._thread.join(10)

    assert not thread.is_alive()
    assert not ran.is_set()
    assert inspect.getcoroutinestate(late[0]) == inspect.CORO_CLOSED
