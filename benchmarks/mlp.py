"""A small multilayer perceptron: batch 64, four linear layers 128 wide, relu between them, cross-entropy, float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np

from asyncgrad import nn

from .peers import PEERS, Array, Models, Problem, hips_numpy, mygrad, torch
from .runner import RepeatedBenchmark, StepBenchmark

__all__ = ["BENCHMARKS", "Mlp", "asyncgrad_model", "draw_problem", "floor", "torch_model"]

BATCH, WIDTH, LAYERS = 64, 128, 4


def asyncgrad_model(x: Array, labels: Array, *layers: Any) -> Any:
    for weight, bias in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
        x = nn.relu(nn.linear(x, weight, bias))
    return nn.cross_entropy(nn.linear(x, *layers[-2:]), labels)


def torch_model(x: Any, labels: Any, *layers: Any) -> Any:
    functional = torch.nn.functional
    for weight, bias in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
        x = functional.relu(functional.linear(x, weight, bias))
    return functional.cross_entropy(functional.linear(x, *layers[-2:]), labels)


def hips_model(x: Any, labels: Array, *layers: Any) -> Any:
    for weight, bias in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
        x = hips_numpy.maximum(hips_numpy.dot(x, weight.T) + bias, 0)
    logits = hips_numpy.dot(x, layers[-2].T) + layers[-1]
    logits = logits - hips_numpy.max(logits, axis=1, keepdims=True)
    normalizers = hips_numpy.log(hips_numpy.sum(hips_numpy.exp(logits), axis=1))
    return hips_numpy.mean(normalizers - logits[np.arange(BATCH), labels])


def mygrad_model(x: Array, labels: Array, *layers: Any) -> Any:
    for weight, bias in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
        x = mygrad.nnet.relu(mygrad.matmul(x, weight.T) + bias)
    return mygrad.nnet.softmax_crossentropy(mygrad.matmul(x, layers[-2].T) + layers[-1], labels)


def floor(x: Array, labels: Array, *layers: Array) -> tuple[Any, Callable[[Any], list[Array]]]:
    """Return the loss, and a function for the gradients, by hand."""
    weights, biases = layers[::2], layers[1::2]
    inputs = [x]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        x = np.maximum(x @ weight.T + bias, 0)
        inputs.append(x)
    logits = x @ weights[-1].T + biases[-1]
    logits -= logits.max(axis=1, keepdims=True)
    probabilities = np.exp(logits)
    sums = probabilities.sum(axis=1, keepdims=True)
    probabilities /= sums
    batch = len(x)
    picked = np.arange(batch, like=x), labels
    loss = (np.log(sums[:, 0]) - logits[picked]).mean()

    def pullback(g: Any) -> list[Array]:
        through = probabilities.copy()
        through[picked] -= 1
        through *= np.float32(g) / batch
        gradients: list[Array] = []
        for layer in reversed(range(len(weights))):
            gradients[:0] = [through.T @ inputs[layer], through.sum(axis=0)]
            if layer:
                through = through @ weights[layer]
                through *= inputs[layer] > 0
        return gradients

    return loss, pullback


def draw_problem(batch: int, layers: int, width: int) -> Problem:
    """Return random data with labels, and weights that keep the scale of the activations."""
    random = np.random.default_rng(0)
    variables = []
    for _ in range(layers):
        variables += [random.standard_normal((width, width)) * (2 / width) ** 0.5, random.standard_normal(width) / 10]
    x = random.standard_normal((batch, width)).astype(np.float32)
    labels = random.integers(0, width, batch)
    return Problem([x, labels], [array.astype(np.float32) for array in variables])


@final
class Mlp(RepeatedBenchmark, StepBenchmark):
    """Gradients for all weights and biases, not for the input."""

    title = "MLP, batch 64, 4 layers of 128"
    params = (tuple(PEERS),)
    models: ClassVar[Models] = {
        "asyncgrad": asyncgrad_model,
        "torch": torch_model,
        "HIPS": hips_model,
        "MyGrad": mygrad_model,
        "floor": floor,
    }

    @staticmethod
    def problem() -> Problem:
        """Return the data and the weights."""
        return draw_problem(BATCH, LAYERS, WIDTH)


BENCHMARKS = [Mlp]
