"""Parts of models by hand in NumPy: each returns its result, and a function for the gradients of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..peers import Array

__all__ = ["attention", "convolution", "cross_entropy", "pooling"]

Pullback = Callable[[Array], Any]


def cross_entropy(logits: Array, labels: Array) -> tuple[Any, Pullback]:
    """Return the mean over rows of the negative logarithm of the probability of their labels."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    probabilities = np.exp(shifted)
    sums = probabilities.sum(axis=1, keepdims=True)
    probabilities /= sums
    rows = len(labels)
    picked = np.arange(rows), labels

    def pullback(g: Any) -> Array:
        through: Array = probabilities.copy()
        through[picked] -= 1
        through *= np.float32(g) / rows
        return through

    return (np.log(sums[:, 0]) - shifted[picked]).mean(), pullback


def attention(qkv: Array, batch: int, heads: int) -> tuple[Array, Pullback]:
    """Return the causal attention of all heads, from a row of queries, keys and values for each token."""
    tokens, size = len(qkv) // batch, qkv.shape[1] // 3 // heads
    q, k, v = qkv.reshape(batch, tokens, 3, heads, size).transpose(2, 0, 3, 1, 4)
    scale = np.float32(size**-0.5)
    scores = q @ k.swapaxes(-1, -2)
    scores *= scale
    scores += np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
    scores -= scores.max(axis=-1, keepdims=True)
    shares = np.exp(scores, out=scores)
    shares /= shares.sum(axis=-1, keepdims=True)

    def pullback(g: Array) -> Array:
        g = g.reshape(batch, tokens, heads, size).transpose(0, 2, 1, 3)
        dqkv = np.empty((batch, tokens, 3, heads, size), g.dtype)
        dq, dk, dv = dqkv.transpose(2, 0, 3, 1, 4)
        dv[...] = shares.swapaxes(-1, -2) @ g
        dscores = g @ v.swapaxes(-1, -2)
        dscores -= (dscores * shares).sum(axis=-1, keepdims=True)
        dscores *= shares
        dscores *= scale
        dq[...] = dscores @ k
        dk[...] = dscores.swapaxes(-1, -2) @ q
        return dqkv.reshape(batch * tokens, -1)

    return (shares @ v).transpose(0, 2, 1, 3).reshape(batch * tokens, -1), pullback


def convolution(x: Array, weight: Array, bias: Array) -> tuple[Array, Callable[..., Any]]:
    """Return the convolution of images, whose last axis is that of channels, with windows of 3 x 3 and a border of 0.

    The function for the gradients leaves that of `x` out, None, if it is told to.
    """
    batch, height, width, channels = x.shape
    padded = np.zeros((batch, height + 2, width + 2, channels), x.dtype)
    padded[:, 1:-1, 1:-1] = x
    columns = np.empty((batch, height, width, 3, 3, channels), x.dtype)
    for row in range(3):
        for column in range(3):
            columns[:, :, :, row, column] = padded[:, row : row + height, column : column + width]
    rows = columns.reshape(batch * height * width, -1)
    matrix = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)

    def pullback(g: Array, of_x: bool = True) -> tuple[Array | None, Array, Array]:
        g = g.reshape(len(rows), -1)
        dweight = (g.T @ rows).reshape(len(weight), 3, 3, channels).transpose(0, 3, 1, 2)
        if not of_x:
            return None, dweight, g.sum(axis=0)
        dcolumns = (g @ matrix).reshape(columns.shape)
        dpadded = np.zeros_like(padded)
        for row in range(3):
            for column in range(3):
                dpadded[:, row : row + height, column : column + width] += dcolumns[:, :, :, row, column]
        return dpadded[:, 1:-1, 1:-1], dweight, g.sum(axis=0)

    return (rows @ matrix.T + bias).reshape(batch, height, width, -1), pullback


def pooling(x: Array) -> tuple[Array, Pullback]:
    """Return the largest of each 2 x 2 numbers of images; equal ones all get the gradient."""
    batch, height, width, channels = x.shape
    tiles = x.reshape(batch, height // 2, 2, width // 2, 2, channels)
    largest = tiles.max(axis=(2, 4))

    def pullback(g: Array) -> Array:
        found: Array = ((tiles == largest[:, :, None, :, None]) * g[:, :, None, :, None]).reshape(x.shape)
        return found

    return largest, pullback
