"""A backward that begins elsewhere than that of a program: at some outputs, or with gradients that lie spread out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ChangedTensorError
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

#: By name, what a compiled loss is made into outside of it, and its gradient into a number of NumPy.
SCALED: dict[str, Callable[[Any], Any]] = {
    "a share of one": lambda loss: loss / 4.0,
    "a square": lambda loss: loss * loss,
    "a sum with another term": lambda loss: loss * 0.5 + loss**2,
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


@pytest.mark.parametrize("made", SCALED.values(), ids=SCALED)
def test_a_loss_that_is_scaled_outside_goes_backward_by_the_program(monkeypatch, made):
    def loss(w: Any, b: Any, x: Any) -> Any:
        return (np.tanh(x @ w + b) ** 2).mean()

    jitted = ag.jit(loss)

    def gradients_of(function: Callable[..., Any], x: Any) -> Any:
        leaves = [ag.tensor(np.array(one), requires_grad=True) for one in ([[0.5, -0.25]], [0.1, 0.2])]
        sync.backward(made(function(*leaves, x)))
        return [bits(leaf.grad) for leaf in leaves]

    monkeypatch.setattr(Call, "again", None)
    for index in range(8):
        assert gradients_of(jitted, batch(index)) == gradients_of(loss, batch(index))
    assert jitted.counts["replayed"] == 4


#: By name, functions whose backward does not read their leaves.
NOT_READING: dict[str, Callable[[Any, Any], Any]] = {
    "a product with numbers": lambda w, x: x @ w,
    "two results": lambda w, x: (np.tanh(x @ w), x * w.sum()),
    "one that keeps its result": lambda w, x: np.exp(w) * x,
    "one that keeps nothing": lambda w, x: w * 2.0 + x,
}


@pytest.mark.parametrize("function", NOT_READING.values(), ids=NOT_READING)
@pytest.mark.parametrize("loss", [lambda y: y.sum(), lambda y: (y[::-1].T * 0.5).sum(), lambda y: (y * y).sum()])
def test_what_a_backward_does_not_read_may_be_written_into_before_it_begins_elsewhere(function, loss):
    jitted = ag.jit(function)

    def gradients_of(function: Callable[..., Any]) -> list[Any]:
        leaf = ag.tensor(np.array([[0.5, -0.25]]), requires_grad=True)
        found = []
        for index in range(24):
            results = function(leaf, batch(index))
            result = results[0] if isinstance(results, tuple) else results
            # Every third begins with another gradient.
            value = loss(result) if index % 3 else (result**2).sum()
            with ag.no_grad():
                leaf *= 0.875
            sync.backward(value)
            found.append(bits(leaf.grad))
        return found

    assert gradients_of(jitted) == gradients_of(function)
    assert jitted.counts["replayed"] >= 8


def test_gradients_with_a_graph_have_the_bits_that_the_function_gives_them():
    cell = nn.GRU(3, 4)
    params = list(cell.parameters())

    def loss(x: Any) -> Any:
        return (cell(x)[0] ** 2).mean()

    jitted = ag.jit(loss)
    for index in range(7):
        x = np.random.default_rng(index).standard_normal((5, 2, 3))
        found, expected = (sync.grad(function(x), params, create_graph=True) for function in (jitted, loss))
        assert list(map(bits, found)) == list(map(bits, expected))

        seconds = [sync.grad(sum((one * one).sum() for one in grads), params) for grads in (found, expected)]
        assert list(map(bits, seconds[0])) == list(map(bits, seconds[1]))
    assert jitted.counts["replayed"] >= 3


@pytest.mark.parametrize("function", [lambda w: np.abs(w * 2.0).sum(), lambda w: ((w * 2.0) ** 2).sum()])
def test_gradients_with_a_graph_are_of_the_numbers_of_the_call_though_others_have_the_same_result(function):
    jitted = ag.jit(function)
    w = ag.tensor(np.array([0.5, -0.25]), requires_grad=True)
    for _ in range(16):
        sync.backward(jitted(w))

    results = [made(w) for made in (jitted, function)]
    with ag.no_grad():
        w *= -1.0
    found, expected = (sync.grad(result, [w], create_graph=True) for result in results)

    assert jitted.counts["replayed"] >= 8
    assert list(map(bits, found)) == list(map(bits, expected))
    assert [one.requires_grad for one in found] == [one.requires_grad for one in expected]
    if expected[0].requires_grad:
        seconds = [sync.grad(grads[0].sum(), [w])[0] for grads in (found, expected)]
        assert bits(seconds[0]) == bits(seconds[1])


#: By name, functions of two results, and which of them a backward begins at.
PARTS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "one that does not read it": (lambda w, x: (w * w, w * 2.0 + x), 1),
    "one that reads it": (lambda w, x: (w * w, w * 2.0 + x), 0),
    "one that keeps its result": (lambda w, x: (np.exp(w), w * w * x), 0),
}


@pytest.mark.parametrize("is_by_view", [False, True])
@pytest.mark.parametrize("late", [2, 12])
@pytest.mark.parametrize(("function", "which"), PARTS.values(), ids=PARTS)
def test_a_write_is_an_error_where_the_backward_of_the_function_reads_what_was_written_into(
    function, which, late, is_by_view
):
    def outcomes(function: Callable[..., Any]) -> list[Any]:
        leaf, found = ag.tensor(np.array([[0.5, -0.25]]), requires_grad=True), []
        for index in range(late + 8):
            results = function(leaf, batch(index))
            value = (results[which] ** 2).sum() if index % 2 else sum(one.sum() for one in results)
            if index >= late and index % 4:
                with ag.no_grad():
                    written = leaf.detach()[0] if is_by_view else leaf
                    written *= 0.875
            try:
                sync.backward(value)
                found.append(bits(leaf.grad))
            except ChangedTensorError:
                found.append("changed")
        return found

    jitted = ag.jit(function)

    assert outcomes(jitted) == outcomes(function)
    assert jitted.counts["replayed"]


@pytest.mark.parametrize("late", [0, 12])
def test_an_argument_that_has_another_array_is_differentiated_where_it_was(late):
    def function(w: Any, x: Any) -> Any:
        return np.tanh(w * x)

    def gradients_of(function: Callable[..., Any]) -> list[Any]:
        layer, found = nn.Linear(2, 1, bias=False), []
        layer.weight = nn.Parameter(np.array([[0.5, -0.25]]))
        for index in range(late + 12):
            value = (function(layer.weight * 1.0, batch(index)) ** (1 + index % 2)).sum()
            layer.load_state_dict({"weight": layer.weight.numpy() * 0.875})
            sync.backward(value)
            found.append(bits(layer.weight.grad))
        return found

    jitted = ag.jit(function)

    assert gradients_of(jitted) == gradients_of(function)


def test_numbers_are_kept_where_they_are_written_into_and_not_before():
    def function(w: Any, x: Any) -> Any:
        return x @ w

    jitted, w = ag.jit(function), ag.tensor(np.ones((1, 2)), requires_grad=True)
    for index in range(40):
        result = jitted(w, batch(index))
        sync.backward(result.sum())
    kept = result.grad_fn._kept
    assert kept is None
    result = jitted(w, batch(0))
    kept = result.grad_fn._kept
    assert not kept._copies

    with ag.no_grad():
        w *= 2.0
        w *= 2.0

    assert len(kept._copies) == 1
    assert kept.array(result.grad_fn, 0).tolist() == [[1.0, 1.0]]
    # Of those who are gone nothing is left.
    assert len(w._counter.readers or ()) <= 16


def multiplied(whole: Any, part: Any) -> None:
    whole *= 2.0


def multiplied_in_part(whole: Any, part: Any) -> None:
    part *= 2.0


def multiplied_by_numpy(whole: Any, part: Any) -> None:
    np.multiply(whole, 2.0, out=whole)


def set_at_an_index(whole: Any, part: Any) -> None:
    whole[0] = 0.0


@pytest.mark.parametrize("write", [multiplied, multiplied_in_part, multiplied_by_numpy, set_at_an_index])
@pytest.mark.parametrize("is_recorded", [False, True])
def test_what_any_write_changes_is_kept_for_a_backward_that_does_not_read_it(write, is_recorded):
    def function(w: Any, x: Any) -> Any:
        return (w * w).sum(), (w + x).sum()

    def grads_by(function: Any, is_scaled: bool) -> list[Any]:
        w, start = (ag.tensor(np.full((2, 2), number), requires_grad=True) for number in (0.5, 3.0))
        whole = start * 1.0
        part = whole[0]
        loss, total = function(w, part)
        with ag.set_grad_enabled(is_recorded):
            write(whole, part)
        sync.backward(loss + total * 2.0 if is_scaled else total)
        return [bits(one.grad) for one in (w, start)]

    jitted = ag.jit(function)
    for _ in range(5):
        for is_scaled in (False, True):
            assert grads_by(jitted, is_scaled) == grads_by(function, is_scaled)

    assert jitted.counts["replayed"]
