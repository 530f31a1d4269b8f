"""LoopThread: coroutines run on, while the thread that submitted them stands still."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from typing import Any

import pytest

from asyncgrad.core.engine.loops import LoopThread

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


def test_after_stop_the_thread_ends_once_all_that_was_submitted_has_ended(thread: LoopThread):
    begun = threading.Event()
    gates: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
    ended: list[str] = []

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        gates.append((loop, loop.create_future()))
        begun.set()
        await gates[0][1]
        ended.append("wait")

    async def next_one() -> None:
        ended.append("next one")
        loop, gate = gates[0]
        loop.call_soon(gate.set_result, None)

    thread.submit(wait())
    assert begun.wait(30)
    inner = thread._thread
    assert inner is not None
    thread.stop()
    assert thread.is_alive()
    assert thread.submit(next_one())
    inner.join(30)

    assert ended == ["next one", "wait"]
    assert not thread.is_alive()


def test_what_is_submitted_after_the_end_runs_and_ends_its_thread(thread: LoopThread):
    ran: list[int] = []

    async def late(index: int) -> None:
        ran.append(index)

    thread.stop()
    for index in range(3):
        assert thread.submit(late(index))
        inner = thread._thread
        if inner is not None:
            inner.join(30)
        assert not thread.is_alive()

    assert ran == [0, 1, 2]


def test_where_no_thread_can_be_started_nothing_is_run(monkeypatch: pytest.MonkeyPatch):
    def start(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    async def never() -> None:
        raise AssertionError("ran")

    monkeypatch.setattr(threading.Thread, "start", start)
    thread = LoopThread("asyncgrad-test")

    assert not thread.submit(never())
    thread.stop()


def test_a_coroutine_that_comes_in_the_turn_of_the_stop_runs(thread: LoopThread):
    ran = threading.Event()

    async def late() -> None:
        ran.set()

    async def stop_from_within() -> None:
        thread.stop()
        thread.submit(late())

    assert thread.submit(stop_from_within())
    assert ran.wait(30)


def test_coroutines_that_are_submitted_while_the_thread_is_ending_all_run():
    for _ in range(50):
        thread = LoopThread("asyncgrad-test")
        ran: list[int] = []
        all_ran = threading.Event()

        async def one(index: int, ran: list[int] = ran, all_ran: threading.Event = all_ran) -> None:
            ran.append(index)
            if len(ran) == 10:
                all_ran.set()

        assert thread.submit(one(0))
        thread.stop()
        for index in range(1, 10):
            assert thread.submit(one(index))
        assert all_ran.wait(30)
        assert ran == list(range(10))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
def test_a_coroutine_that_would_exit_is_logged_and_ends_no_other(
    thread: LoopThread, caplog: pytest.LogCaptureFixture, error: BaseException
):
    begun, ended = threading.Event(), threading.Event()
    others: list[asyncio.Event] = []

    async def waits() -> None:
        others.append(asyncio.Event())
        begun.set()
        await others[0].wait()
        ended.set()

    async def exits() -> None:
        raise error

    async def go_on() -> None:
        # The error is told in a turn of its own.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        others[0].set()

    with caplog.at_level(logging.ERROR):
        thread.submit(waits())
        assert begun.wait(30)
        thread.submit(exits())
        thread.submit(go_on())
        assert ended.wait(30)

    told = caplog.records[0].exc_info
    assert told is not None
    assert told[1] is error


def test_a_coroutine_that_stops_the_loop_ends_the_others_and_the_next_begins_on_a_new_one(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    begun, cancelled, ended = threading.Event(), threading.Event(), threading.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            # As the end of a write begins the next one.
            thread.submit(sets(cancelled))

    async def stops() -> None:
        asyncio.get_running_loop().stop()

    async def sets(event: threading.Event) -> None:
        event.set()

    assert thread.submit(waits())
    begun.wait()
    stopped = thread._thread
    assert stopped is not None
    assert thread.submit(stops())
    stopped.join()

    assert cancelled.wait(10)
    assert thread.submit(sets(ended))
    assert ended.wait(10)
    thread.stop()
