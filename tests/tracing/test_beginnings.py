"""A backward that begins elsewhere than that of a program: at some outputs, or with gradients that lie spread out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.tracing.beginnings import ones_lying_as
from asyncgrad.tracing.jitted import Call
from tests.tracing.running import bits

#: By name, a loss of the two results of `layer`, outside of the compiled function.
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "a sum, whose gradient has strides of 0": lambda y, z: y.sum(),
    "a mean of a part": lambda y, z: y[:, ::2].mean(),
    "a gradient that is transposed": lambda y, z: (y.T * np.arange(7.0, dtype=np.float32)).sum(),
    "a gradient that is reversed": lambda y, z: (y[::-1].T @ np.arange(7.0, dtype=np.float32)).sum(),
    "the other result": lambda y, z: (z * z).sum(),
    "both": lambda y, z: y.sum() + (z * z).sum(),
}


def layer(w: Any, b: Any, x: Any) -> Any:
    return x @ w + b, np.tanh(x @ w)


def gradients(function: Callable[..., Any], loss: Callable[[Any, Any], Any], x: Any) -> Any:
    leaves = [ag.tensor(np.array(one, np.float32), requires_grad=True) for one in ([[0.5, -0.25]], [0.1, 0.2])]
    sync.backward(loss(*function(*leaves, x)))
    return [bits(leaf.grad) for leaf in leaves]


def batch(index: int) -> Any:
    return np.random.default_rng(index).standard_normal((7, 1)).astype(np.float32)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_program_learns_where_its_backward_begins(monkeypatch, loss):
    jitted = ag.jit(layer, verify=1)

    for index in range(12):
        if index == 8:
            # From here on the function does not run again.
            monkeypatch.setattr(Call, "again", None)
        assert gradients(jitted, loss, batch(index)) == gradients(layer, loss, batch(index))
    assert jitted.counts["replayed"] >= 6


def test_a_function_is_not_traced_for_each_of_many_beginnings():
    jitted = ag.jit(layer, verify=0)

    for index in range(30):
        loss = list(LOSSES.values())[index % len(LOSSES)]
        assert gradients(jitted, loss, batch(index)) == gradients(layer, loss, batch(index))
    assert jitted.counts["traces"] <= 4


def test_a_recorded_gradient_has_the_bits_of_the_function_where_it_begins_with_one_spread_out():
    jitted, found = ag.jit(layer, verify=0), []
    for function in (layer, *[jitted] * 4):
        w = ag.tensor(np.array([[0.5, -0.25]], np.float32), requires_grad=True)
        y, _ = function(w, np.zeros(2, np.float32), batch(2))
        (first,) = sync.grad(y.sum() ** 2, [w], create_graph=True)
        sync.backward((first * first).sum())
        found.append((bits(first), bits(w.grad)))

    assert all(one == found[0] for one in found)
    assert jitted.counts["replayed"]


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((3, 2), (0, 0)), ((3, 2), (8, -24)), ((0, 2), (16, 8)), ((2, 1, 3), (4, 96, 8))]
)
def test_ones_lie_as_they_are_told_to(shape, strides):
    ones = ones_lying_as(shape, np.dtype(np.float32), strides)

    assert (ones.shape, ones.dtype, (ones == 1).all()) == (shape, np.float32, True)
    assert not ones.size or ones.strides == strides
