"""Recurrent networks by the GPU's own kernels give what they give on the cpu, on steps of many blocks, too."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync

TOLERANCES = {"f": 1e-3, "d": 1e-10}
LAYERS = {
    "RNN": lambda dtype: nn.RNN(40, 50, num_layers=2, dtype=dtype),
    "RNN, relu": lambda dtype: nn.RNN(40, 50, nonlinearity="relu", dtype=dtype),
    "GRU": lambda dtype: nn.GRU(40, 50, bidirectional=True, dtype=dtype),
    "LSTM": lambda dtype: nn.LSTM(40, 50, num_layers=2, dtype=dtype),
    "LSTM, projected": lambda dtype: nn.LSTM(40, 50, proj_size=20, bidirectional=True, dtype=dtype),
}


def outcome(layer, x, create_graph):
    leaf = ag.tensor(x, device=next(layer.parameters()).device, requires_grad=True)
    found, state = layer(leaf)
    results = [found, *(state if isinstance(state, tuple) else (state,))]
    wanted = [leaf, *layer.parameters()]
    grads = sync.grad(sum(np.sum(one * one) for one in results), wanted, create_graph=create_graph)
    if create_graph:
        grads = sync.grad(sum(np.sum(one * one) for one in grads), wanted)
    return [one.detach().to("cpu").numpy() for one in (*results, *grads)]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_layer_gives_what_it_gives_on_the_host(gpu, make, dtype, create_graph):
    layer = make(np.dtype(dtype))
    moved = make(np.dtype(dtype)).to(gpu)
    moved.load_state_dict({name: value.to(gpu) for name, value in layer.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((12, 33, 40)).astype(dtype)

    for ours, right in zip(outcome(moved, x, create_graph), outcome(layer, x, create_graph), strict=True):
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        tolerance = TOLERANCES[right.dtype.char]
        np.testing.assert_allclose(ours, right, rtol=tolerance, atol=tolerance * np.abs(right).max())
