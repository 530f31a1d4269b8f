"""What stops a backward from outside: interrupts, time limits, siblings, a loop that is closed. It has not happened."""

from __future__ import annotations

import asyncio
import contextlib
import dis
import gc
import math
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.core.engine.failing_graph import FailingGraph
from tests.programs.test_interrupts_at_any_line import LIBRARY, beginnings_of_lines
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import LOOP_KINDS, loop_factory
from tests.support.settings import loop_budget
from tests.support.turns import Held, settle

each_kind_of_loop = pytest.mark.parametrize("kind", LOOP_KINDS)


def scene_of(body: Callable[[Any], Any]) -> FailingGraph:
    return FailingGraph(lambda x: awaiting(x, body))


async def for_ever(grad: Any) -> None:
    await asyncio.Event().wait()


# A signal.


@each_kind_of_loop
def test_ctrl_c_ends_a_loop_of_small_backwards(kind):
    x = leaf(3.0)

    async def main() -> None:
        passes = 0
        while True:
            await (x * 2.0).backward()
            passes += 1
            if passes == 3:
                signal.raise_signal(signal.SIGINT)

    with asyncio.Runner(loop_factory=loop_factory(kind)) as runner, pytest.raises(KeyboardInterrupt):
        runner.run(main())
    assert x.grad.item() >= 6.0


@each_kind_of_loop
@pytest.mark.parametrize("catches", [False, True], ids=["cancelled", "swallows"])
@pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])
def test_ctrl_c_while_a_body_waits_is_a_keyboard_interrupt_after_the_bodies_have_ended(kind, catches, blocking):
    ended: list[str] = []

    async def presses(grad):
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("cleaned up")
            if not catches:
                raise

    scene = scene_of(presses)

    def backward() -> None:
        if blocking:
            sync.backward(scene.out)
            return
        with asyncio.Runner(loop_factory=loop_factory(kind)) as runner:
            runner.run(ag.backward(scene.out))

    with pytest.raises(KeyboardInterrupt):
        backward()

    assert ended == ["cleaned up"]
    assert scene.has_not_happened()


@each_kind_of_loop
@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt("mine"), SystemExit(3)], ids=repr)
def test_what_ends_the_whole_program_ends_the_backward_on_its_way(kind, error, turns):
    held = Held()

    async def stops(grad):
        for _ in range(turns):
            await asyncio.sleep(0)
        raise error

    scene = scene_of(stops)
    out = np.add(scene.out, awaiting(leaf(1.0), held))

    with pytest.raises(type(error)) as caught, asyncio.Runner(loop_factory=loop_factory(kind)) as runner:
        runner.run(ag.backward(out))

    assert caught.value is error
    assert held.cancelled
    assert scene.has_not_happened()


# Time limits and siblings, where the backward is not the task's own coroutine.

Stop = Callable[[FailingGraph, asyncio.Event], Any]


async def by_timeout(scene: FailingGraph, begun: asyncio.Event) -> None:
    async with asyncio.timeout(None) as scope:

        async def in_time() -> None:
            await begun.wait()
            scope.reschedule(0)

        helper = asyncio.ensure_future(in_time())
        await ag.backward(scene.out)
        await helper


async def stopped_by_wait_for(scene: FailingGraph, begun: asyncio.Event) -> None:
    await asyncio.wait_for(ag.backward(scene.out), 0.001)


async def by_wait_for_nothing(scene: FailingGraph, begun: asyncio.Event) -> None:
    # Never started: a coroutine that is closed unawaited, as asyncio does it.
    await asyncio.wait_for(asyncio.ensure_future(ag.backward(scene.out)), 0)


async def by_a_sibling(scene: FailingGraph, begun: asyncio.Event) -> None:
    async def fails() -> None:
        await begun.wait()
        raise TimeoutError("sibling")

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ag.backward(scene.out))
            group.create_task(fails())

    try:
        # In a task of its own: before Python 3.13 a group leaves the task that it failed in marked as cancelled.
        await asyncio.ensure_future(together())
    except* TimeoutError as errors:
        raise errors.exceptions[0] from None


