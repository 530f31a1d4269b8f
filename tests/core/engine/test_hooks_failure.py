"""Hooks that raise: the error as it is, with a note of the node; gradients put back, and the graph fit to run again."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.core.engine.hooking import as_kind, backward, both_drives, every_kind, register, waiting
from tests.support.failing import Trouble, raising
from tests.support.leaves import leaf
from tests.support.turns import Held

PLACES = ["tensor hook", "pre-hook", "post-hook", "post-accumulate hook"]


@pytest.mark.slow
@every_kind
@both_drives
@pytest.mark.parametrize("which", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize("where", PLACES)
async def test_an_error_is_that_of_the_hook_and_the_rest_does_not_run(where, which, kind, drive):
    seen: list[int] = []
    error = Trouble("no")
    x, w = leaf(2.0), leaf(3.0)
    x.grad = before = ag.tensor([7.0])
    out = np.add(np.multiply(x, 5.0), np.multiply(w, 2.0))
    for place in range(3):
        hook = raising(error) if place == which else lambda *args, place=place: seen.append(place)
        last = register(where, x, as_kind(kind, hook))
        if place == which:
            bad = last

    with pytest.raises(Trouble) as raised:
        await backward(drive, out, retain_graph=True)

    assert raised.value is error
    assert [note for note in error.__notes__ if "AccumulateGrad (" in note] == [
        f"in AccumulateGrad (leaf of shape {x.shape}, device 'cpu')"
    ]
    assert seen == list(range(which))
    assert x.grad is before
    assert (before.item(), w.grad) == (7.0, None)

    # The graph is as it was, and runs with the hooks that are left.
    bad.remove()
    seen.clear()
    await backward(drive, out)
    assert seen == [place for place in range(3) if place != which]
    assert x.grad is before
    assert (before.item(), w.grad.item()) == (12.0, 2.0)


@every_kind
@both_drives
@pytest.mark.parametrize("where", PLACES[:3])
async def test_the_note_names_the_node_of_the_hook(where, kind, drive):
    x = leaf(2.0)
    middle = np.exp(np.multiply(x, 3.0))
    register(where, middle, as_kind(kind, raising(Trouble("no"))))

    with pytest.raises(Trouble) as raised:
        await backward(drive, np.multiply(middle, 5.0))

    number = middle.grad_fn.sequence_nr
    assert raised.value.__notes__ == [f"in ExpBackward (node #{number}, device 'cpu')"]


@every_kind
@both_drives
async def test_what_was_kept_by_retain_grad_is_put_back(kind, drive):
    x = leaf(2.0)
    middle = np.multiply(x, 3.0)
    middle.retain_grad()
    out = np.multiply(middle, 5.0)
    await backward(drive, out, retain_graph=True)
    kept, summed = middle.grad, x.grad
    handle = register("pre-hook", middle, as_kind(kind, raising(Trouble("no"))))

    with pytest.raises(Trouble):
        await backward(drive, out, retain_graph=True)
    assert middle.grad is kept
    assert (kept.item(), x.grad.item()) == (5.0, 15.0)
    handle.remove()
    await backward(drive, out)

    assert (middle.grad.item(), x.grad.item()) == (10.0, 30.0)
    assert x.grad is summed


@every_kind
@both_drives
async def test_a_post_accumulate_hook_that_took_the_gradient_away_and_then_raises_is_undone(kind, drive):
    x = leaf(2.0)
    x.grad = before = ag.tensor([7.0])

    def takes(tensor: Any) -> None:
        assert tensor.grad.item() == 10.0
        tensor.grad = None
        raise Trouble("no")

    x.register_post_accumulate_grad_hook(as_kind(kind, takes))
    with pytest.raises(Trouble):
        await backward(drive, np.multiply(x, 3.0))

    assert x.grad is before
    assert before.item() == 7.0


@every_kind
@both_drives
async def test_what_other_hooks_have_made_of_gradients_is_undone_where_a_later_one_raises(kind, drive):
    x, w = leaf(2.0), leaf(3.0)
    x.grad, w.grad = ag.tensor([7.0]), None
    before = x.grad

    def takes(tensor: Any) -> None:
        tensor.grad = None

    x.register_post_accumulate_grad_hook(as_kind(kind, takes))
    w.register_post_accumulate_grad_hook(as_kind(kind, raising(Trouble("no"))))
    # The product with x is the newer one, so that its leaf comes first.
    with pytest.raises(Trouble):
        await backward(drive, np.add(np.multiply(w, 2.0), np.multiply(x, 3.0)))

    assert x.grad is before
    assert (before.item(), w.grad) == (7.0, None)


@both_drives
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-hook"])
async def test_a_node_whose_hook_raised_is_not_released(where, drive):
    x = leaf(2.0)
    out = np.multiply(x, x)
    handle = register(where, out, raising(Trouble("no")))
    with pytest.raises(Trouble):
        await backward(drive, out)
    handle.remove()

    await backward(drive, out)

    assert x.grad.item() == 4.0


@pytest.mark.parametrize("where", PLACES)
async def test_an_error_in_one_hook_cancels_those_that_wait_and_they_may_clean_up(where):
    held, error = Held(), Trouble("no")
    x, w = leaf(2.0), leaf(3.0)
    out = np.add(np.multiply(x, 5.0), np.multiply(w, 2.0))
    register(where, w, waiting(held))

    async def fails(*args: Any) -> None:
        await held.begun.wait()
        raise error

    register(where, x, fails)
    with pytest.raises(Trouble) as raised:
        await out.backward()
    assert raised.value is error
    assert held.cancelled
    assert (x.grad, w.grad) == (None, None)


async def test_what_a_hook_raises_while_it_is_cancelled_becomes_a_note():
    begun = asyncio.Event()
    x, w = leaf(2.0), leaf(3.0)

    async def stubborn(grad: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("in the clean-up")

    async def fails(grad: Any) -> None:
        await begun.wait()
        raise Trouble("no")

    x.register_hook(stubborn)
    w.register_hook(fails)
    with pytest.raises(Trouble) as raised:
        await np.add(np.multiply(x, 5.0), np.multiply(w, 2.0)).backward()
    assert any("KeyError: 'in the clean-up'" in note for note in raised.value.__notes__)


@pytest.mark.parametrize("where", PLACES)
async def test_cancelling_a_backward_cancels_the_hook_that_it_waits_for(where):
    held = Held()
    x = leaf(2.0)
    x.grad = before = ag.tensor([7.0])
    out = np.multiply(x, 3.0)
    handle = register(where, x, waiting(held))
    task = asyncio.ensure_future(out.backward(retain_graph=True))
    await held.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert held.cancelled
    assert x.grad is before
    assert before.item() == 7.0

    handle.remove()
    await out.backward()
    assert x.grad.item() == 10.0


@pytest.mark.parametrize("where", PLACES)
async def test_a_timeout_ends_a_hook_that_never_does(where):
    x = leaf(2.0)
    out = np.multiply(x, 3.0)

    async def never(*args: Any) -> None:
        await asyncio.Event().wait()

    register(where, x, never)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await out.backward()
    assert x.grad is None


@both_drives
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=["KeyboardInterrupt", "SystemExit"])
async def test_what_ends_a_program_passes_through(where, error, drive):
    x = leaf(2.0)
    out = np.multiply(x, 3.0)
    handle = register(where, x, raising(error))

    with pytest.raises(type(error)) as raised:
        await backward(drive, out, retain_graph=True)
    assert raised.value is error
    assert x.grad is None
    handle.remove()
    await backward(drive, out)

    assert x.grad.item() == 3.0
