"""The blocking driver: no loop where none is needed, one of its own where one is, an error where one runs already."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine import loops
from asyncgrad.errors import BlockingError
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.turns import at_once, one_turn, settle


@pytest.fixture
def no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("an event loop was started")

    monkeypatch.setattr(loops, "run", refuse)
    monkeypatch.setattr(asyncio, "new_event_loop", refuse)


@pytest.mark.usefixtures("no_loop")
def test_a_graph_without_an_async_body_runs_without_a_loop():
    x = leaf(2.0)
    middle = calling(np.multiply(x, x), lambda grad: None)
    middle.register_hook(lambda grad: None)

    sync.backward(np.multiply(middle, 3.0))

    assert x.grad.item() == 12.0


@pytest.mark.parametrize("body", [one_turn, at_once])
def test_a_graph_with_an_async_body_gets_a_loop_of_its_own(body):
    x = leaf(2.0)

    sync.backward(np.multiply(awaiting(np.multiply(x, x), body), 3.0))

    assert x.grad.item() == 12.0


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_graph_with_an_async_hook_gets_a_loop_of_its_own(register):
    x = leaf(2.0)
    getattr(x, register)(one_turn)

    sync.backward(np.multiply(x, x))

    assert x.grad.item() == 4.0


def test_on_the_loop_of_a_blocking_backward_bodies_wait_together():
    x = leaf(2.0)
    barrier = asyncio.Barrier(2)

    async def meets(grad):
        await barrier.wait()

    sync.backward(np.add(awaiting(x, meets), awaiting(x, meets)))

    assert x.grad.item() == 2.0


@on_each_loop
def test_where_a_loop_runs_a_body_that_does_not_suspend_is_stepped(run):
    async def main():
        x = leaf(2.0)
        sync.backward(np.multiply(awaiting(np.multiply(x, x), at_once), 3.0))
        assert x.grad.item() == 12.0

    run(main())


@on_each_loop
def test_where_a_loop_runs_a_body_that_suspends_raises_and_names_the_line_to_await(run):
    async def main():
        x, w = leaf(2.0), leaf(3.0)
        body = awaiting(x, one_turn)
        with pytest.raises(BlockingError) as caught:
            sync.backward(np.add(body, np.multiply(w, 2.0)))
        message = str(caught.value)
        assert f"AwaitingBackward (node #{body.grad_fn.sequence_nr})" in message
        assert "await ag.backward(...)" in message
        assert (x.grad, w.grad) == (None, None)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(main())


@on_each_loop
def test_tasks_that_a_body_which_may_not_suspend_had_started_are_cancelled(run):
    async def main():
        async def waits():
            await asyncio.Event().wait()

        async def gathers(grad):
            await asyncio.gather(waits(), waits())

        with pytest.raises(BlockingError):
            sync.backward(awaiting(leaf(1.0), gathers))
        await settle()

    run(main())


@on_each_loop
def test_a_body_of_a_blocking_backward_may_await_a_backward_of_its_own_with_and_without_a_loop(run):
    w = leaf(2.0)

    async def nested(grad):
        with ag.enable_grad():
            inner = np.multiply(w, 3.0)
        await ag.backward(inner)

    async def main():
        sync.backward(awaiting(leaf(1.0), nested))

    sync.backward(awaiting(leaf(1.0), nested))
    run(main())

    assert w.grad.item() == 6.0


def test_the_plain_part_runs_before_a_loop_is_started():
    """What has run without a loop does not run again on it."""
    ran: list[str] = []
    x = leaf(2.0)
    out = calling(awaiting(calling(x, lambda grad: ran.append("below")), one_turn), lambda grad: ran.append("above"))

    sync.backward(out)

    assert ran == ["above", "below"]
    assert x.grad.item() == 1.0


async def test_a_blocking_backward_in_a_thread_beside_a_running_loop_is_free_to_suspend():
    x = leaf(2.0)
    await asyncio.to_thread(sync.backward, awaiting(np.multiply(x, x), one_turn))
    assert x.grad.item() == 4.0
