"""A GPT: 2 layers, width 64, 4 heads, 64 tokens, batch 4, 64 words, cross-entropy of the next token, float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncgrad import nn

from .. import peers
from ..peers import Array, Problem
from ..transformer import EPSILON, floor_gelu, floor_norm
from . import floors

__all__ = ["HEADS", "LAYERS", "TITLE", "asyncgrad_model", "floor", "problem", "torch_model"]

TITLE = "GPT of 2 layers, d 64, T 64, batch 4, 4 heads"
LAYERS, WIDTH, HEADS, TOKENS, BATCH, WORDS = 2, 64, 4, 64, 4, 64


def asyncgrad_model(words: Array, targets: Array, *weights: Any) -> Any:
    embedding, places, *inner, gain, shift, head = weights
    batch, tokens = words.shape
    x = nn.embedding(words, embedding) + places
    width = x.shape[-1]
    for layer in range(LAYERS):
        g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = inner[12 * layer : 12 * layer + 12]
        qkv = nn.linear(nn.layer_norm(x, (width,), g1, b1, EPSILON), w_qkv, b_qkv)
        q, k, v = qkv.reshape(batch, tokens, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
        mixed = nn.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + nn.linear(mixed.transpose(0, 2, 1, 3).reshape(batch, tokens, width), w_out, b_out)
        up = nn.linear(nn.layer_norm(x, (width,), g2, b2, EPSILON), w_up, b_up)
        x = x + nn.linear(nn.gelu(up, approximate="tanh"), w_down, b_down)
    logits = nn.linear(nn.layer_norm(x, (width,), gain, shift, EPSILON), head)
    return nn.cross_entropy(logits.reshape(batch * tokens, -1), targets.reshape(-1))


def torch_model(words: Any, targets: Any, *weights: Any) -> Any:
    F = peers.torch.nn.functional
    embedding, places, *inner, gain, shift, head = weights
    batch, tokens = words.shape
    x = F.embedding(words, embedding) + places
    width = x.shape[-1]
    for layer in range(LAYERS):
        g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = inner[12 * layer : 12 * layer + 12]
        qkv = F.linear(F.layer_norm(x, (width,), g1, b1, EPSILON), w_qkv, b_qkv)
        q, k, v = qkv.reshape(batch, tokens, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(mixed.transpose(1, 2).reshape(batch, tokens, width), w_out, b_out)
        up = F.linear(F.layer_norm(x, (width,), g2, b2, EPSILON), w_up, b_up)
        x = x + F.linear(F.gelu(up, approximate="tanh"), w_down, b_down)
    logits = F.linear(F.layer_norm(x, (width,), gain, shift, EPSILON), head)
    return F.cross_entropy(logits.reshape(batch * tokens, -1), targets.reshape(-1))


def _block(x: Array, batch: int, weights: tuple[Array, ...]) -> tuple[Array, Callable[[Array], Any]]:
    """Return a layer, of a row for each token, and a function for the gradients of the rows and of the weights."""
    g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = weights
    normed, norm_pullback = floor_norm(x, g1, b1)
    mixed, attention_pullback = floors.attention(normed @ w_qkv.T + b_qkv, batch, HEADS)
    middle = x + (mixed @ w_out.T + b_out)
    normed2, norm2_pullback = floor_norm(middle, g2, b2)
    active, gelu_pullback = floor_gelu(normed2 @ w_up.T + b_up)

    def pullback(g: Array) -> tuple[Array, list[Array]]:
        dup = gelu_pullback(g @ w_down)
        dmiddle, dg2, db2 = norm2_pullback(dup @ w_up)
        dmiddle += g
        dqkv = attention_pullback(dmiddle @ w_out)
        dx, dg1, db1 = norm_pullback(dqkv @ w_qkv)
        dx += dmiddle
        attention = [dg1, db1, dqkv.T @ normed, dqkv.sum(axis=0), dmiddle.T @ mixed, dmiddle.sum(axis=0)]
        mlp = [dg2, db2, dup.T @ normed2, dup.sum(axis=0), g.T @ active, g.sum(axis=0)]
        return dx, [*attention, *mlp]

    return middle + (active @ w_down.T + b_down), pullback


def floor(words: Array, targets: Array, *weights: Array) -> tuple[Any, Callable[[Any], list[Array]]]:
    """Return the loss, and a function for the gradients, by hand, on one row per token."""
    embedding, places, *inner, gain, shift, head = weights
    batch, tokens = words.shape
    x = (embedding[words] + places).reshape(batch * tokens, -1)
    pullbacks = []
    for layer in range(LAYERS):
        x, block_pullback = _block(x, batch, tuple(inner[12 * layer : 12 * layer + 12]))
        pullbacks.append(block_pullback)
    normed, norm_pullback = floor_norm(x, gain, shift)
    loss, loss_pullback = floors.cross_entropy(normed @ head.T, targets.reshape(-1))

    def pullback(g: Any) -> list[Array]:
        dlogits = loss_pullback(g)
        dx, dgain, dshift = norm_pullback(dlogits @ head)
        found = [dgain, dshift, dlogits.T @ normed]
        for block_pullback in reversed(pullbacks):
            dx, of_weights = block_pullback(dx)
            found[:0] = of_weights
        dembedding = np.zeros_like(embedding)
        np.add.at(dembedding, words.reshape(-1), dx)
        return [dembedding, dx.reshape(batch, tokens, -1).sum(axis=0), *found]

    return loss, pullback


def problem() -> Problem:
    """Return the words, the next ones, and the weights in order of use."""
    random = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        found: Array = (random.standard_normal(shape) * shape[-1] ** -0.5).astype(np.float32)
        return found

    def norm() -> list[Array]:
        return [np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)]

    variables = [draw(WORDS, WIDTH), draw(TOKENS, WIDTH)]
    for _ in range(LAYERS):
        for outer, inner in ((3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)):
            variables += norm() if outer > inner else []
            variables += [draw(outer, inner), np.zeros(outer, np.float32)]
    variables += [*norm(), draw(WORDS, WIDTH)]
    text = random.integers(0, WORDS, (BATCH, TOKENS + 1))
    return Problem([text[:, :-1], text[:, 1:]], variables)
