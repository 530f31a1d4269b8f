"""Gradients on their way: sums go into arrays of the engine's own, and nobody else's are written into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.engine.queues import InputBuffer
from asyncgrad.extend import derivative, primitive
from tests.support.arrays import address
from tests.support.functions import calling, split
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop


async def test_an_array_that_a_node_hands_to_two_others_is_not_written_into():
    """One branch goes on to sum into what it got; the other still sees what was sent."""
    seen: list[Any] = []
    x = leaf(1.0, 2.0)
    shared = calling(x, lambda grad: None)
    watching = calling(leaf(1.0, 1.0), lambda grad: seen.append(grad.numpy().tolist()))
    both = np.add(watching, shared)
    out = np.add(np.add(both, np.multiply(shared, 5.0)), np.multiply(shared, 7.0))

    await ag.backward(out, np.ones(2))

    assert seen == [[1.0, 1.0]]
    assert x.grad.numpy().tolist() == [13.0, 13.0]


async def test_an_array_returned_for_two_inputs_is_not_written_into():
    x, array = leaf(1.0, 2.0), np.array([1.0, 2.0])
    one = split(x, lambda first, second: array)
    out = np.add(np.add(one[0], one[1]), np.multiply(x, 3.0))

    await ag.backward(out, np.ones(2))

    assert array.tolist() == [1.0, 2.0]
    assert x.grad.numpy().tolist() == [4.0, 5.0]


@on_each_loop
def test_the_third_gradient_goes_into_the_sum_of_the_first_two(run):
    seen: list[int] = []
    x = leaf(1.0, 2.0)

    buffer = InputBuffer(1)
    first, second, third = np.array([1.0]), np.array([2.0]), np.array([3.0])
    node = np.add(x, 1.0).grad_fn
    for number, value in enumerate((first, second, third)):
        buffer.add(0, value, (node, number), True)
        seen.append(address(buffer.values[0]))

    assert seen[0] == address(first)
    assert seen[1] not in (address(first), address(second))
    assert seen[2] == seen[1]
    assert (first.item(), second.item(), third.item()) == (1.0, 2.0, 3.0)
    assert buffer.values[0].item() == 6.0


class Counting(np.ndarray):
    """An array that counts the sums it takes part in, by whether they made a new array."""

    new = written = 0

    def __add__(self, other):
        Counting.new += 1
        return np.add(self, other)

    def __iadd__(self, other):
        Counting.written += 1
        return np.add(self, other, out=self)


@pytest.mark.parametrize("counted", [False, True], ids=["fast path", "slow path"])
async def test_many_gradients_of_one_node_make_one_new_array(counted):
    @primitive()
    def copied(x):
        return x + 0.0

    derivative(copied, "x")(lambda g: np.ones(g.shape).view(Counting))
    Counting.new = Counting.written = 0
    x = leaf(1.0, 2.0)
    shared = np.multiply(x, 1.0)
    total = calling(shared, lambda grad: None) if counted else shared
    for _ in range(5):
        total = np.add(total, copied(shared))

    await ag.backward(total, np.ones(2))

    assert (Counting.new, Counting.written) == (1, 4)
    assert x.grad.numpy().tolist() == [6.0, 6.0]


async def test_retained_gradients_are_copies_and_a_new_object_each_time():
    x = leaf(1.0, 2.0)
    middle = np.multiply(x, 3.0)
    middle.retain_grad()
    seen: list[ag.Tensor] = []
    middle.register_hook(seen.append)
    out = np.multiply(middle, 2.0)

    await ag.backward(out, np.ones(2), retain_graph=True)
    first = middle.grad
    await ag.backward(out, np.ones(2))

    assert first.numpy().tolist() == [2.0, 2.0]
    assert middle.grad is not first
    assert middle.grad.numpy().tolist() == [4.0, 4.0]
    assert not any(np.shares_memory(grad.numpy(), first.numpy()) for grad in seen)


async def test_a_retained_gradient_is_the_one_that_tensor_hooks_leave():
    x = leaf(1.0, 2.0)
    middle = np.multiply(x, 3.0)
    middle.retain_grad()
    middle.register_hook(lambda grad: np.multiply(grad, 10.0))

    await ag.backward(middle, np.ones(2))

    assert middle.grad.numpy().tolist() == [10.0, 10.0]
    assert x.grad.numpy().tolist() == [30.0, 30.0]


async def test_a_leaf_that_no_longer_requires_grad_accumulates_nothing():
    x = leaf(1.0, 2.0)
    out = np.multiply(x, 3.0)
    x.requires_grad_(False)

    await ag.backward(out, np.ones(2))

    assert x.grad is None
