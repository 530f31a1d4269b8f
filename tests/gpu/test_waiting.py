"""Waiting for the GPU suspends a task and no loop; outside of a loop it blocks."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import asyncgrad as ag


async def turns_while(waiting):
    """How many turns other tasks of the loop get while something is awaited."""
    task = asyncio.ensure_future(waiting)
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    await task
    return turns


@pytest.mark.parametrize("what", ["device", "stream", "event"])
async def test_other_tasks_run_while_one_waits_for_the_gpu(gpu, spin, what):
    stream = gpu.stream()
    spin(stream)
    event = stream.record_event()
    before = event.query()
    turns = await turns_while({"device": gpu, "stream": stream, "event": event}[what].synchronize())
    after = event.query()

    assert (before, after) == (False, True)
    assert turns > 100


async def test_waiting_for_work_that_has_ended_takes_no_time(gpu):
    await gpu.synchronize()
    event = gpu.current_stream().record_event()
    await gpu.synchronize()

    assert event.query()


async def test_many_tasks_wait_for_events_of_several_streams_each_to_its_own_end(gpu, spin):
    ended = []
    first, second = gpu.stream(), gpu.stream()
    spin(first, 200_000_000)
    events = {"late": first.record_event(), "early": second.record_event()}

    async def wait(name):
        await events[name].synchronize()
        ended.append(name)

    await asyncio.gather(*(wait(name) for name in ("late", "early", "late", "early")))

    assert ended == ["early", "early", "late", "late"]


async def test_a_wait_that_is_cancelled_leaves_the_gpu_and_the_loop_as_they_were(gpu, spin):
    spin(gpu.default_stream())
    task = asyncio.ensure_future(gpu.synchronize())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gpu.synchronize()

    assert gpu.default_stream().query()


def test_without_a_loop_it_blocks_until_the_work_has_ended(gpu, spin):
    spin(gpu.default_stream())
    event = gpu.default_stream().record_event()
    before = event.query()

    gpu.synchronize()

    assert (before, event.query()) == (False, True)


async def test_other_tasks_run_while_a_backward_waits_for_a_hook_that_waits_for_the_gpu(gpu, spin):
    x = ag.tensor([2.0], device=gpu, requires_grad=True)
    y = x * x

    async def wait(grad):
        spin(gpu.current_stream())
        await gpu.current_stream().synchronize()

    y.register_hook(wait)
    turns = await turns_while(y.sum().backward())
    grad = x.grad.to("cpu").tolist()

    assert turns > 100
    assert grad == [4.0]


async def test_training_with_large_products_does_not_fill_the_queue_of_the_gpu(gpu, cupy):
    """A full queue would block the loop in the middle of a forward."""

    w = ag.tensor(np.full((2048, 2048), 1e-4, np.float32), device=gpu, requires_grad=True)
    events = []
    for _ in range(60):
        y = w
        for _ in range(6):
            y = y @ w
        w.grad = None
        await y.sum().backward()
        events.append(gpu.default_stream().record_event())
    behind = sum(not event.query() for event in events)
    await gpu.synchronize()

    assert behind < 30
