"""Recurrences over sequences: their gradients are those of differences, and of PyTorch's layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.nn.functional import recurrent as recurrences
from asyncgrad.nn.functional.recurrent import ELMAN_RELU, ELMAN_TANH, GRU, LSTM, Cell, Weights, recur
from tests.core.ops.finite_differences import Case, check_derivatives

CELLS = {"tanh": ELMAN_TANH, "relu": ELMAN_RELU, "gru": GRU, "lstm": LSTM}
EACH_CELL = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


def draw(cell: Cell, length: int, n: int, features: int, dtype: Any = np.float64, proj_size: int = 0) -> list[Any]:
    """Return random arrays: inputs, all weights, and states."""
    rng = np.random.default_rng(3)
    rows, size = cell.gates * features, proj_size or features
    shapes = [(length, n, 3), (rows, 3), (rows, size), (rows,), (rows,), (size, features) if proj_size else None]
    shapes += [(n, size), *[(n, features)] * (cell.states - 1)]
    return [None if shape is None else rng.standard_normal(shape).astype(dtype) for shape in shapes]


def run(cell: Cell, arguments: Any) -> tuple[Any, ...]:
    return recur(cell, arguments[0], Weights(*arguments[1:6]), tuple(arguments[6:]))


def as_leaves(arguments: Any) -> list[Any]:
    return [None if one is None else ag.tensor(one, requires_grad=True) for one in arguments]


def tensors(arguments: Any) -> list[Any]:
    return [one for one in arguments if one is not None]


@pytest.mark.slow
@EACH_CELL
@pytest.mark.parametrize("has_bias", [True, False])
def test_first_and_second_derivatives_are_those_of_differences(cell: Cell, has_bias: bool) -> None:
    arguments = draw(cell, 3, 2, 2)
    if not has_bias:
        arguments[3:5] = [None, None]
    wanted = tuple(number for number, one in enumerate(arguments) if one is not None)

    check_derivatives(lambda *args: run(cell, args), Case(tuple(arguments), {}, wanted), order=2)


def test_derivatives_of_a_projected_lstm_are_those_of_differences() -> None:
    arguments = tuple(draw(LSTM, 3, 2, 2, proj_size=1))

    check_derivatives(lambda *args: run(LSTM, args), Case(arguments, {}, tuple(range(8))), order=2)


@EACH_CELL
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_and_small_steps_give_the_numbers_of_recorded_ones(cell: Cell, dtype: Any) -> None:
    proj_size = 5 if cell is LSTM else 0
    leaves = as_leaves(draw(cell, 4, 24, 16, dtype, proj_size))
    results = run(cell, leaves)
    weights = [np.cos(np.arange(one.size, dtype=dtype)).reshape(one.shape) for one in results]
    loss = sum(np.sum(one * weight) for one, weight in zip(results, weights, strict=True))
    recorded = sync.grad(loss, tensors(leaves), create_graph=True)
    fused = sync.grad(loss, tensors(leaves))
    few = run(cell, [one if one is None else one[:, :1] if one.ndim == 3 else one for one in leaves[:6]]
              + [one[:1] for one in leaves[6:]])  # fmt: skip

    tolerance = 1e-12 if dtype == np.float64 else 2e-4
    for one, other in zip(fused, recorded, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(few[0].numpy(), results[0].numpy()[:, :1], rtol=tolerance, atol=tolerance)


@EACH_CELL
def test_gradients_do_not_depend_on_how_many_steps_are_prepared_at_a_time(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves = as_leaves(draw(cell, 7, 2, 3))

    def gradients() -> list[Any]:
        loss = sum(np.sum(one * one) for one in run(cell, leaves))
        return [grad.numpy() for grad in sync.grad(loss, tensors(leaves))]

    together = gradients()
    monkeypatch.setattr(recurrences, "CHUNK", 2 * cell.gates * 2 * 3 * 8)
    apart = gradients()

    for one, other in zip(together, apart, strict=True):
        np.testing.assert_array_equal(one, other)


@EACH_CELL
def test_what_does_not_require_grad_gets_none(cell: Cell) -> None:
    arguments = draw(cell, 3, 2, 2)
    arguments[2] = leaf = ag.tensor(arguments[2], requires_grad=True)
    (grad,) = sync.grad(np.sum(run(cell, arguments)[0]), [leaf], create_graph=True)

    assert grad.shape == leaf.shape
    assert grad.requires_grad


@EACH_CELL
def test_arrays_give_arrays_and_float32_stays_float32(cell: Cell) -> None:
    arguments = draw(cell, 3, 2, 2, np.float32)
    before = [None if one is None else one.copy() for one in arguments]
    bare = run(cell, arguments)
    leaves = as_leaves(arguments)
    recorded = run(cell, leaves)
    grads = sync.grad(sum(np.sum(one) for one in recorded), tensors(leaves))

    for one, other in zip(bare, recorded, strict=True):
        assert isinstance(one, np.ndarray)
        assert one.dtype == np.float32
        np.testing.assert_array_equal(one, other.numpy())
    assert {grad.dtype for grad in grads} == {np.dtype(np.float32)}
    for one, other in zip(before, arguments, strict=True):
        np.testing.assert_array_equal(one, other)


@EACH_CELL
def test_a_whole_sequence_is_one_node(cell: Cell) -> None:
    arguments = draw(cell, 50, 2, 2)
    arguments[0] = leaf = ag.tensor(arguments[0], requires_grad=True)
    hidden, *_ = run(cell, arguments)

    assert hidden.grad_fn.name == "RecurrenceBackward"
    assert [node for node in hidden.grad_fn.next_nodes if node is not None] == [ag.graph.get_gradient_edge(leaf).node]


@pytest.mark.parametrize("n", [1, 200])
@EACH_CELL
def test_large_gates_saturate_without_warnings(cell: Cell, n: int) -> None:
    x, *rest = draw(cell, 2, n, 2)
    leaves = as_leaves([x * 1e4, *rest])
    results = run(cell, leaves)
    grads = sync.grad(np.sum(results[0]), tensors(leaves))

    assert all(np.isfinite(one.numpy()).all() for one in (*results, *grads))


def test_a_recurrence_is_that_of_its_steps_written_out() -> None:
    arguments = draw(LSTM, 4, 3, 2)
    x, to_input, to_hidden, bias, added, _, h, c = arguments
    hidden, cells = run(LSTM, arguments)
    for row in x:
        i, f, g, o = np.split(nn.linear(row, to_input, bias) + nn.linear(h, to_hidden, added), 4, axis=1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
        h = nn.sigmoid(o) * np.tanh(c)

    np.testing.assert_allclose(hidden[-1], h, rtol=1e-12)
    np.testing.assert_allclose(cells, c, rtol=1e-12)
