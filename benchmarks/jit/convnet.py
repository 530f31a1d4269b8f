"""A convolutional classifier: images of 8 x 8, batch 64, convolutions of 16 and 32 channels, cross-entropy, float32."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from asyncgrad import nn

from .. import peers
from ..peers import Array, Problem
from . import floors

__all__ = ["TITLE", "asyncgrad_model", "floor", "problem", "torch_model"]

TITLE = "convnet on images of 8 x 8, batch 64"
BATCH, SIDE, CHANNELS, CLASSES = 64, 8, (1, 16, 32), 10


def asyncgrad_model(x: Array, labels: Array, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    x = nn.max_pool2d(nn.relu(nn.conv2d(x, w1, b1, padding=1)), 2)
    x = nn.relu(nn.conv2d(x, w2, b2, padding=1))
    return nn.cross_entropy(nn.linear(x.reshape(len(x), -1), w3, b3), labels)


def torch_model(x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    F = peers.torch.nn.functional
    x = F.max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=1)), 2)
    x = F.relu(F.conv2d(x, w2, b2, padding=1))
    return F.cross_entropy(F.linear(x.reshape(len(x), -1), w3, b3), labels)


def floor(
    x: Array, labels: Array, w1: Array, b1: Array, w2: Array, b2: Array, w3: Array, b3: Array
) -> tuple[Any, Callable[[Any], list[Array]]]:
    """Return the loss, and a function for the gradients, by hand; inside, the last axis is that of channels."""
    first, first_pullback = floors.convolution(x.transpose(0, 2, 3, 1), w1, b1)
    np.maximum(first, 0, out=first)
    pooled, pooling_pullback = floors.pooling(first)
    second, second_pullback = floors.convolution(pooled, w2, b2)
    np.maximum(second, 0, out=second)
    rows = second.transpose(0, 3, 1, 2).reshape(len(x), -1)
    loss, loss_pullback = floors.cross_entropy(rows @ w3.T + b3, labels)

    def pullback(g: Any) -> list[Array]:
        dlogits = loss_pullback(g)
        batch, height, width, channels = second.shape
        dsecond = (dlogits @ w3).reshape(batch, channels, height, width).transpose(0, 2, 3, 1) * (second > 0)
        dpooled, dw2, db2 = second_pullback(dsecond)
        dfirst = pooling_pullback(dpooled)
        dfirst *= first > 0
        _, dw1, db1 = first_pullback(dfirst, of_x=False)
        return [dw1, db1, dw2, db2, dlogits.T @ rows, dlogits.sum(axis=0)]

    return loss, pullback


def problem() -> Problem:
    """Return random images with labels, and weights that keep the scale of the activations."""
    random = np.random.default_rng(0)
    variables = []
    for before, after in pairwise(CHANNELS):
        variables += [random.standard_normal((after, before, 3, 3)) * (2 / 9 / before) ** 0.5, np.zeros(after)]
    inner = CHANNELS[-1] * (SIDE // 2) ** 2
    variables += [random.standard_normal((CLASSES, inner)) * inner**-0.5, np.zeros(CLASSES)]
    images = random.standard_normal((BATCH, CHANNELS[0], SIDE, SIDE)).astype(np.float32)
    labels = random.integers(0, CLASSES, BATCH)
    return Problem([images, labels], [array.astype(np.float32) for array in variables])
