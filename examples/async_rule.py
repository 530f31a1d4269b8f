"""Derivatives that a remote service computes: an async `ag.Function`, many of which wait at the same time.

    python examples/async_rule.py

Eight branches of one graph each ask a remote service for their derivative. The service takes 50 ms to answer. The
backward sends all eight requests before it waits for the first answer, so it takes 50 ms and not 400.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, final

import numpy as np

import asyncgrad as ag

BRANCHES = 8
LATENCY = 0.050


@final
class Service:
    """Simulates another machine: answers after a latency, and counts the requests that are open."""

    def __init__(self) -> None:
        self.open = self.most_open = 0

    async def slope(self, x: float) -> float:
        """Return the derivative of the sine at x."""
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await asyncio.sleep(LATENCY)
        self.open -= 1
        return float(np.cos(x))


@final
class RemoteSine(ag.Function):
    """sin(x), whose derivative a service computes."""

    @staticmethod
    def forward(ctx: Any, x: ag.Tensor, service: Service) -> Any:
        ctx.save_for_backward(x)
        ctx.service = service
        return np.sin(x)

    @staticmethod
    async def backward(ctx: Any, grad: ag.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * await ctx.service.slope(x.item()), None


async def main() -> None:
    service = Service()
    points = [ag.tensor(float(index), requires_grad=True) for index in range(BRANCHES)]
    total = sum(RemoteSine.apply(point, service) for point in points)

    began = time.perf_counter()
    await total.backward()
    wall = time.perf_counter() - began

    slopes = [point.grad.item() for point in points if point.grad is not None]
    assert np.allclose(slopes, np.cos(range(BRANCHES)))
    print(f"{BRANCHES} gradients, at most {service.most_open} asked for at the same time")
    print(f"one after another {1000 * BRANCHES * LATENCY:.0f} ms, awaited together {1000 * wall:.0f} ms")


if __name__ == "__main__":
    ag.run(main())
