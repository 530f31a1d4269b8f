"""Exhaustively: a backward that fails, or is cancelled, at any of its steps has not happened, and runs again."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine.until_success import UNTIL_SUCCESS
from asyncgrad.core.settings.context import BLOCKING
from tests.core.engine.states import graph_state, state_of
from tests.core.engine.stepwise import StepGraph, Steps
from tests.support.failing import Trouble, raise_trouble
from tests.support.functions import awaiting
from tests.support.graphs import nodes_below
from tests.support.loops import on_each_loop
from tests.support.sampling import cases
from tests.support.settings import loop_budget


class Stopped:
    """One graph, to be stopped at one step, and what it was before.

    Args:
        seed: of the graph.
        stop_at: at which step; None at none.
        stop: what to do there.
        suspends: whether there is an `async def` in the graph.
    """

    def __init__(self, seed: int, stop_at: int | None, stop: Callable[[str], Any], suspends: bool) -> None:
        self.steps = Steps(stop_at, stop)
        self.graph = StepGraph(seed, self.steps, suspends=suspends)
        self.nodes = nodes_below(*self.graph.root_tensors)
        self.before = self.state()

    def state(self) -> list[Any]:
        return [state_of(*self.graph.watched.tensors), graph_state(self.nodes)]

    def backward(self, keep: Any = True) -> Any:
        return ag.backward(self.graph.root_tensors, self.graph.root_grads, retain_graph=keep)

    def blocking_backward(self, keep: Any = True) -> None:
        sync.backward(self.graph.root_tensors, self.graph.root_grads, retain_graph=keep)

    def has_not_happened(self) -> bool:
        return self.state() == self.before

    def drop(self) -> None:
        """Part hooks and bodies from what they belong to: the cycle is this test's own."""
        self.graph.watched.tensors.clear()
        self.nodes.clear()
        self.before.clear()

    def has_happened(self) -> bool:
        self.graph.expect_backward()
        return self.graph.watched.actual() == self.graph.watched.expected()


def interrupt(name: str) -> None:
    raise KeyboardInterrupt(name)


def steps_of(seed: int, suspends: bool) -> list[str]:
    """Return the names of the steps that a backward takes; it is checked against the oracle on the way."""
    whole = Stopped(seed, None, raise_trouble, suspends)
    whole.blocking_backward(keep=False)
    assert whole.has_happened()
    whole.drop()
    return whole.steps.names


