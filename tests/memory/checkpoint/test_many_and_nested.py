"""Thousands of checkpoints in one backward, and checkpoints nested to a depth that only memory bounds."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.leaves import leaf
from tests.support.loops import one_loop
from tests.support.sampling import cases
from tests.support.threads import on_a_small_stack

each_kind = pytest.mark.parametrize("use_reentrant", [True, False], ids=["reentrant", "recomputed"])
each_way = pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])


#: More than the stack has room for: a level that took a frame of Python would take one of a thousand.
SEGMENTS, LEVELS = 1000, max(1200, cases(2000))

# Most of the time would go to the garbage collector, which would find nothing.
pytestmark = pytest.mark.usefixtures("no_collector")


def run_backward(y, blocking):
    if blocking:
        sync.backward(y)
    else:
        asyncio.run(ag.backward(y))


@pytest.mark.slow
@each_kind
@each_way
def test_thousands_of_segments_run_in_one_backward(use_reentrant, blocking):
    calls, x = [], leaf(0.5)

    def fn(x):
        calls.append(1)
        return np.sin(x)

    y = x
    for _ in range(SEGMENTS):
        y = ag.checkpoint(fn, y, use_reentrant=use_reentrant)
    assert len(calls) == SEGMENTS
    run_backward(y.sum(), blocking)

    assert len(calls) == 2 * SEGMENTS
    plain = y = leaf(0.5)
    for _ in range(SEGMENTS):
        y = np.sin(y)
    sync.backward(y)
    assert x.grad.item() == plain.grad.item()


@pytest.mark.slow
@one_loop
async def test_thousands_of_async_segments_run_in_one_backward():
    async def fn(x):
        await asyncio.sleep(0)
        return np.sin(x)

    async def main(use_reentrant):
        x = y = leaf(0.5)
        for _ in range(SEGMENTS):
            y = await ag.checkpoint(fn, y, use_reentrant=use_reentrant)
        await ag.backward(y)
        return x.grad.item()

    assert await main(True) == await main(False)


def nested_checkpoints(depth, calls, use_reentrant):
    def fn(x):
        calls.append(1)
        if depth == 0:
            return np.sin(x)
        return ag.checkpoint(
            nested_checkpoints(depth - 1, calls, use_reentrant), np.cos(x), use_reentrant=use_reentrant
        )

    return fn


@pytest.mark.slow
@each_way
def test_thousands_nested_one_inside_another_are_each_recomputed_once(blocking):
    calls, x, depth = [], leaf(0.5), LEVELS

    def work():
        y = ag.checkpoint(nested_checkpoints(depth, calls, False), x * 2.0**-depth * 0 + x, use_reentrant=False)
        assert len(calls) == depth + 1
        run_backward(y.sum(), blocking)

    on_a_small_stack(work)
    assert len(calls) == 2 * (depth + 1)


@pytest.mark.slow
@each_way
def test_hundreds_of_nested_reentrant_checkpoints_run(blocking):
    """Each runs those in it twice, once without recording."""
    calls, x, depth = [], leaf(0.5), 200

    def work():
        run_backward(ag.checkpoint(nested_checkpoints(depth, calls, True), x).sum(), blocking)

    on_a_small_stack(work)
    plain = y = leaf(0.5)
    for _ in range(depth):
        y = np.cos(y)
    sync.backward(np.sin(y))
    assert x.grad.item() == plain.grad.item()


@pytest.mark.slow
@each_way
def test_thousands_of_reentrant_recomputations_run_one_inside_another(blocking):
    """Each backward inside of a backward makes the next checkpoint; in the forward there is no more than one."""
    deepest, x = [], leaf(0.5)

    def level(depth):
        def fn(x):
            if depth == 0 or not ag.is_grad_enabled():
                return x * 1.0
            task = ag.engine.current_graph_task()
            deepest[:] = [task.reentrant_depth]
            return ag.checkpoint(level(depth - 1), x * 1.0)

        return fn

    on_a_small_stack(lambda: run_backward(ag.checkpoint(level(LEVELS), x), blocking))
    assert x.grad.item() == 1.0
    assert deepest == [LEVELS - 1]


@pytest.mark.slow
def test_async_functions_nested_thousands_deep_run():
    calls = []

    def nested(depth):
        async def fn(x):
            calls.append(1)
            await asyncio.sleep(0)
            return np.sin(x) if depth == 0 else await ag.checkpoint(nested(depth - 1), x * 1.0, use_reentrant=False)

        return fn

    async def main():
        x = leaf(0.5)
        await ag.backward(await ag.checkpoint(nested(LEVELS), x, use_reentrant=False))
        return x.grad.item()

    found = []
    on_a_small_stack(lambda: found.append(asyncio.run(main())))
    assert found == [np.cos(0.5)]
    assert len(calls) == 2 * (LEVELS + 1)
