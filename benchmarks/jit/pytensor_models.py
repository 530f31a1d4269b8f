"""The models in PyTensor. Who imports this has PyTensor installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from .. import chain as chains
from .. import transformer as blocks
from ..peers import Array, Problem
from . import gpt as gpts

__all__ = ["chain", "compiled", "gpt", "lstm", "mlp", "transformer"]


def compiled(model: Callable[..., Any], problem: Problem) -> Callable[..., list[Array]]:
    """Return a function of constants, variables and, if there is one, the start, for the output and the gradients."""
    pytensor.config.numba__cache = False
    constants = [_symbol(array) for array in problem.constants]
    variables = [_symbol(array) for array in problem.variables]
    start = None if problem.start is None else _symbol(problem.start)
    output = model(*constants, *variables)
    gradients = pytensor.grad(output if start is None else (output * start).sum(), variables)
    inputs = [*constants, *variables, *([] if start is None else [start])]
    return pytensor.function(inputs, [output, *gradients], mode="NUMBA", trust_input=True)  # type: ignore[no-any-return]


def _symbol(array: Array) -> Any:
    return pt.tensor(dtype=array.dtype.name, shape=array.shape)


def chain(x: Any) -> Any:
    ys = pytensor.scan(
        lambda y, x: y * x + x, outputs_info=x, non_sequences=x, n_steps=chains.ITERATIONS, return_updates=False
    )
    return ys[-1]


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    product = x @ weight.T
    return product if bias is None else product + bias


def cross_entropy(logits: Any, labels: Any) -> Any:
    logarithms = pt.special.log_softmax(logits, axis=1)
    return -logarithms[pt.arange(logits.shape[0]), labels].sum() / np.float32(logits.type.shape[0])


def mlp(x: Any, labels: Any, *layers: Any) -> Any:
    for weight, bias in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
        x = pt.maximum(linear(x, weight, bias), np.float32(0))
    return cross_entropy(linear(x, *layers[-2:]), labels)


def normalize(x: Any, gain: Any, bias: Any) -> Any:
    size = np.float32(x.type.shape[-1])
    centred = x - x.sum(axis=-1, keepdims=True) / size
    variance = (centred * centred).sum(axis=-1, keepdims=True) / size
    return centred / pt.sqrt(variance + np.float32(blocks.EPSILON)) * gain + bias


def block(x: Any, weights: Any, heads: int, mask: Any = None) -> Any:
    """Return a layer of a transformer; `mask` is added to the scores."""
    g1, b1, w_qkv, b_qkv, w_out, b_out, g2, b2, w_up, b_up, w_down, b_down = weights
    batch, tokens, width = x.type.shape
    qkv = linear(normalize(x, g1, b1), w_qkv, b_qkv)
    qkv = qkv.reshape((batch, tokens, 3, heads, width // heads)).transpose(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    scores = q @ k.transpose(0, 1, 3, 2) * np.float32((heads / width) ** 0.5)
    scores = scores if mask is None else scores + mask
    mixed = (pt.special.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3).reshape((batch, tokens, width))
    x = x + linear(mixed, w_out, b_out)
    up = linear(normalize(x, g2, b2), w_up, b_up)
    inner = np.float32((2 / np.pi) ** 0.5) * (up + np.float32(0.044715) * up * up * up)
    return x + linear(np.float32(0.5) * up * (np.float32(1) + pt.tanh(inner)), w_down, b_down)


def transformer(x: Any, *weights: Any) -> Any:
    return block(x, weights, blocks.HEADS)


def lstm(xs: Any, h: Any, c: Any, w: Any, u: Any, bias: Any) -> Any:
    hidden = h.type.shape[1]

    def cell(x: Any, h: Any, c: Any, w: Any, u: Any, bias: Any) -> Any:
        gates = linear(x, w, bias) + linear(h, u)
        i, f, g, o = (gates[:, gate * hidden : (gate + 1) * hidden] for gate in range(4))
        c = pt.sigmoid(f) * c + pt.sigmoid(i) * pt.tanh(g)
        return pt.sigmoid(o) * pt.tanh(c), c

    hs, _ = pytensor.scan(cell, sequences=xs, outputs_info=[h, c], non_sequences=[w, u, bias], return_updates=False)
    return hs[-1]


def gpt(words: Any, targets: Any, *weights: Any) -> Any:
    embedding, places, *inner, gain, shift, head = weights
    batch, tokens = words.type.shape
    x = embedding[words] + places
    mask = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
    for layer in range(gpts.LAYERS):
        x = block(x, inner[12 * layer : 12 * layer + 12], gpts.HEADS, mask)
    logits = linear(normalize(x, gain, shift), head).reshape((batch * tokens, head.type.shape[0]))
    return cross_entropy(logits, targets.reshape((batch * tokens,)))
