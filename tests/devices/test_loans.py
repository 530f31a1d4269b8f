"""The place of a body on a device that takes few, while asyncgrad makes it wait: lent to whom it waits for alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.testing import explore
from tests.core.engine.schedules import each_order, no_task_is_left, randomness
from tests.devices.test_permits import Limited, copy_on, most_at_once, run_on
from tests.support.loops import one_loop
from tests.support.sampling import cases
from tests.support.turns import Held, one_turn, settle, turns


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("through", ["itself", "another limit", "a request", "a lock"])
async def test_a_body_that_waits_for_a_limit_lets_the_backward_run_that_its_holder_awaits(through, most):
    place, limit, behind = Limited(most), ag.limit(requests=1), ag.limit(requests=1)
    is_held, locked, ended = asyncio.Event(), copy_on(place, one_turn), []

    @ag.batched
    async def request(items):
        await run_on(place)
        return items

    async def wait_for_it():
        async with limit:
            ended.append("a body")

    async def keep_behind():
        async with behind:
            await until(lambda: limit.statistics().waiting == most)
            await run_on(place)

    async def hold():
        async with limit:
            is_held.set()
            await until(lambda: limit.statistics().waiting == most)
            if through == "itself":
                await run_on(place)
            elif through == "another limit":
                async with behind:
                    pass
            elif through == "a request":
                await request(0)
            else:
                await asyncio.gather(locked.backward(retain_graph=True), run_on(place))

    async with asyncio.timeout(10.0):
        others = [asyncio.ensure_future(keep_behind())] if through == "another limit" else []
        if through == "a lock":
            # It has the lock of its node before the other bodies have the places, and waits for one itself.
            others.append(asyncio.ensure_future(copy_on(place, one_turn).backward()))
        holder = asyncio.ensure_future(hold())
        await is_held.wait()
        bodies = [copy_on(place, wait_for_it).backward() for _ in range(most)]
        await asyncio.gather(holder, *bodies, *others)
        assert await most_at_once(place) == most

    assert ended == most * ["a body"]


@pytest.mark.parametrize("wait", ["call", "synchronize"])
async def test_a_body_that_waits_for_a_call_on_a_stream_lets_the_backward_run_that_the_call_awaits(wait):
    place, other, begin, ended = Limited(), ag.device("cpu"), asyncio.Event(), []
    stream = other.stream()

    async def call():
        await begin.wait()
        await run_on(place)

    async def body():
        if wait == "synchronize":
            await stream.record_event().synchronize()
        else:
            with stream:
                await other.call(one_turn)
        ended.append(True)

    async def in_turn():
        with stream:
            await other.call(call)

    async with asyncio.timeout(10.0):
        before = asyncio.ensure_future(in_turn())
        await settle()
        bodies = [asyncio.ensure_future(copy_on(place, body).backward()) for _ in range(2)]
        await settle()
        begin.set()
        await asyncio.gather(before, *bodies)
        assert await most_at_once(place) == 1

    assert ended == [True, True]


@pytest.mark.parametrize("use_reentrant", [False, True])
async def test_a_checkpointed_function_may_await_a_backward_on_the_device_that_calls_it_again(
    use_reentrant,
):
    place = Limited()

    async def function(x):
        first, second = np.exp(x), np.sin(x)
        await run_on(place)
        return np.sin(first) * second

    x = ag.tensor(1.0, device=place, requires_grad=True)
    async with asyncio.timeout(10.0):
        out = await ag.checkpoint(function, x, use_reentrant=use_reentrant)
        await out.backward()
        assert await most_at_once(place) == 1

    assert x.grad.item() == pytest.approx(np.cos(np.e) * np.e * np.sin(1.0) + np.sin(np.e) * np.cos(1.0))


async def until(is_so):
    while not is_so():
        await turns(1)


async def test_a_body_that_waits_for_a_limit_lets_a_node_run_whose_lock_the_holder_waits_for():
    place, limit, is_held, begin = Limited(), ag.limit(requests=1), asyncio.Event(), asyncio.Event()
    shared = copy_on(place, one_turn)

    async def body():
        async with limit:
            pass

    async def hold():
        async with limit:
            is_held.set()
            await begin.wait()
            await shared.backward(retain_graph=True)

    async with asyncio.timeout(10.0):
        holder = asyncio.ensure_future(hold())
        await is_held.wait()
        waiting = asyncio.ensure_future(copy_on(place, body).backward())
        await until(lambda: limit.statistics().waiting == 1)
        # Outside of the limit: it has the lock, and waits for the place of the body.
        outside = asyncio.ensure_future(shared.backward(retain_graph=True))
        await settle()
        assert not outside.done()
        begin.set()
        await asyncio.gather(holder, waiting, outside)
        assert await most_at_once(place) == 1


async def test_a_body_that_waits_for_a_limit_keeps_its_place_from_all_that_it_does_not_wait_for():
    place, limit, begun, let_go = Limited(), ag.limit(requests=1), [], asyncio.Event()

    async def body():
        begun.append(True)
        async with limit:
            pass

    async def hold():
        async with limit:
            await let_go.wait()
            await run_on(place)
            await settle()
            return list(begun)

    holder = asyncio.ensure_future(hold())
    await settle()
    tasks = [asyncio.ensure_future(copy_on(place, body).backward()) for _ in range(3)]
    await settle()
    before = list(begun)
    let_go.set()
    after = await holder
    await asyncio.gather(*tasks)

    assert (before, after) == ([True], [True])


async def test_a_body_has_its_place_back_before_it_goes_on_from_a_limit():
    place, limit, inner = Limited(), ag.limit(requests=1), Held()
    events = []

    async def body():
        async with limit:
            events.append("goes on")

    async def hold():
        async with limit:
            task = asyncio.ensure_future(copy_on(place, lambda: inner(None)).backward())
            await inner.begun.wait()
        return task

    is_held = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(copy_on(place, body).backward())
    task = await is_held
    await settle()
    description, before = str(ag.engine.describe_running()), list(events)
    inner.let_go.set()
    await asyncio.gather(task, waiting)

    assert f"waits for a permit of device '{place}'" in description
    assert (before, events) == ([], ["goes on"])


@pytest.mark.parametrize("when", ["in line", "for its place"])
async def test_a_body_that_stops_waiting_for_a_limit_has_its_place_and_leaves_nothing(when):
    place, limit, inner, last = Limited(), ag.limit(requests=1), Held(), Held()
    timeouts, is_held, let_go = [], asyncio.Event(), asyncio.Event()

    async def impatient():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as timeout:
                timeouts.append(timeout)
                async with limit:
                    raise AssertionError("it stopped waiting before")
        await last(None)

    async def hold():
        async with limit:
            is_held.set()
            await until(lambda: limit.statistics().waiting == 1)
            task = asyncio.ensure_future(copy_on(place, lambda: inner(None)).backward())
            await inner.begun.wait()
            await let_go.wait()
        return task

    holder = asyncio.ensure_future(hold())
    await is_held.wait()
    body = asyncio.ensure_future(copy_on(place, impatient).backward())
    await inner.begun.wait()
    if when == "for its place":
        let_go.set()
        await settle()
    timeouts.pop().reschedule(0.0)
    await last.begun.wait()
    other = asyncio.ensure_future(run_on(place))
    inner.let_go.set()
    let_go.set()
    await settle()
    was_done = other.done()
    last.let_go.set()
    await asyncio.gather(await holder, body, other)

    assert not was_done
    assert (limit.statistics().running, limit.statistics().waiting) == (0, 0)
    assert await most_at_once(place) == 1


@one_loop
@pytest.mark.parametrize("ends", ["both", "the body's loop first"])
async def test_a_limit_of_two_loops_has_the_places_of_bodies_of_the_one_lent_to_those_of_the_other(ends):
    place, limit, entered, in_line = Limited(), ag.limit(requests=1), threading.Event(), threading.Event()

    async def body():
        async with limit:
            entered.set()

    async def begin():
        waiting = asyncio.ensure_future(copy_on(place, body).backward())
        await until(lambda: limit.statistics().waiting == 1)
        in_line.set()
        if ends == "both":
            await waiting

    def beside():
        asyncio.run(begin())
        gc.collect()

    async with asyncio.timeout(10.0):
        async with limit:
            other = asyncio.ensure_future(asyncio.to_thread(beside))
            await until(in_line.is_set)
            await run_on(place)
            assert not entered.is_set()
        await other

    assert entered.is_set() == (ends == "both")
    assert (limit.statistics().running, limit.statistics().waiting) == (0, 0)
    assert await most_at_once(place) == 1


@each_order
def test_bodies_limits_and_requests_in_any_schedule_come_to_an_end_within_the_limits(order):
    async def main():
        random = randomness()
        places = [Limited(random.choice([1, 1, 2])) for _ in range(random.choice([1, 2]))]
        limits = [ag.limit(requests=random.choice([1, 1, 2])) for _ in range(2)]
        counts = dict.fromkeys(places, 0)

        async def wait(place, entered):
            """Enter what may make the caller wait, and count its body out of the device meanwhile."""
            if place is not None:
                counts[place] -= 1
            try:
                return await entered
            finally:
                if place is not None:
                    counts[place] += 1
                    assert counts[place] <= place.max_in_flight

        @ag.batched(max_size=2)
        async def request(items):
            # Of one level, as those of a program are that does not wait for itself.
            await work(None, max(items), 2)
            return items

        async def work(place, level, depth):
            """Do something that needs limits from `level` on alone."""
            kind = random.choice(["turns", "limit", "limit", "backward", "request"] if depth else ["turns", "limit"])
            if kind == "turns" or level == len(limits):
                await turns(random.randrange(3))
            elif kind == "limit":
                held = min(random.randrange(level, len(limits)) for _ in range(2))
                await wait(place, limits[held].__aenter__())
                try:
                    await work(place, held + 1, depth)
                finally:
                    await limits[held].__aexit__(None, None, None)
            elif kind == "backward":
                await wait(place, backward(level, depth - 1))
            else:
                await wait(place, request(level))

        async def backward(level, depth):
            with ag.enable_grad():
                out = step(random.choice(places), level, depth)
            await out.backward()

        def step(place, level, depth):
            async def body():
                counts[place] += 1
                assert counts[place] <= place.max_in_flight
                try:
                    await work(place, level, depth)
                finally:
                    counts[place] -= 1

            return copy_on(place, body)

        await asyncio.gather(*(work(None, 0, 3) for _ in range(6)))
        assert set(counts.values()) == {0}
        assert [limit.statistics().running for limit in limits] == [0, 0]
        for place in places:
            assert await most_at_once(place) == place.max_in_flight
        assert no_task_is_left()

    assert explore(main, seeds=cases(300), order=order).distinct > 1
