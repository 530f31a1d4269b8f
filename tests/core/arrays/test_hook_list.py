"""Hooks run in order of registration; what runs is a snapshot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays.hooks import HookList
from asyncgrad.errors import HookTypeError
from tests.support.leaves import leaf


async def test_hooks_run_in_order_and_each_sees_what_the_one_before_made():
    x, seen = leaf(1.0), []
    x.register_hook(lambda grad: seen.append(grad.item()))
    x.register_hook(lambda grad: np.multiply(grad, 10.0))
    x.register_hook(lambda grad: seen.append(grad.item()))

    await ag.backward(np.multiply(x, 2.0))

    assert seen == [2.0, 20.0]
    assert x.grad.item() == 20.0


def test_a_removed_hook_runs_no_more_and_removing_twice_does_nothing():
    x, seen = leaf(1.0), []
    handle = x.register_hook(seen.append)
    handle.remove()
    handle.remove()

    sync.backward(np.multiply(x, 2.0))

    assert seen == []


def test_a_hook_lasts_as_long_as_its_block():
    x, seen = leaf(1.0), []

    with x.register_hook(seen.append):
        sync.backward(np.multiply(x, 2.0))
    sync.backward(np.multiply(x, 2.0))

    assert len(seen) == 1


def test_a_hook_added_while_hooks_run_starts_with_the_next_run():
    x, seen = leaf(1.0), []

    def adds(grad):
        seen.append("adds")
        x.register_hook(lambda grad: seen.append("added"))

    handle = x.register_hook(adds)
    sync.backward(np.multiply(x, 2.0))
    assert seen == ["adds"]
    handle.remove()
    sync.backward(np.multiply(x, 2.0))

    assert seen == ["adds", "added"]


def test_a_hook_removed_while_hooks_run_still_runs_this_once():
    x, seen = leaf(1.0), []
    handles: list[Any] = []
    x.register_hook(lambda grad: handles[0].remove())
    handles.append(x.register_hook(lambda grad: seen.append("ran")))

    sync.backward(np.multiply(x, 2.0))
    sync.backward(np.multiply(x, 2.0))

    assert seen == ["ran"]


def test_a_handle_does_not_keep_its_hooks_alive():
    hooks = HookList()
    handle = hooks.add(print)
    del hooks

    handle.remove()


def test_what_cannot_be_called_is_no_hook():
    with pytest.raises(HookTypeError, match="must be callable"):
        HookList().add(3)  # type: ignore[arg-type]


async def test_a_hook_on_a_result_that_others_use_too_sees_the_whole_gradient():
    x, seen = leaf(1.0), []
    middle = np.multiply(x, 2.0)
    middle.register_hook(lambda grad: seen.append(grad.item()))

    await ag.backward(np.add(np.multiply(middle, 3.0), np.multiply(middle, 4.0)))

    assert seen == [7.0]


@pytest.mark.parametrize("create_graph", [False, True])
async def test_hooks_get_tensors_and_may_return_arrays_or_tensors(create_graph):
    x, seen = leaf(1.0), []

    def array(grad):
        seen.append(type(grad))
        return grad.numpy() * 2.0

    def tensor(grad):
        seen.append(type(grad))
        return np.multiply(grad, 3.0)

    middle = np.multiply(x, 1.0)
    middle.register_hook(array)
    middle.register_hook(tensor)

    (found,) = await ag.grad(middle, x, create_graph=create_graph)

    assert found.item() == 6.0
    assert seen == [ag.Tensor, ag.Tensor]


@pytest.mark.parametrize("create_graph", [False, True])
async def test_hooks_run_in_the_grad_mode_of_the_backward(create_graph):
    x, modes = leaf(1.0), []
    x.register_hook(lambda grad: modes.append(ag.is_grad_enabled()))

    await ag.grad(np.multiply(x, 2.0), x, create_graph=create_graph)

    assert modes == [create_graph]


async def test_what_a_hook_computes_under_create_graph_is_differentiated():
    x = leaf(3.0)
    middle = np.multiply(x, x)
    middle.register_hook(lambda grad: np.multiply(grad, x))

    (first,) = await ag.grad(middle, x, create_graph=True)
    (second,) = await ag.grad(first, x)

    # grad = 2x * x, and its derivative 4x.
    assert (first.item(), second.item()) == (18.0, 12.0)
