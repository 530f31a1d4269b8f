"""A transformer block: width 64, 32 tokens, batch 8, 4 heads, pre-norm, an MLP four times as wide, float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np

from asyncgrad import nn

from .peers import PEERS, Array, Models, Problem, hips_numpy, mygrad, torch
from .runner import RepeatedBenchmark, StepBenchmark

__all__ = ["BENCHMARKS", "Transformer", "asyncgrad_model", "draw_problem", "torch_model"]

WIDTH, TOKENS, BATCH, HEADS = 64, 32, 8, 4
EPSILON = 1e-5


def asyncgrad_model(x: Any, *weights: Any, heads: int = HEADS) -> Any:
    g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = weights
    batch, tokens, width = x.shape
    qkv = nn.linear(nn.layer_norm(x, (width,), g1, b1, EPSILON), w_qkv, b_qkv)
    q, k, v = qkv.reshape(batch, tokens, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    mixed = nn.scaled_dot_product_attention(q, k, v).transpose(0, 2, 1, 3).reshape(batch, tokens, width)
    x = x + nn.linear(mixed, w_out, b_out)
    up = nn.linear(nn.layer_norm(x, (width,), g2, b2, EPSILON), w_up, b_up)
    return x + nn.linear(nn.gelu(up, approximate="tanh"), w_down, b_down)


def torch_model(x: Any, *weights: Any, heads: int = HEADS) -> Any:
    F = torch.nn.functional
    g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = weights
    batch, tokens, width = x.shape
    qkv = F.linear(F.layer_norm(x, (width,), g1, b1, EPSILON), w_qkv, b_qkv)
    q, k, v = qkv.reshape(batch, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
    x = x + F.linear(mixed, w_out, b_out)
    up = F.linear(F.layer_norm(x, (width,), g2, b2, EPSILON), w_up, b_up)
    return x + F.linear(F.gelu(up, approximate="tanh"), w_down, b_down)


def hips_model(x: Any, *weights: Any) -> Any:
    F = hips_numpy
    g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = weights

    def normalize(x: Any, gain: Any, bias: Any) -> Any:
        centred = x - F.mean(x, axis=-1, keepdims=True)
        return centred / F.sqrt(F.mean(centred**2, axis=-1, keepdims=True) + EPSILON) * gain + bias

    qkv = F.dot(normalize(x, g1, b1), w_qkv.T) + b_qkv
    q, k, v = F.transpose(F.reshape(qkv, (BATCH, TOKENS, 3, HEADS, WIDTH // HEADS)), (2, 0, 3, 1, 4))
    scores = F.matmul(q, F.swapaxes(k, -1, -2)) * (HEADS / WIDTH) ** 0.5
    shares = F.exp(scores - F.max(scores, axis=-1, keepdims=True))
    shares = shares / F.sum(shares, axis=-1, keepdims=True)
    mixed = F.reshape(F.transpose(F.matmul(shares, v), (0, 2, 1, 3)), (BATCH, TOKENS, WIDTH))
    x = x + F.dot(mixed, w_out.T) + b_out
    up = F.dot(normalize(x, g2, b2), w_up.T) + b_up
    gelu = 0.5 * up * (1 + F.tanh((2 / np.pi) ** 0.5 * (up + 0.044715 * up**3)))
    return x + F.dot(gelu, w_down.T) + b_down


def mygrad_model(x: Any, *weights: Any) -> Any:
    F = mygrad
    g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = weights
    # MyGrad converts a Python number to a float64 array, and all later results would be float64.
    half, one, epsilon = np.float32(0.5), np.float32(1), np.float32(EPSILON)

    def normalize(x: Any, gain: Any, bias: Any) -> Any:
        centred = x - F.mean(x, axis=-1, keepdims=True)
        return centred / F.sqrt(F.mean(F.square(centred), axis=-1, keepdims=True) + epsilon) * gain + bias

    qkv = F.matmul(normalize(x, g1, b1), w_qkv.T) + b_qkv
    qkv = F.transpose(F.reshape(qkv, (BATCH, TOKENS, 3, HEADS, WIDTH // HEADS)), (2, 0, 3, 1, 4))
    q, k, v = qkv[0], qkv[1], qkv[2]
    scores = F.matmul(q, F.swapaxes(k, -1, -2)) * np.float32((HEADS / WIDTH) ** 0.5)
    mixed = F.transpose(F.matmul(F.nnet.softmax(scores), v), (0, 2, 1, 3))
    x = x + F.matmul(F.reshape(mixed, (BATCH, TOKENS, WIDTH)), w_out.T) + b_out
    up = F.matmul(normalize(x, g2, b2), w_up.T) + b_up
    inner = np.float32((2 / np.pi) ** 0.5) * (up + np.float32(0.044715) * (up * up * up))
    return x + F.matmul(half * up * (one + F.tanh(inner)), w_down.T) + b_down


Pullback = Callable[[Array], Any]


def floor_norm(x: Array, gain: Array, bias: Array) -> tuple[Array, Pullback]:
    """Return the layer normalization of rows, and a function for the gradients of x, gain and bias."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + EPSILON)
    centred *= scale

    def pullback(g: Array) -> tuple[Array, Array, Array]:
        scaled = g * gain
        shared = scaled - scaled.mean(axis=-1, keepdims=True)
        shared -= centred * (scaled * centred).mean(axis=-1, keepdims=True)
        return shared * scale, (g * centred).sum(axis=0), g.sum(axis=0)

    return centred * gain + bias, pullback


