"""A stack of 64 layers, each checkpointed: x + tanh(x W) V, width 64, 128 inside, batch 2,048, float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np

import asyncgrad as ag

from .peers import PEERS, Array, Models, Problem, torch
from .runner import ModelBenchmark

__all__ = ["BENCHMARKS", "CheckpointedStack", "floor", "problem", "runs"]

LAYERS, WIDTH, INSIDE, BATCH = 64, 64, 128, 2048

#: The ways to run the layers, which are the names of the rows.
KINDS = ("no checkpoints", "reentrant", "on saved-tensor hooks", "a chain with 8 states")


def asyncgrad_layer(x: Any, w: Any, v: Any) -> Any:
    return x + np.tanh(x @ w) @ v


def torch_layer(x: Any, w: Any, v: Any) -> Any:
    return x + torch.tanh(x @ w) @ v


def asyncgrad_model(kind: str, x: Any, *weights: Any) -> Any:
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    if kind == KINDS[3]:
        return ag.checkpoint_chain([functools.partial(_layer_of, pair) for pair in pairs], x, snapshots=8)
    for w, v in pairs:
        if kind == KINDS[0]:
            x = asyncgrad_layer(x, w, v)
        else:
            x = ag.checkpoint(asyncgrad_layer, x, w, v, use_reentrant=kind == KINDS[1])
    return x


def _layer_of(pair: tuple[Any, Any], x: Any) -> Any:
    return asyncgrad_layer(x, *pair)


def torch_model(kind: str, x: Any, *weights: Any) -> Any:
    for w, v in zip(weights[::2], weights[1::2], strict=True):
        if kind == KINDS[0]:
            x = torch_layer(x, w, v)
        else:
            x = torch.utils.checkpoint.checkpoint(torch_layer, x, w, v, use_reentrant=kind == KINDS[1])
    return x


def floor(kind: str, x: Array, *weights: Array) -> tuple[Array, Callable[[Array], list[Array]]]:
    """Return the output, and a function for the gradients, by hand; with checkpoints, only layer inputs are kept."""
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    kept = []
    for w, v in pairs:
        inside = np.tanh(x @ w)
        kept.append((x, inside if kind == KINDS[0] else None))
        x = x + inside @ v

    def pullback(g: Array) -> list[Array]:
        found: list[Array] = []
        for w, v in reversed(pairs):
            x, inside = kept.pop()
            inside = np.tanh(x @ w) if inside is None else inside
            dinside = g @ v.T
            found.append(inside.T @ g)
            dinside = dinside * (1 - inside * inside)
            found.append(x.T @ dinside)
            g = g + dinside @ w.T
        return [g, *reversed(found)]

    return x, pullback


def problem() -> Problem:
    """Return the input, the weights in order of use, and the gradient of the output."""
    random = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    variables = [draw(BATCH, WIDTH)]
    for _ in range(LAYERS):
        variables += [draw(WIDTH, INSIDE) / np.float32(8), draw(INSIDE, WIDTH) / np.float32(16)]
    return Problem([], variables, draw(BATCH, WIDTH))


def runs(peer: str, kind: str) -> bool:
    """Return whether a peer has checkpoints of a kind; otherwise it is measured with one per layer."""
    return peer in ("asyncgrad", "floor") or kind != KINDS[3]


@final
class CheckpointedStack(ModelBenchmark):
    """Times forward and backward together, since checkpoints move work from one to the other."""

    title = "64 layers, {}"
    section = (
        "Forward and backward of 64 layers, each checkpointed ([memory.md](memory.md) says what that saves). "
        "PyTorch, which has no checkpoints under a budget, checkpoints each layer in the last row."
    )
    params = (tuple(peer for peer in PEERS if peer in ("asyncgrad", "torch", "floor")), KINDS)

    @staticmethod
    def problem(*params: Any) -> Problem:
        """Return the arrays of the stack."""
        return problem()

    def setup(self, peer: str, *params: Any) -> None:
        """Create the peer; PyTorch, which has no such chain, checkpoints each layer in that row."""
        (kind,) = params
        models: Models = {"asyncgrad": asyncgrad_model, "torch": torch_model, "floor": floor}
        model = functools.partial(models[peer], kind if runs(peer, kind) else KINDS[2])
        self.peer = PEERS[peer](model, self.problem())

    def prepare_step(self) -> None:
        """Clear the gradients, as an optimizer does between two steps."""
        self.peer.clear()

    def time_step(self) -> Any:
        """Time forward and backward."""
        self.peer.forward()
        return self.peer.backward()

    models: ClassVar[Models] = {}


BENCHMARKS = [CheckpointedStack]
