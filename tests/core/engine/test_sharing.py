"""Several backward passes at once that share leaves: each happens or does not, whatever the others do."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.settings.context import CURRENT_GRAPH_TASK
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import Held, settle


def early_then_held(w: ag.Tensor, factor: float, held: Held) -> ag.Tensor:
    """A graph that accumulates `factor` into `w` and then waits."""
    waiting = awaiting(leaf(1.0), held)
    return np.add(np.multiply(w, factor), waiting)


#: Their sum depends on the order of addition.
FACTORS = [0.1, 0.7, 1e16, -1e16]


@pytest.mark.slow
@pytest.mark.parametrize("failing", [fails for fails in itertools.product([False, True], repeat=3) if any(fails)])
@pytest.mark.parametrize("started", [None, 0.3], ids=["no grad", "with grad"])
@pytest.mark.parametrize("ends", list(itertools.permutations(range(3))))
async def test_of_overlapping_backwards_just_those_that_succeed_have_happened(failing, started, ends):
    w = leaf(1.0)
    if started is not None:
        w.grad = ag.tensor([started])
    assigned = w.grad
    helds = [Held() for _ in failing]
    tasks = [
        asyncio.ensure_future(ag.backward(early_then_held(w, factor, held)))
        for factor, held in zip(FACTORS[:3], helds, strict=True)
    ]
    await settle()
    for index in ends:
        if failing[index]:
            tasks[index].cancel()
        else:
            helds[index].let_go.set()
        await settle()
        assert tasks[index].done()
    await asyncio.gather(*tasks, return_exceptions=True)

    expected = started
    for factor, fails in zip(FACTORS[:3], failing, strict=True):
        if not fails:
            expected = factor if expected is None else expected + factor
    if expected is None:
        assert w.grad is None
    else:
        assert w.grad.item() == expected
    if started is not None:
        assert w.grad is assigned


async def test_a_backward_that_ran_meanwhile_is_not_lost_when_the_one_around_it_fails():
    w, held = leaf(1.0), Held()
    around = asyncio.ensure_future(ag.backward(early_then_held(w, 5.0, held)))
    await settle()
    assert w.grad.item() == 5.0
    await ag.backward(np.multiply(w, 2.0))
    assert w.grad.item() == 7.0
    around.cancel()
    with pytest.raises(asyncio.CancelledError):
        await around
    assert w.grad.item() == 2.0
    await ag.backward(np.multiply(w, 2.0))
    assert w.grad.item() == 4.0


async def test_a_grad_that_was_set_meanwhile_stays_as_it_was_set():
    w, v, held = leaf(1.0), leaf(1.0), Held()
    v.grad = ag.tensor([3.0])
    out = np.add(early_then_held(w, 5.0, held), np.multiply(v, 2.0))
    around = asyncio.ensure_future(ag.backward(out))
    await settle()
    w.grad = mine = ag.tensor([100.0])
    v.grad = None
    around.cancel()
    with pytest.raises(asyncio.CancelledError):
        await around
    assert w.grad is mine
    assert w.grad.item() == 100.0
    assert v.grad is None


async def test_a_hook_that_takes_the_gradient_away_is_undone_with_its_backward():
    """As an optimizer does that steps within the backward."""
    w = leaf(1.0)
    w.grad = before = ag.tensor([3.0])
    taken: list[Any] = []

    def take(tensor):
        taken.append(tensor.grad.item())
        tensor.grad = None

    def fail(grad):
        raise ValueError("late")

    w.register_post_accumulate_grad_hook(take)
    late = calling(leaf(1.0), fail)

    with pytest.raises(ValueError, match="late"):
        await ag.backward(np.add(np.multiply(w, 2.0), late))

    assert taken == [5.0]
    assert w.grad is before
    assert w.grad.item() == 3.0


async def test_many_backwards_share_their_leaves_at_once():
    w = leaf(1.0, 1.0)
    running = 0
    all_run = asyncio.Event()

    async def wait(grad):
        nonlocal running
        running += 1
        if running == 50:
            all_run.set()
        await all_run.wait()

    outs = [np.multiply(awaiting(np.multiply(w, float(number)), wait), 2.0) for number in range(50)]
    async with asyncio.timeout(60):
        await asyncio.gather(*[ag.backward(out, np.ones(2)) for out in outs])

    assert w.grad.numpy().tolist() == [2.0 * sum(range(50))] * 2


async def test_one_graph_that_is_kept_may_run_in_several_backwards_at_once():
    w = leaf(3.0)

    async def wait(grad):
        await asyncio.sleep(0)

    out = np.multiply(awaiting(np.multiply(w, w), wait), 2.0)
    await asyncio.gather(*[ag.backward(out, retain_graph=True) for _ in range(5)])

    assert w.grad.item() == 60.0


def test_threads_with_loops_of_their_own_share_leaves():
    w = leaf(1.0, 1.0)

    async def body(grad):
        await asyncio.sleep(0)

    async def main():
        for _ in range(30):
            await np.multiply(awaiting(np.multiply(w, 2.0), body), 3.0).backward(np.ones(2))

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert w.grad.numpy().tolist() == [720.0, 720.0]


async def test_what_nested_backwards_do_to_one_leaf_is_remembered_once():
    """A network that is run backward step by step within a backward does not pile up old gradients."""
    w = leaf(1.0)
    remembered: list[int] = []

    async def nested(grad):
        for _ in range(5):
            with ag.enable_grad():
                inner = np.multiply(w, 2.0)
            await ag.backward(inner)
            remembered.append(len(CURRENT_GRAPH_TASK.get().changes))

    await ag.backward(awaiting(leaf(1.0), nested))

    assert remembered == [1] * 5
    assert w.grad.item() == 10.0


async def test_retained_gradients_of_overlapping_backwards_are_taken_back_one_by_one():
    x = leaf(1.0)
    middle = np.multiply(x, 3.0)
    middle.retain_grad()
    helds = [Held(), Held()]
    tasks = [
        asyncio.ensure_future(
            ag.backward(np.add(np.multiply(middle, factor), awaiting(leaf(1.0), held)), retain_graph=True)
        )
        for factor, held in zip((0.1, 0.7), helds, strict=True)
    ]
    await settle()
    assert middle.grad.item() == 0.1 + 0.7
    tasks[0].cancel()
    helds[1].let_go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert middle.grad.item() == 0.7
    assert x.grad.item() == 0.7 * 3.0