def floor_attention(qkv: Array) -> tuple[Array, Pullback]:
    """Return the attention of all heads from rows of queries, keys and values, and a function for their gradient."""
    size = WIDTH // HEADS
    q, k, v = qkv.reshape(BATCH, TOKENS, 3, HEADS, size).transpose(2, 0, 3, 1, 4)
    scale = size**-0.5
    scores = q @ k.swapaxes(-1, -2) * scale
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)

    def pullback(g: Array) -> Array:
        g = g.reshape(BATCH, TOKENS, HEADS, size).transpose(0, 2, 1, 3)
        dqkv = np.empty((BATCH, TOKENS, 3, HEADS, size), g.dtype)
        dq, dk, dv = dqkv.transpose(2, 0, 3, 1, 4)
        dv[...] = shares.swapaxes(-1, -2) @ g
        dscores = g @ v.swapaxes(-1, -2)
        dscores -= (dscores * shares).sum(axis=-1, keepdims=True)
        dscores *= shares * scale
        dq[...] = dscores @ k
        dk[...] = dscores.swapaxes(-1, -2) @ q
        return dqkv.reshape(BATCH * TOKENS, 3 * WIDTH)

    return (shares @ v).transpose(0, 2, 1, 3).reshape(BATCH * TOKENS, WIDTH), pullback


def floor_gelu(x: Array) -> tuple[Array, Pullback]:
    """Return GELU in its tanh approximation, and a function for its gradient."""
    factor = (2 / np.pi) ** 0.5
    square = x * x
    t = np.tanh(factor * x * (1 + 0.044715 * square))

    def pullback(g: Array) -> Array:
        slope: Array = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * factor * (1 + 3 * 0.044715 * square)
        return g * slope

    return 0.5 * x * (1 + t), pullback


def floor(x: Array, *weights: Array) -> tuple[Array, Callable[[Array], list[Array]]]:
    """Return the output of the block, computed on one row per token, and a function for the gradients, by hand."""
    g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = weights
    rows = x.reshape(BATCH * TOKENS, WIDTH)
    normed, norm_pullback = floor_norm(rows, g1, b1)
    mixed, attention_pullback = floor_attention(normed @ w_qkv.T + b_qkv)
    middle = rows + (mixed @ w_out.T + b_out)
    normed2, norm2_pullback = floor_norm(middle, g2, b2)
    active, gelu_pullback = floor_gelu(normed2 @ w_up.T + b_up)
    out = middle + (active @ w_down.T + b_down)

    def pullback(g: Array) -> list[Array]:
        g = g.reshape(BATCH * TOKENS, WIDTH)
        dup = gelu_pullback(g @ w_down)
        dmiddle, dg2, db2 = norm2_pullback(dup @ w_up)
        dmiddle += g
        dqkv = attention_pullback(dmiddle @ w_out)
        drows, dg1, db1 = norm_pullback(dqkv @ w_qkv)
        drows += dmiddle
        attention = [dg1, db1, dqkv.T @ normed, dqkv.sum(axis=0), dmiddle.T @ mixed, dmiddle.sum(axis=0)]
        mlp = [dg2, db2, dup.T @ normed2, dup.sum(axis=0), g.T @ active, g.sum(axis=0)]
        return [drows.reshape(x.shape), *attention, *mlp]

    return out.reshape(x.shape), pullback


def draw_problem(batch: int, tokens: int, width: int) -> Problem:
    """Return the input, the weights in order of use, and the gradient of the output."""
    random = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    variables = [draw(batch, tokens, width)]
    for outer, inner in ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width)):
        if outer > inner:  # the first linear layer after each normalization
            variables += [1 + draw(width) / 10, draw(width) / 10]
        variables += [draw(outer, inner) * np.float32(inner**-0.5), draw(outer) / 10]
    return Problem([], variables, draw(batch, tokens, width))


@final
class Transformer(RepeatedBenchmark, StepBenchmark):
    """A block in the middle of a model: its input gets a gradient too."""

    title = "transformer block, d 64, T 32, batch 8, 4 heads"
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
        """Return the input, the weights in order of use, and the gradient of the output."""
        return draw_problem(BATCH, TOKENS, WIDTH)


BENCHMARKS = [Transformer]
