"""Three models as lists of layers, each a function of the state before it; their weights are leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import asyncgrad as ag
from asyncgrad import nn
from tests.support.leaves import leaf_of

__all__ = ["MODELS", "Model", "chained", "checkpointed", "loss_of", "maybe_async", "recomputed", "without_checkpoints"]

WIDTH = 8


class Model(NamedTuple):
    """The layers, what the first one is called on, and the leaves."""

    layers: list[Callable[[Any], Any]]
    start: Any
    leaves: list[Any]


def mlp() -> Model:
    random = np.random.default_rng(0)
    weights = [leaf_of(random.standard_normal((WIDTH, WIDTH)) / 3) for _ in range(6)]
    x = leaf_of(random.standard_normal((5, WIDTH)))
    return Model([lambda x, w=w: np.tanh(x @ w) for w in weights], x, [x, *weights])


def transformer() -> Model:
    random = np.random.default_rng(1)
    x = leaf_of(random.standard_normal((2, 4, WIDTH)))
    leaves, layers = [x], []
    for _ in range(3):
        shapes = [(WIDTH,), (3 * WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,), (2 * WIDTH, WIDTH), (WIDTH, 2 * WIDTH)]
        weights = [leaf_of(random.standard_normal(shape) / 3) for shape in shapes]
        layers.append(lambda x, weights=weights: block(x, *weights))
        leaves += weights
    return Model(layers, x, leaves)


def block(x: Any, gain: Any, w_qkv: Any, w_out: Any, gain2: Any, w_up: Any, w_down: Any) -> Any:
    q, k, v = np.split(nn.linear(nn.layer_norm(x, (WIDTH,), gain), w_qkv), 3, axis=-1)
    x = x + nn.linear(nn.scaled_dot_product_attention(q, k, v), w_out)
    return x + nn.linear(nn.gelu(nn.linear(nn.layer_norm(x, (WIDTH,), gain2), w_up)), w_down)


def lstm() -> Model:
    """Three steps a layer; all of them share the weights."""
    random = np.random.default_rng(2)
    w, u, bias = (leaf_of(random.standard_normal(shape)) for shape in ((32, 8), (32, 8), (32,)))
    h, c = (leaf_of(random.standard_normal((3, 8))) for _ in range(2))
    xs = random.standard_normal((4, 3, 3, 8))

    def layer(xs: Any, state: Any) -> Any:
        h, c = state
        for x in xs:
            i, f, g, o = np.split(nn.linear(x, w, bias) + nn.linear(h, u), 4, axis=1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * nn.tanh(g)
            h = nn.sigmoid(o) * nn.tanh(c)
        return h, c

    return Model([lambda state, xs=one: layer(xs, state) for one in xs], (h, c), [h, c, w, u, bias])


MODELS = {"mlp": mlp, "transformer": transformer, "lstm": lstm}


def maybe_async(function: Any, is_async: bool) -> Any:
    """The function, or an async one that does the same and suspends first."""
    if not is_async:
        return function

    async def later(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    return later


def loss_of(state: Any) -> Any:
    parts = state if isinstance(state, tuple) else (state,)
    return sum(np.square(part).sum() for part in parts)


def without_checkpoints(model: Model) -> Any:
    state = model.start
    for layer in model.layers:
        state = layer(state)
    return loss_of(state)


async def checkpointed(model: Model, *, is_async: bool, **options: Any) -> Any:
    """The loss, each layer checkpointed."""
    state = model.start
    for layer in model.layers:
        result = ag.checkpoint(maybe_async(layer, is_async), state, **options)
        state = await result if is_async else result
    return loss_of(state)


async def chained(model: Model, *, is_async: bool, **options: Any) -> Any:
    result = ag.checkpoint_chain([maybe_async(layer, is_async) for layer in model.layers], model.start, **options)
    return loss_of(await result if is_async else result)


def recomputed(fn: Any, *args: Any, **options: Any) -> Any:
    """A call that is checkpointed without a reentrant backward."""
    return ag.checkpoint(fn, *args, use_reentrant=False, **options)
