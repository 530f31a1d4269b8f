"""Gradients that a program has computed are recorded as those of the function are, and differentiate as those do."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError, ReleasedGraphError
from asyncgrad.nn.functional.dropout import dropout
from tests.tracing.running import bits, compiled


def leaf(*numbers: float) -> ag.Tensor:
    return ag.tensor(numbers, requires_grad=True)


def partly_recorded(w: Any, x: Any) -> Any:
    factor = np.exp(w)
    with ag.enable_grad():
        return w * factor * x, (w * x).sum()


def of_default_dtype(w: Any, x: Any) -> Any:
    return w.astype(np.float32) * ag.tensor([0.1, 0.2]) * x.astype(np.float32), (w * x).sum()


def with_dropout(w: Any, x: Any) -> Any:
    return dropout(w, 0.5) * w * x, (w * x).sum()


def with_logarithm(w: Any, x: Any) -> Any:
    return np.sign(np.log(x.detach())) * w * x, (w * x).sum()


def in_no_grad(call: Callable[[], Any]) -> Any:
    with ag.no_grad():
        return call()


def in_single_precision(call: Callable[[], Any]) -> Any:
    with ag.default_dtype(np.float32):
        return call()


def with_another_generator(call: Callable[[], Any]) -> Any:
    ag.random.seed(np.random.Generator(np.random.MT19937(3)))
    found = call()
    ag.random.seed(4)
    return found


def with_errors_ignored(call: Callable[[], Any]) -> Any:
    with np.errstate(all="ignore"):
        return call()


CONTEXTS = {
    "grad mode": (partly_recorded, in_no_grad),
    "default dtype": (of_default_dtype, in_single_precision),
    "generator": (with_dropout, with_another_generator),
    "floating-point errors": (with_logarithm, with_errors_ignored),
}


@pytest.mark.parametrize("output", [0, 1])
@pytest.mark.parametrize("name", CONTEXTS)
def test_a_backward_that_runs_the_function_again_does_so_in_the_context_of_the_call(name, output):
    function, within = CONTEXTS[name]

    def derivatives(called: Callable[..., Any]) -> Any:
        w, x = leaf(0.5, 1.5), leaf(0.0, 0.5)
        result = within(lambda: called(w, x))[output]
        first = sync.grad(result.sum(), [w, x], create_graph=True, retain_graph=True)
        second = sync.grad((first[0] * first[1]).sum(), [w, x], allow_unused=True)
        return [bits(one.detach()) for one in first], [None if one is None else bits(one) for one in second]

    jitted = ag.jit(function, verify=0)
    with np.errstate(all="raise"):
        for _ in range(2):
            w, x = leaf(1.0, 2.0), leaf(1.0, 2.0)
            within(functools.partial(jitted, w, x))
        assert derivatives(jitted) == derivatives(function)
    assert jitted.counts["replayed"] == 1, dict(jitted.counts)


def test_nobody_is_told_of_a_floating_point_error_again_where_a_gradient_is_differentiated():
    jitted = compiled(lambda x: np.log(x).sum(), leaf(1.0, 2.0))
    x = leaf(0.0, 1.0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        value = jitted(x)
        (grad,) = sync.grad(value, [x], create_graph=True)
        assert len(told) == 2
        with np.errstate(all="raise", divide="ignore", invalid="ignore"):
            sync.grad(grad.sum(), [x])
    assert len(told) == 2


@pytest.mark.parametrize("has_graph", [False, True])
def test_a_recorded_gradient_requires_grad_where_that_of_the_function_does(has_graph):
    def function(a: Any, b: Any, c: Any) -> Any:
        return a * 2 + b * b + c.detach() * b

    jitted = compiled(function, leaf(1.0), leaf(2.0), leaf(3.0))

    def found(called: Callable[..., Any]) -> Any:
        leaves = [leaf(1.5), leaf(2.5), leaf(3.5)]
        incoming = ag.tensor([2.0], requires_grad=has_graph)
        grads = sync.grad(called(*leaves), leaves, [incoming], create_graph=True, allow_unused=True)
        return [None if one is None else (one.requires_grad, bits(one.detach())) for one in grads]

    for _ in range(2):
        assert found(jitted) == found(function)


def test_an_incoming_gradient_may_not_be_written_into_before_the_gradient_is_differentiated():
    jitted = compiled(np.tanh, leaf(1.0))
    x, incoming = leaf(0.5), leaf(2.0)
    (grad,) = sync.grad(jitted(x), [x], [incoming], create_graph=True)
    with ag.no_grad():
        incoming *= 3
    with pytest.raises(ChangedTensorError):
        sync.grad(grad.sum(), [x])


def test_a_gradient_that_was_differentiated_lets_go_of_its_graph():
    jitted = compiled(lambda x: np.tanh(x).sum(), leaf(1.0))
    x = leaf(0.5)
    (grad,) = sync.grad(jitted(x), [x], create_graph=True)
    kept = sync.grad(grad.sum(), [x], retain_graph=True)
    assert bits(sync.grad(grad.sum(), [x])[0]) == bits(kept[0])
    with pytest.raises(ReleasedGraphError):
        sync.grad(grad.sum(), [x])


class Square(ag.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * grad * x


def test_a_gradient_by_a_function_of_the_users_and_by_another_way_is_differentiated():
    def second(called: Callable[..., Any]) -> Any:
        x = leaf(0.5, 1.5)
        (grad,) = sync.grad(called(x), [x], create_graph=True)
        return bits(sync.grad(grad.sum(), [x])[0])

    def function(x: Any) -> Any:
        return Square.apply(x).sum() + np.exp(x).sum()

    assert second(compiled(function, leaf(1.0, 2.0))) == second(function)


def test_a_leaf_is_one_where_the_function_runs_again():
    def function(x: Any) -> Any:
        try:
            x -= 1
        except ag.errors.InPlaceError:
            return (x * x).sum()
        raise AssertionError("a write into a leaf")

    jitted = compiled(function, leaf(1.0, 2.0))
    x = leaf(0.5, 1.5)
    (grad,) = sync.grad(jitted(x), [x], create_graph=True)
    assert grad.tolist() == [1.0, 3.0]
    assert sync.grad(grad.sum(), [x])[0].tolist() == [2.0, 2.0]


@pytest.mark.filterwarnings("ignore:backward.. with create_graph=True:UserWarning")
def test_an_argument_that_stops_to_require_grad_after_the_call_leaves_the_other_gradients_as_they_are():
    def function(w: Any, v: Any) -> Any:
        return (np.tanh(w) * v).sum()

    def grads_by(function: Any, is_frozen_late: bool) -> list[Any]:
        w, v = (ag.tensor([0.5, -0.25], requires_grad=True) for _ in range(2))
        result = function(w, v)
        w.requires_grad_(is_frozen_late)
        sync.backward(result, create_graph=True)
        assert v.grad is not None
        squares, v.grad = (v.grad * v.grad).sum(), None
        w.requires_grad_(False)
        if squares.requires_grad:
            sync.backward(squares)
        return [bits(one) for one in (squares, w.grad, v.grad)]

    jitted = compiled(function, *[ag.tensor([1.0, 2.0], requires_grad=True) for _ in range(2)])

    for is_frozen_late in (False, True):
        assert grads_by(jitted, is_frozen_late) == grads_by(function, is_frozen_late)
