"""Nesting is bounded by memory alone: no recursion, no deadlock, on a loop and blocking."""

from __future__ import annotations

import asyncio
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import BlockingError
from tests.core.engine.locking import is_at_rest
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop, one_loop, run_on
from tests.support.sampling import cases
from tests.support.settings import loop_budget
from tests.support.threads import on_a_small_stack
from tests.support.turns import settle

#: More than any stack has room for.
DEEP = max(3000, cases(20_000))

# Most of the time would go to the garbage collector, which would find nothing.
pytestmark = pytest.mark.usefixtures("no_collector")


@contextmanager
def recursion_limit(frames_left: int) -> Iterator[None]:
    """Allow so many frames beyond those that there are."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + frames_left)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def here(work: Callable[[], Any]) -> None:
    work()


def with_few_frames(work: Callable[[], Any]) -> None:
    with recursion_limit(600):
        work()


each_stack = pytest.mark.parametrize("stack", [here, with_few_frames, on_a_small_stack])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("levels", "suspends", "stack"),
    [
        (DEEP, False, on_a_small_stack),
        (2_000, False, with_few_frames),
        (2_000, True, with_few_frames),
        (2_000, True, on_a_small_stack),
    ],
)
def test_thousands_of_levels_of_awaited_backwards_run(levels, suspends, stack):
    w, deepest = leaf(1.0), []

    async def body(grad):
        depth = ag.engine.current_graph_task().reentrant_depth
        if suspends:
            await asyncio.sleep(0)
        with ag.enable_grad():
            inner = awaiting(w, body) if depth < levels - 1 else calling(w, lambda grad: deepest.append(depth + 1))
        await ag.backward(inner)

    stack(lambda: asyncio.run(ag.backward(awaiting(w, body))))
    assert deepest == [levels]
    assert w.grad.item() == levels + 1


@pytest.mark.slow
@one_loop
async def test_thousands_of_levels_through_one_graph_run():
    """Each enters the lock that the one around it has."""
    x, left, depth = leaf(1.0), [2000], 2000

    async def body(grad):
        left[0] -= 1
        if left[0] > 0:
            await ag.backward(out, retain_graph=True)

    out = awaiting(x, body)
    await ag.backward(out, retain_graph=True)
    assert x.grad.item() == depth
    assert is_at_rest(out)


@pytest.mark.slow
@one_loop
async def test_two_thousand_levels_that_all_wake_up_at_once_go_on_from_the_deepest():
    ran: list[int] = []

    gate, all_wait = asyncio.Event(), asyncio.Event()

    async def waits(grad):
        await gate.wait()

    async def nests(grad):
        depth = ag.engine.current_graph_task().reentrant_depth
        with ag.enable_grad():
            inner = calling(leaf(1.0), lambda grad: ran.append(depth + 1))
            inner = awaiting(inner, waits)
            if depth < 1998:
                inner = np.add(inner, awaiting(leaf(1.0), nests))
            else:
                all_wait.set()
        await ag.backward(inner)

    with loop_budget(math.inf):
        task = asyncio.ensure_future(ag.backward(awaiting(leaf(1.0), nests)))
    await all_wait.wait()
    await settle()
    gate.set()
    await task
    assert ran == list(range(1999, 0, -1))


@pytest.mark.slow
@pytest.mark.sampled("stack")
@each_stack
@pytest.mark.parametrize("shared", [False, True])
def test_a_fan_of_five_thousand_nested_backwards_runs(stack, shared):
    w, most, count = leaf(1.0), 0, 0
    # They begin in slices of the loop's budget.
    all_wait = asyncio.Event()

    async def waits(grad):
        nonlocal most, count
        count += 1
        most = max(most, count)
        if count == (1 if shared else 5000):
            all_wait.set()
        await all_wait.wait()
        await asyncio.sleep(0)
        count -= 1

    one = awaiting(w, waits)

    async def fan(grad):
        with ag.enable_grad():
            inners = [one if shared else awaiting(w, waits) for _ in range(5000)]
        await asyncio.gather(*[ag.backward(inner, retain_graph=True) for inner in inners])

    stack(lambda: asyncio.run(ag.backward(awaiting(leaf(1.0), fan))))
    assert most == (1 if shared else 5000)
    assert w.grad.item() == 5000
    assert is_at_rest(one)


@pytest.mark.slow
@one_loop
async def test_a_fan_of_five_thousand_bodies_that_each_nest_runs():
    w = leaf(1.0)

    async def waits(grad):
        await asyncio.sleep(0)

    async def nests(grad):
        with ag.enable_grad():
            inner = awaiting(w, waits)
        await ag.backward(inner)

    out = leaf(1.0)
    for _ in range(5000):
        out = np.add(out, awaiting(leaf(1.0), nests))
    await ag.backward(out)
    assert w.grad.item() == 5000


@pytest.mark.slow
@one_loop
async def test_a_fan_of_nested_backwards_runs_through_the_graph_that_it_is_called_in():
    x, first = leaf(1.0), [True]

    async def body(grad):
        if first and first.pop():
            await asyncio.gather(*[ag.backward(out, retain_graph=True) for _ in range(5000)])
        else:
            await asyncio.sleep(0)

    out = awaiting(x, body)
    await ag.backward(out, retain_graph=True)
    assert x.grad.item() == 5001
    assert is_at_rest(out)


def blocking_levels(w: ag.Tensor, depth: int, deepest: Callable[[], Any]) -> ag.Tensor:
    def body(grad):
        with ag.enable_grad():
            inner = blocking_levels(w, depth - 1, deepest)
        sync.backward(inner)

    def last(grad):
        return deepest()

    return calling(w, body if depth else last)


@pytest.mark.slow
@each_stack
def test_two_thousand_levels_of_blocking_backwards_run(stack):
    w, deepest = leaf(1.0), []

    def note():
        deepest.append(ag.engine.current_graph_task().reentrant_depth)

    stack(lambda: sync.backward(blocking_levels(w, 2000, note)))
    assert deepest == [2000]
    assert w.grad.item() == 2001
    assert not [thread for thread in threading.enumerate() if "drive_in_thread" in thread.name]


@pytest.mark.slow
@on_each_loop
def test_two_thousand_levels_of_blocking_backwards_run_beside_a_loop(run):
    async def main():
        w = leaf(1.0)
        sync.backward(blocking_levels(w, 2000, lambda: None))
        await ag.backward(blocking_levels(w, 100, lambda: None))
        assert w.grad.item() == 2102

    run(main())


@pytest.mark.parametrize("depth", [1, 13, 14, 15, 16, 17, 31, 40])
def test_an_async_body_deep_below_runs_on_a_loop_where_there_is_none(depth):
    w, v = leaf(1.0), leaf(1.0)

    async def waits(grad):
        await asyncio.sleep(0)

    def deepest():
        with ag.enable_grad():
            inner = awaiting(v, waits)
        sync.backward(inner)

    sync.backward(blocking_levels(w, depth, deepest))
    assert (w.grad.item(), v.grad.item()) == (depth + 1, 1.0)


@pytest.mark.slow
@on_each_loop
@pytest.mark.parametrize("depth", [1, 13, 14, 15, 16, 17, 31, 40])
def test_an_async_body_deep_below_a_loop_is_refused_by_name_and_nothing_has_happened(run, depth):
    """Also in a thread that only goes on for the loop's own: a second loop there would stall the first."""

    async def main():
        w, v = leaf(1.0), leaf(1.0)

        async def waits(grad):
            await asyncio.sleep(0)

        def deepest():
            with ag.enable_grad():
                inner = awaiting(v, waits)
            sync.backward(inner)

        with pytest.raises(BlockingError, match=r"AwaitingBackward \(node #\d+\) suspended.*await ag\.backward"):
            sync.backward(blocking_levels(w, depth, deepest))
        assert (w.grad, v.grad) == (None, None)

    run(main())


