"""Layers compute on a device whose arrays are not NumPy's what they compute on the cpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from tests.nn.test_layers import LAYERS
from tests.support.device_arrays import DEVICES

#: These have more than one output, or a state, and are not in the table.
OTHERS: dict[str, Any] = {
    "LSTM": (lambda nn: nn.LSTM(3, 4, num_layers=2, bidirectional=True), (np.ones((5, 2, 3)),)),
    "GRU": (lambda nn: nn.GRU(3, 4, batch_first=True), (np.ones((2, 5, 3)),)),
    "RNN": (lambda nn: nn.RNN(3, 4), (np.ones((5, 3)),)),
    "MultiheadAttention": (lambda nn: nn.MultiheadAttention(4, 2), (np.eye(4), np.ones((3, 4)), np.ones((3, 4)))),
    "TransformerEncoderLayer": (lambda nn: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.2), (np.eye(4),)),
    "BatchNorm1d": (lambda nn: nn.BatchNorm1d(3), (np.arange(12.0).reshape(4, 3),)),
    "Dropout": (lambda nn: nn.Dropout(0.5), (np.ones((4, 3)),)),
}


def results(name: str, device: Any) -> list[np.ndarray]:
    """Return the outputs of a layer on a device, and the gradients of its inputs and parameters."""
    make, inputs = {**LAYERS, **OTHERS}[name]
    ag.random.seed(0)
    layer = make(nn).to(device)
    given = [ag.tensor(one, device=device, requires_grad=one.dtype.kind == "f") for one in inputs]
    outputs = [one for one in ag.tree.leaves(layer(*given)) if isinstance(one, ag.Tensor)]
    sync.backward(sum((one * one).sum() for one in outputs))
    leaves = [*layer.parameters(), *[one for one in given if one.requires_grad]]
    found = [*outputs, *[one.grad for one in leaves]]
    assert {str(one.device) for one in [*found, *layer.buffers()]} == {str(ag.device(device))}
    return [one.detach().to("cpu").numpy() for one in found]


@pytest.mark.slow
@pytest.mark.sampled("name")
@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("name", [*LAYERS, *OTHERS])
def test_a_layer_gives_on_any_device_what_it_gives_on_the_cpu(kind: str, name: str) -> None:
    expected = results(name, "cpu")
    with DEVICES[kind]() as device:
        found = results(name, device)

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
