"""Backward passes inside of bodies, over devices with one worker each: no deadlock, to any depth."""

from __future__ import annotations

import asyncio
import itertools
import threading

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import BlockingError
from tests.devices.waits import T0, T1, HeldInThread, HeldOnLoop, leaf_on, seen_by_all
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.turns import turns

PLACES = (T0, T1, "cpu")
ROUTES = list(itertools.product(PLACES, repeat=3))


def through_devices(x, level, route, inside):
    """A tensor whose backward runs through `inside(level)` on one device of the route, and ends on the next."""
    here, after = route[level % 3], route[(level + 1) % 3]
    return inside(x.to(here), level).sum().to(after)


def nested_awaited(route, depth, seen):
    def inside(x, level):
        async def body(grad):
            task = ag.engine.current_graph_task()
            node = ag.graph.current_node()
            seen.append((depth - level, task.reentrant_depth, task.owner, node.device.is_here()))
            if level:
                y = leaf(1.0, 2.0)
                with ag.enable_grad():
                    out = through_devices(y, level - 1, route, inside)
                await out.backward()
                assert y.grad.tolist() == [1.0, 1.0]

        return awaiting(x, body)

    return inside


@pytest.mark.sampled
@pytest.mark.parametrize("route", ROUTES, ids="-".join)
async def test_awaited_backwards_nest_to_depth_100_over_any_devices(route):
    seen, x = [], leaf(1.0, 2.0)
    await through_devices(x, 100, route, nested_awaited(route, 100, seen)).backward()
    grad = x.grad.tolist()
    index = {T0: 0, T1: 1, "cpu": ag.engine.CPU_DEVICE}
    # Each was called by a body on the device of the level around it.
    owners = [ag.engine.NO_DEVICE] + [index[route[level % 3]] for level in range(100, 0, -1)]

    assert grad == [1.0, 1.0]
    assert seen == [(depth, depth, owner, True) for depth, owner in enumerate(owners)]


def nested_blocking(route, names):
    def inside(x, level):
        def body(grad):
            names.append(ag.graph.current_node().device.is_here())
            if level:
                y = leaf(1.0, 2.0)
                with ag.enable_grad():
                    out = through_devices(y, level - 1, route, inside)
                sync.backward(out)
                assert y.grad.tolist() == [1.0, 1.0]

        return calling(x, body)

    return inside


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids="-".join)
def test_blocking_backwards_nest_to_depth_40_over_any_devices(route):
    seen, x = [], leaf(1.0, 2.0)

    sync.backward(through_devices(x, 40, route, nested_blocking(route, seen)))

    assert x.grad.tolist() == [1.0, 1.0]
    assert seen == [True] * 41


async def test_blocking_and_awaited_levels_nest_over_devices():
    blocking, waiting, x = [], [], leaf(1.0, 2.0)
    route = (T0, T1, T0)

    def inside(x, level):
        other = nested_awaited(route, 30, waiting) if level % 2 else nested_blocking(route, blocking)
        return other(x, level)

    await through_devices(x, 30, route, inside).backward()

    assert x.grad.tolist() == [1.0, 1.0]


async def test_a_backward_that_no_body_called_has_no_owner_and_one_in_a_callback_is_the_cpus():
    owners = []

    def note(grad):
        owners.append(ag.engine.current_graph_task().owner)

    async def inner():
        y = leaf(1.0)
        with ag.enable_grad():
            out = calling(y, note)
        await out.backward()

    x, out = leaf_on(T1, note)
    x.register_hook(lambda grad: ag.engine.queue_callback(inner))
    await out.backward()

    assert owners == [ag.engine.NO_DEVICE, ag.engine.CPU_DEVICE]


@pytest.mark.parametrize("name", ["null", "cpu", "null:4"])
async def test_the_owner_is_the_index_of_the_device_or_the_cpus(name):
    owners = []

    async def body(grad):
        y = leaf(1.0)
        with ag.enable_grad():
            out = calling(y, lambda grad: owners.append(ag.engine.current_graph_task().owner))
        await out.backward()

    await leaf_on(name, body)[1].backward()

    assert owners == [4 if ":" in name else ag.engine.CPU_DEVICE]


