"""Iteration over a tensor of a device gives views that share one node, and otherwise what it gives on the cpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.device_arrays import DEVICES
from tests.settings import compiled_after

START = np.random.default_rng(0).normal(size=(3, 2, 4))


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device with arrays of its own, of each type."""
    with DEVICES[request.param]() as opened:
        yield opened


def unpacked(x: Any) -> Any:
    first, second, third = x * 2
    return first * second - third * third


def partly(x: Any) -> Any:
    rows = iter(x * 2)
    next(rows)
    return next(rows) ** 2


def transposed(x: Any) -> Any:
    q, k, v = (x * x).transpose(2, 0, 1)[1:]
    return (q * k).sum(axis=0) + v[0]


def written_by_the_base(x: Any) -> Any:
    y = x * 2
    total = 0
    for row in y:
        total = total + row * 2
        y *= 3
    return total


def written_by_a_row(x: Any) -> Any:
    y = x * 2
    for row in y:
        row[...] = row * 3
    return y


def unrecorded(x: Any) -> Any:
    total = x[0]
    for index, row in enumerate(x):
        with ag.set_grad_enabled(index != 1):
            total = total + row * row
    return total


FUNCTIONS = [unpacked, partly, transposed, written_by_the_base, written_by_a_row, unrecorded]


def host(tensor: Any) -> Any:
    return tensor.detach().to("cpu").numpy()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_gradients_and_second_derivatives_are_those_of_the_cpu(device: Any, function: Callable[[Any], Any]) -> None:
    def results(where: Any) -> list[Any]:
        x = ag.tensor(START, device=where, requires_grad=True)
        y = function(x)
        (grad,) = sync.grad((y * y).sum(), x, create_graph=True)
        (second,) = sync.grad((grad * grad).sum(), x)
        return [host(one) for one in (y, grad, second)]

    for found, right in zip(results(device), results("cpu"), strict=True):
        np.testing.assert_array_equal(found, right, strict=True)


def test_a_compiled_backward_gives_the_same_gradients(device: Any) -> None:
    grads = []
    with compiled_after(1):
        for _ in range(3):
            x = ag.tensor(START, device=device, requires_grad=True)
            sync.backward(unpacked(x).sum())
            grads.append(host(x.grad))

    assert np.array_equal(grads[0], grads[1])
    assert np.array_equal(grads[0], grads[2])


def test_the_subarrays_share_one_node(device: Any) -> None:
    first, second, _ = ag.tensor(START, device=device, requires_grad=True) * 1

    assert first.grad_fn is second.grad_fn
    assert first.grad_fn.name == "UnstackBackward"


def test_the_gradient_lies_in_memory_as_the_array_does(device: Any) -> None:
    y = (ag.tensor(START, device=device, requires_grad=True) * 1).transpose(1, 0, 2)
    seen = []
    y.register_hook(lambda grad: seen.append(grad._data.strides))

    first, second = y
    sync.backward((first * second).sum())

    assert seen == [y._data.strides]
