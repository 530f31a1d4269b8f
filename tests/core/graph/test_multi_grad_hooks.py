"""A multi-grad hook sees the gradients of several tensors, once in each backward."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ArgumentError, ArgumentTypeError, HookTypeError, RequiresGradError
from asyncgrad.graph import register_multi_grad_hook
from tests.core.graph.observing import Calls, observed
from tests.support.functions import split
from tests.support.leaves import leaf

# When it is called.


async def test_mode_all_is_called_when_the_last_gradient_has_come():
    a, b = leaf(2.0), leaf(3.0)
    order: list[str] = []
    a.register_hook(lambda grad: order.append("a"))
    b.register_hook(lambda grad: order.append("b"))
    register_multi_grad_hook([a, b], lambda grads: order.append("both"))

    await ag.backward(a * b)

    assert sorted(order[:2]) == ["a", "b"]
    assert order[2:] == ["both"]


async def test_mode_any_is_called_when_the_first_gradient_has_come():
    x = leaf(2.0)
    y = x * 3.0
    order: list[str] = []
    register_multi_grad_hook([x, y], lambda grad: order.append("any"), mode="any")
    y.register_hook(lambda grad: order.append("y"))
    x.register_hook(lambda grad: order.append("x"))

    await ag.backward(y)

    assert order == ["any", "y", "x"]


@pytest.mark.parametrize("roots", [1, 2])
async def test_a_root_is_waited_for_like_any_other_tensor(roots):
    a = leaf(2.0)
    y = a * 3.0
    calls = observed(y, a)

    await ag.backward([y, a * 1.0][:roots])

    assert calls.seen == [[[1.0], [2.0 + roots]]]


async def test_a_lone_root_is_enough():
    y = leaf(2.0) * 3.0
    calls = observed(y)

    await ag.backward(y)

    assert calls.seen == [[[1.0]]]


async def test_a_leaf_as_root_is_enough():
    x = leaf(2.0)
    calls = observed(x)

    await ag.backward(x)

    assert calls.seen == [[[1.0]]]


async def test_no_tensors_are_no_calls():
    x = leaf(2.0)
    calls = observed()

    await ag.backward(x * 2.0)

    assert calls.seen == []


async def test_tensors_that_the_backward_does_not_reach_are_none():
    a, b, unused = leaf(2.0), leaf(3.0), leaf(4.0)
    elsewhere = unused * 2.0
    calls = observed(unused, a, elsewhere, b)

    await ag.backward(a * b)

    assert calls.seen == [[None, [3.0], None, [2.0]]]


async def test_a_backward_that_reaches_none_of_them_calls_nothing():
    a, b = leaf(2.0), leaf(3.0)
    calls = observed(a)

    await ag.backward(b * 2.0)

    assert calls.seen == []


async def test_an_undefined_gradient_has_come_too():
    x = leaf(1.0)
    u, v = split(x, lambda first, second: first)
    calls = observed(u, v)
    first = observed(v, u, mode="any")

    await ag.backward(u * 5.0)

    assert calls.seen == [[[5.0], None]]
    assert len(first.seen) == 1


async def test_a_body_that_gives_no_gradient_is_not_waited_for_in_vain():
    a, b = leaf(2.0), leaf(3.0)
    middle = a * 2.0

    class Nothing(ag.Function):
        """A copy whose backward gives nothing."""

        @staticmethod
        def forward(ctx, x):
            return x.numpy().copy()

        @staticmethod
        def backward(ctx, grad):
            return None

    calls = observed(middle, a, b)

    await ag.backward(Nothing.apply(middle) * b)

    assert calls.seen == [[None, None, [4.0]]]


async def test_a_multi_grad_hook_sees_what_earlier_hooks_made_of_a_gradient():
    x = leaf(2.0)
    x.register_hook(lambda grad: grad * 10.0)
    calls = observed(x)
    x.register_hook(lambda grad: grad * 10.0)

    await ag.backward(x * 3.0)

    assert calls.seen == [[[30.0]]]
    assert x.grad.tolist() == [300.0]


async def test_gradients_have_a_history_under_create_graph():
    x = leaf(2.0)
    kept: list[Any] = []
    y = x * x * x
    register_multi_grad_hook([y, x * 1.0], kept.append)

    middle = x * x
    register_multi_grad_hook([middle], kept.append)
    await ag.grad(middle * middle, [middle], create_graph=True)

    assert (await ag.grad(kept[-1][0], [x]))[0].tolist() == [8.0]


async def test_a_leaf_is_observed_in_graphs_that_are_built_later():
    a, b = leaf(2.0), leaf(3.0)
    calls = observed(a, b)

    for factor in (1.0, 10.0):
        await ag.backward(a * b * factor)

    assert calls.seen == [[[3.0], [2.0]], [[30.0], [20.0]]]


async def test_a_view_and_its_base_are_observed():
    x = leaf(1.0, 2.0)
    base = x * 2.0
    view = base[:1]
    calls = observed(base, view)

    await ag.backward((view * 3.0).sum() + base.sum())

    assert calls.seen == [[[4.0, 1.0], [3.0]]]


# Handles.


@pytest.mark.parametrize("mode", ["all", "any"])
async def test_the_handle_of_a_multi_grad_hook_removes_it_from_all_tensors(mode):
    a, b = leaf(2.0), leaf(3.0)
    calls = Calls()
    handle = register_multi_grad_hook([a, b], calls, mode=mode)

    handle.remove()
    handle.remove()
    await ag.backward(a * b)

    assert calls.seen == []
    assert len(a._meta.hooks) == len(b._meta.hooks) == 0


async def test_the_end_of_a_with_block_removes_a_multi_grad_hook():
    a = leaf(2.0)
    calls = Calls()

    with register_multi_grad_hook([a], calls):
        await ag.backward(a * 2.0)
    await ag.backward(a * 2.0)

    assert calls.seen == [[[2.0]]]


async def test_removing_a_multi_grad_hook_leaves_other_hooks_in_place():
    a = leaf(2.0)
    before, after = observed(a), Calls()
    handle = register_multi_grad_hook([a], Calls())
    register_multi_grad_hook([a], after)

    handle.remove()
    await ag.backward(a * 2.0)

    assert before.seen == after.seen == [[[2.0]]]


# Bad use.


def test_a_mode_other_than_all_and_any_is_refused():
    with pytest.raises(ArgumentError, match="'some'"):
        register_multi_grad_hook([leaf(1.0)], print, mode="some")
    with pytest.raises(ValueError, match="'some'"):
        register_multi_grad_hook([leaf(1.0)], print, mode="some")


def test_a_tensor_that_does_not_require_grad_is_refused_and_nothing_registered():
    a = leaf(1.0)

    with pytest.raises(RequiresGradError, match=r"tensor 1 .*shape \(2,\)"):
        register_multi_grad_hook([a, ag.tensor([1.0, 2.0])], print)

    assert a._meta.hooks is None


def test_any_passes_over_tensors_that_do_not_require_grad_unless_all_are_such():
    a, seen = leaf(3.0), []

    with register_multi_grad_hook([ag.tensor([1.0]), a], seen.append, mode="any"):
        ag.sync.backward(a * 2)

    assert [grad.item() for grad in seen] == [2.0]
    with pytest.raises(RequiresGradError, match="none of the tensors"):
        register_multi_grad_hook([ag.tensor([1.0])], seen.append, mode="any")


def test_what_is_no_tensor_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"tensor 1 .*ndarray"):
        register_multi_grad_hook([leaf(1.0), np.ones(2)], print)
    with pytest.raises(ArgumentTypeError, match="write \\[t\\]"):
        register_multi_grad_hook(leaf(1.0), print)
    with pytest.raises(ArgumentTypeError, match="int 5"):
        register_multi_grad_hook(5, print)


def test_what_cannot_be_called_is_refused():
    a = leaf(1.0)

    with pytest.raises(HookTypeError, match="must be callable, not int 5"):
        register_multi_grad_hook([a], 5)

    assert a._meta.hooks is None


# Where a backward is limited to some inputs.


@pytest.mark.parametrize("create_graph", [False, True])
async def test_a_hook_on_shared_leaves_does_not_make_the_grad_of_another_task_fail(create_graph):
    shared, own = leaf(2.0), leaf(3.0)
    calls = observed(shared, own)

    async with asyncio.TaskGroup() as group:
        other = group.create_task(ag.grad(shared * 5.0, [shared], create_graph=create_graph))
        group.create_task(ag.backward(shared * own))
    (grad,) = other.result()

    assert grad.tolist() == [5.0]
    assert sorted(calls.seen, key=str) == [[[3.0], [2.0]], [[5.0], None]]


@pytest.mark.parametrize("mode", ["all", "any"])
async def test_grad_calls_a_hook_with_the_gradients_of_the_leaves_that_it_captures(mode):
    a, b, c = leaf(2.0), leaf(3.0), leaf(4.0)
    middle = a * b
    calls = observed(a, middle, b, c, mode=mode)

    grads = await ag.grad(middle * c, [a, c])

    assert [grad.tolist() for grad in grads] == [[12.0], [6.0]]
    assert calls.seen == ([[[12.0], [4.0], None, [6.0]]] if mode == "all" else [[6.0]])


async def test_grad_of_a_leaf_with_respect_to_itself_calls_its_hook():
    x = leaf(2.0)
    keeps_its_node = x * 1.0
    calls = observed(x)

    (grad,) = await ag.grad(x, [x])

    assert (grad.tolist(), calls.seen, keeps_its_node.tolist()) == ([1.0], [[[1.0]]], [2.0])


async def test_each_row_of_batched_grads_calls_a_hook_on_a_leaf():
    x = leaf(2.0)
    calls = observed(x)

    await ag.grad(x * 3.0, [x], np.array([[1.0], [2.0]]), is_grads_batched=True)

    assert calls.seen == [[[3.0]], [[6.0]]]
