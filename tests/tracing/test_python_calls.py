"""The calls of a program by Python: as many, as exact and as loud as those of the function."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.sync import grad
from tests.support.leaves import leaf
from tests.tracing.running import bits


def gates(x: Any) -> Any:
    """Return a sum in which calls that ignore an overflow alternate with calls that do not."""
    for _ in range(4):
        x = nn.sigmoid(x * 3) * x
    return x.sum()


def drawn(x: Any) -> Any:
    return gates(nn.dropout(x, 0.5))


def compiled(function: Callable[..., Any], *args: Any) -> Any:
    jitted = ag.jit(function, backend="table", verify=0)
    for _ in range(3):
        jitted(*args)
    assert jitted.counts["replayed"] == 1
    return jitted


def value_and_gradient(function: Callable[..., Any], numbers: Any) -> Any:
    x = leaf(np.array(numbers))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        value = function(x)
        gradients = grad(value, [x])
    return bits(value), bits(gradients[0]), sorted(f"{one.message}" for one in told)


@pytest.mark.parametrize("numbers", [[0.0, 5.0, 7.0], [-3000.0, 800.0, 2.0], [1e308, -1e308, 1.0], [np.inf, 0.0, -1.0]])
def test_errors_that_are_ignored_in_parts_are_told_as_by_the_function(numbers):
    jitted = compiled(gates, leaf(np.ones(3)))

    for _ in range(2):
        assert value_and_gradient(jitted, numbers) == value_and_gradient(gates, numbers)


def test_a_run_that_is_made_again_draws_the_same_numbers():
    jitted = compiled(drawn, leaf(np.ones(3)))

    def run(function: Callable[..., Any]) -> Any:
        ag.random.seed(7)
        found = value_and_gradient(function, [1e308, 1e308, 1e308])
        return found, str(ag.random.generator().bit_generator.state)

    assert run(jitted) == run(drawn)


def test_a_number_that_is_read_through_a_view_is_filled_in():
    def sums(x: Any) -> Any:
        total = np.zeros_like(x)
        total += total[::-1]
        total += x
        return (total * x).sum()

    jitted = compiled(sums, leaf(np.arange(4.0)))

    assert value_and_gradient(jitted, np.arange(1.0, 5.0)) == value_and_gradient(sums, np.arange(1.0, 5.0))


def test_a_gradient_that_is_written_at_once_is_the_callers_alone():
    w, x = leaf(np.ones((64, 32))), np.ones((8, 64))
    jitted = compiled(lambda w: nn.relu(x @ w).sum(), w)

    first = grad(jitted(w), [w])[0]
    kept = first.numpy()
    before = kept.copy()
    second = grad(jitted(w), [w])[0]
    assert np.array_equal(kept, before)
    assert not np.shares_memory(kept, second.numpy())
    gone = weakref.ref(kept)
    del first, kept
    gc.collect()
    assert gone() is None


def test_a_gradient_that_another_one_is_added_to_is_right_in_each_run():
    def waves(x: Any, y: Any) -> Any:
        return np.sin(x + y).sum() + np.cos(x).sum()

    def gradients(function: Callable[..., Any], numbers: np.ndarray) -> Any:
        x, y = leaf(numbers), leaf(numbers + 1)
        return [bits(one) for one in grad(function(x, y), [x, y])]

    ones = np.ones((6, 100))
    jitted = compiled(waves, leaf(ones), leaf(ones))

    for shift in range(3):
        assert gradients(jitted, ones * shift) == gradients(waves, ones * shift)
