"""Chains by budget: how often steps run, how much is held, and what is refused."""

from __future__ import annotations

import asyncio
import math
import tracemalloc
import weakref

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, GraphError
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import on_each_loop


@pytest.mark.slow
def test_a_thousand_steps_with_twelve_states_recompute_no_more_than_the_optimum():
    calls, x = [], leaf(0.5)

    def step(x):
        calls.append(1)
        return np.sin(x)

    y = ag.checkpoint_chain([step] * 1000, x, snapshots=12)
    assert len(calls) == 1000
    sync.backward(y.sum())

    assert len(calls) - 1000 == 4 * 1000 - math.comb(12 + 4, 3) == 3440
    plain = y = leaf(0.5)
    for _ in range(1000):
        y = np.sin(y)
    sync.backward(y)
    assert x.grad.item() == plain.grad.item()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "snapshots", "at_most"), [(100, 3, 3), (1000, 12, 12), (1000, None, 10), (1000, "log", 10)]
)
def test_a_chain_holds_no_more_states_than_snapshots(steps, snapshots, at_most):
    """Alive at a time: the kept ones, and of the step that runs its input and its output."""
    alive, most = [], 0

    def step(x):
        nonlocal most
        y = np.sin(x)
        alive[:] = [reference for reference in alive if reference() is not None]
        alive.append(weakref.ref(y.numpy().base))
        most = max(most, len(alive))
        return y

    x = leaf_of(np.ones(3))
    sync.backward(ag.checkpoint_chain([step] * steps, x, snapshots=snapshots).sum())

    assert most <= at_most + 2


@pytest.mark.slow
def test_a_chain_keeps_to_its_memory_budget():
    size = 100_000 * 8

    def step(x):
        return np.tanh(np.exp(x * 0.1) * 0.5)

    def peak(run):
        x = leaf_of(np.ones(100_000))
        tracemalloc.start()
        try:
            loss = run(x).sum()
            sync.backward(loss)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    steps = [step] * 40
    budget = 20 * size
    for _ in range(2):
        assert peak(lambda x: ag.checkpoint_chain(steps, x, memory_budget=budget)) < budget + 50_000
    assert peak(lambda x: ag.checkpoint_chain(steps, x, snapshots=40)) > budget + size


def test_the_first_run_measures_and_later_runs_use_that():
    calls = []

    def step(x):
        calls.append(1)
        return np.tanh(x)

    counts = []
    steps = [step] * 6
    for _ in range(3):
        calls.clear()
        sync.backward(ag.checkpoint_chain(steps, leaf_of(np.ones(10)), memory_budget=10**6).sum())
        counts.append(len(calls))
    assert counts == [12, 6, 6]


def test_unequal_steps_are_told_apart():
    """A small budget holds what the cheap steps save, and not what the dear one does."""
    calls = {"small": 0, "large": 0}

    def small(x):
        calls["small"] += 1
        return np.tanh(x)

    def large(x):
        calls["large"] += 1
        wide = np.outer(x, np.ones(1000))
        return (np.exp(wide * 1e-3) * np.sin(wide)).mean(axis=1)

    steps = [small] * 5 + [large] + [small] * 5
    for _ in range(2):
        calls.update(small=0, large=0)
        sync.backward(ag.checkpoint_chain(steps, leaf_of(np.linspace(0, 1, 10)), memory_budget=700_000).sum())
    assert calls["small"] == 10
    with pytest.raises(ArgumentError, match=r"too small for this chain: at least \d+ bytes"):
        ag.checkpoint_chain(steps, leaf_of(np.linspace(0, 1, 10)), memory_budget=50_000)


def test_a_second_backward_starts_anew_from_the_first_state():
    calls, x = [], leaf(0.5)

    def step(x):
        calls.append(1)
        return np.sin(x)

    y = ag.checkpoint_chain([step] * 10, x, snapshots=3).sum()
    sync.backward(y, retain_graph=True)
    once = x.grad.item()
    assert len(calls) == 25
    sync.backward(y)
    assert len(calls) == 50
    assert x.grad.item() == 2 * once


def test_leaves_that_steps_refer_to_get_gradients_though_the_first_state_needs_none():
    w = leaf(0.5)

    y = ag.checkpoint_chain([lambda x: np.tanh(x * w)] * 5, ag.tensor([1.0]), snapshots=2)
    sync.backward(y.sum())

    plain, x = leaf(0.5), ag.tensor([1.0])
    for _ in range(5):
        x = np.tanh(x * plain)
    sync.backward(x.sum())
    assert w.grad.item() == plain.grad.item()