@contextlib.contextmanager
def no_garbage() -> Iterator[None]:
    """Nothing that is dropped inside waits for the garbage collector."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
        assert gc.collect() == 0
    finally:
        gc.enable()


# Awaited.


def fail_the_step(task: Any) -> Callable[[str], Any]:
    return raise_trouble


def cancel_the_backward(task: Any) -> Callable[[str], Any]:
    return lambda name: task().cancel()


def cancel_the_body(task: Any) -> Callable[[str], Any]:
    def cancel(name: str) -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()

    return cancel


def cancel_from_outside(task: Any) -> Callable[[str], Any]:
    return lambda name: asyncio.get_running_loop().call_soon(task().cancel)


def fail_and_cancel(task: Any) -> Callable[[str], Any]:
    def both(name: str) -> None:
        asyncio.get_running_loop().call_soon(task().cancel)
        raise Trouble(name)

    return both


STOPS = [fail_the_step, cancel_the_backward, cancel_the_body, cancel_from_outside, fail_and_cancel]


async def known_in(tasks: list[Any], stopped: Stopped, keep: Any = True) -> None:
    """Run a backward, its task added to `tasks`: from within, as an eager one is under way before it is returned."""
    tasks.append(asyncio.current_task())
    await stopped.backward(keep)


async def stop_at(
    seed: int, index: int, stop: Callable[[Any], Callable[[str], Any]], breathes: bool, keep: Any = True
) -> str:
    """Run a backward that is stopped at step `index`, check, and run it again; return how the first one ended."""
    tasks: list[Any] = []
    stopped = Stopped(seed, index, stop(lambda: tasks[0]), suspends=True)
    with loop_budget(-1.0 if breathes else 10.0):
        await asyncio.wait([asyncio.ensure_future(known_in(tasks, stopped, keep))])
    task = tasks.pop()
    ended = "cancelled" if task.cancelled() else type(task.exception()).__name__
    del task
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert stopped.steps.has_stopped
    if ended == "NoneType":
        # Cancelled when it was too late.
        assert stop is cancel_from_outside
        assert stopped.has_happened()
        if keep == UNTIL_SUCCESS:
            stopped.drop()
            return ended
    else:
        assert stopped.has_not_happened()
    await stopped.backward(keep=keep if keep == UNTIL_SUCCESS else False)
    assert stopped.has_happened()
    stopped.drop()
    return ended


ENDS: dict[Any, set[str]] = {
    fail_the_step: {"Trouble"},
    cancel_the_backward: {"cancelled"},
    cancel_the_body: {"cancelled"},
    cancel_from_outside: {"cancelled", "NoneType"},
    fail_and_cancel: {"Trouble", "cancelled"},
}


async def stop_at_each(seed: int, stop: Callable[[Any], Callable[[str], Any]], breathes: bool) -> None:
    names = await asyncio.to_thread(steps_of, seed, True)
    for index in range(len(names)):
        ended = await stop_at(seed, index, stop, breathes)
        assert ended in ENDS[stop], (seed, index, names[index])


@pytest.mark.sampled("stop")
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.__name__)
@pytest.mark.parametrize("seed", range(8))
async def test_a_backward_stopped_at_any_step_has_not_happened_and_runs_again(seed, stop):
    await stop_at_each(seed, stop, breathes=seed % 2 == 1)


@on_each_loop
@given(st.integers(8, 10**6), st.sampled_from(STOPS), st.booleans(), st.sampled_from([True, UNTIL_SUCCESS]), st.data())
@settings(max_examples=cases(60))
def test_any_graph_stopped_at_any_step_has_not_happened_and_runs_again(run, seed, stop, breathes, keep, data):
    names = steps_of(seed, True)
    if names:
        index = data.draw(st.integers(0, len(names) - 1))
        assert run(stop_at(seed, index, stop, breathes, keep)) in ENDS[stop]


@pytest.mark.slow
@on_each_loop
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.__name__)
def test_a_backward_that_was_stopped_at_any_step_leaves_nothing_to_the_garbage_collector(run, stop):
    async def stop_at_each(seed: int, count: int) -> None:
        for index in range(count):
            tasks: list[Any] = []
            stopped = Stopped(seed, index, stop(lambda tasks=tasks: tasks[0]), suspends=True)
            # A Task, which begins later also where tasks are eager: an error in one begun here keeps this frame.
            await asyncio.wait([asyncio.Task(known_in(tasks, stopped))])
            assert tasks[0].cancelled() or isinstance(tasks[0].exception(), Trouble) or stop is cancel_from_outside
            tasks.clear()
            stopped.drop()

    for seed in range(3):
        count = len(steps_of(seed, True))

        async def main(seed: int = seed, count: int = count) -> None:
            # Once before, for what is made on first use.
            await stop_at_each(seed, 2)
            with no_garbage():
                await stop_at_each(seed, count)

        run(main())


@pytest.mark.slow
async def test_of_two_backwards_at_once_the_one_that_is_stopped_at_any_step_takes_back_its_own_part():
    """Both run over the same leaves, hooks included, so that one adds to a gradient that the other takes back from."""

    async def beside(stopped: Stopped) -> Any:
        leaves = stopped.graph.watched.tensors[:3]
        return await ag.backward(np.add(np.add(leaves[0], leaves[1]), awaiting(leaves[2], waits)), np.ones(2))

    async def waits(grad: Any) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    def expect_beside(stopped: Stopped) -> None:
        watched = stopped.graph.watched
        for index in range(3):
            watched.accumulate(index, np.ones(2) * np.prod(watched.tensor_hooks.get(index, [1.0])))

    async def stop_at_each(seed: int) -> set[str]:
        ends = set()
        for index in range(10**6):
            stopped = Stopped(seed, index, raise_trouble, suspends=True)
            ended = await asyncio.gather(stopped.backward(), beside(stopped), return_exceptions=True)
            if ended[0] is None:
                stopped.graph.expect_backward()
            if ended[1] is None:
                expect_beside(stopped)
            assert stopped.graph.watched.actual() == stopped.graph.watched.expected(), (seed, index)
            ends.add("+".join(type(each).__name__ for each in ended))
            if ended == [None, None]:
                return ends
        raise AssertionError("unreachable")

    async def main() -> None:
        ends = set()
        for seed in range(4):
            ends |= await stop_at_each(seed)
        assert ends == {"Trouble+NoneType", "NoneType+Trouble", "NoneType+NoneType"}

    await main()


# Blocking.


@pytest.mark.sampled("stop", "suspends")
@pytest.mark.parametrize("stop", [raise_trouble, interrupt], ids=lambda stop: stop.__name__)
@pytest.mark.parametrize("suspends", [False, True], ids=["without a loop", "on a loop of its own"])
@pytest.mark.parametrize("seed", range(6))
def test_a_blocking_backward_stopped_at_any_step_has_not_happened_and_runs_again(seed, suspends, stop):
    for index in range(len(steps_of(seed, suspends))):
        stopped = Stopped(seed, index, stop, suspends)
        with pytest.raises((Trouble, KeyboardInterrupt)):
            stopped.blocking_backward()
        assert stopped.steps.has_stopped
        assert stopped.has_not_happened()
        stopped.blocking_backward(keep=False)
        assert stopped.has_happened()


def test_a_blocking_backward_that_was_stopped_leaves_nothing_to_the_garbage_collector():
    def stop_at_each(seed: int, count: int) -> None:
        for index in range(count):
            stopped = Stopped(seed, index, raise_trouble, suspends=False)
            with contextlib.suppress(Trouble):
                stopped.blocking_backward()
            stopped.drop()

    for seed in range(4):
        count = len(steps_of(seed, False))
        stop_at_each(seed, 2)
        with no_garbage():
            stop_at_each(seed, count)


class Interrupting:
    """Raises KeyboardInterrupt where a signal would: at a call in asyncgrad's own code, or after one of a C function.

    Args:
        at: at which of them; beyond the last at none.
    """

    def __init__(self, at: int) -> None:
        self.left = at
        self.has_fired = False

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event not in ("call", "c_return") or frame.f_globals.get("__name__", "").partition(".")[0] != "asyncgrad":
            return
        if not self.left:
            sys.setprofile(None)
            self.has_fired = True
            raise KeyboardInterrupt
        self.left -= 1


def stopped_at_call(at: int, stopped: Stopped, keep: Any) -> tuple[bool, bool]:
    """Run a backward that is interrupted at call `at`; return whether it came so far, and whether it raised that."""
    interrupting = Interrupting(at)
    before = sys.getprofile()
    sys.setprofile(interrupting)
    try:
        stopped.blocking_backward(keep)
    except KeyboardInterrupt:
        return True, True
    finally:
        sys.setprofile(before)
    return interrupting.has_fired, False


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("keep", [True, UNTIL_SUCCESS])
@pytest.mark.parametrize("seed", range(3))
def test_ctrl_c_at_any_call_of_a_blocking_backward_leaves_it_done_or_undone(seed, keep, monkeypatch):
    # One that comes while a generator is being dropped goes nowhere, as any exception would.
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    undone = 0
    for at in range(100_000):
        stopped = Stopped(seed, None, raise_trouble, suspends=False)
        came_so_far, was_raised = stopped_at_call(at, stopped, keep)
        is_released = False
        if stopped.has_not_happened():
            assert was_raised
            undone += 1
        else:
            assert stopped.has_happened(), at
            is_released = keep == UNTIL_SUCCESS
        if not came_so_far:
            break
        # No lock is held, nothing is half released, and the caller may go on.
        assert not BLOCKING.get()
        if not is_released:
            stopped.blocking_backward(keep)
            assert stopped.has_happened(), at
    assert undone > 100
