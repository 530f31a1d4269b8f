"""The cases of the benchmarks on a GPU: models with their arrays, whose training steps are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, final

import numpy as np

from asyncgrad import nn

from .. import lstm, mlp, transformer
from ..peers import Array, Models, Problem, torch

__all__ = ["CASES", "LARGEST", "TINY", "Case"]


@final
@dataclass(frozen=True)
class Case:
    """A model to train, with the name of its row in the table."""

    name: str
    draw: Callable[[], Problem]
    models: Models
    #: Whether only the step of the optimizer is measured, on the gradients of one backward.
    updates_only: bool = False


def mlp_case(layers: int, width: int, batch: int) -> Case:
    """Return the case of an MLP, which is also written by hand in CuPy."""
    models = {"asyncgrad": mlp.asyncgrad_model, "torch": mlp.torch_model, "by hand": mlp.floor}
    name = f"MLP, {layers} layers of {width:,}, batch {batch}"
    # Cached, since drawing the largest takes seconds.
    return Case(name, cache(partial(mlp.draw_problem, batch, layers, width)), models)


def adam_case(layers: int, width: int, batch: int) -> Case:
    """Return the case of the Adam step of an MLP."""
    case = mlp_case(layers, width, batch)
    name = f"Adam alone, {2 * layers} parameters of an MLP of {width:,}"
    return Case(name, case.draw, case.models, updates_only=True)


def transformer_case(width: int, tokens: int, batch: int, heads: int) -> Case:
    """Return the case of a transformer block."""
    models: Models = {
        "asyncgrad": partial(transformer.asyncgrad_model, heads=heads),
        "torch": partial(transformer.torch_model, heads=heads),
    }
    name = f"transformer block, d {width}, T {tokens}, batch {batch}, {heads} heads"
    return Case(name, partial(transformer.draw_problem, batch, tokens, width), models)


def lstm_case(steps: int, hidden: int, batch: int) -> Case:
    """Return the case of an LSTM that is written cell by cell."""
    models = {"asyncgrad": lstm.asyncgrad_model, "torch": lstm.torch_model}
    name = f"LSTM, {steps} steps, hidden {hidden}, batch {batch}"
    return Case(name, partial(lstm.draw_problem, steps, batch, hidden), models)


#: The channels of the images and of the layers of the convolutional network.
CHANNELS = (3, 32, 64, 128)
CLASSES = 10


def asyncgrad_conv_net(x: Any, labels: Any, *weights: Any) -> Any:
    for weight, bias in zip(weights[0:-2:2], weights[1:-2:2], strict=True):
        x = nn.max_pool2d(nn.relu(nn.conv2d(x, weight, bias, padding=1)), 2)
    return nn.cross_entropy(nn.linear(x.reshape(x.shape[0], -1), *weights[-2:]), labels)


def torch_conv_net(x: Any, labels: Any, *weights: Any) -> Any:
    functional = torch.nn.functional
    for weight, bias in zip(weights[0:-2:2], weights[1:-2:2], strict=True):
        x = functional.max_pool2d(functional.relu(functional.conv2d(x, weight, bias, padding=1)), 2)
    return functional.cross_entropy(functional.linear(x.reshape(x.shape[0], -1), *weights[-2:]), labels)


def draw_conv_net(batch: int, side: int) -> Problem:
    """Return images with labels, the filters of three layers, and the weights of the last layer, which is linear."""
    random = np.random.default_rng(0)

    def draw(*shape: int, scale: float = 1.0) -> Array:
        return (random.standard_normal(shape) * scale).astype(np.float32)

    variables = []
    for inner, outer in pairwise(CHANNELS):
        variables += [draw(outer, inner, 3, 3, scale=(2 / (9 * inner)) ** 0.5), draw(outer, scale=0.1)]
    features = CHANNELS[-1] * (side // 2 ** (len(CHANNELS) - 1)) ** 2
    variables += [draw(CLASSES, features, scale=features**-0.5), draw(CLASSES, scale=0.1)]
    return Problem([draw(batch, CHANNELS[0], side, side), random.integers(0, CLASSES, batch)], variables)


def conv_net_case(batch: int, side: int) -> Case:
    """Return the case of a network of three convolutions, each with relu and pooling, and a linear layer."""
    models: Models = {"asyncgrad": asyncgrad_conv_net, "torch": torch_conv_net}
    return Case(f"conv net, 3 layers, {batch} × 3 × {side} × {side}", partial(draw_conv_net, batch, side), models)


#: The case of the largest products.
LARGEST = mlp_case(8, 4096, 256)

#: The cases of the table, in the order of its rows.
CASES = (
    mlp_case(4, 128, 64),
    mlp_case(8, 1024, 256),
    mlp_case(16, 2048, 256),
    LARGEST,
    transformer_case(64, 32, 8, 4),
    transformer_case(512, 128, 16, 8),
    lstm_case(100, 32, 16),
    lstm_case(100, 512, 64),
    conv_net_case(64, 32),
    adam_case(8, 1024, 256),
)

#: The same models, so small that a processor runs each step within milliseconds: to try the program without a GPU.
TINY = (
    mlp_case(3, 16, 4),
    transformer_case(8, 4, 2, 2),
    lstm_case(3, 4, 2),
    conv_net_case(2, 8),
    adam_case(3, 16, 4),
)
