"""While a nested backward waits, what is ready around it runs; where both are ready, the deeper one goes first."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.engine.task_group import DepthScheduler
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import Held, settle


async def test_the_queue_of_the_outer_backward_goes_on_while_a_nested_one_waits():
    inner_held, ran = Held(), []
    x, w = leaf(3.0), leaf(2.0)

    async def nests(grad):
        with ag.enable_grad():
            inner = awaiting(w, inner_held)
        await ag.backward(inner)
        ran.append("nested")

    rest = calling(calling(x, lambda grad: ran.append("second")), lambda grad: ran.append("first"))
    task = asyncio.ensure_future(ag.backward(np.add(rest, awaiting(leaf(1.0), nests))))
    await inner_held.begun.wait()
    await settle()
    assert ran == ["first", "second"]
    assert x.grad.item() == 1.0
    assert w.grad is None
    inner_held.let_go.set()
    await task
    assert ran == ["first", "second", "nested"]
    assert w.grad.item() == 1.0


def deepening(levels: int, gate: asyncio.Event, ran: list[Any], tag: str) -> ag.Tensor:
    """At each level a body waits for the same event, and a node below it tells that its driver has gone on."""

    async def waits(grad):
        await gate.wait()

    async def nests(grad):
        await ag.backward(deepening(levels - 1, gate, ran, tag))

    def tells(grad):
        ran.append((ag.engine.current_graph_task().reentrant_depth, tag))

    with ag.enable_grad():
        out = awaiting(calling(leaf(1.0), tells), waits)
        return np.add(out, awaiting(leaf(1.0), nests)) if levels else out


@pytest.mark.parametrize("levels", [1, 2, 5, 33])
async def test_what_is_ready_in_deeper_backwards_runs_before_what_is_ready_further_out(levels):
    gate, ran = asyncio.Event(), []
    task = asyncio.ensure_future(ag.backward(deepening(levels, gate, ran, "")))
    for _ in range(3):
        await settle()
    assert ran == []
    gate.set()
    await task
    assert [depth for depth, _ in ran] == list(reversed(range(levels + 1)))


async def test_what_is_ready_in_deeper_backwards_runs_first_between_cousins_too():
    """Two bodies of one backward each nest; the deeper end of one goes before the shallow end of the other."""

    gate, ran = asyncio.Event(), []

    def branch(levels, tag):
        async def nests(grad):
            await ag.backward(deepening(levels, gate, ran, tag))

        return awaiting(leaf(1.0), nests)

    for levels in ((3, 1), (1, 3), (2, 2)):
        gate.clear()
        ran.clear()
        out = np.add(branch(levels[0], "left"), branch(levels[1], "right"))
        task = asyncio.ensure_future(ag.backward(out))
        for _ in range(3):
            await settle()
        gate.set()
        await task
        depths = [depth for depth, _ in ran]
        assert depths == sorted(depths, reverse=True)
        assert sorted(depths) == sorted([*range(1, levels[0] + 2), *range(1, levels[1] + 2)])


async def test_of_drivers_that_wait_the_deepest_goes_on_first_and_then_the_first_to_come():
    drivers, went = DepthScheduler(asyncio.get_running_loop()), []

    async def driver(depth, name):
        drivers.wake(depth)
        try:
            await asyncio.sleep(0)
            await drivers.turn(depth)
        finally:
            drivers.leave(depth)
        went.append(name)

    tasks = [asyncio.ensure_future(driver(int(name[0]), name)) for name in ("0a", "2a", "0b", "7a", "2b", "1a")]
    await asyncio.gather(*tasks)
    assert went == ["7a", "2a", "2b", "1a", "0a", "0b"]
    assert len(drivers) == 0


async def test_a_deeper_driver_that_is_cancelled_holds_up_nobody():
    drivers = DepthScheduler(asyncio.get_running_loop())
    for depth in (9, 5):
        drivers.wake(depth)

    async def driver(depth):
        drivers.wake(depth)
        try:
            await drivers.turn(depth)
        finally:
            drivers.leave(depth)

    waiting = [asyncio.ensure_future(driver(depth)) for depth in (3, 4, 0)]
    await settle()
    assert not any(task.done() for task in waiting)
    waiting[1].cancel()
    drivers.leave(9)
    await settle()
    assert [task.done() for task in waiting] == [False, True, False]
    drivers.leave(5)
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(drivers) == 0