@on_each_loop
@pytest.mark.parametrize("depth", [15, 40])
def test_a_thread_of_the_user_s_below_may_start_a_loop(run, depth):
    """It is handed the context of a thread that goes on for a loop, and does not do so itself."""

    async def main():
        w, errors = leaf(1.0), []

        def work():
            try:
                with ag.enable_grad():
                    inner = awaiting(leaf(1.0), lambda grad: asyncio.sleep(0))
                sync.backward(inner)
            except BaseException as error:
                errors.append(error)

        def deepest():
            context = ag.engine.current_graph_task().context.copy()
            thread = threading.Thread(target=context.run, args=(work,))
            thread.start()
            thread.join()

        sync.backward(blocking_levels(w, depth, deepest))
        assert errors == []

    run(main())


@pytest.mark.parametrize("depth", [3, 40])
def test_an_interrupt_while_a_deeper_thread_is_waited_for_ends_the_backward_after_that(depth):
    w, came, over, main = leaf(1.0), threading.Event(), [], threading.get_ident()

    def interrupted(number, frame):
        came.set()
        raise KeyboardInterrupt

    def deepest():
        # In the main thread itself, the interrupt comes right here; from elsewhere, once the waiting is over.
        signal.pthread_kill(main, signal.SIGINT)
        # Python does not see one that comes right before the main thread begins to wait.
        while not came.wait(1.0):
            signal.pthread_kill(main, signal.SIGINT)
        over.append(True)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            sync.backward(blocking_levels(w, depth, deepest))
    finally:
        signal.signal(signal.SIGINT, before)
    assert over == ([True] if depth > 16 else [])
    assert w.grad is None
    sync.backward(blocking_levels(w, depth, lambda: None))
    assert w.grad.item() == depth + 1


