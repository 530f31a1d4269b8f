"""Iteration over a tensor gives views that share one node, and otherwise what indices give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.ops.joining import unstack
from tests.support.device_arrays import DEVICES
from tests.support.settings import compiled_after

START = np.random.default_rng(0).normal(size=(3, 2, 4))


@pytest.fixture(params=["cpu", *DEVICES])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The cpu, and a device with arrays of its own, of each type."""
    with nullcontext("cpu") if request.param == "cpu" else DEVICES[request.param]() as opened:
        yield opened


@pytest.fixture(params=DEVICES)
def accelerator(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device with arrays of its own, of each type."""
    with DEVICES[request.param]() as opened:
        yield opened


def by_index(x: Any) -> Iterator[Any]:
    """Yield the subarrays, each with a node of its own."""
    return (x[index, ...] for index in range(len(x)))


Rows = Callable[[Any], Iterator[Any]]


def unpacked(x: Any, rows: Rows) -> Any:
    first, second, third = rows(x * 2)
    return first * second - third * third


def partly(x: Any, rows: Rows) -> Any:
    every = rows(x * 2)
    next(every)
    return next(every) ** 2


def transposed(x: Any, rows: Rows) -> Any:
    q, k, v = rows((x * x).transpose(2, 0, 1)[1:])
    return (q * k).sum(axis=0) + v[0]


def of_numbers(x: Any, rows: Rows) -> Any:
    return sum((number * index) ** 2 for index, number in enumerate(rows(x[0, 1])))


def along_another_axis(x: Any, rows: Rows) -> Any:
    first, second = unstack(x * 2, axis=1) if rows is iter else rows(np.moveaxis(x * 2, 1, 0))
    return first * second


def written_by_the_base(x: Any, rows: Rows) -> Any:
    y = x * 2
    total = 0
    for row in rows(y):
        total = total + row * 2
        y *= 3
    return total


def written_by_a_row(x: Any, rows: Rows) -> Any:
    y = x * 2
    for row in rows(y):
        row[...] = row * 3
    return y


def unrecorded(x: Any, rows: Rows) -> Any:
    total = x[0]
    for index, row in enumerate(rows(x)):
        with ag.set_grad_enabled(index != 1):
            total = total + row * row
    return total


FUNCTIONS = [
    unpacked,
    partly,
    transposed,
    of_numbers,
    along_another_axis,
    written_by_the_base,
    written_by_a_row,
    unrecorded,
]


def host(tensor: Any) -> Any:
    return tensor.detach().to("cpu").numpy()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_gradients_and_second_derivatives_are_those_of_indices(device: Any, function: Callable[..., Any]) -> None:
    def results(where: Any, rows: Rows) -> list[Any]:
        x = ag.tensor(START, device=where, requires_grad=True)
        y = function(x, rows)
        (grad,) = sync.grad((y * y).sum(), x, create_graph=True)
        (second,) = sync.grad((grad * grad).sum(), x)
        return [host(one) for one in (y, grad, second)]

    for found, right in zip(results(device, iter), results("cpu", by_index), strict=True):
        np.testing.assert_array_equal(found, right, strict=True)


def test_a_compiled_backward_gives_the_same_gradients(device: Any) -> None:
    grads = []
    with compiled_after(1):
        for _ in range(3):
            x = ag.tensor(START, device=device, requires_grad=True)
            sync.backward(unpacked(x, iter).sum())
            grads.append(host(x.grad))

    assert np.array_equal(grads[0], grads[1])
    assert np.array_equal(grads[0], grads[2])


def test_the_subarrays_share_one_node(device: Any) -> None:
    first, second, _ = ag.tensor(START, device=device, requires_grad=True) * 1

    assert first.grad_fn is second.grad_fn
    assert first.grad_fn.name == "UnstackBackward"


def test_the_gradient_lies_in_memory_as_the_array_of_a_device_does(accelerator: Any) -> None:
    y = (ag.tensor(START, device=accelerator, requires_grad=True) * 1).transpose(1, 0, 2)
    seen = []
    y.register_hook(lambda grad: seen.append(grad._data.strides))

    first, second = y
    sync.backward((first * second).sum())

    assert seen == [y._data.strides]
