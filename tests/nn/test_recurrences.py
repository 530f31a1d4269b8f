"""Recurrences over sequences: their gradients are those of differences, and of PyTorch's layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.nn import recurrences
from asyncgrad.nn.recurrences import ELMAN_RELU, ELMAN_TANH, GRU, LSTM, Cell, recur
from tests.ops.finite_differences import Case, check_derivatives

CELLS = {"tanh": ELMAN_TANH, "relu": ELMAN_RELU, "gru": GRU, "lstm": LSTM}
EACH_CELL = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


def draw(cell: Cell, length: int, n: int, features: int, dtype: Any = np.float64) -> list[Any]:
    """Return random arguments of `recur`, with a tuple of states."""
    rng = np.random.default_rng(3)
    rows = cell.gates * features
    shapes = [(length, n, rows), (rows, features), (rows,), *[(n, features)] * cell.states]
    entering, weight, bias, *state = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return [entering, weight, bias, tuple(state)]


@EACH_CELL
@pytest.mark.parametrize("has_bias", [True, False])
def test_first_and_second_derivatives_are_those_of_differences(cell: Cell, has_bias: bool) -> None:
    entering, weight, bias, state = draw(cell, 3, 2, 2)
    arguments = (entering, weight, bias if has_bias else None, state)

    check_derivatives(
        lambda *args: recur(cell, *args), Case(arguments, {}, (0, 1, 2, 3) if has_bias else (0, 1, 3)), order=2
    )


@EACH_CELL
def test_gradients_do_not_depend_on_how_many_steps_are_prepared_at_a_time(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    entering, weight, bias, state = draw(cell, 7, 2, 3)
    leaves = [ag.tensor(one, requires_grad=True) for one in (entering, weight, bias, *state)]

    def gradients() -> list[Any]:
        results = recur(cell, leaves[0], leaves[1], leaves[2], tuple(leaves[3:]))
        return [grad.numpy() for grad in sync.grad(sum(np.sum(one * one) for one in results), leaves)]

    together = gradients()
    monkeypatch.setattr(recurrences, "CHUNK", 2 * entering[0].nbytes)
    apart = gradients()

    for one, other in zip(together, apart, strict=True):
        np.testing.assert_array_equal(one, other)


@EACH_CELL
def test_what_does_not_require_grad_gets_none(cell: Cell) -> None:
    entering, weight, bias, state = draw(cell, 3, 2, 2)
    leaf = ag.tensor(weight, requires_grad=True)
    results = recur(cell, entering, leaf, bias, state)
    (grad,) = sync.grad(np.sum(results[0]), [leaf], create_graph=True)

    assert grad.shape == weight.shape
    assert grad.requires_grad


@EACH_CELL
def test_arrays_give_arrays_and_float32_stays_float32(cell: Cell) -> None:
    entering, weight, bias, state = draw(cell, 3, 2, 2, np.float32)
    bare = recur(cell, entering, weight, bias, state)
    leaves = [ag.tensor(one, requires_grad=True) for one in (entering, weight, bias, *state)]
    recorded = recur(cell, leaves[0], leaves[1], leaves[2], tuple(leaves[3:]))
    grads = sync.grad(sum(np.sum(one) for one in recorded), leaves)

    for one, other in zip(bare, recorded, strict=True):
        assert isinstance(one, np.ndarray)
        assert one.dtype == np.float32
        np.testing.assert_array_equal(one, other.numpy())
    assert {grad.dtype for grad in grads} == {np.dtype(np.float32)}


@EACH_CELL
def test_a_whole_sequence_is_one_node(cell: Cell) -> None:
    entering, weight, bias, state = draw(cell, 50, 2, 2)
    leaf = ag.tensor(entering, requires_grad=True)
    hidden, *_ = recur(cell, leaf, weight, bias, state)

    assert hidden.grad_fn.name == "RecurrenceBackward"
    assert [node for node in hidden.grad_fn.next_nodes if node is not None] == [ag.graph.get_gradient_edge(leaf).node]


def test_large_gates_saturate_without_warnings() -> None:
    entering, weight, bias, state = draw(LSTM, 2, 1, 2)
    hidden, cells = recur(LSTM, entering * 1e4, weight, bias, state)

    assert np.isfinite(hidden).all()
    assert np.isfinite(cells).all()


def test_a_recurrence_is_that_of_its_steps_written_out() -> None:
    entering, weight, bias, (h, c) = draw(LSTM, 4, 3, 2)
    hidden, cells = recur(LSTM, entering, weight, bias, (h, c))
    for row in entering:
        i, f, g, o = np.split(row + nn.linear(h, weight, bias), 4, axis=1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
        h = nn.sigmoid(o) * np.tanh(c)

    np.testing.assert_allclose(hidden[-1], h, rtol=1e-12)
    np.testing.assert_allclose(cells, c, rtol=1e-12)
