"""A thousand small concurrent backward passes on one event loop: measures the cost to start and end a backward."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, final

import numpy as np

from .peers import PEERS, Array, Models, Peer, Problem, hips_numpy, mygrad
from .runner import Benchmark

__all__ = ["BENCHMARKS", "Many"]

PASSES = 1_000
WIDTH = 16


def asyncgrad_model(x: Array, first: Any, second: Any) -> Any:
    return np.tanh(np.tanh(x @ first) @ second)


def torch_model(x: Any, first: Any, second: Any) -> Any:
    return ((x @ first).tanh() @ second).tanh()


def hips_model(x: Array, first: Any, second: Any) -> Any:
    return hips_numpy.tanh(hips_numpy.dot(hips_numpy.tanh(hips_numpy.dot(x, first)), second))


def mygrad_model(x: Array, first: Any, second: Any) -> Any:
    return mygrad.tanh(mygrad.matmul(mygrad.tanh(mygrad.matmul(x, first)), second))


def floor(x: Array, first: Array, second: Array) -> tuple[Array, Callable[[Array], list[Array]]]:
    """Return the output, and a function for the gradients, by hand."""
    hidden = np.tanh(x @ first)
    out = np.tanh(hidden @ second)

    def pullback(g: Array) -> list[Array]:
        g = g * (1 - out * out)
        through = g @ second.T * (1 - hidden * hidden)
        return [x.T @ through, hidden.T @ g]

    return out, pullback


@final
class Many(Benchmark):
    """Two tanh layers of width 16, a batch of 8, float64; each pass has its own weights.

    asyncgrad's passes are awaited by one `asyncio.gather`; the other peers run theirs one after another.
    """

    title = f"{PASSES:,} small models"
    params = (tuple(PEERS),)
    models: ClassVar[Models] = {
        "asyncgrad": asyncgrad_model,
        "torch": torch_model,
        "HIPS": hips_model,
        "MyGrad": mygrad_model,
        "floor": floor,
    }
    passes: list[Peer]

    def setup(self, peer: str) -> None:
        """Create a model for every pass."""
        random = np.random.default_rng(0)
        self.passes = []
        for _ in range(PASSES):
            x, start = random.standard_normal((2, 8, WIDTH))
            weights = random.standard_normal((2, WIDTH, WIDTH)) / WIDTH**0.5
            self.passes.append(PEERS[peer](self.models[peer], Problem([x], list(weights), start)))

    def gradients(self) -> list[Array]:
        """Return the gradients of all passes."""
        return [gradient for one in self.passes for gradient in one.gradients()]

    def prepare_backward(self) -> None:
        """Run every forward."""
        for one in self.passes:
            one.clear()
            one.forward()

    async def time_backward(self) -> None:
        """Time all backward passes, run concurrently if the peer can."""
        started = [one.backward() for one in self.passes]
        awaitable = [one for one in started if one is not None]
        if awaitable:
            await asyncio.gather(*awaitable)

    prepare_backward_one_by_one = prepare_backward

    async def time_backward_one_by_one(self) -> None:
        """Time all backward passes, run one after another."""
        for one in self.passes:
            pending: Awaitable[None] | None = one.backward()
            if pending is not None:
                await pending


BENCHMARKS = [Many]
