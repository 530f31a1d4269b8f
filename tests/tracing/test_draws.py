"""A program draws the numbers that the function draws, from the same stream."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from tests.support.leaves import leaf
from tests.tracing.running import bits


def dropped(x):
    return nn.dropout(x, 0.5).sum()


def draws(function, count):
    """Return the results and gradients of so many calls, and what is drawn after them."""
    ag.random.seed(7)
    np.random.seed(7)  # noqa: NPY002  # what it draws next is compared
    found = []
    for _ in range(count):
        x = leaf(*range(1, 20))
        y = function(x)
        sync.backward(y)
        found.append((bits(y), bits(x.grad)))
    return found, ag.random.generator().random(), np.random.random()  # noqa: NPY002


def sloped(x):
    return nn.rrelu(-x, training=True).sum()


@pytest.mark.parametrize("function", [dropped, sloped])
def test_the_numbers_of_every_call_are_those_of_the_function(function):
    jitted = ag.jit(function)

    assert draws(jitted, 8) == draws(function, 8)
    assert jitted.counts["replayed"] == 4


class OwnBits(np.random.PCG64):
    """A bit generator of a user's class."""


def test_a_generator_of_a_users_class_is_drawn_from():
    def drawn(function):
        ag.random.seed(np.random.Generator(OwnBits(7)))
        return [bits(function(leaf(1.0, 2.0, 3.0))) for _ in range(6)]

    jitted = ag.jit(dropped)

    assert drawn(jitted) == drawn(dropped)
    assert jitted.counts["replayed"] == 2


def test_a_backward_that_runs_the_function_again_draws_the_numbers_of_the_call():
    jitted = ag.jit(lambda x: (nn.dropout(x, 0.5) ** 2).sum(), verify=0)
    for _ in range(2):
        jitted(leaf(1.0, 2.0, 3.0, 4.0))
    x = leaf(1.0, 2.0, 3.0, 4.0)

    y = jitted(x)
    (first,) = sync.grad(y, [x], create_graph=True)
    (second,) = sync.grad(first.sum(), [x])

    assert jitted.counts["replayed"] == 1
    assert np.array_equal(first.detach().numpy(), second.numpy() * x.detach().numpy())


def test_a_single_number_that_is_drawn_keeps_it_eager():
    jitted = ag.jit(lambda x: x * ag.random.generator().random())
    for _ in range(4):
        jitted(leaf(1.0))

    assert jitted.counts["eager: it draws a single number, by generator.random"] == 3
