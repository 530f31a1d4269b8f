"""Running statistics, which a function changes by their arrays alone, are changed when its program has run whole."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from tests.tracing.running import bits


def batches(number: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((5, 3)) + index for index in range(number)]


def state_of(model: nn.Module) -> list[object]:
    return [bits(value) for value in model.state_dict().values()]


@pytest.mark.parametrize("verify", [0, 2])
@pytest.mark.parametrize("momentum", [0.1, 0.5])
def test_running_statistics_are_those_of_the_function_after_each_call(verify, momentum):
    model, twin = nn.BatchNorm1d(3, momentum=momentum), nn.BatchNorm1d(3, momentum=momentum)
    jitted = ag.jit(lambda model, x: (model(x) ** 3).sum(), verify=verify)
    for x in batches(9):
        found, expected = jitted(model, x), (twin(x) ** 3).sum()
        ag.sync.backward(found)
        ag.sync.backward(expected)

        assert bits(found) == bits(expected)
        assert state_of(model) == state_of(twin)
        assert [bits(one.grad) for one in model.parameters()] == [bits(one.grad) for one in twin.parameters()]

    # In the first call no parameter has a .grad: it is of another kind.
    assert jitted.counts["replayed"] == 6 - verify


def test_a_call_that_fails_leaves_the_statistics():
    model = nn.BatchNorm1d(3)

    def function(x):
        y = model(x)
        return y.sum() if float(x[0, 0]) < 100 else y.mean()

    jitted = ag.jit(function, verify=0)
    for _ in range(4):
        jitted(np.ones((5, 3)))
    before = state_of(model)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        jitted(np.full((5, 3), np.inf))

    assert state_of(model)[:2] == before[:2]


def test_a_recorded_backward_changes_them_once():
    model, twin = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    jitted = ag.jit(lambda x: (model(x) ** 3).sum(), verify=0)
    for x in batches(6):
        mine, theirs = ag.tensor(x, requires_grad=True), ag.tensor(x, requires_grad=True)
        (found,) = ag.sync.grad(jitted(mine), [mine], create_graph=True)
        (expected,) = ag.sync.grad((twin(theirs) ** 3).sum(), [theirs], create_graph=True)

        assert bits(found.detach()) == bits(expected.detach())
        assert state_of(model) == state_of(twin)


def test_evaluation_has_a_program_of_its_own():
    model = nn.BatchNorm1d(3)
    jitted = ag.jit(lambda x: model(x))
    for x in batches(6):
        jitted(x)
    before = state_of(model)
    model.eval()
    for x in batches(6):
        assert bits(jitted(x).detach()) == bits(model(x).detach())

    assert state_of(model) == before
    assert jitted.counts["replayed"] == 4


def test_a_write_by_the_tensor_keeps_it_eager():
    total = ag.tensor([0.0])

    def function(x):
        nonlocal total
        total += x.detach()
        return x * 2

    jitted = ag.jit(function)
    for _ in range(6):
        jitted(ag.tensor([1.0]))

    assert total.item() == 6.0
    assert jitted.counts["replayed"] == 0
