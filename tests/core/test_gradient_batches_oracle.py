"""Batched gradients are those of single backward passes, of PyTorch and of finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.transforms import batched

ROWS = 3


class BatchedCase(NamedTuple):
    """Outputs `fn(m, *inputs)`, with NumPy or PyTorch for `m`, of inputs of these shapes."""

    fn: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


CASES = {
    "elementwise": BatchedCase(lambda m, x, y: (x * x * m.exp(y) - x / y,), ((3,), (3,))),
    "matmul": BatchedCase(lambda m, x, w: (m.tanh(m.matmul(x, w)),), ((2, 3), (3, 2))),
    "broadcast": BatchedCase(lambda m, x, y: (x * y**2,), ((2, 1), (3,))),
    "several outputs": BatchedCase(lambda m, x, y: (x * y, m.sum(x * x * y), y**3), ((2,), (2,))),
    "shared inside": BatchedCase(lambda m, x, y: (lambda z: (z * x, m.sum(z * z)))(m.sin(x * y)), ((2,), (2,))),
    "numbers": BatchedCase(lambda m, x, y: (x * y + x,), ((), ())),
    "input as it is": BatchedCase(lambda m, x, y: (x, x * y), ((2,), (2,))),
    "unused input": BatchedCase(lambda m, x, y: (x**3,), ((2,), (3,))),
    "linear": BatchedCase(lambda m, x, y: (x * 2.0 - y,), ((2,), (2,))),
    "one element": BatchedCase(lambda m, x: (x**3,), ((1,),)),
}
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def points(case: BatchedCase) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.uniform(0.5, 1.5, shape) for shape in case.shapes]


def batches(outputs: Any, rows: int = ROWS) -> list[np.ndarray]:
    random = np.random.default_rng(4)
    return [random.standard_normal((rows, *output.shape)) for output in outputs]


def inputs_and_outputs(case: BatchedCase) -> tuple[list[ag.Tensor], Any]:
    inputs = [ag.tensor(point, requires_grad=True) for point in points(case)]
    return inputs, case.fn(np, *inputs)


@each
async def test_each_row_is_the_gradient_of_a_backward_of_its_own(case):
    inputs, outputs = inputs_and_outputs(case)
    given = batches(outputs)

    results = await batched(outputs, inputs, given, retain_graph=True, allow_unused=True)

    for index in range(ROWS):
        row = [batch[index] for batch in given]
        alone = await ag.grad(outputs, inputs, row, retain_graph=True, allow_unused=True)
        for result, wanted in zip(results, alone, strict=True):
            assert (result is None) == (wanted is None)
            if wanted is not None:
                np.testing.assert_array_equal(result.numpy()[index], wanted.numpy(), strict=True)


@each
async def test_results_are_those_of_pytorch(case):
    torch = pytest.importorskip("torch")
    inputs, outputs = inputs_and_outputs(case)
    given = batches(outputs)
    their_inputs = [torch.tensor(point, requires_grad=True) for point in points(case)]
    their_outputs = case.fn(torch, *their_inputs)

    results = await batched(outputs, inputs, given, allow_unused=True)

    wanted = torch.autograd.grad(
        their_outputs, their_inputs, [torch.tensor(batch) for batch in given], is_grads_batched=True, allow_unused=True
    )
    for result, theirs in zip(results, wanted, strict=True):
        assert (result is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_allclose(result.numpy(), theirs.numpy(), rtol=1e-12, strict=True)


@each
async def test_second_derivatives_are_those_of_pytorch(case):
    torch = pytest.importorskip("torch")
    inputs, outputs = inputs_and_outputs(case)
    their_inputs = [torch.tensor(point, requires_grad=True) for point in points(case)]
    their_outputs = case.fn(torch, *their_inputs)
    given = [ag.tensor(batch, requires_grad=True) for batch in batches(outputs)]
    their_given = [torch.tensor(batch, requires_grad=True) for batch in batches(outputs)]

    firsts = await batched(outputs, inputs, given, create_graph=True, allow_unused=True)
    total = sum((first * first).sum() for first in firsts if first is not None)
    seconds = await ag.grad(total, [*inputs, *given], allow_unused=True, materialize_grads=True)

    firsts = torch.autograd.grad(
        their_outputs, their_inputs, their_given, is_grads_batched=True, create_graph=True, allow_unused=True
    )
    total = sum((first * first).sum() for first in firsts if first is not None)
    wanted = torch.autograd.grad(total, [*their_inputs, *their_given], materialize_grads=True)
    for result, theirs in zip(seconds, wanted, strict=True):
        np.testing.assert_allclose(result.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-15, strict=True)


async def test_complex_gradients_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    data, given = np.array([1 + 2j, -0.5j]), np.array([[1, 1j], [2 - 1j, 0], [0.5, 3j]])
    z = ag.tensor(data, requires_grad=True)
    theirs = torch.tensor(data, requires_grad=True)

    (result,) = await batched(z * z * np.conj(z), [z], given)

    (wanted,) = torch.autograd.grad(theirs * theirs * theirs.conj(), theirs, torch.tensor(given), is_grads_batched=True)
    np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=1e-12, strict=True)


async def test_the_identity_as_batch_gives_the_jacobian_that_finite_differences_give():
    def fn(m: Any, x: Any) -> Any:
        return m.tanh(m.matmul(WEIGHT, x)) * m.sum(x)

    WEIGHT = np.array([[1.0, -2.0, 0.5], [0.25, 1.0, -1.0]])
    at = np.array([0.3, -0.7, 1.1])
    x = leaf(*at)

    (jacobian,) = await batched(fn(np, x), [x], np.eye(2))

    step = 1e-6
    columns = [(fn(np, at + step * unit) - fn(np, at - step * unit)) / (2 * step) for unit in np.eye(3)]
    np.testing.assert_allclose(jacobian.numpy(), np.stack(columns, axis=1), rtol=1e-8, atol=1e-9)


@on_each_loop
def test_under_create_graph_finite_differences_agree_in_the_inputs_and_in_the_batch(run):
    at, given = np.array([0.4, 1.3]), np.array([[1.0, 2.0], [-0.5, 0.25], [3.0, 1.0]])

    async def total(at: np.ndarray, given: np.ndarray) -> tuple[ag.Tensor, ag.Tensor, ag.Tensor]:
        x, v = ag.tensor(at, requires_grad=True), ag.tensor(given, requires_grad=True)
        (rows,) = await batched(np.sin(x) * x[0], [x], v, create_graph=True)
        return (rows * rows * np.arange(1.0, 7.0).reshape(3, 2)).sum(), x, v

    def difference(change: Callable[[float], tuple[np.ndarray, np.ndarray]]) -> float:
        step = 1e-6
        return (run(total(*change(step)))[0].item() - run(total(*change(-step)))[0].item()) / (2 * step)

    value, x, v = run(total(at, given))
    dx, dv = run(ag.grad(value, [x, v]))

    for index in range(2):
        unit = np.eye(2)[index]
        wanted = difference(lambda step, unit=unit: (at + step * unit, given))
        assert dx.numpy()[index] == pytest.approx(wanted, rel=1e-7)
    for place in np.ndindex(3, 2):
        unit = np.zeros((3, 2))
        unit[place] = 1.0
        wanted = difference(lambda step, unit=unit: (at, given + step * unit))
        assert dv.numpy()[place] == pytest.approx(wanted, rel=1e-7)


@each
async def test_an_empty_batch_gives_results_without_rows(case):
    inputs, outputs = inputs_and_outputs(case)

    results = await batched(outputs, inputs, batches(outputs, rows=0), allow_unused=True, retain_graph=True)

    one = await batched(outputs, inputs, batches(outputs, rows=1), allow_unused=True)
    for none, single in zip(results, one, strict=True):
        assert (none is None) == (single is None)
        if single is not None:
            assert (none.shape, none.dtype) == ((0, *single.shape[1:]), single.dtype)


async def test_the_dtype_is_that_of_the_input():
    x = ag.tensor(np.ones(2, np.float32), requires_grad=True)

    (result,) = await batched(x * x, [x], np.ones((3, 2), np.float64))

    assert result.dtype == np.float32