@on_each_loop
def test_only_one_thread_of_a_device_runs_at_a_time_while_others_stand_in(run):
    async def main():
        inside, overlaps, lock = [0], [], threading.Lock()

        def enter(change):
            with lock:
                inside[0] += change
                overlaps.append(inside[0])

        def body(grad):
            enter(1)
            enter(-1)
            y = leaf(1.0)
            with ag.enable_grad():
                out = calling(calling(y.to(T0), short).to(T1), lambda grad: None)
            sync.backward(out)
            enter(1)
            enter(-1)

        def short(grad):
            enter(1)
            enter(-1)

        async def several_steps():
            for _ in range(50):
                enter(1)
                enter(-1)
                await asyncio.sleep(0)

        tasks = [asyncio.ensure_future(leaf_on(T0, body)[1].backward()) for _ in range(10)]
        tasks += [asyncio.ensure_future(ag.device(T0).call(several_steps)) for _ in range(10)]
        await asyncio.gather(*tasks)
        return set(overlaps)

    assert run(main()) == {0, 1}


@on_each_loop
def test_a_body_that_blocked_goes_on_once_the_one_that_ran_meanwhile_has_ended(run):
    async def main():
        order, gate, meanwhile = [], HeldInThread(), HeldInThread()

        def blocks(grad):
            y = leaf(1.0)
            with ag.enable_grad():
                out = calling(y.to(T1), gate)
            sync.backward(out)
            order.append("goes on")

        def runs_meanwhile():
            meanwhile()
            order.append("meanwhile")

        blocked = asyncio.ensure_future(leaf_on(T0, blocks)[1].backward())
        await gate.begun.wait()
        other = asyncio.ensure_future(ag.device(T0).call(runs_meanwhile))
        await meanwhile.begun.wait()
        gate.let_go.set()
        # Each crosses threads twice, and the body that blocks is free to go on, but for the other one.
        for _ in range(20):
            await seen_by_all(T1)
        meanwhile.let_go.set()
        await asyncio.gather(blocked, other)
        return order

    assert run(main()) == ["meanwhile", "goes on"]


@on_each_loop
def test_a_suspended_body_goes_on_after_the_thread_that_stood_in_has_begun_it(run):
    async def main():
        held, gate = HeldOnLoop(), HeldInThread()

        def blocks(grad):
            y = leaf(1.0)
            with ag.enable_grad():
                out = calling(y.to(T1), gate)
            sync.backward(out)

        blocked = asyncio.ensure_future(leaf_on(T0, blocks)[1].backward())
        await gate.begun.wait()
        x, out = leaf_on(T0, held)
        suspended = asyncio.ensure_future(out.backward())
        await held.begun.wait()
        gate.let_go.set()
        await blocked
        held.let_go()
        await suspended
        return x.grad.item()

    assert run(main()) == 1.0


@on_each_loop
def test_an_error_comes_out_of_a_blocking_backward_on_another_device(run):
    problem = ValueError("no")

    def fail(grad):
        raise problem

    async def main():
        caught = []

        def body(grad):
            y = leaf(1.0)
            with ag.enable_grad():
                out = calling(y.to(T1), fail)
            try:
                sync.backward(out)
            except ValueError as error:
                caught.append(error)
            assert y.grad is None

        x, out = leaf_on(T0, body)
        await out.backward()
        return caught, x.grad.item()

    assert run(main()) == ([problem], 1.0)


@on_each_loop
def test_without_a_loop_a_blocking_backward_uses_the_devices(run):
    x = leaf(1.0, 2.0)
    names = []
    out = calling(x.to(T0), lambda grad: names.append(threading.current_thread().name)).sum()

    sync.backward(out)

    assert x.grad.tolist() == [1.0, 1.0]
    assert names == ["asyncgrad thread:0"]


# Locks.


async def test_a_node_whose_body_runs_on_a_worker_is_waited_for_from_elsewhere():
    held = HeldOnLoop()
    x, out = leaf_on(T0, held)
    first = asyncio.ensure_future(out.backward(retain_graph=True))
    await held.begun.wait()
    second = asyncio.ensure_future(out.backward(retain_graph=True))
    await turns()
    held.begun.clear()
    held.let_go()
    await first
    await held.begun.wait()
    held.let_go()
    await second

    assert x.grad.item() == 2.0