async def by_gather(scene: FailingGraph, begun: asyncio.Event) -> None:
    gathered = asyncio.gather(ag.backward(scene.out), ag.backward(awaiting(leaf(1.0), for_ever)))
    await begun.wait()
    gathered.cancel()
    try:
        await gathered
    except asyncio.CancelledError:
        raise TimeoutError from None


STOPS = [by_timeout, stopped_by_wait_for, by_wait_for_nothing, by_a_sibling, by_gather]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.__name__)
@pytest.mark.parametrize("swallows", [False, True], ids=["cancelled", "swallows"])
async def test_whatever_stops_it_the_backward_has_not_happened_and_the_task_goes_on(stop, swallows):
    begun = asyncio.Event()

    async def body(grad):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallows:
                raise

    scene = scene_of(body)
    with pytest.raises(TimeoutError):
        await stop(scene, begun)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)
    assert scene.has_not_happened()
    assert asyncio.all_tasks() == {task}


async def test_a_cancel_carries_its_message_to_the_bodies_end_and_the_callers():
    held = Held()
    task = asyncio.ensure_future(ag.backward(scene_of(held).out))
    await held.begun.wait()
    task.cancel("the message")
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert caught.value.args == ("the message",)


# Drivers that are closed, and loops.


def closing_bodies(seen: list[str]) -> list[Callable[[Any], Any]]:
    """Bodies that clean up, raise, or wait when they are closed."""

    async def cleans(grad):
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned")

    async def raises(grad):
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("raised")
            raise ValueError("in the clean-up")

    async def waits(grad):
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("waited")
            await asyncio.sleep(0)

    return [cleans, waits, cleans, raises, cleans]


@pytest.mark.parametrize("kinds", [[0], [0, 1, 2], [2, 3, 4], [0, 1, 2, 3, 4]], ids=str)
async def test_a_driver_that_is_closed_closes_every_body_whatever_one_of_them_does(kinds):
    seen: list[str] = []
    bodies = closing_bodies(seen)
    scene = scene_of(bodies[kinds[0]])
    out = scene.out
    for kind in kinds[1:]:
        out = np.add(out, awaiting(leaf(1.0), bodies[kind]))
    backward = ag.backward(out)
    with loop_budget(math.inf):
        backward.send(None)
    assert not scene.has_not_happened()
    if len(kinds) == 1:
        backward.close()
    else:
        # As close() does with any coroutine that does not simply end.
        with pytest.raises((RuntimeError, ValueError), match=r"ignored GeneratorExit|in the clean-up"):
            backward.close()
    assert len(seen) == len(kinds)
    assert scene.has_not_happened()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_driver_that_is_closed_in_the_clean_up_of_a_failure_leaves_nothing():
    ends: list[str] = []

    async def lingers(grad):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await asyncio.Event().wait()
            finally:
                ends.append("closed")

    scene = scene_of(lingers)
    backward = ag.backward(np.add(scene.out, awaiting(leaf(1.0), lingers)))
    with loop_budget(math.inf):
        backward.send(None)
    await asyncio.sleep(0)
    backward.throw(ValueError("failed"))
    for _ in range(3):
        await asyncio.sleep(0)
    backward.close()
    assert ends == ["closed", "closed"]
    assert scene.has_not_happened()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_body_that_had_failed_when_its_driver_was_closed_is_not_reported_as_forgotten():
    gate = asyncio.Event()

    async def fails(grad):
        await gate.wait()
        raise ValueError("seen by nobody")

    scene = scene_of(fails)
    backward = ag.backward(scene.out)
    with loop_budget(math.inf):
        backward.send(None)
    gate.set()
    # The body runs, and nobody steps the driver any more.
    for _ in range(3):
        await asyncio.sleep(0)
    backward.close()
    assert scene.has_not_happened()


async def test_any_error_thrown_into_the_driver_is_raised_by_it_when_the_bodies_have_ended():
    held, error = Held(), LookupError("thrown in")
    scene = scene_of(held)
    backward = ag.backward(scene.out)

    async def step() -> None:
        with loop_budget(math.inf):
            backward.send(None)
        backward.throw(error)
        await settle()
        assert held.cancelled
        with pytest.raises(LookupError) as caught:
            backward.send(None)
        assert caught.value is error

    await step()
    assert scene.has_not_happened()
    assert not hasattr(error, "__notes__")


