"""A post-accumulate hook registered with overlap=False: until it has ended no further node starts."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from tests.core.engine.hooking import Branches, as_kind, backward, both_drives
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.settings import loop_budget
from tests.support.turns import Held, settle


async def test_with_overlap_false_no_further_node_starts_before_the_hook_has_ended():
    held, graph = Held(), Branches(3)
    graph.leaves[2].register_post_accumulate_grad_hook(held, overlap=False)
    backward = graph.start()
    await held.begun.wait()
    await settle()
    assert graph.ran == [2]
    assert graph.grads() == [None, None, 1.0]
    held.let_go.set()
    await backward
    assert graph.ran == [2, 1, 0]
    assert graph.grads() == [1.0, 1.0, 1.0]


async def test_a_body_that_has_begun_goes_on_beside_a_hook_that_holds_others_up():
    held, body = Held(), Held()
    x, w, v = leaf(1.0), leaf(1.0), leaf(1.0)
    x.register_post_accumulate_grad_hook(held, overlap=False)
    out = np.add(np.add(np.multiply(v, 3.0), np.multiply(x, 2.0)), awaiting(w, body))
    backward = asyncio.ensure_future(out.backward())
    await body.begun.wait()
    await held.begun.wait()
    body.let_go.set()
    await settle()
    assert body.ended
    # It has ended, and what it leads to has not begun.
    assert (w.grad, v.grad) == (None, None)
    held.let_go.set()
    await backward
    assert (x.grad.item(), w.grad.item(), v.grad.item()) == (2.0, 1.0, 3.0)


async def test_a_tensor_hook_that_waits_holds_nobody_up_where_a_later_hook_of_its_leaf_will():
    early, alone, graph = Held(), Held(), Branches(3)
    x = graph.leaves[2]
    x.register_hook(early)
    x.register_post_accumulate_grad_hook(alone, overlap=False)
    backward = graph.start()
    await early.begun.wait()
    await settle()
    assert graph.ran == [2, 1, 0]
    early.let_go.set()
    await alone.begun.wait()
    alone.let_go.set()
    await backward
    assert graph.grads() == [1.0, 1.0, 1.0]


async def test_a_hook_that_overlaps_runs_beside_others_though_the_next_one_on_its_leaf_does_not():
    before, alone, graph = Held(), Held(), Branches(2)
    x = graph.leaves[1]
    x.register_post_accumulate_grad_hook(before)
    x.register_post_accumulate_grad_hook(alone, overlap=False)
    backward = graph.start()
    await before.begun.wait()
    await settle()
    assert graph.ran == [1, 0]
    before.let_go.set()
    alone.let_go.set()
    await backward


async def test_a_hook_that_overlaps_lets_others_start_again_after_one_on_its_leaf_that_does_not():
    alone, after, graph = Held(), Held(), Branches(2)
    x = graph.leaves[1]
    x.register_post_accumulate_grad_hook(alone, overlap=False)
    x.register_post_accumulate_grad_hook(after)
    backward = graph.start()
    await alone.begun.wait()
    await settle()
    assert graph.ran == [1]
    alone.let_go.set()
    await after.begun.wait()
    await settle()
    assert graph.ran == [1, 0]
    after.let_go.set()
    await backward
    assert graph.grads() == [1.0, 1.0]


async def test_several_hooks_that_hold_others_up_each_have_their_time_alone():
    graph = Branches(3)
    helds = [Held() for _ in range(3)]
    for x, held in zip(graph.leaves, helds, strict=True):
        x.register_post_accumulate_grad_hook(held, overlap=False)
    backward = graph.start()
    for index in (2, 1, 0):
        await helds[index].begun.wait()
        await settle()
        assert graph.ran == [2, 1, 0][: 3 - index]
        helds[index].let_go.set()
    await backward


async def test_a_hook_registered_with_overlap_false_does_not_hold_up_another_backward():
    held, graph, other = Held(), Branches(2), Branches(2)
    graph.leaves[1].register_post_accumulate_grad_hook(held, overlap=False)
    backward = graph.start()
    await held.begun.wait()
    await other.out.backward()
    assert other.grads() == [1.0, 1.0]
    assert graph.ran == [1]
    held.let_go.set()
    await backward


async def test_a_hook_that_holds_others_up_may_run_a_backward_of_its_own():
    inner, graph = Branches(3), Branches(2)

    async def nested(x: Any) -> None:
        await inner.out.backward()
        assert graph.ran == [1]

    graph.leaves[1].register_post_accumulate_grad_hook(nested, overlap=False)
    await graph.out.backward()
    assert inner.grads() == [1.0, 1.0, 1.0]
    assert graph.grads() == [1.0, 1.0]


@pytest.mark.parametrize("budget", [10.0, -1.0], ids=["", "breathing"])
async def test_a_hook_that_holds_others_up_and_fails_ends_the_backward(budget):
    graph = Branches(2)

    async def fails(x: Any) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    graph.leaves[1].register_post_accumulate_grad_hook(fails, overlap=False)
    with loop_budget(budget), pytest.raises(ZeroDivisionError):
        await graph.out.backward()
    assert graph.ran == [1]
    assert graph.grads() == [None, None]


async def test_a_body_that_fails_beside_a_hook_that_holds_others_up_cancels_that():
    held, x, w = Held(), leaf(1.0), leaf(1.0)
    x.register_post_accumulate_grad_hook(held, overlap=False)

    async def fails(grad: Any) -> None:
        await held.begun.wait()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await np.add(np.multiply(x, 2.0), awaiting(w, fails)).backward()
    assert held.cancelled
    assert (x.grad, w.grad) == (None, None)


async def test_a_backward_may_be_cancelled_while_it_is_held_up():
    held, graph = Held(), Branches(2)
    graph.leaves[1].register_post_accumulate_grad_hook(held, overlap=False)
    backward = graph.start()
    await held.begun.wait()
    await settle()
    backward.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backward
    assert held.cancelled
    assert graph.grads() == [None, None]


@both_drives
@pytest.mark.parametrize("kind", ["function", "async def", "suspending", "awaitable"])
async def test_overlap_false_changes_nothing_where_nothing_overlaps(drive, kind):
    graph, seen = Branches(3), []
    for index, x in enumerate(graph.leaves):
        x.register_post_accumulate_grad_hook(
            as_kind(kind, lambda x, index=index: seen.append((index, list(graph.ran)))), overlap=False
        )

    await backward(drive, graph.out)

    assert seen == [(2, [2]), (1, [2, 1]), (0, [2, 1, 0])]


def test_overlap_is_true_or_false():
    x = leaf(1.0)
    for wrong in (None, "no", 2):
        with pytest.raises(TypeError, match="overlap must be True or False, not"):
            x.register_post_accumulate_grad_hook(print, overlap=wrong)
