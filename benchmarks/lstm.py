"""An LSTM: 100 steps, input and hidden 32 wide, batch 16, float32, written cell by cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np

from asyncgrad import nn

from .peers import PEERS, Array, Models, Problem, hips_numpy, mygrad, torch
from .runner import RepeatedBenchmark, StepBenchmark

__all__ = ["BENCHMARKS", "Lstm", "asyncgrad_model", "draw_problem", "torch_model"]

STEPS, BATCH, HIDDEN = 100, 16, 32


def asyncgrad_model(xs: Array, h: Array, c: Array, w: Any, u: Any, bias: Any) -> Any:
    for x in xs:
        gates = nn.linear(x, w, bias) + nn.linear(h, u)
        i, f, g, o = np.split(gates, 4, axis=1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * nn.tanh(g)
        h = nn.sigmoid(o) * nn.tanh(c)
    return h


def torch_model(xs: Any, h: Any, c: Any, w: Any, u: Any, bias: Any) -> Any:
    linear = torch.nn.functional.linear
    for x in xs:
        gates = linear(x, w, bias) + linear(h, u)
        i, f, g, o = gates.chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h


def hips_model(xs: Array, h: Any, c: Any, w: Any, u: Any, bias: Any) -> Any:
    dot, tanh, exp = hips_numpy.dot, hips_numpy.tanh, hips_numpy.exp
    for x in xs:
        gates = dot(x, w.T) + bias + dot(h, u.T)
        i, f, g, o = hips_numpy.split(gates, 4, axis=1)
        c = c / (1 + exp(-f)) + tanh(g) / (1 + exp(-i))
        h = tanh(c) / (1 + exp(-o))
    return h


def mygrad_model(xs: Array, h: Any, c: Any, w: Any, u: Any, bias: Any) -> Any:
    matmul, tanh, sigmoid = mygrad.matmul, mygrad.tanh, mygrad.nnet.sigmoid
    for x in xs:
        gates = matmul(x, w.T) + bias + matmul(h, u.T)
        i, f, g, o = (gates[:, gate * HIDDEN : (gate + 1) * HIDDEN] for gate in range(4))
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
    return h


def floor(
    xs: Array, h: Array, c: Array, w: Array, u: Array, bias: Array
) -> tuple[Array, Callable[[Array], list[Array]]]:
    """Return the last hidden state, and a function for the gradients, by hand."""
    saved = []
    for x in xs:
        gates = x @ w.T + bias + h @ u.T
        squashed = 1 / (1 + np.exp(-gates))
        i, f, o = squashed[:, :HIDDEN], squashed[:, HIDDEN : 2 * HIDDEN], squashed[:, 3 * HIDDEN :]
        g = np.tanh(gates[:, 2 * HIDDEN : 3 * HIDDEN])
        before = h, c
        c = f * c + i * g
        t = np.tanh(c)
        h = o * t
        saved.append((x, *before, i, f, g, o, t))

    def pullback(dh: Array) -> list[Array]:
        dw, du, dbias = np.zeros_like(w), np.zeros_like(u), np.zeros_like(bias)
        dc = np.zeros_like(dh)
        dgates = np.empty((BATCH, 4 * HIDDEN), np.float32)
        for x, h, c, i, f, g, o, t in reversed(saved):
            dc = dc + dh * o * (1 - t * t)
            dgates[:, :HIDDEN] = dc * g * i * (1 - i)
            dgates[:, HIDDEN : 2 * HIDDEN] = dc * c * f * (1 - f)
            dgates[:, 2 * HIDDEN : 3 * HIDDEN] = dc * i * (1 - g * g)
            dgates[:, 3 * HIDDEN :] = dh * t * o * (1 - o)
            dw += dgates.T @ x
            du += dgates.T @ h
            dbias += dgates.sum(axis=0)
            dc = dc * f
            dh = dgates @ u
        return [dw, du, dbias]

    return h, pullback


def draw_problem(steps: int, batch: int, hidden: int) -> Problem:
    """Return the sequence, an initial state, the stacked weights of the four gates, and the gradient of the output."""
    random = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    scale = np.float32(hidden**-0.5)
    constants = [draw(steps, batch, hidden), np.zeros((batch, hidden), np.float32), draw(batch, hidden)]
    weights = [draw(4 * hidden, hidden) * scale, draw(4 * hidden, hidden) * scale, draw(4 * hidden)]
    return Problem(constants, weights, draw(batch, hidden))


@final
class Lstm(RepeatedBenchmark, StepBenchmark):
    """The gradient starts at the last hidden state; the weights are shared by all steps."""

    title = "LSTM, 100 steps, hidden 32, batch 16"
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
        """Return the sequence, an initial state, and the stacked weights of the four gates."""
        return draw_problem(STEPS, BATCH, HIDDEN)


BENCHMARKS = [Lstm]
