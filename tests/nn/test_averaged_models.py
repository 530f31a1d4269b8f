"""A model of averaged parameters is PyTorch's, and leaves the model that it averages alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from asyncgrad.nn.modules.module import Module

WAYS: dict[str, Any] = {
    "mean": lambda utils: {},
    "ema": lambda utils: {"avg_fn": utils.get_ema_avg_fn(0.75)},
    "ema of lists": lambda utils: {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.75)},
    "mean of lists": lambda utils: {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
    "buffers": lambda utils: {"avg_fn": utils.get_swa_avg_fn(), "use_buffers": True},
}
#: PyTorch computes the share of a step in float32 there.
TOLERANCES = {"mean of lists": 1e-6}


def values(step: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(step)
    shapes = {"0.weight": (2, 3), "0.bias": (2,), "1.weight": (2,), "1.bias": (2,)}
    running = {"1.running_mean": (2,), "1.running_var": (2,)}
    return {name: rng.standard_normal(shape) for name, shape in (shapes | running).items()}


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


@pytest.mark.parametrize("way", WAYS)
def test_averages_are_those_of_pytorch(way: str) -> None:
    torch = pytest.importorskip("torch")
    one, peer = model(), torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).double()
    averaged = nn.utils.AveragedModel(one, **WAYS[way](nn.utils))
    other = torch.optim.swa_utils.AveragedModel(peer, **WAYS[way](torch.optim.swa_utils))
    for step in range(4):
        one.update(values(step))
        peer.load_state_dict({name: torch.tensor(value) for name, value in values(step).items()}, strict=False)
        averaged.update_parameters(one)
        other.update_parameters(peer)

    expected = other.state_dict()
    assert list(averaged.state_dict()) == list(expected)
    for name, tensor in averaged.state_dict().items():
        np.testing.assert_allclose(tensor.numpy(), expected[name].numpy(), rtol=TOLERANCES.get(way, 1e-12))
    np.testing.assert_array_equal(one.get_parameter("0.weight").numpy(), values(3)["0.weight"])


def test_an_average_is_the_mean_of_all_values() -> None:
    one = model()
    averaged = nn.utils.AveragedModel(one)
    for step in range(3):
        one.update(values(step))
        averaged.update_parameters(one)

    expected = np.mean([values(step)["0.weight"] for step in range(3)], axis=0)
    np.testing.assert_allclose(averaged.get_parameter("module.0.weight").numpy(), expected, rtol=1e-12)
    assert averaged.n_averaged.item() == 3


def test_running_statistics_are_those_of_all_batches() -> None:
    one = model()
    batches = [np.random.default_rng(seed).standard_normal((4, 3)) for seed in range(3)]
    one.eval()
    nn.utils.update_bn([(batch, "label") for batch in batches], one)

    hidden = [one[0](batch).numpy() for batch in batches]
    np.testing.assert_allclose(one[1].running_mean.numpy(), np.mean(hidden, axis=(0, 1)), rtol=1e-12)
    np.testing.assert_allclose(
        one[1].running_var.numpy(), np.mean([np.var(h, axis=0, ddof=1) for h in hidden], axis=0), rtol=1e-12
    )
    assert one[1].momentum == 0.1
    assert not one.training


def test_what_cannot_be_averaged_is_named() -> None:
    averaged = nn.utils.AveragedModel(model())

    with pytest.raises(ArgumentError, match=r"0\.weight differs between the averages and the model"):
        averaged.update_parameters(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    with pytest.raises(ArgumentTypeError, match="model must be a Module"):
        nn.utils.AveragedModel([ag.tensor(1.0)])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="one of avg_fn and multi_avg_fn"):
        nn.utils.AveragedModel(Module(), avg_fn=nn.utils.get_swa_avg_fn(), multi_avg_fn=nn.utils.get_swa_multi_avg_fn())
    with pytest.raises(ArgumentError, match="decay must be from 0 to 1, not 2"):
        nn.utils.get_ema_avg_fn(2)
