"""Optimizers take on a device whose arrays are not NumPy's the steps that they take on the cpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from tests.optim.test_optimizers import EACH, problem
from tests.support.device_arrays import DEVICES


def trained(kind: type[optim.Optimizer], options: dict[str, Any], device: Any) -> list[np.ndarray]:
    """Return parameters after steps with clipped gradients, of which the later ones go on from a state_dict."""
    starts, gradients = problem(np.float64)
    params = [ag.tensor(start, device=device, requires_grad=True) for start in starts]
    optimizer: Any = kind(params, **options)
    for step in range(4):
        for param, grad in zip(params, gradients(step), strict=True):
            param.grad = ag.tensor(grad, device=device)
        optim.clip_grad_norm(params, 1.0)
        optimizer.step()
        state, optimizer = optimizer.state_dict(), kind(params, **options)
        optimizer.load_state_dict(state)
    assert all(param.device is ag.device(device) for param in params)
    return [param.detach().to("cpu").numpy() for param in params]


@pytest.mark.slow
@pytest.mark.parametrize("device_kind", DEVICES)
@EACH
def test_an_optimizer_takes_on_any_device_the_steps_that_it_takes_on_the_cpu(
    device_kind: str, kind: type[optim.Optimizer], options: dict[str, Any]
) -> None:
    expected = trained(kind, options, "cpu")
    with DEVICES[device_kind]() as device:
        found = trained(kind, options, device)

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("device_kind", DEVICES)
def test_a_saved_state_may_be_tensors_of_another_device(device_kind: str) -> None:
    here = ag.tensor([1.0, 2.0], requires_grad=True)
    second = optim.Adam([here])
    with DEVICES[device_kind]() as device:
        there = ag.tensor([1.0, 2.0], device=device, requires_grad=True)
        first = optim.Adam([there])
        first.step([there * 2])
        state = first.state_dict()
        state["state"][0] |= {name: ag.asarray(state["state"][0][name]) for name in ("exp_avg", "exp_avg_sq")}

        second.load_state_dict(state)

    assert second.state_dict()["state"][0]["exp_avg"].tolist() == pytest.approx([0.2, 0.4])
