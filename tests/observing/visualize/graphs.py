"""Graphs to draw."""

from __future__ import annotations

import numpy as np

import asyncgrad as ag


class Scale(ag.Function):
    """Multiplies by a factor; its rule is an `async def`."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    async def backward(ctx, grad):
        return grad * ctx.factor, None


class Residual(ag.nn.Module):
    """A stack of equal layers around which the input is carried on."""

    def __init__(self, depth: int, width: int = 4) -> None:
        super().__init__()
        self.layers = [ag.nn.Sequential(ag.nn.Linear(width, width), ag.nn.ReLU()) for _ in range(depth)]
        self.head = ag.nn.Linear(width, 2)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def loss_of(model: Residual) -> ag.Tensor:
    """Return a loss of the model, with a rule that waits and a hook."""
    out = Scale.apply(model(ag.tensor(np.ones((3, 4)))), 2.0)
    out.register_hook(lambda grad: grad)
    return (out**2).mean()
