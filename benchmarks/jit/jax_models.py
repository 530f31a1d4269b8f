"""The models in JAX, and the formulas of optax's Adam. Who imports this has JAX installed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .. import chain as chains
from .. import transformer as blocks
from . import gpt as gpts

__all__ = ["adam", "chain", "convnet", "gpt", "lstm", "mlp", "transformer"]


def chain(x: Any) -> Any:
    return lax.fori_loop(0, chains.ITERATIONS, lambda _, y: y * x + x, x)


def linear(x: Any, weight: Any, bias: Any = 0) -> Any:
    return x @ weight.T + bias


def cross_entropy(logits: Any, labels: Any) -> Any:
    logarithms = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logarithms, labels[:, None], axis=1).mean()


def mlp(x: Any, labels: Any, *layers: Any) -> Any:
    for weight, bias in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
        x = jax.nn.relu(linear(x, weight, bias))
    return cross_entropy(linear(x, *layers[-2:]), labels)


def normalize(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred * lax.rsqrt(variance + blocks.EPSILON) * gain + bias


def block(x: Any, weights: Any, heads: int, mask: Any = 0) -> Any:
    """Return a layer of a transformer; `mask` is added to the scores."""
    g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = weights
    batch, tokens, width = x.shape
    qkv = linear(normalize(x, g1, b1), w_qkv, b_qkv)
    q, k, v = qkv.reshape(batch, tokens, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) * (heads / width) ** 0.5 + mask
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, width)
    x = x + linear(mixed, w_out, b_out)
    up = linear(normalize(x, g2, b2), w_up, b_up)
    return x + linear(jax.nn.gelu(up, approximate=True), w_down, b_down)


def transformer(x: Any, *weights: Any) -> Any:
    return block(x, weights, blocks.HEADS)


def lstm(xs: Any, h: Any, c: Any, w: Any, u: Any, bias: Any) -> Any:
    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(linear(x, w, bias) + linear(h, u), 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    (h, _), _ = lax.scan(cell, (h, c), xs)
    return h


def convolution(x: Any, weight: Any, bias: Any) -> Any:
    found = lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return found + bias[:, None, None]


def convnet(x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    x = jax.nn.relu(convolution(x, w1, b1))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    x = jax.nn.relu(convolution(x, w2, b2))
    return cross_entropy(linear(x.reshape(len(x), -1), w3, b3), labels)


def gpt(words: Any, targets: Any, *weights: Any) -> Any:
    embedding, places, *inner, gain, shift, head = weights
    batch, tokens = words.shape
    x = embedding[words] + places
    mask = jnp.triu(jnp.full((tokens, tokens), -jnp.inf, x.dtype), 1)
    for layer in range(gpts.LAYERS):
        x = block(x, inner[12 * layer : 12 * layer + 12], gpts.HEADS, mask)
    logits = linear(normalize(x, gain, shift), head)
    return cross_entropy(logits.reshape(batch * tokens, -1), targets.reshape(-1))


def adam(
    parameters: Any, gradients: Any, means: Any, squares: Any, count: Any, rate: float = 1e-3, epsilon: float = 1e-8
) -> tuple[Any, Any, Any, Any]:
    """Return parameters, means, squares and the count after a step: the formulas of `optax.adam`."""
    first, second = 0.9, 0.999
    count = count + 1
    means = [first * mean + (1 - first) * g for mean, g in zip(means, gradients, strict=True)]
    squares = [second * square + (1 - second) * g * g for square, g in zip(squares, gradients, strict=True)]
    parameters = [
        one - rate * (mean / (1 - first**count)) / (jnp.sqrt(square / (1 - second**count)) + epsilon)
        for one, mean, square in zip(parameters, means, squares, strict=True)
    ]
    return parameters, means, squares, count
