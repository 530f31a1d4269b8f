"""Train two replicas of a model, whose gradients are averaged while the backward goes on.

    python examples/data_parallel.py

Each replica sees half of a batch. The link between them takes 20 ms for each bucket of gradients, and each layer's
backward takes 10 ms on a device elsewhere. As soon as a bucket is full it is exchanged, beside the backward of earlier
layers. Afterwards a replica fails, and no gradient of the other one changes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, final

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim

LAYERS, WIDTH = 6, 16
LATENCY, COMPUTATION = 0.020, 0.010


@final
class Link:
    """Simulates a network: an exchange takes some time."""

    def __init__(self, member: Any) -> None:
        self._member = member
        self.rank, self.size = member.rank, member.size

    async def all_reduce(self, key: tuple[int, ...], array: np.ndarray) -> np.ndarray:
        """Return the sum over the replicas."""
        await asyncio.sleep(LATENCY)
        total: np.ndarray = await self._member.all_reduce(key, array)
        return total

    def abort(self, round_number: int, reason: str) -> bool:
        """End a round for all replicas."""
        return bool(self._member.abort(round_number, reason))


@final
class Slow(ag.Function):
    """Stands for a device elsewhere: its backward takes some time, which the loop has for other work."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1.0

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(COMPUTATION)
        return grad


@final
class Net(nn.Module):
    """A stack of linear layers."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = Slow.apply(np.tanh(layer(x)))
        return x


async def step(parallel: Any, x: np.ndarray, target: np.ndarray) -> float:
    """Run the forward and the backward of one replica; return its loss."""
    with parallel.step():
        loss = np.square(parallel(x) - target).mean()
        await loss.backward()
    return float(loss.item())


async def main() -> None:
    group = ag.distributed.InProcessGroup(2)
    # A bucket has the weight and the bias of one layer.
    size = 8 * WIDTH * (WIDTH + 1)
    models = [Net(), Net()]
    replicas = [
        ag.distributed.DataParallel(model, Link(group.member(rank)), bucket_bytes=size)
        for rank, model in enumerate(models)
    ]
    optimizers = [optim.SGD(model, lr=0.5) for model in models]
    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((2, 32, WIDTH)), 0.1 * rng.standard_normal((2, 32, WIDTH))

    await asyncio.gather(*(one.synchronize() for one in replicas))
    walls, losses = [], []
    for _ in range(5):
        began = time.perf_counter()
        losses.append(sum(await asyncio.gather(*map(step, replicas, x, target))) / 2)
        walls.append(time.perf_counter() - began)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    exchanges = LAYERS * LATENCY
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at last")
    print(
        f"{LAYERS} exchanges one after another {1000 * exchanges:.0f} ms, "
        f"the backward {1000 * LAYERS * COMPUTATION:.0f} ms"
    )
    print(f"both, and the vote, together {1000 * min(walls):.0f} ms")
    pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
    print(f"weights have the same bits: {all(np.array_equal(a.numpy(), b.numpy()) for a, b in pairs)}")

    wrong = step(replicas[1], x[1], np.zeros(3))
    failed, other = await asyncio.gather(step(replicas[0], x[0], target[0]), wrong, return_exceptions=True)
    print(f"replica 1 failed with {type(other).__name__}, and replica 0 with {type(failed).__name__}")
    print(f"gradients left behind: {sum(weight.grad is not None for weight in models[0].parameters())}")


if __name__ == "__main__":
    ag.run(main())
