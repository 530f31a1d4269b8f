"""Every function of asyncgrad.nn: its values and gradients are PyTorch's, its derivatives those of differences."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from tests.core.ops.finite_differences import call, check_derivatives, in_dtype, leaves_of, map_arrays
from tests.nn.cases import CALLS, Call

_counts: Counter[str] = Counter()


def _name(one: Call) -> str:
    name = one.function.__name__
    _counts[name] += 1
    return f"{name}-{_counts[name]}"


NAMED = {_name(one): one for one in CALLS}
SMOOTH = {name: one for name, one in NAMED.items() if one.case.smooth}
EACH = pytest.mark.parametrize("one", NAMED.values(), ids=NAMED)
EACH_SMOOTH = pytest.mark.parametrize(
    ("function", "one"), [pytest.param(one.function, one, id=name) for name, one in SMOOTH.items()]
)


def test_every_public_function_has_a_case() -> None:
    covered = {one.function.__name__ for one in CALLS}

    drawn = {"alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"}
    others = drawn | {"gumbel_softmax", "one_hot", "Parameter", "load_safetensors", "save_safetensors"}
    assert covered | others == {name for name in nn.__all__ if inspect.isfunction(getattr(nn, name))}


@pytest.mark.slow
@pytest.mark.sampled("function")
@EACH_SMOOTH
def test_first_and_second_derivatives_are_those_of_differences(function: Callable[..., Any], one: Call) -> None:
    check_derivatives(function, one.case, order=2)


@pytest.mark.slow
@pytest.mark.sampled("function")
@EACH_SMOOTH
def test_third_derivatives_are_those_of_differences_of_the_second(function: Callable[..., Any], one: Call) -> None:
    points = leaves_of(one.case)
    rng = np.random.default_rng(3)
    weights = [rng.uniform(0.5, 1.5, point.shape) for point in points]
    directions = [rng.standard_normal(point.shape) for point in points]

    def curvature(values: list[np.ndarray], create_graph: bool) -> tuple[list[Any], list[Any]]:
        """Return the inputs, and the gradient of the gradient's weighted sum."""
        inputs = [ag.tensor(value, requires_grad=True) for value in values]
        (output,) = call(function, one.case, inputs)
        cotangent = np.random.default_rng(4).uniform(0.5, 1.5, output.shape)
        first = sync.grad(output, inputs, cotangent, create_graph=True, materialize_grads=True)
        total = weighted_sum(first, inputs)
        return inputs, list(sync.grad(total, inputs, create_graph=create_graph, materialize_grads=True))

    def weighted_sum(grads: Any, inputs: list[Any]) -> Any:
        terms = (np.sum(grad * weight) for grad, weight in zip(grads, weights, strict=True))
        return sum(terms, start=0 * inputs[0].sum())  # requires grad also where no gradient does

    def weighted(values: list[np.ndarray]) -> float:
        second = curvature(values, False)[1]
        return float(sum(np.sum(grad.numpy() * weight) for grad, weight in zip(second, weights, strict=True)))

    inputs, second = curvature(points, True)
    third = sync.grad(weighted_sum(second, inputs), inputs, materialize_grads=True)
    slope = sum(float(np.sum(grad.numpy() * way)) for grad, way in zip(third, directions, strict=True))
    step = 1e-5
    above = weighted([point + step * way for point, way in zip(points, directions, strict=True)])
    below = weighted([point - step * way for point, way in zip(points, directions, strict=True)])

    np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@EACH
def test_float32_stays_float32(one: Call) -> None:
    case = in_dtype(one.case, np.float32)
    inputs = [ag.tensor(point, requires_grad=True) for point in leaves_of(case)]
    (output,) = call(one.function, case, inputs)
    grads = sync.grad(output, inputs, np.ones(output.shape, np.float32))

    assert {output.dtype, *(grad.dtype for grad in grads)} == {np.dtype(np.float32)}
    (expected,) = call(one.function, one.case, leaves_of(one.case))
    np.testing.assert_allclose(output.numpy(), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.slow
@EACH
def test_a_call_on_bare_arrays_gives_a_bare_array_with_the_same_values(one: Call) -> None:
    (bare,) = call(one.function, one.case, leaves_of(one.case))
    (output,) = call(one.function, one.case, [ag.tensor(point) for point in leaves_of(one.case)])

    assert isinstance(bare, np.ndarray | np.generic)
    np.testing.assert_array_equal(output.numpy(), bare)


@pytest.mark.slow
@EACH
def test_values_and_gradients_are_those_of_pytorch(one: Call) -> None:
    torch = pytest.importorskip("torch")
    inputs = [ag.tensor(point, requires_grad=True) for point in leaves_of(one.case)]
    (output,) = call(one.function, one.case, inputs)
    cotangent = np.random.default_rng(5).standard_normal(output.shape)
    grads = sync.grad(output, inputs, cotangent)
    case = one.case
    if one.torch_kwargs is not None:
        case = case._replace(kwargs=one.torch_kwargs)
    remaining = iter(peers := [torch.tensor(point, requires_grad=True) for point in leaves_of(one.case)])

    def convert(position: int | str, value: Any) -> Any:
        if position in case.differentiate:
            return map_arrays(value, lambda array: next(remaining))
        return torch.tensor(value) if isinstance(value, np.ndarray) else value

    args = [convert(position, value) for position, value in enumerate(case.args)]
    kwargs = {name: convert(name, value) for name, value in case.kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # padding="same" of an even kernel costs PyTorch a copy
        peer = getattr(torch.nn.functional, one.torch_name, None) or getattr(torch, one.torch_name)
        expected = peer(*args, **kwargs)
        # Some return indices too.
        expected = expected[0] if isinstance(expected, tuple) else expected
    expected_grads = torch.autograd.grad(expected, peers, torch.tensor(cotangent))
    if one.function is nn.ctc_loss:
        # PyTorch's is one that is right behind a log_softmax alone.
        expected_grads = tuple(
            grad - peer.detach().exp() * grad.sum(-1, keepdim=True)
            for grad, peer in zip(expected_grads, peers, strict=True)
        )
        grads = tuple(
            grad - np.exp(point.detach()) * grad.sum(-1, keepdims=True)
            for grad, point in zip(grads, inputs, strict=True)
        )

    np.testing.assert_allclose(output.numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    # The sixth that is hardsigmoid's slope has single precision in PyTorch.
    rtol = 1e-7 if one.function is nn.hardsigmoid else 1e-9
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        np.testing.assert_allclose(grad.numpy(), expected_grad.numpy(), rtol=rtol, atol=1e-12)
