"""A forked child: what the backward passes of its parent hold, or wait for, is free."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import numpy as np
import pytest

import asyncgrad as ag
from tests.devices.test_permits import Limited, copy_on, most_at_once, run_on
from tests.support.turns import one_turn, settle, turns

pytestmark = [
    # Python warns of forks beside threads, which other tests have started.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


def status_of_child(function):
    """The exit status of a forked child that calls a function: 0 where that returns."""
    child = os.fork()
    if not child:
        signal.alarm(10)
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def test_a_child_of_a_body_has_a_device_to_itself():
    place, statuses = Limited(1), []

    async def body():
        await settle()
        statuses.append(status_of_child(lambda: asyncio.run(run_on(place))))

    await asyncio.gather(copy_on(place, body).backward(), copy_on(place, one_turn).backward())

    assert statuses == [0]
    assert await most_at_once(place) == 1


def test_a_child_runs_through_a_node_that_another_thread_of_its_parent_runs():
    holds, waits, goes_on = threading.Event(), threading.Event(), threading.Event()

    async def body():
        holds.set()
        while not goes_on.is_set():
            await turns(1)

    x = ag.tensor(1.0, requires_grad=True)
    with ag.enable_grad():
        out = copy_on(None, body) * x

    async def run():
        await out.backward(np.ones(()), retain_graph=True)

    async def run_two():
        first = asyncio.ensure_future(run())
        await settle()
        second = asyncio.ensure_future(run())
        await settle()
        waits.set()
        await asyncio.gather(first, second)

    def run_in_child():
        goes_on.set()
        asyncio.run(run_two())

    thread = threading.Thread(target=lambda: asyncio.run(run_two()))
    thread.start()
    try:
        assert holds.wait(30)
        assert waits.wait(30)
        status = status_of_child(run_in_child)
    finally:
        goes_on.set()
        thread.join()

    assert status == 0
    assert x.grad.item() == 2.0
