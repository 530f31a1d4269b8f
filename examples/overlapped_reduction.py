"""Exchange gradients between replicas while others are still being computed, with async hooks and a final callback.

    python examples/overlapped_reduction.py

Two replicas of a model each see half of a batch. As soon as the gradient of a weight is computed, an async hook
exchanges it with the other replica, over a link that takes 20 ms, while the backward goes on with earlier layers. A
final callback makes the step when all gradients have been exchanged. Six exchanges take little longer than one, and
both replicas end with equal weights.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, final

import numpy as np

import asyncgrad as ag

LAYERS = 6
LATENCY = 0.020


@final
class Link:
    """Simulates a network between two replicas: each sends an array and gets the mean of both."""

    def __init__(self) -> None:
        self._handed_in: dict[str, list[np.ndarray]] = {}
        self._complete: dict[str, asyncio.Event] = {}
        self.open = self.most_open = 0

    async def mean(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return the mean of the arrays that the two replicas send under this name."""
        arrays = self._handed_in.setdefault(name, [])
        complete = self._complete.setdefault(name, asyncio.Event())
        arrays.append(array)
        if len(arrays) == 2:
            complete.set()
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await complete.wait()
        await asyncio.sleep(LATENCY)
        self.open -= 1
        mine, theirs = arrays
        mean: np.ndarray = (mine + theirs) / 2
        return mean


@final
class Replica:
    """A stack of linear layers, and the hooks that keep its weights equal to those of the other replica."""

    def __init__(self, link: Link) -> None:
        random = np.random.default_rng(0)
        self.weights = [ag.tensor(random.standard_normal((16, 16)) / 4, requires_grad=True) for _ in range(LAYERS)]
        for index, weight in enumerate(self.weights):
            weight.register_post_accumulate_grad_hook(self._exchanging(link, str(index)))

    def _exchanging(self, link: Link, name: str) -> Any:
        async def exchange(weight: ag.Tensor) -> None:
            assert weight.grad is not None
            weight.grad = ag.tensor(await link.mean(name, weight.grad.numpy()))
            if name == "0":
                # The first layer gets its gradient last. The callback runs at the end of the backward.
                ag.engine.queue_callback(self.step)

        return exchange

    def step(self) -> None:
        """Make a step of gradient descent with the exchanged gradients."""
        with ag.no_grad():
            for weight in self.weights:
                assert weight.grad is not None
                weight[...] -= 0.01 * weight.grad
                weight.grad = None

    async def train(self, x: np.ndarray) -> None:
        """Make one step on this replica's half of the batch."""
        y = x
        for weight in self.weights:
            y = np.tanh(y @ weight)
        await np.square(y).mean().backward()


async def main() -> None:
    link = Link()
    replicas = [Replica(link), Replica(link)]
    batch = np.random.default_rng(1).standard_normal((8, 16))

    began = time.perf_counter()
    await asyncio.gather(replicas[0].train(batch[:4]), replicas[1].train(batch[4:]))
    wall = time.perf_counter() - began

    pairs = zip(replicas[0].weights, replicas[1].weights, strict=True)
    assert all(np.array_equal(first.numpy(), second.numpy()) for first, second in pairs)
    print(f"{2 * LAYERS} gradients exchanged, at most {link.most_open} on their way at the same time")
    print(f"one after another {1000 * LAYERS * LATENCY:.0f} ms, beside the backward {1000 * wall:.0f} ms")


if __name__ == "__main__":
    ag.run(main())