@on_each_loop
def test_a_blocking_backward_waits_for_a_node_that_a_worker_runs_for_a_loop_it_blocks(run):
    # The body ends on the worker's own loop, so nothing stands in its way.
    async def main():
        held = HeldInThread()
        x, out = leaf_on(T0, held)
        first = asyncio.ensure_future(out.backward(retain_graph=True))
        await held.begun.wait()
        held.let_go.set()
        sync.backward(out, retain_graph=True)
        await first
        return x.grad.item()

    assert run(main()) == 2.0


@on_each_loop
def test_a_blocking_backward_that_needs_a_body_suspended_on_the_worker_that_it_blocks_raises(run):
    async def main():
        held = HeldOnLoop()
        x, out = leaf_on(T0, held)
        first = asyncio.ensure_future(out.backward(retain_graph=True))
        await held.begun.wait()

        def blocks():
            with pytest.raises(BlockingError, match="Await it instead"):
                sync.backward(out, retain_graph=True)

        await ag.device(T0).call(blocks)
        held.let_go()
        await first
        return x.grad.item()

    assert run(main()) == 1.0


@on_each_loop
def test_a_node_waited_for_on_another_device_by_what_blocks_the_holders_thread_raises(run):
    async def main():
        held = HeldOnLoop()
        x, out = leaf_on(T0, held)
        first = asyncio.ensure_future(out.backward(retain_graph=True))
        await held.begun.wait()

        def blocks():
            async def inner(grad):
                await out.backward(retain_graph=True)

            y = leaf(1.0)
            with pytest.raises(BlockingError, match="Await it instead"):
                sync.backward(awaiting(y.to(T1), inner))

        await ag.device(T0).call(blocks)
        held.let_go()
        await first
        return x.grad.item()

    assert run(main()) == 1.0


async def test_bodies_of_two_devices_that_run_through_each_others_nodes_do_not_wait_for_ever():
    both = threading.Barrier(2)
    outs = []

    def through(other):
        async def body(grad):
            if ag.engine.current_graph_task().reentrant_depth:
                return
            await asyncio.get_running_loop().run_in_executor(None, both.wait, 60)
            await outs[other].backward(retain_graph=True)

        return body

    x, y = leaf(1.0), leaf(1.0)
    outs += [awaiting(x.to(T0), through(1)), awaiting(y.to(T1), through(0))]
    await asyncio.gather(*(out.backward(retain_graph=True) for out in outs))

    assert (x.grad.item(), y.grad.item()) == (2.0, 2.0)


# What stays as it is on one device.


async def test_a_hook_that_none_is_to_overlap_holds_up_nodes_from_any_thread():
    order, hook, held = [], HeldOnLoop(), HeldOnLoop()
    x, y = ag.tensor([1.0], device=T0, requires_grad=True), leaf(1.0)

    async def alone(tensor):
        await hook()
        order.append("hook")

    x.register_post_accumulate_grad_hook(alone, overlap=False)
    doubled = (x * 2).to("cpu")
    # Newer, and so begun first.
    late = awaiting(calling(y, lambda grad: order.append("node")), held)
    task = asyncio.ensure_future((late + doubled).backward())
    await held.begun.wait()
    await hook.begun.wait()
    held.let_go()
    await turns()
    hook.let_go()
    await task

    assert order == ["hook", "node"]


async def test_a_second_derivative_records_nodes_of_several_devices_in_the_same_order_each_time():
    orders = []
    for _ in range(10):
        x = leaf(0.3, 0.7)
        parts = [np.tanh(x.to(name) * number).to("cpu") for number, name in enumerate((T0, T1, T0, T1), 1)]
        out = sum(parts[1:], parts[0]).sum()
        (first,) = await ag.grad(out, [x], create_graph=True)
        seen, stack, nodes = set(), [first.grad_fn], []
        while stack:
            node = stack.pop()
            if node is not None and node not in seen:
                seen.add(node)
                nodes.append(node)
                stack += [edge.node for edge in node.next_edges]
        newest = min(node.sequence_nr for node in nodes)
        orders.append([(node.name, node.sequence_nr - newest) for node in nodes if node.name != "AccumulateGrad"])

    assert all(order == orders[0] for order in orders)
