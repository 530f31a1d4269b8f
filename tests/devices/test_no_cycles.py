"""A backward on other devices leaves nothing to the garbage collector: what is dropped is gone at once."""

from __future__ import annotations

import asyncio
import weakref
from contextvars import ContextVar

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.settings.context import CURRENT_GRAPH_TASK
from tests.devices.numbered import Numbered
from tests.support.loops import on_each_loop
from tests.support.references import alive

pytestmark = pytest.mark.usefixtures("only_the_loop_keeps")


class OneByOne(Numbered):
    """Runs bodies in its own way, one at a time."""

    max_in_flight = 1

    async def run_body(self, body):
        return body()


@pytest.fixture(params=["cpu", "null:0", "thread:0", "one-by-one"])
def place(request):
    return OneByOne() if request.param == "one-by-one" else ag.device(request.param)


def graph_there_and_back(place):
    """Return a tensor whose graph goes there and back, and weak references to what a backward is to let go of."""
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    middle = np.tanh(x.to(place) * 3.0) * x.to(place)
    seen = [weakref.ref(middle.grad_fn), weakref.ref(x)]

    def look(grad):
        seen.extend([weakref.ref(grad.numpy().base), weakref.ref(CURRENT_GRAPH_TASK.get())])

    middle.register_hook(look)
    x.register_hook(look)
    return (middle.to("cpu") + x).sum(), seen


async def worker_has_let_go(place):
    """Wait until the thread that ran a body last has let go of it, and the loop of what it has been told."""
    await place.call(int)
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.slow
async def test_an_awaited_backward_is_freed_with_its_graph(place):
    loss, seen = graph_there_and_back(place)
    await loss.backward()
    del loss
    await worker_has_let_go(place)
    assert len(seen) == 6
    assert alive(seen) == []


@pytest.mark.slow
@on_each_loop
def test_a_blocking_backward_is_freed_with_its_graph(run, place):
    loss, seen = graph_there_and_back(place)
    ag.sync.backward(loss)
    del loss
    run(worker_has_let_go(place))

    assert len(seen) == 6
    assert alive(seen) == []


@pytest.mark.slow
@on_each_loop
@pytest.mark.parametrize("blocks", [False, True], ids=["awaited", "blocking"])
def test_a_backward_that_fails_is_freed_with_its_graph(run, place, blocks):
    class Trouble(Exception):
        pass

    async def main():
        loss, seen = graph_there_and_back(place)
        failing = ag.tensor(1.0, device=place, requires_grad=True) * 2

        def fail(grad):
            raise Trouble

        failing.register_hook(fail)
        roots = [loss, failing]
        if blocks:
            with pytest.raises(Trouble):
                ag.sync.backward(roots)
        else:
            with pytest.raises(Trouble):
                await ag.backward(roots)
        del loss, failing, fail, roots
        await worker_has_let_go(place)
        assert alive(seen) == []

    run(main())


async def test_a_thread_of_a_device_keeps_nothing_of_the_context_that_it_was_started_in():
    """Neither the gradients on their way there, nor what the user has put into it."""
    mine: ContextVar[object] = ContextVar("mine")

    class Thing:
        pass

    place = ag.device("thread:1")
    thing = Thing()
    mine.set(thing)
    kept = weakref.ref(thing)
    await place.call(int)
    mine.set(None)
    del thing
    await worker_has_let_go(place)
    assert kept() is None
