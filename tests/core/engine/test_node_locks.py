"""One graph in several backward passes at once, on one loop: each body and its release run alone."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import math
import sys
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.engine.node_lock import acquire, release, try_acquire
from asyncgrad.core.engine.task_group import DepthScheduler
from asyncgrad.errors import ReleasedGraphError
from asyncgrad.testing import explore
from tests.core.engine.locking import GRAPHS, Watch, is_at_rest, saving
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.sampling import cases
from tests.support.settings import loop_budget
from tests.support.turns import Held, settle, turns

each_graph = pytest.mark.parametrize("graph", GRAPHS)


async def outcomes(*backwards: Any) -> list[Any]:
    return await asyncio.gather(*backwards, return_exceptions=True)


@each_graph
async def test_a_body_and_its_release_run_alone_and_sums_are_whole(graph):
    x, watch = leaf(3.0), Watch()
    out = GRAPHS[graph](x, watch)
    await asyncio.gather(*[ag.backward(out, np.ones(1), retain_graph=True) for _ in range(7)])
    assert watch.overlaps == []
    assert watch.runs == 7
    assert x.grad.item() == 14.0
    assert is_at_rest(out)


@pytest.mark.slow
@each_graph
def test_a_body_and_its_release_run_alone_and_sums_are_whole_in_a_thousand_schedules(graph):
    async def main():
        x, watch = leaf(3.0), Watch()
        out = GRAPHS[graph](x, watch)

        async def backward(factor):
            await asyncio.sleep(0)
            await ag.backward(out, np.full(1, factor), retain_graph=True)

        await asyncio.gather(backward(1.0), backward(10.0), backward(100.0))
        assert watch.overlaps == []
        assert x.grad.item() == 222.0
        assert is_at_rest(out)

    explore(main, seeds=cases(1000 if graph in ("async Function", "async tensor hook") else 100))


@pytest.mark.parametrize("awaits", [False, True])
def test_without_retain_graph_one_succeeds_and_the_others_say_that_the_graph_is_released(awaits):
    async def main():
        x, watches = leaf(3.0), [Watch(), Watch(), Watch()]
        out = x
        for watch in watches:
            out = saving(out, watch, awaits=awaits)

        async def backward():
            await asyncio.sleep(0)
            await ag.backward(out)

        results = await outcomes(*[backward() for _ in range(3)])
        assert [watch.overlaps for watch in watches] == [[]] * 3
        failed = [result for result in results if result is not None]
        assert len(failed) == 2
        assert {type(result) for result in failed} == {ReleasedGraphError}
        assert x.grad.item() == 8.0
        assert is_at_rest(out)

    explore(main, seeds=cases(300))


@pytest.mark.parametrize("root_saves", [False, True])
def test_without_retain_graph_gradients_agree_with_those_that_succeeded_also_where_branches_overlap(root_saves):
    """Where the root saves something, who runs it first succeeds; else two may each release what the other needs."""

    async def main():
        x = leaf(3.0)
        first, second = (saving(saving(x, Watch(), awaits=True), Watch(), awaits=True) for _ in range(2))
        out = np.add(first, second)
        if root_saves:
            out = saving(out, Watch(), awaits=True)

        async def backward(factor):
            await asyncio.sleep(0)
            await ag.backward(out, np.full(1, factor))

        factors = [1.0, 10.0, 100.0]
        results = await outcomes(*map(backward, factors))
        assert {type(result) for result in results} <= {type(None), ReleasedGraphError}
        succeeded = sum(factor for factor, result in zip(factors, results, strict=True) if result is None)
        if root_saves:
            assert results.count(None) == 1
        assert (0.0 if x.grad is None else x.grad.item()) == (16.0 if root_saves else 8.0) * succeeded
        assert is_at_rest(out)

    explore(main, seeds=cases(300))


async def test_waiters_for_a_lock_get_it_in_the_order_of_arrival():
    gate = asyncio.Event()
    served: list[float] = []

    async def body(grad):
        served.append(grad.item())
        await gate.wait()

    out = awaiting(leaf(1.0), body)
    tasks = []
    for factor in range(5):
        tasks.append(asyncio.ensure_future(ag.backward(out, np.full(1, float(factor)), retain_graph=True)))
        await settle()
    assert served == [0.0]
    gate.set()
    await asyncio.gather(*tasks)
    assert served == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert is_at_rest(out)


async def test_while_one_waits_for_a_lock_its_other_nodes_go_on():
    held, other = Held(), asyncio.Event()

    async def tells(grad):
        other.set()

    shared = awaiting(leaf(1.0), held)
    first = asyncio.ensure_future(ag.backward(shared, retain_graph=True))
    await held.begun.wait()
    second = asyncio.ensure_future(ag.backward(np.add(awaiting(leaf(1.0), tells), shared), retain_graph=True))
    await other.wait()
    assert not second.done()
    held.let_go.set()
    await asyncio.gather(first, second)
    assert is_at_rest(shared)


async def test_the_lock_of_a_body_that_fails_goes_to_the_next():
    x, held = leaf(1.0), Held()

    async def body(grad):
        if grad.item() == 1.0:
            await held(grad)
            raise Trouble

    out = awaiting(x, body)
    tasks = [asyncio.ensure_future(ag.backward(out, np.full(1, grad), retain_graph=True)) for grad in (1.0, 7.0)]
    await settle()
    held.let_go.set()
    failed, succeeded = await outcomes(*tasks)
    assert type(failed) is Trouble
    assert succeeded is None
    assert x.grad.item() == 7.0
    assert is_at_rest(out)


@pytest.mark.parametrize("where", ["pre hook", "body", "check of what it returned", "post hook"])
async def test_the_lock_of_a_node_goes_to_the_next_whatever_part_of_the_node_fails(where):
    x, held, fails = leaf(1.0), Held(), [where]

    def fail_in(what):
        if what in fails:
            fails.remove(what)
            raise Trouble

    def body(grad):
        fail_in("body")
        return fails.pop() if fails == ["check of what it returned"] else None

    out = calling(x, body)
    out.register_hook(held)
    out.grad_fn.register_prehook(lambda grads: fail_in("pre hook"))
    out.grad_fn.register_hook(lambda outputs, grads: fail_in("post hook"))
    tasks = [asyncio.ensure_future(ag.backward(out, retain_graph=True)) for _ in range(2)]
    await settle()
    held.let_go.set()
    results = await outcomes(*tasks)
    assert [result is None for result in results] == [False, True]
    assert x.grad.item() == 1.0
    assert is_at_rest(out)


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("which", [0, 1, 2])
async def test_of_three_backward_passes_any_may_be_cancelled_at_any_turn_and_the_others_have_happened(which, turns):
    x, watch = leaf(1.0), Watch()
    out = awaiting(np.multiply(awaiting(x, watch.wait), 2.0), Watch().wait)
    factors = [1.0, 10.0, 100.0]
    tasks = [asyncio.ensure_future(ag.backward(out, np.full(1, grad), retain_graph=True)) for grad in factors]
    for _ in range(turns):
        await asyncio.sleep(0)
    tasks[which].cancel()
    results = await outcomes(*tasks)
    assert watch.overlaps == []
    expected = sum(grad for grad, result in zip(factors, results, strict=True) if result is None)
    assert [result is None for index, result in enumerate(results) if index != which] == [True, True]
    assert x.grad.item() == 2.0 * expected
    assert is_at_rest(out)


async def test_a_lock_that_is_handed_to_one_that_was_cancelled_at_once_goes_on_to_the_next():
    """The holder lets go and the first in the queue is cancelled in the same turn, in both orders."""

    for cancel_first in (False, True):
        x, held = leaf(1.0), Held()
        out = awaiting(x, held)
        # The first ends in the turn in which it lets go, however busy the machine is.
        with loop_budget(60):
            tasks = [asyncio.ensure_future(ag.backward(out, retain_graph=True)) for _ in range(3)]
        await settle()
        if cancel_first:
            tasks[1].cancel()
            held.let_go.set()
        else:
            held.let_go.set()
            await tasks[0]
            tasks[1].cancel()
        results = await outcomes(*tasks)
        assert [type(result) for result in results] == [type(None), asyncio.CancelledError, type(None)]
        assert x.grad.item() == 2.0
        assert is_at_rest(out)


class Task:
    """As much of a GraphTask as a lock looks at."""

    id = sys.maxsize
    outer = None
    is_running = True
    remote_jobs = None
    context = contextvars.Context()

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None):
        self.scheduler = None if loop is None else DepthScheduler(loop)


async def test_a_waiter_that_is_given_the_lock_and_cancelled_before_it_runs_gives_it_back():
    out = calling(leaf(1.0), lambda grad: None)
    node, meta = out.grad_fn, out.grad_fn.meta
    first, second, third = (Task(asyncio.get_running_loop()) for _ in range(3))
    assert try_acquire(meta, first)
    assert not try_acquire(meta, second)
    waits = [asyncio.ensure_future(acquire(meta, node, task)) for task in (second, third)]
    await asyncio.sleep(0)
    release(meta, first)
    assert meta.holder is second
    waits[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits[0]
    release(meta, second)
    await waits[1]
    assert meta.holder is third
    release(meta, third)
    assert is_at_rest(out)


def test_giving_back_a_lock_that_one_does_not_hold_changes_nothing():
    out = calling(leaf(1.0), lambda grad: None)
    meta, holder = out.grad_fn.meta, Task()
    assert try_acquire(meta, holder)
    release(meta, Task())
    assert meta.holder is holder
    release(meta, holder)
    release(meta, holder)
    assert is_at_rest(out)


def test_a_free_lock_is_taken_and_given_back_without_any_allocation():
    out = calling(leaf(1.0), lambda grad: None)
    meta, task = out.grad_fn.meta, Task()

    def many() -> int:
        before = sys.getallocatedblocks()
        for _ in range(10_000):
            try_acquire(meta, task)
            release(meta, task)
        return sys.getallocatedblocks() - before

    many()
    # The numbers that it counts with, and what else the process does; an allocation for each lock would be 10,000.
    assert min(many() for _ in range(5)) < 100


async def test_a_backward_that_nobody_contends_with_does_not_suspend():
    for graph in GRAPHS:
        if graph.startswith("async"):
            continue
        x = leaf(3.0)
        out = GRAPHS[graph](x, Watch())
        with loop_budget(math.inf):
            backward = ag.backward(out, np.ones(1))
            with pytest.raises(StopIteration):
                backward.send(None)
        assert x.grad.item() == 2.0


def test_a_loop_that_is_dropped_gives_the_locks_back_that_others_of_its_backward_passes_wait_for():
    limit = ag.limit(requests=1)

    async def hold(grad):
        async with limit:
            await asyncio.Event().wait()

    out = awaiting(leaf(1.0), hold)
    loop = asyncio.new_event_loop()
    passes = [loop.create_task(out.backward(retain_graph=True)) for _ in range(2)]
    for task in passes:
        task._log_destroy_pending = False
    gathered = asyncio.gather(*passes)
    loop.run_until_complete(turns(10))
    assert limit.statistics().running == 1
    loop.close()
    del gathered, loop, passes, task
    gc.collect()
    assert limit.statistics().running == 0
    assert is_at_rest(out)
