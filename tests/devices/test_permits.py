"""The place of a body on a device that takes few: lent while the body waits for a backward, and had once afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

import asyncgrad as ag
from asyncgrad.testing.device_contract import AwaitingCopy
from tests.devices.numbered import Numbered
from tests.support.functions import Doubled
from tests.support.turns import Held, one_turn, settle, turns


class Limited(Numbered):
    """Runs bodies as any device does, and so many at a time."""

    def __init__(self, most=1):
        super().__init__()
        self.max_in_flight = most


def copy_on(place, body):
    return AwaitingCopy.apply(ag.tensor(1.0, device=place, requires_grad=True), body)


async def run_on(place):
    with ag.enable_grad():
        out = Doubled.apply(copy_on(place, one_turn))
    await out.backward()


async def most_at_once(place):
    """How many bodies the device runs at a time, once it runs as many as it allows."""
    inside, most, let_go = 0, 0, asyncio.Event()

    async def body():
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await let_go.wait()
        inside -= 1

    work = [asyncio.ensure_future(copy_on(place, body).backward()) for _ in range(4)]
    while inside < place.max_in_flight:
        await turns(1)
    await turns(5)
    let_go.set()
    await asyncio.gather(*work)
    return most


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("lend", ["backward passes", "requests"])
async def test_a_body_that_lends_its_place_for_several_at_once_needs_one_afterwards(lend, most):
    place = Limited(most)

    @ag.batched(max_size=1)
    async def request(items):
        await run_on(place)
        return items

    async def wait_for(start):
        await turns(start)
        await (run_on(place) if lend == "backward passes" else request(start))

    for start in range(10, 21, 2):

        async def body(start=start):
            await asyncio.gather(wait_for(0), wait_for(start))

        async with asyncio.timeout(10.0):
            await asyncio.gather(*(copy_on(place, body).backward() for _ in range(most + 1)), run_on(place))
            assert await most_at_once(place) == most


@pytest.mark.parametrize("lend", ["a backward", "a request"])
async def test_a_body_that_stops_waiting_for_its_place_has_it_all_the_same(lend):
    place, inner, other, last = Limited(), Held(), Held(), Held()
    events = []

    async def nest():
        with ag.enable_grad():
            out = copy_on(None, lambda: inner(None))
        await out.backward()

    @ag.batched
    async def request(items):
        # The body lends its place to what it waits for alone, which may go on where it does.
        start_other()
        await other.begun.wait()
        await inner(None)
        return items

    def start_other():
        with ag.enable_grad():
            tasks.append(asyncio.ensure_future(copy_on(place, lambda: other(None)).backward()))

    async def impatient():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as timeout:
                events.append(timeout)
                await (nest() if lend == "a backward" else request(0))
        await last(None)

    async def third():
        events.append("third")

    tasks = []
    tasks.append(asyncio.ensure_future(copy_on(place, impatient).backward()))
    await inner.begun.wait()
    if lend == "a backward":
        start_other()
    await other.begun.wait()
    inner.let_go.set()
    await settle()

    description = str(ag.engine.describe_running())
    events.pop().reschedule(0.0)
    await last.begun.wait()
    tasks.append(asyncio.ensure_future(copy_on(place, third).backward()))
    other.let_go.set()
    await settle()
    before = list(events)
    last.let_go.set()
    await asyncio.gather(*tasks)

    assert f"waits for a permit of device '{place}'" in description
    assert (before, events) == ([], ["third"])
    assert await most_at_once(place) == 1


@pytest.mark.parametrize("needs", ["the place", "the node", "the place by another request"])
async def test_a_request_that_is_cancelled_may_run_a_backward_that_needs_what_the_body_holds(needs):
    place, ended = Limited(), []

    @ag.batched
    async def clean_up(items):
        await run_on(place)
        return items

    @ag.batched
    async def request(items):
        try:
            return await held(None)
        finally:
            if needs == "the node":
                await out.backward(retain_graph=True)
            else:
                await (run_on(place) if needs == "the place" else clean_up(0))
            ended.append(True)

    held, asked = Held(), []

    async def ask():
        if not asked:
            asked.append(True)
            await request(0)

    out = copy_on(None if needs == "the node" else place, ask)
    task = asyncio.ensure_future(out.backward(retain_graph=True))
    await held.begun.wait()
    task.cancel()
    async with asyncio.timeout(10.0):
        with pytest.raises(asyncio.CancelledError):
            await task

    assert ended == [True]
    assert await most_at_once(place) == 1


def test_a_loop_that_is_dropped_releases_its_permits_also_where_others_of_its_bodies_wait_for_them():
    place = Limited()

    async def for_ever():
        await asyncio.Event().wait()

    async def sees_it_free():
        async with asyncio.timeout(10.0):
            await run_on(place)

    loop = asyncio.new_event_loop()
    passes = [loop.create_task(copy_on(place, for_ever).backward()) for _ in range(3)]
    for task in passes:
        task._log_destroy_pending = False
    gathered = asyncio.gather(*passes)
    loop.run_until_complete(turns(10))
    loop.close()
    del gathered, loop, passes, task
    gc.collect()
    asyncio.run(sees_it_free())