@pytest.mark.slow
@pytest.mark.parametrize("depth", [5, 15, 16, 50])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_the_deepest_of_nested_blocking_backwards_raises_comes_out_as_it_is_and_nothing_has_happened(depth, error):
    w, raised = leaf(1.0), error("deep down")

    def fail():
        raise raised

    with pytest.raises(error) as caught:
        sync.backward(blocking_levels(w, depth, fail))
    assert caught.value is raised
    assert sum(note.startswith("in CallingBackward") for note in raised.__notes__) == depth + 1
    assert w.grad is None


@pytest.mark.slow
@pytest.mark.parametrize("catches", [0, 7, 14, 15, 16, 31, 199])
def test_what_a_body_catches_of_a_nested_blocking_backward_goes_no_further(catches):
    """The gradients of the levels below it are put back, and those above are whole."""
    w, depth = leaf(1.0), 200

    def level(number):
        def body(grad):
            with ag.enable_grad():
                inner = level(number + 1)
            if number == catches:
                with pytest.raises(ValueError, match="deep down"):
                    sync.backward(inner)
            else:
                sync.backward(inner)

        def fail(grad):
            raise ValueError("deep down")

        return np.multiply(calling(w, body if number < depth else fail), 1.0)

    sync.backward(level(0))
    assert w.grad.item() == catches + 1


def test_levels_that_alternate_between_awaiting_and_blocking_run():
    w, depth = leaf(1.0), 150

    def level(number):
        def blocks(grad):
            sync.backward(following())

        async def awaits(grad):
            await ag.backward(following())

        def following():
            with ag.enable_grad():
                return level(number + 1)

        if number == depth:
            return np.multiply(w, 1.0)
        return calling(w, blocks) if number % 2 else awaiting(w, awaits)

    run_on("asyncio", ag.backward(level(0)))
    assert w.grad.item() == depth + 1
    sync.backward(level(0))
    assert w.grad.item() == 2 * (depth + 1)