async def test_async_and_plain_steps_mix_and_only_the_chain_waits():
    other = asyncio.Event()

    async def waits(x):
        if ag.engine.current_graph_task() is not None:
            await other.wait()
        return np.sin(x)

    async def sets(grad):
        other.set()

    x, z = leaf(0.5), leaf(0.5)
    y = await ag.checkpoint_chain([waits, np.exp, waits], x, snapshots=1)
    side = np.sin(z)
    side.register_hook(sets)
    await ag.backward((y + side).sum())

    assert x.grad.item() == pytest.approx(np.cos(np.exp(np.sin(0.5))) * np.exp(np.sin(0.5)) * np.cos(0.5), rel=1e-14)


def test_a_limited_backward_is_refused():
    x = leaf(0.5)
    y = ag.checkpoint_chain([np.sin] * 3, x)
    with pytest.raises(GraphError, match=r"limited to some inputs.*ag\.checkpoint\(\.\.\., use_reentrant=False\)"):
        sync.grad(y, [x])


def test_where_grad_mode_is_off_the_steps_are_simply_called():
    with ag.no_grad():
        assert not ag.checkpoint_chain([np.sin] * 3, leaf(0.5)).requires_grad


@pytest.mark.parametrize(
    ("functions", "options", "error", "complaint"),
    [
        ([np.sin], {"snapshots": 0}, ArgumentError, "at least 1, not 0"),
        ([np.sin], {"snapshots": 1.5}, ArgumentTypeError, "an int, or 'log', not"),
        ([np.sin], {"snapshots": True}, ArgumentTypeError, "an int, or 'log', not"),
        ([np.sin], {"snapshots": "some"}, ArgumentTypeError, "an int, or 'log', not"),
        ([np.sin], {"memory_budget": 0}, ArgumentError, "from 1 up, not 0"),
        ([np.sin], {"memory_budget": 1e6}, ArgumentTypeError, "an int, not"),
        ([np.sin], {"memory_budget": 10, "snapshots": 3}, ArgumentError, "not both"),
        ([np.sin], {"memory_budget": 10}, ArgumentError, "at least 48 bytes are needed"),
        ([], {}, ArgumentError, "was given no functions"),
        (np.sin, {}, ArgumentTypeError, "a sequence of functions"),
        ([np.sin, 3], {}, ArgumentTypeError, "function 1 of ag.checkpoint_chain cannot be called"),
    ],
)
def test_budgets_and_functions_that_make_no_sense_are_refused(functions, options, error, complaint):
    with pytest.raises(error, match=complaint):
        ag.checkpoint_chain(functions, leaf(0.5), **options)


@pytest.mark.parametrize(
    ("functions", "segments", "error", "complaint"),
    [
        ([np.sin] * 3, 0, ArgumentError, "from 1 up to the number of functions, 3, not 0"),
        ([np.sin] * 3, 4, ArgumentError, "from 1 up to the number of functions, 3, not 4"),
        ([np.sin] * 3, 1.0, ArgumentTypeError, "segments must be an int"),
        ([], 1, ArgumentError, "was given no functions"),
    ],
)
def test_segments_that_make_no_sense_are_refused(functions, segments, error, complaint):
    with pytest.raises(error, match=complaint):
        ag.checkpoint_sequential(functions, segments, leaf(0.5))


def test_the_last_segment_is_not_checkpointed_and_takes_what_is_left_over():
    calls = []

    def function(number):
        def fn(x):
            calls.append(number)
            return np.sin(x)

        return fn

    y = ag.checkpoint_sequential([function(number) for number in range(8)], 3, leaf(0.5))
    calls.clear()
    sync.backward(y.sum())
    assert calls == [2, 3, 0, 1]


@on_each_loop
def test_a_sequence_with_async_functions_is_awaited(run):
    async def later(x):
        await asyncio.sleep(0)
        return np.sin(x)

    async def main(use_reentrant):
        x = leaf(0.5)
        y = await ag.checkpoint_sequential([np.exp, later, np.tanh, later], 2, x, use_reentrant=use_reentrant)
        await ag.backward(y.sum())
        return x.grad.item()

    plain = leaf(0.5)
    sync.backward(np.sin(np.tanh(np.sin(np.exp(plain)))).sum())
    assert run(main(True)) == run(main(False)) == plain.grad.item()