@each_kind_of_loop
@pytest.mark.parametrize("collected", [False, True], ids=["dropped", "collected"])
def test_a_loop_that_is_closed_in_mid_backward_has_every_gradient_put_back(kind, collected, monkeypatch):
    """Nothing cancels the tasks here: they end when the last reference to them goes, and Python says so."""
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    seen: list[str] = []
    scene = scene_of(closing_bodies(seen)[0])
    make = loop_factory(kind)
    loop = make()
    reports: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda loop, report: reports.append(report))

    async def main() -> None:
        task = asyncio.ensure_future(ag.backward(np.add(scene.out, awaiting(leaf(1.0), closing_bodies(seen)[0]))))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
        if collected:
            task.add_done_callback(lambda _, keeps=scene: None)

    # Three turns reach both bodies only where no pause of the machine ends a turn early.
    with loop_budget(math.inf):
        loop.run_until_complete(main())
    assert not scene.has_not_happened()
    loop.close()
    gc.collect()

    assert seen == ["cleaned", "cleaned"]
    assert scene.has_not_happened()
    assert unraisable == []
    assert ["destroyed" in report["message"] for report in reports] == [True]


# A signal while work is sent to another thread.

#: The functions that send work, and wait for its end.
SENDING = {"call_on", "call_on_worker", "join", "result_of", "_end_job", "_run_on_worker"}


def sent_by(way: str, work: Callable[[], None]) -> Any:
    """What sends `work` to another thread, as an awaitable."""
    if way == "forward":
        return ag.forward(work)
    if way == "call":
        return ag.device("thread:0").call(work)

    def body(grad: Any) -> None:
        work()

    return calling(leaf(1.0).to("thread:0"), body).backward()


def interrupted_in(names: set[str], line: int, call: Callable[[], object]) -> tuple[int, bool]:
    """Interrupt a call at a line of functions of the library; return how many of these have run, and whether it was."""
    seen = 0
    is_due = was_interrupted = False

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen, is_due
        code = frame.f_code
        if code.co_name not in names or not code.co_filename.startswith(LIBRARY):
            return None
        if event == "line" and not was_interrupted:
            seen += 1
            is_due = is_due or seen == line
            # At the NOP of a `try` in a `try` no signal can come, and the outer one would not see it.
            is_nop = code.co_code[frame.f_lasti] == dis.opmap["NOP"]
            if is_due and not is_nop and frame.f_lasti in beginnings_of_lines(code):
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        was_interrupted = True
    finally:
        sys.settrace(before)
    return seen, was_interrupted


# A coroutine that had yet to be awaited is reported by Python itself.
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", ["forward", "call", "a body on a device"])
def test_an_interrupt_at_any_line_that_sends_work_comes_out_when_the_work_has_ended(way):
    def run(line: int) -> tuple[int, bool]:
        """Interrupt at a line, by its number among those that run; return how many have, and whether it came out."""
        let_go, running = threading.Event(), []

        def work() -> None:
            running.append(True)
            let_go.wait(10.0)
            running.pop()

        async def main() -> None:
            ticker = asyncio.ensure_future(release())
            try:
                await sent_by(way, work)
            finally:
                assert running == []
                await ticker

        async def release() -> None:
            await settle()
            let_go.set()

        loop = asyncio.new_event_loop()
        task = loop.create_task(main())
        try:
            lines, was_interrupted = interrupted_in(SENDING, line, lambda: loop.run_until_complete(task))
            if not task.done():
                # It came in a callback of the loop.
                with contextlib.suppress(KeyboardInterrupt):
                    loop.run_until_complete(task)
            elif was_interrupted:
                assert isinstance(task.exception(), KeyboardInterrupt)
            assert running == []
        finally:
            loop.close()
        return lines, was_interrupted

    lines, _ = run(0)
    assert lines > 5
    for line in range(1, lines + 1):
        run(line)
    gc.collect()
