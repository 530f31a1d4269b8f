"""Moving averages of parameters and sums of gradients over micro-batches."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.errors import ArgumentError, ArgumentTypeError


def parameters() -> dict[str, Any]:
    return {"w": [ag.tensor([0.0, 0.0], requires_grad=True)], "count": ag.tensor(3)}


def trained(average: optim.ExponentialMovingAverage, params: dict[str, Any], values: range) -> None:
    for value in values:
        with ag.no_grad():
            params["w"][0][...] = float(value)
            params["count"][...] = value
        average.update()


def test_an_average_is_that_of_the_formula_and_integers_are_taken_over() -> None:
    params = parameters()
    average = optim.ExponentialMovingAverage(params, decay=0.5)
    trained(average, params, range(1, 4))

    assert average.averages()["w"][0].tolist() == [2.25, 2.25]
    assert average.averages()["count"].item() == 3
    assert not average.averages()["w"][0].requires_grad


def test_averages_that_were_handed_out_do_not_change() -> None:
    params = parameters()
    average = optim.ExponentialMovingAverage(params, decay=0.5)
    trained(average, params, range(1, 2))
    held = average.averages()["w"][0]
    trained(average, params, range(2, 4))

    assert held.tolist() == [1.0, 1.0]


def test_parameters_have_the_averages_inside_the_block_only_even_after_an_error() -> None:
    params = parameters()
    average = optim.ExponentialMovingAverage(params, decay=0.5)
    trained(average, params, range(1, 3))
    array = params["w"][0].numpy()
    inside = []

    def evaluate() -> None:
        with average.average_parameters():
            inside.append(params["w"][0].tolist())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evaluate()

    assert inside == [[1.5, 1.5]]
    assert params["w"][0].tolist() == [2.0, 2.0]
    assert np.shares_memory(array, params["w"][0].numpy())
    average.copy_to()
    assert params["w"][0].tolist() == [1.5, 1.5]


def test_an_average_goes_on_from_its_state_dict() -> None:
    params, others = parameters(), parameters()
    first, second = optim.ExponentialMovingAverage(params, 0.5), optim.ExponentialMovingAverage(others, 0.9)
    trained(first, params, range(1, 3))
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    trained(first, params, range(5, 6))
    trained(second, others, range(5, 6))

    assert second.averages()["w"][0].tolist() == first.averages()["w"][0].tolist()
    assert second.num_updates == 3


def test_bad_use_of_an_average_is_named() -> None:
    params = parameters()
    average = optim.ExponentialMovingAverage(params)
    with pytest.raises(ArgumentError, match="decay must be at least 0 and below 1"):
        optim.ExponentialMovingAverage(params, 1.0)
    with pytest.raises(ArgumentTypeError, match=re.escape("params['w'] must be a Tensor, not ndarray")):
        optim.ExponentialMovingAverage({"w": np.ones(2)})
    with pytest.raises(ArgumentError, match="must be what ExponentialMovingAverage"):
        average.load_state_dict({})
    other = optim.ExponentialMovingAverage({"w": [ag.tensor([1.0])], "count": ag.tensor(3)})
    with pytest.raises(ArgumentError, match=re.escape("params['w'][0] in state_dict has shape (1,), but the param")):
        average.load_state_dict(other.state_dict())


def test_gradients_of_micro_batches_add_up_and_those_of_the_caller_stay_as_they_are() -> None:
    accumulator = optim.GradientAccumulator()
    parts: list[Any] = [{"w": np.array([1.0, 2.0]), "b": ag.tensor(1.0)}, {"w": np.array([3.0, 4.0]), "b": None}]
    for part in parts:
        accumulator.add(part)

    assert accumulator.count == 2
    total = accumulator.sum()
    assert total["w"].tolist() == [4.0, 6.0]
    assert isinstance(total["b"], ag.Tensor)
    assert parts[0]["w"].tolist() == [1.0, 2.0]


def test_a_mean_of_gradients_is_that_of_the_whole_batch() -> None:
    x = np.arange(12.0).reshape(6, 2)
    w = ag.tensor([1.0, -1.0], requires_grad=True)
    gradient = ag.sync.func.grad(lambda w, x: ((x @ w) ** 2).mean())
    accumulator = optim.GradientAccumulator()
    for part in np.split(x, 3):
        accumulator.add(gradient(w, part))

    np.testing.assert_allclose(accumulator.mean().numpy(), gradient(w, x).numpy())
    assert accumulator.count == 0


def test_a_number_stays_an_array_that_an_optimizer_can_write_into() -> None:
    scale = ag.tensor(2.0, requires_grad=True)
    average, accumulator = optim.ExponentialMovingAverage([scale], decay=0.5), optim.GradientAccumulator()
    for _ in range(2):
        average.update()
        accumulator.add([scale.detach()])
    scale.grad = ag.tensor(3.0)
    optim.clip_grad_norm([scale], 1.0)

    for one in (*average.averages(), *accumulator.mean(), scale.grad):
        assert one is not None
        assert type(one._data) is np.ndarray


def test_gradients_that_do_not_fit_are_named_and_not_added() -> None:
    accumulator = optim.GradientAccumulator()
    with pytest.raises(ArgumentError, match="no gradients were added since the last step"):
        accumulator.mean()
    with pytest.raises(ArgumentTypeError, match=re.escape("grads['w'] must be a tensor or an array, not float")):
        accumulator.add({"w": 1.0})
    accumulator.add({"w": np.ones(2)})
    with pytest.raises(ArgumentError, match=re.escape("grads['w'] has shape (3,), but that of the gradients so far")):
        accumulator.add({"w": np.ones(3)})
    with pytest.raises(ArgumentError, match=re.escape("grads has no ['w'], which the gradients so far has there")):
        accumulator.add({"v": np.ones(3)})

    assert accumulator.mean()["w"].tolist() == [1.0, 1.0]
