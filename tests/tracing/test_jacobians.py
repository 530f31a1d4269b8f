"""Jacobians of compiled functions: the backward of the program runs for all rows, with the bits of one for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError, UnusedInputError
from asyncgrad.sync import func
from asyncgrad.tracing.replay import ReplayNode
from tests.tracing.running import bits, compiled

X = np.random.default_rng(0).standard_normal(5)
W = np.random.default_rng(1).standard_normal((5, 4))


@pytest.fixture(params=["table", "runner"])
def backend(request):
    if request.param == "runner":
        pytest.importorskip("llvmlite")
    return request.param


def net(w: Any, x: Any) -> Any:
    return np.tanh(x @ w) * np.exp(w).sum(axis=0)


def tensors(*arrays: np.ndarray) -> list[ag.Tensor]:
    return [ag.tensor(one, requires_grad=True) for one in arrays]


def jacobian_by_program(function: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray | None] | None:
    """Return what the node of a call computes as its Jacobian."""
    leaves = tensors(*arrays)
    node = function(*leaves).grad_fn
    assert isinstance(node, ReplayNode)
    steps = node.jacobian(leaves)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: list[np.ndarray | None] | None = end.value
        return found


def test_the_rows_are_those_of_a_backward_for_each(backend):
    jitted = compiled(net, *tensors(W, X), backend=backend)

    found = jacobian_by_program(jitted, W, X)

    expected = func.jacrev(net, (0, 1))(W, X)
    assert found is not None
    assert [bits(one) for one in found] == [bits(one) for one in expected]


@pytest.mark.parametrize("shape", [(), (1,), (3, 2), (70, 2)])
def test_an_output_may_have_any_shape(backend, shape):
    def shaped(x):
        return np.sin(x) * x

    x = np.random.default_rng(0).standard_normal(shape)
    found = jacobian_by_program(compiled(shaped, *tensors(x), backend=backend), x)

    assert found is not None
    assert bits(found[0].reshape(shape * 2)) == bits(func.jacrev(shaped)(x))


def test_transforms_take_them_from_there():
    jitted = ag.jit(net)
    for _ in range(6):
        assert [bits(one) for one in func.jacrev(jitted, (0, 1))(W, X)] == [
            bits(one) for one in func.jacrev(net, (0, 1))(W, X)
        ]
        found = sync.jacobian(jitted, (ag.tensor(W), ag.tensor(X)), create_graph=False)
        assert [bits(one) for one in found] == [bits(one) for one in func.jacrev(net, (0, 1))(W, X)]
    assert jitted.counts["replayed"]


def test_what_an_output_does_not_depend_on_has_zeros():
    jitted = ag.jit(lambda x, y: x * 2)
    for _ in range(6):
        found = func.jacrev(jitted, (0, 1))(X, X[:2])
        assert bits(found[1]) == bits(np.zeros((5, 2)))
        with pytest.raises(UnusedInputError):
            sync.jacobian(jitted, (X, X[:2]), strict=True)


def test_what_is_behind_the_arguments_is_differentiated_too():
    jitted = compiled(net, *tensors(W, X))

    def deeper(x):
        return jitted(W, np.sin(x))

    for _ in range(6):
        assert bits(func.jacrev(deeper)(X)) == bits(func.jacrev(lambda x: net(W, np.sin(x)))(X))


def test_second_derivatives_are_those_of_the_function():
    jitted = ag.jit(net)
    for _ in range(6):
        found = func.jacrev(func.jacrev(jitted, 1), 1)(W, X)
        assert bits(found) == bits(func.jacrev(func.jacrev(net, 1), 1)(W, X))


def test_a_floating_point_error_is_told_of(backend):
    def root(x):
        return np.sqrt(x)

    x = np.array([1.0, 0.0, 4.0])
    with np.errstate(all="ignore"):
        expected = func.jacrev(root)(x)
    jitted = compiled(root, *tensors(X * X + 1.0), backend=backend)
    for _ in range(3):
        jitted(*tensors(x))
    with pytest.warns(RuntimeWarning, match="encountered in divide"):
        assert bits(func.jacrev(jitted)(x)) == bits(expected)


def test_a_write_into_what_it_reads_is_found():
    jitted = compiled(lambda x: x * x, *tensors(X))
    leaf, result = tensors(X)[0], None
    result = jitted(leaf)
    with ag.no_grad():
        leaf += 1.0

    with pytest.raises(ChangedTensorError):
        list(result.grad_fn.jacobian([leaf]))


def test_hooks_and_observers_see_each_backward():
    jitted = compiled(net, *tensors(W, X))
    seen = []

    def hooked(x):
        result = jitted(W, x)
        result.register_hook(lambda grad: seen.append(grad))
        return result

    assert bits(func.jacrev(hooked)(X)) == bits(func.jacrev(lambda x: net(W, x))(X))
    assert len(seen) == 4
